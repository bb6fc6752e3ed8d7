"""Ordered weights by programs in which the order of users is fixed (Proposition 7.14).

With weights ``v_1 >= ... >= v_n >= 0`` on sorted levels z, the program of an order of users is

    max sum_k v_k y_k   subject to   y_1 <= ... <= y_n,   y_k <= z of the k-th user,   and the policy's constraints.

It is never above the optimum, and equal to it if the optimal levels increase in this order. Each program has one row a
user, instead of the ``n log^2 n`` of all orders (a sorting network). Its levels, and among users at one level its
multipliers, give the next order. If the multipliers c in this order are within the weights,
``c_1 + ... + c_k <= v_1 + ... + v_k``, no order is better; if no order gains, several are kept and their y added up,
which is legal as ordered weights are superadditive.

Which users are at one level is not asked of the levels, equal only to a solver's tolerance, but of the rows between
them: tight where the multiplier exceeds the slack (`_Order.levels`). The last point is proved by Bound 7.2 with these
multipliers as mixture; the gate does not use the order.

CPU seconds with weights of 10 and of n steps on 4 servers, and without it: .03 and .06 at 200 users, instead of .04 and
a refusal after 15; .05 and .16 at 600, instead of .11 and a refusal after 30.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from fairopt.blocks.normal_form import Term
from fairopt.blocks.objectives import AlphaFair
from fairopt.blocks.ranked import padded
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.feasibility import dual_values
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import cp, csgraph, sp
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE
from fairopt.solve import infeasible
from fairopt.solve.cone.solve import by_chain, solve_problem
from fairopt.solve.dispatch import ask
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Posed
from fairopt.solve.form.program import ConeModel, Program
from fairopt.solve.settings import Proposals, Settings, of_other_programs

ROWS = 1_500  # users times steps of the weights, below which one program with all rows is faster
PROGRAMS = 60  # 2 to 12 are usual
CLOSE = 1e-6  # excess of multipliers over the weights, relative to all of these, at which a point is proposed
NOTHING = 1e-13  # of the mean weight, below which a weight counts as zero


def orders_apply(program: Program) -> bool:
    """Whether the objective has ordered weights with too many users and steps for all rows.

    There may be one such term only, and no user-defined terms.
    """
    terms = program.objective.terms()
    sorting = [term.ranks for term in terms if term.ranks]
    if len(sorting) != 1 or len(sorting[0]) == 1 or not program.objective.is_known or not program.of_users:
        return False
    n = program.instance.n_users
    return bool(n * np.count_nonzero(np.diff(padded(sorting[0], n), append=0.0)) > ROWS)


def sorted_term(program: Program) -> Term:
    """The term of ordered weights."""
    return next(term for term in program.objective.terms() if term.ranks)


def solve_by_orders(program: Program, settings: Settings) -> Proposals:
    """The best ordered weights, starting with the order of a fair optimum."""
    first = _fair_levels(program, settings)
    return by_chain(settings, lambda name: _Orders(program, name, settings, first).proposals(), linear=False)


def _fair_levels(program: Program, settings: Settings) -> Float:
    """Levels by user at alpha = 2, whose order is near that of the ordered weights' optimum."""
    term, settings = sorted_term(program), replace(of_other_programs(settings), solver=None, options={})
    try:
        fair = Program(program.given, AlphaFair(2, term.share), program.constraints)
        tasks = ask(fair, settings, lambda method: not method.reduces).tasks
    except (OutOfDomain, Infeasible):  # the constraints leave some user without tasks
        tasks = program.size[program.pairs.user]
    point = program.point(tasks)
    return np.asarray(point.share(term.share) / point.weights)


class _Groups(NamedTuple):
    """Places in the order, grouped by weight, with auxiliary bounds between groups that both have several users.

    Rows say that the values at ``below`` are at most those at ``above``: indices of places, then of bounds.
    """

    weights: Float
    n_bounds: int
    below: Indices
    above: Indices


def grouped(weights: Float) -> _Groups:
    """The rows by which levels do not fall from group to group, in any order within a group."""
    n = len(weights)
    starts = np.flatnonzero(np.diff(weights, prepend=np.inf))
    ends = np.append(starts[1:], n)
    below, above, n_bounds = [], [], 0
    for first, middle, end in zip(starts[:-1], starts[1:], ends[1:], strict=True):
        left, right = np.arange(first, middle), np.arange(middle, end)
        if len(left) == 1 or len(right) == 1:
            below.append(np.repeat(left, len(right)))
            above.append(np.tile(right, len(left)))
            continue
        bound, n_bounds = n + n_bounds, n_bounds + 1
        below += [left, np.full(len(right), bound)]
        above += [np.full(len(left), bound), right]
    nothing = [np.zeros(0, dtype=np.intp)]
    return _Groups(weights, n_bounds, np.concatenate(below or nothing), np.concatenate(above or nothing))


