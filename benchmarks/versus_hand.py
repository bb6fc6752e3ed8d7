"""A problem by hand, for versus.py: sparse matrices and plain CVXPY, in numbers near 1, without fairopt's programs.

The unknowns are tasks by eligible pair of user and server, each over what an equal part of the server holds, or all
over one number where that serves better. Leximin is linear programs by SciPy's HiGHS, one a level: who has a positive
multiplier is frozen (Danna et al. 2012).
"""

from __future__ import annotations

import os
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

Float = np.ndarray[Any, np.dtype[np.float64]]

NEAR = 1e-6  # relative: a value this near is right, and rows may be broken by as much
GAINED = 1e7  # by how much a value may be better for a violation: 3.4e-6 for 1.1e-12 where rows form chains
LATER = 1e4  # by how much later tiers count less: where the first is curved they change by the root of 1e-7
NOTHING = 1e-5  # of the usual value: what rounding leaves where rows allow nothing
TICKS = os.sysconf("SC_CLK_TCK")
# As they come, and tight where that is not right.
TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
ECOS = {"abstol": 1e-9, "reltol": 1e-9, "feastol": 1e-9, "max_iters": 300}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "HIGHS": ("HIGHS", {}),
    "CLARABEL": ("CLARABEL", {}),
    "ECOS": ("ECOS", ECOS),
    "CLARABEL tight": ("CLARABEL", TIGHT),
    "CLARABEL in tasks": ("CLARABEL", TIGHT),
    "ECOS in tasks": ("ECOS", ECOS),
    "SCS": ("SCS", {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 100_000}),
}
TIME_OPTION = {"HIGHS": "time_limit", "CLARABEL": "time_limit", "SCS": "time_limit_secs"}


def cpu_seconds() -> float:
    """CPU seconds of this process, of its children that ended, and of those that run."""
    ended = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in ended) + _of_running()


def _of_running() -> float:
    """CPU seconds of the processes that descend from this one and run."""
    parent = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat") as file:  # unless it has ended
                parent[name] = file.read().rpartition(")")[2].split()[1]
    mine, found = {str(os.getpid())}, 0.0
    while more := {one for one, of in parent.items() if of in mine and one not in mine}:
        mine |= more
        found += sum(map(_of_process, more))
    return found


