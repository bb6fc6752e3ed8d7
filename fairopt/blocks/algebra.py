"""The base class of objectives, and their algebra: sums, multiples, lower bounds as constraints, and tiers.

An objective is a sum of terms, ``f(x) = sum_t factor_t f_t(x)`` with concave f_t of the tasks x. A term is of a kind
that fairopt knows, or a user's expression (`ByExpression`), of which only CVXPY's rules and values are known. Of both a
bound U on the optimum becomes a gap in a unit (Bound 7.4, docs/methods/cone.md),

    gap  =  (max(U - f(x), 0) + rounding) / unit,      unit  =  min(f(x) - f(x / 2), slope of f at x along x),

or where x / 2 changes nothing, the change to typical tasks, or to none. Why not relative to f(x): a user may add any
constant, beside which every loss is small, and sums of logarithms pass through 0, where no gap is finite.

Floats: constants that expressions add outside of curved atoms are left out of values and bounds (`varying_of`). What
rounding hides of the rest is part of the gap (`Objective.rounding`), so that an answer of which floats do not show the
loss is refused and not called optimal; of fairopt's own terms, whose bounds are rounded up, it is forgiven.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from fairopt.blocks.base import (
    Block,
    ByUser,
    brief,
    call_block,
    is_function,
    is_ours,
    once,
    parameter,
    refuse_operator,
    refuse_unknown_numbers,
)
from fairopt.blocks.constraints import Constraint, MinShare
from fairopt.blocks.form import Form
from fairopt.blocks.inline import Inline
from fairopt.blocks.marginal import Marginal, added
from fairopt.blocks.model import Model, Pairs, Point
from fairopt.blocks.normal_form import Kind, Several, Term
from fairopt.blocks.own import OwnValues
from fairopt.blocks.rows import Rows
from fairopt.blocks.shares import Share, nobody_has, require_share
from fairopt.blocks.terms import Condition, OutcomeSymbols
from fairopt.blocks.written_values import irregular, is_flat, rounding_of, without_constants
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE, TERM_ROUNDING

KEPT = 8  # values of objectives given by expressions, by point


class Objective(Block):
    """Base of all objectives: subclass as a frozen dataclass and write `expression`.

    Objectives add, and multiply by non-negative numbers; ``objective >= level`` is a constraint, and
    ``a.then(b)`` maximises ``b`` among the optima of ``a``.

    Examples
    --------
    An objective of your own, the sum of the square roots of tasks:

    >>> import cvxpy as cp, fairopt as fo
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Roots(fo.Objective):
    ...     def expression(self, model):
    ...         return cp.sum(cp.sqrt(model.tasks))
    >>> fo.Policy(Roots()).allocate(fo.Instance([[1], [1]], [4])).tasks.round(4)
    array([2., 2.])
    """

    def __post_init__(self) -> None:
        if hasattr(self, "share"):
            require_share(self.share, self)

    of_bundles: ClassVar[bool] = False  # whether it is a function of bundles
    instead: ClassVar[str] = (
        "objectives can be added, multiplied by numbers >= 0 and bounded from below by `>=`; other results are not "
        "concave. Bound shares from above by MaxShare(level, share) and tasks by MaxTasks(number)"
    )

    def __init_subclass__(cls, **given: Any) -> None:
        """Let terms or an expression defined by a class override what it inherits of the other."""
        super().__init_subclass__(**given)
        if "expression" in vars(cls):
            if "terms" in vars(cls):
                raise InvalidBlock(f"{cls.__name__} defines both terms and expression, which might differ; define one")
            cls.terms = Objective.terms  # type: ignore[method-assign]

    def terms(self) -> tuple[Term, ...]:
        """The objective as a sum of terms, instead of `expression`: it is then solved and proved like fairopt's own.

        Returns
        -------
        tuple of Term
            Default: one term, given by `expression`.

        Examples
        --------
        >>> import fairopt as fo
        >>> (fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks())).terms()
        (Term(factor=1.0, kind=Power(alpha=1.0), share=DominantShare()), Term(factor=0.1, kind=Linear(), share=Tasks()))
        """
        return (Term(1.0, ByExpression(self), getattr(self, "share", None)),)

    @property
    def term(self) -> Term:
        """The only term; for a sum of several, a term whose kind is `Several`."""
        terms = self.terms()
        return terms[0] if len(terms) == 1 else Term(1.0, Several(), None)

    @property
    def _by_expression(self) -> bool:
        """Whether it is given by `expression`, not by terms."""
        return any(isinstance(term.kind, ByExpression) and term.kind.objective is self for term in self.terms())

    def expression(self, model: Model) -> cp.Expression:
        """The objective in natural units, as a concave scalar expression.

        Parameters
        ----------
        model : Model
            Offers ``share(block)``, ``tasks``, ``bundles``, ``weights`` and ``instance``. It has the users with a
            positive task limit only, so look users up by label. (Constraints see all users.)

        Returns
        -------
        cvxpy.Expression of shape ()
        """
        if self._by_expression:
            raise InvalidBlock(f"{type(self).__name__} has no expression(model); write it")
        parts = [term.expression(model) for term in self.terms()]
        return sum(parts) + (0.0 if parts else cp.Constant(0))

    def conditions(self, symbols: OutcomeSymbols) -> Condition | None:
        """The optimality conditions of an outcome on one pool, in polynomials, for `prove`; None, the default, if not
        stated.

        Parameters
        ----------
        symbols : OutcomeSymbols
            Offers ``users``, each with ``tasks`` and ``level`` per weight, ``ratios``, ``coefficient``, ``weight``,
            ``at_limit`` and ``below_limit``; ``prices`` of whole capacities and ``task_price(user)``;
            ``full(resource)``; and ``root(value, power)``.

        Returns
        -------
        Condition or None
            Comparisons by ``==``, ``<=``, ..., combined by ``&``, ``|`` and ``~``.

        Examples
        --------
        The sum of the square roots of tasks: the marginal utility of a task equals its cost. Tasks are per weight, and
        the level of a user is its tasks, since the class has no field ``share``.

        >>> import cvxpy as cp, fairopt as fo
        >>> from dataclasses import dataclass
        >>> from fairopt.blocks.terms import all_of
        >>> @dataclass(frozen=True, repr=False)
        ... class Roots(fo.Objective):
        ...     def expression(self, model):
        ...         return cp.sum(cp.sqrt(model.tasks))
        ...     def conditions(self, symbols):
        ...         tasks = ((user, user.tasks * user.weight) for user in symbols.users)
        ...         return all_of(2 * symbols.root(x, 2) * symbols.task_price(user) == 1 for user, x in tasks)
        >>> fo.prove(fo.Policy(Roots()), "pareto", resources=1, users=2).ok  # doctest: +SKIP
        True
        """
        return None if self._by_expression else self.term.kind.simplest.conditions(symbols)

    def solver_form(self, model: Model) -> cp.Expression | None:
        """An increasing transform that is better conditioned, for an objective without other terms; None for none."""
        return None if self._by_expression else self.term.kind.simplest.solver_form(self.term.share, model)

    def value(self, point: Point) -> float:
        """The objective at an allocation, in natural units.

        At the points of a program without the constants that an expression adds, which floats could not tell from the
        rest; see `stated`.
        """
        if not self._by_expression:
            return float(sum(term.value(point) for term in self.terms()))
        value = None if point.written is None else point.written.value(self, point)
        if value is not None:
            return value
        before = len(point.required)
        expression = expression_of(self, point)
        if not isinstance(expression, cp.Expression):
            return float(np.sum(expression)) - self._constant(point)
        if expression.value is None:  # maximise over auxiliary variables
            problem = cp.Problem(cp.Maximize(cp.sum(expression)), point.required[before:])
            # Clarabel comes with CVXPY and takes every cone; the chain of `solve.form.solvers` is in a higher layer
            try:
                problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
            except cp.error.SolverError:
                return float("nan")
            if not all(_holds(condition) for condition in problem.constraints):
                return float("nan")
        return float("nan") if expression.value is None else float(np.sum(expression.value)) - self._constant(point)

    def stated(self, point: Point) -> float:
        """The objective as it is written, with the constants that `value` leaves out."""
        return self.value(point) + self._constant(point)

    def _constant(self, point: Point) -> float:
        """The constants that `value` leaves out at a point."""
        written, terms = point.written, self._expressed()
        return 0.0 if written is None else sum(factor * written.constant(one) for factor, one in terms)

    def rounding(self, point: Point) -> float:
        """A bound on the rounding in `value` of terms that are given by users' expressions.

        Twice the rounding of the expressions: their tangents and bounds are computed from the same numbers. And what
        the rows of variables in them hide (`Slope`).
        """
        slope = self._slope(point)
        total = 0.0 if slope is None else slope.hidden
        for factor, one in self._expressed():
            error = None if point.written is None else point.written.rounding(one, point)
            if error is None:  # the value is a solver's
                error = NOISE * abs(one.value(point)) + TERM_ROUNDING * abs(one._constant(point))
            total += 2.0 * factor * error
        return total

    def _slope(self, point: Point) -> Slope | None:
        """The slope towards a point if the objective has variables besides tasks there."""
        return None if point.written is None or self.is_known else point.written.slope(self, point)

    def _expressed(self) -> list[tuple[float, Objective]]:
        """The terms that are given by users' expressions, with their factors."""
        kinds = [(term.factor, term.kind) for term in self.terms()]
        return [
            (factor, kind.objective) for factor, kind in kinds if isinstance(kind, ByExpression) and not kind.is_known
        ]

    def majorant(self, point: Point) -> Form | None:
        """An upper bound, tight at ``point``, that certificates maximise exactly; None for the tangent."""
        if self._by_expression:
            return None
        terms = self.terms()
        if not all(term.kind.is_known or isinstance(term.kind, ByExpression) for term in terms):
            return None
        if len(terms) == 1:
            return terms[0].majorant(point)
        total = Form()
        for term in terms:
            part = term.kind.majorant(term.share, point)
            if part is None or not term.kind.is_natural:
                return None
            total = total.plus(part, term.factor)
        return total

    def by_user(self, instance: Instance) -> Marginal | None:
        """The derivatives by the tasks of each user, if the objective is a sum of one concave function per user.

        It is then solved by prices of resources, alone and in sums, without a cone solver; on several servers if the
        functions are increasing and strictly concave. The proof of a user's objective uses `expression`: mistakes here
        only cost time.

        Parameters
        ----------
        instance : Instance
            The users with a task limit above 0.

        Returns
        -------
        Marginal or None
            None, the default, if the function of a user depends on other users' tasks, or on the server.

        Examples
        --------
        >>> import numpy as np, fairopt as fo
        >>> fo.AlphaFair(1, fo.Tasks()).by_user(fo.Instance([[1], [3]], [4])).slope(np.array([1.0, 4.0]))
        array([1.  , 0.25])
        """
        if self._by_expression:
            return None
        parts = [(term.factor, term.kind.marginal(term.share, instance)) for term in self.terms()]
        known = [(factor, part) for factor, part in parts if part is not None]
        if len(known) < len(parts) or not parts:
            return None
        return known[0][1] if len(known) == 1 and known[0][0] == 1 else added(known)

    def relative_gap(self, bound: float, value: float, point: Point) -> float:
        """The relative gap between a bound and the value at the point, both in the units of `majorant`."""
        gap = self.term.kind.simplest.relative_gap(bound, value, self.term.share, point)
        if gap is not None:
            return gap
        unit, _, rounding = self.units(point)
        # a rounding of 0 stays 0, which tells `in_units` that all terms are fairopt's own
        return in_units(bound - value, unit, value, rounding and rounding + TERM_ROUNDING * abs(value))

    def loss(self, best: Point, gap: float, point: Point) -> float:
        """At most the fraction of the optimum that a point loses, ``best`` being within ``gap`` of the optimum.

        It is relative to the gain of ``best`` over zero tasks or, if that is infinite, to `unit`.
        """
        lost = self.term.kind.simplest.loss(best, gap, self.term.share, point)
        if lost is not None:
            return lost
        value, gain = self.value(best), self.value(best) - self.value(best.scaled(0.0))
        return in_units(value - self.value(point), gain if gain < np.inf else self.unit(best), value) + gap

    def losses(self, best: Point, gap: float, point: Point) -> Float:
        """The same for each level of a leximin, from the smallest share per weight up; one number for others."""
        lost = self.term.kind.losses(best, gap, self.term.share, point)
        return np.array([self.loss(best, gap, point)]) if lost is None else lost

    def unit(self, point: Point) -> float:
        """The unit of gaps (Bound 7.4): `drop`, or else the change of the value towards equal parts of the servers, or
        else to no tasks.

        Of users' expressions each counts if it is beyond rounding (`unit_of`). With variables besides tasks in them it
        is what is proved to change (`fairopt.proof.slopes`): scaling such a variable would scale constants of its rows.
        Infinite for a multiple by 0, for which every point is optimal.
        """
        if not self.terms():
            return np.inf
        slope = self._slope(point)
        if slope is not None:
            return slope.unit

        def towards(part: float) -> float:
            return self.value(point.towards_typical(part))

        return unit_of(lambda part: self.value(point.scaled(part)), towards, self.rounding(point))

    def units(self, point: Point) -> tuple[float, float, float]:
        """`unit`, `value` and `rounding` for `in_units`; see `flat`."""
        unit, value, rounding = self.unit(point), self.value(point), self.rounding(point)
        return flat(value, rounding) if unit == 0 and self._is_flat(point) else (unit, value, rounding)

    def hidden(self, point: Point) -> float:
        """The rounding in `value` at a point if it alone is more than gaps may be, also of what typical tasks change.

        Else 0. Near the only tasks where a norm is 0 the unit is as small as its rounding, but other solvers get there.
        """
        unit, value, rounding = self.units(point)
        unit = max(unit, abs(value - self.value(point.towards_typical(1.0))))
        return rounding if rounding > GAP_TOLERANCE * unit else 0.0

    def _is_flat(self, point: Point) -> bool:
        """Whether 0 is a supergradient at a point for certain."""
        written, terms = point.written, self._expressed()
        if written is None or len(terms) < len(self.terms()):
            return False
        return all(written.is_flat(one, point) for _, one in terms)

    def drop(self, point: Point) -> float:
        """The decrease of the objective from the point towards zero tasks."""
        return drop_towards_zero(lambda factor: self.value(point.scaled(factor)))

    def share_blocks(self) -> tuple[Share, ...]:
        """The shares in it."""
        return tuple(term.share for term in self.terms() if isinstance(term.share, Share))

    @property
    def levels_users(self) -> bool:
        """Whether shares are compared between users, so that each must be positive."""
        return not self._by_expression and self.term.kind.levels_users

    @property
    def is_known(self) -> bool:
        """Whether fairopt defines every term."""
        return all(term.kind.is_known for term in self.terms())

    @property
    def majorant_is_natural(self) -> bool:
        """Whether `majorant` bounds the objective itself, not a transform."""
        return all(term.kind.is_natural for term in self.terms())

    def check(self, instance: Instance) -> None:
        """Raise `OutOfDomain` if the objective is not defined, and `NotConcave` if it is not concave."""
        for share in self.share_blocks():
            if self.levels_users:
                share._numbers(instance, levelled=True)
            elif instance.n_users and nobody_has(share, instance):
                raise OutOfDomain(
                    f"{share} is zero for every user, so {self} is the same for every allocation; choose another "
                    "share, or leave the objective out"
                )

    def require_terms(self) -> None:
        """`InvalidBlock` if terms of a user-defined block are not valid."""
        if is_ours(self) or type(self).terms is Objective.terms:
            return
        terms: Any = self.terms()
        name = f"{type(self).__name__}.terms"
        if not isinstance(terms, tuple) or not terms or not all(isinstance(term, Term) for term in terms):
            raise InvalidBlock(f"{name} gave {brief(terms)}; give a tuple of Term(factor, kind, share)")
        for term in terms:
            if fault := term.fault(alone=len(terms) == 1):
                raise InvalidBlock(f"{name} holds {brief(term.kind)}: {fault}")
            require_share(term.share, name)

    def natural_is_concave(self) -> None:
        """Raise `NotConcave` if only a transform is concave, so that it cannot be added or bounded."""

    # -- algebra ----------------------------------------------------------------------------------------------

    def summands(self) -> tuple[tuple[float, Objective], ...]:
        """The objectives of the sum, with their factors."""
        return ((1.0, self),)

    def __add__(self, other: object) -> Objective:
        if isinstance(other, (int, float)) and other == 0:  # so that sum([...]) works
            return self
        added = objective_of(other)
        if added is None:
            refuse_operator(self, "+", other)
        self._refuse_arithmetic()
        added._refuse_arithmetic()
        return Sum(self.summands() + added.summands())

    __radd__ = __add__

    def __mul__(self, factor: object) -> Objective:
        if isinstance(factor, Block):
            refuse_operator(self, "*", factor)
        self._refuse_arithmetic()
        number = parameter(
            factor,
            f"the factor of {self}",
            low=0.0,
            high=1e300,
            fix="give a finite number >= 0: objectives are maximised, and a negative multiple need not be concave",
        )
        parts = tuple((number if c == 1 else number * c, t) for c, t in self.summands())
        return parts[0][1] if len(parts) == 1 and parts[0][0] == 1 else Sum(parts)

    __rmul__ = __mul__

    def __neg__(self, other: object = None) -> NoReturn:
        what = f"a negative multiple of {self}" if other is None else f"a difference of {self} and {brief(other)}"
        raise InvalidBlock(
            f"{what} is no objective: objectives are maximised, and only sums with factors >= 0 stay concave. "
            "Fix: bound what should be small by a constraint, such as MaxTasks(...), order goals by .then(...), or "
            "write one concave function, such as lambda model: cp.sum(model.tasks) - cp.sum_squares(model.tasks)"
        )

    __sub__ = __rsub__ = __neg__

    def __ge__(self, level: object) -> AtLeast:
        self._refuse_arithmetic()
        return AtLeast(
            self, parameter(level, f"the level of {self}", low=-1e300, high=1e300, fix="give a finite number")
        )

    def then(self, other: Objective | Callable[[Model], Any]) -> Tiers:
        """Maximise another objective among what is within 1e-7 of the best for this one.

        Parameters
        ----------
        other : Objective, or function as `Policy` takes
            The next tier.

        Returns
        -------
        Tiers
            An objective; as an order, not a number, it cannot be added.

        Examples
        --------
        >>> import fairopt as fo
        >>> fairest = fo.MaxMin().then(fo.Total(fo.Tasks()))
        >>> fo.Policy(fairest).allocate(fo.Instance([[1, 0], [0, 1]], [4, 2], task_limits=[1, None])).tasks.round(4)
        array([1., 2.])
        """
        after = objective_of(other)
        if after is None:
            raise InvalidBlock(f"then({brief(other)}): give an objective")
        return Tiers((*tiers_of(self), *tiers_of(after)))

    def _refuse_arithmetic(self) -> None:
        """Raise `InvalidBlock` for an order, such as leximin or tiers."""
        self.require_terms()
        if not is_ours(self) and any(term.is_order for term in self.terms()):
            raise InvalidBlock(f"{self} is an order, not a number: it cannot be added, multiplied or bounded")


