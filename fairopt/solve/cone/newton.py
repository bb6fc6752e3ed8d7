"""Newton's method for objectives whose slopes vary by more orders of magnitude than solvers resolve.

Each step maximises, over the program's constraints in unknowns near 1 and within a distance of 1,

    (g / unit) @ (x - at) - sum_j h_j / (2 unit) (x_j - at_j)^2,   unit = max_j |g_j|,

with the slope g and the diagonal curvature h >= 0 at the current point, and then searches along the way to its optimum.
A quadratic program in units of the largest slope is one that solvers do well; its multipliers, times the unit, are
those of the objective once the step is short, and prove the point by Bound 7.1 or 7.3.

Why not the cone program itself: at 20 tasks the slope of ``-exp(-5 x)`` is 1e-43, which to a solver is zero, or the
program is unbounded in units of that slope. Of logarithms with weights of 1e-10 and 1 under a guarantee, solvers left
errors of 1e-5 in prices. Why only the diagonal: off it curvature is not known from two gradients, and a step that is
too long is halved anyway.

What ends it in floats is noise: a solver's 1e-9 in constraints moves the objective by more than the last steps gain. So
points are proposed where a step is short, or gains less than `_NOISE`, and the gate decides (docs/methods/cone.md,
*Newton's method*). Of 8,620 drawn notions it is asked 86 times, when all solvers have failed, and 23 of its 26 answers
are the only certified ones.
"""

from __future__ import annotations

import time

import numpy as np

from fairopt.blocks.algebra import varying_of
from fairopt.blocks.model import Point
from fairopt.certificate import Try
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.feasibility import number
from fairopt.proof.gradients import gradient_of
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.runtime.progress import tell
from fairopt.solve.cone.solve import chain_of, solve_problem
from fairopt.solve.form.compiled import Posed
from fairopt.solve.form.program import ConeModel, Program
from fairopt.solve.settings import Proposals, Settings

# With slopes that fall by e per tenth of a task, three users on two servers took 80 steps to move by 6 tasks.
_STEPS = 100
_CLOSE = 1e-3  # a point after a shorter step, in unknowns near 1, is proposed to the gate
_NOISE = 1e-11  # of the value: a smaller rise proposes the point where it began
_FRUITLESS = 5  # proposals in turn that do not halve the gap, after which no more are made


def newton_applies(program: Program) -> bool:
    """Whether the objective depends on tasks only, and is user-defined or a sum of curves."""
    even = Point(program.instance, program.pairs.table(program.size[program.pairs.user]))
    majorant = program.objective.majorant(even)
    if majorant is not None and not (program.objective.majorant_is_natural and majorant.is_curved):
        return False
    model = ConeModel(program)
    return {v.id for v in program.objective.expression(model.model).variables()} == {model.unknowns.id}


def solve_by_newton(program: Program, settings: Settings) -> Proposals:
    """Ascend from an even allocation; propose each point that a short step reaches."""
    begun, name = time.perf_counter(), chain_of(settings, linear=False)[0]
    model = ConeModel(program, name)
    unknowns, (natural, _) = model.unknowns, varying_of(program.objective, model.model)
    at, steps = _start(natural, name, settings, model), 0
    fruitless, least = 0, np.inf
    while at is not None and steps < _STEPS and fruitless < _FRUITLESS and not settings.clock.late:
        shape = _shape(natural, unknowns, at)
        if shape is None:
            break
        slope, curvature = shape
        unit, way = float(np.abs(slope).max()), unknowns - at  # any unit does; that of the start underflows on the way
        rise = (slope / unit) @ way - cp.sum_squares(cp.multiply(np.sqrt(curvature / (2 * unit)), way))
        problem = Posed(cp.Maximize(rise), [*model.all_constraints, cp.abs(way) <= 1])
        steps += 1
        tell(f"Newton's method by {name}, program {steps}")
        to = _unknowns_at_best(problem, name, settings, model)
        onwards = None if to is None else _uphill(natural, unknowns, at, to)
        # after a short step the multipliers are nearly those of the point itself
        close = to is not None and np.abs(to - at).max() <= _CLOSE
        if close or (to is not None and not _rises(natural, unknowns, at, onwards)):
            unknowns.save_value(to if close else at)
            attempt = Try(name, f"optimal ({steps} programs)", time.perf_counter() - begun)
            answer = yield Proposal("newton", model.tasks(), Solved.of(model, unit=unit), name, attempt)
            if answer is None or answer.ok:
                return
            missing = answer.missing()[1]
            fruitless, least = (0, missing) if missing < least / 2 else (fruitless + 1, least)
        at = onwards
    attempt = Try(name, f"not converged ({steps} programs)", time.perf_counter() - begun)
    yield Proposal("newton", solver=name, attempt=attempt)


def _start(natural: cp.Expression, name: str, settings: Settings, model: ConeModel) -> Float | None:
    """An even allocation, or one well inside the objective's domain if it is undefined there; None if there is none."""
    problem = Posed(cp.Minimize(cp.sum_squares(model.unknowns - 1)), model.all_constraints)
    at = _unknowns_at_best(problem, name, settings, model)
    if at is not None and not np.isfinite(_value(natural, model.unknowns, at)):
        room = cp.Variable()
        inside = [c.args[1] - c.args[0] >= room for c in natural.domain if isinstance(c, cp.constraints.Inequality)]
        problem = Posed(cp.Maximize(room), [*model.all_constraints, *inside, room <= 1])
        at = _unknowns_at_best(problem, name, settings, model)
    return at


def _unknowns_at_best(problem: Posed, name: str, settings: Settings, model: ConeModel) -> Float | None:
    """The unknowns at a solver's optimum, or None."""
    _, solved = solve_problem(problem, model.unknowns, name, settings)
    return np.maximum(np.asarray(model.unknowns.value, dtype=float), 0.0) if solved else None


def _shape(natural: cp.Expression, unknowns: cp.Variable, at: Float) -> tuple[Float, Float] | None:
    """Slope and diagonal curvature by unknown; None if the slope is not finite or zero."""
    shift = 1e-6 * np.maximum(at, 1e-3)  # a difference of gradients keeps about 10 digits; of values it would keep 4
    slopes = []
    for point in (at, at + shift):
        unknowns.save_value(point)
        gradient = gradient_of(natural, unknowns)
        if gradient is None:
            return None
        slopes.append(gradient.toarray().ravel())
    if not np.isfinite(slopes).all() or not slopes[0].any():
        return None
    return slopes[0], np.maximum((slopes[0] - slopes[1]) / shift, 0.0)


def _uphill(natural: cp.Expression, unknowns: cp.Variable, at: Float, to: Float) -> Float | None:
    """The first point of a backtracking line search with a higher value; None if there is none."""
    here = _value(natural, unknowns, at)
    for part in 0.5 ** np.arange(30):  # to 1e-9 of the way
        point = at + part * (to - at)
        if _value(natural, unknowns, point) > here:
            return point
    return None


def _rises(natural: cp.Expression, unknowns: cp.Variable, at: Float, to: Float | None) -> bool:
    """Whether the objective is higher at a point by more than solvers' noise in the constraints."""
    here = _value(natural, unknowns, at)
    return to is not None and _value(natural, unknowns, to) - here > _NOISE * abs(here)


def _value(natural: cp.Expression, unknowns: cp.Variable, point: Float) -> float:
    """The objective at a point."""
    unknowns.save_value(point)
    with np.errstate(all="ignore"):
        return number(natural)
