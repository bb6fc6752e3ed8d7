"""Random notions from the whole language, each for fairopt and by hand; for versus.py.

All parameters follow a point that fits, an equal part of every server, so that most conditions bind somewhere and all
can be satisfied together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import fuzz_blocks as ours
import numpy as np
import scipy.sparse as sp
from versus_hand import Condition, Float, Goal, Plain, Question

import fairopt as fo
from fairopt.blocks.normal_form import Linear, Power, Ranked, Term
from fairopt.blocks.rows import Rows

Rng = np.random.Generator
SMALL = 150  # users up to which rows for all pairs of users are made
DENSE = 300  # numbers up to which each is compared with the mean
MEANS = 200  # of which geometric means are taken

# -- blocks of one's own, as users write them -------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    def per_task(self, instance):
        return instance.ratios.mean(axis=-1)


@dataclass(frozen=True, repr=False)
class WithBonus(fo.Objective):
    alpha: float
    share: fo.Share
    bonus: float

    def terms(self):
        return Term(1.0, Power(self.alpha), self.share), Term(self.bonus, Linear(), fo.Tasks())


@dataclass(frozen=True, repr=False)
class Poorest(fo.Objective):
    k: int
    share: fo.Share
    bonus: float

    def terms(self):
        return Term(1.0, Ranked((1.0,) * self.k), self.share), Term(self.bonus, Linear(), self.share)


@dataclass(frozen=True, repr=False)
class ByFormula(fo.Objective):
    """Any concave function of shares over their typical level."""

    formula: Callable[[Any], Any]
    share: fo.Share
    level: float

    def expression(self, model):
        return self.formula(model.share(self.share) / self.level)


@dataclass(frozen=True, repr=False)
class SmallestByVariables(fo.Objective):
    """The sum of the k smallest shares over their typical level, with variables of its own."""

    k: int
    share: fo.Share
    level: float

    def expression(self, model):
        shares = model.share(self.share) / self.level
        t = model.variable()
        below = model.variable(shares.shape, lower=0)
        model.require("below", below >= t - shares)
        return self.k * t - cp.sum(below)


@dataclass(frozen=True, repr=False)
class RatioRows(fo.Constraint):
    """``tasks[a] <= factor * tasks[b]`` for pairs of users, as rows."""

    above: tuple[int, ...]
    below: tuple[int, ...]
    factors: tuple[float, ...]

    def rows(self, pairs):
        less = sp.diags_array(np.array(self.factors)) @ pairs.totals[list(self.below)]
        return {"pairs": Rows(pairs.totals[list(self.above)] - less)}


@dataclass(frozen=True, repr=False)
class Ratios(fo.Constraint):
    """The same by an expression."""

    above: tuple[int, ...]
    below: tuple[int, ...]
    factors: tuple[float, ...]

    def constraints(self, model):
        less = cp.multiply(np.array(self.factors), model.tasks[list(self.below)])
        return {"pairs": model.tasks[list(self.above)] <= less}


@dataclass(frozen=True, repr=False)
class GroupRows(fo.Constraint):
    """Sums of shares by group, as rows."""

    group: tuple[int, ...]
    most: tuple[float, ...]
    share: fo.Share

    def rows(self, pairs):
        return {"groups": Rows(members(self.group, len(self.most)) @ pairs.share(self.share), np.array(self.most))}


@dataclass(frozen=True, repr=False)
class Groups(fo.Constraint):
    """The same by an expression."""

    group: tuple[int, ...]
    most: tuple[float, ...]
    share: fo.Share

    def constraints(self, model):
        return {"groups": members(self.group, len(self.most)) @ model.share(self.share) <= np.array(self.most)}


@dataclass(frozen=True, repr=False)
class GroupsWithSpare(fo.Constraint):
    """The same, with a spare amount that groups divide: variables of its own."""

    group: tuple[int, ...]
    most: tuple[float, ...]
    share: fo.Share
    spare: float

    def constraints(self, model):
        extra = model.variable(len(self.most), lower=0, upper=self.spare)
        model.require("spare", cp.sum(extra) <= self.spare)
        held = members(self.group, len(self.most)) @ model.share(self.share)
        return {"groups": held <= np.array(self.most) + extra}


@dataclass(frozen=True, repr=False)
class DenseRows(fo.Constraint):
    """Rows of coefficients by user."""

    matrix: tuple[tuple[float, ...], ...]
    right: tuple[float, ...]

    def rows(self, pairs):
        return {"rows": Rows(sp.csr_array(np.array(self.matrix)) @ pairs.totals, np.array(self.right))}


@dataclass(frozen=True, repr=False)
class Spread(fo.Constraint):
    """The largest share is at most a multiple of the smallest, by functions of CVXPY."""

    factor: float
    share: fo.Share

    def constraints(self, model):
        shares = model.share(self.share)
        return {"spread": cp.max(shares) <= self.factor * cp.min(shares)}


@dataclass(frozen=True, repr=False)
class ShareNorm(fo.Constraint):
    """The norm of the shares over their typical level is at most a number."""

    most: float
    share: fo.Share
    level: float

    def constraints(self, model):
        return {"norm": cp.norm(model.share(self.share) / self.level, 2) <= self.most}


def members(group: Any, size: int) -> sp.csr_array:
    """The matrix that sums by group."""
    return sp.csr_array((np.ones(len(group)), (np.asarray(group), np.arange(len(group)))), shape=(size, len(group)))


# -- instances ---------------------------------------------------------------------------------------------------------


def one_of(rng: Rng, *choices: Any) -> Any:
    """Any of them."""
    return choices[rng.integers(len(choices))]


def an_instance(rng: Rng, least: int, most: int) -> tuple[dict[str, Any], Plain]:
    """Arguments of fairopt's instance and the same as arrays."""
    n = round(np.exp(rng.uniform(np.log(least), np.log(most))))
    servers = 1 if rng.random() < 0.6 else int(rng.integers(2, 7))
    m, decades = int(rng.integers(1, 5)), rng.uniform(1, 3)
    demands = 10.0 ** rng.uniform(0, decades, (n, servers, m) if servers > 1 and rng.random() < 0.15 else (n, m))
    zero = rng.random((n, m)) < one_of(rng, 0.0, 0.1, 0.3)
    zero[np.arange(n), rng.integers(0, m, n)] = False
    demands *= ~zero[:, None, :] if demands.ndim == 3 else ~zero
    parts = 10.0 ** rng.uniform(-0.5, 0.5, (servers, m))
    capacities = parts / parts.sum(axis=0) * n * 10 ** (decades / 2)
    weights = 10.0 ** rng.uniform(-0.5, 0.5, n) if rng.random() < 0.4 else np.ones(n)
    eligible = np.ones((n, servers), dtype=bool)
    given: dict[str, Any] = {"demands": demands, "capacities": capacities}
    if servers > 1 and rng.random() < 0.5:
        eligible = rng.random((n, servers)) < 0.7
        eligible[np.arange(n), rng.integers(0, servers, n)] = True
        given["eligible"] = eligible
    plain = Plain(demands, capacities, weights, np.full(n, np.inf), eligible, np.zeros(n))
    if (weights != 1).any():
        given["weights"] = weights
    if rng.random() < 0.5:
        limits = plain.slices * 10.0 ** rng.uniform(-0.6, 0.6, n)
        limits[rng.random(n) < 0.5] = np.inf
        given["task_limits"] = [None if np.isinf(limit) else limit for limit in limits.tolist()]
        plain = Plain(demands, capacities, weights, limits, eligible, np.zeros(n))
    if rng.random() < 0.2:
        floors = plain.slices * rng.uniform(0, 0.8, n) * (rng.random(n) < 0.5)
        given["guarantees"] = floors
        plain = Plain(demands, capacities, weights, plain.limits, eligible, floors)
    if servers > 1 and rng.random() < 0.25:
        given["rates"] = rng.uniform(0.5, 3, (n, servers))
    if rng.random() < 0.3:
        kinds = int(rng.integers(2, max(3, min(n // 2, 100))))
        given["teams"] = {"team": [f"team{t}" for t in rng.integers(0, kinds, n).tolist()]}
    return given, plain


@dataclass
class Numbers:
    """What an objective compares: a share, its coefficients by pair, and the weights."""

    share: fo.Share
    table: sp.csr_array  # of tasks by pair
    weights: Float
    level: float  # typical, per weight

    @property
    def relative(self) -> sp.csr_array:
        """The numbers per weight over the typical level."""
        return sp.csr_array(sp.diags_array(1 / (self.weights * self.level)) @ self.table)

    def seen(self, y: Any, plain: Plain) -> cp.Expression:
        """`relative` of the unknowns."""
        return sp.csr_array(self.relative @ sp.diags_array(plain.scale)) @ y


def share_of_users(rng: Rng, given: dict[str, Any], plain: Plain) -> fo.Share:
    """A share, shipped or one's own."""
    if "rates" in given:
        return fo.ThroughputShare()
    n, servers = plain.eligible.shape
    table = rng.uniform(1, 4, (n, servers)) / plain.slices[:, None]
    by_server = ours.Held(tuple(map(tuple, table.tolist())))
    others = fo.Tasks(), fo.PNormShare(1), fo.StandAloneShare(), MeanShare(), MeanShare(), by_server
    return one_of(rng, *[fo.DominantShare()] * 4, *others)


def numbers(
    rng: Rng, given: dict[str, Any], plain: Plain, share: fo.Share | None = None, users: bool = False
) -> Numbers:
    """A share, of users or teams, as numbers."""
    of_user = share_of_users(rng, given, plain) if share is None else share
    c = plain.per_pair(np.asarray(of_user.per_task(fo.Instance(**given))))
    if "teams" not in given or users or rng.random() < 0.3:
        table = plain.sums(plain.user, plain.n, c)
        weights, used = plain.weights, of_user
    else:
        labels = given["teams"]["team"]
        names = sorted(set(labels))
        place = np.array([names.index(label) for label in labels])
        table = plain.sums(place[plain.user], len(names), c)
        used, weights = fo.OfTeam(of_user), np.ones(len(names))
        if rng.random() < 0.5:
            weights = np.round(rng.uniform(0.5, 3, len(names)), 2)
            used = fo.OfTeam(of_user, weights=dict(zip(names, weights.tolist(), strict=True)))
    held = table @ plain.at / weights
    return Numbers(used, table, weights, float(np.median(held)))


# -- objectives --------------------------------------------------------------------------------------------------------


def alpha_fair(alpha: float, of: Numbers) -> Goal:
    """Weighted alpha-fairness; by hand over the typical level."""
    w = of.weights / of.weights.sum()

    def hand(y: Any, plain: Plain) -> cp.Expression:
        z = of.seen(y, plain)
        if alpha == 1:
            return w @ cp.log(z)
        power = {0.5: cp.sqrt, 2: cp.inv_pos}.get(alpha, lambda z: cp.power(z, 1 - alpha))
        return (w @ power(z)) / (1 - alpha)

    def value(x: Float) -> float:
        with np.errstate(all="ignore"):
            z = of.relative @ x
            return float(w @ (np.log(z) if alpha == 1 else z ** (1 - alpha) / (1 - alpha)))

    return Goal(f"alpha {alpha:g}", fo.AlphaFair(alpha, of.share), hand, value, cone=True)


def total(of: Numbers) -> Goal:
    """The sum of shares."""
    row = np.asarray(of.table.sum(axis=0)).ravel()
    size = of.level * len(of.weights)
    return Goal(
        "total",
        fo.Total(of.share),
        lambda y, plain: (row * plain.scale / size) @ y,
        lambda x: float(row @ x) / size,
    )


def ordered(ranks: tuple[float, ...], of: Numbers, name: str, block: Any, bonus: float = 0.0) -> Goal:
    """Weights by rank, and a bonus for the sum of all."""
    n = len(of.weights)
    v = np.zeros(n + 1)
    v[: min(len(ranks), n)] = ranks[:n]
    steps = [(int(k) + 1, float(v[k] - v[k + 1])) for k in np.flatnonzero(v[:-1] - v[1:])]
    row = np.asarray(of.table.sum(axis=0)).ravel() / of.level

    def hand(y: Any, plain: Plain) -> cp.Expression:
        z = of.seen(y, plain)
        parts = [d * (cp.min(z) if k == 1 else cp.sum(z) if k == n else cp.sum_smallest(z, k)) for k, d in steps]
        return sum(parts) + (bonus * (row * plain.scale) @ y if bonus else 0.0)

    def value(x: Float) -> float:
        return float(np.sort(of.relative @ x) @ v[:-1] + bonus * row @ x)

    return Goal(name, block, hand, value)


def leximin(of: Numbers) -> Goal:
    """Leximin; by hand one linear program a level."""
    table = sp.csr_array(sp.diags_array(1 / of.weights) @ of.table)
    none: Any = None
    return Goal("leximin", fo.Leximin(of.share), none, none, levels=table)


def plus(a: Goal, b: Goal, factor: float, block: Any, name: str) -> Goal:
    """A sum, ``factor`` times the second by hand."""
    return Goal(
        name,
        block,
        lambda y, plain: a.hand(y, plain) + factor * b.hand(y, plain),
        lambda x: a.value(x) + factor * b.value(x),
        cone=a.cone or b.cone,
    )


def by_user(rng: Rng, plain: Plain, written: bool) -> Goal:
    """A sum of concave functions of each user's tasks: as `by_user`, or by the expression alone."""
    kind = one_of(rng, ours.Saturating, ours.Logarithms, ours.Roots, ours.Near, ours.Bent)
    rates = rng.uniform(0.3, 3, plain.n) / plain.slices
    if kind is ours.Near:
        rates = plain.slices * rng.uniform(0.3, 3, plain.n)
    block = kind(tuple(rates.tolist()))
    weights = plain.slices**2 if kind is ours.Near else None

    def curve(z: Any, lib: Any) -> Any:
        if kind is ours.Saturating:
            return -lib.exp(-z)
        if kind is ours.Logarithms:
            return lib.log1p(z)
        if kind is ours.Roots:
            return lib.sqrt(z)
        return cp.minimum(z, 1 + z / 4, 3) if lib is cp else np.minimum(np.minimum(z, 1 + z / 4), 3)

    def hand(y: Any, plain: Plain) -> cp.Expression:
        if weights is not None:
            x = sp.csr_array(plain.totals @ sp.diags_array(plain.scale)) @ y
            return -cp.sum_squares((x - rates) / np.median(rates))
        scaled = sp.csr_array(sp.diags_array(rates) @ plain.totals @ sp.diags_array(plain.scale))
        return cp.sum(curve(scaled @ y, cp))

    def value(x: Float) -> float:
        tasks = plain.totals @ x
        if weights is not None:
            return -float((((tasks - rates) / np.median(rates)) ** 2).sum())
        return float(curve(rates * tasks, np).sum())

    name = f"own {kind.__name__.lower()}"
    if written:
        return Goal(f"{name} by user", block, hand, value, cone=kind is not ours.Bent)
    expression: Any = block.expression
    return Goal(f"{name} by expression", lambda model: expression(model), hand, value, cone=kind is not ours.Bent)


def _log_sum(z: Float) -> float:
    top = z.max()
    return float(top + np.log(np.exp(z - top).sum()))


def formula(rng: Rng, of: Numbers, plain: Plain) -> Goal:
    """A function of shares that is written as an expression, in a class or as a lambda."""
    k = int(rng.integers(1, max(2, len(of.weights) // 2)))
    sharp, size = float(one_of(rng, 3, 30, 300)), len(of.weights)
    floor = 0.4 * float(np.min(of.table @ plain.at)) / of.level
    table = sp.csr_array(of.table / of.level)
    choices: list[tuple[str, Any, Any, bool]] = [
        (
            "softmin",
            lambda s: -cp.log_sum_exp(-sharp * s) / sharp,
            lambda s: -_log_sum(-sharp * s) / sharp,
            True,
        ),
        ("smallest", lambda s: cp.sum_smallest(s, k), lambda s: np.sort(s)[:k].sum(), False),
        ("log above", lambda s: cp.sum(cp.log(s - floor)), lambda s: np.log(np.maximum(s - floor, 0)).sum(), True),
        (
            "entropy",
            lambda s: cp.sum(cp.entr(s / 10)),
            lambda s: -(s / 10 * np.log(np.maximum(s / 10, 1e-300))).sum(),
            True,
        ),
        (
            "deviation",
            lambda s: cp.sum(s) - 0.7 * cp.norm1(s - cp.sum(s) / size),
            lambda s: s.sum() - 0.7 * np.abs(s - s.mean()).sum(),
            False,
        ),
        (
            "norm",
            lambda s: cp.sum(s) - 0.7 * np.sqrt(size) * cp.norm(s - cp.sum(s) / size, 2),
            lambda s: s.sum() - 0.7 * np.sqrt(size) * np.sqrt(((s - s.mean()) ** 2).sum()),
            True,
        ),
        (
            "log of smallest",
            lambda s: cp.log(cp.min(s)) + cp.sum(s) / size / 9,
            lambda s: np.log(s.min()) + s.mean() / 9,
            True,
        ),
    ]
    if size > DENSE:
        choices = [choice for choice in choices if choice[0] not in ("deviation", "norm")]
    if size <= MEANS:
        choices.append(("mean", lambda s: cp.geo_mean(s), lambda s: np.exp(np.log(s).mean()), True))
    name, function, number, cone = one_of(rng, *choices)
    share, level, inline = of.share, of.level, rng.random() < 0.5
    block: Any = ByFormula(function, share, level)
    if inline:
        block = lambda model: function(model.share(share) / level)  # noqa: E731

    def value(x: Float) -> float:
        with np.errstate(all="ignore"):
            return float(number(table @ x))

    return Goal(
        f"own {name} as {'lambda' if inline else 'expression'}",
        block,
        lambda y, plain: function(sp.csr_array(table @ sp.diags_array(plain.scale)) @ y),
        value,
        cone=cone,
    )


def by_variables(rng: Rng, of: Numbers) -> Goal:
    """The sum of the smallest shares, by variables of the objective's own."""
    k = int(rng.integers(1, max(2, len(of.weights) // 2)))
    table = sp.csr_array(of.table / of.level)
    return Goal(
        "own with variables",
        SmallestByVariables(k, of.share, of.level),
        lambda y, plain: cp.sum_smallest(sp.csr_array(table @ sp.diags_array(plain.scale)) @ y, k),
        lambda x: float(np.sort(table @ x)[:k].sum()),
    )


def a_goal(rng: Rng, given: dict[str, Any], plain: Plain) -> tuple[Goal, Numbers]:
    """Any objective."""
    of = numbers(rng, given, plain)
    alpha = float(one_of(rng, 0.3, 0.5, 1, 1, 2, 2, 5))
    tasks = numbers(rng, given, plain, fo.Tasks(), users=True)
    n = len(of.weights)
    kind = one_of(
        rng,
        *("total", "least", "leximin", "leximin", "alpha", "alpha", "alpha", "ordered", "sum", "tiers"),
        *("terms", "poorest", "by_user", "by_user", *["formula"] * 4, "expression", "variables"),
    )
    if kind == "total":
        return total(of), of
    if kind == "least":
        return ordered((1.0,), of, "least", fo.MaxMin(of.share)), of
    if kind == "leximin":
        return leximin(of), of
    if kind == "alpha":
        return alpha_fair(alpha, of), of
    if kind == "ordered":
        v = one_of(rng, (3.0, 2.0, 1.0), tuple(np.linspace(2, 1, min(n, 10)).tolist()), (1.0,) * max(1, n // 3))
        return ordered(v, of, "ordered", fo.OrderedWeighted(v, of.share)), of
    if kind in ("sum", "terms"):
        # natural units: w u(s / w); by hand over the level, the mean over weights
        first, second = alpha_fair(alpha, of), total(tasks)
        unit = float(of.weights.sum() * of.level ** (1 - alpha))
        bonus = float(rng.uniform(0.05, 1)) * unit / (tasks.level * len(tasks.weights))
        factor = bonus * tasks.level * len(tasks.weights) / unit
        block = (
            WithBonus(alpha, of.share, bonus)
            if kind == "terms"
            else fo.AlphaFair(alpha, of.share) + bonus * fo.Total(fo.Tasks())
        )
        return plus(first, second, factor, block, "own terms" if kind == "terms" else "sum"), of
    if kind == "tiers":
        first = one_of(rng, ordered((1.0,), of, "least", fo.MaxMin(of.share)), alpha_fair(alpha, of), total(of))
        second = one_of(rng, total(tasks), ordered((1.0,), of, "least", fo.MaxMin(of.share)))
        if first.name == second.name:
            second = total(tasks)
        block = first.block.then(second.block)
        return Goal("tiers", block, first.hand, first.value, first.cone, then=second), of
    if kind == "poorest":
        k, bonus = max(1, n // 4), 0.01
        return ordered((1.0,) * k, of, "own terms by rank", Poorest(k, of.share, bonus), bonus), of
    if kind in ("by_user", "expression"):
        return by_user(rng, plain, kind == "by_user"), of
    if kind == "formula":
        return formula(rng, of, plain), of
    return by_variables(rng, of), of


# -- conditions --------------------------------------------------------------------------------------------------------


def bounds(plain: Plain, low: Float | None, high: Float | None) -> tuple[sp.csr_array, Float]:
    """Bounds on tasks by user as rows near 1; users with a bound of 0 have none from below."""
    parts, right = [], []
    if low is not None:
        some = low > 0
        parts.append(-(sp.diags_array(1 / low[some]) @ plain.totals[some]))
        right.append(-np.ones(some.sum()))
    if high is not None:
        some = np.isfinite(high)
        parts.append(sp.diags_array(1 / high[some]) @ plain.totals[some])
        right.append(np.ones(some.sum()))
    return sp.csr_array(sp.vstack(parts)), np.concatenate(right)


def shipped(rng: Rng, given: dict[str, Any], plain: Plain) -> Condition:
    """One of fairopt's constraints."""
    tight = "task_limits" in given or "guarantees" in given
    kind = one_of(
        rng, "incentive", "incentive", "tasks", "most tasks", "share", "most share", "reserve", "envy", "level"
    )
    if kind == "envy" and (plain.n > SMALL or len(plain.capacities) > 1 or tight):
        kind = "share"
    if kind == "reserve" and "guarantees" in given:
        kind = "incentive"
    if kind == "incentive":
        return Condition("incentive", fo.SharingIncentive(), bounds(plain, plain.slices, None))
    if kind == "tasks":
        low = plain.slices * rng.uniform(0, 0.95, plain.n)
        return Condition("min tasks", fo.MinTasks(tuple(low.tolist())), bounds(plain, low, None))
    if kind == "most tasks":
        high = plain.slices * rng.uniform(1.0, 4, plain.n)
        return Condition("max tasks", fo.MaxTasks(tuple(high.tolist())), bounds(plain, None, high))
    if kind == "reserve":
        m = plain.ratios.shape[1]
        i, part = int(rng.integers(m)), float(one_of(rng, 0.1, 0.25, 0.5))
        per = plain.sums(plain.server, len(plain.capacities), plain.ratios[:, i]) * (1 / (1 - part))
        return Condition("reserve", fo.Reserve(i, part), (sp.csr_array(per), np.ones(len(plain.capacities))))
    if kind == "envy":
        return Condition("envy", fo.EnvyFree(), lazy=lambda: envy(plain))
    of = numbers(rng, given, plain, users=kind != "level")
    held = of.table @ plain.at
    if kind == "share":
        level = float(rng.uniform(0.3, 0.95) * held.min())
        row = sp.csr_array(of.table * (-1 / level))
        return Condition("min share", fo.MinShare(level, of.share), (row, -np.ones(len(held))))
    if kind == "most share":
        level = float(rng.uniform(1.0, 1.5) * held.max())
        row = sp.csr_array(of.table * (1 / level))
        return Condition("max share", fo.MaxShare(level, of.share), (row, np.ones(len(held))))
    least = ordered((1.0,), of, "least", fo.MaxMin(of.share))
    goal = one_of(rng, *(alpha_fair(alpha, of) for alpha in (0.5, 1, 2)), total(of), least)
    inside = goal.value(plain.at)
    half = goal.value(plain.at / 2)
    value = inside - float(rng.uniform(0.05, 0.5)) * (inside - half)
    return Condition(
        f"level of {goal.name}",
        goal.block >= natural(goal, value, of),
        hand=lambda y, plain: [goal.hand(y, plain) >= value],
        excess=lambda x: float(value - goal.value(np.maximum(x, 0.0))),
        cone=goal.cone,
    )


def natural(goal: Goal, value: float, of: Numbers) -> float:
    """A value by hand as fairopt counts it."""
    if goal.name == "total":
        return value * of.level * len(of.weights)
    if goal.name == "least":
        return value * of.level
    alpha = goal.block.alpha
    unit = of.weights.sum() * of.level ** (1 - alpha)
    return float(of.weights.sum() * (value + np.log(of.level)) if alpha == 1 else unit * value)


def envy(plain: Plain) -> tuple[sp.csr_array, Float]:
    """Rows of envy on a pool: who would run more tasks on another's bundle, per weight."""
    n, d = plain.n, plain.demands if plain.demands.ndim == 2 else plain.demands[:, 0]
    a, b = np.nonzero(~np.eye(n, dtype=bool))
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(d[a] > 0, d[b] / d[a], np.inf).min(axis=1)
    some = each > 0
    a, b, each = a[some], b[some], each[some]
    size = plain.slices / plain.weights
    rows = np.arange(len(a))
    values = np.concatenate([each / plain.weights[b] / size[a], -1 / plain.weights[a] / size[a]])
    table = sp.csr_array((values, (np.tile(rows, 2), np.concatenate([b, a]))), shape=(len(a), n))
    return sp.csr_array(table @ plain.totals), np.zeros(len(a))


def own(rng: Rng, given: dict[str, Any], plain: Plain) -> Condition:
    """One of one's own: as rows, as constraints, as a lambda, or with variables."""
    kind = one_of(rng, *["ratios"] * 3, "all ratios", *["groups"] * 3, "dense", "spare", "spread", "norm", "jain")
    if kind == "all ratios":
        kind = kind if plain.n <= SMALL else "ratios"
    of = numbers(rng, given, plain, users=True)
    held = of.table @ plain.at
    if kind in ("ratios", "all ratios"):
        a = rng.permutation(plain.n)
        some = max(1, plain.n // 2)
        above, below = a[:some], a[plain.n - some :]
        if kind == "all ratios":
            above, below = np.nonzero(~np.eye(plain.n, dtype=bool))
            some = len(above)
        at = plain.slices
        factors = np.full(some, float(one_of(rng, 1, 2, 10)))
        tight = "guarantees" in given or "task_limits" in given or rng.random() < 0.5
        if tight:  # so that the point satisfies it
            factors = np.maximum(factors, 1.0) * at[above] / at[below]
        held_by = tuple(above.tolist()), tuple(below.tolist()), tuple(factors.tolist())
        unit = sp.diags_array(1 / at[above])
        row = unit @ plain.totals[above] - unit @ sp.diags_array(factors) @ plain.totals[below]
        rows = sp.csr_array(row), np.zeros(some)
        how = one_of(rng, "rows", "rows", "constraints", "lambda")
        if how == "lambda":
            ab, bb, f = (list(held_by[0]), list(held_by[1]), factors)
            block: Any = lambda model: model.tasks[ab] <= cp.multiply(f, model.tasks[bb])  # noqa: E731
        else:
            block = (RatioRows if how == "rows" else Ratios)(*held_by)
        which = "all pairs" if kind == "all ratios" else "pairs"
        return Condition(f"{'loose ' if tight else ''}{which} as {how}", block, rows)
    if kind in ("groups", "spare"):
        g = int(rng.integers(1, max(2, min(plain.n // 3, 40))))
        group = rng.integers(0, g, plain.n)
        sums = sp.csr_array(members(group, g) @ of.table)
        at = sums @ plain.at
        most = np.where(at > 0, at, at.max()) * rng.uniform(1.0, 2.5, g)
        words = tuple(group.tolist()), tuple(most.tolist()), of.share
        if kind == "spare":
            spare = float(0.1 * most.sum())
            table = sp.csr_array(sp.diags_array(1 / most) @ sums)

            def hand(y: Any, plain: Plain) -> list[cp.Constraint]:
                extra = cp.Variable(g, nonneg=True)
                left = sp.csr_array(table @ sp.diags_array(plain.scale)) @ y
                return [left <= 1 + extra, cp.sum(cp.multiply(most / spare, extra)) <= 1]

            return Condition(
                "own with variables",
                GroupsWithSpare(*words, spare),
                hand=hand,
                excess=lambda x: float(np.maximum(sums @ x - most, 0).sum() / spare - 1),
            )
        rows = sp.csr_array(sp.diags_array(1 / most) @ sums), np.ones(g)
        how = one_of(rng, "rows", "constraints", "lambda")
        if how == "lambda":
            share, matrix = of.share, members(group, g)
            return Condition("groups as lambda", lambda model: matrix @ model.share(share) <= most, rows)
        return Condition(f"groups as {how}", (GroupRows if how == "rows" else Groups)(*words), rows)
    if kind == "dense":
        k = int(rng.integers(1, 6))
        matrix = rng.uniform(-0.5, 3, (k, plain.n)) / plain.slices
        right = np.maximum(matrix @ plain.slices, 0.1 * np.abs(matrix @ plain.slices) + 1) * rng.uniform(1.02, 3, k)
        block = DenseRows(tuple(map(tuple, matrix.tolist())), tuple(right.tolist()))
        return Condition("dense as rows", block, (sp.csr_array(matrix / right[:, None]) @ plain.totals, np.ones(k)))
    table = sp.csr_array(of.table / of.level)
    level, share = of.level, of.share
    if kind == "spread":
        factor = float(held.max() / held.min() * rng.uniform(1.02, 2))

        def spread(y: Any, plain: Plain) -> list[cp.Constraint]:
            s = sp.csr_array(table @ sp.diags_array(plain.scale)) @ y
            top = cp.Variable()
            return [s <= top, top / factor <= s]

        return Condition(
            "own by max and min",
            Spread(factor, share),
            hand=spread,
            excess=lambda x: float((table @ x).max() / factor - (table @ x).min()),
        )
    if kind == "norm":
        most = float(np.linalg.norm(held / level) * rng.uniform(1.0, 2))
        return Condition(
            "own norm",
            ShareNorm(most, share, level),
            hand=lambda y, plain: [cp.norm(sp.csr_array(table @ sp.diags_array(plain.scale / most)) @ y, 2) <= 1],
            excess=lambda x: float(np.linalg.norm(table @ x) / most - 1),
            cone=True,
        )
    dominant = numbers(rng, given, plain, fo.DominantShare(), users=True)
    seen = sp.csr_array(dominant.table / dominant.level)
    at = seen @ plain.at
    index = float(at.sum() ** 2 / (len(at) * (at @ at)) * rng.uniform(0.7, 0.99))

    def jain(y: Any, plain: Plain) -> list[cp.Constraint]:
        s = sp.csr_array(seen @ sp.diags_array(plain.scale)) @ y
        return [cp.norm(s, 2) * np.sqrt(index / len(at)) <= cp.sum(s) / len(at)]

    return Condition(
        "own Jain",
        ours.Jain(index),
        hand=jain,
        excess=lambda x: float(np.linalg.norm(seen @ x) * np.sqrt(index / len(at)) - (seen @ x).mean()),
        cone=True,
    )


def question(seed: int, k: int, least: int, most: int) -> Question:
    """The k-th draw of a seed, independent of all others."""
    rng = np.random.default_rng([seed, 58, k])
    given, plain = an_instance(rng, least, most)
    goal, of = a_goal(rng, given, plain)
    conditions: list[Condition] = []
    for _ in range(one_of(rng, 0, 0, 1, 1, 1, 2)):
        found = (own if rng.random() < 0.6 else shipped)(rng, given, plain)
        if goal.levels is not None and (found.hand is not None or found.cone):
            continue  # by hand leximin is linear
        if found.name not in [condition.name for condition in conditions]:
            conditions.append(found)
    place = "servers" if len(plain.capacities) > 1 else "pool"
    whom = "teams" if isinstance(of.share, fo.OfTeam) and goal.name[:8] != "own by u" else "users"
    names = " + ".join(condition.name for condition in conditions) or "-"
    return Question(f"{goal.name} | {names} | {whom} | {place}", given, plain, goal, conditions)