@dataclass(frozen=True, repr=False)
class InlineObjective(Inline, Objective):
    """An objective that is a function of the model; `Policy`, ``+`` and ``then`` make it of a function.

    Parameters
    ----------
    function : callable
        As `Objective.expression`: takes a `Model` and returns a concave scalar CVXPY expression.

    Examples
    --------
    >>> import cvxpy as cp, fairopt as fo
    >>> half = 0.5 * fo.blocks.InlineObjective(lambda model: cp.sum(cp.sqrt(model.tasks)))
    >>> half
    0.5 * InlineObjective(lambda model: cp.sum(cp.sqrt(model.tasks)))
    >>> fo.Policy(half + fo.Total()).allocate(fo.Instance([[1], [1]], [4])).tasks.round(4)
    array([2., 2.])
    """

    function: Callable[[Model], Any]

    def expression(self, model: Model) -> cp.Expression:
        return self.function(model)


def objective_of(given: object) -> Objective | None:
    """An objective, or a function as one; None for anything else."""
    return InlineObjective(given) if is_function(given) else given if isinstance(given, Objective) else None


@dataclass(frozen=True, repr=False)
class Sum(Objective):
    """A sum of nonnegative multiples of objectives; written ``a + 0.1 * b``."""

    parts: tuple[tuple[float, Objective], ...]

    @once
    def terms(self) -> tuple[Term, ...]:
        held = [(factor, part) for factor, part in self.parts if factor > 0]
        # a term alone may be solved and judged by a transform, such as a power mean; transforms do not add up
        made = [term.times(factor) for factor, part in held for term in part.terms()]
        return tuple(made) if len(held) == 1 else tuple(replace(term, kind=term.kind.in_sum()) for term in made)

    def check(self, instance: Instance) -> None:
        for _, t in self.parts:
            t.check(instance)
        if sum(factor > 0 for factor, _ in self.parts) > 1:  # a single multiple keeps its transform
            self.natural_is_concave()

    def natural_is_concave(self) -> None:
        for _, t in self.parts:
            t.natural_is_concave()

    def summands(self) -> tuple[tuple[float, Objective], ...]:
        return self.parts

    def __repr__(self) -> str:
        return self._joined(repr)

    def __str__(self) -> str:
        return self._joined(str)

    def _joined(self, text: Callable[[object], str]) -> str:
        words = [(c, f"({text(t)})" if isinstance(t, Inline) and text is str else text(t)) for c, t in self.parts]
        return " + ".join(part if c == 1 else f"{c!r} * {part}" for c, part in words)


