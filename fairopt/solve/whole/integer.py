"""Whole tasks on individual servers by mixed-integer programs; their optimality rests on the MIP solver.

With x_js the whole tasks of user j on server s, each tier is

    max f(x)   subject to   sum_j d_jsi x_js <= C_si for each single server,   bounds, constraints and earlier tiers.

Objectives and conditions must be piecewise linear. `Leximin` is solved level by level: first the largest level z, then,
with a binary b_j for being above it, the largest number of users above, whoever these are. Which ones is left open, as
the next level may be larger with others, so that floors are functions of the binaries. To raise the smallest share step
by step instead (Parkes et al. 2015) may end at (5, 0) where leximin is (1, 1).

Why not leximin of divisible levels: whole levels are counts, ties are usual, and multipliers do not exist. What breaks
in a MIP solver is scale: it tolerates small parts of a task as 0 or 1, errs where binaries have coefficients of 1e-7,
and drops entries below 1e-9. Hence bounds on a task's part (`_Steps.lowest`), a unit in which levels that differ by
1e-6 differ by 1e-3, and no more than 1e8 tasks on a server. HiGHS's presolve has reported infeasible what the step
before had a point of, so that it is asked again without. The bound that certificates state is the divisible optimum's;
that no whole answer is better is HiGHS's word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import tiers_of
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Model
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import Share
from fairopt.certificate import Try
from fairopt.errors import SolverUnavailable
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.progress import tell
from fairopt.solve import infeasible
from fairopt.solve.form import solvers
from fairopt.solve.form.no_whole_task import SAME, number_of
from fairopt.solve.form.program import ConeModel, Program, objective_form
from fairopt.solve.settings import Settings

MOST_ON_SERVER = 1e8  # tasks of a user on a server: beyond, one more task is within solvers' tolerances
APART = 1e-6  # relative distance at which levels of shares that differ by server count as different
MAY_EXIST = "a better whole answer may exist"  # of notes
EXACT: dict[str, dict[str, Any]] = {
    "HIGHS": {"mip_rel_gap": 0.0, "mip_abs_gap": 1e-12, "mip_feasibility_tolerance": 1e-9},
    "SCIPY": {"scipy_options": {"mip_rel_gap": 0.0}},
}


class WholeModel(ConeModel):
    """A program in whole tasks on individual servers; blocks see sums by row of the instance.

    ``pieces`` (n_pieces,) are tasks by pair of a user and an individual server.
    """

    def __init__(self, program: Program) -> None:
        # 3 tasks as 2.9999999999 are 3
        program.low = np.ceil(program.low * (1 - SAME))
        program.high = np.floor(program.high * (1 + SAME))
        super().__init__(program)
        check()
        # a row of q servers holds q floors, not the floor of q: each server has capacities of its own
        self.capacity = self._each_within(program.usable_rows)

    def in_unknowns(self, solver: str | None) -> Model:
        """The model; sets the pieces, their pairs and servers, and their bounds."""
        program, instance = self.program, self.program.instance
        pairs, counts = program.pairs, self.program.instance.counts
        self.scale = np.ones(len(pairs))
        self.piece_pair = np.repeat(np.arange(len(pairs)), counts[pairs.server])
        begin = np.cumsum(counts[pairs.server]) - counts[pairs.server]
        within = np.arange(len(self.piece_pair)) - begin[self.piece_pair]
        self.piece_server = (np.cumsum(counts) - counts)[pairs.server][self.piece_pair] + within
        alone = program.instance.derived.tasks_alone_within(program.usable) / counts
        fits = np.floor(alone[pairs.user, pairs.server] * (1 + SAME))
        self.top = np.minimum(fits, program.high[pairs.user])  # most tasks on one server, by pair
        self.pieces = cp.Variable(
            len(self.piece_pair), integer=True, bounds=[np.zeros(len(self.piece_pair)), self.top[self.piece_pair]]
        )
        self.most = np.minimum(pairs.sum(self.top * counts[pairs.server]), program.high)  # of each user, (n_users,)
        self.unknowns = self.pieces
        shape = (len(pairs), len(self.piece_pair))
        ones = np.ones(len(self.piece_pair))
        self.by_pair = sp.csr_array((ones, (self.piece_pair, np.arange(len(self.piece_pair)))), shape=shape)
        self.one_piece_each = len(pairs) == len(self.piece_pair)
        return Model(instance, self.pieces if self.one_piece_each else self.by_pair @ self.pieces, self.scale, pairs)

    def _each_within(self, usable: Float, rows: NDArray[np.int64] | None = None) -> cp.Constraint:
        """Loads of individual servers relative to their capacities, by default of all ``rows`` of `Pairs.loads`."""
        instance, m = self.program.instance, self.program.instance.n_resources
        loads = sp.coo_array(sp.csc_array(sp.csr_array(self.program.pairs.loads))[:, self.piece_pair])
        check()
        row, resource = np.divmod(loads.row, m)
        kept = slice(None) if rows is None else np.isin(loads.row, rows)
        values = loads.data * instance.counts[row]
        place = self.piece_server[loads.col] * m + resource
        shape = (int(instance.counts.sum()) * m, len(self.piece_pair))
        check()
        each = sp.csr_array((values[kept], (place[kept], loads.col[kept])), shape=shape)
        used = np.flatnonzero(np.diff(each.indptr))
        return each[used] @ self.pieces <= np.repeat(usable.reshape(-1, m), instance.counts, axis=0).ravel()[used]

    def within_capacity(self, rows: NDArray[np.int64]) -> list[cp.Constraint]:
        """The capacity conditions of individual servers, for some rows, without reserves."""
        return [self._each_within(np.ones(self.program.instance.capacities.size), rows)]

    def form(self, objective: Objective) -> cp.Expression:
        """An objective as the expression to maximise, near 1."""
        return objective_form(objective, self.model, self.unknowns)[0]

    def placement(self) -> Float:
        """Tasks by individual server, for all users of the given instance."""
        out = np.zeros((self.program.given.n_users, int(self.program.instance.counts.sum())))
        out[self.program.active[self.program.pairs.user[self.piece_pair]], self.piece_server] = self.pieces.value
        return out


class _Stopped(Exception):
    """The time limit was reached, or the solver failed."""


class IntegerSearch:
    """The tiers of a policy in whole tasks, in turn.

    ``found`` is the placement of the best answer so far, or None; ``tried`` are the attempts; ``note`` says where a
    time limit or a failure ended the search.
    """

    def __init__(self, instance: Instance, objective: Objective, constraints: Sequence[Constraint], settings: Settings):
        self.tiers, self.settings = tiers_of(objective), settings
        self.program = Program(instance, number_of(self.tiers[0]), constraints, merge=False)
        check()
        self.model = WholeModel(self.program)
        check()
        self.kept: list[cp.Constraint] = []  # the values of earlier steps
        self.found: Float | None = None
        self.tried: tuple[Try, ...] = ()
        self.note = ""

    @property
    def linear(self) -> bool:
        """Whether all tiers and conditions are piecewise linear."""
        if not all(tier.term.kind.is_concave for tier in self.tiers):
            return False
        if any(tier.term.is_smallest and not tier.term.share._is_plain for tier in self.tiers):
            return False  # levels are counted by tasks of single users
        forms = (self.model.form(number_of(tier)) for tier in self.tiers)
        return solvers.all_linear(c for _, _, c in self.model.rest) and all(form.is_pwl() for form in forms)

    def run(self) -> None:
        """Solve all tiers; raise `Infeasible` if no whole tasks satisfy the constraints."""
        try:
            for k, tier in enumerate(self.tiers):
                name = f"tier {k + 1}, " if len(self.tiers) > 1 else ""
                term = tier.term
                if term.is_order:
                    self._levels(term.share, name)
                else:
                    steps = _Steps(self.program, term.share, self.model) if term.is_smallest else None
                    form = self.model.form(tier) if steps is None else steps.lowest(len(steps.reach))
                    self._maximise(form, name + "whole tasks")
                    best = float(form.value)
                    # by 1e-9 of it: no task changes it by so little, and HiGHS's tolerance is less
                    self.kept.append(form >= best - SAME * max(abs(best), 1.0))
        except _Stopped:
            pass

    def _maximise(self, form: cp.Expression, what: str) -> None:
        """Maximise with the values of earlier steps kept, and round the integers of the answer."""
        tell(what)
        model, solver = self.model, self.settings.solver or "HIGHS"
        problem = cp.Problem(cp.Maximize(form), [*model.all_constraints, *self.kept])
        if self.settings.clock.late:
            self._stop("the time limit was reached", what)
        model.pieces.save_value(None)
        options = {**EXACT.get(solver, {}), **self.settings.options}
        for changed in ({}, {"presolve": "off"}) if solver == "HIGHS" and self.kept else ({},):
            attempt = solvers.run(
                problem,
                solver,
                options=changed | options,
                time_limit=self.settings.clock.left,
                verbose=self.settings.verbose,
            )
            self.tried += (replace(attempt, message=attempt.message or what),)
            if not attempt.status.startswith("infeasible"):  # HiGHS's presolve has wrongly reported this
                break
        if attempt.status.startswith("infeasible") and not self.kept:
            infeasible.explain(self.program, model)
        if attempt.status not in solvers.SOLVED or model.pieces.value is None:
            self._stop(f"{self.title} found no answer ({attempt.status})", what)
        for variable in problem.variables():
            if variable.attributes["integer"] or variable.attributes["boolean"]:
                variable.save_value(np.rint(variable.value))  # HiGHS gives integers to 1e-9
        self.found = model.placement()
        if attempt.status == "user_limit":
            stats = getattr(problem.solver_stats, "extra_stats", None)  # there are none of a subprocess
            left = getattr(stats, "mip_gap", np.inf)
            bound = f" with a reported gap of {100 * left:.3g}%" if left <= 1 else ""
            self._stop(f"{self.title} reached a limit{bound}", what)

    def _stop(self, why: str, what: str) -> NoReturn:
        """End the search with a note."""
        self.note = f"{why} at {what}: {MAY_EXIST}"
        raise _Stopped

    @property
    def title(self) -> str:
        """The name of the solver, for notes."""
        return self.settings.solver if self.settings.solver not in (None, "HIGHS") else "HiGHS"

    def _levels(self, share: Share, name: str) -> None:
        """Leximin: in turn the largest level, and the largest number of users above it.

        The binaries of a level are 1 for the users above it. ``floor`` is the lower bound on each user's amount by the
        levels so far, as a function of the binaries (see `_Steps`).
        """
        model, n, before = self.model, self.program.instance.n_users, self.kept
        level = model.model.relative_share(share)
        steps = _Steps(self.program, share, model)
        floor: cp.Expression = cp.Constant(np.zeros(n))
        needs: Float = np.zeros(n)
        counts = list[cp.Constraint]()
        above: cp.Variable | None = None
        count, z = n, 0.0
        for k in range(1, n + 1):
            self._maximise(steps.lowest(count, above, z), f"{name}level {k} of whole tasks")
            rising = np.ones(n, dtype=bool) if above is None else above.value > 0.5
            z = float(np.asarray(level.value)[rising].min())
            least, more = steps.from_level(z, needs)
            floor = floor + (least if above is None else cp.multiply(least - needs, above))
            higher = cp.Variable(n, boolean=True)
            floor = floor + cp.multiply(more - least, higher)
            counts.append(higher <= (steps.reach > z * (1 + SAME)))  # who cannot be above it needs no branching
            if above is not None:
                counts.append(higher <= above)
            enough = steps.amount / steps.unit >= floor / steps.unit
            self.kept = [*before, *counts, enough]
            self._maximise(cp.sum(higher), what := f"{name}users above level {k} of whole tasks")
            count, fewer_than = round(float(np.sum(higher.value))), count
            if count == fewer_than:  # nobody is at the level that was the largest of the smallest
                self._stop(f"{self.title} contradicts itself", what)
            counts.append(cp.sum(higher) >= count)
            self.kept = [*before, *counts, enough]
            if count == 0:
                return
            above, needs = higher, more


class _Steps:
    """Levels of users in whole tasks: the ``amount`` of each user, and its level ``per`` unit of amount, near 1.

    Amounts are tasks, or levels if the share differs by server. ``reach`` are upper bounds on levels. Amounts are
    compared in a ``unit`` in which `APART` is 1e-3, as HiGHS errs if binaries have coefficients of 1e-7.
    """

    def __init__(self, program: Program, share: Share, model: WholeModel) -> None:
        instance, pairs = program.instance, program.pairs
        c = share.coefficients(instance)
        unit = instance.weights * model.model.level(share)
        self.by_task, self.unit = c.ndim == 1, 1.0
        self.model, self.by_pair = model.model, pairs.of(c) / unit[pairs.user]
        if self.by_task:
            self.per: Float = c / unit
            self.amount, self.reach = model.model.tasks, self.per * model.most
            return
        self.per, self.amount = np.ones(instance.n_users), model.model.relative_share(share)
        self.least = pairs.min(np.where(self.by_pair > 0, self.by_pair, np.inf))  # of one task
        self.reach = pairs.sum(self.by_pair * model.top * instance.counts[pairs.server])

    def lowest(self, count: int, above: cp.Variable | None = None, before: float = 0.0) -> cp.Expression:
        """The smallest level of the ``count`` users ``above`` the previous level, in a unit in which it is near 1.

        One task counts as no more than an upper bound on the smallest level. In whole tasks that changes nothing, but
        within a solver's absolute tolerances a small fraction of a task would pass as zero.
        """
        top = float(np.sort(self.reach)[-count])
        unit = before or min(top, 1.0) or 1.0
        level = self.model.sum_by_user(np.minimum(self.by_pair, top) / unit)
        return cp.min(level if above is None else level + top / unit * (1 - above))

    def from_level(self, z: float, needs: Float) -> tuple[Float, Float]:
        """The least amounts at a level, at least ``needs``, and the least above it."""
        if self.by_task:
            least, more = np.ceil(z / self.per * (1 - SAME)), np.floor(z / self.per * (1 + SAME)) + 1
        else:
            self.unit = min(self.unit, 1e-3 * z or 1.0)
            least = np.full(len(self.per), z * (1 - SAME))
            more = np.maximum(z * (1 + APART), self.least * (1 - SAME))
        least = np.maximum(least, needs)
        return least, np.maximum(least, more)


def checked_solver(name: str | None) -> None:
    """Raise `SolverUnavailable` if a named solver takes no integers."""
    from cvxpy.reductions.solvers.defines import INSTALLED_MI_SOLVERS

    if name is not None and name not in INSTALLED_MI_SOLVERS:
        raise SolverUnavailable(
            f"{name} takes no integer variables; try one of {', '.join(INSTALLED_MI_SOLVERS)}, or integral='rounded'"
        )
