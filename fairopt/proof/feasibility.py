"""Feasibility: repairing points, measuring violations, and constraints as multipliers see them.

A violation is relative: of a capacity or limit, the part by which it is exceeded; of a row or a condition, its excess
over the size of its terms at typical tasks:

    excess_r / max(abs(a_r) |x|, abs(b_r), TYPICAL * abs(a_r) typical).

Both sides of ``x_1 <= 2 x_2`` vanish with the tasks, and an absolute tolerance would say nothing of small ones; a size
relative to the larger side alone would call a solver's 1e-12 of a task a violation of all of it. Tasks are scaled down
until capacities hold, so that an answer never uses more than there is (Proposition 9.2, docs/methods/certificates.md);
constraints of blocks hold to 1e-7, since scaling may break them and no scaling mends them.

Floats: sums over a million users left 7e-14 of a full capacity, so that a load above it by less than 1e-13 is left
(`repair`). A curved term may be 0 because its arguments cancel: ``norm(x_1 - x_2)`` of equal tasks is rounding of
the arguments and not of the norm (`_cancelled`). What is measured here serves the gate; multipliers of the same
constraints are read by `linear_rows` and `dual_values`, for `lagrangian`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fairopt.blocks.algebra import AtLeast, drop_towards_zero
from fairopt.blocks.base import blocks_within, is_ours
from fairopt.blocks.constraints import Constraint, ManyRows, MinShare
from fairopt.blocks.form import Form
from fairopt.blocks.guarantees import TeamGuarantees
from fairopt.blocks.rows import TYPICAL
from fairopt.instance.validation import distinct
from fairopt.proof.gradients import as_matrix, gradient, gradients_of
from fairopt.proof.lagrangian import LinearRows
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import BLOCK_TOLERANCE, ROUNDING, SUM_ROUNDING, TERM_ROUNDING
from fairopt.solve.form.bundle_program import BundleProgram
from fairopt.solve.form.compiled import values_kept
from fairopt.solve.form.program import ConeModel, Program


def number(expression: cp.Expression) -> float:
    """The value of an expression; NaN if it has none."""
    return float("nan") if expression.value is None else float(expression.value)


def fall_of(expression: cp.Expression, variables: Sequence[cp.Variable]) -> float:
    """By how much an expression falls as these variables shrink to zero; see `drop_towards_zero`."""
    at = [np.array(variable.value) for variable in variables]

    def value(factor: float) -> float:
        for variable, held in zip(variables, at, strict=True):
            variable.save_value(held * factor)
        return number(expression)

    with values_kept(variables):
        return drop_towards_zero(value)


def repair(program: Program, tasks: Float) -> Float:
    """Scale tasks by pair down to task limits, then to each server's capacity, so that both hold exactly (Proposition
    9.2).
    """
    pairs = program.pairs
    total = pairs.sum(tasks)
    with np.errstate(invalid="ignore", divide="ignore"):
        cut = np.where(total > program.high, program.high / total, 1.0)
    tasks = tasks * cut[pairs.user]
    tasks = np.where(program.zero_pairs, 0.0, tasks)  # they need what is wholly reserved, of which any load is too much
    rows = program.rows.load(tasks)
    usable = program.usable_rows
    over = np.where(usable > 0, rows / np.where(usable > 0, usable, 1.0), np.where(rows > 0, np.inf, 0.0))
    worst = over.reshape(-1, program.instance.n_resources).max(axis=1, initial=0.0)
    # a load that is above 1 by rounding only is left, so that what was judged before stays to the bit
    return tasks / np.where(worst > 1 + SUM_ROUNDING, worst, 1.0)[pairs.server]


def nothing_but_violations(program: Program, tasks: Float, violation: float) -> Bool:
    """Users without a lower bound who hold no more than relative violations of lower bounds, or rounding, leave them,
    shape (n_users,).

    Rounding is relative to typical tasks: by small weights alone users hold 1e-14 of what they could run.
    """
    # without lower bounds of others everybody can have more than rounding, and small tasks are small demands
    floors = distinct(program.low).any() or any(isinstance(c, (MinShare, TeamGuarantees)) for c in program.rest)
    if isinstance(program, BundleProgram) or not floors:
        return np.zeros(program.low.shape, dtype=bool)
    little = (violation + TERM_ROUNDING) * program.most + ROUNDING * np.minimum(program.size, program.most)
    return (program.low <= 0) & (program.pairs.sum(tasks) <= little)


def without_rounding(program: Program, tasks: Float) -> Float:
    """Tasks without those of users who hold nothing but what violations of lower bounds, or rounding, leave them."""
    held = program.pairs.sum(tasks)
    if not (held <= (BLOCK_TOLERANCE + ROUNDING) * program.most).any():  # the violations are not needed
        return tasks
    violation = violation_at(program, tasks) if all_known(program) else 0.0
    nothing = nothing_but_violations(program, tasks, min(violation, BLOCK_TOLERANCE))
    return np.where(nothing[program.pairs.user], 0.0, tasks) if nothing.any() else tasks


def has_rounding_for_share(program: Program, tasks: Float, violation: float) -> bool:
    """Whether an objective that is minus infinity where a user has nothing is finite by violations or rounding only."""
    alpha = program.term.alpha
    if alpha is None or alpha < 1 or not program.of_users:
        return False
    return bool(nothing_but_violations(program, tasks, violation).any())


def room_left(program: Program, tasks: Float) -> Float:
    """How many more tasks each user could run while the others keep theirs, shape (n_users,)."""
    pairs, loads = program.pairs, program.pairs.loads
    left = np.maximum(program.usable_rows - loads @ tasks, 0.0)
    room = np.full(len(pairs), np.inf)
    if program.single:  # row by row: loads of a pool are dense, and a copy of a million users by resources is large
        for ratio, rest in zip(loads, left, strict=True):
            room = np.fmin(room, rest / ratio)  # 0 / 0: no demand of a resource that is full
    else:
        entries = sp.coo_array(loads)
        np.minimum.at(room, entries.col, left[entries.row] / entries.data)
    return np.minimum(pairs.sum(room), np.maximum(program.high - pairs.sum(tasks), 0.0))


def rise_at_prices(program: Program, prices: Float, tasks: Float) -> Float:
    """A bound on how many more tasks each user can run while none runs fewer, at any prices by row, shape (n_users,).

    All rises together cost at most the value of capacities less the cost of the tasks at their cheapest servers.
    """
    pairs, prices = program.pairs, np.maximum(prices, 0.0)
    cost, total = pairs.min(program.rows.cost(prices)), pairs.sum(tasks)
    limit = float(prices @ program.usable_rows)
    slack = max(limit - float(cost @ total), 0.0) + 2 * TERM_ROUNDING * limit  # both sums are near the limit
    with np.errstate(divide="ignore"):
        return np.minimum(slack / cost, np.maximum(program.high - total, 0.0))


def broken_rows(program: Program, tasks: Float, each: int = 1) -> list[tuple[Indices, Float]]:
    """For each of `Program.many_rows` the most violated rows, ``each`` per user, and their violations."""
    if not program.many_rows:
        return []
    point = program.point(tasks)
    # the least size of a row's terms: what they are at typical tasks, or at less if nobody runs as much
    least = TYPICAL * min(1.0, float((tasks / program.size[program.pairs.user]).max(initial=0.0))) * program.size
    return [block.broken(point, least, each) for block in program.many_rows]


def bounds_violation(program: Program, tasks: Float) -> float:
    """The largest relative violation of bounds on users' tasks, from task limits and the policy's blocks."""
    totals = program.pairs.sum(tasks)
    short = np.divide(program.low - totals, program.low, out=np.zeros(len(totals)), where=program.low > 0)
    # beyond a limit in parts of typical tasks: beside a limit of 1e-14 of these, a solver's noise is no violation
    beyond = np.where(np.isfinite(program.high), totals - program.high, 0.0)
    return max(float(short.max(initial=0.0)), float((beyond / program.size).max(initial=0.0)))


def rows_violation(program: Program, tasks: Float) -> float:
    """The largest relative violation of constraints that are linear rows."""
    if not program.rest:
        return 0.0
    scale, worst = program.size[program.pairs.user], [0.0]
    typical = scale * min(1.0, float((tasks / scale).max(initial=0.0)))  # as all tasks shrink, so do violations
    for block in program.rest:
        if not isinstance(block, ManyRows):
            worst += [one.rows.broken(tasks, typical).max() for one in program.rows_of(block) or ()]
    worst += [by.max(initial=0.0) for _, by in broken_rows(program, tasks)]
    return float(max(worst))


def all_known(program: Program) -> bool:
    """Whether the program has only linear rows, bounds and a known objective."""
    return _all_rows(program) and program.objective.is_known


def _all_rows(program: Program) -> bool:
    """Whether all constraints are linear rows and bounds."""
    return all(isinstance(block, ManyRows) or program.rows_of(block) is not None for block in program.rest)


def violation_at(program: Program, tasks: Float, cone: ConeModel | None = None) -> float:
    """`block_violation` of a program; a cone model is built only for constraints that are not linear rows."""
    if all_known(program) or (cone is None and _all_rows(program)):
        return max(bounds_violation(program, tasks), rows_violation(program, tasks))
    cone = cone or ConeModel(program)
    if len(cone.model.own.values()) < len(cone.model.own.held):  # no solver left them
        settle(cone, tasks)
    return block_violation(cone, tasks)


def block_violation(cone: ConeModel, tasks: Float) -> float:
    """The largest relative violation of the policy's constraints, and of those that its blocks require, at tasks by
    pair.

    Constraints on variables that fairopt's own objectives add are left out: the objectives are evaluated without them.
    """
    program = cone.program
    worst = max(bounds_violation(program, tasks), rows_violation(program, tasks))
    conditions = [] if program.objective.is_known else list(cone.required)
    point, levels = program.point(tasks), dict[int, AtLeast]()
    for block, _, condition in cone.rest:
        if condition.id in cone.known:
            continue
        if type(block) is AtLeast and block.objective.is_known and _has_more(condition, cone.unknowns):
            levels[id(block)] = block  # evaluated without the variables that it adds
        else:
            conditions.append(condition)
    worst = max(worst, *(own.beyond for own in cone.model.own.held.values()), 0.0)
    for block in levels.values():  # by the objective's own value, exact where its variables are a solver's
        short = (block.level - block.objective.value(point)) / (abs(block.level) or 1.0)
        worst = max(worst, short if short == short else np.inf)
    if conditions:
        size = program.size[program.pairs.user]
        usual = size * min(1.0, float((tasks / size).max(initial=0.0)))  # as all tasks shrink, so do violations
        typical = {cone.unknowns.id: usual / cone.scale}
        with values_kept([cone.unknowns]):
            cone.unknowns.save_value(tasks / cone.scale)
            for condition in conditions:
                check()
                worst = max(worst, relative_violation(condition, typical))
    return worst


def variables_at(program: Program, tasks: Float) -> dict[str, Float]:
    """The best values of blocks' variables at tasks by pair, by key."""
    if program.empty or not program.decides_tasks or all_known(program):
        return {}
    if all(map(is_ours, blocks_within((program.objective, *program.rest)))):
        return {}
    if _all_rows(program) and program.natural.has_none_of_its_own(program.objective):
        return {}
    return settle(ConeModel(program), tasks)


