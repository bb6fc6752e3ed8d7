"""Tables of an answer on a network: demands with their bottlenecks, and the fullest links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairopt.allocation import Allocation
from fairopt.networks.answers import OnNetwork
from fairopt.networks.paths import on_network
from fairopt.report.tables import Column, Table, both_ends, numbers
from fairopt.runtime.display import shortened

NAME = 24  # characters


def network_tables(allocation: Allocation, rows: int) -> tuple[list[Table], list[str]]:
    """The demands with the smallest and the largest flows per weight, the fullest links, and lines on the rest.

    Examples
    --------
    >>> import fairopt as fo
    >>> import networkx as nx
    >>> network = fo.networks.instance(nx.path_graph(3), [(0, 2), (1, 2, 0.25)], capacity=1)
    >>> (demands, _), _ = network_tables(fo.networks.MAX_MIN.allocate(network), 12)
    >>> [(column.header, *column.cells) for column in demands.groups[0]]
    [('flow', '0.7500', '0.2500'), ('volume', '-', '0.2500'), ('paths', '1', '1'), ('bottleneck', '1--2', 'volume')]
    """
    if not on_network(allocation.instance):
        return [], []
    network = OnNetwork(allocation)
    columns, demands = network.demands()
    shown = both_ends(columns["level"], rows)
    left = {key: [columns[key][t] for t in shown] for key in columns}
    about = [Column("flow", numbers(left["flow"]))]
    about += [Column("weight", numbers(left["weight"]))] if len({*columns["weight"].tolist()}) > 1 else []
    about += [Column("volume", numbers(left["volume"]))] if np.isfinite(columns["volume"]).any() else []
    about += [
        Column("paths", [str(k) for k in left["paths"]]),
        Column("bottleneck", shortened(left["bottleneck"], NAME), right=False),
    ]
    which = "" if len(shown) == len(demands) else f" ({len(shown)} of {len(demands):,})"
    title = "Flow of each demand" + " (the smallest and the largest per weight)" * bool(which)
    tables = [Table(title, _names(f"demand{which}", demands, shown), [about])]
    fullest = np.argsort(-network.use, kind="stable")[:rows].tolist()
    which = "" if len(fullest) == len(network.use) else f" ({len(fullest)} of {len(network.use):,})"
    use = [f"{100 * network.use[k]:.1f}%" for k in fullest]
    units = [Column("flow", numbers(network.load[fullest])), Column("capacity", numbers(network.capacity[fullest]))]
    tables.append(
        Table("Use of links", _names(f"link{which}", network.link_names, fullest), [[Column("use", use), *units]])
    )
    more = f"not shown: {len(allocation.tasks):,} paths; --all shows them, and fairopt.networks.flows has tables"
    return tables, [more]


def _names(header: str, names: Sequence[str], rows: Sequence[int]) -> Column:
    """The first column."""
    return Column(header, shortened([names[k] for k in rows], NAME), right=False)
