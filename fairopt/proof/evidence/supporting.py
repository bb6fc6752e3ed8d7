"""Multipliers from the tasks of an answer, by linear programs, where a solver's prove little without the cone form.

With tangents l at the tasks in place of curves, and mixtures theta of ranked terms, the bound of weak duality
(Proposition 15.1, docs/methods/evidence.md) is linear in everything that may be chosen:

    min_(p, y, theta >= 0)  l_0 + p'C + y'b + sum_j u_j,   u_j >= low_j r_js and high_j r_js,
                            r = slopes + theta c - D'p - A'y.

A linear program gives the choice that proves most, with the accuracy of a simplex basis. An interior point solver's
multipliers are good for the cone form, in which curves are curves; as slopes of tangents they are off by as much as the
curves bend, which left files unproved by gaps of 1.7e-6. Mixtures are majorised by v if they are v times a doubly
stochastic matrix, n^2 unknowns: hence only small programs.

First any change of the tasks is allowed, ``near = inf``, and then only small ones: the bound must hold for all, but
where tangents are of little use far away, prices that prove what is near are right (the gap is then computed for all).
Floats: each form, row and kept level is brought to size 1, since HiGHS's tolerances of 1e-10 are absolute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.algebra import AtLeast
from fairopt.blocks.form import Curve, Form, Sorted
from fairopt.blocks.ranked import padded
from fairopt.proof.dual import Dual
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.form.compiled import Compiled, Posed
from fairopt.solve.form.highs import silence_banner
from fairopt.solve.form.program import Program
from fairopt.solve.form.program_rows import BlockRows

LARGEST = 100_000  # entries of the largest matrix of a program: n^3 of mixtures of n users allow 46
NEAR = (np.inf, 1e-2)  # relative distance from the tasks within which terms are bounded: first any, then small
RISE = 1e-7  # relative: users who could rise by more get further prices
OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "solver": "simplex"}


def is_small(program: Program) -> bool:
    """Whether the programs are small enough."""
    rows = sum(len(one.rows) for one in program.rows.further)
    size = len(program.pairs) * (len(program.usable_rows) + rows) + program.instance.n_users**3
    return size <= LARGEST


class Supported(NamedTuple):
    """Multipliers, with mixtures of ranked terms.

    ``excess`` is the bound less the value at the tasks. ``costs`` (n_users,) are those of users' floors, if fixed.
    """

    dual: Dual
    excess: float
    costs: Float


class _Slopes(NamedTuple):
    """A form with tangents in place of curves: a constant, slopes (n_pairs,) and ranked terms."""

    constant: float
    slopes: Float
    ranked: Sequence[Sorted]

    def times(self, factor: float) -> _Slopes:
        """The form times a factor."""
        ranked = [replace(one, factor=one.factor * factor) for one in self.ranked]
        return _Slopes(self.constant * factor, self.slopes * factor, ranked)

    def size(self, tasks: Float) -> float:
        """The order of magnitude of the form at the tasks."""
        return float(abs(self.slopes) @ tasks) + sum(one.factor * sum(one.v) for one in self.ranked) or 1.0


class Supporting:
    """The bound at the tasks of a program as a linear function of prices, multipliers and mixtures."""

    def __init__(self, program: Program, tasks: Float, near: float) -> None:
        self.program, self.pairs, self.tasks, self.point = program, program.pairs, tasks, program.point(tasks)
        total, width = self.pairs.sum(tasks), near * program.most
        self.low = np.maximum(program.low, np.nan_to_num(total - width, nan=0.0))  # inf * 0 of a user without room
        self.high = np.minimum(program.most, total + np.where(program.most > 0, width, 0.0))
        self.usable = program.usable_rows
        self.prices = cp.Variable(len(self.usable), nonneg=True)
        self.bound = self.usable @ self.prices
        self.reduced = -(
            sp.csr_array(self.pairs.loads).T.toarray() @ self.prices
        )  # marginal utility less cost, by pair
        self.rows: list[tuple[BlockRows, cp.Variable, Float]] = []
        self.conditions: list[Any] = []
        for one in program.rows.further:
            table, most = one.rows.per_task.toarray(), program.most[self.pairs.user]
            # the most that a term can be: a row of small coefficients has large multipliers
            size = np.maximum(np.abs(one.rows.right), (abs(table) * most).max(axis=1, initial=0.0))
            size = np.where(size > 0, size, 1.0)
            y = cp.Variable(len(one.rows), nonneg=not one.rows.equal)
            self.bound += (one.rows.right / size) @ y
            self.reduced -= (table / size[:, None]).T @ y
            self.rows.append((one, y, size))
        self.kept: list[tuple[AtLeast, cp.Variable, float]] = []
        self.mixed: list[list[tuple[cp.Variable | float, Any]]] = []

    def tangent(self, form: Form) -> _Slopes:
        """The tangents of a form at the tasks, without its unit and shift."""
        plain, slopes = replace(form, ranked=()), np.zeros(len(self.tasks))
        for curve in form.curves:
            of = curve.slopes(curve.at(self.point))
            slopes += of[self.number(curve)] * self.pairs.of(curve.c)
        constant = plain.value(self.point) - float(slopes @ self.tasks)  # l_0 of l = value + slopes (x - tasks)
        if not np.isfinite(slopes).all():
            raise ValueError("a user has no share")
        return _Slopes(constant, slopes, form.ranked)

    def number(self, term: Curve | Sorted) -> Indices:
        """The number of a term that each pair belongs to."""
        return self.pairs.user if term.numbers is None else term.numbers.of_pairs(self.pairs.user)

    def add(self, form: _Slopes, times: cp.Variable | float) -> None:
        """Add a multiple of a form to the bound."""
        self.bound += times * form.constant
        self.reduced += times * form.slopes
        self.mixed.append([])
        for term in form.ranked:  # doubly stochastic mixtures of the weights
            at, number, c = term.at(self.point), self.number(term), self.pairs.of(term.c)
            n = len(at)
            base = np.bincount(number, c * self.tasks, minlength=n)[:n] - at  # of a surplus; 0 up to rounding otherwise
            orders = cp.Variable((n, n), nonneg=True)
            self.conditions += [cp.sum(orders, axis=k) == times * term.factor for k in (0, 1)]
            mixture = orders @ padded(term.v, n)
            self.reduced += cp.multiply(c, mixture[number])
            self.bound -= base @ mixture
            self.mixed[-1].append((times, mixture))

    def keep(self) -> None:
        """Add the kept levels of objectives, with multipliers."""
        for block in self.program.rest:
            if not isinstance(block, AtLeast) or self.program.rows_of(block) is not None:
                continue
            majorant = block.objective.majorant(self.point) if block.objective.majorant_is_natural else None
            if majorant is None:
                raise ValueError(f"{block} has no tangents")
            form = self.tangent(Form(constant=-block.level).plus(majorant, 1.0))
            times, scale = cp.Variable(nonneg=True), 1.0 / form.size(self.program.most[self.pairs.user])
            self.kept.append((block, times, scale))
            self.add(form.times(scale), times)

    def solve(self, size: float = 1.0, costs: cp.Variable | None = None) -> Supported:
        """The prices and multipliers that minimise the bound, for a form of this ``size``."""
        users, user = cp.Variable(len(self.high)), self.pairs.user
        ends = [users[user] >= cp.multiply(end[user], self.reduced) for end in (self.low, self.high)]
        problem = Posed(cp.Minimize(self.bound + cp.sum(users)), [*self.conditions, *ends])
        silence_banner()
        options = {"highs_options": OPTIONS | {"output_flag": False}}
        try:
            compiled = Compiled.of(problem, "HIGHS", options)
            compiled.unpack(compiled.solve(compiled.data, False, options))
        except (cp.error.SolverError, ValueError) as error:
            raise ValueError("no multipliers were found at the tasks") from error
        if self.prices.value is None:
            raise ValueError("no multipliers were found at the tasks")
        rows = [(one, one.rows.valid(y.value / of) * size) for one, y, of in self.rows]
        kept = [(block, max(float(times.value), 0.0) * scale * size) for block, times, scale in self.kept]
        mixed = [[np.maximum(u.value, 0.0) for _, u in some] for some in self.mixed]
        first = len(mixed) - len(kept)
        own = [u for some in mixed[:first] for u in some]
        of_users = np.zeros(len(self.high)) if costs is None else np.maximum(costs.value, 0.0)
        prices = np.maximum(self.prices.value, 0.0) * size
        reduced = self.reduced.value
        # the users' maxima again, from the prices as they were found: the program's own are within its tolerance only
        best = -self.pairs.min(-np.maximum(self.low[user] * reduced, self.high[user] * reduced))
        excess = float(self.bound.value) + float(best.sum())
        dual = Dual(prices, rows, kept, mixtures=own, of_kept=mixed[first:])
        return Supported(dual, excess, of_users)


def supporting(program: Program, tasks: Float, near: float) -> Supported:
    """Multipliers of an objective in the units of its majorant, within a relative distance ``near`` of the tasks.

    `ValueError` if there are none.
    """
    dual = Supporting(program, tasks, near)
    majorant = program.objective.majorant(dual.point)
    if majorant is None:
        raise ValueError(f"{program.objective} has no tangents")
    form = dual.tangent(majorant)
    size = form.size(tasks)
    dual.add(form.times(1.0 / size), 1.0)
    dual.keep()
    supported = dual.solve(size)
    return supported._replace(excess=supported.excess * size - majorant.value(dual.point))


def supporting_levels(program: Program, tasks: Float) -> list[tuple[Indices, Supported, Float]]:
    """The users whom each level of a leximin fixes, from the lowest level up, its multipliers, and the costs of levels.

    `ValueError` if there are none.
    """
    point, share = program.point(tasks), program.term.share
    values, c = point.share(share) / point.weights, program.pairs.of(share.coefficients(program.instance))
    user = program.pairs.user
    per_task = c / point.weights[user]
    if not (values > 0).all():
        raise ValueError("a user has no share")
    most = np.maximum(-program.pairs.min(-per_task) * program.most, values)
    # who is at the most that it can have needs no prices
    left, out = np.flatnonzero(most > values * (1 + 10 * RISE)), list[tuple[Indices, Supported, Float]]()
    while len(left):
        level = values[left].min()
        lowest, floors = left[values[left] <= level * (1 + NOISE)], np.minimum(values, level)
        best: tuple[Float, Supported] | None = None
        for near in NEAR:
            if best is not None and best[0].min() <= RISE / 10:
                break
            dual = Supporting(program, tasks, near)
            dual.keep()
            costs = cp.Variable(len(floors), nonneg=True)  # of users' floors
            dual.bound -= cp.sum(costs)
            dual.reduced += cp.multiply(per_task / floors[user], costs[user])
            dual.conditions.append(cp.sum(costs[lowest]) == 1)
            supported = dual.solve(costs=costs)
            with np.errstate(divide="ignore"):
                rise = np.where(
                    supported.costs[lowest] > 0, max(supported.excess, 0.0) / supported.costs[lowest], np.inf
                )
            if best is None or rise.min() < best[0].min():
                best = rise, supported
        assert best is not None
        rise, supported = best
        fixed = lowest[rise <= max(RISE, rise.min())]  # at least one, so that this ends
        out.append((fixed, supported, supported.costs / floors))
        left = left[~np.isin(left, fixed)]
    return out
