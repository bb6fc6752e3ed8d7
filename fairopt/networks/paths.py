"""A graph and demands as an instance, whose users are paths and whose teams are demands."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from fairopt.blocks.objectives import Leximin
from fairopt.blocks.shares import Tasks
from fairopt.blocks.teams import OfTeam
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.networks.demands import demands_of
from fairopt.networks.graph import BOTH_WAYS, ONE_WAY, Links
from fairopt.policy import Policy

if TYPE_CHECKING:
    import networkx as nx

NETWORK = "network"  # the name of the only server
DEMAND, FLOW = "team", "flow"  # the label of teams; a resource of which a task takes 1, for volumes
MAX_MIN = Policy(Leximin(OfTeam(Tasks(), inside="any")), name="max-min flow")


def instance(graph: nx.Graph, demands: Any, *, paths: int = 4, capacity: str | float = "capacity") -> Instance:
    """Demands over the shortest paths of a network.

    A user is a path, named ``a->b/1``; a resource is a link, named ``a->b``, or ``a--b`` in an undirected graph; a task
    is a unit of flow; a team is the paths of a demand ``a->b``.

    Parameters
    ----------
    graph : networkx.Graph or networkx.DiGraph
        An edge of an undirected graph is one link, whose capacity both directions share: ``graph.to_directed()`` gives
        each direction its own. Links of capacity 0 are down.
    demands : sequence of tuple, data frame or path-like
        Rows ``(source, target)``, ``(source, target, volume)`` or ``(source, target, volume, weight)``, or a data frame
        or a CSV file with columns of these names. A volume is the most flow of a demand over all its paths; None, or an
        empty cell, is no limit.
    paths : int, default 4
        Paths for each demand: the loopless ones with the fewest links, by `networkx.shortest_simple_paths`.
    capacity : str or float, default "capacity"
        The attribute of links with their capacities, or one capacity for all links.

    Returns
    -------
    Instance
        With volumes there is one more resource, ``flow``, of which every path takes 1 for each unit of flow, and
        ``limits`` on what a team takes of it: every policy keeps them.

    Raises
    ------
    InvalidInstance
        If a demand has no path, is from a node to itself or is given twice, a node is not in the graph, a capacity,
        volume or weight is negative or no number, or two links or paths have one name.
    MissingExtra
        If networkx is not installed.

    Notes
    -----
    ``Leximin(OfTeam(Tasks(), inside="any"))``, named ``fairopt.networks.MAX_MIN``, is the weighted max-min fairness of
    demands over several paths. Policies that compare users compare paths, among which the weight of a demand is divided
    equally: under ``DRF()`` a demand that has a path of its own still takes its part of the links that others need.

    References
    ----------
    Danna, Mandal and Singh (2012); Namyar et al. (2024).

    Examples
    --------
    Two demands share the link from b to c; the first has a second path:

    >>> import fairopt as fo
    >>> import networkx as nx
    >>> graph = nx.DiGraph()
    >>> graph.add_weighted_edges_from([("a", "b", 1), ("b", "c", 1), ("a", "c", 1)], weight="capacity")
    >>> network = fo.networks.instance(graph, [("a", "c"), ("b", "c")])
    >>> network.users
    ('a->c/1', 'a->c/2', 'b->c/1')
    >>> fo.networks.flows(fo.networks.MAX_MIN.allocate(network), by="demand").flow.round(6).to_dict()
    {'a->c': 1.0, 'b->c': 1.0}
    """
    if isinstance(paths, bool) or not isinstance(paths, SupportsIndex) or paths < 1:
        raise InvalidInstance(f"paths is {paths!r}; give a whole number >= 1")
    links = Links(graph, capacity)
    wanted = demands_of(demands, links)
    routes = {demand.name: [*links.paths(demand.source, demand.target, paths)] for demand in wanted}
    for name, each in routes.items():
        if not each:
            raise InvalidInstance(f"the demand {name} has no path over links with capacity; leave it out, or add links")
    volumes = {demand.name: demand.volume for demand in wanted if demand.volume < np.inf}
    resources, capacities = [*links.names], [*links.capacities]
    if volumes:
        resources.append(FLOW)
        capacities.append(2 * sum(links.capacities))  # never full: a unit of flow takes a unit of some link
    uses = np.zeros((sum(map(len, routes.values())), len(resources)))
    uses[:, len(links.names) :] = 1.0
    for path, route in zip(uses, chain.from_iterable(routes.values()), strict=True):
        path[route] = 1.0
    fewer = sum(len(each) < paths for each in routes.values())
    return Instance(
        uses,
        capacities,
        weights={demand.name: demand.weight for demand in wanted},
        users=[f"{name}/{k + 1}" for name, each in routes.items() for k in range(len(each))],
        resources=resources,
        servers=[NETWORK],
        teams={DEMAND: [name for name, each in routes.items() for _ in each]},
        limits=[
            {"name": f"volume of {name}", "resource": FLOW, "amount": volume, "of": [name]}
            for name, volume in volumes.items()
        ],
        notes=[f"{fewer:,} of {len(wanted):,} demands have fewer than {paths} paths"] if fewer else (),
    )


def on_network(instance: Instance) -> bool:
    """Whether `instance` made it, or made one that it was changed from."""
    of_links = all(name == FLOW or ONE_WAY in name or BOTH_WAYS in name for name in instance.resources)
    return of_links and [*instance.servers] == [NETWORK] and DEMAND in instance.teams
