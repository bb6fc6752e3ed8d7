"""What other systems answer on networks, as mechanisms whose answers are `Allocation`s on the instance.

* `GeometricBinner` and `AdaptiveWaterfilling`: Soroush (Namyar et al., NSDI 2024).
* `Pop`: the random partition of Narayanan et al. (SOSP 2021), with exact max-min in every part.
* `KWaterfilling`: Jose et al. (SIGMETRICS 2019), of paths, each as if it were a demand.

Written from the papers. The first two follow the authors' code where the paper leaves numbers open: the widths of bins
start at the smallest level that is certain, and what a unit in the last of T bins is worth is 1e-6 of one in the first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse as sp
from scipy.optimize import linprog

import fairopt as fo
from fairopt.networks.paths import DEMAND, FLOW
from fairopt.proof import gate

TINY = 1e-12  # of a capacity


class Flows:
    """The paths of an instance as columns: rows are links, and after them the volumes of demands that have one."""

    def __init__(self, instance: fo.Instance) -> None:
        links = [k for k, name in enumerate(instance.resources) if name != FLOW]
        labelling = instance.teams.labelling(DEMAND)
        self.instance, self.demand, self.n = instance, labelling.of_user, len(labelling.names)
        self.of = sp.csr_array((np.ones(len(self.demand)), (self.demand, np.arange(len(self.demand)))))
        self.weights = np.array([instance.team_weights.get(name, 1.0) for name in labelling.names])
        number = {name: t for t, name in enumerate(labelling.names)}
        self.volume = np.full(self.n, np.inf)
        for limit in instance.limits:
            self.volume[number[limit.of[0][0]]] = limit.amount
        self.links = sp.csr_array(instance.demands[:, links].T)
        self.capacity = instance.total_capacities[links]
        limited = np.flatnonzero(np.isfinite(self.volume))
        self.uses = sp.csr_array(sp.vstack([self.links, self.of[limited]]))
        self.room = np.concatenate([self.capacity, self.volume[limited]])

    @cached_property
    def least(self) -> float:
        """A level that every demand without a smaller volume has in the max-min answer."""
        beside = (self.links @ self.of.T > 0).astype(float) @ self.weights
        return float((self.capacity / np.where(beside > 0, beside, np.inf))[beside > 0].min())

    @cached_property
    def most(self) -> float:
        """A level that no demand exceeds."""
        narrowest = [self.capacity[self.links.tocsc()[:, [j]].indices].min() for j in range(len(self.demand))]
        return float((np.minimum(self.of @ np.array(narrowest), self.volume) / self.weights).max())


class Baseline(ABC):
    """A mechanism by the flow of every path."""

    name: str

    @abstractmethod
    def flows(self, network: Flows) -> Any:
        """The flow of every path."""

    def allocate(self, instance: fo.Instance) -> fo.Allocation:
        """The answer, with what it breaks of capacities measured, and nothing proved of its fairness."""
        return gate.of_nothing(instance, self.flows(Flows(instance))[:, None], self)


@dataclass(frozen=True)
class GeometricBinner(Baseline):
    """One linear program: a demand's flow fills bins, each ``alpha`` times as wide, that are worth less and less."""

    alpha: float = 2.0
    last: float = 1e-6  # what a unit in the last bin is worth, of one in the first

    @property
    def name(self) -> str:
        return f"geometric binner, alpha {self.alpha:g}"

    def flows(self, network: Flows) -> Any:
        bins = max(1, int(np.ceil(np.log(network.most / network.least) / np.log(self.alpha))))
        edges = network.least * self.alpha ** np.arange(bins + 1)
        widths = np.diff(edges, prepend=0.0)[:, None] * network.weights
        worth = np.repeat(self.last ** (np.arange(bins + 1) / bins), network.n)
        paths, in_bins = network.of.shape[1], (bins + 1) * network.n
        split = sp.hstack([network.of, -sp.hstack([sp.eye_array(network.n)] * (bins + 1))])
        found = linprog(
            np.concatenate([np.zeros(paths), -worth]),
            sp.hstack([network.uses, sp.csr_array((len(network.room), in_bins))]),
            network.room,
            split,
            np.zeros(network.n),
            np.column_stack([np.zeros(paths + in_bins), np.concatenate([np.full(paths, np.inf), widths.ravel()])]),
            method="highs",
        )
        if found.status != 0:
            raise RuntimeError(f"HiGHS: {found.message}")
        return np.maximum(found.x[:paths], 0.0)


