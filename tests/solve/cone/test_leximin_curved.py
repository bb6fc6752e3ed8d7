"""Leximin under conditions of one's own that are not linear: against linear programs, and bisections by hand."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from oracle.brute_leximin import Polytope, leximin
from scipy.optimize import brentq

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program

SHARE = fo.DominantShare()


@dataclass(frozen=True)
class LeastMixture(fo.Constraint):
    """The least of several mixtures of shares is at a level or above."""

    mixtures: tuple[tuple[float, ...], ...]
    level: float

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        return {"least": cp.min(np.array(self.mixtures) @ model.share(SHARE)) >= self.level}


@dataclass(frozen=True)
class JainIndex(fo.Constraint):
    """Jain's index of the shares is at a level or above."""

    index: float

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        s = model.share(SHARE)
        return {"Jain": cp.norm(s) <= cp.sum(s) / np.sqrt(self.index * s.size)}


@dataclass(frozen=True)
class Logarithms(fo.Constraint):
    """Weighted logarithms of shares add up to a level or above."""

    weights: tuple[float, ...]
    level: float

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        return {"logarithms": cp.sum(cp.multiply(np.array(self.weights), cp.log(model.share(SHARE)))) >= self.level}


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_the_least_of_mixtures_is_the_leximin_under_a_row_for_each(servers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    demands = rng.uniform(0.5, 4, (n, 3)) * (rng.random((n, 3)) < 0.8) + np.eye(n, 3)
    instance = fo.Instance(demands, 10 * n * rng.uniform(0.5, 2, (servers, 3)))
    mixtures = np.where(rng.random((3, n)) < 0.6, rng.random((3, n)), 0.0) + np.eye(3, n)
    free = leximin(Polytope.of(instance), instance.dominant_shares, instance.weights)
    level = 1.1 * float((mixtures @ free).min())
    polytope = Polytope.of(instance)
    for row in mixtures:
        polytope.at_most(-np.outer(row * instance.dominant_shares, np.ones(servers)), -level)
    right = leximin(polytope, instance.dominant_shares, instance.weights)
    a = fo.Policy(fo.Leximin(), [LeastMixture(tuple(map(tuple, mixtures.tolist())), level)]).allocate(instance)
    np.testing.assert_allclose(a.shares, right, rtol=2e-6)


@pytest.mark.parametrize("seed", range(6))
def test_under_jain_s_index_the_largest_shares_are_cut_at_one_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    limits = np.sort(rng.uniform(0.1, 1.0, n))
    instance = fo.Instance(np.ones((n, 1)), [n], task_limits=limits)  # shares are tasks / n; all limits fit

    def jain(s: np.ndarray) -> float:
        return float(s.sum() ** 2 / (n * (s**2).sum()))

    index = (1.0 + jain(limits)) / 2
    level = brentq(lambda h: jain(np.minimum(limits, h)) - index, limits[0], limits[-1], xtol=1e-14)
    policy = fo.Policy(fo.Leximin(), [JainIndex(index)])
    a = policy.allocate(instance)
    np.testing.assert_allclose(a.tasks, np.minimum(limits, level), rtol=2e-6)
    program = Program(instance, policy.objective, policy.constraints)
    kept = restored(program, json.loads(json.dumps(a.evidence[0])), a.certificate.solver)
    assert gate.judge(program, Proposal("again", program.gather(a.tasks_by_server), kept)).ok
    assert not gate.judge(program, Proposal("again", 0.99 * program.gather(a.tasks_by_server), kept)).ok


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_levels_that_hang_on_lower_ones_by_a_square_root_are_said_to(seed: int) -> None:
    """Under logarithms users of large weight stand above a common level, as the condition alone says how far."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    weights = rng.uniform(0.2, 2.0, n)
    instance = fo.Instance(np.ones((n, 1)), [1.0])

    def at(t: float) -> np.ndarray:  # the largest sum of logarithms of shares that are t or above
        per = brentq(lambda k: np.maximum(t, k * weights).sum() - 1.0, 0.0, 1.0 / weights.max(), xtol=1e-15)
        return np.maximum(t, per * weights)

    best = weights / weights.sum()
    level = 0.5 * (weights @ np.log(np.full(n, 1 / n)) + weights @ np.log(best))
    lowest = brentq(lambda t: weights @ np.log(at(t)) - level, best.min(), 1 / n * (1 - 1e-9), xtol=1e-15)
    a = fo.Policy(fo.Leximin(), [Logarithms(tuple(weights.tolist()), float(level))]).allocate(instance)
    assert a.shares.min() == pytest.approx(lowest, rel=2e-6)
    assert (at(lowest) > lowest).any()
    assert "given the lower ones as returned" in a.certificate.assumed
    np.testing.assert_allclose(a.shares, at(lowest), rtol=1e-4)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_leximin_after_alpha_fairness_keeps_its_value_and_levels_its_ties(alpha: float) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        instance = fo.Instance(rng.uniform(0.5, 4, (5, 2)), [40.0, 60.0])
        first = fo.FDS(alpha).allocate(instance)
        a = fo.Policy(fo.AlphaFair(alpha).then(fo.Leximin())).allocate(instance)
        assert len(a.certificate.gaps) == 2
        np.testing.assert_allclose(a.shares, first.shares, rtol=5e-3)
        assert a.shares.min() >= first.shares.min() * (1 - 1e-7)


def test_levels_of_a_single_point_do_not_depend_on_the_last_digits() -> None:
    rng = np.random.default_rng(1)
    demands, policy = rng.uniform(0.5, 4, (5, 2)), fo.Policy(fo.AlphaFair(0.5).then(fo.Leximin()))
    right = policy.allocate(fo.Instance(demands, [40.0, 60.0])).tasks
    for _ in range(5):
        nudged = demands * (1 + 4e-16 * rng.integers(-2, 3, demands.shape))
        np.testing.assert_allclose(policy.allocate(fo.Instance(nudged, [40.0, 60.0])).tasks, right, rtol=1e-6)


@dataclass(frozen=True)
class Spread(fo.Constraint):
    """The standard deviation of dominant shares is at a level or below."""

    level: float
    squares: bool = False

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        s = model.share(SHARE)
        apart = s - cp.sum(s) / s.size
        if self.squares:
            return {"spread": cp.sum_squares(apart) <= s.size * self.level**2}
        return {"spread": cp.norm(apart) <= s.size**0.5 * self.level}


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("seed", [0, 3, 23])
def test_under_a_binding_spread_the_lowest_level_decides_the_others(seed: int, squares: bool) -> None:
    """The set with the largest lowest level is a single point: what max-min finds, to the root of its tolerance."""
    spread, instance = Spread(0.01, squares), fo.datasets.log_uniform(6, 3, seed=seed)
    fairest = fo.Policy(fo.MaxMin(fo.Tasks()), [spread]).allocate(instance)
    a = fo.Policy(fo.Leximin(fo.Tasks()), [spread]).allocate(instance)
    assert a.tasks.min() == pytest.approx(fairest.tasks.min(), rel=1e-8)
    np.testing.assert_allclose(a.tasks, fairest.tasks, rtol=1e-4)
    assert a.share(SHARE).std() == pytest.approx(0.01, rel=1e-7)
    assert a.certificate.block_violation < 1e-9


@pytest.mark.parametrize("level", [1e-2, 1e-3])
def test_a_single_point_is_proved_on_several_servers_with_a_user_at_its_limit(level: float) -> None:
    spread, instance = Spread(level), fo.datasets.demo()
    fairest = fo.Policy(fo.MaxMin(fo.Tasks()), [spread]).allocate(instance)
    a = fo.Policy(fo.Leximin(fo.Tasks()), [spread]).allocate(instance, solver="CLARABEL")
    np.testing.assert_allclose(a.tasks, fairest.tasks, rtol=1e-4)
    assert a.tasks[1] == pytest.approx(instance.task_limits[1], rel=1e-9)
    assert a.certificate.tried[-1].status == "optimal (1 programs)"  # later levels have no interior


def test_where_solvers_differ_the_levels_of_a_single_point_are_the_same() -> None:
    instance, policy = fo.datasets.log_uniform(6, 3, seed=1), fo.Policy(fo.Leximin(fo.Tasks()), [Spread(0.01)])
    tasks = [policy.allocate(instance, solver=solver).tasks for solver in ("CLARABEL", "SCS")]
    np.testing.assert_allclose(tasks[0], tasks[1], rtol=1e-7)


@dataclass(frozen=True)
class LargestNorm(fo.Constraint):
    """The 3.3-norm of shares is at a level or below: CVXPY approximates its power unless asked for power cones."""

    level: float

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        return {"norm": cp.pnorm(model.share(SHARE), 3.3) <= self.level}


def test_powers_that_cvxpy_approximates_leak_no_warning() -> None:
    instance = fo.Instance([[1, 2], [2, 1]], [4, 4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fo.Policy(fo.Leximin(), [LargestNorm(0.3)]).allocate(instance)
        fo.Policy(fo.AlphaFair(0.3).then(fo.Leximin())).allocate(instance)


@dataclass(frozen=True)
class AllAtZero(fo.Constraint):
    """Nobody runs anything, by a curved condition."""

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        return {"nothing": cp.norm(model.tasks) <= 0}


def test_levels_that_conditions_hold_at_zero_are_refused_with_the_reason() -> None:
    with pytest.raises(fo.errors.NotCertified, match="only levels above zero can be proved"):
        fo.Policy(fo.Leximin(), [AllAtZero()]).allocate(fo.Instance([[1, 2], [2, 1]], [3, 3]))


@pytest.mark.parametrize("objective", [fo.Total(), fo.MaxMin(), fo.AlphaFair(0.5), fo.Leximin()], ids=repr)
def test_constraints_that_leave_nobody_anything_are_said_to(objective: fo.Objective) -> None:
    with pytest.raises(fo.errors.NotCertified, match="the constraints allow all users together at most"):
        fo.Policy(objective, [AllAtZero()]).allocate(fo.Instance([[1, 2], [2, 1]], [3, 3]))


@pytest.mark.parametrize(
    "objective", [fo.AlphaFair(0.5), fo.AlphaFair(1), fo.Total(fo.Tasks()), fo.Leximin(fo.Tasks())], ids=repr
)
def test_squares_that_may_not_exceed_zero_make_shares_equal(objective: fo.Objective) -> None:
    instance = fo.datasets.log_uniform(6, 3, seed=1)
    a = fo.Policy(objective, [Spread(0.0, squares=True)]).allocate(instance)
    np.testing.assert_allclose(a.share(SHARE), fo.DRF().allocate(instance).shares.min(), rtol=1e-6)
