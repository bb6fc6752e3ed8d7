"""What is wrong with an answer of fuzz.py: judged from the parameters of its policy, in fractions or by proven bounds.

`judge` reads blocks as data, never by what fairopt makes of them: rows in exact fractions where they are linear, and
values with tangents (`oracle.cuts`) where they are curved. What comes of it is a word or two: nothing where all is
right, `OPEN` where the bound is not close enough to say, and else a kind, a colon and what is wrong.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import mul
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import common  # noqa: F401  # puts the oracles at hand
import numpy as np
from fuzz_blocks import Draw, asked_of
from fuzz_constants import missed
from oracle import bundles, cuts, exact_lp, per_server, plane, whole
from oracle.cuts import Concave, Held
from oracle.exact_cluster import Cluster, Worth
from oracle.exact_lp import dot

import fairopt as fo

Float = np.ndarray
Row = list[Fraction]
Rows = list[tuple[Row, Fraction]]
GAP, FIT, BLOCKS = 1e-6, 1e-9, 1e-7  # what a certificate allows
ROUNDED_PART = 1.5  # 1e-3 may be a rounded 1.5e-3
TIER = 1e-7  # what a tier gives up, of its fall when tasks are halved; four fifths of that are expected
KEPT = 1 - Fraction(TIER) * 2 / 5
ROUNDED = Fraction(1, 10**12)  # a bound on totals within this part of a user's share of equal parts is rounding of 0
OPEN = "?"
SMALLER = "worse: shares as even are larger"  # of which a measure without emphasis on efficiency sees nothing
ZERO = Fraction(0)


# -- shares, as what a task of each user is worth on each server -------------------------------------------------


def worth(share: fo.Share, given: dict[str, Any], cluster: Cluster) -> Worth:
    """The share that a task is worth, by user and server."""
    name, n, servers = type(share).__name__, cluster.n, cluster.servers
    if name == "Tasks":
        return cluster.tasks()
    if name == "StandAloneShare":
        return cluster.alone()
    if name == "ThroughputShare":
        return cluster.throughput()
    if name in ("Held", "Sliced"):
        return [[Fraction(v) for v in row] for row in share.table]
    if name == "ByPosition":
        return [[1 + Fraction(step) * s for s in range(servers)] for step in share.steps]
    if name in ("ByType", "ByLabel"):
        of = dict(share.rates)
        labels = given["server_types"] if name == "ByType" else [f"server{s + 1}" for s in range(servers)]
        return [[Fraction(of[label][j]) for label in labels] for j in range(n)]
    ratios = [
        [[d / c if d else ZERO for d, c in zip(row, cluster.total, strict=True)] for row in rows]
        for rows in cluster.demands
    ]
    if name == "KDominantShare":
        ranks = share.rank_weights or (1,) * share.k
        factors = [[Fraction(v) for v in (ranks[j] if isinstance(ranks[0], tuple) else ranks)] for j in range(n)]

        def of_row(row: Row, j: int) -> Fraction:
            largest = sorted(filter(None, row), reverse=True)[: share.k]
            product = reduce(mul, largest) if len(largest) == share.k or share.short == "positive" else ZERO
            return product * reduce(mul, factors[j][: share.k])

    elif name == "ResourceShare":
        i = share.resource if isinstance(share.resource, int) else int(share.resource.removeprefix("resource")) - 1

        def of_row(row: Row, j: int) -> Fraction:
            return row[i]

    else:  # p-norms, of which the dominant share is one

        def of_row(row: Row, j: int) -> Fraction:
            p = getattr(share, "p", float("inf"))
            top = max(row)
            if p in (0, float("inf")):
                return top if p else Fraction(1)
            return sum(row, ZERO) if p == 1 else top * Fraction(sum(float(v / top) ** p for v in row) ** (1 / p))

    return [[of_row(row, j) for row in rows] for j, rows in enumerate(ratios)]


# -- concave functions of tasks by pair ---------------------------------------------------------------------------


def linear(row: Float) -> Concave:
    """A linear one."""
    return Concave(lambda x: float(row @ x), lambda x: (row[None], np.zeros(1)))


def separable(forms: Float, curve: Callable[[Float], Float], slope: Callable[[Float], Float], least: Any) -> Concave:
    """A sum of functions of one form each, with tangents at values from ``least`` on."""

    def tangents(x: Float) -> tuple[Float, Float]:
        z = np.maximum(forms @ x, least)
        return slope(z)[:, None] * forms, curve(z) - slope(z) * z

    def value(x: Float) -> float:
        with np.errstate(all="ignore"):
            return float(np.sum(curve(np.maximum(forms @ x, 0.0))))  # what is above a base may be rounding below 0

    return Concave(value, tangents)


def smooth(forms: Float, curve: Callable[[Float], float], slope: Callable[[Float], Float], least: Any) -> Concave:
    """A function of all forms together."""

    def tangents(x: Float) -> tuple[Float, Float]:
        z = np.maximum(forms @ x, least)
        return (slope(z) @ forms)[None], np.array([curve(z) - slope(z) @ z])

    def value(x: Float) -> float:
        with np.errstate(all="ignore"):
            return float(curve(forms @ x))

    return Concave(value, tangents)


def added(parts: Sequence[tuple[float, Concave]]) -> Concave:
    """A sum of multiples."""

    def tangents(x: Float) -> tuple[Float, Float]:
        found = [(f * slopes, f * constants) for f, (slopes, constants) in ((f, c.tangents(x)) for f, c in parts)]
        return np.vstack([slopes for slopes, _ in found]), np.concatenate([constants for _, constants in found])

    return Concave(lambda x: sum(f * c.value(x) for f, c in parts), tangents)


def utility(alpha: float, w: Float, unit: float) -> tuple[Callable[[Float], Float], Callable[[Float], Float]]:
    """What alpha-fairness sums of shares per weight, in a unit, and its derivative."""
    if alpha == 1:
        return lambda z: w * np.log(z / unit), lambda z: w / z
    return lambda z: w * (z / unit) ** (1 - alpha) / (1 - alpha), lambda z: w * (z / unit) ** -alpha / unit


def ordered(forms: Float, weights: Float) -> Concave:
    """The sum of sorted forms by weights that do not grow."""

    def row(x: Float) -> Float:
        z = forms @ x
        v = np.zeros(len(z))
        v[np.argsort(z, kind="stable")] = weights[: len(z)]
        return v @ forms

    return Concave(lambda x: float(row(x) @ x), lambda x: (row(x)[None], np.zeros(1)))


CURVES: dict[str, Callable[[Float], tuple[Callable[[Float], Float], Callable[[Float], Float]]]] = {
    "Saturating": lambda k: (lambda x: -np.exp(-k * x), lambda x: k * np.exp(-k * x)),
    "Logarithms": lambda k: (lambda x: np.log1p(k * x), lambda x: k / (1 + k * x)),
    "Roots": lambda k: (lambda x: np.sqrt(np.maximum(k * x, 0)), lambda x: np.sqrt(k / x) / 2),
    "Near": lambda k: (lambda x: -((x - k) ** 2), lambda x: 2 * (k - x)),
    "Bent": lambda k: (
        lambda x: np.minimum(np.minimum(k * x, 1 + k * x / 4), 3),
        lambda x: np.where(k * x <= 4 / 3, k, np.where(k * x <= 8, k / 4, 0.0)),
    ),
}
CURVES["BentByVariable"] = CURVES["Bent"]


# -- a question, written out --------------------------------------------------------------------------------------


@dataclass
class Question:
    """Pairs of an instance, and what has to hold: rows, equations and curved conditions."""

    given: dict[str, Any]
    cluster: Cluster
    rows: Rows = field(default_factory=list)  # beside those of the cluster
    equal: Rows = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    lifted: bool = False  # whether a last variable that is 1 carries the bases of surpluses
    moved: float = 0.0  # the part of its size by which earlier tiers may move the one at hand, as the answer states
    levels_moved: float = 0.0  # the same of levels above the first, by lower ones; infinite if no part is stated

    @classmethod
    def of(cls, given: dict[str, Any], constraints: Sequence[fo.Constraint], objective: Any = None) -> Question:
        """That of an instance under constraints, which keeps the bases of an objective's surpluses."""
        least = given.get("guarantees", {})
        cluster = Cluster(**{name: value for name, value in given.items() if name != "guarantees"})
        bases = [
            part.share for part in all_parts(objective) if type(getattr(part, "share", None)).__name__ == "Surplus"
        ]
        question = cls(given, cluster, lifted=bool(bases))
        if bases:
            question.equal.append(([*([ZERO] * len(cluster.pairs)), Fraction(1)], Fraction(1)))
        for share in bases:
            question.bound(question.shares(), list(question.base(share)), -1)
        for block in constraints:
            question.add(block)
        if least:
            question.bound(question.shares(), list(question.within_limits(question.guaranteed)), -1)
        return question

    @property
    def guaranteed(self) -> list[Fraction]:
        """Guarantees of those who take part."""
        return [Fraction(self.given.get("guarantees", {}).get(f"user{j + 1}", 0)) for j in self.cluster.users]

    def within_limits(self, tasks: Row) -> Row:
        """Tasks of those who take part, cut at their limits."""
        limits = [self.cluster.limits[j] for j in self.cluster.users]
        return [t if limit is None else min(t, limit) for t, limit in zip(tasks, limits, strict=True)]

    def base(self, surplus: Any) -> Row:
        """The base of a surplus in tasks."""
        given = self.guaranteed if surplus.base is None else [v or ZERO for v in self.by_user(surplus.base)]
        return self.within_limits(given)

    def at(self, tasks: Float) -> Row:
        """An answer by variable."""
        return [*self.cluster.at(tasks), *([Fraction(1)] * self.lifted)]

    @property
    def all_rows(self) -> Rows:
        """With those of the cluster."""
        own = [([*row, ZERO], value) for row, value in self.cluster.rows] if self.lifted else self.cluster.rows
        return [*own, *self.rows]

    @property
    def top(self) -> Float:
        """The most of each variable."""
        return np.array(self.reach, dtype=float)

    @property
    def reach(self) -> Row:
        """The same, exactly."""
        return [*self.cluster.reach(), *([Fraction(1)] * self.lifted)]

    def shares(self, share: fo.Share | None = None, per_weight: bool = False) -> list[Row]:
        """Forms of the users who take part, or of their teams: tasks, a share, or what is above a base."""
        inner = share.share if type(share).__name__ == "Surplus" else share
        users = inner.share if type(inner).__name__ == "OfTeam" else inner
        of = self.cluster.tasks() if users is None else worth(users, self.given, self.cluster)
        forms = [[*form, *([ZERO] * self.lifted)] for form in self.cluster.forms(of, per_weight=False)]
        if inner is not share:
            for k, (j, base) in enumerate(zip(self.cluster.users, self.base(share), strict=True)):
                forms[k][-1] = -base * min(of[j][s] for u, s in self.cluster.pairs if u == j)
        if inner is not users:
            forms = [total([forms[k] for k in members]) for members in self.teams(inner).values()]
        weights = self.weights_of(share) if per_weight else [Fraction(1)] * len(forms)
        return [[v / w for v in form] for form, w in zip(forms, weights, strict=True)]

    def teams(self, share: Any) -> dict[str, list[int]]:
        """The members of each team among those who take part, by their position there."""
        out: dict[str, list[int]] = {}
        for k, j in enumerate(self.cluster.users):
            out.setdefault(self.given["teams"][share.by][j], []).append(k)
        return out

    def weights_of(self, share: Any) -> Row:
        """Weights of the users or teams of whom a share is."""
        inner = share.share if type(share).__name__ == "Surplus" else share
        if type(inner).__name__ != "OfTeam":
            return [self.cluster.weights[j] for j in self.cluster.users]
        given = inner.weights or {}
        return [Fraction(given.get(team, 1)) for team in self.teams(inner)]

    def rising(self, forms: list[Row]) -> list[int]:
        """Which forms of surplus can rise above 0: the others leave an objective."""
        return [k for k, form in enumerate(forms) if exact_lp.maximise(form, self.all_rows, self.equal).value > 0]

    def by_user(self, values: Any) -> list[Fraction | None]:
        """A parameter by user, of those who take part."""
        if isinstance(values, Mapping):
            of = {int(user.removeprefix("user")) - 1: v for user, v in values.items()}
            full: list[Any] = [of.get(j) for j in range(self.cluster.n)]
        else:
            full = list(values) if isinstance(values, tuple) else [values] * self.cluster.n
        return [None if full[j] is None or np.isinf(full[j]) else Fraction(full[j]) for j in self.cluster.users]

    def bound(self, forms: list[Row], values: list[Fraction | None], sign: int) -> None:
        """Forms at most (1) or at least (-1) their values."""
        self.rows += [
            ([sign * v for v in form], sign * value)
            for form, value in zip(forms, values, strict=True)
            if value is not None
        ]

    def add(self, block: fo.Constraint) -> None:
        """A condition."""
        name, cluster, tasks = type(block).__name__, self.cluster, self.shares()
        if name in ("MinTasks", "MaxTasks"):
            self.bound(tasks, self.by_user(block.tasks), -1 if name == "MinTasks" else 1)
        elif name in ("MinShare", "MaxShare"):
            forms = self.shares(block.share)
            teams = type(block.share).__name__ == "OfTeam"
            level = [Fraction(block.level)] * len(forms) if teams else self.by_user(block.level)
            self.bound(forms, level, -1 if name == "MinShare" else 1)
        elif name == "Reserve":
            i = block.resource if isinstance(block.resource, int) else int(block.resource.removeprefix("resource")) - 1
            loads = cluster.rows[: cluster.servers * cluster.resources][i :: cluster.resources]
            self.rows += [(row, value * (1 - Fraction(block.fraction))) for row, value in loads]
        elif name == "EqualShares":
            forms = self.shares(block.share, per_weight=True)
            self.equal += [([a - b for a, b in zip(one, other, strict=True)], ZERO) for one, other in pairwise(forms)]
        elif name == "SharingIncentive":
            self.bound(tasks, slices(cluster), -1)
        elif name == "EnvyFree":
            self.rows += envy(cluster, tasks)
        elif name in ("AtMost", "RequiredAtMost", "WithRoom", "RequiringTotal"):
            self.rows += [
                ([Fraction(row[j]) for j, _ in cluster.pairs], Fraction(value))
                for row, value in zip(block.matrix, block.values, strict=True)
            ]
        elif name == "Proportion":
            self.equal.append(([a - Fraction(block.factor) * b for a, b in zip(*self.two(), strict=True)], ZERO))
        elif name in ("LeastTasks", "LeastShare"):
            forms = tasks if name == "LeastTasks" else self.shares(fo.DominantShare())
            self.bound(forms, [Fraction(block.level)] * len(forms), -1)
        elif name == "AtLeast":
            self.at_least(block.objective, float(block.level))
        else:
            self.held.append(curved(block, np.array(tasks, dtype=float), self))

    def two(self) -> list[Row]:
        """Tasks of the first two users, of whom any may take no part."""
        tasks = dict(zip(self.cluster.users, self.shares(), strict=True))
        return [tasks.get(j, [ZERO] * len(self.cluster.pairs)) for j in (0, 1)]

    def at_least(self, objective: fo.Objective, level: float) -> None:
        """An objective that is at least a level."""
        forms = self.forms_of(objective)
        if type(objective).__name__ == "MaxMin":
            self.bound(forms, [Fraction(level)] * len(forms), -1)
        elif type(objective).__name__ == "Total":
            self.bound([total(forms)], [Fraction(level)], -1)
        else:
            middle = self.top / len(self.top)
            function = concave_of(objective, self, np.array(forms, dtype=float) @ middle)
            size = abs(level) + abs(function.value(middle) - function.value(middle / 2))
            self.held.append(Held(function, level, size))

    def forms_of(self, objective: Any) -> list[Row]:
        """What an objective is about: shares per weight, or tasks by rates."""
        if hasattr(objective, "share"):
            plain = type(objective).__name__ in ("Total", "FairnessEfficiency")
            forms = self.shares(objective.share, per_weight=not plain)
            return [forms[k] for k in self.part_of(objective)]
        if type(objective).__name__ in ("Smallest", "Linear"):
            rates = [Fraction(objective.rates[j]) for j in self.cluster.users]
            return [[r * v for v in form] for r, form in zip(rates, self.shares(), strict=True)]
        return self.shares()

    def part_of(self, objective: Any) -> list[int]:
        """Which of the users or teams of an objective's share it is about."""
        forms = self.shares(objective.share)
        return self.rising(forms) if type(objective.share).__name__ == "Surplus" else list(range(len(forms)))

    def weights_in(self, objective: Any) -> Float:
        """The weights of whom an objective is about."""
        if not hasattr(objective, "share"):
            return np.array([self.cluster.weights[j] for j in self.cluster.users], dtype=float)
        weights = self.weights_of(objective.share)
        return np.array([weights[k] for k in self.part_of(objective)], dtype=float)

    def unfit(self, tasks: Float) -> str:
        """Which capacity, limit or condition an answer breaks, each by its own size.

        A condition that compares users has no size where they run next to nothing: 1e-9 of the largest that it could
        have is rounding.
        """
        excess = self.cluster.excess(tasks)
        if not excess <= FIT:
            return f"over: a capacity, limit or sign by {excess:.1e}"
        at, reach = self.at(tasks), self.reach
        both_ways = [([-v for v in row], -value) for row, value in self.equal]
        for row, value in (*self.rows, *self.equal, *both_ways):
            over = dot(row, at) - value
            size = max(abs(value), dot(map(abs, row), at))
            if over > max(size * Fraction(BLOCKS), dot(map(abs, row), reach) * Fraction(FIT)):
                return f"condition: broken by {float(over / size):.1e} of its size"
        x = np.array(at, dtype=float)
        for h in self.held:
            short = h.level - h.function.value(x)
            if not short <= 1.01 * BLOCKS * h.size:
                return f"condition: a curved one broken by {short / h.size:.1e} of its size"
        return ""


