"""Instances, policies and blocks of one's own, drawn by class from a seed, each as code to run; for corners.py."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from corner_verdicts import Goal, Rows, curves_verdict, polytope
from oracle import concave, exact_lp
from oracle.exact_cluster import Cluster

import fairopt as fo

Rng = np.random.Generator


@dataclass(frozen=True, repr=False)
class Held(fo.Share):
    table: tuple[tuple[float, ...], ...]

    def per_task(self, instance):
        return np.array(self.table, dtype=float)


@dataclass(frozen=True, repr=False)
class Sliced(fo.Share):
    table: tuple[tuple[float, ...], ...]

    def per_task(self, instance):
        return np.array(self.table, dtype=float)[: instance.n_users, : instance.n_servers]


@dataclass(frozen=True, repr=False)
class ByPosition(fo.Share):
    steps: tuple[float, ...]

    def per_task(self, instance):
        return 1.0 + np.outer(self.steps, np.arange(instance.n_servers))


@dataclass(frozen=True, repr=False)
class ByType(fo.Share):
    rates: tuple[tuple[str, tuple[float, ...]], ...]

    def per_task(self, instance):
        return np.array([dict(self.rates)[kind] for kind in instance.server_types]).T


@dataclass(frozen=True, repr=False)
class ByLabel(fo.Share):
    rates: tuple[tuple[str, tuple[float, ...]], ...]

    def per_task(self, instance):
        return np.array([dict(self.rates)[server] for server in instance.servers]).T


@dataclass(frozen=True, repr=False)
class Saturating(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        return -cp.sum(cp.exp(-cp.multiply(self.rates, model.tasks)))


@dataclass(frozen=True, repr=False)
class Logarithms(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        return cp.sum(cp.log1p(cp.multiply(self.rates, model.tasks)))


@dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        return cp.sum(cp.sqrt(cp.multiply(self.rates, model.tasks)))


@dataclass(frozen=True, repr=False)
class Near(fo.Objective):
    aims: tuple[float, ...]

    def expression(self, model):
        return -cp.sum_squares(model.tasks - np.array(self.aims))


@dataclass(frozen=True, repr=False)
class Bent(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        worth = cp.multiply(self.rates, model.tasks)
        return cp.sum(cp.minimum(worth, 1 + worth / 4, 3))


@dataclass(frozen=True, repr=False)
class BentByVariable(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        worth, least = cp.multiply(self.rates, model.tasks), cp.Variable(len(self.rates))
        model.required += [least <= worth, least <= 1 + worth / 4, least <= 3]
        return cp.sum(least)


@dataclass(frozen=True, repr=False)
class AtMost(fo.Constraint):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def constraints(self, model):
        return {"rows": np.array(self.matrix) @ model.tasks <= np.array(self.values)}


@dataclass(frozen=True, repr=False)
class RequiredAtMost(fo.Constraint):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def constraints(self, model):
        model.required.append(np.array(self.matrix) @ model.tasks <= np.array(self.values))
        return {}


@dataclass(frozen=True, repr=False)
class WithRoom(fo.Constraint):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def constraints(self, model):
        room = cp.Variable(len(self.values))
        model.required.append(np.array(self.matrix) @ model.tasks + room == np.array(self.values))
        return {"room": room >= 0}


@dataclass(frozen=True, repr=False)
class RequiringTotal(fo.Objective):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def expression(self, model):
        model.required.append(np.array(self.matrix) @ model.tasks <= np.array(self.values))
        return cp.sum(model.tasks)

    def value(self, point):
        return point.tasks.sum()


@dataclass(frozen=True, repr=False)
class Smallest(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        least = cp.Variable()
        model.required.append(cp.multiply(self.rates, model.tasks) >= least)
        return least

    def value(self, point):
        return (np.array(self.rates) * point.tasks).min()


OWN = {block.__name__: block for block in (
    Held, Sliced, ByPosition, ByType, ByLabel, Saturating, Logarithms, Roots, Near, Bent, BentByVariable,
    AtMost, RequiredAtMost, WithRoom, RequiringTotal, Smallest,
)}  # fmt: skip
NAMES = {"np": np, "cp": cp, "fo": fo, **{name: getattr(fo, name) for name in fo.__all__}, **OWN}


@dataclass(frozen=True)
class Case:
    """Code that leaves an ``answer``, and what is wrong with that: nothing, `OPEN`, or a sentence."""

    code: str
    verdict: Callable[[Any], str]


def plain(values: Any) -> Any:
    """Numbers as people write them, so that code is short: whole ones as integers."""
    if isinstance(values, np.ndarray):
        return plain(values.tolist())
    if isinstance(values, (list, tuple)):
        return type(values)(plain(v) for v in values)
    if isinstance(values, float):
        return int(values) if values.is_integer() and abs(values) < 1e15 else float(values)
    return values


def written(given: dict[str, Any]) -> str:
    """An instance as code."""
    return f"Instance({', '.join(f'{key}={value!r}' for key, value in given.items())})"


def asked(policy: fo.Policy, given: dict[str, Any], **options: Any) -> str:
    """A call as code."""
    words = [written(given), *(f"{key}={value!r}" for key, value in options.items())]
    return f"answer = {policy!r}.allocate({', '.join(words)})"


def tuples(table: Any) -> Any:
    """Nested lists as nested tuples."""
    return tuple(tuples(row) if isinstance(row, list) else row for row in table)


def drawn(
    rng: Rng, n: int, servers: int, m: int, *, by_server: bool = False, alike: bool = False, most: int = 6,
    room: int = 20, often: float = 0.3,
) -> dict[str, Any]:  # fmt: skip
    """Small whole numbers, zeros, and with a chance of ``often`` each: weights, limits, counts and eligibility."""
    demands = rng.integers(0, most + 1, (n, servers, m) if by_server else (n, m))
    demands[..., 0] += ~demands.any(axis=-1)
    capacities = np.repeat(rng.integers(1, room, (1, m)), servers, 0) if alike else rng.integers(1, room, (servers, m))
    given: dict[str, Any] = {"demands": plain(demands), "capacities": plain(capacities)}
    if rng.random() < often:
        given["weights"] = plain(rng.integers(1, 4, n))
    if rng.random() < often:
        given["task_limits"] = [None if rng.random() < 0.5 else plain(k / 4) for k in rng.integers(1, 24, n)]
    if servers > 1 and rng.random() < often:
        given["counts"] = plain(rng.integers(1, 4, servers))
    if servers > 1 and not alike and rng.random() < often:
        eligible = rng.random((n, servers)) < 0.7
        eligible[np.arange(n), rng.integers(0, servers, n)] = True
        given["eligible"] = plain(eligible.astype(int))
    return given


def one_of(rng: Rng, *choices: Any) -> Any:
    """Any of them."""
    return choices[rng.integers(len(choices))]


def digits(value: float, k: int = 3) -> float:
    """A number of few digits."""
    return float(f"{value:.{k}g}")


def shares(rng: Rng) -> Case:
    n, servers, m = int(rng.integers(2, 7)), int(rng.integers(2, 6)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, alike=rng.random() < 0.8, most=4, room=65)
    given.pop("eligible", None)
    if rng.random() < 0.15:  # who takes no part is a user all the same
        limits = given.setdefault("task_limits", [None] * n)
        limits[rng.integers(n)] = 0
    table = rng.integers(1, 5, (n, servers)).astype(float)
    kind = one_of(rng, "held", "sliced", "position", "type", "label")
    by_server = [tuple(plain(column)) for column in table.T]
    if kind == "position":
        steps = rng.integers(0, 4, n)
        steps[rng.integers(n)] += 1
        table = 1.0 + np.outer(steps, np.arange(servers))
        share: fo.Share = ByPosition(tuple(plain(steps)))
    elif kind == "type":
        given["server_types"] = [f"type{s + 1}" for s in range(servers)]
        share = ByType(tuple(zip(given["server_types"], by_server, strict=True)))
    elif kind == "label":
        share = ByLabel(tuple((f"server{s + 1}", rates) for s, rates in enumerate(by_server)))
    else:
        share = (Held if kind == "held" else Sliced)(tuples(plain(table)))
    cluster = Cluster(**given)
    own = [[Fraction(v) for v in row] for row in table.tolist()]
    constraints: list[fo.Constraint] = []
    rows: Rows = []
    equal: Rows = []
    used, worth = share, own
    if rng.random() < 0.4:
        plainly = cluster.forms(own, per_weight=False)
        level = exact_lp.smallest(plainly, cluster.rows)
        block = one_of(rng, "MaxShare", "EqualShares", *["MinShare"] * (len(cluster.users) == n))  # 0 for the idle
        if block == "MinShare":
            bound = digits(float(level) * rng.uniform(0.2, 0.9))
            constraints.append(fo.MinShare(bound, share))
            rows = [([-v for v in form], -Fraction(bound)) for form in plainly]
        elif block == "MaxShare":
            bound = digits(float(level) * rng.uniform(0.5, 2.0))
            constraints.append(fo.MaxShare(bound, share))
            rows = [(form, Fraction(bound)) for form in plainly]
        else:
            constraints.append(fo.EqualShares(share))
            forms = cluster.forms(own)
            equal = [([a - b for a, b in zip(one, other, strict=True)], Fraction(0)) for one, other in pairwise(forms)]
        if rng.random() < 0.5:
            used, worth = one_of(rng, (fo.Tasks(), cluster.tasks()), (fo.DominantShare(), cluster.dominant()))
    name = one_of(rng, "least", "least", "total", "leximin", "ordered", "alpha", "alpha")
    if name == "alpha" and equal and used is not share:
        name = "least"
    parameter: Any = None
    objective: fo.Objective
    if name == "least":
        objective = fo.MaxMin(used)
    elif name == "total":
        objective = fo.Total(used)
    elif name == "leximin":
        objective = fo.Leximin(used)
    elif name == "ordered":
        parameter = tuple(sorted(plain(rng.integers(0, 4, n)), reverse=True))
        parameter = parameter if parameter[0] else (1,)
        objective = fo.OrderedWeighted(parameter, used)
    else:
        parameter = one_of(rng, 0.5, 1, 2, 3, 5, 10)
        objective = fo.AlphaFair(parameter, used)
    options = {} if rng.random() < 0.8 else {"solver": one_of(rng, "CLARABEL", "ECOS")}
    goal = Goal(name, worth, parameter)
    return Case(
        asked(fo.Policy(objective, constraints), given, **options),
        lambda answer: goal.verdict(cluster, answer, rows, equal),
    )


def alpha(rng: Rng) -> Case:
    n, servers, m = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, by_server=True, room=13)
    cluster = Cluster(**given)
    number = one_of(rng, 2, 2.5, 3, 4, 5, 7, 10, 15, 20)
    share, worth = one_of(
        rng, (fo.DominantShare(), cluster.dominant()), (fo.DominantShare(), cluster.dominant()),
        (fo.PNormShare(1), cluster.summed()), (fo.Tasks(), cluster.tasks()),
    )  # fmt: skip
    options = {} if rng.random() < 0.7 else {"solver": one_of(rng, "CLARABEL", "ECOS")}
    goal = Goal("alpha", worth, number)
    return Case(
        asked(fo.Policy(fo.AlphaFair(number, share)), given, **options), lambda answer: goal.verdict(cluster, answer)
    )


def wide(rng: Rng) -> Case:
    n, servers, m = int(rng.integers(2, 7)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, often=0.15)
    decades = one_of(rng, 8, 12, 16, 18, 20, 24)
    start = -decades * one_of(rng, 0, 0.5, 1)
    demands = 10.0 ** rng.uniform(start, start + decades, (n, m))
    demands *= (rng.random((n, m)) < 0.9) | (np.arange(m) == rng.integers(0, m, (n, 1)))
    given["demands"] = [[plain(digits(d)) for d in row] for row in demands.tolist()]
    if rng.random() < 0.7:
        capacities = 10.0 ** rng.uniform(-12, 12, (servers, m))
        given["capacities"] = [[plain(digits(c)) for c in row] for row in capacities.tolist()]
    given.pop("task_limits", None)
    if rng.random() < 0.3:
        per_task = demands / np.array(given["capacities"]).sum(axis=0)
        limits = rng.uniform(0.1, 2.0, n) / per_task.max(axis=1)
        given["task_limits"] = [None if rng.random() < 0.5 else digits(t) for t in limits]
    cluster = Cluster(**given)
    v = (3, 2, 1)
    policy, goal = one_of(
        rng, *[(fo.NoFairness(), Goal("total", cluster.tasks()))] * 8,
        (fo.Policy(fo.Total()), Goal("total", cluster.dominant())),
        *[(fo.Policy(fo.MaxMin()), Goal("least", cluster.dominant()))] * 2,
        (fo.Policy(fo.MaxMin(fo.Tasks())), Goal("least", cluster.tasks())),
        (fo.Policy(fo.OrderedWeighted(v)), Goal("ordered", cluster.dominant(), v)),
        (fo.DRF(), Goal("leximin", cluster.dominant())),
    )  # fmt: skip
    names = ["CLARABEL", "ECOS", "HIGHS"] * 2 + ["SCS"]
    options: dict[str, Any] = one_of(rng, *[{}] * 5, *[{"method": "cone"}] * 3, *({"solver": name} for name in names))
    if options.get("solver") == "SCS":
        options["time_limit"] = 2  # it runs on where others give up
    return Case(asked(policy, given, **options), lambda answer: goal.verdict(cluster, answer))


def traces(rng: Rng) -> Case:
    n, servers, m = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, by_server=rng.random() < 0.2, room=10, often=0.5)
    kind = rng.random()
    demands = np.array(given["demands"], dtype=float)
    if kind < 0.7:
        for _ in range(rng.integers(1, 4)):
            where = tuple(rng.integers(0, demands.shape))
            if demands[where] >= 1:
                demands[where] = digits(demands[where] * 10.0 ** -rng.integers(4, 13))
    if kind > 0.6:
        near = 1 + rng.integers(0, 4, (servers, m)) * 2.0 ** -rng.integers(27, 44)  # so that products are exact
        if demands.ndim == 3:
            demands = demands[:, :1] * near
        else:
            given["capacities"] = plain(np.array(given["capacities"], dtype=float)[:1] * near)
    given["demands"] = plain(demands)
    cluster = Cluster(**given)
    policy, worth = one_of(
        rng, *[(fo.DRF(), cluster.dominant())] * 4, (fo.TSF(), cluster.alone()),
        (fo.Policy(fo.Leximin(fo.Tasks())), cluster.tasks()),
        (fo.Policy(fo.Leximin(fo.PNormShare(1))), cluster.summed()),
        *([(fo.KDF(2, short="positive"), cluster.dominant(2))] * (m > 1)),
    )  # fmt: skip
    options: dict[str, Any] = one_of(rng, {}, {}, {}, {}, {"method": "cone"}, {"solver": "HIGHS"})
    goal = Goal("leximin", worth)
    return Case(asked(policy, given, **options), lambda answer: goal.verdict(cluster, answer))


def own(rng: Rng) -> Case:
    n, servers, m = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, most=3, room=one_of(rng, 5, 20, 101), often=0.2)
    cluster = Cluster(**given)
    kind = one_of(rng, Saturating, Saturating, Logarithms, Roots, Near, Bent, BentByVariable)
    exponent = rng.uniform(-2, 1)
    rates = np.array([digits(10.0 ** (exponent + rng.uniform(0, 1))) for _ in range(n)])
    if rng.random() < 0.3:
        rates[:] = rng.integers(1, 6)
    if kind is Near:
        rates = np.array([digits(rng.uniform(0, 2) * given["capacities"][0][0] / 3) for _ in range(n)])
    objective: fo.Objective = kind(tuple(plain(rates)))
    terms = [(1.0, kind.__name__, rates)]
    more = rng.random()
    if more < 0.15:
        objective, terms = objective + 0.1 * fo.Total(fo.Tasks()), [*terms, (0.1, "Total", np.ones(n))]
    elif more < 0.3:
        objective = objective + 0.5 * Logarithms(tuple(plain(rates)))
        terms.append((0.5, "Logarithms", rates))
    options = {} if rng.random() < 0.8 else {"solver": one_of(rng, "CLARABEL", "ECOS", "SCS")}
    return Case(
        asked(fo.Policy(objective), given, **options), lambda answer: curves_verdict(cluster, answer, terms)
    )


def rows(rng: Rng) -> Case:
    while True:  # until there is room
        n, servers, m = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
        given = drawn(rng, n, servers, m, often=0.2)
        cluster = Cluster(**given)
        k = int(rng.integers(2, 5))
        matrix = rng.integers(-1, 4, (k, n)).astype(float)
        matrix[np.arange(k), rng.integers(0, n, k)] += 1
        sizes = 10.0 ** rng.uniform(-8, 8, k)
        values = rng.uniform(-1, 3, k) * np.abs(matrix).sum(axis=1) * sizes
        matrix = np.array([[digits(v * size) for v in row] for row, size in zip(matrix.tolist(), sizes, strict=True)])
        values = np.array([digits(v) for v in values.tolist()])
        exact: Rows = [
            ([Fraction(row[j]) for j, _ in cluster.pairs], Fraction(value))
            for row, value in zip(matrix.tolist(), values.tolist(), strict=True)
        ]
        try:
            if exact_lp.smallest(cluster.forms(cluster.dominant()), [*cluster.rows, *exact]) > Fraction(1, 100):
                break
        except exact_lp.NoPoint:
            continue
    held, most = tuples(plain(matrix)), tuple(plain(values))
    block = one_of(rng, AtMost, RequiredAtMost, WithRoom, RequiringTotal, Smallest)
    if block is RequiringTotal:
        policy, goal = fo.Policy(RequiringTotal(held, most)), Goal("total", cluster.tasks())
    elif block is Smallest:
        rates = np.array([digits(v) for v in 10.0 ** rng.uniform(-8, 8, n)])
        policy, exact = fo.Policy(Smallest(tuple(plain(rates)))), []
        goal = Goal("least", [[Fraction(rates[j]) * cluster.weights[j]] * servers for j in range(n)])
    else:
        objective, goal = one_of(
            rng, (fo.Total(fo.Tasks()), Goal("total", cluster.tasks())),
            (fo.Total(), Goal("total", cluster.dominant())), (fo.MaxMin(), Goal("least", cluster.dominant())),
            (fo.Leximin(), Goal("leximin", cluster.dominant())),
            (fo.AlphaFair(2), Goal("alpha", cluster.dominant(), 2)),
        )  # fmt: skip
        policy = fo.Policy(objective, [block(held, most)])
    options = {} if rng.random() < 0.7 else {"solver": one_of(rng, "CLARABEL", "ECOS")}
    return Case(asked(policy, given, **options), lambda answer: goal.verdict(cluster, answer, exact))


def read(rng: Rng) -> Case:
    while True:  # until what is asked for can be had
        n, servers, m = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        given = drawn(rng, n, servers, m, often=0.25)
        case = _read(rng, given, Cluster(**given))
        if case is not None:
            return case


def _read(rng: Rng, given: dict[str, Any], cluster: Cluster) -> Case | None:
    n, servers = cluster.n, cluster.servers
    made, rows, equal = {}, {}, {}  # the blocks of the policy, and what each says
    for _ in range(rng.integers(1, 4)):
        block, more, same = _block(rng, cluster)
        made[repr(block)], rows[repr(block)], equal[repr(block)] = block, more, same
    objective, goal = one_of(
        rng, (fo.Total(fo.Tasks()), Goal("total", cluster.tasks())), (fo.Total(), Goal("total", cluster.dominant())),
        (fo.MaxMin(), Goal("least", cluster.dominant())), (fo.Leximin(), Goal("least", cluster.dominant())),
    )  # fmt: skip
    verdict = goal.verdict
    lines = [
        f"policy, instance = {fo.Policy(objective, list(made.values()))!r}, {written(given)}",
        "problem = policy.problem(instance)", "tasks, held = problem.var_dict['tasks'], list(problem.constraints)",
    ]  # fmt: skip
    of_user = "tasks" if servers == 1 else "cp.sum(tasks, axis=1)"
    maximand, linear = "problem.objective", True
    for change in rng.choice(["out", "limits", "added", "objective"], 2, replace=False, p=[0.4, 0.1, 0.25, 0.25]):
        if change == "out":
            gone = one_of(rng, *made)
            lines.append(f"held = [c for c in held if not (c.label or '').startswith({gone!r})]")
            rows.pop(gone, None)
            equal.pop(gone, None)
        elif change == "limits" and "task_limits" in given:  # they hold all the same
            lines.append("held = [c for c in held if c.label != 'task limits']")
        elif change == "added":
            j, k = rng.choice(n, 2, replace=False)
            factor, most = plain(float(rng.integers(1, 9)) / 4), plain(float(rng.integers(1, 12)) / 2)
            totals = cluster.forms(cluster.tasks(), per_weight=False)
            if rng.random() < 0.5:
                lines.append(f"held.append({of_user}[{j}] <= {factor} * {of_user}[{k}])")
                row = [a - Fraction(factor) * b for a, b in zip(totals[j], totals[k], strict=True)]
                rows["added"] = [(row, Fraction(0))]
            else:
                lines.append(f"held.append({of_user}[{j}] <= {most})")
                rows["added"] = [(totals[j], Fraction(most))]
        elif change == "objective":
            kind = one_of(rng, "linear", "least", "roots", "logarithms")
            v = rng.integers(-1, 6, n)
            v[rng.integers(n)] = 3
            if kind == "linear":
                maximand = f"cp.Maximize({plain(v)} @ {of_user})"
                verdict = Goal("total", [[Fraction(int(c))] * servers for c in v]).verdict
            elif kind == "least":
                maximand = f"cp.Maximize(cp.min({of_user}))"
                verdict = Goal("least", [[w] * servers for w in cluster.weights]).verdict
            elif not any(equal.values()):  # the reference takes no equations
                maximand = f"cp.Maximize(cp.sum(cp.{'sqrt' if kind == 'roots' else 'log1p'}({of_user})))"
                linear = False
                terms = [(1.0, "Roots" if kind == "roots" else "Logarithms", np.ones(n))]
    held, same = [row for part in rows.values() for row in part], [row for part in equal.values() for row in part]
    if not linear and any(equal.values()):
        return None
    try:  # with the policy's own rows and with those of the problem, so that the policy makes sense
        if exact_lp.maximise([Fraction(1)] * len(cluster.pairs), [*cluster.rows, *held], same).value <= 0:
            return None
        if not linear and not concave.has_room(*polytope(cluster, held)):
            return None
    except exact_lp.NoPoint:
        return None
    solver = one_of(rng, "CLARABEL", "ECOS", "SCS", *(["HIGHS"] * 3 if linear else []))
    lines.append(f"changed = cp.Problem({maximand}, held)")
    lines.append(f"changed.solve(solver={solver!r})")
    if rng.random() < 0.1:
        lines.append("tasks.value = 0.7 * tasks.value")
    lines.append("answer = policy.read(changed, instance)")
    if linear:
        return Case("\n".join(lines), lambda answer: verdict(cluster, answer, held, same))
    return Case("\n".join(lines), lambda answer: curves_verdict(cluster, answer, terms, held))


def _block(rng: Rng, cluster: Cluster) -> tuple[fo.Constraint, Rows, Rows]:
    """A block, and what it says as rows and equations."""
    n, pairs = cluster.n, cluster.pairs
    totals, shares = (cluster.forms(worth, per_weight=False) for worth in (cluster.tasks(), cluster.dominant()))
    kind = rng.integers(8)
    j = int(rng.integers(n))
    if kind == 0:
        i, fraction = int(rng.integers(cluster.resources)), one_of(rng, 0.25, 0.5, 0.75)
        loads = [
            (cluster.rows[s * cluster.resources + i][0], cluster.rows[s * cluster.resources + i][1])
            for s in range(cluster.servers)
        ]
        return fo.Reserve(i, fraction), [(row, value * (1 - Fraction(fraction))) for row, value in loads], []
    if kind in (1, 2):
        tasks = plain(float(rng.integers(1, 8)) / (8 if kind == 1 else 2))
        sign = -1 if kind == 1 else 1
        block = (fo.MinTasks if kind == 1 else fo.MaxTasks)({f"user{j + 1}": tasks})
        return block, [([sign * v for v in totals[j]], sign * Fraction(tasks))], []
    if kind in (3, 4):
        level = plain(float(rng.integers(1, 8)) / (64 if kind == 3 else 16))
        sign = -1 if kind == 3 else 1
        rows = [([sign * v for v in form], sign * Fraction(level)) for form in shares]
        return (fo.MinShare if kind == 3 else fo.MaxShare)(level), rows, []
    if kind == 5:
        forms = cluster.forms(cluster.tasks())
        same = [([a - b for a, b in zip(one, other, strict=True)], Fraction(0)) for one, other in pairwise(forms)]
        return fo.EqualShares(fo.Tasks()), [], same
    whole = sum(cluster.weights, Fraction(0))
    if kind == 6:
        rows = []
        for k in range(n):
            slices = sum(
                (cluster.counts[s] * min(c / d for c, d in zip(cluster.one[s], cluster.demands[k][s], strict=True) if d)
                 for u, s in pairs if u == k), Fraction(0),
            )  # fmt: skip
            limit, due = cluster.limits[k], cluster.weights[k] / whole * slices
            rows.append(([-v for v in totals[k]], -(due if limit is None else min(due, limit))))
        return fo.SharingIncentive(), rows, []
    rows = []
    for envier in range(n):
        for envied in range(n):
            if envier != envied:
                row = [-v for v in totals[envier]]
                for p, (u, s) in enumerate(pairs):
                    if u == envied and (envier, s) in pairs:
                        mine, theirs = cluster.demands[envier][s], cluster.demands[envied][s]
                        runs = min(b / a for a, b in zip(mine, theirs, strict=True) if a)
                        row[p] += cluster.weights[envier] / cluster.weights[envied] * runs
                rows.append((row, Fraction(0)))
    return fo.EnvyFree(), rows, []


NEAR_ZERO = (
    "fds:alpha=1", "nash", "pnorm:p=1,alpha=1", "AlphaFair(1, PNormShare(2))", "AlphaFair(1) + AlphaFair(1, Tasks())",
    "AlphaFair(1).then(Total())",
)  # fmt: skip
NOTIONS = (
    "drf", "drfh", "kdf:k=2,short=positive", "tsf", "fds:alpha=0.5", "fds:alpha=2", "fds:alpha=5", "fds:beta=2,lam=-1",
    "gfj:alpha=1", "gfj:alpha=2", "most-tasks", "mlf-drs", "ffmra", "h-ffmra", "ps-dsf", "per-server", "bottleneck",
    "AlphaFair(1) + 0.1 * Total(Tasks())", "MaxMin().then(Total(Tasks()))", "OrderedWeighted((3, 2, 1))",
    "MaxMin(Tasks())", "Leximin(PNormShare(1))",
)  # fmt: skip


def load(rng: Rng) -> Case:
    return _saved(rng, edit=False)


def edited(rng: Rng) -> Case:
    return _saved(rng, edit=True)


def _saved(rng: Rng, edit: bool) -> Case:
    """What a notion answers, through a file."""
    name = one_of(rng, *(NOTIONS if rng.random() < 0.5 else NEAR_ZERO))
    n, servers = int(one_of(rng, 1, 1, 2, 3)), 1 if name == "bottleneck" else int(one_of(rng, 1, 1, 2, 3))
    m = int(rng.integers(2 if name.startswith("kdf") else 1, 4))
    given = drawn(rng, n, servers, m, most=30, room=40, often=0.2)
    if n == 1 and rng.random() < 0.3:  # one task, so that the logarithm of tasks is near 0 as well
        given["capacities"] = [plain(np.array(given["demands"][0]) + (np.array(given["demands"][0]) == 0))] * servers
    if name in ("mlf-drs", "ffmra", "h-ffmra"):  # not defined for these
        given.pop("weights", None)

    def verdict(answer: Any) -> str:
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
            except fo.InvalidInstance as error:
                return "" if edit else f"load refuses: {str(error).partition(': ')[2]}"
        if edit:
            return "edited: half of the tasks are certified" if loaded.certificate.ok else ""
        if not np.array_equal(loaded.tasks_by_server, answer.tasks_by_server):
            return "load: other tasks than were saved"
        return "" if loaded.certificate.ok else "load: without a certificate"

    return Case(f"answer = named_policy({name!r}).allocate({written(given)})", verdict)


CLASSES: dict[str, Callable[[Rng], Case]] = {
    "shares": shares, "alpha": alpha, "wide": wide, "read": read, "traces": traces, "own": own, "rows": rows,
    "load": load, "edited": edited,
}  # fmt: skip
