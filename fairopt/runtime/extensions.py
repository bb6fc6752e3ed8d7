"""What other distributions add by entry points, and which of them to install where something is missing.

The groups are those of `GROUPS`. An entry point is loaded when it is needed, so that one that breaks stops nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
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
    READERS: ("Kubernetes", "Kueue", "KAI", "Volcano", "YuniKorn", "YARN", "Slurm", "ClusterData 2019", "openb"),
}


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
            logging.getLogger("fairopt").warning("%s %r of %s breaks: %r", group, name, point.value, error)


def missing(purpose: str) -> MissingExtra:
    """The error that names the distribution which somebody needs for a purpose."""
    return MissingExtra(CLUSTERS, "", purpose, INSTALL)