def total(forms: Sequence[Row]) -> Row:
    """The sum of forms."""
    return [sum(column, ZERO) for column in zip(*forms, strict=True)]


def slices(cluster: Cluster) -> list[Fraction | None]:
    """Tasks of each user's part of every server, at most its limit."""
    whole_weight = sum((cluster.weights[j] for j in cluster.users), ZERO)
    out: list[Fraction | None] = []
    for k in cluster.users:
        runs = sum(
            (
                cluster.counts[s] * min(c / d for c, d in zip(cluster.one[s], cluster.demands[k][s], strict=True) if d)
                for u, s in cluster.pairs
                if u == k
            ),
            ZERO,
        )
        limit, due = cluster.limits[k], cluster.weights[k] / whole_weight * runs
        out.append(due if limit is None else min(due, limit))
    return out


def envy(cluster: Cluster, tasks: list[Row]) -> Rows:
    """That no user could run more on the bundle of another, relative to weights."""
    rows: Rows = []
    pairs = set(cluster.pairs)
    for own, envier in zip(tasks, cluster.users, strict=True):
        for envied in cluster.users:
            if envier != envied:
                row = [-v for v in own]
                for p, (u, s) in enumerate(cluster.pairs):
                    if u == envied and (envier, s) in pairs:
                        mine, theirs = cluster.demands[envier][s], cluster.demands[envied][s]
                        runs = min(b / a for a, b in zip(mine, theirs, strict=True) if a)
                        row[p] += cluster.weights[envier] / cluster.weights[envied] * runs
                rows.append((row, ZERO))
    return rows