def settle(cone: ConeModel, tasks: Float) -> dict[str, Float]:
    """The values of blocks' variables at tasks by pair, by key, which are left in the model.

    They are those that the model has if all constraints hold there, else the best at these tasks.
    """
    return settled(cone, tasks)[0]


def settled(cone: ConeModel, tasks: Float) -> tuple[dict[str, Float], float | None]:
    """What `settle` gives, and the `block_violation` with these values if it was measured."""
    own = cone.model.own
    if not (cone.program.objective.is_known or cone.program.term.is_order):
        _ = cone.maximand  # its variables
    if not own.held:
        return {}, None
    values = own.values()
    # the solver's values, if they hold at these tasks, which repair may have moved; then within rows of one variable;
    # then the best, which is another program
    if len(values) == len(own.held):
        own.save(values)  # within their bounds
        if (violation := block_violation(cone, tasks)) <= BLOCK_TOLERANCE:
            return values, violation
        own.save(values := _within_signs(cone, values))
        if (violation := block_violation(cone, tasks)) <= BLOCK_TOLERANCE:
            return values, violation
    best = _within_signs(cone, cone.best_values(tasks))
    own.save(best)
    return best or values, None


def _within_signs(cone: ConeModel, values: dict[str, Float]) -> dict[str, Float]:
    """The values of blocks' variables, moved into the ranges that rows of a single one give: a solver leaves a slack of
    zero at -1e-9, which is nothing in its row and everything beside itself.
    """
    if not values:
        return values
    own, low, high = cone.model.own, dict[int, Float](), dict[int, Float]()
    by_id = {one.variable.id: one.variable for one in own.held.values()}
    for condition in [*(condition for _, _, condition in cone.rest), *cone.required]:
        variables = condition.variables()
        if len(variables) != 1 or variables[0].id not in by_id or not all(a.is_affine() for a in condition.args):
            continue
        rows = linear_rows(condition, cone.unknowns, list(by_id.values()))
        if rows is None or not rows.inequality:
            continue
        variable, slopes = variables[0], sp.csc_array(rows.others[variables[0]])
        at = np.asarray(variable.value, dtype=float).ravel(order="F")
        least = low.setdefault(variable.id, np.full(variable.size, -np.inf))
        most = high.setdefault(variable.id, np.full(variable.size, np.inf))
        for row in np.flatnonzero(np.diff(slopes.indptr) == 1).tolist():
            k, slope = slopes.indices[slopes.indptr[row]], slopes.data[slopes.indptr[row]]
            end = at[k] - rows.values[row] / slope if slope else np.nan
            if slope > 0:
                most[k] = min(most[k], end)
            elif slope < 0:
                least[k] = max(least[k], end)
    out = dict(values)
    for key, one in own.held.items():
        if one.variable.id in low and key in out:
            ends = (e[one.variable.id].reshape(one.variable.shape, order="F") * one.unit for e in (low, high))
            out[key] = np.clip(out[key], *ends)
    return out


