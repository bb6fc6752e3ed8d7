"""Tables of demands: source, target, volume and weight."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.frames import table_of
from fairopt.io.tables import Column, InputTable, read_table
from fairopt.io.text_files import is_path
from fairopt.networks.graph import ONE_WAY, Links, Node

COLUMNS = ("source", "target", "volume", "weight")
_VOLUME = Column("volume", fix="give a number >= 0, or nothing for no limit", blank=np.inf, infinite=True)
_WEIGHT = Column("weight", fix="give a finite number > 0, or nothing for 1", blank=1.0, positive=True)


class Demand(NamedTuple):
    """A demand: between two nodes, at most a volume, with a weight."""

    name: str
    source: Node
    target: Node
    volume: float
    weight: float


def demands_of(given: Any, links: Links) -> list[Demand]:
    """The demands of rows, a data frame or a CSV file, checked against the nodes of a graph."""
    table = _table(given)
    for name in table.columns:
        if name not in COLUMNS:
            raise InvalidInstance(
                f"{table.path}: the column {name!r} is none of {', '.join(COLUMNS)}; rename it, or leave it out"
            )
    ends = [table.labels(column, unique=False) for column in COLUMNS[:2]]
    one = np.ones(len(table))
    volumes = table.numbers(_VOLUME) if "volume" in table.columns else one * np.inf
    weights = table.numbers(_WEIGHT) if "weight" in table.columns else one
    demands: dict[str, Demand] = {}
    for row, (source, target, volume, weight) in enumerate(zip(*ends, volumes.tolist(), weights.tolist(), strict=True)):
        for column, node in zip(COLUMNS, (source, target), strict=False):
            if node not in links.nodes:
                named = [name for name, at in links.nodes.items() if links.graph.nodes[at].get("label") == node]
                fix = f"nodes are named by their ids; {node!r} is the label of {named[0]!r}" if named else ""
                table.refuse(row, column, f"the graph has no node {node!r}; {fix or nearest(node, links.nodes)}")
        name = f"{source}{ONE_WAY}{target}"
        if source == target:
            table.refuse(row, "target", f"the demand {name} is from a node to itself; leave it out")
        if name in demands:
            same = str(demands[name].source) == source
            fix = "is given twice; add up the volumes" if same else "has the name of another; rename nodes"
            table.refuse(row, "source", f"the demand {name} {fix}")
        demands[name] = Demand(name, links.nodes[source], links.nodes[target], volume, weight)
    if not demands:
        raise InvalidInstance(f"{table.path}: there are no demands; give rows (source, target, volume, weight)")
    return [*demands.values()]


def _table(given: Any) -> InputTable:
    """Demands as a table with columns."""
    if is_path(given):
        return read_table(os.fspath(given), COLUMNS[:2])
    if hasattr(given, "columns"):
        return table_of(given, "demands", COLUMNS[:2])
    rows = [*given] if isinstance(given, Iterable) and not isinstance(given, (bytes, Mapping)) else None
    wrong = [repr(row) for row in rows or () if not (isinstance(row, (tuple, list)) and 2 <= len(row) <= 4)]
    if rows is None or wrong:
        raise InvalidInstance(
            "demands are rows (source, target), (source, target, volume) or (source, target, volume, weight), a data "
            f"frame or a CSV file with such columns; {wrong[0] if wrong else type(given).__name__} is none of them"
        )
    cells: dict[str, Any] = {name: [row[k] if k < len(row) else None for row in rows] for k, name in enumerate(COLUMNS)}
    cells |= {name: [str(node) for node in cells[name]] for name in COLUMNS[:2]}
    return InputTable("demands", cells, len(rows))