def curved(block: Any, tasks: Float, question: Question) -> Held:
    """A conic condition of one's own as a concave function that is at least a level."""
    name, n = type(block).__name__, len(tasks)
    if name == "LogSum":
        k = np.array(block.rates)
        return Held(separable(tasks, *CURVES["Logarithms"](k), 0.0), block.level, abs(block.level) + n * 1e-3)
    if name == "GeoMean":
        tiny = 1e-3 * (tasks @ question.top)

        def mean(z: Float) -> float:
            return float(np.exp(np.log(z).mean())) if (z > 0).all() else 0.0

        return Held(smooth(tasks, mean, lambda z: mean(z) / (n * z), tiny), block.level, abs(block.level))
    if name == "Jain":
        forms = np.array(question.shares(fo.DominantShare()), dtype=float)
        factor = np.sqrt(block.index * n)
        return Held(
            smooth(
                forms, lambda z: z.sum() - factor * np.sqrt(z @ z), lambda z: 1 - factor * z / (np.sqrt(z @ z) or 1), 0
            ),
            0.0,
            float((forms @ question.top).max()),
        )
    forms = np.array(block.rates)[:, None] * tasks
    if name == "NormAtMost":
        return Held(
            smooth(forms, lambda z: -np.sqrt(z @ z), lambda z: -z / (np.sqrt(z @ z) or 1), 0), -block.most, block.most
        )
    forms = np.vstack([forms, tasks.sum(axis=0)])

    def spread(z: Float) -> float:
        return -float(z[:-1] @ z[:-1]) / (1 + z[-1])

    def slope(z: Float) -> Float:
        return np.append(-2 * z[:-1] / (1 + z[-1]), -spread(z) / (1 + z[-1]))

    return Held(smooth(forms, spread, slope, 0), -block.most, block.most)


