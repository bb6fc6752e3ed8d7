"""Tables of users and servers with a file of queues beside them, which the column ``team`` names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fairopt.errors import InvalidInstance
from fairopt.io import Arguments, about, read_csv_tables
from fairopt_clusters.read.queues.reader import tree_of_file
from fairopt_clusters.read.queues.teams import with_queues


def read_tables(
    users: Path,
    servers: Path,
    queues: Path,
    demands: Path | None = None,
    teams: Path | None = None,
    labels: Sequence[str] = (),
) -> Arguments:
    """Read tables of `fairopt.read`, with the weights, guarantees and limits of queues."""
    tables = read_csv_tables(users, servers, demands, teams, labels)
    tree = tree_of_file(queues)
    if teams is not None:
        raise InvalidInstance(f"{teams} and {queues} both say what teams are; keep one of them")
    with about(str(queues)):
        return replace(tables, values=with_queues(tables.values, tree), places=(*tables.places, str(queues)))
