"""Rates under a budget of time: the problems of Gavel and of resalloc, beside other ways to the same answers.

Each job has a unit of time, to be split over types of devices on which it runs at different rates; devices of all types
together have half of the time that jobs would like to have. Max-min of rates is a policy of Gavel (Narayanan et al.
2020), a linear program; by hand it is written in CVXPY and solved by ECOS and by HiGHS. The sum of logarithms of rates
is the problem of Agrawal et al. (2022), who solve it by prices: quasi-Newton steps on the dual function, whose parts by
user have a closed form. By hand that is SciPy's L-BFGS-B with the parts by bisection, and tasks scaled down to
capacities; and CVXPY with ECOS, or Clarabel.

Every answer is made to fit, and none may be better than fairopt's by more than what is certified. Seconds are of the
processor; whose last run would take longer than --patience seconds for the next size is not run again. ``exponent`` is
the growth of fairopt's time since the row above.

Run: python benchmarks/rates.py [--users 1000,10000,100000,1000000 --patience 60 --repeats 3]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from common import arguments, interleaved, median, show
from scipy.optimize import minimize

import fairopt as fo
from fairopt.proof.gate import judge
from fairopt.solve.cluster.alpha_fair import solve_alpha_fair_on_servers
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings

Array = np.ndarray
BISECTIONS = 45


class Numbers:
    """An array that a block holds: told apart from others by identity."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=float)


@dataclass(frozen=True, repr=False)
class Rate(fo.Share):
    """Work done in a unit of time, by type of device."""

    held: Numbers

    def __repr__(self) -> str:
        return "Rate()"

    def per_task(self, instance: fo.Instance) -> Array:
        return self.held.values


def rates_of(n: int, types: int, seed: int) -> tuple[Array, Array]:
    """Rates relative to the mean of each job's own, on faster and faster types, and devices by type."""
    rates = np.random.default_rng(seed).uniform(0.2, 1, (n, types)) * np.linspace(1, 3, types)
    return rates / rates.mean(axis=1, keepdims=True), np.full(types, n / (2.0 * types))


def ours(rates: Array, devices: Array, objective: Callable[[fo.Share], fo.Objective]) -> fo.Allocation:
    """As a user would ask."""
    jobs = fo.Instance(np.ones((len(rates), 1)), devices[:, None], task_limits=np.ones(len(rates)))
    return fo.Policy(objective(Rate(Numbers(rates)))).allocate(jobs)


def gate_part(rates: Array, devices: Array, objective: Callable[[fo.Share], fo.Objective]) -> float:
    """Seconds of the gate for the first proposal."""
    jobs = fo.Instance(np.ones((len(rates), 1)), devices[:, None], task_limits=np.ones(len(rates)))
    program = Program(jobs, objective(Rate(Numbers(rates))), ())
    proposal = next(solve_alpha_fair_on_servers(program, Settings()))
    begun = time.process_time()
    judge(program, proposal)
    return time.process_time() - begun


def by_cvxpy(rates: Array, devices: Array, objective: Callable[[Any], Any], solver: str) -> Array:
    """The model as it is written by hand."""
    time_on = cp.Variable(rates.shape, nonneg=True)
    rate = cp.sum(cp.multiply(rates, time_on), axis=1)
    conditions = [cp.sum(time_on, axis=1) <= 1, cp.sum(time_on, axis=0) <= devices]
    cp.Problem(cp.Maximize(objective(rate)), conditions).solve(solver=solver)
    return np.asarray(time_on.value)


