"""Shares that differ by server under limits on tasks: rates under a budget of time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import fairopt as fo
from fairopt.proof.bound import along_hull
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.gate import judge
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program


class Numbers:
    """An array that a block holds: told apart from others by identity."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=float)


@dataclass(frozen=True, repr=False)
class Rate(fo.Share):
    """Work done in a unit of time, by server."""

    held: Numbers

    @property
    def rates(self) -> np.ndarray:
        return self.held.values

    def __repr__(self) -> str:
        return "Rate()"

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return self.rates


def jobs(n: int, servers: int, seed: int, room: float = 0.5, **more: Any) -> tuple[fo.Instance, Rate]:
    """Jobs that each have a unit of time, on devices of several types with room for a part of all time."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.2, 1, (n, servers)) * np.linspace(1, 3, servers)
    more = {"task_limits": np.ones(n)} | more
    return fo.Instance(np.ones((n, 1)), np.full((servers, 1), room * n / servers), **more), Rate(Numbers(rates))


def largest_smallest(instance: fo.Instance, rates: np.ndarray) -> float:
    """Max-min of rates per weight by a linear program on the data as given: one column for each pair, and the level."""
    n, servers = rates.shape
    m = instance.n_resources
    active = instance.task_limits > 0
    upper, right = [], []
    for j in np.flatnonzero(active):
        row = np.zeros(n * servers + 1)
        row[j * servers : (j + 1) * servers] = -rates[j]
        row[-1] = instance.weights[j]
        upper.append(row)
        right.append(0.0)
    for j in np.flatnonzero(np.isfinite(instance.task_limits)):
        row = np.zeros(n * servers + 1)
        row[j * servers : (j + 1) * servers] = 1.0
        upper.append(row)
        right.append(instance.task_limits[j])
    for s, i in np.ndindex(servers, m):
        row = np.zeros(n * servers + 1)
        row[s:-1:servers] = instance.per_server_demands[:, s, i] / instance.capacities[s, i]
        upper.append(row)
        right.append(float(instance.counts[s]))
    bounds = [(0, None if ok else 0) for ok in instance.eligible.ravel()] + [(0, None)]
    cost = np.zeros(n * servers + 1)
    cost[-1] = -1.0
    return -float(linprog(cost, np.array(upper), right, bounds=bounds).fun)


OBJECTIVES = [fo.MaxMin, *(lambda s, a=a: fo.AlphaFair(a, s) for a in (0.5, 1, 2))]


def test_the_cheapest_mix_of_two_rates_is_not_that_of_the_best_price() -> None:
    # rates 1 and 3 at costs 0.1 and 0.6 of a unit of time: twice the slow rate needs half of the time on each
    rates, costs = np.array([[1.0, 3.0]]), np.array([[0.1, 0.6]])
    marginal, multiplier = along_hull(costs / rates, 1.0 / rates, (), np.array([3.0]), np.array([2.0]))
    assert 2.0 * marginal[0] - multiplier[0] == pytest.approx(0.5 * 0.1 + 0.5 * 0.6)


@pytest.mark.parametrize("seed", range(4))
def test_no_linear_program_finds_a_cheaper_mix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    eligible = rng.random((5, 4)) > 0.2
    eligible[:, 0] = True
    instance, rate = jobs(5, 4, seed, task_limits=[1, 1, 0.5, 2, np.inf], eligible=eligible)
    cost = rng.uniform(0, 1, 4) / instance.capacities[:, 0] * np.ones((5, 1))
    target = 0.9 * float(np.where(eligible, rate.rates * np.minimum(instance.task_limits, 9)[:, None], 0).max(1).min())
    per, use = np.where(eligible, cost / rate.rates, np.inf), 1.0 / (rate.rates * instance.task_limits[:, None])
    marginal, multiplier = along_hull(per, use, (), np.full(5, np.inf), np.full(5, target))
    for j in range(5):
        limit = instance.task_limits[j]
        found = linprog(
            cost[j],
            [np.ones(4)] if np.isfinite(limit) else None,
            [limit] if np.isfinite(limit) else None,
            [rate.rates[j]],
            [target],
            bounds=[(0, None if ok else 0) for ok in eligible[j]],
        )
        assert marginal[j] * target - multiplier[j] == pytest.approx(found.fun, rel=1e-9)


LIMITS: dict[str, dict[str, Any]] = {
    "a unit of time each": {},
    "some without a limit": {"task_limits": [1, None, 0.5, None, 2, 1]},
    "a limit that never binds": {"task_limits": [1e6] * 6},
    "a limit of zero": {"task_limits": [0, 1, 1, 1, 1, 1]},
    "limits that all bind": {"room": 50.0},
    "weights over four decades": {"weights": [0.01, 0.1, 1, 1, 10, 100]},
    "one type each": {"eligible": np.eye(3, dtype=bool)[[0, 1, 2, 0, 1, 2]]},
}


@pytest.mark.parametrize("case", LIMITS)
def test_max_min_of_rates_is_that_of_a_linear_program(case: str) -> None:
    instance, rate = jobs(6, 3, 1, **LIMITS[case])
    a = fo.Policy(fo.MaxMin(rate)).allocate(instance)
    assert a.certificate.method == "prices"
    assert a.objective == pytest.approx(largest_smallest(instance, rate.rates), rel=1e-6)


@pytest.mark.parametrize("case", LIMITS)
@pytest.mark.parametrize("alpha", [0.5, 1, 2])
def test_alpha_fair_rates_are_those_of_cones(case: str, alpha: float) -> None:
    instance, rate = jobs(6, 3, 1, **LIMITS[case])
    policy = fo.Policy(fo.AlphaFair(alpha, rate))
    a, b = policy.allocate(instance), policy.allocate(instance, method="cone")
    assert a.certificate.method == "prices"
    np.testing.assert_allclose(a.shares, b.shares, rtol=5e-3)
    assert a.objective == pytest.approx(b.objective, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_of_time_and_work_change_nothing(scale: float) -> None:
    instance, rate = jobs(6, 3, 1)
    other = fo.Instance(instance.demands * scale, instance.capacities * scale, task_limits=instance.task_limits)
    for objective in OBJECTIVES:
        a = fo.Policy(objective(rate)).allocate(instance)
        b = fo.Policy(objective(Rate(Numbers(rate.rates * scale)))).allocate(other)
        np.testing.assert_allclose(b.shares, a.shares * scale, rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_no_prices_bound_below_the_optimum(seed: int) -> None:
    instance, rate = jobs(6, 3, seed, task_limits=[1, None, 0.5, None, 2, 1])
    rng = np.random.default_rng(seed)
    for objective in OBJECTIVES:
        program = Program(instance, objective(rate), ())
        best = program.gather(fo.Policy(objective(rate)).allocate(instance).tasks_by_server)
        for prices in (rng.uniform(0, 1, (1, 3)), 10 ** rng.uniform(-9, 9, (1, 3)), np.zeros((1, 3))):
            wrong = Proposal("prices", 0.9 * best, Prices(program, Dual(prices.T.ravel())))
            assert judge(program, wrong).gap >= 0.1 - 1e-5  # a tenth less than the best, or its logarithm


@pytest.mark.parametrize("seed", range(3))
def test_prices_alone_prove_every_objective_of_rates_as_the_gate_finds_what_limits_charge(seed: int) -> None:
    instance, rate = jobs(6, 3, seed, task_limits=[1, None, 0.5, None, 2, 1])
    for objective in (
        fo.Total(rate),
        fo.AlphaFair(2, rate) + 0.3 * fo.Total(rate),
        fo.AlphaFair(0.5, rate) + fo.AlphaFair(2, rate),
        fo.OrderedWeighted((3, 1), rate),
    ):
        a = fo.Policy(objective).allocate(instance, method="cone")
        program = Program(instance, objective, ())
        dual = Dual((np.array(a.evidence[0]["prices"]) * program.whole_capacities).ravel())
        tasks = program.gather(a.tasks_by_server)
        assert judge(program, Proposal("prices", tasks, Prices(program, dual))).ok, objective
        assert not judge(program, Proposal("prices", 0.99 * tasks, Prices(program, dual))).ok


def test_many_users_who_all_tie_share_the_servers() -> None:
    instance, _ = jobs(5_000, 2, 1)
    rates = np.ones((5_000, 2)) * [1.0, 2.0]
    a = fo.Policy(fo.MaxMin(Rate(Numbers(rates)))).allocate(instance)
    assert a.objective == pytest.approx(0.75, rel=1e-6)  # a quarter of the time on each
    assert a.certificate.method == "prices"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_saved_answers_are_proved_by_arithmetic_alone(objective: Any, tmp_path: Path) -> None:
    instance, rate = jobs(6, 3, 1, task_limits=[1, None, 0.5, None, 2, 1])
    a = fo.Policy(objective(rate)).allocate(instance)
    assert fo.verify(a.save(tmp_path / "rates.json")).ok


def test_a_rate_of_zero_names_the_server_and_the_fix() -> None:
    instance, rate = jobs(6, 3, 1)
    rate.rates[2, 1] = 0.0
    with pytest.raises(fo.errors.OutOfDomain, match=r"user3.* on server 'server2': set eligible to False there"):
        fo.Policy(fo.MaxMin(rate)).allocate(instance)