@dataclass(frozen=True, repr=False)
class Tiers(Objective):
    """Objectives maximised one after the other; written ``a.then(b)``. Values are those of the first."""

    tiers: tuple[Objective, ...]

    def terms(self) -> tuple[Term, ...]:
        return self.tiers[0].terms()

    def conditions(self, symbols: OutcomeSymbols) -> None:
        """Not stated: those of the first tier hold for more outcomes."""

    def share_blocks(self) -> tuple[Share, ...]:
        return tuple(s for t in self.tiers for s in t.share_blocks())

    def check(self, instance: Instance) -> None:
        for tier in self.tiers:
            tier.check(instance)

    def _refuse_arithmetic(self) -> None:
        raise InvalidBlock(
            f"{self} is an order, not a number: it cannot be added, multiplied or bounded; give it alone"
        )

    def __repr__(self) -> str:
        return self._joined(repr)

    def __str__(self) -> str:
        return self._joined(str)

    def _joined(self, text: Callable[[object], str]) -> str:
        first = f"({text(self.tiers[0])})" if isinstance(self.tiers[0], Sum) else text(self.tiers[0])
        return first + "".join(f".then({text(t)})" for t in self.tiers[1:])


@dataclass(frozen=True)
class ByExpression(Kind):
    """An objective given by its expression, and the other methods that it may define."""

    objective: Objective

    @property
    def levels_users(self) -> bool:
        return self.objective.levels_users

    @property
    def is_known(self) -> bool:
        return is_ours(self.objective)

    @property
    def of_bundles(self) -> bool:
        return self.objective.of_bundles

    def expression(self, share: Share | None, model: Model) -> cp.Expression:
        return expression_of(self.objective, model)

    def solver_form(self, share: Share | None, model: Model) -> cp.Expression | None:
        return self.objective.solver_form(model)

    def value(self, share: Share | None, point: Point) -> float:
        return self.objective.value(point)

    def majorant(self, share: Share | None, point: Point) -> Form | None:
        return self.objective.majorant(point)

    def marginal(self, share: Share | None, instance: Instance) -> Marginal | None:
        return self.objective.by_user(instance)


