"""Answers on networks by path, by demand with its bottlenecks, and by link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock, InvalidInstance, nearest, optional
from fairopt.instance import Instance
from fairopt.networks.paths import DEMAND, FLOW, on_network
from fairopt.runtime.arrays import Bool, Float, Indices

if TYPE_CHECKING:
    import pandas as pd

BY = ("path", "demand", "link")
FULL = 1e-6  # of a capacity or a volume: what is left of one that is full


def flows(answer: Allocation, by: str = "path") -> pd.DataFrame:
    """Flows of an answer on a network.

    Parameters
    ----------
    answer : Allocation
        Of an instance that `fairopt.networks.instance` made, also after saving and loading.
    by : {"path", "demand", "link"}, default "path"
        The rows.

    Returns
    -------
    pandas.DataFrame
        By path: ``demand``, ``flow``, ``use`` (of the fullest link on the path, as a fraction) and ``bottleneck`` (the
        full link on it that most paths take). By demand: ``flow``, ``weight``, ``volume``, ``level`` (flow per weight),
        ``paths`` (those with flow) and ``bottleneck``: ``"volume"`` if the demand has all of it, else few full links
        that block all its paths. By link: ``flow``, ``capacity`` and ``use``.

    Raises
    ------
    InvalidInstance
        If the answer is not on a network.
    InvalidBlock
        If ``by`` is none of these.
    MissingExtra
        If pandas is not installed.

    Examples
    --------
    >>> import fairopt as fo
    >>> import networkx as nx
    >>> graph = nx.DiGraph([("a", "b"), ("b", "c")])
    >>> network = fo.networks.instance(graph, [("a", "c"), ("b", "c", 0.25)], capacity=1)
    >>> answer = fo.networks.MAX_MIN.allocate(network)
    >>> fo.networks.flows(answer, by="demand")[["flow", "volume", "bottleneck"]]
            flow  volume bottleneck
    demand
    a->c    0.75     NaN       b->c
    b->c    0.25    0.25     volume
    >>> fo.networks.flows(answer, by="link")
          flow  capacity   use
    link
    a->b  0.75       1.0  0.75
    b->c  1.00       1.0  1.00
    """
    if by not in BY:
        raise InvalidBlock(f"by is {by!r}; {nearest(str(by), BY)}")
    network = OnNetwork(answer)
    pandas = optional("pandas", "networks", "fairopt.networks.flows")
    columns, index = {"path": network.paths, "demand": network.demands, "link": network.links}[by]()
    return pandas.DataFrame(columns, index=pandas.Index(index, name=by))


def demands_met(answer: Allocation) -> set[str]:
    """The demands that have all of their volume; none off networks."""
    columns, names = OnNetwork(answer).demands() if on_network(answer.instance) else ({"bottleneck": []}, [])
    return {name for name, what in zip(names, columns["bottleneck"], strict=True) if what == "volume"}


class OnNetwork:
    """The links and demands of an answer."""

    def __init__(self, answer: Allocation) -> None:
        if not isinstance(answer, Allocation) or not on_network(answer.instance):
            raise InvalidInstance(
                "the answer is not on a network; give one of an instance by fairopt.networks.instance"
            )
        instance = answer.instance
        labelling = instance.teams.labelling(DEMAND)
        self.instance: Instance = instance
        self.flow: Float = answer.tasks
        self.names, self.of_path = labelling.names, labelling.of_user
        named = [name for name in instance.resources if name != FLOW]
        columns = [instance.resource_index(name) for name in named]
        self.link_names, self.uses = named, instance.demands[:, columns] > 0
        self.capacity: Float = instance.total_capacities[columns]
        self.taken: Indices = self.uses.sum(axis=0)  # paths over each link
        self.load: Float = instance.demands[:, columns].T @ self.flow
        self.full: Bool = (self.load >= self.capacity * (1 - FULL)) & (self.load > 0)
        self.volume = np.full(len(self.names), np.nan)
        number = {name: t for t, name in enumerate(self.names)}
        for limit in instance.limits:
            if limit.resource == FLOW and len(limit.of) == 1 and (t := number.get(limit.of[0][0])) is not None:
                self.volume[t] = np.fmin(self.volume[t], limit.amount)

    @property
    def use(self) -> Float:
        """Use of each link as a fraction of its capacity."""
        return np.divide(self.load, self.capacity, out=np.zeros(len(self.load)), where=self.capacity > 0)

    def _blocking(self, paths: Indices) -> str:
        """Few full links that block some paths: in turn the one that blocks most of those that are left."""
        left, blocking = self.uses[paths] & self.full, list[str]()
        while left.any():
            blocked = left.sum(axis=0)
            link = int(np.lexsort((-self.taken, -blocked))[0])
            blocking.append(self.link_names[link])
            left = left[~left[:, link]]
        return ", ".join(blocking)

    def paths(self) -> tuple[dict[str, Any], list[str]]:
        """Columns by path."""
        each = np.arange(len(self.flow))
        columns = {
            "demand": [self.names[t] for t in self.of_path],
            "flow": self.flow,
            "use": np.where(self.uses, self.use, 0.0).max(axis=1),
            "bottleneck": [self._blocking(each[j : j + 1]) for j in each],
        }
        return columns, [*self.instance.users]

    def demands(self) -> tuple[dict[str, Any], list[str]]:
        """Columns by demand."""
        n = len(self.names)
        flow = np.bincount(self.of_path, self.flow, n)
        known = self.instance.team_weights
        weights = np.array([known.get(name, 1.0) for name in self.names])
        small = FULL * flow[self.of_path]
        at_volume = flow >= self.volume * (1 - FULL)
        columns = {
            "flow": flow,
            "weight": weights,
            "volume": self.volume,
            "level": flow / weights,
            "paths": np.bincount(self.of_path[self.flow > small], minlength=n),
            "bottleneck": [
                "volume" if at_volume[t] else self._blocking(np.flatnonzero(self.of_path == t)) for t in range(n)
            ],
        }
        return columns, [*self.names]

    def links(self) -> tuple[dict[str, Any], list[str]]:
        """Columns by link."""
        return {"flow": self.load, "capacity": self.capacity, "use": self.use}, self.link_names
