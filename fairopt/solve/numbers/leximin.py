"""Leximin of numbers under linear constraints, as a sequence of linear programs.

Of numbers ``z_t = sum_p c_p x_p - b_t``, each at most most_t, the next level is the largest h at which all free numbers
can be ``min(h w_t, most_t)`` while fixed ones keep their floors. Each program maximises the common level of the free
numbers. Numbers with a price are fixed there (Danna et al. 2012); where a level does not rise a second program tests
all others at it at once (Proposition 7.6). Numbers may be at the most that they can be before: then the level is the
root of the bound by prices, which falls to it by Newton's method: ``sum_t pi_t min(most_t, h w_t) = V`` over the free
numbers, less what fixed ones pay.

Why not bisection: each step is a program, and of 199 levels 156 took one, the others two to five.

In floats a floor is a right side of all later programs. A level by prices is an upper bound, so that floors are at most
what the tasks reach, and may fall by 1e-10 (`NEAR`) where numbers are tested. What earlier levels leave to later ones
counts in the gap (Proposition 7.16 in docs/methods/cone.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import numpy as np

from fairopt.blocks.algebra import KeptLevel
from fairopt.certificate import Try
from fairopt.errors import InvalidBlock
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.number_levels import NumberLevels
from fairopt.proof.feasibility import repair
from fairopt.proof.number_level_bounds import NumberBounds
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE, ROUNDING
from fairopt.solve.cone.solve import _SolverFailed
from fairopt.solve.form.program import Program
from fairopt.solve.numbers.columns import likely_columns
from fairopt.solve.numbers.level_program import STEP, NumberPrograms
from fairopt.solve.numbers.polish import polished
from fairopt.solve.numbers.pool_levels import PoolLevels, on_a_pool
from fairopt.solve.settings import Proposals, Settings

PAID = 1e-9  # of what a level's numbers pay: prices below are noise
RISING = 1e-6  # a number this far above the level, relatively, can rise
NEAR = 1e-10  # relative: how far fixed numbers may fall, so that rounding leaves programs feasible
MANY = 30_000  # columns above which those of programs are found by prices
MOST_STEPS = 60  # of Newton's method


def linear_only(program: Program) -> bool:
    """Whether all constraints are linear rows."""
    return all(program.rows_of(block) is not None for block in program.rest)


def refuse_other_methods(program: Program) -> NoReturn:
    """`InvalidBlock` for a leximin of numbers under constraints that are not linear, or by another method."""
    for block in program.rest:
        if program.rows_of(block) is None:
            what = f"the earlier tier {block.objective}" if isinstance(block, KeptLevel) else f"`{block}`"
            share = program.term.share
            raise InvalidBlock(
                f"{program.objective} is solved under linear constraints, and {what} is none; instead use AlphaFair(8, "
                f"{share}), which comes near it, or MaxMin({share}), its first level"
            )
    raise InvalidBlock(f"{program.objective} is solved by levels in HiGHS only; leave method and solver out")


def solve_leximin_of_numbers(program: Program, settings: Settings) -> Proposals:
    """Leximin of the numbers of the objective, level by level; on a pool by small programs if the gate takes these."""
    bounds = NumberBounds(program)
    kinds: list[type[PoolLevels | _Levels]] = [PoolLevels, _Levels] if on_a_pool(bounds) else [_Levels]
    for kind in kinds:
        levels = kind(bounds, settings)
        try:
            levels.fill()
        except _SolverFailed as failure:
            yield Proposal("levels", attempt=Try("HIGHS", str(failure), 0.0))
        else:
            duals = [polished(bounds, dual, levels.tasks) for dual in levels.duals]
            attempt = Try("HIGHS", f"optimal ({levels.solves} programs)", 0.0)
            evidence = NumberLevels(duals, levels.prices)
            answer = yield Proposal("levels", repair(program, levels.tasks), evidence, attempt=attempt)
            if answer is None or answer.ok:
                return
        if settings.clock.late:
            return


def open_columns(bounds: NumberBounds) -> tuple[Indices, Float]:
    """The pairs whose tasks are not determined by bounds, and the least tasks of all pairs."""
    program = bounds.program
    if not program.single:
        return np.arange(len(bounds.pairs)), np.zeros(len(bounds.pairs))
    several = program.most > program.low
    if several.sum() > MANY:
        return likely_columns(bounds, several)
    return np.flatnonzero(several), np.minimum(program.low, program.most)


class _Levels:
    """The levels so far: ``floor`` (n_numbers,) is where numbers are fixed, or the least that free ones are."""

    def __init__(self, bounds: NumberBounds, settings: Settings) -> None:
        self.bounds = bounds
        self.programs, self.w = NumberPrograms(bounds, settings, *open_columns(bounds)), bounds.numbers.weights
        self.floor = bounds.lowest.copy()
        self.free = bounds.most > bounds.lowest + NEAR * np.maximum(bounds.lowest, 0.0)
        self.duals: list[Dual] = []
        self.prices = np.zeros(len(bounds.program.usable_rows))
        self.level, self.unit = 0.0, float((bounds.typical / self.w).max(initial=0.0)) or 1.0

    @property
    def solves(self) -> int:
        """How many programs were solved."""
        return self.programs.solves

    def fill(self) -> None:
        """Solve level after level."""
        n = len(self.w)
        while self.free.any():
            tell("levels, numbers settled", n - int(self.free.sum()), n)
            level, dual = self.next_level()
            before = self.free.copy()
            if dual is None:  # all are at the most that they can be, or so little below that it counts for nothing
                self.tasks = self.programs.tasks
                return
            at_most = self.free & (self.bounds.most <= level * self.w * (1 + NEAR))
            # A level by prices is rounded up, by what bounds on tasks are worth: by 1e-10 of 2 tasks on a link of 1e5.
            # As a floor it left the next program no point, so that a floor is at most what the tasks reach.
            reached = np.minimum(np.minimum(level * self.w, self.bounds.most), self.bounds.at(self.programs.tasks))
            self.floor = np.where(self.free, np.maximum(reached, self.floor), self.floor)
            self.free &= ~at_most
            if not self.duals and not at_most.any() and level > 0:
                self.prices = dual.prices / (dual.of_numbers @ self.w)
            self.fix(dual, self.paying(dual))
            doubt = self.free & (self.bounds.at(self.programs.tasks) <= self.floor + RISING * self.units)
            # only where a level did not rise: prices are then zero at some of those that are bound (degenerate)
            if doubt.any() and level <= self.level * (1 + RISING):
                self.fix_those_who_cannot_rise(doubt)
            if (self.free == before).all():
                raise _SolverFailed(f"prices of program {self.programs.solves} fix nothing")
            self.level, self.unit = level, level if level > NOISE * self.unit else self.unit
        # the last program may have let fixed numbers fall by `NEAR`
        if (self.bounds.at(self.programs.tasks) < self.floor * (1 - ROUNDING)).any():
            self.programs.solve(self.floor, 0.0 * self.w, self.units, 1.0)
        self.tasks = self.programs.tasks

    @property
    def units(self) -> Float:
        """A unit of each number."""
        most = self.bounds.most
        return np.maximum(self.floor, np.where(most > 0, np.minimum(self.w * self.unit, most), self.w * self.unit))

    @property
    def kept(self) -> Float:
        """Lower bounds of all numbers."""
        return np.maximum(self.floor * (1 - NEAR), self.bounds.lowest)

    def paying(self, dual: Dual) -> Bool:
        """The free numbers with a price."""
        paid = dual.of_numbers * self.units * self.free
        return paid > PAID * paid.max(initial=0.0)

    def fix(self, dual: Dual, fixed: Bool) -> None:
        """Fix numbers where they are."""
        if fixed.any():
            self.duals.append(replace(dual, fixed=np.flatnonzero(fixed)))
            self.free &= ~fixed

    def next_level(self) -> tuple[float, Dual | None]:
        """The largest level of the free numbers, and the prices that bound it; none if all can be at their most."""
        free, w, most = self.free, self.w, self.bounds.most
        solution = self.programs.solve(np.where(free, 0.0, self.floor), np.where(free, w, 0.0), self.units)
        if solution.level < (most / w)[free].min() * (1 - NEAR):  # usual: nobody is at its most before
            return solution.level, solution.dual
        start, top, dual = self.floor, np.inf, None
        for _ in range(MOST_STEPS):
            target = np.where(free, np.maximum(np.minimum(most, top * w), start), start)
            solution = self.programs.solve(start, target - start, np.maximum(target, self.units), 1.0)
            if solution.level >= 1 - NEAR:
                break
            root = self.root(solution.dual)
            dual = solution.dual
            if root >= top * (1 - NEAR):
                break
            top = root
        return top, dual

    def root(self, dual: Dual) -> float:
        """The level at which free numbers, each at most what it can be, pay what the bound allows."""
        free, pi = self.free, dual.of_numbers
        left = self.bounds.value(dual, self.bounds.costs(dual)) - float((pi * self.floor)[~free].sum())
        # the first k are at their most and the others at h w: the k for which h lies between their ends
        order = np.flatnonzero(free)[np.argsort((self.bounds.most / self.w)[free])]
        per, most, w = pi[order], self.bounds.most[order], self.w[order]
        full = np.append(0.0, np.cumsum(per * most))  # what the first k pay at their most
        rest = np.append(np.cumsum((per * w)[::-1])[::-1], 0.0)  # what a unit of level costs the others
        with np.errstate(divide="ignore", invalid="ignore"):
            levels = (left - full[:-1]) / rest[:-1]
        fits = np.flatnonzero(levels <= (most / w) * (1 + NEAR))
        return float(max(levels[fits[0]], self.level)) if len(fits) else np.inf

    def fix_those_who_cannot_rise(self, doubt: Bool) -> None:
        """Fix those in doubt that cannot rise above the level while no other number falls below its floor."""
        while doubt.any():
            solution = self.programs.solve(self.kept, 0.0 * self.w, self.units, rise=doubt)
            rising = doubt & (STEP * solution.rises > RISING)
            if not rising.any():
                self.fix(solution.dual, doubt & self.paying(solution.dual))
                return
            doubt = doubt & ~rising
