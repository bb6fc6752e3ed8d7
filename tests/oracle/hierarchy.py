"""Hierarchical DRF by recursion over the whole tree: from event to event in fractions, and in small steps.

A tree is a user's number, or a weight and a list of trees; users have weights of their own. Floors of teams are kept by
exact linear programs: a user can rise if further tasks of all users, within their limits, can then reach the floors.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import fairopt as fo
from oracle import exact_lp

Tree = Any  # int, or (weight, [Tree, ...])


@dataclass
class Problem:
    """Users, servers and a tree; ``eligible`` by user and server, ``limits`` with None for no limit.

    ``guarantees`` are members of a team and its units by resource; ``floors`` are members, a resource and units of it.
    ``together`` are a resource, the most of it, and on which servers each user counts for this limit.
    """

    demands: Sequence[Sequence[Any]]
    capacities: Sequence[Sequence[Any]]
    tree: Tree
    weights: Sequence[Any]
    limits: Sequence[Any]
    eligible: Sequence[Sequence[bool]] | None = None
    starts: Sequence[Any] | None = None
    guarantees: Sequence[tuple[list[int], dict[int, Any]]] = ()
    together: Sequence[tuple[int, Any, Any]] = ()
    total: list[Fraction] = field(init=False)

    def __post_init__(self) -> None:
        self.demands = [[Fraction(d) for d in row] for row in self.demands]
        self.capacities = [[Fraction(c) for c in row] for row in self.capacities]
        self.weights = [Fraction(w) for w in self.weights]
        self.limits = [None if t is None else Fraction(t) for t in self.limits]
        self.total = [sum(row[i] for row in self.capacities) for i in range(len(self.capacities[0]))]
        self.one_pool = len(self.capacities) == 1 and not self.together
        self.n, self.m = len(self.demands), len(self.total)
        self.ratios = [[d / c for d, c in zip(row, self.total, strict=True)] for row in self.demands]
        self.floors = [(team, i, self.usable(team, units, i)) for team, units in self.guarantees for i in units]

    def usable(self, team: list[int], units: dict[int, Any], i: int) -> Fraction:
        """The most of a resource that tasks of a team use within its guarantee."""
        rows = [([self.demands[j][k] for j in team], min(c, units.get(k, c))) for k, c in enumerate(self.total)]
        limits = [([int(j == k) for k in team], limit) for j in team if (limit := self.limits[j]) is not None]
        return exact_lp.maximise([self.demands[j][i] for j in team], [*rows, *limits]).value

    def short(self, x: list[Any]) -> list[tuple[list[int], int]]:
        """Members and resources of floors that are not reached."""
        return [(team, i) for team, i, floor in self.floors if self.held(team, i, x) < floor]

    def held(self, team: list[int], i: int, x: list[Any]) -> Any:
        """What users hold of a resource."""
        return sum(self.demands[j][i] * x[j] for j in team)

    def fits(self) -> bool:
        """Whether the guarantees fit together."""
        try:
            self.most([Fraction(v) for v in self.starts or [0] * self.n], [Fraction(0)] * self.n)
        except exact_lp.NoPoint:
            return False
        return True

    def saturated(self, x: list[Any]) -> set[int]:
        """Resources of which the total capacity is in use."""
        return {i for i in range(self.m) if sum(g[i] * v for g, v in zip(self.ratios, x, strict=True)) >= 1}

    def most(self, x: list[Any], dx: list[Any]) -> Fraction:
        """The largest t, at most 1 if nothing rises, for which x + t dx can be placed, or more that reaches floors."""
        servers, short = range(len(self.capacities)), self.short(x)
        if self.one_pool and not short and any(dx):
            used = [sum(g[i] * v for g, v in zip(self.ratios, x, strict=True)) for i in range(self.m)]
            rate = [sum(g[i] * v for g, v in zip(self.ratios, dx, strict=True)) for i in range(self.m)]
            return min((1 - u) / r for u, r in zip(used, rate, strict=True) if r > 0)
        pairs = [(j, s) for j in range(self.n) for s in servers if self.eligible is None or self.eligible[j][s]]
        fits = [
            ([self.demands[j][i] if s == t else 0 for j, s in pairs] + [0], self.capacities[t][i])
            for t in servers
            for i in range(self.m)
        ]
        fits += [
            ([self.demands[j][i] if on[j][s] else 0 for j, s in pairs] + [0], most) for i, most, on in self.together
        ]
        runs = [([-(k == j) for k, _ in pairs] + [dx[j]], -x[j]) for j in range(self.n)]
        rows = [*fits, *runs, ([0] * len(pairs) + [int(not any(dx))], 1)]
        if short:
            limited = [(j, limit) for j, limit in enumerate(self.limits) if limit is not None]
            rows += [([*(-self.demands[j][i] * (j in team) for j, _ in pairs), 0], -f) for team, i, f in self.floors]
            rows += [([*(int(k == j) for k, _ in pairs), 0], limit) for j, limit in limited]
        return exact_lp.maximise([0] * len(pairs) + [1], rows).value

    def can_rise(self, x: list[Any]) -> set[int]:
        """Users below their limit of whom more could be placed with the tasks of all others.

        While floors are not reached, only users of what a team of theirs is short of.
        """
        full, short = self.saturated(x), self.short(x)
        out = set()
        for j in range(self.n):
            limit = self.limits[j]
            if short and not any(j in team and self.demands[j][i] > 0 for team, i in short):
                continue
            if (limit is None or x[j] < limit) and not any(self.demands[j][i] > 0 for i in full):
                one = [Fraction(int(k == j)) for k in range(self.n)]
                if (self.one_pool and not short) or self.most(x, one) > 0:
                    out.add(j)
        return out


class Node:
    """A tree at some tasks: its vector and share, whether it can rise, and how."""

    def __init__(self, problem: Problem, tree: Tree, x: list[Any], can: set[int], full: set[int]) -> None:
        self.full, self.leaf = full, tree if isinstance(tree, int) else None
        if self.leaf is not None:
            self.weight, self.children = problem.weights[tree], list[Node]()
            self.open, self.vector = tree in can, [g * x[tree] for g in problem.ratios[tree]]
            self.per = self.weight / max(problem.ratios[tree])
            self.ratios = problem.ratios[tree]
        else:
            self.weight = Fraction(tree[0])
            self.children = [Node(problem, child, x, can, full) for child in tree[1]]
            rising = [child for child in self.children if child.open]
            self.open, self.vector = bool(rising), [Fraction(0)] * problem.m
            self.level = min((child.height for child in rising), default=None)
            for child in self.children:
                scale = self.level / child.height if child.open and child.height > self.level else 1
                self.vector = [a + scale * b for a, b in zip(self.vector, child.vector, strict=True)]
        self.share = max((v for i, v in enumerate(self.vector) if i not in full), default=Fraction(0))
        self.height = self.share / self.weight

    def rises(self) -> tuple[dict[int, Any], list[Any], list[Any], list[Any]]:
        """By one unit of its own: tasks by user, its vector, what its users use, and the times of its events."""
        if self.leaf is not None:
            vector = [self.per * g for g in self.ratios]
            return {self.leaf: self.per}, vector, vector, []
        zero = [Fraction(0)] * len(self.vector)
        tied = [child for child in self.children if child.open and child.height == self.level]
        found = [(child, child.rises()) for child in tied]
        still = [(child, one) for child, one in found if child.growth(one[1]) == 0]
        tasks, vector, uses, events = dict[int, Any](), zero, zero, list[Any]()
        for child, (dx, dv, du, times) in still or found:
            speed = child.weight / (max(du) if still else child.growth(dv))
            tasks |= {j: speed * rate for j, rate in dx.items()}
            vector = [a + speed * b for a, b in zip(vector, dv, strict=True)]
            uses = [a + speed * b for a, b in zip(uses, du, strict=True)]
            events += [t / speed for t in times]
            growth = child.growth(dv)
            for i, (v, rate) in enumerate(zip(child.vector, dv, strict=True)):
                if i not in self.full and rate > growth and v < child.share:
                    events.append((child.share - v) / (rate - growth) / speed)
        if not still:
            for child in self.children:
                if child.open and child.height > self.level:
                    vector = [a + b / child.height for a, b in zip(vector, child.vector, strict=True)]
                    events.append(child.height - self.level)
        return tasks, vector, uses, events

    def growth(self, rate: list[Any]) -> Any:
        """How fast the share moves while the vector moves at a rate."""
        return max(
            r for i, (v, r) in enumerate(zip(self.vector, rate, strict=True)) if i not in self.full and v == self.share
        )


def filled(problem: Problem) -> list[Fraction]:
    """Tasks by user, exactly."""
    x = [Fraction(v) for v in problem.starts or [0] * problem.n]
    while can := problem.can_rise(x):
        tasks, _, _, times = Node(problem, problem.tree, x, can, problem.saturated(x)).rises()
        dx = [tasks.get(j, Fraction(0)) for j in range(problem.n)]
        times.append(problem.most(x, dx))
        times += [(problem.limits[j] - x[j]) / rate for j, rate in tasks.items() if problem.limits[j] is not None]
        for team, i, floor in problem.floors:
            left, rate = floor - problem.held(team, i, x), problem.held(team, i, dx)
            times += [left / rate] if left > 0 and rate > 0 else []
        t = min(times)
        x = [v + t * rate for v, rate in zip(x, dx, strict=True)]
    assert not problem.short(x)
    return x


def in_steps(problem: Problem, step: float, slack: float = 1.5) -> list[float]:
    """Tasks by user on one pool if users take turns in steps of a dominant share.

    Of children that are level but for ``slack`` steps, one whose share does not move goes first: the one that has added
    least so per weight.
    """
    ratios = [[float(g) for g in row] for row in problem.ratios]
    weights, most = [float(w) for w in problem.weights], [max(row) for row in ratios]
    limits = [float("inf") if t is None else float(t) for t in problem.limits]
    x, used = [float(v) for v in problem.starts or [0] * problem.n], [0.0] * problem.m
    for g, v in zip(ratios, x, strict=True):
        used = [u + a * v for u, a in zip(used, g, strict=True)]
    alone: dict[int, float] = {}

    def fits(j: int) -> bool:
        h = step / most[j]
        return x[j] + h <= limits[j] and all(u + g * h <= 1 + 1e-12 for u, g in zip(used, ratios[j], strict=True))

    def at(tree: Tree, tasks: list[float], full: set[int]) -> tuple[float, list[float], bool]:
        """Share per weight, vector, and whether the tree can rise."""
        if isinstance(tree, int):
            vector = [g * tasks[tree] for g in ratios[tree]]
            weight, can = weights[tree], fits(tree)
        else:
            parts = [at(child, tasks, full) for child in tree[1]]
            low = min((height for height, _, can in parts if can), default=0.0)
            vector, can = [0.0] * problem.m, any(part[2] for part in parts)
            for height, of, rises in parts:
                scale = low / height if rises and height > 0 else 1.0
                vector = [a + scale * b for a, b in zip(vector, of, strict=True)]
            weight = float(tree[0])
        share = max((v for i, v in enumerate(vector) if i not in full), default=0.0)
        return share / weight, vector, can

    while True:
        full = {i for i, u in enumerate(used) if u >= 1 - step}
        if not at(problem.tree, x, full)[2]:
            return x
        node = problem.tree
        while not isinstance(node, int):
            parts = [(at(child, x, full), child) for child in node[1]]
            low = min(height for (height, _, can), _ in parts if can)
            near = [c for (height, _, can), c in parts if can and height <= low + slack * step / _weight(problem, c)]
            still = []
            for child in near if len(near) > 1 else []:
                leaf = _first(problem, child, x, full, at)
                more = list(x)
                more[leaf] += step / most[leaf]
                if at(child, more, full)[0] <= at(child, x, full)[0] + 1e-15:
                    still.append((alone.get(id(child), 0.0), id(child), child))
            if still:
                node = min(still)[2]
                alone[id(node)] = alone.get(id(node), 0.0) + step / _weight(problem, node)
            else:
                node = min(parts, key=lambda part: part[0][0] if part[0][2] else float("inf"))[1]
        h = step / most[node]
        x[node] += h
        used = [u + g * h for u, g in zip(used, ratios[node], strict=True)]


def below_slice(problem: Problem, tasks: Sequence[float]) -> float:
    """How far a team or user is below its weighted part of its parent's part; 0 for those at their limits."""
    at_limit = [t is not None and x >= float(t) * (1 - 1e-9) for x, t in zip(tasks, problem.limits, strict=True)]

    def users(tree: Tree) -> list[int]:
        return [tree] if isinstance(tree, int) else [j for child in tree[1] for j in users(child)]

    def shortage(tree: Tree, part: float) -> float:
        mine = users(tree)
        held = [sum(float(problem.ratios[j][i]) * tasks[j] for j in mine) for i in range(problem.m)]
        short = 0.0 if all(at_limit[j] for j in mine) else 1 - max(held) / part
        if isinstance(tree, int):
            return short
        weights = [_weight(problem, child) for child in tree[1]]
        parts = [part * weight / sum(weights) for weight in weights]
        return max(short, *(shortage(child, own) for child, own in zip(tree[1], parts, strict=True)))

    return shortage(problem.tree, 1.0)