@dataclass(frozen=True, repr=False)
class AtLeast(Constraint):
    """A lower bound on an objective; written ``objective >= level``."""

    objective: Objective
    level: float

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        least = self._least(instance)
        return None if least is None else least.bounds(instance)

    def _least(self, instance: Instance) -> MinShare | None:
        """The same as bounds on numbers if the objective is the smallest of them."""
        term = self.objective.term
        if not term.is_smallest:
            return None
        numbers = term.share._numbers(instance)
        # shares are at least 0, and of what is above a base `rows` looks at the level first
        return MinShare(tuple(max(self.level / term.factor, 0.0) * numbers.weights), term.share)

    def rows(self, pairs: Pairs) -> dict[str, Rows] | None:
        """One row if the objective is a sum of shares; one per number if it is the least of teams or above a base."""
        least = self._least(pairs.instance)
        if least is not None and not least.share._is_plain and self.level >= 0:  # below 0, what is missing of a base
            return least.rows(pairs)
        terms = self.objective.terms()
        if not all(term.is_linear and term.kind.is_natural for term in terms):
            return None
        numbers = [(term.factor, term.share._numbers(pairs.instance)) for term in terms]
        per_task = sum((factor * pairs.of(one.per_task) for factor, one in numbers), np.zeros(len(pairs)))
        base = sum(factor * float(one.base.sum()) for factor, one in numbers if one.base is not None)
        return {"at least": Rows(-per_task, -self.level - base, labels=("",))}

    def _curved(self, model: Model) -> dict[str, cp.Constraint]:
        """The constraint without constants, and in units of the level that they leave, as its attribute ``unit``."""
        form, constant = varying_of(self.objective, model)
        level = self.level if self.added else self.level - constant  # the level of an earlier tier has none
        unit = abs(level) or 1.0
        condition = form / unit >= level / unit
        condition.unit = unit
        return {"at least": condition}

    def check(self, instance: Instance) -> None:
        self.objective.check(instance)
        self.objective.natural_is_concave()

    def __repr__(self) -> str:
        return f"{self.objective!r} >= {self.level!r}"

    def __str__(self) -> str:
        held = f"({self.objective})" if isinstance(self.objective, Inline) else f"{self.objective}"
        return f"{held} >= {self.level!r}"


