"""Objectives that are defined only above a level, as Nash bargaining, against alpha-fairness of what is above it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.algebra import drop_towards_zero
from fairopt.solve.cone import newton
from fairopt.solve.dispatch import best
from fairopt.solve.form.program import Program, objective_form
from fairopt.solve.settings import Settings

KINDS: dict[str, Callable[[cp.Expression], cp.Expression]] = {
    "log": lambda x: cp.sum(cp.log(x)),
    "sqrt": lambda x: cp.sum(cp.sqrt(x)),
    "geo_mean": lambda x: cp.geo_mean(x, approx=False),
}
ALPHA = {"log": 1.0, "sqrt": 0.5, "geo_mean": 1.0}  # of the alpha-fairness of what is above the level


@dataclass(frozen=True, repr=False)
class Above(fo.Objective):
    """What users have above a level d: of tasks, or of another share."""

    kind: str
    d: float | tuple[float, ...]
    share: fo.Share = field(default_factory=fo.Tasks)

    def expression(self, model: fo.Model) -> cp.Expression:
        return KINDS[self.kind](model.share(self.share) - np.array(self.d))


@dataclass(frozen=True, repr=False)
class Fixed(fo.Share):
    coefficients_given: tuple[float, ...]

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return np.array(self.coefficients_given)


def moved(instance: fo.Instance, kind: str, d: float, share: fo.Share) -> np.ndarray:
    """The tasks by alpha-fairness on what is left once each user has the level, by prices: no cone solver."""
    c = share.coefficients(instance)
    left = instance.replace(capacities=instance.capacities - (d / c) @ instance.demands)
    above = fo.Policy(fo.AlphaFair(ALPHA[kind], Fixed(tuple(c.tolist())))).allocate(left)
    assert above.certificate.method == "prices"
    return d / c + above.tasks


@pytest.mark.parametrize("share", [fo.Tasks(), fo.DominantShare()], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_what_users_have_above_a_level_is_shared_out_however_high_the_level_is(kind: str, share: fo.Share) -> None:
    rng = np.random.default_rng([len(kind), len(repr(share))])
    for _ in range(2):
        n, m = rng.integers(2, 7), rng.integers(1, 4)
        instance = fo.Instance(rng.integers(1, 10, (n, m)), rng.integers(20, 100, m))
        most = fo.Policy(fo.MaxMin(share)).allocate(instance).objective
        for part in (0.1, 0.5, 0.9):
            answer = fo.Policy(Above(kind, part * most, share)).allocate(instance)
            assert answer.certificate.ok
            np.testing.assert_allclose(answer.tasks, moved(instance, kind, part * most, share), rtol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capacity, d", [(1, 0.24), (1, 0.26), (1, 0.49), (2, 0.6), (2, 0.99)])
def test_a_level_above_half_of_the_answer_is_no_obstacle(kind: str, capacity: float, d: float) -> None:
    answer = fo.Policy(Above(kind, d)).allocate(fo.Instance([[1], [1]], [capacity]))
    np.testing.assert_allclose(answer.tasks, capacity / 2, rtol=1e-3)


def test_nash_bargaining_on_the_demo_is_certified() -> None:
    answer = fo.Policy(Above("log", 0.08, fo.DominantShare())).allocate(fo.datasets.demo())
    assert answer.certificate.ok and answer.shares.min() > 0.08


@pytest.mark.parametrize("kind", KINDS)
def test_a_domain_that_no_allocation_reaches_is_named_with_the_largest_common_level(kind: str) -> None:
    objective = Above(kind, 1.5)
    with pytest.raises(
        fo.errors.Infeasible, match=r"the largest common level of users 'user1' and 'user2' is 1$"
    ) as caught:
        fo.Policy(objective).allocate(fo.Instance([[1], [1]], [2]))
    assert caught.value.conflict == ("the capacity of resource1", f"the domain of `{objective!r}`")


def test_an_objective_and_its_sums_and_levels_are_answered_above_a_level() -> None:
    pool, above = fo.Instance([[1], [1]], [2.5]), Above("log", 0.9)
    for policy in (
        fo.Policy(above + 0.1 * fo.Total(fo.Tasks())),
        fo.Policy(above.then(fo.Total(fo.Tasks()))),
        fo.Policy(fo.Leximin(), [above >= -2.2]),
    ):
        np.testing.assert_allclose(policy.allocate(pool).tasks, 1.25, rtol=1e-3)
    problem = fo.Policy(above).problem(pool)
    problem.solve(solver="CLARABEL")
    assert fo.Policy(above).certify(problem, pool).certificate.ok


def test_the_unit_of_a_gap_is_as_before_where_half_of_the_point_is_inside() -> None:
    for f in (np.sqrt, np.log, lambda t: -(t**-5.0), lambda t: np.log(t - 0.4)):
        assert drop_towards_zero(f) == min(abs(f(1.0) - f(0.5)), abs(f(1.0) - f(1.0 - 1e-4)) / 1e-4)


@pytest.mark.parametrize("above", [0.4, 1e-3, 1e-6, 1e-9])
def test_the_unit_of_a_gap_does_not_grow_with_the_slope_near_the_boundary(above: float) -> None:
    """The slope of a logarithm there is 1 / above: in such a unit any gap is small."""
    with np.errstate(invalid="ignore", divide="ignore"):
        assert np.log(2) * (1 - 1e-6) <= drop_towards_zero(lambda t: np.log(t - (1 - above))) <= 40
        assert drop_towards_zero(lambda t: np.sqrt(t - (1 - above))) <= above**0.5 * (1 + 1e-6)


def test_the_unit_along_a_ray_that_leaves_the_objective_alone_stays_in_the_domain() -> None:
    """The value depends on the difference of shares alone: the way is towards equal parts, where it is not defined."""

    @dataclass(frozen=True, repr=False)
    class Ahead(fo.Objective):
        def expression(self, model: fo.Model) -> cp.Expression:
            x = model.tasks
            return -cp.inv_pos(x[0] - x[1]) + 0 * cp.sum(x)

    program = Program(fo.Instance([[1], [1]], [1]), Ahead(), ())
    assert 0 < program.objective.unit(program.point(np.array([1.0, 0.0]))) < np.inf


def test_newton_starts_inside_the_domain() -> None:
    program = Program(fo.Instance([[1], [1], [2]], [10]), Above("log", (7.0, 0.0, 0.2)), ())
    answer = best(program, newton.solve_by_newton(program, Settings()))
    assert answer.ok
    np.testing.assert_allclose(answer.tasks, [7 + 2.6 / 3, 2.6 / 3, 0.2 + 1.3 / 3], rtol=1e-3)


def test_an_objective_is_scaled_where_it_is_defined() -> None:
    """At even tasks, 5 each, the logarithm of 1e6 times what is above 7 is not."""
    variable = cp.Variable(2)
    program = Program(fo.Instance([[1], [1]], [10]), Above("sqrt", 7e6, Fixed((1e6, 1e6))), ())
    model = fo.Model(program.instance, variable, np.full(2, 5.0))
    _, factor, _ = objective_form(program.objective, model, variable)
    assert factor is not None and factor > 1e3


def test_no_warning_of_cvxpy_reaches_the_caller_of_a_certified_answer() -> None:
    """CVXPY warns of bundles in three dimensions, and of means that it approximates."""

    @dataclass(frozen=True, repr=False)
    class Held(fo.Objective):
        def expression(self, model: fo.Model) -> cp.Expression:
            return cp.geo_mean(model.tasks - 0.3) + cp.min(model.bundles[[0, 1], :, 0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = fo.Policy(Held()).allocate(fo.Instance([[1], [1]], [1]))
    assert answer.certificate.ok