def _has_more(condition: cp.Constraint, unknowns: cp.Variable) -> bool:
    """Whether a constraint has variables besides the unknowns."""
    return any(variable.id != unknowns.id for variable in condition.variables())


def bounds_are_charged(program: Program) -> bool:
    """Whether bounds on tasks need multipliers, because they are not bounds on shares."""
    return any(s._numbers(program.instance).per_task.ndim == 2 for s in program.objective.share_blocks())


def charged_conditions(cone: ConeModel) -> list[tuple[Constraint | None, cp.Constraint]]:
    """The constraints of a model that have multipliers, with their blocks."""
    out: list[tuple[Constraint | None, cp.Constraint]] = [(block, condition) for block, _, condition in cone.rest]
    if bounds_are_charged(cone.program):
        out += [(None, condition) for condition in cone.box]
    return out


def row_prices(program: Program, capacity: cp.Constraint) -> Float:
    """Nonnegative dual values of a program's capacity constraint by row of loads, shape (n_rows,)."""
    prices = np.zeros(program.instance.capacities.size)
    prices[program.capacity_rows] = np.maximum(dual_values(capacity), 0.0)
    return prices


def linear_rows(
    condition: cp.Constraint, unknowns: cp.Variable, others: Sequence[cp.Variable] = ()
) -> LinearRows | None:
    """A constraint ``g(z) <= 0`` (or == 0), linearised at its value.

    None for other kinds, without a gradient, and with variables besides the unknowns and the ``others``: leaving a row
    out only relaxes a bound.
    """
    kinds = cp.constraints
    inequality = isinstance(condition, (kinds.Inequality, kinds.NonPos, kinds.NonNeg))
    more = [variable for variable in condition.variables() if variable.id != unknowns.id]
    if any(v.id not in {o.id for o in others} or v.value is None for v in more):  # they have no known range
        return None
    if not inequality and not isinstance(condition, (kinds.Equality, kinds.Zero)):
        return None
    expression = condition.expr if hasattr(condition, "expr") else condition.args[0]
    sign = -1.0 if isinstance(condition, kinds.NonNeg) else 1.0  # CVXPY's other inequalities are expr <= 0
    jacobian, *of_more = gradients_of(expression, [unknowns, *more])
    by_variable = dict(zip(more, of_more, strict=True))
    if jacobian is None and more and unknowns.id not in {v.id for v in expression.variables()}:
        jacobian = sp.csr_array((unknowns.size, expression.size))
    if jacobian is None or expression.value is None or any(slopes is None for slopes in by_variable.values()):
        return None
    values = np.asarray(expression.value, dtype=float).ravel(order="F")
    by_others = {
        variable: sp.csr_array(slopes * sign) for variable, slopes in by_variable.items() if slopes is not None
    }
    return LinearRows(sp.csr_array(jacobian * sign), values * sign, inequality, by_others)