@dataclass(frozen=True)
class AdaptiveWaterfilling(Baseline):
    """Water-filling of paths whose weights are the parts of their demand that they had in the pass before.

    Water-filling in a pass is by one look at each row, or ``exact``.
    """

    passes: int = 10
    exact: bool = False

    @property
    def name(self) -> str:
        return f"adaptive water-filling, {self.passes}{' exact' * self.exact} passes"

    def flows(self, network: Flows) -> Any:
        part = 1.0 / network.of.sum(axis=1)[network.demand]
        flow = part
        for _ in range(self.passes):
            weights = part * network.weights[network.demand]
            flow = filled(network, weights, 1) if self.exact else self._pass(network, weights)
            total = network.of @ flow
            part = np.divide(flow, total[network.demand], out=part.copy(), where=total[network.demand] > 0)
        return flow

    @staticmethod
    def _pass(network: Flows, weights: Any) -> Any:
        """Each row once, in the order of their levels if all were full: what is above its level is cut to it."""
        flow = np.where(weights > 0, np.inf, 0.0)
        heavy = network.uses @ weights
        levels = np.divide(network.room, heavy, out=np.full(len(heavy), np.inf), where=heavy > 0)
        for row in np.argsort(levels, kind="stable"):
            paths = network.uses.indices[network.uses.indptr[row] : network.uses.indptr[row + 1]]
            w, now, room = weights[paths], flow[paths], network.room[row]
            order = np.argsort(np.divide(now, w, out=np.zeros(len(w)), where=w > 0))
            for done, j in enumerate(order):
                level = room / max(w[order[done:]].sum(), 1e-300)
                if now[j] > level * w[j]:
                    now[order[done:]] = level * w[order[done:]]
                    break
                room -= now[j]
            flow[paths] = now
        return flow


@dataclass(frozen=True)
class KWaterfilling(Baseline):
    """Paths at links that are the first to be full among those within ``hops`` stop, until all have stopped."""

    hops: int = 1

    @property
    def name(self) -> str:
        return f"{self.hops}-water-filling of paths"

    def flows(self, network: Flows) -> Any:
        return filled(network, network.weights[network.demand], self.hops)


def filled(network: Flows, weights: Any, hops: int) -> Any:
    """Flows of paths by k-water-filling; paths without weight have none."""
    flow = np.zeros(len(network.demand))
    open_ = weights > 0
    room = network.room.astype(float).copy()
    while open_.any():
        uses = network.uses[:, np.flatnonzero(open_)]
        heavy = uses @ weights[open_]
        level = np.divide(room, heavy, out=np.full(len(room), np.inf), where=heavy > 0)
        near = level
        for _ in range(hops):
            near = _smallest(uses.T.tocsr(), near)  # by path
            near = np.minimum(level, _smallest(uses.tocsr(), near))  # by row
        first = np.where((heavy > 0) & (level <= near * (1 + TINY)), level, np.inf)
        at = _smallest(uses.T.tocsr(), first)
        stops = np.isfinite(at)
        which = np.flatnonzero(open_)[stops]
        flow[which] = np.maximum(at[stops], 0.0) * weights[which]
        room = np.maximum(room - network.uses[:, which] @ flow[which], 0.0)
        open_[which] = False
    return flow


def _smallest(rows: Any, values: Any) -> Any:
    """The smallest value of the columns in each row; infinite for empty rows."""
    entries = values[rows.indices]
    out = np.full(rows.shape[0], np.inf)
    np.minimum.at(out, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), entries)
    return out


@dataclass(frozen=True)
class Pop(Baseline):
    """Demands, each in equal pieces, in parts at random; each part has as much of all capacities and its own answer."""

    parts: int = 4
    seed: int = 0
    pieces: int = 1
    policy: fo.Policy = fo.networks.MAX_MIN  # of every part

    @property
    def name(self) -> str:
        return f"POP, {self.parts} parts{f', {self.pieces} pieces' * (self.pieces > 1)}"

    def flows(self, network: Flows) -> Any:
        part = np.random.default_rng(self.seed).permutation(self.pieces * network.n) % self.parts
        flow, names = np.zeros(len(network.demand)), network.instance.teams.labelling(DEMAND).names
        for k in range(self.parts):
            here = (part == k).reshape(self.pieces, network.n).mean(axis=0)  # of each demand
            inside = here[network.demand] > 0
            if not inside.any():
                continue
            of = dict(zip(names, here.tolist(), strict=True))
            small = network.instance.select_users(np.flatnonzero(inside))
            small = small.replace(
                capacities=small.capacities / self.parts,
                weights={name: weight * of[name] for name, weight in small.team_weights.items()},
                limits=[replace(limit, amount=limit.amount * of[limit.of[0][0]]) for limit in small.limits],
            )
            flow[inside] += self.policy.allocate(small).tasks
        return flow