def _weight(problem: Problem, tree: Tree) -> float:
    return float(problem.weights[tree] if isinstance(tree, int) else tree[0])


def _first(problem: Problem, tree: Tree, x: list[float], full: set[int], at: Any) -> int:
    """The user of the smallest child of the smallest child and so on."""
    while not isinstance(tree, int):
        parts = [(at(child, x, full), child) for child in tree[1]]
        tree = min(parts, key=lambda part: part[0][0] if part[0][2] else float("inf"))[1]
    return tree


def drawn(seed: int, servers: int = 1, floors: bool = False, copies: int = 1) -> tuple[fo.Instance, Problem, fo.HDRF]:
    """A random tree of up to three levels: as an instance with its mechanism, and as a problem for the oracle.

    Numbers of even seeds are few, so that users and resources tie. Users of every third seed have guarantees, and with
    ``floors`` some teams of every seed; they may not fit together. Each user is one of up to ``copies`` that are alike,
    with the same limit and guarantee per weight.
    """
    r = random.Random(seed)
    n, m, few = r.randint(2, 8 if servers == 1 else 6), r.randint(1, 3), seed % 2 == 0
    demands = []
    while len(demands) < n:
        row = [
            r.choice([0, 0, 1, 2, 3]) if few else r.choice([0, r.uniform(0.1, 4), r.uniform(0.1, 4)]) for _ in range(m)
        ]
        if any(row):
            demands.append(row)
    capacities = [[r.choice([6, 10, 12, 20]) if few else r.uniform(5, 20) for _ in range(m)] for _ in range(servers)]
    eligible = [[r.random() < 0.7 for _ in range(servers)] for _ in range(n)]
    for row in eligible:
        row[r.randrange(servers)] = True
    weights = [r.choice([1, 1, 2, 3]) if few else r.choice([1, r.uniform(0.5, 3)]) for _ in range(n)]
    limits = [r.choice([None, r.choice([0.5, 1, 2, 3]) if few else r.uniform(0.2, 4)]) for _ in range(n)]
    starts = [r.choice([0, 0, 0, 0.0625]) if seed % 3 == 0 else 0 for _ in range(n)]
    by = ["org", "team", "group"][: r.randint(1, 3)]
    paths: list[list[str | None]] = []
    for _ in range(n):
        outer, path = "", list[str | None]()
        for kind in by:
            if r.random() < 0.2:
                path.append(None)
            else:
                outer += f"/{kind}{r.choice('xy')}"
                path.append(outer)
        paths.append(path)
    if copies > 1:
        kind = [j for j in range(n) for _ in range(r.randint(1, copies))]
        times = [r.choice([1, 2, 3] if few else [1, 2, 4]) for _ in kind]  # limits per weight are exactly equal
        demands, eligible, paths = [[table[j] for j in kind] for table in (demands, eligible, paths)]
        weights = [weights[j] * k for j, k in zip(kind, times, strict=True)]
        limits = [None if (t := limits[j]) is None else t * k for j, k in zip(kind, times, strict=True)]
        starts = [starts[j] * k for j, k in zip(kind, times, strict=True)]
    of_team = {name: r.choice([1, 1, 2]) for path in paths for name in path if name is not None}
    tree: Tree = (1, [])
    places: dict[str, Tree] = {}
    for j, path in enumerate(paths):
        at = tree
        for name in filter(None, path):
            if name not in places:
                places[name] = (of_team[name], [])
                at[1].append(places[name])
            at = places[name]
        at[1].append(j)
    teams = {kind: [path[k] for path in paths] for k, kind in enumerate(by)}
    given = {"weights": weights, "task_limits": limits, "eligible": eligible, "guarantees": starts, "teams": teams}
    owed: dict[str, dict[int, Any]] = {}
    for name in sorted(of_team) if floors else ():
        for i in range(m):
            if r.random() < 0.4:
                units = r.choice([1, 2, 3, 5, 8]) if few else r.uniform(0.1, 0.6) * sum(row[i] for row in capacities)
                owed.setdefault(name, {})[i] = units
    if owed:
        every: dict[str, Any] = {f"user{j + 1}": v for j, v in enumerate(starts) if v}
        for name, units in owed.items():
            every[name] = {f"resource{i + 1}": v for i, v in units.items()}
        given["guarantees"] = every
    secured = [([j for j, path in enumerate(paths) if name in path], units) for name, units in owed.items()]
    cut = [v if t is None else min(v, t) for v, t in zip(starts, limits, strict=True)]
    problem = Problem(demands, capacities, tree, weights, limits, eligible, cut, secured)
    return fo.Instance(demands, capacities, **given), problem, fo.HDRF(tuple(by), of_team)