def concave_of(objective: Any, question: Question, at: Float) -> Concave:
    """An objective as a function of tasks by pair, with tangents near values ``at`` of its forms."""
    name, users = type(objective).__name__, question.cluster.users
    weights = question.weights_in(objective)
    forms = np.array(question.forms_of(objective), dtype=float)
    least = np.maximum(1e-3 * at, 1e-12 * np.max(at, initial=0.0))
    if name in ("Total", "Linear", "RequiringTotal"):
        return linear(forms.sum(axis=0))
    if name in ("MaxMin", "Smallest", "OrderedWeighted"):
        v = objective.weights if name == "OrderedWeighted" else (1.0,)
        return ordered(forms, np.append(v, np.zeros(len(users)))[: len(users)])
    if name == "AlphaFair":
        return separable(forms, *utility(objective.alpha, weights, 1.0), least)
    if name == "FairnessEfficiency":
        return smooth(forms, *measure(objective, weights), least)
    rates = np.array([(getattr(objective, "rates", None) or objective.aims)[j] for j in users], dtype=float)
    return separable(forms, *CURVES[name](rates), 1e-12 * (forms @ question.top))


def emphasis(objective: Any) -> tuple[float, float]:
    """``a`` and ``l`` of the measure of Joe-Wong et al. (2013)."""
    return abs(1 - objective.beta) / abs(objective.beta), objective.lam * (1 if objective.beta <= 1 else -1)


