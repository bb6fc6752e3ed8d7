"""Sums of one concave function per user on one pool, against a barrier method and exact fractions, and their proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from oracle import exact_lp, sums
from oracle.concave import maximise
from oracle.instances import log_uniform

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.proposal import Proposal
from fairopt.solve.dispatch import best
from fairopt.solve.form.program import Program
from fairopt.solve.pool import interior
from fairopt.solve.pool.interior import solve_sum
from fairopt.solve.settings import Settings

Float = Any


@dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    """The sum of the roots of tasks; with derivatives of what is claimed."""

    power: float = 0.5

    def expression(self, model: fo.Model) -> cp.Expression:
        return cp.sum(cp.sqrt(model.tasks))

    def by_user(self, instance: fo.Instance) -> fo.blocks.Marginal:
        p = self.power
        return fo.blocks.Marginal(lambda x: p * x ** (p - 1), lambda x: p * (p - 1) * x ** (p - 2))


SUMS = [*sums.SUMS, Roots(), Roots() + 0.1 * fo.Total(fo.Tasks())]


def power_sum(c: Float, factor: Float, alpha: float) -> Any:
    """Value, gradient and Hessian of ``sum factor u(c x)``."""

    def function(x: Float) -> tuple[float, Float, Float]:
        z = c * x
        if (z <= 0).any():
            return -np.inf, np.full(len(x), np.nan), np.zeros((len(x), len(x)))
        value = np.log(z) if alpha == 1 else z ** (1 - alpha) / (1 - alpha)
        slope, bend = factor * c * z**-alpha, -alpha * factor * c * c * z ** (-alpha - 1)
        return float(factor @ value), slope, np.diag(bend)

    return function


@pytest.mark.parametrize("limits", [0.0, 0.5])
@pytest.mark.parametrize("first", [0.5, 1.0, 2.0])
def test_sums_of_powers_against_a_barrier_method(first: float, limits: float) -> None:
    instance = log_uniform(np.random.default_rng(int(10 * first)), 5, 3, limits=limits, decades=2)
    c, w = instance.dominant_shares, instance.weights
    parts = [power_sum(c / w, w, first), power_sum(np.ones(5), np.full(5, 0.3), 0.0)]

    def function(x: Float) -> tuple[float, Float, Float]:
        found = [part(x) for part in parts]
        return tuple(map(sum, zip(*found, strict=True)))  # type: ignore[return-value]

    top = np.minimum(instance.task_limits, 1 / instance.ratios.max(axis=1))
    best = maximise(function, np.eye(5), instance.ratios.T, np.ones(instance.n_resources), top)
    a = fo.Policy(fo.AlphaFair(first) + 0.3 * fo.Total(fo.Tasks())).allocate(instance)
    assert a.certificate.method == "prices" and a.certificate.gap < 1e-9
    assert best.low - 1e-9 <= a.objective <= best.high + 1e-9 * abs(best.high)


@pytest.mark.parametrize("objective", SUMS, ids=repr)
@pytest.mark.parametrize("n", [1, 30])
def test_prices_and_cones_agree(objective: fo.Objective, n: int) -> None:
    instance = log_uniform(np.random.default_rng(n), n, 3, limits=0.3)
    a = fo.Policy(objective).allocate(instance)
    assert (a.certificate.ok, a.certificate.method) == (True, "prices")
    other = fo.Policy(objective).allocate(instance, method="cone")
    assert a.objective == pytest.approx(other.objective, rel=1e-6)


def test_linear_sums_are_linear_programs() -> None:
    rng = np.random.default_rng(3)
    demands = rng.integers(0, 5, (6, 3)) + np.eye(6, 3, dtype=int)
    demands[:, 0] += demands.sum(axis=1) == 0
    instance = fo.Instance(demands, [20, 15, 30])
    objective = fo.Total(fo.Tasks()) + fo.Total(fo.ResourceShare(0))
    a = fo.Policy(objective).allocate(instance)
    value = [1 + Fraction(int(d), 20) for d in demands[:, 0]]
    capacities = (20, 15, 30)
    rows = [([Fraction(int(d)) for d in column], Fraction(c)) for column, c in zip(demands.T, capacities, strict=True)]
    best = exact_lp.maximise(value, rows).value
    assert a.certificate.method == "prices"
    assert a.objective == pytest.approx(float(best), rel=1e-9)


def test_users_of_equal_price_share_what_is_left() -> None:
    a = fo.Policy(fo.Total() + fo.Total(fo.Tasks())).allocate(fo.Instance([[1], [1], [1]], [4], task_limits=[1, 9, 9]))
    assert a.certificate.method == "prices" and a.certificate.gap < 1e-9
    assert a.tasks.sum() == pytest.approx(4, rel=1e-9)


def test_bounds_without_a_range_hold_users() -> None:
    instance = fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 10])
    bounds = [fo.MinTasks({"user1": 1.5}), fo.MaxTasks({"user1": 1.5})]
    a = fo.Policy(fo.AlphaFair(1) + fo.Total(fo.Tasks()), bounds).allocate(instance)
    assert a.certificate.method == "prices" and a.tasks[0] == pytest.approx(1.5, rel=1e-9)
    with pytest.raises(fo.errors.Infeasible):
        fo.Policy(fo.AlphaFair(1) + fo.Total(), [fo.MinTasks(4)]).allocate(instance)


@pytest.mark.fast_methods
def test_wrong_derivatives_of_a_block_prove_nothing() -> None:
    instance = log_uniform(np.random.default_rng(5), 4, 2)
    right = fo.Policy(Roots()).allocate(instance)
    a = fo.Policy(Roots(0.7)).allocate(instance)
    assert a.certificate.ok and a.certificate.method == "cone" and a.certificate.tried[0].gap > 1e-3
    assert a.objective == pytest.approx(right.objective, rel=1e-6)


def test_an_expression_that_is_not_concave_is_refused() -> None:
    @dataclass(frozen=True, repr=False)
    class Squares(fo.Objective):
        def expression(self, model: fo.Model) -> cp.Expression:
            return cp.sum_squares(model.tasks)

        def by_user(self, instance: fo.Instance) -> fo.blocks.Marginal:
            return fo.blocks.Marginal(lambda x: 1 / x, lambda x: -1 / x**2)

    with pytest.raises(fo.errors.NotConcave):
        fo.Policy(Squares()).allocate(fo.Instance([[1], [2]], [4]))


@pytest.mark.fast_methods
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (fo.blocks.Marginal(lambda x: 1.0, lambda x: 0 * x), "`slope` gave shape"),
        ((1, 2), "give a fairopt.blocks.Marginal"),
    ],
)
def test_derivatives_of_another_form_are_refused(given: Any, said: str) -> None:
    @dataclass(frozen=True, repr=False)
    class Odd(fo.Objective):
        def expression(self, model: fo.Model) -> cp.Expression:
            return cp.sum(model.tasks)

        def by_user(self, instance: fo.Instance) -> fo.blocks.Marginal:
            return given

    with pytest.raises(fo.errors.InvalidBlock, match=said):
        fo.Policy(Odd()).allocate(fo.Instance([[1], [2]], [4]))


@pytest.mark.fast_methods
@pytest.mark.parametrize("factor", [0.5, 0.999, 1.001, 2.0])
@pytest.mark.parametrize("objective", SUMS[:4] + SUMS[-2:], ids=repr)
def test_other_prices_weaken_the_bound_and_never_break_it(objective: fo.Objective, factor: float) -> None:
    instance = log_uniform(np.random.default_rng(6), 5, 3, limits=0.3)
    a = fo.Policy(objective).allocate(instance)
    program = Program(instance, objective, ())
    kept = restored(program, a.evidence[0], None)
    assert isinstance(kept, Prices)
    # not all by one factor, which is fitted
    prices = kept.dual.prices
    other = Prices(program, Dual(prices * np.where(prices == prices.max(), factor, 1.0)))
    worse = a.tasks * np.array([0.9, 1, 1, 1, 1])
    found = [gate.judge(program, Proposal("made up", x, other)) for x in (a.tasks, worse)]
    unit = objective.unit(program.point(worse))
    assert found[0].gap > a.certificate.gap
    assert found[1].gap * unit >= a.objective - objective.value(program.point(worse)) - 1e-9 * abs(a.objective)


def test_evidence_belongs_to_its_own_program() -> None:
    instance, objective = fo.Instance([[1, 2], [2, 1]], [6, 6]), fo.AlphaFair(1) + fo.Total()
    a = fo.Policy(objective).allocate(instance)
    program, other = Program(instance, objective, ()), Program(instance, objective, (fo.EnvyFree(),))
    kept = restored(program, a.evidence[0], None)
    assert isinstance(kept, Prices)
    dual = kept.dual
    assert gate.judge(program, Proposal("prices", a.tasks, Prices(program, dual))).ok
    assert not gate.judge(program, Proposal("prices", a.tasks, Prices(other, dual))).ok
    assert not gate.judge(other, Proposal("prices", a.tasks, Prices(program, dual))).ok


def test_a_saved_sum_is_proved_from_its_file(tmp_path: Path) -> None:
    instance = log_uniform(np.random.default_rng(7), 4, 2, limits=0.3)
    path = fo.Policy(SUMS[0]).allocate(instance).save(tmp_path / "answer.json")
    assert fo.Allocation.load(path).certificate.gap < 1e-9
    assert fo.verify(path).ok


def test_no_start_is_needed_that_is_near() -> None:
    instance = log_uniform(np.random.default_rng(8), 50, 3)
    program = Program(instance, SUMS[0], ())
    assert program.marginal is not None
    problem = interior.of_program(program, program.marginal)
    with np.errstate(all="ignore"):
        best = interior.solve_pool(problem)
        assert best is not None
        for guess in (best.prices, 1e3 * best.prices, np.array([1e-9, 1.0, 1e9])):
            again = interior.solve_pool(replace(problem), guesses=[guess])
            assert again is not None
            np.testing.assert_allclose(again.prices, best.prices, rtol=1e-6, atol=1e-9 * best.prices.max())


def test_nearly_linear_sums_are_exact_by_prices_where_best_responses_leave_or_exceed_capacities() -> None:
    objective, rng = fo.Total() + 1e-9 * fo.AlphaFair(1, fo.Tasks()), np.random.default_rng(0)
    for _ in range(12):
        program = Program(log_uniform(rng, 6, 3, limits=0.5), objective, ())
        assert best(program, solve_sum(program, Settings())).gap <= 1e-7


def test_multipliers_that_underflow_end_the_steps() -> None:
    program = Program(fo.Instance([[1, 2], [2, 1]], [4, 4]), SUMS[0], ())
    problem = interior.of_program(program, program.marginal)
    point = interior.PoolInterior(problem, np.ones(2), np.full(2, 0.5), interior.COLD)
    point.a[:] = point.prices[:] = 0.0
    with np.errstate(all="ignore"):
        assert not point.run(5)


@dataclass(frozen=True)
class Bent(fo.Objective):
    """The smaller of tasks and ``1 + tasks / 4``, by user."""

    def expression(self, model: fo.blocks.Model) -> cp.Expression:
        return cp.sum(cp.minimum(model.tasks, 1 + model.tasks / 4))

    def by_user(self, instance: fo.Instance) -> fo.blocks.Marginal:
        return fo.blocks.Marginal(lambda x: np.where(x < 4 / 3, 1.0, 0.25), np.zeros_like)


def test_functions_that_are_linear_between_kinks_go_to_linear_programs_at_once() -> None:
    answer = fo.Policy(Bent()).allocate(fo.Instance([[1, 2], [2, 1], [1, 1]], [4, 4]))
    assert answer.certificate.method == "cone" and len(answer.certificate.tried) == 1
    assert answer.objective == pytest.approx(28 / 9)


def test_derivatives_of_all_users_together_serve_pools_of_which_a_sample_is_solved_first() -> None:
    """A block of one's own may hold a number for each user of the instance, and no others."""

    @dataclass(frozen=True, repr=False)
    class Logarithms(fo.Objective):
        rates: tuple[float, ...]

        def expression(self, model: fo.Model) -> cp.Expression:
            return cp.sum(cp.log1p(cp.multiply(self.rates, model.tasks)))

        def by_user(self, instance: fo.Instance) -> fo.blocks.Marginal:
            r = np.array(self.rates)
            return fo.blocks.Marginal(lambda x: r / (1 + r * x), lambda x: -((r / (1 + r * x)) ** 2))

    n = 4 * interior.SAMPLE
    rates = np.random.default_rng(5).uniform(0.5, 2, n)
    answer = fo.Policy(Logarithms(tuple(rates.tolist()))).allocate(fo.Instance(np.ones((n, 1)), [n]))
    assert (answer.certificate.ok, answer.certificate.method) == (True, "prices")
    level = answer.tasks + 1 / rates  # equal where a user has tasks
    np.testing.assert_allclose(level[answer.tasks > 1e-6], level.min(), rtol=1e-5)
