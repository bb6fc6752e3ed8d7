"""A picture of a network with the use of its links.

It is no kind of `Allocation.plot`, since `fairopt.plots` draws answers of any instance and knows no graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidInstance
from fairopt.networks.answers import OnNetwork
from fairopt.networks.graph import BOTH_WAYS, ONE_WAY, networkx
from fairopt.plots.common import check_axes, colour_bar, cut, escaped, fall_back_fonts, new_figure
from fairopt.policy import label
from fairopt.runtime.arrays import Float

if TYPE_CHECKING:
    import networkx as nx

SHADES = "YlOrRd"
NAMED = 40  # nodes up to which all have their names
APART = 0.008  # of the width: how far the two directions of a link are drawn from each other
ON_EARTH = ("Longitude", "Latitude")  # attributes of nodes in the Internet Topology Zoo


def plot(answer: Allocation, graph: nx.Graph | None = None, *, ax: Any = None) -> Any:
    """Draw a network with the use of its links.

    Parameters
    ----------
    answer : Allocation
        Of an instance that `fairopt.networks.instance` made, also after saving and loading.
    graph : networkx.Graph, optional
        The graph of the instance, whose nodes are drawn at their ``pos``, or ``Longitude`` and ``Latitude``, if all
        have one. Default: a layout by networkx from the names of links.
    ax : matplotlib Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib Axes
        Darker links are fuller; those that nobody uses are grey.

    Raises
    ------
    InvalidInstance
        If the answer is not on a network, or has a link between nodes that the graph lacks.
    MissingExtra
        If networkx or matplotlib is not installed.

    Examples
    --------
    >>> import fairopt as fo
    >>> import networkx as nx
    >>> network = fo.networks.instance(nx.path_graph(4), [(0, 3), (1, 2)], capacity=1)
    >>> fo.networks.plot(fo.networks.MAX_MIN.allocate(network)).get_title()
    'max-min flow: 2 demands, 1 of 3 links full'
    """
    ax = new_figure(6.0, 4.2).subplots() if ax is None else ax
    check_axes(ax)
    from matplotlib.collections import LineCollection

    network = OnNetwork(answer)
    sign = _sign(network.link_names, graph)
    nodes = set() if graph is None else {str(node) for node in graph}
    ends = [_ends(name, sign, nodes) for name in network.link_names]
    at = _positions(graph, ends)
    lines = np.array([[at[a], at[b]] for a, b in ends]).reshape(-1, 2, 2)
    width = float(np.ptp(np.array([*at.values()]), axis=0).max(initial=0.0)) or 1.0
    if sign == ONE_WAY:
        lines = _beside(lines, APART * width)
    idle = network.load <= 0
    ax.add_collection(LineCollection([*lines[idle]], colors="#d0d0d0", linewidths=0.8))
    shown = np.argsort(network.use[~idle], kind="stable")  # the fullest on top
    links = LineCollection([*lines[~idle][shown]], cmap=SHADES, linewidths=2.2, capstyle="round")
    links.set_array(100 * network.use[~idle][shown])
    links.set_clim(0, 100)
    ax.add_collection(links)
    x, y = np.array([*at.values()]).T
    ax.scatter(x, y, s=14, color="#404040", zorder=3, linewidths=0)
    for name, place in at.items() if len(at) <= NAMED else ():
        ax.annotate(escaped(cut(name, 14)), place, (3, 3), textcoords="offset points", fontsize=7, color="#303030")
    ax.set_axis_off()
    ax.set_aspect("equal", adjustable="datalim")
    ax.autoscale_view()
    full, n = int(network.full.sum()), len(network.link_names)
    name = cut(label(answer.policy), 40)
    ax.set_title(escaped(f"{name}: {len(network.names):,} demands, {full:,} of {n:,} links full"), fontsize=9)
    colour_bar(links, ax, ax.figure, "use of links in %")
    fall_back_fonts(ax.figure)
    return ax


def _sign(names: list[str], graph: nx.Graph | None) -> str:
    """What is between the nodes in the names of links; where names of nodes have the other sign, the graph decides."""
    signs = [sign for sign in (ONE_WAY, BOTH_WAYS) if all(sign in name for name in names)]
    if len(signs) > 1 and graph is not None:
        return ONE_WAY if graph.is_directed() else BOTH_WAYS
    return signs[0]


def _ends(name: str, sign: str, nodes: set[str]) -> tuple[str, str]:
    """The nodes that a link is named after: of several possible pairs the first that is among some nodes."""
    parts = name.split(sign)
    pairs = [(sign.join(parts[:k]), sign.join(parts[k:])) for k in range(1, len(parts))]
    return next((pair for pair in pairs if nodes.issuperset(pair)), pairs[0])


def _positions(graph: Any, ends: list[tuple[str, str]]) -> dict[str, Any]:
    """Where the nodes are drawn, by name."""
    nx = networkx()
    if graph is None:
        graph = nx.Graph(ends)
    known = {str(node): data for node, data in graph.nodes(data=True)}
    for node in (node for pair in ends for node in pair):
        if node not in known:
            raise InvalidInstance(f"the graph has no node {node!r}, which a link of the answer has; give its own graph")
    for keys in (("pos",), ON_EARTH):
        if all(key in data for data in known.values() for key in keys):
            return {name: np.array([data[key] for key in keys], dtype=float).ravel() for name, data in known.items()}
    simple = nx.Graph(ends)
    simple.add_nodes_from(known)
    return dict(nx.spring_layout(simple, seed=0, iterations=200))


def _beside(lines: Float, distance: float) -> Float:
    """Lines moved to their right, so that both directions of a link are seen."""
    along = lines[:, 1] - lines[:, 0]
    length = np.linalg.norm(along, axis=1, keepdims=True)
    right = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.where(length > 0, length, 1.0)
    return lines + distance * right[:, None]
