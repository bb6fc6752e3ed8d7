"""What other distributions add by entry points, and which of them to install where something is missing.

An entry point is loaded when it is needed, and one that breaks stops nothing else.
"""

from __future__ import annotations

import fnmatch
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from fairopt.errors import FairoptError, InvalidInstance, MissingExtra

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
CLUSTERS, _ITS = "fairopt-clusters", "fairopt_clusters."  # a distribution, and how its modules begin
INSTALL = "pip install . ./clusters"  # in a checkout of the repository, as neither distribution is on an index
OF_CLUSTERS = {  # what that distribution brings, for errors where it is not installed
    COMMANDS: ("quotas", "queues", "report"),
    POLICIES: ("kueue", "slurm"),
    SCHEDULERS: ("kai", "kueue", "slurm", "volcano", "volcano-capacity", "volcano-hdrf", "yunikorn"),
}
OF_ITS_READERS = {  # patterns of names of files, and keys of documents
    "Slurm": (
        *("jobs.json", "jobs.yaml", "jobs.yml", "nodes.txt", "slurm.conf", "associations.*", "sacctmgr.txt"),
        *("sshare.*", "sacct.*", "squeue.txt", "qos.txt", "gres.conf", "jobs", "nodes"),
    ),
    "the Standard Workload Format": ("*.swf", "*.swf.gz"),
    "Kubernetes": (
        *("nodes.json", "pods.json", "workloads.json", "clusterqueues.json", "localqueues.json", "cohorts.json"),
        *("resourceflavors.json", "resourcequotas.json", "podgroups.json", "kind", "apiVersion", "rawObjects"),
    ),
    "YARN or YuniKorn": ("fair-scheduler.xml", "capacity-scheduler.xml", "queues.yaml", "queues.yml", "partitions"),
    "ClusterData 2019": ("instance_events*", "machine_events*", "collection_events*"),
    "the openb trace": ("openb_*",),
}
OF_ITS_ENDINGS = {"Kubernetes": ("*.yaml", "*.yml"), "KAI": ("*.zip",)}  # where nothing else is known
# of its readers
OF_ITS_OPTIONS = ("users", "tasks", "resources", "capacity", "at", "pods", "capacity_scale", "limit_default")

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
    **{f"fairopt.report.{name}": f"fairopt_clusters.report.{name}" for name in ("ClusterReport", "prometheus")},
    "fairopt.report.cluster_report": "fairopt_clusters.report",
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
    """The objects of a group by name; those that break are left out, and `warn` and `broken` say why."""
    for name, point in points(group).items():
        try:
            yield name, point.load()
        except (Exception, SystemExit) as error:  # of somebody else's code
            leave_out(group, name, f"breaks: {error!r}")


_BROKEN: dict[tuple[str, str], tuple[str, str]] = {}  # by group and name: the module, and what is wrong
_TOLD = set[str]()  # modules and readers of which the log says that they break


def leave_out(group: str, name: str, why: str) -> None:
    """Note that what an entry point names is of no use."""
    value = points(group)[name].value
    _BROKEN[group, name] = value.partition(":")[0], f"{name} of {value} {why}"


def warn(group: str) -> None:
    """Log what breaks in a group, where somebody needs it: a line for each module."""
    for (of, _), (module, text) in _BROKEN.items():
        if of == group:
            warn_once(module, f"{group} {text}")


def warn_once(what: str, text: str) -> None:
    """Log a warning about something, the first in a process."""
    if what not in _TOLD:
        _TOLD.add(what)
        logging.getLogger("fairopt").warning("%s", text)


def broken(group: str, module: str = "") -> str:
    """What to add to an error that nothing fits, if something in the group breaks: what, and why."""
    texts = [text for (of, _), (at, text) in _BROKEN.items() if of == group and at.startswith(module)]
    return f" ({group}: {'; '.join(texts)})" if texts else ""


def installed() -> bool:
    """Whether the readers of that distribution are there, and do not break."""
    return not broken(READERS, _ITS) and any(point.value.startswith(_ITS) for point in points(READERS).values())


def looks_like(names: Iterable[str], by_ending: bool = False) -> str:
    """The kind of some names of files, or keys of a document, if the distribution that reads it is not installed."""
    known, names = OF_ITS_ENDINGS if by_ending else OF_ITS_READERS, [*names]
    kind = next((kind for kind, patterns in known.items() if any(fnmatch.filter(names, one) for one in patterns)), "")
    return "" if kind and installed() else kind


def missing(purpose: str) -> FairoptError:
    """The error that names the distribution which somebody needs for a purpose, or says why its readers break."""
    if breaks := broken(READERS, _ITS):
        return InvalidInstance(f"{purpose} needs {CLUSTERS}, whose readers are not there{breaks}")
    return MissingExtra(CLUSTERS, "", purpose, INSTALL)


def moved(place: str) -> str:
    """The end of the message about a missing name, such as ``fairopt.policies.Kueue``: where it is now, if it moved."""
    if place not in MOVED:
        return ""
    install = MOVED[place].startswith("fairopt_clusters") and not installed()
    return f": it is now {MOVED[place]}" + f", of {CLUSTERS}, which is not installed: {INSTALL}" * install


class _Moved:
    """Says where a name is that moved also when it is imported: ``from fairopt.policies import Kueue``.

    Python then drops the message of the package's ``__getattr__``, and looks for a module of that name. First of all
    finders, as an updated checkout may keep empty folders of packages that moved.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        """Raise the error about a name that moved; others are for the next finder."""
        if name in MOVED:
            package, _, short = name.rpartition(".")
            raise ImportError(f"cannot import name {short!r} from {package!r}{moved(name)}", name=name)


sys.meta_path.insert(0, _Moved)
