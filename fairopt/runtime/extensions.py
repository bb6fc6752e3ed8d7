"""What other distributions add by entry points, and which of them to install where something is missing.

The groups are those of `GROUPS`. An entry point is loaded when it is needed, and one that breaks stops nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from fairopt.errors import MissingExtra

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    EXPOSITIONS: "functions of an answer and input_time, by the ending of the text file that `fairopt solve` writes",
    COMMANDS: "commands of the command line: modules that register one, or functions",
    POLICIES: "policies with a short name",
    SCHEDULERS: "schedulers with a method `audit`, for `fairopt audit`",
    SCHEMAS: "packages whose folder holds JSON Schemas of what commands print",
}
CLUSTERS = "fairopt-clusters"
INSTALL = "pip install . ./clusters"  # in a checkout of the repository, as neither distribution is on an index
OF_CLUSTERS = {  # what that distribution brings, for errors where it is not installed
    COMMANDS: ("quotas", "queues", "report"),
    POLICIES: ("kueue", "slurm"),
    SCHEDULERS: ("kai", "kueue", "slurm", "volcano", "volcano-capacity", "volcano-hdrf", "yunikorn"),
    READERS: ("Kubernetes", "Kueue", "KAI", "Volcano", "YuniKorn", "YARN", "Slurm", "ClusterData 2019", "openb"),
}

MOVED = {  # names of this package that are elsewhere now; for one version
    "fairopt.Allocation.quotas": "fairopt_clusters.quotas_of",
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
            logging.getLogger("fairopt").warning("%s %r of %s breaks: %r", group, name, point.value, error)


def missing(purpose: str) -> MissingExtra:
    """The error that names the distribution which somebody needs for a purpose."""
    return MissingExtra(CLUSTERS, "", purpose, INSTALL)


def moved(place: str) -> str:
    """The end of the message about a missing name, such as ``fairopt.policies.Kueue``: where it is now, if it moved."""
    return f": it is now {MOVED[place]}" if place in MOVED else ""