class _Orders:
    """The programs by one solver."""

    def __init__(self, program: Program, solver: str, settings: Settings, first: Float) -> None:
        # Clarabel's default factorisation takes ten times as long for these sparse rows
        own = {"direct_solve_method": "qdldl"} if solver == "CLARABEL" else {}
        self.settings = replace(settings, options={**own, **settings.options})
        self.program, self.solver = program, solver
        n, term = program.instance.n_users, sorted_term(program)
        weights = term.factor * padded(term.ranks or (), n)
        self.cone = cone = ConeModel(program, solver)
        self.unit = cone.model.level(term.share) * float(weights.sum())
        weights /= weights.sum()
        self.groups = grouped(np.where(weights > NOTHING / n, weights, 0.0))
        self.shares = cone.model.relative_share(term.share)
        others = [other for other in program.objective.terms() if other != term]
        self.others: cp.Expression = sum(
            (other.kind.expression(other.share, cone.model) * (other.factor / self.unit) for other in others),
            start=cp.Constant(0.0),
        )
        self.orders: list[_Order] = []
        self._add(np.argsort(first, kind="stable"))

    def _add(self, users: Indices) -> None:
        """Add an order of users."""
        self.orders.append(_Order(self.groups, users))

    def proposals(self) -> Iterator[Proposal]:
        """Points with multipliers at which no other order is better, or whose order was the last."""
        best, cone = -np.inf, self.cone
        for k in range(PROGRAMS):
            tell(f"orders of users by {self.solver}, program", k + 1, PROGRAMS)
            levels = sum(order.by_user for order in self.orders) <= self.shares
            form = sum((order.value for order in self.orders), start=self.others)
            rising = [order.rising for order in self.orders]
            attempt, solved = solve_problem(
                Posed(cp.Maximize(form), [*cone.all_constraints, *rising, levels]),
                cone.unknowns,
                self.solver,
                self.settings,
                explain=partial(infeasible.explain, self.program),
                objective=self.program.objective,
                again=solvers.tries(self.solver) - 1,
            )
            if not solved:
                yield Proposal("cone", attempt=attempt)
                return
            multipliers = dual_values(levels)
            users = self._next_order(multipliers)
            excess = float((np.cumsum(multipliers[users]) - np.cumsum(self.groups.weights)).max())
            value = float(form.value)
            gains, best = value > best + NOISE * abs(best), max(best, value)
            # the gate may prove a point whose multipliers are not quite within the weights: it scales them
            if excess <= CLOSE or k + 1 == PROGRAMS or self.settings.clock.late:
                attempt = replace(attempt, status=f"{attempt.status} ({k + 1} programs)")
                yield Proposal("cone", cone.tasks(), Solved.of(cone, form, self.unit), attempt=attempt)
                if excess <= CLOSE**2 or self.settings.clock.late:
                    return
            if gains:  # else the old orders stay beside the new one (part 3), and the value cannot fall
                self.orders.clear()
            self._add(users)

    def _next_order(self, multipliers: Float) -> Indices:
        """Users by increasing levels, and those of one level by decreasing multipliers."""
        level = sum(order.levels() for order in self.orders)
        shares = np.asarray(self.shares.value, dtype=float)
        slack = multipliers < shares - level  # whom no row holds at its level has what its tasks give
        return np.lexsort((-multipliers, np.where(slack, np.maximum(shares, level), level)))


class _Order:
    """Levels that do not fall along an order of users, in any order within a group of one weight."""

    def __init__(self, groups: _Groups, users: Indices) -> None:
        n = len(users)
        self.groups, self.place = groups, np.argsort(users)
        self.values = cp.Variable(n + groups.n_bounds)
        self.rising = self.values[groups.below] <= self.values[groups.above]
        self.by_user, self.value = self.values[self.place], groups.weights @ self.values[:n]

    def levels(self) -> Float:
        """Levels by user, the same number for users connected by tight rows."""
        groups, values = self.groups, np.asarray(self.values.value, dtype=float)
        tight = dual_values(self.rising) > values[groups.above] - values[groups.below]
        rows = (groups.below[tight], groups.above[tight])
        connected = sp.coo_array((np.ones(len(rows[0])), rows), shape=(len(values), len(values)))
        _, block = csgraph.connected_components(connected, directed=False)
        return (np.bincount(block, values) / np.bincount(block))[block][self.place]