def _of_process(name: str) -> float:
    """CPU seconds of a running process, to the nanosecond, and of its children that ended."""
    total = 0.0
    with suppress(OSError):
        for task in os.listdir(f"/proc/{name}/task"):
            with suppress(OSError), open(f"/proc/{name}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0]) / 1e9
        with open(f"/proc/{name}/stat") as file:
            total += sum(map(int, file.read().rpartition(")")[2].split()[13:15])) / TICKS
    return total


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, or the exception that it raises; CPU seconds and seconds."""
    begun, cpu = time.perf_counter(), cpu_seconds()
    try:
        found = run()
    except Exception as error:
        found = error
    return found, cpu_seconds() - cpu, time.perf_counter() - begun


@dataclass
class Plain:
    """Users, servers and what one of each pair needs, as arrays."""

    demands: Float  # (n, m) or (n, S, m)
    capacities: Float  # (S, m)
    weights: Float
    limits: Float  # infinite for none
    eligible: np.ndarray[Any, np.dtype[np.bool_]]
    guarantees: Float
    natural: bool = False  # whether unknowns are in tasks, over one number, the median of what users could run alone

    @property
    def n(self) -> int:
        """Users."""
        return len(self.demands)

    @cached_property
    def user(self) -> Any:
        """The user of each pair."""
        return np.nonzero(self.eligible)[0]

    @cached_property
    def server(self) -> Any:
        """The server of each pair."""
        return np.nonzero(self.eligible)[1]

    @cached_property
    def ratios(self) -> Float:
        """What a task of each pair needs of its server's capacities, (n_pairs, m)."""
        demands = self.demands[self.user] if self.demands.ndim == 2 else self.demands[self.user, self.server]
        caps = self.capacities[self.server]
        return demands / caps

    @cached_property
    def unit(self) -> Float:
        """Tasks of each pair on the user's weighted part of the server."""
        return self.weights[self.user] / self.weights.sum() / self.ratios.max(axis=1)

    @cached_property
    def scale(self) -> Float:
        """Tasks of each unknown."""
        return np.full(len(self.unit), self.n * np.median(self.unit)) if self.natural else self.unit

    @cached_property
    def totals(self) -> sp.csr_array:
        """Tasks by user of tasks by pair."""
        return self.sums(self.user, self.n, np.ones(len(self.user)))

    @cached_property
    def slices(self) -> Float:
        """Tasks by user on its weighted part of every server, within its limit: a point that fits."""
        return np.minimum(self.totals @ self.unit, self.limits)

    @cached_property
    def at(self) -> Float:
        """Tasks by pair of `slices`."""
        return self.unit * (self.slices / (self.totals @ self.unit))[self.user]

    def sums(self, group: Any, size: int, per_pair: Float) -> sp.csr_array:
        """Sums by group of values per task, (size, n_pairs)."""
        return sp.csr_array((per_pair, (group, np.arange(len(self.user)))), shape=(size, len(self.user)))

    def per_pair(self, values: Float) -> Float:
        """Values by user, or by user and server, by pair."""
        return values[self.user] if values.ndim == 1 else values[self.user, self.server]

    @cached_property
    def rows(self) -> tuple[sp.csr_array, Float]:
        """Capacities, limits and guarantees as ``A x <= b``, each row near 1."""
        m, p = self.ratios.shape[1], len(self.user)
        place = (self.server[:, None] * m + np.arange(m)).ravel()
        table = sp.csr_array(
            (self.ratios.ravel(), (place, np.repeat(np.arange(p), m))), shape=(len(self.capacities) * m, p)
        )
        table.eliminate_zeros()
        limited, held = np.isfinite(self.limits), self.guarantees > 0
        parts = [
            table,
            sp.diags_array(1 / self.limits[limited]) @ self.totals[limited],
            -(sp.diags_array(1 / self.guarantees[held]) @ self.totals[held]),
        ]
        right = [np.ones(table.shape[0]), np.ones(limited.sum()), -np.ones(held.sum())]
        return sp.csr_array(sp.vstack(parts)), np.concatenate(right)


@dataclass
class Condition:
    """A further condition: the block for fairopt; by hand as rows ``A x <= b`` near 1, or as CVXPY constraints."""

    name: str
    block: Any
    rows: tuple[Any, Float] | None = None
    equal: bool = False
    hand: Callable[[Any, Plain], list[cp.Constraint]] | None = None  # of the unknowns
    excess: Callable[[Float], float] | None = None  # at tasks by pair
    cone: bool = False
    lazy: Callable[[], tuple[Any, Float]] | None = None  # makes the rows

    def table(self) -> tuple[Any, Float] | None:
        """The rows, made where the time is taken."""
        return self.lazy() if self.lazy else self.rows

    def violation(self, x: Float) -> float:
        """By how much it is broken at tasks by pair."""
        if self.excess is not None:
            return self.excess(x)
        found = self.table()
        assert found is not None
        excess = found[0] @ x - found[1]
        return float(np.max(np.abs(excess) if self.equal else excess, initial=0.0))


@dataclass
class Goal:
    """An objective: the block for fairopt; by hand an expression, and its value in numbers."""

    name: str
    block: Any
    hand: Callable[[Any, Plain], cp.Expression]  # of the unknowns, in any increasing form
    value: Callable[[Float], float]  # at tasks by pair
    cone: bool = False
    levels: sp.csr_array | None = None  # of a leximin: shares per weight of tasks by pair
    then: Goal | None = None  # the next tier


@dataclass
class Question:
    """What both are asked."""

    kind: str
    given: dict[str, Any]  # arguments of fairopt's instance
    plain: Plain
    goal: Goal
    conditions: Sequence[Condition] = ()

    @property
    def cone(self) -> bool:
        """Whether it is no linear program."""
        goals = [self.goal, *([self.goal.then] if self.goal.then else [])]
        return any(goal.cone for goal in goals) or any(condition.cone for condition in self.conditions)

    def violation(self, x: Float) -> float:
        """The largest violation of tasks by pair, each row near 1."""
        table, right = self.plain.rows
        return max(
            float(np.max(table @ x - right, initial=0.0)),
            float(np.max(-x / self.plain.unit, initial=0.0)),
            *(condition.violation(x) for condition in self.conditions),
        )

    def values(self, x: Float) -> list[Float]:
        """What is compared, in order: numbers, or the sorted levels of a leximin."""
        x = np.maximum(x, 0.0)
        if self.goal.levels is not None:
            return [np.sort(self.goal.levels @ x)]
        goals = [self.goal, *([self.goal.then] if self.goal.then else [])]
        return [np.array([goal.value(x)]) for goal in goals]

    def below(self, x: Float, best: Float) -> float:
        """By how much the values at ``x`` are below those at ``best``, relative to what half of its tasks would lose.

        A level of leximin counts if it differs by more than `GAINED` times what ``best`` gave up of lower ones. Later
        tiers count by 1e-4, and relative to what half of an equal part would lose if that is more: what they get
        depends on by how much earlier ones may be missed, which differs by 1e-7. Where rows leave nothing but rounding,
        a point is no better by that: values count from 1e-5 of the usual one.
        """
        mine, others, half = self.values(x), self.values(best), self.values(best / 2)
        usual = [abs(a - b)[0] for a, b in zip(*map(self.values, (self.plain.at, self.plain.at / 2)), strict=True)]
        if self.goal.levels is not None:
            (mine_sorted,), (best_sorted,) = mine, others
            off = (best_sorted - mine_sorted) / np.maximum(best_sorted, 1e-300)
            given_up = np.maximum.accumulate(np.append(0.0, np.maximum(-off[:-1], 0.0)))  # of lower levels, at ``best``
            far = np.flatnonzero(np.abs(off) > NEAR + GAINED * given_up)
            return float(off[far[0]]) if len(far) else float(np.clip(np.max(off, initial=-np.inf), None, NEAR))
        for k, (value, top, less) in enumerate(zip(mine, others, half, strict=True)):
            unit = abs(top[0] - less[0]) if np.isfinite(less[0]) else abs(top[0])
            unit = max(unit, usual[k]) * LATER if k else max(unit, NOTHING * usual[k])
            off = (top[0] - value[0]) / max(unit, 1e-9 * abs(top[0]), 1e-300)
            off = np.inf if np.isnan(off) else off
            if abs(off) > NEAR or k == len(mine) - 1:
                return float(off)
        return 0.0


@dataclass
class Answer:
    """What was answered by hand."""

    solver: str
    x: Float | None
    seconds: float  # of the CPU
    status: str
    violation: float = np.inf


def model(question: Question, plain: Plain) -> tuple[Any, list[cp.Constraint]]:
    """The unknowns and all constraints in them."""
    y = cp.Variable(len(plain.user), nonneg=True)
    unit = sp.diags_array(plain.scale)
    table, right = plain.rows
    constraints = [(table @ unit).tocsr() @ y <= right]
    for condition in question.conditions:
        if condition.hand is not None:
            constraints += condition.hand(y, plain)
        else:
            found = condition.table()
            assert found is not None
            left = sp.csr_array(found[0] @ unit) @ y
            constraints.append(left == found[1] if condition.equal else left <= found[1])
    return y, constraints


def by_cvxpy(question: Question, setting: str, patience: float) -> tuple[Float | None, str]:
    """Tasks by pair, and the solver's status; tier by tier."""
    name, options = SETTINGS[setting]
    options = dict(options) | ({TIME_OPTION[name]: patience} if name in TIME_OPTION else {})
    plain = replace(question.plain, natural=setting.endswith("in tasks"))
    y, constraints = model(question, plain)
    goal: Goal | None = question.goal
    while goal is not None:
        expression = goal.hand(y, plain)
        problem = cp.Problem(cp.Maximize(expression), constraints)
        problem.solve(solver=name, **options)
        if y.value is None or not np.isfinite(y.value).all():
            return None, str(problem.status)
        if goal.then is not None:
            best = float(expression.value)
            constraints = [*constraints, expression >= best - 5e-8 * abs(best)]
        goal = goal.then
    return np.asarray(y.value) * plain.scale, str(problem.status)


def by_levels(question: Question, patience: float) -> tuple[Float | None, str]:
    """A leximin: the largest smallest share of those that are free, until all with a positive multiplier are frozen."""
    plain, end = question.plain, time.perf_counter() + patience
    unit = sp.diags_array(plain.unit)
    assert question.goal.levels is not None
    shares = sp.csr_array(question.goal.levels @ unit)
    size = float(np.median(shares @ np.ones(len(plain.user))))
    shares, n = shares / size, shares.shape[0]
    tables, rights, equal, at = [plain.rows[0] @ unit], [plain.rows[1]], [], []
    for condition in question.conditions:
        found = condition.table()
        assert found is not None
        (equal if condition.equal else tables).append(sp.csr_array(found[0] @ unit))
        (at if condition.equal else rights).append(found[1])
    held = sp.vstack([*tables, -shares]).tocsr()
    cost = np.zeros(held.shape[1] + 1)
    cost[-1] = -1.0
    levels, free = np.zeros(n), np.ones(n, dtype=bool)
    rest = held.shape[0] - n
    equations = sp.hstack([sp.vstack(equal), sp.csr_array((len(np.concatenate(at)), 1))]) if equal else None
    x = None
    while free.any():
        last = np.concatenate([np.zeros(rest), free.astype(float)])
        right = np.concatenate([*rights, np.where(free, 0.0, -levels * (1 - 1e-9))])
        found = linprog(
            cost,
            A_ub=sp.hstack([held, sp.csr_array(last[:, None])]).tocsr(),
            b_ub=right,
            A_eq=equations,
            b_eq=np.concatenate(at) if at else None,
            method="highs",
            options={"time_limit": max(end - time.perf_counter(), 0.01)},
        )
        if found.x is None or found.status != 0:
            return None, str(found.message)
        x, level = found.x[:-1], found.x[-1]
        frozen = free & (-found.ineqlin.marginals[rest:] > 1e-7 / max(free.sum(), 1))
        levels[frozen], free = level, free & ~frozen
        if not frozen.any():
            return None, "nobody is frozen"
    return None if x is None else x * plain.unit, "optimal"


def hand_answer(question: Question, setting: str, patience: float) -> Answer:
    """One solver's answer."""

    def run() -> tuple[Float | None, str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return by_levels(question, patience) if setting == "levels" else by_cvxpy(question, setting, patience)

    found, seconds, _ = timed(run)
    if isinstance(found, Exception):
        return Answer(setting, None, seconds, f"{type(found).__name__}: {str(found)[:100]}")
    x, status = found
    return Answer(setting, x, seconds, status, np.inf if x is None else question.violation(x))
