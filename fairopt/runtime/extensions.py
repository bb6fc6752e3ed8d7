"""What other distributions add by entry points, and which of them to install where something is missing.

The groups are those of `GROUPS`. An entry point is loaded when needed, so that one that breaks stops nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from fnmatch import filter
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fairopt.errors import MissingExtra

READERS, JOBS, EXPOSITIONS = "fairopt.readers", "fairopt.jobs", "fairopt.expositions"
COMMANDS, POLICIES, SCHEDULERS, SCHEMAS = (
    "fairopt.commands",
    "fairopt.policies",
    "fairopt.schedulers",
    "fairopt.schemas",
)
GROUPS = {
    READERS: "kinds of files that `fairopt.read` takes",
    JOBS: "kinds of files of jobs for simulations",
    EXPOSITIONS: "an answer as text for programs that collect numbers",
    COMMANDS: "commands of the command line",
    POLICIES: "policies with a short name",
    SCHEDULERS: "schedulers that `fairopt audit` takes",
    SCHEMAS: "JSON Schemas of what commands print",
}
CLUSTERS = "fairopt-clusters"
INSTALL = "pip install . ./clusters"  # in a checkout of the repository, as neither distribution is on an index
OF_CLUSTERS = {  # what that distribution brings, for errors where it is not installed
    COMMANDS: ("quotas", "queues", "report"),
    POLICIES: ("kueue", "slurm"),
    SCHEDULERS: ("kai", "kueue", "slurm", "volcano", "yunikorn"),
}
OF_ITS_READERS = {  # patterns of names of files, and keys of documents
    "Slurm": (
        *("jobs.json", "jobs.yaml", "jobs.yml", "nodes.txt", "slurm.conf", "associations.*", "sacctmgr.txt"),
        *("sshare.*", "jobs", "nodes"),
    ),
    "Kubernetes": (
        *("nodes.json", "pods.json", "workloads.json", "clusterqueues.json", "localqueues.json", "cohorts.json"),
        *("resourceflavors.json", "resourcequotas.json", "podgroups.json", "kind", "apiVersion", "rawObjects"),
    ),
    "YARN or YuniKorn": ("fair-scheduler.xml", "capacity-scheduler.xml", "queues.yaml", "queues.yml", "partitions"),
    "ClusterData 2019": ("instance_events*", "machine_events*", "collection_events*"),
    "the openb trace": ("openb_*",),
}
OF_ITS_ENDINGS = {"Kubernetes": ("*.yaml", "*.yml", "*.json"), "KAI": ("*.zip",)}  # where nothing else is known


@cache
def points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; of several with one name the first that is found."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, point)
    return found


def loaded(group: str) -> Iterator[tuple[str, Any]]:
    """The objects of a group by name; those that break are left out, and the log says why."""
    for name, point in points(group).items():
        try:
            yield name, point.load()
        except Exception as error:  # of somebody else's code
            _BROKEN[group, name] = f"{name} of {point.value} breaks: {error!r}"
            logging.getLogger("fairopt").warning("%s %s", group, _BROKEN[group, name])


_BROKEN: dict[tuple[str, str], str] = {}  # by group and name


def broken(group: str) -> str:
    """What to add to an error that nothing fits, if something in the group breaks: what, and why."""
    found = [text for (of, _), text in _BROKEN.items() if of == group]
    return f" ({group}: {'; '.join(found)})" if found else ""


def looks_like(names: Iterable[str], by_ending: bool = False) -> str:
    """The kind of some names of files, or keys of a document, if the distribution that reads it is not installed."""
    if any(point.value.startswith("fairopt_clusters.") for point in points(READERS).values()):
        return ""
    known, names = OF_ITS_ENDINGS if by_ending else OF_ITS_READERS, [*names]
    return next((kind for kind, patterns in known.items() if any(filter(names, one) for one in patterns)), "")


def missing(purpose: str) -> MissingExtra:
    """The error that names the distribution which somebody needs for a purpose."""
    return MissingExtra(CLUSTERS, "", purpose, INSTALL)
