"""Certificates of CVXPY problems, whatever solved them (`fairopt.certify`).

With the problem as a cone program ``min c'z + d, b - A z in K`` and any y of the dual cone, r = c + A'y,

    c'z  >=  -b'y + sum_k min over the range of z_k of r_k z_k        for every feasible z         (Bound 7.3),

so that a point is as good as its distance to the right side. Where y comes from decides how close that is, and nothing
else: from the multipliers that the solver left on the user's constraints, with those of rows that CVXPY adds as they
follow from these and the user's values (`completed`), else from one more solve. A variable without a range is charged
at ``radius`` times its size at the answer; the certificate then speaks of points no further than this, and says so.

    infeasible:  the same with c = 0 and a right side above 0 (Farkas' lemma);
    unbounded:   a feasible point and a direction d with -A d in K and c'd < 0.

The solver's status is repeated in the text and read nowhere else. The value is that of the user's objective at the
user's values, with its rounding (`rounding_of`) added to the gap; violations are of the user's constraints and of
variables' attributes, each relative to the terms of its row.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.base import brief
from fairopt.blocks.rows import TYPICAL
from fairopt.blocks.written_values import rounding_of, size_of, without_constants
from fairopt.certificate import ProblemCertificate
from fairopt.errors import InvalidProblem, NotCertified, SolverUnavailable
from fairopt.proof.completed import completed, part_of, units
from fairopt.proof.conic import (
    SOLVED,
    ConeProgram,
    DualBound,
    cone_of_row,
    exact_sums,
    into_dual_cone,
    outside_cones,
    points_of,
)
from fairopt.proof.feasibility import relative_violation
from fairopt.proof.least_squares import minimum_norm
from fairopt.proof.proof_file import proof_file
from fairopt.proof.ranges import ranges_within_cones
from fairopt.proof.stated import Stated, flat
from fairopt.proof.written_rows import in_rows, is_as_asked
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import FIX, Clock, begin, check
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import GAP_TOLERANCE, TERM_ROUNDING
from fairopt.solve.form.compiled import CompiledHere, values_kept

__all__ = ["certify"]

RADIUS = 1e3  # the default: of a variable's size at the answer
CANCELLED = 1e-3  # of the objective's largest term: the least unit of a gap, as terms may cancel
OF_TERMS = 1e-6  # of tol times the terms of the objective: the default of atol, for optima of 0
STEEP = 1e-6  # of the terms: the least descent along a direction that proves a problem unbounded
NEARLY = 1e-7  # of the terms: rows that a solver's direction is meant to keep
STRAIGHT = 1e-10  # of the terms: what a proof of infeasibility may leave of a column
ENOUGH = 0.1  # of the tolerance: a gap for which no other dual point is tried
BITS = (0, 2, 4, 8, 12, 16, 20, 26, 32)  # after the point, of directions of few digits
NEAR = 1e-3  # of the largest terms: what a solver's ray may leave of a column
LEAST = 1e-2  # of the largest multiplier: what each row has when other columns get their values
SHORT = 0.3  # seconds for a certificate of what is known when the time is over
NOISE = 1e-8  # of the largest multiplier: what a solver may leave of a ray
FEW = 30  # constraints in a proof of infeasibility, each of which is tried without
NO_GAP = {"gap": math.nan, "distance": math.nan}
MANY = 1e6  # entries that a variable for an aggregate has to save: it has no range, so that bounds assume one
NAMED = 3  # variables that an assumption names
TAKES_PART = 1e-6  # of the largest weight: the least of a constraint that a proof of infeasibility names


def certify(
    problem: cp.Problem,
    *,
    limits: Mapping[cp.Variable, tuple[Any, Any]] | None = None,
    radius: float = RADIUS,
    tol: float = GAP_TOLERANCE,
    atol: float | None = None,
    time_limit: float | None = None,
) -> ProblemCertificate:
    """Prove how good the answer of a CVXPY problem is, or that it has none, without trusting the solver.

    Any convex problem (by CVXPY's rules) of real numbers whose cones are linear, second-order, semidefinite,
    exponential or power cones, after any solver. Its violation is computed from the variables' values, and a bound on
    the optimum from a dual point: the dual values of the constraints where they suffice, else that of one more solve
    with CLARABEL. Neither is trusted: the dual point is moved into the dual cone, and what it leaves is charged at the
    ranges of the variables, rounding included.

    Parameters
    ----------
    problem : cvxpy.Problem
        The problem, solved. Whole numbers are bounded by their relaxation. Without values of its variables only
        infeasibility, or that it is unbounded, can be proved.
    limits : dict of cvxpy.Variable to pair of array-like, optional
        Further ranges ``(low, high)`` of variables. They count as constraints.
    radius : float, default 1000
        Variables of which no range is known, and of which the dual point leaves more than nothing, are assumed to be
        within this many times their size at the answer (at least 1); the certificate says so in ``assumed``.
    tol : float, default 1e-6
        The largest gap and the largest violation of an answer that is certified.
    atol : float, optional
        The largest distance from the optimum, in the objective's own unit, that is certified whatever the gap is: for
        optima of 0, beside which no gap is small. By default a millionth of ``tol`` times the objective's terms.
    time_limit : float, optional
        Seconds. If they are over, `NotCertified`, with the certificate of the best bound so far as ``best``.

    Returns
    -------
    ProblemCertificate
        Also if the answer is not certified; ``ok`` says whether it is.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import fairopt as fo
    >>> x = cp.Variable(2, name="x", nonneg=True)
    >>> problem = cp.Problem(cp.Maximize(3 * x[0] + 2 * x[1]), [x[0] + x[1] <= 4, x[0] + 3 * x[1] <= 6])
    >>> _ = problem.solve(solver="CLARABEL")
    >>> proof = fo.certify(problem)
    >>> proof.ok, round(proof.bound, 6)
    (True, 12.0)
    """
    begun = time.perf_counter()
    given = {"radius": radius, "tol": tol} | ({} if time_limit is None else {"time_limit": time_limit})
    for name, number in given.items():
        if not _is_number(number) or not number > 0 or (number == math.inf and name != "time_limit"):
            raise InvalidProblem(f"{name} is {number!r}; give a number above 0")
    if atol is not None and (not _is_number(atol) or not 0 <= atol < math.inf):
        raise InvalidProblem(f"atol is {atol!r}; give a number from 0, or None")
    clock = begin(time_limit)
    proof = _Proof(Stated.of(problem, limits), float(radius), float(tol), None if atol is None else float(atol))

    def work() -> ProblemCertificate:
        with quiet():
            return proof.certificate()

    def late() -> ProblemCertificate:
        def best() -> ProblemCertificate | None:
            with quiet():
                return replace(proof.optimal(), seconds=clock.seconds) if proof.found else None

        found = Clock(SHORT).run(best, lambda: None)
        far = "" if found is None else f" So far: {found}"
        raise NotCertified(f"the answer was not certified within {clock}. {FIX}.{far}", best=found)

    return replace(clock.run(work, late), seconds=time.perf_counter() - begun)


def _is_number(given: Any) -> bool:
    """Whether a value is a number."""
    return isinstance(given, (int, float, np.integer, np.floating))


@contextmanager
def quiet() -> Iterator[None]:
    """A block without warnings of NumPy, and of CVXPY on values of sparse variables."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Terms(NamedTuple):
    """The value of an objective without the constant that it adds, that, its rounding, and the size of its terms."""

    value: float | None
    constant: float
    rounding: float
    size: float


class _Start(NamedTuple):
    """A dual point to start from, a point, and the units of the first step."""

    dual: Float
    point: Float | None
    unit: Float | None = None


@dataclass(frozen=True)
class _Proof:
    """What is known of a problem, computed once each."""

    stated: Stated
    radius: float
    tol: float
    given_atol: float | None
    found: list[DualBound] = field(default_factory=list)  # each better than the last

    @cached_property
    def compiled(self) -> CompiledHere:
        """The cone program's data, which are those of the problem at a random point."""
        made = CompiledHere.made(self.stated.posed, "CLARABEL", {"use_quad_obj": False}, MANY)
        if made is None:
            raise SolverUnavailable(
                "the problem has cones besides linear, second-order, semidefinite, exponential and power cones; write "
                "it with these"
            )
        if not is_as_asked(made):
            raise NotCertified("the rows that CVXPY compiled differ from the problem at a random point")
        return made

    @cached_property
    def columns(self) -> dict[int, Indices]:
        """The columns of variables."""
        return self.compiled.columns()

    @cached_property
    def program(self) -> ConeProgram:
        """The cone program, with ranges of all columns, without the constant that the objective adds."""
        ranges = self.stated.ranges_of(self.columns, self.compiled.data["A"].shape[1])
        made = ConeProgram.of(self.compiled, *ranges)
        return replace(made, offset=made.offset - self.sign * self.terms.constant)

    @cached_property
    def of_user(self) -> Bool:
        """The columns of the user's variables."""
        ours = np.zeros(len(self.program.c), dtype=bool)
        for part, _ in self.stated.parts.values():
            ours[self.columns[part.id]] = True
        return ours

    @cached_property
    def at(self) -> Float:
        """The user's values by column; NaN for columns that CVXPY added, and without values."""
        values = {v: flat(v) for v in self.stated.parts} if self.stated.has_values else {}
        return self.stated.by_column(self.columns, values, np.full(len(self.program.c), np.nan))

    @cached_property
    def again(self) -> tuple[Float, Float] | None:
        """The primal and the dual point of one more solve."""
        m = self.compiled.data["A"].shape[0]
        return points_of(self.compiled) if m else (-self.compiled.data["c"], np.zeros(0))

    # ---- the dual point

    @cached_property
    def given_duals(self) -> Float | None:
        """The dual values of the user's constraints by row, in the dual cone, 0 for bounds, and NaN for rows that CVXPY
        added; None if some constraint has none.
        """
        y = np.full(len(self.program.b), np.nan)
        for condition, written in zip(self.stated.constraints, self.stated.written, strict=True):
            values = [one.value for one in condition.dual_variables]
            if isinstance(written, cp.constraints.PowConeND):
                continue  # CVXPY gives none
            if any(
                value is None or np.shape(value) != one.shape or not np.isfinite(value).all()
                for value, one in zip(values, condition.dual_variables, strict=True)
            ):
                return None
            y[self.compiled.rows[written.id]] = in_rows(written, [np.asarray(value, dtype=float) for value in values])
        y[self.of_bounds] = 0.0
        return np.where(np.isnan(y), np.nan, into_dual_cone(np.nan_to_num(y), self.program.dims))

    @cached_property
    def own(self) -> _Start | None:
        """A dual point from the user's dual values; None without such.

        What `completed` leaves of columns are the multipliers of rows that hold the user's variables alone, such as
        those of semidefinite ones.
        """
        program, y, z = self.program, self.given_duals, self.at
        if y is None:
            return None
        if not np.isnan(y).any():
            return _Start(y, None if np.isnan(z).any() else z)
        if not self.stated.has_values:
            return None
        z, y = completed(self.compiled, program, z, y)
        if y is None:
            return None
        if (rest := np.flatnonzero(np.isnan(y))).size:
            y = np.nan_to_num(y)
            rows = sp.csr_array(sp.csr_array(program.transposed.T)[rest].T)
            y[rest] = -minimum_norm(rows, program.c + program.transposed @ y)
        return _Start(y, z, units(program, z, y, ENOUGH * max(self.tol * abs(self.terms.value or 0.0), self.atol)))

    @property
    def of_bounds(self) -> slice:
        """The rows that are bounds of variables."""
        return self.compiled.bounds or slice(0, 0)

    def with_bounds(self, program: ConeProgram, y: Float) -> Float:
        """A dual point with what it leaves of variables, less rounding, as the multipliers of their bounds, where these
        have none.
        """
        rows = program.entries.part(self.of_bounds)  # -1 for a lower bound and 1 for an upper one
        if y[self.of_bounds].any() or not len(rows.row):
            return y
        y, left = y.copy(), program.c + program.transposed @ y
        rounding = TERM_ROUNDING * (np.abs(program.c) + program.sizes @ np.abs(y))
        y[self.of_bounds] = np.maximum(-left[rows.column] * rows.factor - 2.0 * rounding[rows.column], 0.0)
        return y

    def without_opposite(self, program: ConeProgram, y: Float) -> Float:
        """A ray with a multiplier of at most one of a variable's two bounds: what both have proves less, and is no part
        of the weights of a proof. Bounds that exclude each other keep both.
        """
        rows, y = program.entries.part(self.of_bounds), y.copy()
        of_bounds = np.maximum(y[self.of_bounds], 0.0)
        by_side = (np.where(rows.factor * sign > 0, of_bounds, 0.0) for sign in (1, -1))
        upper, lower = (np.bincount(rows.column, of_side, len(program.c)) for of_side in by_side)
        both = np.where(program.least <= program.most, np.minimum(upper, lower), 0.0)
        y[self.of_bounds] = of_bounds - both[rows.column]
        return y

    def within(self, reach: Float, level: float | None) -> tuple[Float, Float]:
        """The ranges of columns that follow from those of the user's variables, where the objective is at most a level.

        Without the level the square of a variable of 5e7 was assumed to be at most 1,000 times that of another point,
        and a bound was above the value of a feasible answer.
        """
        program, ours = self.program, np.where(self.of_user, reach, np.inf)
        low, high = np.maximum(program.least, -ours), np.minimum(program.most, ours)
        if level is not None:
            program = replace(program, least=low, most=high).below(level)
            return program.least, program.most
        return ranges_within_cones(program.entries, program.b, program.dims, low, high)

    def box(self, size: Float, level: float | None) -> tuple[Float, Float]:
        """The ranges that are assumed, by the sizes of columns: of the user's variables by the radius, of those that
        CVXPY adds by what follows from these, or also by the radius.
        """
        reach = self.radius * np.maximum(1.0, size)
        low, high = self.within(reach, level)
        return np.where(np.isfinite(low), low, -reach), np.where(np.isfinite(high), high, reach)

    def sizes(self, z: Float | None) -> Float:
        """The sizes of columns at the answer: of the user's variables those of their largest entries, of others by
        another point; without values that of the largest number in the rows.
        """
        largest = np.full(len(self.program.c), np.abs(self.program.b).max(initial=0.0))
        if not self.stated.has_values:
            return largest
        values = {v: np.full(v.size, np.abs(flat(v)).max(initial=0.0)) for v in self.stated.parts}
        return self.stated.by_column(self.columns, values, largest if z is None else np.abs(z))

    def near(self, program: ConeProgram, y: Float, unit: Float | None = None) -> Iterator[Float]:
        """Points near y: in the dual cone, then at which columns without a range vanish, then all."""
        every = np.ones(len(program.c), dtype=bool)
        masks = ~every, ~program.bounded, every
        for some in (one for k, one in enumerate(masks) if not k or (one != masks[k - 1]).any()):
            check("the proof by a dual point")
            yield program.repaired(y, some, every, unit)

    def bounds(self, program: ConeProgram, y: Float, size: Float) -> Iterator[DualBound]:
        """Bounds by points near y, within the radius where columns have no range."""
        none = np.full(len(program.c), np.inf)
        for at in self.near(program, y):
            found = program.bound(at, -none, none)
            found = program.bound(at, *self.box(size, None)) if found.open.any() else found
            if np.isfinite(found.low):
                yield found

    # ---- what is measured of the user's point

    @cached_property
    def sign(self) -> float:
        """1 if the objective is minimised, and -1 if it is maximised."""
        return -1.0 if self.stated.maximised else 1.0

    @cached_property
    def terms(self) -> _Terms:
        """The user's objective at the user's values."""
        rest, constant = without_constants(self.stated.problem.objective.args[0])
        if not self.stated.has_values:
            return _Terms(None, constant, 0.0, 0.0)
        return _Terms(float(np.asarray(rest.value).item()), constant, rounding_of(rest), size_of(rest))

    @cached_property
    def atol(self) -> float:
        """The distance from the optimum that is certified whatever the gap is."""
        if self.given_atol is not None:
            return self.given_atol
        size = self.terms.size  # infinite outside of the objective's domain
        return self.tol * OF_TERMS * size if np.isfinite(size) else 0.0

    @property
    def value(self) -> float | None:
        """The value of the user's objective; None without values of variables, not finite outside of its domain."""
        return None if self.terms.value is None else self.terms.value + self.terms.constant

    def distance(self, low: float) -> float:
        """How far the value is from a bound on the minimum without the constant, rounding included."""
        value = self.terms.value
        if value is None or not np.isfinite(value):
            return math.inf
        off = abs(self.sign * low - value)
        return off + self.terms.rounding if off > 0 else 0.0

    def gap(self, low: float) -> float:
        """The gap of a bound on the minimum without the constant: its distance in the unit of files."""
        if not (off := self.distance(low)) or off == math.inf:
            return off
        unit = max(abs(self.terms.value or 0.0), abs(low), CANCELLED * self.largest(self.of_user))
        if off > self.tol * unit:
            unit = max(unit, CANCELLED * self.largest(~self.of_user))
        return off / unit if unit > 0 else math.inf

    def largest(self, some: Bool) -> float:
        """The largest term of some columns in the objective at the answer."""
        if not (self.program.c[some] != 0).any():
            return 0.0
        at = self.at
        if np.isnan(at[some]).any():
            at = self.point if self.own is None or self.own.point is None else self.own.point
        return float(np.abs(self.program.c * at)[some].max(initial=0.0))

    @cached_property
    def point(self) -> Float:
        """The user's values, with the best values of the columns that CVXPY added."""
        y = self.found[-1].y if self.found else np.zeros(len(self.program.b))
        return completed(self.compiled, self.program, self.at, np.where(self.of_rows, y, np.nan), SOLVED, LEAST)[0]

    @cached_property
    def of_rows(self) -> Bool:
        """The rows of the user's constraints and of bounds."""
        ours = np.zeros(len(self.program.b), dtype=bool)
        for one in (*self.stated.written, *self.stated.further.values()):
            ours[self.compiled.rows[one.id]] = not isinstance(one, cp.constraints.PowConeND)
        ours[self.of_bounds] = True
        return ours

    def is_near(self, low: float) -> bool:
        """Whether a bound is as near to the value as is asked."""
        return self.gap(low) <= self.tol or self.distance(low) <= self.atol

    @cached_property
    def typical(self) -> dict[int, Float]:
        """The sizes of the user's variables by entry, by id.

        That of the largest entry, or as much as would change a row with other variables by its terms, but no more than
        the larger end of its range, of which `relative_violation` counts the part `TYPICAL`.
        """
        program, z = self.program, np.where(self.of_user, self.at, 0.0)
        values = {v: np.full(v.size, np.abs(flat(v)).max(initial=0.0)) for v in self.stated.parts}
        entries = program.entries
        alone = np.bincount(entries.row, minlength=entries.n) == 1
        size = np.abs(program.b) + np.bincount(entries.row, np.abs(entries.factor * z[entries.column]), entries.n)
        some = ~alone[entries.row] & (size[entries.row] > 0)
        matters = np.where(program.c != 0, self.terms.size / np.abs(program.c), np.inf)
        np.minimum.at(matters, entries.column[some], (size[entries.row] / np.abs(entries.factor))[some])
        ends = np.where(np.isfinite([program.least, program.most]), np.abs([program.least, program.most]), 0.0).max(
            axis=0
        )
        matters = np.minimum(matters, np.where(ends > 0, ends, np.inf))  # x <= 1 is broken by 0.5 beside terms of 1e6
        matters[~np.isfinite(matters)] = 0.0
        out = dict[int, Float]()
        for v, (part, kept) in self.stated.parts.items():
            values[v][kept] = np.maximum(values[v][kept], matters[self.columns[part.id]] / TYPICAL)
            out[v.id] = values[v]
        return out

    @cached_property
    def violations(self) -> dict[str, float]:
        """The relative violations of constraints, attributes and limits, the largest first; without those of 0."""
        if not self.stated.has_values:
            return {}
        text, typical = self.stated.text, self.typical
        out = {text(one): by for one in self.stated.constraints if (by := relative_violation(one, typical)) != 0}
        out |= dict(self.stated.beyond(typical))
        return {name: by for name, by in sorted(out.items(), key=lambda one: -one[1]) if not by <= 0}

    @property
    def violation(self) -> float:
        """The largest of these."""
        return next(iter(self.violations.values()), 0.0)

    # ---- what is proved

    def certificate(self) -> ProblemCertificate:
        """The certificate, by the first dual point that suffices."""
        own = self.own
        if own is not None and not self.stated.has_values:
            found = self.infeasible(own.dual, False)
            if found is not None:
                return found
        if not self.program.c.any():  # any point is an optimum, and solvers leave noise
            self.keep(self.best(_Start(np.zeros(len(self.program.b)), None)))
        elif own is not None:
            own = own._replace(dual=self.with_bounds(self.program, own.dual))
            if own.unit is not None:  # a bound that the answer does not meet costs what it takes
                own.dual[self.of_bounds] = np.minimum(own.dual[self.of_bounds], own.unit[self.of_bounds])
            self.keep(self.best(own))
        if self.suffices:
            return self.optimal()
        check("the proof by CLARABEL (a second solve)")
        z, y = self.again or (None, None)
        check()
        if z is None or y is None:
            return self.optimal()
        if not (self.stated.has_values and self.violation <= self.tol) and not self.are_optimal(z, y):
            found = self.infeasible(y, True) or self.infeasible_alone()
            if found is not None:
                return found
        self.keep(self.best(_Start(y, z)))
        best = self.found[-1] if self.found else None
        if best is None or (best.open.any() and not self.is_near(best.low)):  # else it is bounded
            found = self.unbounded(z)
            if found is not None:
                return found
        return self.optimal()

    def keep(self, found: DualBound | None) -> None:
        """Keep a bound if it is the best so far."""
        if found is not None and np.isfinite(found.low):
            self.found.append(max([*self.found, found], key=self._order))

    @property
    def suffices(self) -> bool:
        """Whether what is kept certifies the answer."""
        return bool(self.found) and self.is_near(self.found[-1].low) and self.violation <= self.tol

    def are_optimal(self, z: Float, y: Float) -> bool:
        """Whether a solver's points have the same value, so that y is no ray."""
        primal, dual = float(self.program.c @ z), -float(self.program.b @ y)
        return abs(primal - dual) <= NEARLY * max(abs(primal), abs(dual))

    def optimal(self) -> ProblemCertificate:
        """The certificate of the best bound."""
        best, again = self.found[-1] if self.found else None, "again" in vars(self)
        has_file = best is not None and np.isfinite(self.distance(best.low) + self.violation)
        return self.made(best, again, "optimal", (self.at, best.y) if best is not None and has_file else None)

    def _order(self, found: DualBound) -> tuple[bool, bool, float]:
        """Bounds that suffice come first, of these those without assumption, then the closest."""
        enough = self.is_near(found.low) and self.violation <= self.tol
        return enough, enough and not found.open.any(), min(found.low, found.below)

    def best(self, start: _Start) -> DualBound | None:
        """The best bound near a dual point; others are tried until one needs no assumption and leaves no gap.

        Where variables have no range by the constraints, those are tried that they have where the objective is at most
        as large as at the answer: no other points could be better. Where they have none even there, ranges are assumed.
        """
        none, level, near, found = np.full(len(self.program.c), np.inf), self.level(start.point), [], []
        for at in self.near(self.program, start.dual, start.unit):
            near.append(at)
            found.append(self.program.bound(at, -none, none))
            self.keep(found[-1])
            if self.is_enough(found[-1]):
                return found[-1]
        if all(one.open.any() for one in found):
            program = self.program if level is None else self.program.below(level)
            below = math.inf if level is None else level
            found = [program.bound(at, -none, none)._replace(below=below) for at in near]
            if any(one.open.any() for one in found):
                box = self.box(self.sizes(start.point), level)
                found += [program.bound(at, *box)._replace(below=below) for at in near]
        return max((one for one in found if np.isfinite(one.low)), key=self._order, default=None)

    def is_enough(self, found: DualBound) -> bool:
        """Whether a bound needs no assumption, and none better is looked for."""
        off = self.distance(found.low)
        return not found.open.any() and (self.gap(found.low) <= ENOUGH * self.tol or off <= ENOUGH * self.atol)

    def made(
        self,
        best: DualBound | None,
        again: bool,
        status: str = "optimal",
        file: tuple[Float | None, Float] | None = None,
        **more: Any,
    ) -> ProblemCertificate:
        """A certificate of a bound on the minimum, if there is one; a ``file`` has a point and a dual point."""
        problem, low = self.stated.problem, -math.inf if best is None else best.low
        given: dict[str, Any] = {
            "value": self.value,
            "bound": self.sign * (low if best is None else min(low, best.below)) + self.terms.constant,
            "gap": self.gap(low),
            "distance": self.distance(low),
            "violation": self.violation,
            "violations": tuple(self.violations.items()),
            "tol": self.tol,
            "atol": self.atol,
            "maximised": self.stated.maximised,
            "claimed": None if problem.status is None else str(problem.status),
            "solver": getattr(problem.solver_stats, "solver_name", None),
            "solved_again": again,
            "assumed": "" if best is None else self.assumption(best),
            "relaxed": self.stated.is_whole,
            "file": None if file is None else partial(self.written, status, *file),
        }
        return ProblemCertificate(**given | more)

    def written(self, status: str, point: Float | None, dual: Float, name: str | None) -> dict[str, Any]:
        """The file of a proof of the problem of a name."""
        with quiet():
            box = self.box(self.sizes(None), self.level(None))
            program = replace(self.program, offset=self.compiled.offset)
            point = self.point if point is not None and np.isnan(point).any() else point
            return proof_file(self.stated, self.compiled, program, box, status, point, dual, name)

    def level(self, z: Float | None) -> float | None:
        """What the objective is at most at the answer and at another point, if it is minimised and without its
        constant; None if unknown. Of points above any level nothing need be proved.
        """
        value, *_ = self.terms
        at = [] if value is None else [self.sign * value + self.terms.rounding]
        at += [] if z is None else [float(self.program.c @ z) + self.program.offset]
        return max((one for one in at if np.isfinite(one)), default=None)

    def assumption(self, best: DualBound) -> str:
        """What a bound assumes of the ranges of variables."""
        if self.stated.has_values and best.below < math.inf:
            of = "the size at the answer (at least 1)"
        else:
            of = "the largest number in the rows (at least 1)"
        if not best.open.any():
            return ""
        bounded = self.program.bounded
        named = [v.name() for v, (part, _) in self.stated.parts.items() if not bounded[self.columns[part.id]].all()]
        added = self.without_end(best).any()
        which = " and ".join(filter(None, [brief_list(named), "variables that CVXPY adds" if added else ""]))
        return f"{which or brief_list([v.name() for v in self.stated.parts])} within {self.radius:g} times {of}"

    def without_end(self, found: DualBound) -> Bool:
        """The columns that CVXPY added of which a bound assumes a range that does not follow from the user's."""
        level = found.below if found.below < math.inf else None
        low, high = self.within(np.ones(len(self.program.c)), level)
        return found.open & ~self.of_user & ~(np.isfinite(low) & np.isfinite(high))

    def infeasible(self, y: Float, again: bool) -> ProblemCertificate | None:
        """The certificate that no point satisfies the constraints, by a dual ray; None if it proves nothing."""
        program = replace(self.program, c=np.zeros(len(self.program.c)), offset=0.0)
        size = np.full(len(program.c), np.abs(program.b).max(initial=0.0))
        y = self.without_opposite(program, self.with_bounds(program, y))
        left, terms = np.abs(program.transposed @ y), program.sizes @ np.abs(y)
        if (left > NEAR * terms.max(initial=0.0))[~program.bounded].any():  # it is no ray
            y = np.where(np.bincount(program.entries.row, minlength=len(y)) == 0, y, 0.0)  # but 1 <= 0 needs none

        def proofs(y: Float) -> list[DualBound]:
            y, out = y / (np.abs(y).max(initial=0.0) or 1.0), list[DualBound]()
            for one in self.bounds(program, y, size):
                leaves = self.leaves(program, one.y) & one.open
                # a range of t above (x - 1e6)^2 would be one of x
                if one.low > 0 and not leaves.any() and not self.without_end(one).any():
                    out.append(one)
                if not one.open.any() and one.low < -NEAR * float(np.abs(program.b) @ np.abs(one.y)):
                    break  # an optimal dual point, where all columns have ranges
            return out

        few = np.where(np.abs(y) > NOISE * np.abs(y).max(initial=0.0), y, 0.0)  # cones may have their apex there
        if not (found := [*proofs(y), *proofs(few)]):
            return None
        best = min(found, key=lambda one: (bool(one.open.any()), bool(self.leaves(program, one.y).any())))
        names, sizes = self.weights(program, best.y), self.multipliers(best.y)
        least = TAKES_PART * max(sizes.values(), default=0.0)
        spare = [[name for name in sizes if name not in names]]  # interior points use more rows than they need
        spare += [[name for name, size in sizes.items() if size <= least]]
        spare += [[name] for name in reversed(names if len(names) <= FEW else ())]
        for some in spare:
            part = best.y.copy()
            for name in some:
                part[self.rows_of[name]] = 0.0
            for one in proofs(part):
                # else ranges that other rows imply take the part of the rows
                if one.open.any() <= best.open.any() and not self.leaves(program, one.y).any():
                    best = one
        none = {"value": None, "bound": self.sign * math.inf, **NO_GAP, "violation": 0.0, "violations": ()}
        weights = tuple(self.weights(program, best.y).items())
        return self.made(best, again, "infeasible", (None, best.y), infeasible=True, weights=weights, **none)

    def infeasible_alone(self) -> ProblemCertificate | None:
        """The same by a ray of the constraints without the objective, beside whose terms they may be noise."""
        check("the proof by CLARABEL (a solve without the objective)")
        data, kept = self.compiled.data, self.of_constraints
        cones = cone_of_row(self.program.dims)
        some = {
            "A": sp.csc_array(sp.csr_array(data["A"])[kept]),
            "b": self.program.b[kept],
            "c": np.zeros(len(self.program.c)),
            "dims": part_of(self.program.dims, np.unique(cones[kept])),
        }
        found = points_of(self.compiled, data | some) if kept.any() else None
        if found is None:
            return None
        y = np.zeros(len(kept))
        y[kept] = found[1]
        return self.infeasible(y, True)

    @cached_property
    def of_constraints(self) -> Bool:
        """The rows of the user's constraints and bounds, and those that CVXPY added for these."""
        entries, cones = self.program.entries, cone_of_row(self.program.dims)
        added, kept = ~self.of_user[entries.column], np.zeros(cones.max(initial=-1) + 1, dtype=bool)
        for one in (*self.stated.written, *self.stated.further.values()):
            kept[cones[self.compiled.rows[one.id]]] = True
        kept[cones[self.of_bounds]] = True
        for _ in range(len(kept)):
            columns = np.zeros(len(self.program.c), dtype=bool)
            columns[entries.column[added & kept[cones[entries.row]]]] = True
            more = kept.copy()
            more[cones[entries.row[columns[entries.column]]]] = True
            if (more == kept).all():
                break
            kept = more
        return kept[cones]

    def leaves(self, program: ConeProgram, y: Float) -> Bool:
        """The columns of which a ray leaves more than rounding. Where these have no range the rows need not be
        infeasible: only a very large value of a variable may satisfy them.
        """
        return np.asarray(np.abs(program.transposed @ y) > STRAIGHT * (program.sizes @ np.abs(y)))

    def carrying(self, program: ConeProgram, y: Float) -> Bool:
        """The rows that carry a proof by a ray: those with more than noise of the multipliers, of what it proves, or of
        what cancels in a column of such rows.

        Of `x >= 1, 1e-12 x <= 0` the multipliers are 1e-12 and 1. Of a column that does not cancel the range is used,
        which any row of this column may imply, by the ranges of its other columns.
        """
        entries, cones = program.entries, cone_of_row(program.dims)
        row, column, size = entries.row, entries.column, np.abs(y)
        sides, terms = np.abs(program.b * y), np.abs(entries.factor) * size[entries.row]
        proved = -float(program.b @ y)  # beside this, as rows that only touch cancel in the right side
        proved = proved if proved > 0 else float(sides.sum())
        some = (size > TAKES_PART * size.max(initial=0.0)) | (sides > TAKES_PART * proved)
        matters = terms > TAKES_PART * (program.sizes @ size)[column]
        ranged = self.leaves(program, y)
        for _ in range(len(y)):
            kept = np.isin(cones, cones[some])
            columns = np.zeros(len(program.c), dtype=bool)
            columns[column[kept[row] & (matters | ranged[column])]] = True
            holds = np.isin(np.arange(len(y)), row[(ranged & columns)[column]])
            ranged[column[holds[row]]] = True
            more = kept.copy()
            more[row[columns[column] & (matters | ranged[column])]] = True
            if (more == some).all():
                break
            some = more
        return some

    @cached_property
    def rows_of(self) -> dict[str, Indices]:
        """The rows of constraints and bounds by name."""
        stated, rows = self.stated, self.program.entries.part(self.of_bounds)
        both = [*zip(stated.constraints, stated.written, strict=True), *((one, one) for one in stated.further.values())]
        out = {stated.text(one): np.r_[self.compiled.rows[written.id]] for one, written in both}
        for variable, (part, _) in stated.parts.items():
            some = np.isin(rows.column, self.columns[part.id])
            out[f"bounds of {stated.called[variable]}"] = self.of_bounds.start + rows.row[some]
        return out

    def multipliers(self, y: Float) -> dict[str, float]:
        """The largest multipliers of constraints and bounds by name."""
        return {name: float(np.abs(y[rows]).max(initial=0.0)) for name, rows in self.rows_of.items()}

    def weights(self, program: ConeProgram, y: Float) -> dict[str, float]:
        """The largest multipliers of constraints and bounds that take part in a proof, relative to the largest."""
        carries, out = self.carrying(program, y), self.multipliers(y)
        most = max(out.values(), default=0.0) or 1.0
        ordered = sorted(out.items(), key=lambda one: -one[1])
        return {name: by / most for name, by in ordered if carries[self.rows_of[name]].any()}

    def unbounded(self, d: Float) -> ProblemCertificate | None:
        """The certificate that the objective improves without end from a feasible point along a direction; None if not
        both are found.
        """
        program, size = self.program, np.abs(d).max(initial=0.0)
        if not size > 0 or not np.isfinite(size):
            return None
        rows, d = sp.csr_array(program.transposed.T), d / size
        for _ in range(3):  # equations, and inequalities that a solver's direction nearly leaves or meets
            slack, terms = rows @ d, program.sizes.T @ np.abs(d)
            meets = np.arange(len(slack)) < program.linear.stop
            meets &= (np.abs(slack) <= NEARLY * terms) | (np.arange(len(slack)) < program.dims.zero)
            some = np.flatnonzero(meets & (slack != 0))
            d = d - minimum_norm(rows[some], slack[some]) if len(some) else d
            d = np.where(np.abs(d) <= NEARLY, 0.0, d)
        few = [np.round(d * 2.0**bits) / 2.0**bits for bits in BITS]  # of few digits, at which rows may hold exactly
        falling: tuple[Float, bool] | None = None
        for one in (*few, d):
            kept = self.descends(one)
            if kept or (kept is not None and falling is None):
                falling = one, kept
            if kept:
                break
        if falling is None:
            return None
        d, kept = falling
        with values_kept(self.stated.parts):
            point = self.at
            if not (self.stated.has_values and self.violation <= self.tol):
                found = points_of(self.compiled, self.compiled.data | {"c": np.zeros(len(d))})
                if found is None:
                    return None
                point = found[0]
                self.stated.save(self.columns, point)
            there = replace(self)
            if not there.violation <= self.tol:
                return None
            if self.stated.is_whole:
                point = there.at  # as rounded
            assumed = "" if kept else "that its direction leaves no row and no cone, which floats show up to rounding"
            none = {"bound": -self.sign * math.inf, **NO_GAP, "assumed": assumed}
            return there.made(None, True, "unbounded", (point, d), unbounded=True, **none)

    def descends(self, d: Float) -> bool | None:
        """Whether a direction along which the objective falls, and which leaves no limit, leaves exactly no row; None
        if it leaves one, or a cone, by more than rounding. `x <= y <= (1 - 2e-16) x + 1` bounds x all the same.
        """
        program = self.program
        falls = -float(program.c @ d) > STEEP * float(np.abs(program.c) @ np.abs(d))
        least, most = self.stated.ranges_of(self.columns, len(d))
        leaves = (np.isfinite(least) & (d < 0)) | (np.isfinite(most) & (d > 0))
        if not falls or leaves.any():  # before cones, of which 20,000 take seconds
            return None
        cones, linear = cone_of_row(program.dims), program.linear.stop
        slack = -exact_sums(sp.csr_array(program.transposed.T), d)
        outside = outside_cones(slack, program.dims)
        terms = np.zeros(cones.max(initial=-1) + 1)
        np.maximum.at(terms, cones, program.sizes.T @ np.abs(d))
        if not (outside <= TERM_ROUNDING * terms[cones]).all():
            return None
        return not (outside[:linear].any() or slack[linear:].any())


def brief_list(names: Sequence[str]) -> str:
    """Some names as words."""
    shown = [brief(name) for name in names[:NAMED]] + ["others"] * (len(names) > NAMED)
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
