"""What kinds of terms know of themselves: derivatives agree with differences of values, on every kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import fairopt as fo
from fairopt.blocks.algebra import ByExpression, only_term
from fairopt.blocks.efficiency import Plane, PowerSpread
from fairopt.blocks.model import Point
from fairopt.blocks.normal_form import Kind, Linear, Order, Power, Ranked, Several, Spread, Term
from fairopt.properties.prove.statements import Question

WEIGHTS = np.array([1.0, 2.5, 0.4])
POOL = fo.Instance(np.ones((3, 1)), [10.0], weights=WEIGHTS)
Z = np.array([0.7, 1.9, 4.0])
SMOOTH = [
    fo.Total(fo.Tasks()),
    fo.AlphaFair(0.5, fo.Tasks()),
    fo.AlphaFair(1, fo.Tasks()),
    fo.AlphaFair(3, fo.Tasks()),
    fo.FairnessEfficiency(2, -0.5, fo.Tasks()),
    fo.FairnessEfficiency(2, -2, fo.Tasks()),
    fo.FairnessEfficiency(0.5, 3, fo.Tasks()),
    fo.FairnessEfficiency(1, 0.5, fo.Tasks()),
]
# An objective of each kind of fairopt's: its derivatives are part of proofs.
OF_EVERY_KIND = [*SMOOTH, fo.MaxMin(fo.Tasks()), fo.Leximin(fo.Tasks()), PowerSpread(2.5, fo.Tasks()), fo.WeightedLog()]
PLACEHOLDERS = {Several, Question}  # for sums, and for `fo.prove`


def kinds_below(kind: type[Kind]) -> set[type[Kind]]:
    return {kind}.union(*map(kinds_below, kind.__subclasses__()))


def test_every_kind_of_fairopt_is_tested_here() -> None:
    ours = {kind for kind in kinds_below(Kind) if kind.__module__.startswith("fairopt.")} - PLACEHOLDERS - {Kind}
    assert {type(term.kind) for objective in OF_EVERY_KIND for term in objective.terms()} >= ours


@pytest.mark.parametrize("objective", OF_EVERY_KIND, ids=repr)
def test_derivatives_by_tasks_of_each_user_are_those_of_the_value_and_of_the_expression(
    objective: fo.Objective,
) -> None:
    marginal = objective.by_user(POOL)
    if marginal is None:
        assert isinstance(objective.term.kind, (Ranked, Plane, ByExpression))  # no sums over users
        return
    x, step = Z * WEIGHTS, 1e-4
    slope, curvature = marginal.both(x)
    moved = [[value(objective, x * (1 + sign * step * one)) for one in np.eye(3)] for sign in (1, -1)]
    assert_allclose(slope, (np.array(moved[0]) - moved[1]) / (2 * step * x), rtol=1e-6)
    second = (np.array(moved[0]) + moved[1] - 2 * value(objective, x)) / (step * x) ** 2
    assert_allclose(curvature, second, rtol=1e-4, atol=1e-6)
    problem = fo.Policy(objective).problem(POOL)
    problem.var_dict["tasks"].value = x
    assert float(problem.objective.value) == pytest.approx(value(objective, x), rel=1e-9)


def value(objective: fo.Objective, shares: np.ndarray, weights: np.ndarray = WEIGHTS) -> float:
    return objective.value(Point(POOL.with_weights(weights), shares[:, None]))


@pytest.mark.parametrize("objective", SMOOTH, ids=repr)
def test_slopes_are_the_derivatives_of_the_value_by_shares(objective: fo.Objective) -> None:
    kind, log_z = objective.term.kind, np.log(Z)
    log_unit = kind.log_unit(log_z, WEIGHTS)
    slopes = sum(np.exp(log_unit + curve.log_slopes(log_z)) for curve in kind.curves(log_z, WEIGHTS)) / WEIGHTS
    step = 1e-6 * np.diag(Z * WEIGHTS)
    ends = [[value(objective, Z * WEIGHTS + sign * one) for one in step] for sign in (1, -1)]
    assert_allclose(slopes * np.ones(3), (np.array(ends[0]) - ends[1]) / (2 * step.diagonal()), rtol=1e-7)


@pytest.mark.parametrize("objective", [o for o in SMOOTH if o.term.measure is not None], ids=repr)
def test_factors_of_slopes_fall_with_levels_and_weights_as_they_say(objective: fo.Objective) -> None:
    kind, log_z = objective.term.kind, np.log(Z)

    def by_shares(levels: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
        return [curve.log_slopes(log_z) - np.log(weights) for curve in kind.curves(levels, weights)]

    for k in range(3):
        one = 1e-6 * np.eye(3)[k]
        by_level = [by_shares(log_z + sign * one, WEIGHTS) for sign in (1, -1)]
        by_weight = [by_shares(log_z, WEIGHTS * np.exp(sign * one)) for sign in (1, -1)]
        for p, curve in enumerate(kind.curves(log_z, WEIGHTS)):
            assert curve.common is not None
            for (up, down), power in ((by_level, curve.common.power), (by_weight, 1.0)):
                change = (up[p] - down[p]) / 2e-6
                assert_allclose(change, np.full(3, -power * curve.common.parts[k]), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("objective", [fo.AlphaFair(300, fo.Tasks()), fo.FairnessEfficiency(300, -2, fo.Tasks())])
def test_slopes_of_large_alpha_are_finite_in_logarithms(objective: fo.Objective) -> None:
    z = np.array([1e-12, 2e-12, 1e12])
    kind = objective.term.kind
    logs = [curve.log_slopes(np.log(z)) for curve in kind.curves(np.log(z), WEIGHTS)]
    assert np.isfinite(logs).all() and np.isfinite(kind.log_unit(np.log(z), WEIGHTS))
    assert logs[0][0] - logs[0][1] == pytest.approx(300 * np.log(2) - np.log(2.5), rel=1e-9)  # powers of 1e3600


@pytest.mark.parametrize("objective", SMOOTH, ids=repr)
def test_the_rate_is_that_of_the_value_as_levels_weights_and_alpha_change(objective: fo.Objective) -> None:
    dz, dw = np.array([0.3, -0.2, 0.5]), np.array([0.1, 0.4, -0.3])
    term, alpha = objective.term, objective.term.alpha
    d_alpha = 0.0 if alpha in (None, 0, 1) else 0.7

    def at(step: float) -> float:
        moved = objective
        if d_alpha and term.measure is None:
            moved = replace(objective, alpha=alpha + step * d_alpha)
        elif d_alpha:
            beta = alpha + step * d_alpha
            moved = replace(objective, beta=beta, lam=(1 - beta) / beta)
        weights = WEIGHTS + step * dw
        return value(moved, (Z + step * dz) * weights, weights)

    rate = term.kind.rate(Z, WEIGHTS, dz, dw, d_alpha)
    assert rate == pytest.approx((at(1e-6) - at(-1e-6)) / 2e-6, rel=1e-6)


def test_a_measure_on_its_edge_adds_up_no_function_for_each_user() -> None:
    """Its optimum is that of a sum over users; the measure is a power of that sum."""
    assert fo.FairnessEfficiency(2, -0.5).by_user(POOL) is None


def test_tiers_and_mechanisms_have_no_only_term() -> None:
    assert only_term(2 * fo.MaxMin()).factor == 2
    assert only_term(fo.MaxMin().then(fo.Total())) is None
    assert only_term(None) is None


@dataclass(frozen=True)
class SecondTwice(Kind):
    """Logarithms, the second user's twice; its ``alpha`` is not that of alpha-fairness."""

    alpha: float = 1.0

    def expression(self, share: Any, model: Any) -> Any:
        return np.array([1.0, 2.0]) @ cp.log(model.share(share))

    def value(self, share: Any, point: Any) -> float:
        return float(np.array([1.0, 2.0]) @ np.log(point.share(share)))