def measure(objective: Any, w: Float) -> tuple[Callable[[Float], float], Callable[[Float], Float]]:
    """The logarithm of that measure where it is concave, and its gradient in the shares."""
    q, (a, power) = 1 - objective.beta, emphasis(objective)

    def curve(s: Float) -> float:
        even = a / q * np.log((w * (s / w) ** q).sum()) if q else np.log(w.sum())
        return float(even + (power - a) * np.log(s.sum()))

    def slope(s: Float) -> Float:
        z = (s / w) ** (q - 1)
        return (a * z / (w * (s / w) ** q).sum() if q else 0.0) + (power - a) / s.sum() + np.zeros(len(s))

    return curve, slope


# -- verdicts ------------------------------------------------------------------------------------------------------


def tiers_of(objective: Any) -> tuple[Any, ...]:
    """An objective's tiers."""
    return objective.tiers if type(objective).__name__ == "Tiers" else (objective,)


def judge(draw: Draw, answer: Any) -> str:
    """Whether an answer is what its draw asks for."""
    how = draw.how[0]
    if how == "many":
        return _batch(draw, answer)
    if how == "saved":
        return _saved(answer, draw.how[1])
    if not answer.certificate.ok:
        return "certificate: an answer without one was returned"
    if how == "constants":
        return missed(draw, answer)
    given, policy = asked_of(draw)
    if how in ("wild", "lie"):
        tasks = np.ldexp(answer.tasks_by_server, draw.how[2])
        answer = SimpleNamespace(
            tasks_by_server=tasks, certificate=answer.certificate, objective=None, instance=fo.Instance(**given)
        )
    name = type(policy).__name__
    if how == "whole":
        return _whole(policy, answer)
    if name == "PSDSF":
        return _equilibrium(Question.of(given, ()), answer)
    if name == "NaivePerServer":
        return _by_server(given, policy.policy, answer)
    if name == "BottleneckFairness":
        policy = fo.NashWelfare()
    if type(policy.objective).__name__ == "WeightedLog":
        return _bundles(given, policy, answer)
    question = Question.of(given, policy.constraints, policy.objective)
    tiers = tiers_of(policy.objective)
    if type(tiers[0]).__name__ == "RequiringTotal":
        question.add(tiers[0])
    question.levels_moved, of_tiers = _stated(answer.certificate.assumed)
    if not question.cluster.pairs:
        return "" if not answer.tasks_by_server.any() else "over: tasks where no user may run any"
    if wrong := question.unfit(answer.tasks_by_server):
        return wrong
    at = question.at(answer.tasks_by_server)
    try:
        for k, tier in enumerate(tiers):
            says, last = (None if k else answer.objective), tier is tiers[-1]
            question.moved = of_tiers.get(k + 1, 0.0)
            if wrong := _tier(question, tier, at, says, last):
                return wrong if wrong == OPEN else f"tier {k + 1} {wrong}" if k else wrong
    except exact_lp.NoPoint:  # nothing is as good, but for what conditions and earlier tiers may give way
        return ""
    return ""


def _stated(assumed: str) -> tuple[float, dict[int, float]]:
    """By what parts of their size earlier levels, and earlier tiers, may move later ones, as a certificate states."""

    def part(text: str) -> float:
        return ROUNDED_PART * float(text.replace("any", "inf"))

    levels = re.search("given the lower ones as returned(?:, whose tolerances may move them by ([^ ]*))?", assumed)
    tiers = re.findall("tier ([0-9]+) is the best given [^;]* may move it by ([^ ]*)", assumed)
    return part(levels[1] or "inf") if levels else 0.0, {int(k): part(text) for k, text in tiers}


def _tier(question: Question, objective: Any, at: Row, says: float | None = None, last: bool = True) -> str:
    """Whether an answer is as good as can be for an objective.

    Unless it is the last one it is kept for those that follow: at its value, or `TIER` below the best, if that is more;
    where the best shares are unique, at the answer's shares.
    """
    name, forms = type(objective).__name__, question.forms_of(objective)
    z, x = [dot(form, at) for form in forms], np.array(at, dtype=float)
    loose = bool(question.rows or question.equal or question.held or not last)  # tiers that follow may trade levels
    if name == "Leximin":
        levels, verdict = _leximin(question, forms, z, x, loose)
        question.bound(forms, [max(v, level * KEPT) for v, level in zip(z, levels, strict=True)], -1)
        return verdict or claimed(says, float(min(z)))
    if name in ("Total", "Linear", "RequiringTotal", "MaxMin", "Smallest", "OrderedWeighted") and not question.held:
        rows, same, rounding = question.all_rows, question.equal, 0.0
        if name in ("MaxMin", "Smallest"):
            got, best = min(z), exact_lp.smallest(forms, rows, same)
            question.bound(forms, [max(got, best * KEPT)] * len(forms), -1)
        elif name == "OrderedWeighted":
            v = [Fraction(w) for w in objective.weights]
            got = sum((w * s for w, s in zip(v, sorted(z), strict=False)), ZERO)
            best = exact_lp.ordered(forms, v, rows, same)
            if not last:
                function = concave_of(objective, question, np.array(z, dtype=float))
                question.held.append(Held(function, float(max(got, best * KEPT)) * (1 - 1e-14), float(got)))
        else:
            row = total(forms)
            got, best = sum(z, ZERO), exact_lp.maximise(row, rows, same).value
            rounding = 1e-14 * sum(abs(float(c * v)) for c, v in zip(row, at, strict=True))  # terms may cancel
            # rounding of large terms may be worth 1e-6 of what the tier leaves
            question.bound([row], [min(max(got + Fraction(10 * rounding), best * KEPT), best)], -1)
        if got == 0 < best and best <= ROUNDED * _least_of_equal_parts(question, forms):
            return claimed(says, 0.0)  # rounding of what conditions ask for leaves that much
        return compared([got], [best], loose, question.moved) or claimed(says, float(got), rounding)
    return _curved(question, objective, np.array(z, dtype=float), x, says, last)