def by_prices(rates: Array, devices: Array) -> Array:
    """The sum of logarithms by quasi-Newton steps on the dual function of the prices of devices."""
    n, types = rates.shape
    every = np.arange(n)

    def response(prices: Array) -> tuple[float, Array]:
        low, high = np.zeros(n), np.ones(n)  # the price of a job's own time: it is used up where the sum of both is 1
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            best = np.argmax(rates / (prices + middle[:, None]), axis=1)
            short = prices[best] + middle < 1
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        first, last = (np.argmax(rates / (prices + at[:, None]), axis=1) for at in (low, high))
        on_first, on_last = 1 / (prices[first] + low), 1 / (prices[last] + high)  # time that it would use there
        part = np.clip(np.where(on_first > on_last, (1 - on_last) / np.maximum(on_first - on_last, 1e-300), 1), 0, 1)
        time_on = np.zeros_like(rates)
        time_on[every, first] += part * on_first
        time_on[every, last] += (1 - part) * on_last
        worth = np.log((rates * time_on).sum(axis=1)) - time_on @ prices
        return float(worth.sum() + devices @ prices) / n, time_on

    def dual(logs: Array) -> tuple[float, Array]:
        prices = np.exp(logs)
        value, time_on = response(prices)
        return value, prices * (devices - time_on.sum(axis=0)) / n

    found = minimize(dual, np.full(types, -1.0), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
    return response(np.exp(found.x))[1]


def fitted(devices: Array, time_on: Array) -> Array:
    """Made to fit: no job has more than its time, no type more than its devices."""
    time_on = np.maximum(time_on, 0.0)
    time_on = time_on / np.maximum(time_on.sum(axis=1, keepdims=True), 1.0)
    return np.asarray(time_on / np.maximum(time_on.sum(axis=0) / devices, 1.0))


PROBLEMS: dict[str, tuple[int, Callable[[fo.Share], fo.Objective], Callable[[Array], float], dict[str, Any]]] = {
    "max-min of rates": (
        3,
        fo.MaxMin,
        lambda rate: float(rate.min()),
        {name: partial(by_cvxpy, objective=cp.min, solver=name) for name in ("ECOS", "HIGHS")},
    ),
    "sum of logs of rates": (
        4,
        partial(fo.AlphaFair, 1),
        lambda rate: float(np.exp(np.log(rate).mean())),
        {"prices by hand": by_prices}
        | {
            name: partial(by_cvxpy, objective=lambda rate: cp.sum(cp.log(rate)), solver=name)
            for name in ("ECOS", "CLARABEL")
        },
    ),
}


def beside(problem: str, users: list[int], repeats: int, patience: float, seed: int) -> list[dict[str, Any]]:
    """fairopt and the others on ever more jobs."""
    types, objective, value, others = PROBLEMS[problem]
    last: dict[str, tuple[int, float]] = {}
    rows: list[dict[str, Any]] = []
    for n in users:
        rates, devices = rates_of(n, types, seed)
        a = ours(rates, devices, objective)
        best = value(a.shares)
        seconds = median(interleaved({"": partial(ours, rates, devices, objective)}, repeats, time.process_time)[""])
        row: dict[str, Any] = {
            "problem": problem,
            "users": n,
            "types": types,
            "fairopt s": seconds,
            "gap": a.certificate.gap,
            "gate s": gate_part(rates, devices, objective),
            "exponent": np.log(seconds / rows[-1]["fairopt s"]) / np.log(n / rows[-1]["users"]) if rows else np.nan,
        }
        for name, solve in others.items():
            before, took = last.get(name, (n, 0.0))
            row |= {f"{name} s": np.nan, f"{name} short": np.nan}
            if took * n / before > patience:
                continue
            begun = time.process_time()
            time_on = solve(rates, devices)
            spent = time.process_time() - begun
            if spent < 1.0:
                spent = median(interleaved({"": partial(solve, rates, devices)}, repeats, time.process_time)[""])
            last[name] = n, spent
            short = 1.0 - value((rates * fitted(devices, time_on)).sum(axis=1)) / best
            if short < -1e-6:
                raise AssertionError(f"{problem}, {n} jobs: {name} is better by {-short:.1e} than what is certified")
            row |= {f"{name} s": spent, f"{name} short": short}
        rows.append(row)
    return rows


def main() -> None:
    """Both problems, from 1,000 jobs to as many as are asked for."""
    options = arguments(str(__doc__), users=[1000, 10_000, 100_000, 1_000_000], patience=60.0, repeats=3, seed=0)
    for k, problem in enumerate(PROBLEMS):
        rows = beside(problem, options.users, options.repeats, options.patience, options.seed)
        show(f"{problem} under a budget of time", rows, f"rates-{k}")


if __name__ == "__main__":
    main()