@dataclass(frozen=True, repr=False)
class KeptLevel(AtLeast):
    """The value of an earlier tier, less what it may lose, as a lower bound."""

    loss: float = 0.0

    added = True

    def looser(self, point: Point) -> KeptLevel:
        """The level from which as much again is lost, below what a point has of it."""
        return replace(self, level=min(self.level, self._reached(point)) - self.loss)

    def _reached(self, point: Point) -> float:
        return self.objective.value(point)


@dataclass(frozen=True, repr=False)
class Kept(KeptLevel):
    """The same in units of the expression, the logarithm of the objective."""

    def check(self, instance: Instance) -> None:
        self.objective.check(instance)

    def _reached(self, point: Point) -> float:
        return float(np.log(self.objective.value(point)))


@dataclass(frozen=True, repr=False)
class KeptShares(MinShare):
    """The shares of an earlier tier, or of an answer that is topped up, as lower bounds; each less a part ``loss``."""

    loss: float = 0.0

    added = True

    @classmethod
    def at(cls, point: Point, share: Share, loss: float) -> KeptShares:
        """What every user or team keeps of its share at a point."""
        least = np.maximum(point.share(share) * (1 - loss), 0.0).tolist()
        return cls(ByUser(dict(zip(share._names(point.instance), least, strict=True))), share, loss)

    def looser(self, point: Point) -> KeptShares:
        """The shares of which as much again is lost, below those of a point."""
        assert isinstance(self.level, ByUser)
        of_point = dict(zip(self.share._names(point.instance), point.share(self.share).tolist(), strict=True))
        least = {name: min(v, of_point.get(name, v)) * (1 - self.loss) for name, v in self.level.items()}
        return replace(self, level=ByUser(least))