def _least_of_equal_parts(question: Question, forms: list[Row]) -> Fraction:
    """The smallest of all users' shares of an equal part of the cluster."""
    rows = question.all_rows[: len(question.cluster.rows)]
    return min(exact_lp.maximise(form, rows, question.equal[: question.lifted]).value for form in forms) / len(forms)


def compared(
    got: Sequence[Fraction], best: Sequence[Fraction], loose: bool, first: float = 0.0, later: float = 0.0
) -> str:
    """Sorted levels beside what they should be; what conditions may give way may buy more of one and cost the next.

    Open if they differ by no more than an answer states: a part of the ``first`` level, and of ``later`` ones.
    """
    verdict = ""
    for k, (mine, right) in enumerate(zip(got, best, strict=True)):
        if abs(mine - right) > abs(right) * Fraction(GAP):
            if mine > right and loose:
                break
            stated = max(first, later if k else 0.0)
            if not stated or float(abs(mine - right)) > stated * float(max(mine, right)):
                way = "worse" if mine < right else "other"
                return f"{way}: {list(map(float, got))} where {list(map(float, best))} is right"
            verdict = OPEN
    return verdict


def _leximin(question: Question, forms: list[Row], z: Row, x: Float, loose: bool) -> tuple[list[Fraction], str]:
    """The levels by user, or bounds of them, and a verdict."""
    mine = sorted(z)
    if not question.held:
        levels = exact_lp.leximin(forms, question.all_rows, question.equal)
        return levels, compared(mine, sorted(levels), loose, question.moved, question.levels_moved)

    def reached(levels: list[Fraction]) -> bool:
        return not compared(mine, sorted(levels), True)

    levels, exact = cuts.leximin(forms, question.all_rows, question.equal, question.held, question.top, x, reached)
    if not exact:
        return levels, "" if reached(levels) else OPEN
    return levels, compared(mine, sorted(levels), True, question.moved, question.levels_moved)


def _curved(question: Question, objective: Any, z: Float, x: Float, says: float | None, last: bool) -> str:
    """A value against a bound by tangents: wrong if a better point was found, open if that was not and may be."""
    name = type(objective).__name__
    if name == "FairnessEfficiency" and not concave_region(objective):
        return _plane(question, objective, z)
    needs_all = getattr(objective, "alpha", 0) >= 1 or getattr(objective, "beta", 0) > 1
    forms = question.forms_of(objective)
    if needs_all and min(z) <= 0 and exact_lp.smallest(forms, question.all_rows, question.equal) <= 0:
        return ""  # conditions leave one of them nothing
    if max(z) <= 0 and exact_lp.maximise(total(forms), question.all_rows, question.equal).value <= 0:
        return claimed(says, 0.0) if name == "FairnessEfficiency" else ""  # or all of them
    if needs_all and min(z) <= 0:
        return f"worse: shares per weight {z.tolist()} where all can be positive"
    with np.errstate(all="ignore"):
        function, allowed, claim = _measured(question, objective, z, x)
        got = function.value(x)
        unit = min(allowed / GAP, abs(got - function.value(x / 2))) or 1.0
    if not np.isfinite(got):
        return f"worse: worth {got} at {x.tolist()}"
    close = 0.9 * allowed if last else 0.05 * TIER * unit
    found = cuts.maximise(function, question.all_rows, question.equal, question.held, question.top, x, close)
    if not last and (part := deciding(question, objective)) is not None:
        forms = question.forms_of(part)
        question.bound(forms, [dot(form, list(map(Fraction, x))) * (1 - ROUNDED) for form in forms], -1)
    elif not last:
        kept = max(got + 1e-14 * (abs(got) + unit), found.high - 0.8 * TIER * unit)  # of which rounding is no part
        question.held.append(Held(function, kept, abs(got) + unit))
    if found.low > got + 1.05 * allowed:
        if found.low <= got + allowed * question.moved / GAP:
            return OPEN
        return f"worse: {got:.12g} where {found.low:.12g} can be had (1e-6 is {allowed:.1e}), as by {found.point}"
    rounding = GAP * question.cluster.n if getattr(objective, "alpha", 0) == 1 else allowed * (name not in SCALED)
    wrong = claimed(says, claim, rounding) if np.isfinite(claim) else ""
    return wrong or (OPEN if found.high > got + allowed else "")


SCALED = ("AlphaFair", "FairnessEfficiency")  # what is bounded is a transform of the value


def _measured(question: Question, objective: Any, z: Float, x: Float) -> tuple[Concave, float, float]:
    """What bounds an objective, how far a certified value may be below the best, and the value in natural units."""
    name = type(objective).__name__
    weights = question.weights_in(objective)
    if name == "AlphaFair":
        alpha, forms = objective.alpha, np.array(question.forms_of(objective), dtype=float)
        curves = utility(alpha, weights, float(z.min() if alpha > 1 else z.max()) or 1.0)
        function = separable(forms, *curves, np.maximum(1e-3 * z, 1e-12 * z.max()))
        allowed = GAP * (weights.sum() if alpha == 1 else abs((1 - alpha) * function.value(x)))
        return function, allowed, float(utility(alpha, weights, 1.0)[0](z).sum())
    parts = objective.summands() if name == "Sum" else ((1.0, objective),)
    at = [np.array(question.forms_of(part), dtype=float) @ x for _, part in parts]
    terms = [(f, concave_of(part, question, values)) for (f, part), values in zip(parts, at, strict=True)]
    function = added(terms)
    got = function.value(x)
    if name == "FairnessEfficiency":
        natural = np.exp(got) if objective.beta <= 1 else -np.exp(-got)
        return function, GAP * max(1.0, emphasis(objective)[1]), float(natural)
    if name in ("OrderedWeighted", "MaxMin", "Total", "Smallest", "Linear", "RequiringTotal"):
        return function, GAP * abs(got), got
    fall, size = abs(got - function.value(x / 2)), sum(abs(f * term.value(x)) for f, term in terms)
    return function, GAP * (fall or 1.0) + 1e-14 * size, got


