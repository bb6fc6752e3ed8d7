"""Rows made when needed: ordered weights and envy-freeness on one pool, beside linear programs with all rows.

By hand is CVXPY with HiGHS. Ordered weights: a sum of `cp.sum_smallest` by the steps of the weights. Envy-freeness: all
n (n - 1) rows, for max-min one program; of leximin its first level, so that the objectives agree. Times are of the
processor, the median of three calls (one by hand above a second); ``rows`` are those that fairopt made of all rows. The
exponent is that of the growth from the size before.

Run: python benchmarks/cuts.py [--by-hand 400]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
from common import arguments, median, show

import fairopt as fo
from fairopt.checker.instance import named_pairs

FEW = (1.0, 0.5, 0.25)


def pool(n: int, limits: bool = False) -> fo.Instance:
    """Uniform demands of 4 resources; of half of the users few tasks, with ``limits``."""
    rng = np.random.default_rng(n)
    demands = rng.uniform(0.1, 4, (n, 4))
    most = np.where(rng.random(n) < 0.5, rng.uniform(0.05, 1.5, n), np.inf) if limits else None
    return fo.Instance(demands, np.full(4, float(n)), task_limits=most)


def falling(n: int) -> tuple[float, ...]:
    """Weights from 1 to 0.01, all different."""
    return tuple(np.linspace(1, 0.01, n))


def program(instance: fo.Instance, policy: fo.Policy) -> float:
    """The optimum by one linear program with all rows."""
    n, demands = instance.n_users, instance.demands
    x = cp.Variable(n, nonneg=True)
    limited = np.isfinite(instance.task_limits)
    rows = [demands.T @ x <= instance.capacities[0], x[limited] <= instance.task_limits[limited]]
    z = cp.multiply(n * policy.objective.share.coefficients(instance), x)  # near 1: HiGHS's tolerances are absolute
    if isinstance(policy.objective, fo.OrderedWeighted):
        form = sum(
            drop * (cp.sum(z) if k == n else cp.sum_smallest(z, k)) for k, drop in policy.objective.term.kind.steps(n)
        )
    else:
        worth = np.concatenate([(demands / one).min(axis=1) for one in demands])
        j, k = np.divmod(np.flatnonzero(~np.eye(n, dtype=bool)), n)
        rows.append(x[j] >= cp.multiply(worth[j * n + k], x[k]))
        form = cp.sum(z) if isinstance(policy.objective, fo.Total) else cp.min(z)
    return float(cp.Problem(cp.Maximize(form), rows).solve(solver="HIGHS")) / n


def seconds(call: Callable[[], Any], enough: float = 1.0) -> tuple[float, Any]:
    """Processor seconds of a call, the median of three if it takes less than ``enough``, and what it gives."""
    taken: list[float] = []
    while len(taken) < 3 and (not taken or taken[0] < enough):
        begun = time.process_time()
        found = call()
        taken.append(time.process_time() - begun)
    return median(taken), found


def cases() -> dict[str, tuple[Callable[[int], fo.Policy], tuple[int, ...], bool, int]]:
    """By name: the policy of n users, sizes, whether half have limits, and sizes by hand in parts of ``--by-hand``."""
    envy_free = [fo.EnvyFree()]
    return {
        "OrderedWeighted((1, .5, .25))": (
            lambda n: fo.Policy(fo.OrderedWeighted(FEW)),
            (100, 1_000, 10_000),
            False,
            25,
        ),
        "OrderedWeighted, n weights": (
            lambda n: fo.Policy(fo.OrderedWeighted(falling(n))),
            (100, 1_000, 10_000, 100_000),
            False,
            1,
        ),
        "OrderedWeighted, n weights, limits": (
            lambda n: fo.Policy(fo.OrderedWeighted(falling(n))),
            (100, 1_000, 10_000, 100_000),
            True,
            1,
        ),
        "Leximin, EnvyFree": (lambda n: fo.Policy(fo.Leximin(), envy_free), (200, 400, 2_000, 10_000), False, 1),
        "MaxMin(Tasks), EnvyFree": (lambda n: fo.Policy(fo.MaxMin(fo.Tasks()), envy_free), (200, 400, 2_000), False, 1),
        "Leximin(Tasks), EnvyFree": (
            lambda n: fo.Policy(fo.Leximin(fo.Tasks()), envy_free),
            (200, 400, 2_000, 10_000),
            False,
            1,
        ),
        "AlphaFair(.5), EnvyFree": (lambda n: fo.Policy(fo.AlphaFair(0.5), envy_free), (200, 400, 2_000), False, 0),
        "AlphaFair(.5) + Total, EnvyFree": (
            lambda n: fo.Policy(fo.AlphaFair(0.5) + 0.1 * fo.Total(), envy_free),
            (200, 400, 2_000),
            False,
            0,
        ),
        "Total, EnvyFree": (lambda n: fo.Policy(fo.Total(), envy_free), (200, 400, 2_000), False, 1),
    }


def made(allocation: fo.Allocation) -> int | None:
    """Rows that the evidence of an answer names; None where it names none."""
    (evidence,) = allocation.evidence
    pairs = {tuple(pair) for pair in named_pairs(evidence)} if evidence else set()
    return len(pairs) or None


def run(by_hand: int) -> None:
    """Print the table; raise if answers do not agree."""
    rows = []
    for name, (policy_of, sizes, limits, part) in cases().items():
        before: tuple[int, float] | None = None
        for n in sizes:
            instance, policy = pool(n, limits), policy_of(n)
            ours, answer = seconds(lambda p=policy, i=instance: p.allocate(i), 5.0)
            theirs = times = exponent = None
            if n <= by_hand * part:
                theirs, best = seconds(lambda p=policy, i=instance: program(i, p))
                assert abs(best - answer.objective) <= 1e-6 * abs(best), (name, n, best, answer.objective)
                times = theirs / ours
            if before is not None:
                exponent = float(np.log(ours / before[1]) / np.log(n / before[0]))
            before = n, ours
            rows.append(
                {
                    "case": name,
                    "users": n,
                    "fairopt s": ours,
                    "by hand s": theirs,
                    "times": times,
                    "exponent": exponent,
                    "gap": answer.certificate.gap,
                    "rows": made(answer),
                    "of": n * (n - 1) if policy.constraints else None,
                }
            )
    show("Rows made when needed, and all rows by hand", rows, "cuts")


if __name__ == "__main__":
    run(arguments(__doc__ or "", by_hand=400).by_hand)