def expression_of(objective: Objective, model: Model | Point) -> cp.Expression:
    """`Objective.expression`; `InvalidBlock` unless it is one real number, and in models depends on the tasks."""
    given = call_block(objective, "expression", model)
    numbers = () if isinstance(model, Model) else (int, float, np.ndarray, np.number)
    known = isinstance(given, (cp.Expression, *numbers))
    if isinstance(given, cp.Expression) and not is_ours(objective):
        known = given.is_real() and (bool(numbers) or not given.is_constant())
    if not known or np.size(given) != 1:
        what = repr(given) if not np.ndim(given) else f"shape {np.shape(given)}"
        raise InvalidBlock(
            f"{objective._called('expression')} gave {what}; give a CVXPY expression of one real number, such as "
            "cp.sum(model.tasks)"
        )
    if isinstance(given, cp.Expression) and isinstance(model, Model):
        refuse_unknown_numbers(objective, given, "its expression")
    return given


def varying_of(objective: Objective, model: Model) -> tuple[cp.Expression, float]:
    """The sum of `expression_of` without the constants that users' expressions add, and these.

    Constants of fairopt's own terms stay, as they are part of the terms' values and majorants.
    """
    if objective.is_known:
        return cp.sum(expression_of(objective, model)), 0.0
    if objective._by_expression:
        return without_constants(cp.sum(expression_of(objective, model)))
    parts, total = list[cp.Expression](), 0.0
    for term in objective.terms():
        if isinstance(term.kind, ByExpression) and not term.kind.is_known:
            form, constant = varying_of(term.kind.objective, model)
            parts.append(term.factor * form)
            total += term.factor * constant
        else:
            parts.append(term.expression(model))
    return cp.sum(sum(parts)), total


class _Held(NamedTuple):
    """An objective, its expression without constants, and these; ``own`` are the keys of its variables besides tasks,
    None if some have none, and tasks are ``scale`` per unit of ``tasks``.
    """

    objective: Block
    expression: cp.Expression
    constant: float
    own: list[str] | None
    tasks: cp.Variable
    scale: Float | float


