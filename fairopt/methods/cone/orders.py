"""Ordered weights by programs in which the order of users is fixed, each after the multipliers of the one before.

With the order fixed, ordered weights are linear: levels that do not fall along it, each weighed by its place. That is a
row for each user, where all orders take ``n log^2 n``. The multipliers of these rows say what a unit of each user's
level costs. Among users who are held at one level the dear ones go first: if their costs in this order are within the
weights, no other order is better (Hardy, Littlewood and Pólya); else the next program takes the new order, in which
the levels found are possible too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from fairopt.blocks.normal_form import Term
from fairopt.blocks.ranked import padded
from fairopt.evidence.solved import Solved
from fairopt.formulation.program import ConeModel, Program
from fairopt.methods import infeasible
from fairopt.methods.arrays import Float, Int
from fairopt.methods.cone.solve import by_chain, solve_problem
from fairopt.methods.settings import Proposals, Settings
from fairopt.proofs.conditions import dual_values
from fairopt.proofs.proposal import Proposal
from fairopt.runtime.lazy import cp, csgraph, sp
from fairopt.runtime.progress import tell

ROWS = 1_500  # users times steps of the weights: below, one program with all rows takes less time
PROGRAMS = 60  # 2 to 12 are usual
CLOSE = 1e-6  # part of all weights by which costs may exceed them in a point that is proposed
STALLED = 1e-9  # relative gain of a program that is none
NOTHING = 1e-13  # part of the mean weight that is none


def orders_apply(program: Program) -> bool:
    """Whether the objective has ordered weights with too many users and steps for all rows.

    Other terms are of fairopt's own, whose tangents the proof knows, and none of them sorts: a proof splits prices
    among terms that do.
    """
    terms = program.objective.terms()
    sorting = [term.ranks for term in terms if term.ranks]
    if len(sorting) != 1 or len(sorting[0]) == 1 or not program.objective.is_known:
        return False
    n = program.instance.n_users
    return bool(n * np.count_nonzero(np.diff(padded(sorting[0], n), append=0.0)) > ROWS)


def sorted_term(program: Program) -> Term:
    """The term of ordered weights."""
    return next(term for term in program.objective.terms() if term.ranks)


def solve_by_orders(program: Program, settings: Settings, first: Float) -> Proposals:
    """The best ordered weights; ``first`` are levels by user, whose order is the first."""

    def propose(name: str) -> Iterator[Proposal]:
        yield from _Orders(program, name, settings, first).proposals()

    yield from by_chain(settings, propose, linear=False)


class _Groups(NamedTuple):
    """Places of users from the poorest, in groups of one weight; bounds between groups where both have several users.

    ``below`` and ``above`` are the rows: indices of places, and after these of bounds.
    """

    weights: Float
    n_bounds: int
    below: Int
    above: Int


def grouped(weights: Float) -> _Groups:
    """The rows by which levels do not fall from group to group; within a group they may be in any order."""
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
        # the rows are sparse: Clarabel's own choice of a factorisation takes ten times as long
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
        self._take(np.argsort(first, kind="stable"))

    def _take(self, users: Int) -> None:
        self.orders.append(_Order(self.groups, users))

    def proposals(self) -> Iterator[Proposal]:
        """Points with multipliers where no other order is better, and where none was found to be; the gate tells."""
        best, cone = -np.inf, self.cone
        for k in range(PROGRAMS):
            tell(f"orders of users by {self.solver}, program", k + 1, PROGRAMS)
            held = sum(order.by_user for order in self.orders) <= self.shares
            form = sum((order.worth for order in self.orders), start=self.others)
            rising = [order.rising for order in self.orders]
            attempt, found = solve_problem(
                cp.Problem(cp.Maximize(form), [*cone.all_constraints, *rising, held]),
                cone.unknowns,
                self.solver,
                self.settings,
                explain=partial(infeasible.explain, self.program),
                objective=self.program.objective,
                looser=True,
            )
            if not found:
                yield Proposal("cone", attempt=attempt)
                return
            costs = dual_values(held)
            users = self._by_costs(costs)
            excess = float((np.cumsum(costs[users]) - np.cumsum(self.groups.weights)).max())
            value = float(form.value)
            gains, best = value > best + STALLED * abs(best), max(best, value)
            if excess <= CLOSE or k + 1 == PROGRAMS or self.settings.late:
                attempt = replace(attempt, status=f"{attempt.status} ({k + 1} programs)")
                yield Proposal("cone", cone.tasks(), Solved.of(cone, form, self.unit), attempt=attempt)
                if excess <= CLOSE**2 or self.settings.late:
                    return
            if gains:
                self.orders.clear()
            self._take(users)

    def _by_costs(self, costs: Float) -> Int:
        """Users by their levels, and those of one level by what it costs, the dear ones first."""
        level = sum(order.levels() for order in self.orders)
        shares = np.asarray(self.shares.value, dtype=float)
        loose = costs < shares - level
        return np.lexsort((-costs, np.where(loose, np.maximum(shares, level), level)))


class _Order:
    """Levels that do not fall along an order of users, but for those of one weight among each other."""

    def __init__(self, groups: _Groups, users: Int) -> None:
        n = len(users)
        self.groups, self.place = groups, np.argsort(users)
        self.values = cp.Variable(n + groups.n_bounds)
        self.rising = self.values[groups.below] <= self.values[groups.above]
        self.by_user, self.worth = self.values[self.place], groups.weights @ self.values[:n]

    def levels(self) -> Float:
        """Levels by user, the same number for all who are held together by rows with multipliers."""
        groups, values = self.groups, np.asarray(self.values.value, dtype=float)
        tied = dual_values(self.rising) > values[groups.above] - values[groups.below]
        rows = (groups.below[tied], groups.above[tied])
        together = sp.coo_array((np.ones(len(rows[0])), rows), shape=(len(values), len(values)))
        _, block = csgraph.connected_components(together, directed=False)
        return (np.bincount(block, values) / np.bincount(block))[block][self.place]