def dual_values(condition: cp.Constraint) -> Float:
    """Dual values of a constraint, flat in column order; zeros if the solver left none."""
    value = condition.dual_value
    size = int(np.prod(condition.shape)) if condition.shape else 1
    if value is None or isinstance(value, list):
        return np.zeros(size)
    # a NaN is a multiplier of 0, which is valid
    return np.nan_to_num(np.atleast_1d(np.asarray(value, dtype=float)).ravel(order="F"))


def tangent(
    cone: ConeModel, expression: cp.Expression, tasks: Float
) -> tuple[Form, Float, dict[cp.Variable, Float]] | None:
    """The tangent of a concave expression at the tasks and the values of blocks' variables.

    A constant, slopes (n_pairs,), and those by variable, flat; None without a gradient, or with other variables.
    """
    own = {one.variable.id for one in cone.model.own.held.values()}
    others = [v for v in expression.variables() if v.id != cone.unknowns.id]
    if any(v.id not in own or v.value is None for v in others):  # otherwise it is no bound
        return None
    with values_kept([cone.unknowns]):
        cone.unknowns.save_value(tasks / cone.scale)
        (gradient, *of_others), value = gradients_of(expression, [cone.unknowns, *others]), expression.value
    if gradient is None and others and cone.unknowns.id not in {v.id for v in expression.variables()}:
        gradient = sp.csr_array((cone.unknowns.size, 1))
    if gradient is None or value is None or not np.isfinite(value):
        return None
    # f(x) <= f(x0) + slopes (x - x0), as a constant and slopes per task
    slopes, constant = gradient.toarray().ravel() / cone.scale, float(value)
    constant -= float(slopes @ tasks)
    by_others = dict[cp.Variable, Float]()
    for variable, of_other in zip(others, of_others, strict=True):
        if of_other is None:
            return None
        by_others[variable] = of_other.toarray().ravel()
        constant -= float(by_others[variable] @ np.asarray(variable.value, dtype=float).ravel(order="F"))
    return Form(constant=constant), slopes, by_others