class Natural:
    """Objectives as expressions of tasks by pair, each written once and evaluated at any number of points.

    Of a ``model`` of bundles only constants are read. ``slopes`` makes a `Slope` of tasks by pair and values.
    """

    def __init__(
        self,
        instance: Instance,
        pairs: Pairs,
        model: Model | None = None,
        slopes: Callable[[Objective, Float, Mapping[str, Float]], Slope | None] | None = None,
    ) -> None:
        self.pairs, self.slopes = pairs, slopes
        self.sloped: dict[tuple[Any, ...], Slope | None] = {}  # those at the last points
        self.tasks = cp.Variable(len(pairs), nonneg=True)
        self.model = model or Model(instance, self.tasks, pairs=pairs)
        self.of_bundles = model is not None
        self.model.own = OwnValues()  # it takes no values from variables that blocks share between models
        self.held: dict[int, _Held] = {}
        self.known: dict[tuple[Any, ...], float | None] = {}  # values and rounding of `held` at the last points
        self.lock = threading.Lock()

    def adopt(
        self, objective: Block, expression: cp.Expression, constant: float, unknowns: cp.Variable, scale: Float
    ) -> None:
        """Keep an expression that was written for a solver, in unknowns of ``scale`` tasks each alone."""
        with self.lock:
            self.held.setdefault(id(objective), _Held(objective, expression, constant, [], unknowns, scale))

    def has_none_of_its_own(self, objective: Block) -> bool:
        """Whether an objective was written here and has no variables besides tasks."""
        with self.lock:
            written = self.held.get(id(objective))
            return (
                written is not None and written.tasks is self.tasks and not (written.own != [] or self.model.own.held)
            )

    def constant(self, objective: Block) -> float:
        """The constants that an objective's expression adds."""
        with self.lock:
            return self._written(objective).constant

    def value(self, objective: Block, point: Point) -> float | None:
        """The objective at a point, without constants; None if its expression has variables without a value there."""
        with self.lock:
            return self._once("value", self._written(objective), point, lambda expression: expression.value)

    def rounding(self, objective: Block, point: Point) -> float | None:
        """A bound on the rounding in `value`, as in `rounding_of`; None where that is None."""
        with self.lock:
            written = self._written(objective)

            def of(expression: cp.Expression) -> float:
                there = point.typical().tasks_by_server[self.pairs.user, self.pairs.server]
                return rounding_of(expression, {written.tasks.id: irregular(there) / written.scale})

            return self._once("rounding", written, point, of)

    def _once(self, name: str, written: _Held, point: Point, of: Callable[[cp.Expression], Any]) -> float | None:
        """`_at`, kept under a name, as proofs ask again and again; None where variables have no values."""
        values = point.own.known if written.own else {}
        if written.own is None or not all(key in values for key in written.own):
            return None
        at = point.tasks_by_server[self.pairs.user, self.pairs.server]
        # by identity: `held` keeps the objective, whose id nobody else can get
        key = name, id(written.objective), at.tobytes(), *(np.asarray(values[k]).tobytes() for k in written.own)
        if key not in self.known:
            if len(self.known) >= KEPT:
                self.known.clear()
            self.known[key] = self._at(written, point, of)
        return self.known[key]

    def is_flat(self, objective: Block, point: Point) -> bool:
        """Whether the objective is flat at a point; see `is_flat`."""
        with self.lock:
            return bool(self._at(self._written(objective), point, is_flat))

    def slope(self, objective: Objective, point: Point) -> Slope | None:
        """The slope of an objective with variables besides tasks; None for others, and those of other programs."""
        if self.slopes is None:
            return None
        with self.lock:
            if all(self._written(one).own == [] for _, one in objective._expressed()):
                return None
            if (key := self._key(objective, point)) not in self.sloped:
                at = point.tasks_by_server[self.pairs.user, self.pairs.server]
                self.sloped[key] = self.slopes(objective, at, point.own.known)
            return self.sloped[key]

    def set_slope(self, objective: Objective, point: Point, slope: Slope | None) -> None:
        """Keep what is known of the slope at a point instead of proving it by programs; None to forget it."""
        with self.lock:
            if slope is None:
                self.sloped.pop(self._key(objective, point), None)
            else:
                self.sloped[self._key(objective, point)] = slope

    def _key(self, objective: Objective, point: Point) -> tuple[Any, ...]:
        """A point and the objective, for `sloped`, in which there is room for one more."""
        if len(self.sloped) >= KEPT:
            self.sloped.clear()
        at, values = point.tasks_by_server[self.pairs.user, self.pairs.server], point.own.known
        return id(objective), at.tobytes(), *(np.asarray(values[name]).tobytes() for name in sorted(values))

    def _written(self, objective: Block) -> _Held:
        """An objective as it is kept here."""
        if id(objective) not in self.held:
            assert isinstance(objective, Objective)
            made, constant = varying_of(objective, self.model)
            keys = {one.variable.id: key for key, one in self.model.own.held.items()}
            others = [v.id for v in made.variables() if v.id != self.tasks.id]
            known = all(i in keys for i in others) and not self.of_bundles  # not those that a block made by itself
            which = [keys[i] for i in others] if known else None
            self.held[id(objective)] = _Held(objective, made, constant, which, self.tasks, 1.0)
        return self.held[id(objective)]

    def _at(self, written: _Held, point: Point, of: Callable[[cp.Expression], Any]) -> float | None:
        """What a function gives of the expression with its variables' values at a point."""
        values = point.own.known if written.own else {}
        if written.own is None or not all(key in values for key in written.own):
            return None
        for name in written.own:  # `save` skips values of other shapes, where those of another point would stay
            self.model.own.held[name].variable.save_value(None)
        self.model.own.save({name: values[name] for name in written.own})
        before = written.tasks.value
        at = point.tasks_by_server[self.pairs.user, self.pairs.server]
        written.tasks.save_value(at / written.scale)
        given = of(written.expression)
        written.tasks.save_value(before)
        return None if given is None else float(given)


