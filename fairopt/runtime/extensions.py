"""What other distributions add by entry points, and which of them to install where something is missing.

An entry point is loaded when it is needed, and one that breaks stops nothing else.
"""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from fairopt.errors import MissingExtra

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# The groups of entry points, and what is in each.
READERS = "fairopt.readers"  # kinds of files that `fairopt.read` takes
JOBS = "fairopt.jobs"  # kinds of files of jobs for simulations
EXPOSITIONS = "fairopt.expositions"  # functions of an answer and input_time, by the ending of what `solve` writes
COMMANDS = "fairopt.commands"  # modules that register a command, or functions
POLICIES = "fairopt.policies"  # policies with a short name
SCHEDULERS = "fairopt.schedulers"  # schedulers with a method `audit`, for `fairopt audit`
SCHEMAS = "fairopt.schemas"  # packages whose folder holds JSON Schemas of what commands print
CLUSTERS = "fairopt-clusters"
INSTALL = "pip install . ./clusters"  # in a checkout of the repository, as neither distribution is on an index
OF_CLUSTERS = {  # what that distribution brings, for errors where it is not installed
    COMMANDS: ("quotas", "queues", "report"),
    POLICIES: ("kueue", "slurm"),
    SCHEDULERS: ("kai", "kueue", "slurm", "volcano", "volcano-capacity", "volcano-hdrf", "yunikorn"),
}
OF_ITS_READERS = {  # patterns of names of files, and keys of documents
    "Slurm": (
        *("jobs.json", "jobs.yaml", "jobs.yml", "nodes.txt", "slurm.conf", "associations.*", "sacctmgr.txt"),
        *("sshare.*", "sacct.*", "jobs", "nodes"),
    ),
    "Kubernetes": (
        *("nodes.json", "pods.json", "workloads.json", "clusterqueues.json", "localqueues.json", "cohorts.json"),
        *("resourceflavors.json", "resourcequotas.json", "podgroups.json", "kind", "apiVersion", "rawObjects"),
    ),
    "YARN or YuniKorn": ("fair-scheduler.xml", "capacity-scheduler.xml", "queues.yaml", "queues.yml", "partitions"),
    "ClusterData 2019": ("instance_events*", "machine_events*", "collection_events*"),
    "the openb trace": ("openb_*",),
}
OF_ITS_ENDINGS = {"Kubernetes": ("*.yaml", "*.yml"), "KAI": ("*.zip",)}  # where nothing else is known
OF_ITS_OPTIONS = ("users", "tasks", "resources", "capacity", "at", "pods", "capacity_scale")  # of its readers

MOVED = {  # names of this package that are elsewhere now; for one version
    "fairopt.Allocation.quotas": "fairopt_clusters.quotas",
    **dict.fromkeys(
        (f"fairopt.datasets.{name}" for name in ("REQUEST_TYPES", "heavy_light_demands", "jiang_wu_demands")),
        "in benchmarks/papers/jiang_wu_2021_demands.py of its repository",
    ),
    "fairopt.datasets.RequestRounds": "in benchmarks/papers/hamzeh_2021_requests.py of its repository",
    **{f"fairopt.datasets.{name}": f"fairopt_clusters.{name}" for name in ("Queue", "QueueTree")},
    **{
        f"fairopt.datasets.{name}": f"fairopt_clusters.read_{name}"
        for name in ("clusterdata2019", "gavel_throughputs", "kubernetes", "openb", "queues", "slurm")
    },
    "fairopt.deployed": "fairopt_clusters.schedulers",
    "fairopt.operate": "fairopt.questions",
    **{f"fairopt.policies.{name}": f"fairopt_clusters.policies.{name}" for name in ("FairTree", "Kueue")},
    **{
        f"fairopt.report.{name}": f"fairopt_clusters.report.{name}"
        for name in ("ClusterReport", "cluster_report", "prometheus")
    },
    **{
        f"fairopt.questions.{name}": f"fairopt_clusters.quotas.{name}"
        for name in ("Change", "Quota", "QuotaChanges", "Quotas")
    },
}


@cache
def points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; of several with one name the first that is found."""
    from importlib.metadata import entry_points  # takes 20 ms

    by_name: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        by_name.setdefault(point.name, point)
    return by_name


def loaded(group: str) -> Iterator[tuple[str, Any]]:
    """The objects of a group by name; those that break are left out, and the log says why."""
    for name, point in points(group).items():
        try:
            yield name, point.load()
        except (Exception, SystemExit) as error:  # of somebody else's code
            _BROKEN[group, name] = f"{name} of {point.value} breaks: {error!r}"
            logging.getLogger("fairopt").warning("%s %s", group, _BROKEN[group, name])


_BROKEN: dict[tuple[str, str], str] = {}  # by group and name


def broken(group: str) -> str:
    """What to add to an error that nothing fits, if something in the group breaks: what, and why."""
    texts = [text for (of, _), text in _BROKEN.items() if of == group]
    return f" ({group}: {'; '.join(texts)})" if texts else ""


def installed() -> bool:
    """Whether the readers of that distribution are there, and do not break."""
    readers = points(READERS).items()
    return any(of.value.startswith("fairopt_clusters.") and (READERS, name) not in _BROKEN for name, of in readers)


def clusters_found() -> bool:
    """Whether that distribution has readers, even if they break."""
    return any(point.value.startswith("fairopt_clusters.") for point in points(READERS).values())


def looks_like(names: Iterable[str], by_ending: bool = False) -> str:
    """The kind of some names of files, or keys of a document, if the distribution that reads it is not installed."""
    known, names = OF_ITS_ENDINGS if by_ending else OF_ITS_READERS, [*names]
    kind = next((kind for kind, patterns in known.items() if any(fnmatch.filter(names, one) for one in patterns)), "")
    return "" if kind and installed() else kind


def missing(purpose: str) -> MissingExtra:
    """The error that names the distribution which somebody needs for a purpose."""
    return MissingExtra(CLUSTERS, "", purpose, INSTALL)


def moved(place: str) -> str:
    """The end of the message about a missing name, such as ``fairopt.policies.Kueue``: where it is now, if it moved."""
    return f": it is now {MOVED[place]}" if place in MOVED else ""