def relative_violation(condition: cp.Constraint, typical: Mapping[int, Float] | None = None) -> float:
    """The largest violation of a constraint's rows, each relative to the size of its terms.

    Both sides of a homogeneous row may vanish, so terms count one by one. Constants on both sides count as one, since
    adding a constant to both changes only rounding. ``typical`` are typical values of variables by id: a row's size is
    at least `TYPICAL` of its terms there. A curved term may vanish because its arguments cancel, as in the norm of a
    difference (`_cancelled`).
    """
    if any(variable.value is None for variable in condition.variables()):  # a block's variable that was not solved for
        return np.inf
    violation = np.atleast_1d(np.asarray(excess_of(condition), dtype=float)).ravel(order="F")
    if not np.isfinite(violation).all():
        return np.inf
    if not violation.max(initial=0.0) > 0:
        return 0.0
    size, constant, rounding = np.zeros(len(violation)), np.zeros(len(violation)), np.zeros(len(violation))

    def by_row(part: Float) -> Float:  # a cone has one violation for all its entries, and a side may be a scalar
        if len(part) == len(size):
            return part
        return np.full(len(size), part[0] if len(part) == 1 else np.abs(part).max(initial=0.0))

    # both sides of an inequality are parts of one row; a cone's arguments are rows of their own
    signs = (1.0, -1.0) if isinstance(condition, (cp.constraints.Inequality, cp.constraints.Equality)) else (1.0,) * 9
    terms = [term for sign, side in zip(signs, condition.args, strict=False) for term in _terms(side, sign)]
    values = [by_row(np.abs(np.asarray(term.value, dtype=float).ravel(order="F"))) for term, _ in terms]
    for value in values:
        rounding = np.maximum(rounding, value)
    # rounding of a row's largest term is no violation
    beyond = np.maximum(violation - TERM_ROUNDING * rounding, 0.0)
    if not beyond.any():
        return 0.0
    for (term, its_sign), value in zip(terms, values, strict=True):
        if not term.is_affine():
            size = np.maximum(size, value)
            continue
        own, rest = _sizes(term, typical)
        size, constant = np.maximum(size, by_row(own)), constant + its_sign * by_row(rest)
    size = np.maximum(size, np.abs(constant))
    relative = beyond / np.where(size > 0, size, 1.0)
    curved = [term for term, _ in terms if not term.is_affine()]
    if curved and relative.max() > BLOCK_TOLERANCE:
        relative = np.minimum(relative, _cancelled(beyond, lambda part: sum(by_row(_grown(t, part)) for t in curved)))
    return float(relative.max())