def in_units(excess: float, unit: float, value: float, rounding: float = 0.0) -> float:
    """An excess over a value divided by a unit: 0 within rounding, and infinite if the unit is 0.

    A ``rounding`` that a user's expression may have is part of the excess; that of fairopt's own terms is forgiven.
    """
    if rounding == 0.0 and np.isfinite(value) and excess <= TERM_ROUNDING * abs(value):
        return 0.0
    gap = (max(excess, 0.0) + rounding) / unit if unit > 0 else np.inf
    return gap if gap < np.inf else np.inf  # NaN becomes infinity


def flat(value: float, rounding: float) -> tuple[float, float, float]:
    """The arguments of `in_units` at a point where 0 is a supergradient, which is therefore optimal: what the bound
    exceeds the value by is forgiven within the rounding of terms.
    """
    return 0.0, max(abs(value), rounding / TERM_ROUNDING), 0.0


class Slope(NamedTuple):
    """A unit of an objective with variables besides tasks, and what violations and rounding of their rows, times
    multipliers, may add to its value at the values of these variables.
    """

    unit: float
    hidden: float


def unit_of(part: Callable[[float], float], towards: Callable[[float], float], rounding: float) -> float:
    """The unit of gaps of a function of a part of a point, and of a fraction of the way to another: the first of
    `drop_towards_zero`, the change to the other and that to zero that is beyond rounding; 0 if none is.
    """

    def changes() -> Iterator[float]:
        yield drop_towards_zero(part)
        for moved in (towards, lambda by: part(1.0 - by)):  # only if the drop is hidden by rounding
            yield abs(part(1.0) - first_finite(moved, 1.0)[1])

    return next((change for change in changes() if change > rounding), 0.0)


def drop_towards_zero(value: Callable[[float], float]) -> float:
    """The decrease of a function of the fraction of a point, from 1 towards 0 (Bound 7.4).

    The smaller of the decrease to one half and the slope at 1, since the decrease alone grows like ``2^alpha`` for
    alpha-fairness. If one half is outside the domain, the step is halved until its end is inside. Where the function
    falls beyond 1 as well, its slope may vanish, and the decrease to 2 counts instead if it is larger.
    """
    at_point = value(1.0)
    first, at_first = first_finite(lambda part: value(1.0 - part), 0.5)
    # a difference and no gradient, as it needs values only, which every objective has
    step = min(1e-4, first)
    decrease, slope = abs(at_point - at_first), abs(at_point - value(1.0 - step)) / step
    if slope < decrease:
        beyond = at_point - first_finite(lambda part: value(1.0 + part), 1.0)[1]
        if beyond > TERM_ROUNDING * abs(at_point):
            slope = max(slope, beyond)
    return min(decrease, slope)


def first_finite(value: Callable[[float], float], step: float) -> tuple[float, float]:
    """The first of a step, its half, its quarter, ... at which a function is finite, and its value there."""
    with np.errstate(all="ignore"):
        for part in step * 0.5 ** np.arange(50):  # to 1e-15 of the point, where steps end in its rounding
            if np.isfinite(at_part := value(float(part))):
                break
    return float(part), at_part


def _holds(condition: cp.Constraint) -> bool:
    """Whether a constraint holds at the values of its variables, within a tolerance of solvers."""
    sizes = [float(np.max(np.abs(a.value), initial=1.0)) for a in condition.args]
    return bool(np.max(condition.violation(), initial=0.0) <= 1e-7 * max(sizes))


def tiers_of(objective: Objective) -> tuple[Objective, ...]:
    """The tiers of an objective in order; any other objective is its only tier.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.blocks.tiers_of(fo.MaxMin().then(fo.Total()))
    (MaxMin(), Total())
    """
    return objective.tiers if isinstance(objective, Tiers) else (objective,)


def only_term(objective: object) -> Term | None:
    """The term of an objective of one tier (`Several` for sums); None for tiers and other objects."""
    return objective.term if isinstance(objective, Objective) and len(tiers_of(objective)) == 1 else None
