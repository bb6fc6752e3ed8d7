"""What is right for a saved answer, in fractions: instances and policies as data, judged by tests/oracle alone.

`determined` gives the numbers that every right answer shares: the tasks of a hierarchy, levels of a leximin, the value
of any other tier, each at what earlier tiers leave. `values` gives the same of an answer, and `excess` how far it is
from fitting. They share no code with fairopt's methods, exact answers, gate or checker, but for blocks as data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import fuzz_verdicts
import numpy as np
from fuzz_verdicts import Question, Row, total
from oracle import exact_lp, hierarchy
from oracle.exact_lp import dot

ZERO = Fraction(0)
LINEAR = ("Leximin", "MaxMin", "Total", "OrderedWeighted")


class Unjudged(Exception):
    """What the references here do not know."""


def given_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """An instance as the references take it: users named by position, and guarantees by name."""
    given = {key: deepcopy(value) for key, value in data.items() if value is not None}
    n, m = len(given["demands"]), len(np.atleast_2d(given["capacities"])[0])
    names = {name: f"user{j + 1}" for j, name in enumerate(given.get("users") or ())}
    resources = {name: f"resource{i + 1}" for i, name in enumerate(given.get("resources") or ())}
    resources |= {f"resource{i + 1}": f"resource{i + 1}" for i in range(m) if not resources}
    for key in ("weights", "guarantees"):
        if isinstance(given.get(key), list):
            given[key] = {f"user{j + 1}": v for j, v in enumerate(given[key])}
        given[key] = {names.get(name, name): v for name, v in (given.get(key) or {}).items()}
    owed = given["guarantees"]
    given["guarantees"] = {name: v for name, v in owed.items() if not isinstance(v, Mapping) and v}
    given["team_guarantees"] = {
        team: {resources[name]: v for name, v in units.items()}
        for team, units in owed.items()
        if isinstance(units, Mapping)
    }
    weights = given["weights"]
    given["weights"] = [weights.pop(f"user{j + 1}", 1) for j in range(n)]
    given["team_weights"] = weights
    return given


def is_tree(policy: Any) -> bool:
    """Whether a policy is hierarchical DRF."""
    return type(policy).__name__ == "HDRF"


def tree_of(given: dict[str, Any], policy: Any) -> hierarchy.Problem:
    """An instance with the tree of HDRF, for its oracle."""
    n = len(given["demands"])
    named = given["team_weights"] | dict(policy.weights or {})
    columns = [given["teams"][by] for by in policy.by]
    tree: Any = (1, [])
    places: dict[str, Any] = {}
    for j in range(n):
        at = tree
        for name in filter(None, (column[j] for column in columns)):
            if name not in places:
                places[name] = (named.get(name, 1), [])
                at[1].append(places[name])
            at = places[name]
        at[1].append(j)
    weights = [named.get(f"user{j + 1}", w) for j, w in enumerate(given["weights"])]
    limits = [None if t is None or t == float("inf") else t for t in given.get("task_limits") or [None] * n]
    starts = [given["guarantees"].get(f"user{j + 1}", 0) for j in range(n)]
    starts = [v if t is None else min(v, t) for v, t in zip(starts, limits, strict=True)]
    counts = given.get("counts") or [1] * len(given["capacities"])
    room = [[Fraction(q) * Fraction(c) for c in row] for q, row in zip(counts, given["capacities"], strict=True)]
    pairs = {*question_of(given).cluster.pairs}
    eligible = [[(j, s) in pairs for s in range(len(room))] for j in range(n)]
    owed = [
        ([j for j in range(n) if any(column[j] == team for column in columns)], by_position(units))
        for team, units in given["team_guarantees"].items()
    ]
    return hierarchy.Problem(given["demands"], room, tree, weights, limits, eligible, starts, owed)


def by_position(units: Mapping[str, Any]) -> dict[int, Any]:
    """Units by the position of a resource."""
    return {int(name.removeprefix("resource")) - 1: v for name, v in units.items()}


def question_of(given: dict[str, Any], policy: Any = None) -> Question:
    """An instance under conditions, with floors of what teams are guaranteed."""
    own = {key: v for key, v in given.items() if key not in ("team_guarantees", "team_weights")}
    objective = getattr(policy, "objective", None)
    constraints = () if type(objective).__name__ == "WeightedLog" else getattr(policy, "constraints", ())
    if given["team_weights"] and policy is not None and not is_tree(policy):
        raise Unjudged("weights of teams")
    if not own["guarantees"]:
        del own["guarantees"]
    question = Question.of(own, constraints, objective)
    if given["team_guarantees"] and question.lifted:
        raise Unjudged("surpluses above guarantees of teams")
    cluster = question.cluster
    for team, units in given["team_guarantees"].items():
        members = {j for labels in given["teams"].values() for j, name in enumerate(labels) if name == team}
        pairs = [(p, j, s) for p, (j, s) in enumerate(cluster.pairs) if j in members]
        secured = by_position(units)
        within = [min(c, Fraction(secured.get(i, c))) for i, c in enumerate(cluster.total)]
        uses = [[cluster.demands[j][s][i] for _, j, s in pairs] for i in range(cluster.resources)]
        limits = [
            ([Fraction(j == k) for _, j, _ in pairs], limit)
            for k in members
            if (limit := cluster.limits[k]) is not None
        ]
        for i in secured:
            if not any(uses[i]):
                continue
            most = exact_lp.maximise(uses[i], [*zip(uses, within, strict=True), *limits]).value
            row = [ZERO] * len(cluster.pairs)
            for (p, _, _), use in zip(pairs, uses[i], strict=True):
                row[p] = -use
            question.rows.append((row, -most))
    return question


def at_of(question: Question, table: list[list[Fraction]]) -> Row:
    """Tasks in fractions by variable."""
    return [*(table[j][s] for j, s in question.cluster.pairs), *([Fraction(1)] * question.lifted)]


def excess(given: dict[str, Any], policy: Any, table: list[list[Fraction]]) -> Fraction:
    """By how much tasks break a row, relative to its size; more than 1 if a sign or a place is wrong."""
    question = question_of(given, policy)
    pairs = {*question.cluster.pairs}
    if any(x < 0 or (x and (j, s) not in pairs) for j, row in enumerate(table) for s, x in enumerate(row)):
        return Fraction(2)
    at = at_of(question, table)
    both_ways = [([-v for v in row], -value) for row, value in question.equal]
    over = ZERO
    for row, value in (*question.all_rows, *question.equal, *both_ways):
        size = max(abs(value), dot(map(abs, row), at))
        over = max(over, (dot(row, at) - value) / size if size else ZERO)
    return over


def values(given: dict[str, Any], policy: Any, table: list[list[Fraction]], bundles: Any = None) -> list[Any]:
    """What `determined` gives, of an answer."""
    if bundles is not None:
        return [float(v) for v in np.ravel(bundles)]
    if is_tree(policy):
        return [sum(row, ZERO) for row in table]
    question = question_of(given, policy)
    at = at_of(question, table)
    return [v for tier in fuzz_verdicts.tiers_of(policy.objective) for v in _worth(question, tier, at)]


def _worth(question: Question, tier: Any, at: Row) -> list[Any]:
    name = type(tier).__name__
    z = [dot(form, at) for form in question.forms_of(tier)]
    if name == "Leximin":
        return z
    if name == "MaxMin":
        return [min(z)]
    if name == "Total":
        return [sum(z, ZERO)]
    if name == "OrderedWeighted":
        return [sum((Fraction(w) * v for w, v in zip(tier.weights, sorted(z), strict=False)), ZERO)]
    if name == "AlphaFair":
        shares, weights = np.array(z, dtype=float), question.weights_in(tier)
        if shares.min() <= 0 and tier.alpha >= 1:
            return [-np.inf]
        return [float(fuzz_verdicts.utility(tier.alpha, weights, 1.0)[0](shares).sum())]
    raise Unjudged(name)


def determined(given: dict[str, Any], policy: Any) -> list[Any]:
    """The numbers that all right answers share, in fractions; None for each that is no fraction."""
    if is_tree(policy):
        return list(hierarchy.filled(tree_of(given, policy)))
    question = question_of(given, policy)
    if type(policy.objective).__name__ == "WeightedLog":
        cluster = question.cluster
        return [None] * (cluster.n * cluster.servers * cluster.resources)
    out: list[Any] = []
    for tier in fuzz_verdicts.tiers_of(policy.objective):
        name, forms = type(tier).__name__, question.forms_of(tier)
        rows, same = question.all_rows, question.equal
        if name == "Leximin":
            levels = exact_lp.leximin(forms, rows, same)
            question.bound(forms, list(levels), -1)
            out += levels
        elif name == "MaxMin":
            out.append(exact_lp.smallest(forms, rows, same))
            question.bound(forms, [out[-1]] * len(forms), -1)
        elif name == "Total":
            out.append(exact_lp.maximise(total(forms), rows, same).value)
            question.bound([total(forms)], [out[-1]], -1)
        elif name == "OrderedWeighted":
            out.append(exact_lp.ordered(forms, [Fraction(w) for w in tier.weights], rows, same))
        else:
            out.append(None)
    return out


def ideal_gains(given: dict[str, Any], disagreement: Any = None) -> tuple[tuple[float, ...], ...]:
    """One over the most tasks of a user above a point where all others stay at it, by user and server; 1 if none."""
    question = question_of(given)
    n, tasks = len(given["demands"]), question.shares()
    least = [Fraction(given["guarantees"].get(f"user{j + 1}", 0)) for j in range(n)]
    if disagreement is not None:
        pairs = disagreement if isinstance(disagreement, Mapping) else None
        listed = [disagreement] * n if np.isscalar(disagreement) else disagreement
        least = [Fraction(pairs.get(f"user{j + 1}", 0) if pairs is not None else listed[j]) for j in range(n)]
    limits = question.cluster.limits
    base = [b if t is None else min(b, t) for b, t in zip(least, limits, strict=True)]
    kept = [([-v for v in form], -base[j]) for j, form in zip(question.cluster.users, tasks, strict=True)]
    table = [[1.0] * question.cluster.servers for _ in range(n)]
    for j, form in zip(question.cluster.users, tasks, strict=True):
        gain = exact_lp.maximise(form, [*question.all_rows, *kept]).value - base[j]
        if gain > 0:
            table[j] = [float(1 / gain)] * question.cluster.servers
    return tuple(map(tuple, table))


def wrong_tree(given: dict[str, Any], policy: Any, data: Mapping[str, Any]) -> str:
    """What is wrong with a saved answer of HDRF: its tasks, its objective, or its exact tasks."""
    table = [[Fraction(v) for v in row] for row in data["tasks_by_server"]]
    problem = tree_of(given, policy)
    right = hierarchy.filled(problem)
    exact = data.get("exact")
    written = [[Fraction(v) for v in row] for row in exact["tasks"]] if exact else table
    for tasks, allowed in ((table, Fraction(1, 10**6)), *([(written, Fraction(1, 10**12))] if exact else [])):
        if wrong := question_of(given).unfit(np.array(tasks, dtype=float)):
            return wrong
        for mine, other in zip(values(given, policy, tasks), right, strict=True):
            if abs(mine - other) > allowed * max(abs(other), max(right) / 1000):
                return f"worse: {float(mine):.9g} tasks where {float(other):.9g} are right"
    says = data.get("objective")
    if says is not None:
        root = hierarchy.Node(problem, problem.tree, right, set(), set())
        least = min(child.height for child in root.children)
        if abs(Fraction(says) - least) > Fraction(1, 10**6) * least:
            return f"objective: says {says:.9g} where its tasks are worth {float(least):.9g}"
    return ""


def wrong_exactly(given: dict[str, Any], policy: Any, data: Mapping[str, Any]) -> str:
    """What is wrong with the exact tasks of a file, beyond what reading numbers as decimals may move."""
    near = Fraction(1, 10**12)
    table = [[Fraction(v) for v in row] for row in data["exact"]["tasks"]]
    floats = np.array(data["tasks_by_server"], dtype=float)
    if not np.allclose(np.array(table, dtype=float), floats, rtol=1e-12, atol=0):
        return "exact: tasks are not the rounded exact ones"
    if data.get("bundles") is not None:
        return ""  # judged as bundles
    if (over := excess(given, policy, table)) > near:
        return f"over: exact tasks break a row by {float(over):.1e}"
    right = determined(given, policy)
    for mine, other in zip(values(given, policy, table), right, strict=True):
        if other is not None and abs(mine - other) > near * max(abs(v) for v in right if v is not None):
            return f"worse: exactly {float(mine):.15g} where {float(other):.15g} is right"
    return ""


@contextmanager
def kept(given: dict[str, Any]) -> Iterator[None]:
    """The verdicts of fuzz.py with what teams are guaranteed."""
    plain = Question.of

    def of(own: dict[str, Any], constraints: Any, objective: Any = None) -> Question:
        Question.of = plain
        try:
            return question_of(given, SimpleNamespace(constraints=constraints, objective=objective))
        finally:
            Question.of = of

    Question.of = of
    try:
        yield
    finally:
        Question.of = plain