def excess_of(condition: cp.Constraint) -> Float:
    """By how much the values of a constraint exceed what it allows, by row or by cone; 0 where it holds."""
    kinds, values = cp.constraints, [np.asarray(argument.value, dtype=float) for argument in condition.args]
    if isinstance(condition, (kinds.Equality, kinds.Zero)):
        return np.abs(condition.args[0].value - condition.args[1].value if len(values) > 1 else values[0])
    if isinstance(condition, kinds.Inequality):
        return np.maximum(values[0] - values[1], 0.0)
    if isinstance(condition, (kinds.NonPos, kinds.NonNeg)):
        return np.maximum(values[0] if isinstance(condition, kinds.NonPos) else -values[0], 0.0)
    if isinstance(condition, kinds.PSD):
        both = (values[0] + np.swapaxes(values[0], -1, -2)) / 2
        return np.maximum(-np.linalg.eigvalsh(both).min(axis=-1), 0.0)
    if isinstance(condition, kinds.SOC):
        inside = np.atleast_1d(values[1])
        norms = np.linalg.norm(inside, axis=condition.axis if inside.ndim > 1 else 0)
        return np.maximum(norms - values[0], 0.0)
    if isinstance(condition, kinds.ExpCone):  # v exp(u / v) <= w for v > 0, and u <= 0 <= w at v = 0
        u, v, w = values
        above, safe = v > 0, np.where(v > 0, v, 1.0)
        with np.errstate(all="ignore"):
            by_w, by_u = v * np.exp(u / safe) - w, u - v * np.log(np.maximum(w, 0.0) / safe)  # the nearer counts
        at_edge = np.maximum(np.maximum(-v, u), -w)
        return np.maximum(np.where(above, np.fmin(by_w, by_u), at_edge), 0.0)
    if isinstance(condition, kinds.PowCone3D):  # u^a v^(1 - a) >= |w|
        (u, v, w), a = values, np.asarray(condition.alpha.value, dtype=float)
        short = np.abs(w) - np.maximum(u, 0.0) ** a * np.maximum(v, 0.0) ** (1.0 - a)
        return np.maximum(np.maximum(short, 0.0), np.maximum(-u, -v))
    if isinstance(condition, kinds.PowConeND):  # prod u^a >= |w|
        (u, w), a = values, np.asarray(condition.alpha.value, dtype=float)
        short = np.abs(w) - np.prod(np.maximum(u, 0.0) ** a, axis=condition.axis)
        return np.maximum(np.maximum(short, 0.0), -u.min(axis=condition.axis))
    return np.asarray(condition.violation(), dtype=float)