def claimed(says: float | None, value: float, rounding: float = 0.0) -> str:
    """Whether the objective that is reported is that of the tasks."""
    if says is None or abs(says - value) <= GAP * abs(value) + rounding:
        return ""
    return f"objective: says {says:.9g} where its tasks are worth {value:.9g}"


def concave_region(objective: Any) -> bool:
    """Whether a transform of the measure is concave."""
    a, power = emphasis(objective)
    return objective.beta > 0 and power >= a * (1 - 1e-12)


def decides_shares(objective: Any) -> bool:
    """Whether the best shares are unique: of alpha-fairness with alpha > 0, and of a concave measure."""
    if type(objective).__name__ == "AlphaFair":
        return bool(objective.alpha > 0)
    return type(objective).__name__ == "FairnessEfficiency" and objective.beta != 1 and concave_region(objective)


def deciding(question: Question, objective: Any) -> Any:
    """The objective if its best shares are unique, or a term of a sum where they decide the others; else None."""
    if type(objective).__name__ != "Sum":
        return objective if decides_shares(objective) else None

    def of_users(part: Any) -> bool:
        """Whether its forms are users' tasks, times a number each."""
        forms = question.forms_of(part)
        return len(forms) == len(question.cluster.users) and all(len({*form} - {ZERO}) == 1 for form in forms)

    parts = [part for _, part in objective.summands()]
    if {type(part).__name__ for part in parts} <= {"AlphaFair", "Total", "MaxMin", "OrderedWeighted"}:
        for part in parts:
            alike = [one.share == part.share or (of_users(one) and of_users(part)) for one in parts]
            if decides_shares(part) and all(alike):
                return part
    return None


def _plane(question: Question, objective: Any, shares: Float) -> str:
    """Where the measure is not concave: against a fine search of all directions, on a pool of two or three users of one
    weight; the search says nothing elsewhere.
    """
    cluster, weights = question.cluster, {*question.weights_in(objective).tolist()}
    if cluster.servers > 1 or len(shares) not in (2, 3) or len(weights) > 1 or question.equal or question.held:
        return OPEN
    per_task = np.array([form[p] for p, form in enumerate(question.forms_of(objective))], dtype=float)
    loads = np.array([[float(v) for v in row] for row, _ in question.all_rows])
    loads = loads / np.array([float(value) for _, value in question.all_rows])[:, None] / per_task
    best = plane.best_of_plane(loads[loads.any(axis=1)], objective.beta, objective.lam)
    if objective.lam == 0 and np.allclose(shares, best.shares, rtol=1e-5):
        return ""
    got = float(plane.log_measure(shares, objective.beta, objective.lam))
    if got < best.value - 1.05 * GAP * max(1.0, emphasis(objective)[1]):
        return f"worse: {got:.12g} where {best.value:.12g} can be had by shares {best.shares}"
    return SMALLER if objective.lam == 0 else ""  # though nobody would lose by more


