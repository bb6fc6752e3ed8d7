"""Links of a graph with their capacities, and the shortest paths between two nodes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from itertools import islice, pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any

from fairopt.errors import InvalidInstance, optional

if TYPE_CHECKING:
    import networkx as nx

ONE_WAY, BOTH_WAYS = "->", "--"
Node = Hashable


def networkx() -> Any:
    """The package networkx; `MissingExtra` if it is not installed."""
    return optional("networkx", "networks", "fairopt.networks")


class Links:
    """The links of a graph that carry something: names, capacities, and their numbers by pair of nodes.

    An edge of an undirected graph is one link, whose capacity both directions share.
    """

    def __init__(self, graph: nx.Graph, capacity: str | float) -> None:
        nx = networkx()
        check_capacity(capacity)
        check_graph(graph)
        if not graph.number_of_edges():
            raise InvalidInstance("the graph has no links; give one whose nodes are joined by edges")
        directed = graph.is_directed()
        self.graph = nx.DiGraph() if directed else nx.Graph()  # without links of zero capacity, which are down
        self.graph.add_nodes_from(graph.nodes(data=True))
        self.nodes: dict[str, Node] = {}
        for node in graph:
            other = self.nodes.setdefault(str(node), node)
            if other is not node:
                raise InvalidInstance(f"the nodes {other!r} and {node!r} are both written {str(node)!r}; rename one")
        self.names: list[str] = []
        self.capacities: list[float] = []
        self.number: dict[tuple[Node, Node], int] = {}
        for a, b, data in graph.edges(data=True):
            name = f"{a}{ONE_WAY if directed else BOTH_WAYS}{b}"
            if a == b:
                raise InvalidInstance(f"the link {name} is from a node to itself; remove it")
            if (a, b) in self.number:
                raise InvalidInstance(
                    f"two links are named {name}; join parallel links to one of their total capacity, as "
                    "fairopt.networks.read does"
                )
            given = data.get(capacity) if isinstance(capacity, str) else capacity
            if given is None:
                raise InvalidInstance(
                    f"the link {name} has no {capacity!r}; set it on every link, name the attribute that links have "
                    "(capacity='speed'), or give one number for all (capacity=1000)"
                )
            room = capacity_of(name, given)
            if room:
                self.graph.add_edge(a, b)
            for ends in ((a, b), (b, a))[: 1 + (not directed)]:
                self.number[ends] = len(self.names)
            self.names.append(name)
            self.capacities.append(room)
        if len(set(self.names)) < len(self.names):
            name = next(one for one in self.names if self.names.count(one) > 1)
            raise InvalidInstance(f"two links are named {name}; rename nodes so that links have names of their own")

    def paths(self, source: Node, target: Node, most: int) -> Iterator[list[int]]:
        """The shortest loopless paths as numbers of links, fewest links first, by the algorithm of Yen."""
        nx = networkx()
        if not nx.has_path(self.graph, source, target):
            return
        for nodes in islice(nx.shortest_simple_paths(self.graph, source, target), most):
            yield [self.number[ends] for ends in pairwise(nodes)]


def check_graph(graph: Any) -> None:
    """Refuse what is no graph of networkx."""
    if not isinstance(graph, networkx().Graph):
        raise InvalidInstance(f"the graph is of type {type(graph).__name__}; give a networkx Graph or DiGraph")


def check_capacity(capacity: Any) -> None:
    """Refuse what is neither the name of an attribute nor a number."""
    if isinstance(capacity, bool) or not isinstance(capacity, (str, Real)):
        raise InvalidInstance(f"capacity is {capacity!r}; give the name of an attribute of links, or one number")


def capacity_of(name: str, given: Any) -> float:
    """The capacity of a link, checked."""
    try:
        room = float(given)
    except (TypeError, ValueError, OverflowError):
        room = math.nan
    if not 0 <= room < math.inf:
        raise InvalidInstance(f"the link {name} has the capacity {given!r}; give a finite number >= 0")
    return room