@dataclass(frozen=True, repr=False)
class OfAnOwnKind(fo.Objective):
    def terms(self) -> tuple[Term, ...]:
        return (Term(1.0, SecondTwice(), fo.Tasks()),)


def test_a_kind_of_ones_own_is_not_taken_for_what_it_shares_a_name_with() -> None:
    term = OfAnOwnKind().term
    assert (term.alpha, term.ranks, term.measure, term.is_order) == (None, None, None, False)
    a = fo.Policy(OfAnOwnKind()).allocate(fo.Instance([[1], [1]], [3]))
    assert_allclose(a.tasks, [1, 2], rtol=1e-4)


def with_terms(*terms: object) -> type[fo.Objective]:
    """A class of the user's own whose terms are these."""

    @dataclass(frozen=True, repr=False)
    class Mine(fo.Objective):
        def terms(self):
            return terms

    return Mine


class Convex(Power):
    """A subclass of a kind that ships, which contradicts what it inherits."""


class Claimed(Kind):
    """A kind that says that fairopt knows it."""

    is_known = True


@pytest.mark.parametrize(
    "term",
    [
        lambda: Term(1.0, Power(-1.0), fo.Tasks()),
        lambda: Term(1.0, Power(float("nan")), fo.Tasks()),
        lambda: Term(1.0, Ranked((1.0, 2.0)), fo.Tasks()),
        lambda: Term(1.0, Spread(0.5), fo.Tasks()),
        lambda: Term(1.0, Convex(2.0), fo.Tasks()),
        lambda: Term(1.0, Claimed(), fo.Tasks()),
        lambda: Term(1.0, fo.FairnessEfficiency(0.5, 1.0).term.kind, fo.Tasks()),
        lambda: Term(1.0, Linear(), None),
        lambda: "a text",
    ],
)
def test_terms_of_a_users_own_on_which_methods_cannot_rely_are_refused(term):
    with pytest.raises(fo.errors.InvalidBlock):
        fo.Policy(with_terms(term())())
    with pytest.raises(fo.errors.InvalidBlock):
        fo.Policy(fo.Total(), [with_terms(term())() >= 0.1])


@pytest.mark.parametrize("factor", [-1.0, float("nan"), float("inf")])
def test_a_factor_that_is_no_number_above_zero_is_refused(factor):
    with pytest.raises(fo.errors.InvalidBlock, match="factor"):
        Term(factor, Linear(), fo.Tasks())


def test_an_order_stands_alone_in_terms_too():
    order = Term(1.0, Order(), fo.Tasks())
    assert fo.Policy(with_terms(order)()).allocate(fo.Instance([[1], [1]], [2])).tasks.tolist() == [1.0, 1.0]
    with pytest.raises(fo.errors.InvalidBlock, match="order"):
        fo.Policy(with_terms(order, Term(1.0, Linear(), fo.Tasks()))())
    with pytest.raises(fo.errors.InvalidBlock, match="order"):
        fo.Policy(fo.Total(), [with_terms(order)() >= 0.1])


def test_a_kind_of_a_users_own_names_the_method_that_it_lacks():
    @dataclass(frozen=True)
    class Nothing(Kind):
        pass

    policy = fo.Policy(with_terms(Term(1.0, Nothing(), fo.Tasks()))())
    with pytest.raises(fo.errors.InvalidBlock, match=r"Nothing has no expression\(share, model\); write it"):
        policy.allocate(fo.Instance([[1], [1]], [2]))