def _sizes(term: cp.Expression, typical: Mapping[int, Float] | None = None) -> tuple[Float, Float]:
    """The size of the variable terms in each row of an affine expression, and its constant."""
    value = np.asarray(term.value, dtype=float).ravel(order="F")  # less all variable terms: the constant
    size = np.zeros(len(value))
    for variable, slopes in gradient(term).items():
        slopes, at = as_matrix(slopes).T, np.asarray(variable.value, dtype=float).ravel(order="F")
        value = value - slopes @ at
        size = np.maximum(size, abs(slopes) @ np.abs(at))
        if typical is not None and variable.id in typical:
            size = np.maximum(size, TYPICAL * (abs(slopes) @ typical[variable.id]))
    return size, value


def _cancelled(beyond: Float, grown: Callable[[float], Float | int]) -> Float:
    """The smallest relative change of cancelling arguments in curved terms that explains each row's violation, or
    infinity.

    Linear rows are measured by terms that may cancel, and so are the arguments of a norm or a square: the square of an
    argument that cancels to 1e-7 of its terms is 1e-14 of their square.
    """
    least = np.full(len(beyond), np.inf)
    for part in np.geomspace(1.0, 1e-16, 65).tolist():  # four parts a decade, from above: the last that explains it
        least = np.where(beyond <= grown(part), part, least)
    return least


def _grown(term: cp.Expression, part: float) -> Float:
    """The change of a curved term as its cancelling arguments move from 0 by ``part`` of their terms."""
    change = np.abs(_moved(term, part) - term.value).ravel(order="F")
    return np.where(np.isfinite(change), change, 0.0)


def _moved(expression: cp.Expression, part: float) -> Float:
    """An expression's value with cancelling affine arguments moved from 0 by ``part`` of their terms."""
    if not expression.is_affine():
        moved = [cp.Constant(_moved(argument, part)) for argument in expression.args]
        return np.asarray(expression.copy(moved).value, dtype=float)
    value = np.asarray(expression.value, dtype=float)
    own, rest = _sizes(expression)
    size = (own + np.abs(rest)).reshape(value.shape, order="F")
    return np.asarray(value + np.where(np.abs(value) <= TYPICAL * size, np.copysign(part * size, value), 0.0))


def _terms(expression: cp.Expression, sign: float) -> list[tuple[cp.Expression, float]]:
    """The terms of a sum, with their signs."""
    affine = cp.atoms.affine
    args: list[cp.Expression] = expression.args
    if isinstance(expression, affine.add_expr.AddExpression) and all(a.shape == expression.shape for a in args):
        return [term for argument in args for term in _terms(argument, sign)]
    if isinstance(expression, affine.unary_operators.NegExpression):
        return _terms(expression.args[0], -sign)
    return [(expression, sign)]