def _saved(answer: Any, edit: bool) -> str:
    """An answer through a file: as it was, or with half of its tasks, which may not be certified."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.json"
        answer.save(path)
        if edit:
            data = json.loads(path.read_text())
            for part in ("tasks_by_server", "bundles"):
                data[part] = None if data[part] is None else (0.5 * np.array(data[part])).tolist()
            path.write_text(json.dumps(data))
        try:
            loaded = fo.Allocation.load(path)
        except fo.errors.InvalidInstance as error:
            return "" if edit else f"load refuses: {str(error).partition(': ')[2]}"
    if edit:
        return "edited: half of the tasks are certified" if loaded.certificate.ok else ""
    if not np.array_equal(loaded.tasks_by_server, answer.tasks_by_server):
        return "load: other tasks than were saved"
    return "" if loaded.certificate.ok else "load: without a certificate"


def _batch(draw: Draw, answers: Any) -> str:
    """Each instance of a batch, as if it had been asked alone; who takes no part is left out of its answer."""
    for k, given in enumerate((draw.given, *draw.how[1])):
        if not answers[k].certificate.ok:
            return f"{OPEN} not certified in the batch"
        part = [j for j, limit in enumerate(given.get("task_limits") or [1] * len(given["demands"])) if limit != 0]
        given = {key: v if key == "capacities" else [v[j] for j in part] for key, v in given.items()}
        verdict = judge(replace(draw, given=given, how=("allocate",)), answers[k])
        if verdict:
            return verdict if verdict == OPEN else f"instance {k} {verdict}"
    return ""


def _whole(policy: Any, answer: Any) -> str:
    """Whole tasks, against all ways to fill the servers."""
    if not whole.fits(answer):
        return "over: not whole, or beyond a server or a limit"
    most, least, levels = whole.best(answer.instance)
    tasks, shares = whole.of_answer(answer)
    mine = whole.levels(answer.instance, shares)
    name = type(policy.objective).__name__
    if name == "Total":
        return "" if sum(tasks) == most else f"worse: {sum(tasks)} whole tasks where {most} fit"
    if name == "MaxMin":
        return compared([min(mine, default=ZERO)], [least], False)
    return compared(mine, levels, False)


def _equilibrium(question: Question, answer: Any) -> str:
    """PS-DSF by its definition: no user can rise anywhere without lowering one at its level or below."""
    tasks = answer.tasks_by_server
    if wrong := question.unfit(tasks):
        return wrong
    for j, s in question.cluster.pairs:
        if (gain := per_server.can_rise(answer.instance, tasks, j, s)) > 3e-6:
            return f"worse: user {j} can rise by {gain:.1e} on server {s}"
    return ""


def _by_server(given: dict[str, Any], policy: Any, answer: Any) -> str:
    """Each server shared out by itself among those who may run there, without limits."""
    cluster = Cluster(**given)
    demands = np.array(given["demands"])
    for s in range(cluster.servers):
        users = [j for j, t in cluster.pairs if t == s]
        if not users:
            continue
        alone = {
            "demands": (demands[users, s] if demands.ndim == 3 else demands[users]).tolist(),
            "capacities": np.atleast_2d(given["capacities"])[s].tolist(),
            "weights": [float(cluster.weights[j]) for j in users],
        }
        question = Question.of(alone, ())
        tasks = answer.tasks_by_server[users, s][:, None] / cluster.counts[s]
        wrong = question.unfit(tasks) or _tier(question, policy.objective, question.cluster.at(tasks), None)
        if wrong:
            return wrong if wrong == OPEN else f"server {s} {wrong}"
    return ""


def _bundles(given: dict[str, Any], policy: Any, answer: Any) -> str:
    """What users hold by the closed forms: of MLF-DRS, or of H-FFMRA."""
    cluster = Cluster(**given)
    users = cluster.users
    demands = [[cluster.demands[j][s] for s in range(cluster.servers)] for j in users]
    eligible = [
        [bool((given.get("eligible") or [[1] * cluster.servers] * cluster.n)[j][s]) for s in range(cluster.servers)]
        for j in users
    ]
    parts = [block for block in policy.constraints if type(block).__name__ == "GlobalAggregateResource"]
    held: list[list[Row]] = [[] for _ in users]
    if parts and parts[0].over != "server":
        held = bundles.hffmra(demands, cluster.one, parts[0].units, eligible, cluster.counts)
    else:
        for s in range(cluster.servers):
            rows, may = [row[s] for row in demands], [row[s] for row in eligible]
            if parts:
                one = [
                    row[0]
                    for row in bundles.hffmra([[r] for r in rows], [cluster.one[s]], parts[0].units, [[v] for v in may])
                ]
            else:
                one = bundles.mlf_drs(rows, cluster.one[s], policy.objective.base.growth, may)
            for j, row in enumerate(one):
                held[j].append([cluster.counts[s] * v for v in row])
    right, mine = np.array(held, dtype=float), np.asarray(answer.bundles)[users]
    room = np.array([[q * c for c in row] for q, row in zip(cluster.counts, cluster.one, strict=True)], dtype=float)
    if (mine < 0).any() or (mine.sum(axis=0) > room * (1 + FIT)).any():
        return "over: bundles beyond a capacity"
    near = 1e-7 if answer.certificate.solver is None else 5e-3  # logarithms are flat
    if not np.allclose(mine, right, rtol=near, atol=near * 1e-2 * room.max()):
        return f"worse: bundles {mine.tolist()} where {right.tolist()} are right"
    return ""


def untrue(draw: Draw, error: Exception) -> str:
    """Whether what an error states is so: nothing if it is, `OPEN` if that is unknown, and else why not."""
    given, policy = asked_of(draw)
    if draw.how[0] in ("wild", "lie") and "floats" in str(error):
        return ""
    if not hasattr(policy, "objective"):
        return "every draw of this mechanism has an answer"
    question = Question.of(given, policy.constraints, policy.objective)
    if isinstance(error, fo.errors.OutOfDomain) and "no tasks at all" in str(error):
        most = (exact_lp.maximise(form, question.all_rows, question.equal).value for form in question.shares())
        return "" if any(value <= 0 for value in most) else "all can have tasks"
    if isinstance(error, fo.errors.OutOfDomain):
        used = [part for part in (*_levelled(policy), *policy.constraints) if hasattr(part, "share")]
        levelled = [
            of_users(part.share) for part in used if type(part).__name__ not in ("Total", "MinShare", "MaxShare")
        ]
        levelled += [of_users(part.share) for part in used if getattr(part.share, "short", "") == "refuse"]
        too_few = any(getattr(part.share, "k", 1) > question.cluster.resources for part in used)
        tables = [worth(share, given, question.cluster) for share in levelled] if not too_few else []
        zero = any(not table[j][s] for table in tables for j, s in question.cluster.pairs)
        totals = [of_users(part.share) for part in used if type(part).__name__ == "Total"] if not too_few else []
        for table in (worth(share, given, question.cluster) for share in totals):  # the same for every allocation
            zero = zero or not any(table[j][s] for j, s in question.cluster.pairs)
        return "" if zero or too_few else "all shares are positive"
    if isinstance(error, fo.errors.Infeasible):
        if not question.cluster.pairs:
            return ""
        nothing, rows, same = np.zeros(len(question.top)), question.all_rows, question.equal
        try:
            start = np.array(exact_lp.maximise(nothing + 1, rows, same).point, dtype=float)
            found = cuts.maximise(linear(nothing), rows, same, question.held, question.top, start, 1e-9)
        except exact_lp.NoPoint:
            return ""
        return OPEN if found.point is None else f"tasks {found.point.tolist()} satisfy everything"
    return "every draw has an optimum"


def all_parts(*objectives: Any) -> list[Any]:
    """Objectives without sums and tiers."""
    parts: list[Any] = []
    for objective in (tier for one in objectives for tier in tiers_of(one)):
        parts += [part for _, part in objective.summands()] if hasattr(objective, "summands") else [objective]
    return parts


def of_users(share: Any) -> Any:
    """The share of users within one of teams, or above a base."""
    return of_users(share.share) if type(share).__name__ in ("OfTeam", "Surplus") else share


def _levelled(policy: Any) -> list[Any]:
    """Objectives, and constraints that level shares."""
    levels = [block.objective for block in policy.constraints if hasattr(block, "objective")]
    equal = [block for block in policy.constraints if type(block).__name__ == "EqualShares"]
    return [*equal, *all_parts(policy.objective, *levels)]
