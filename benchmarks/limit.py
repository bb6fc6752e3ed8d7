"""How close a solve on one pool comes to the cost that no method avoids: one evaluation of all users' responses.

The evaluation, on the same numbers, is ``q = G @ p; x = k * q ** (-1 / alpha); G.T @ x`` with the ratios G as a
C-contiguous array of float64, on one BLAS thread: with two it took 7 to 24 ms instead of 4.9, by what else ran. The
solve is the whole call, certificate included, on an instance made before. At the prices that alpha-fairness found the
evaluation must give the tasks of the answer; DRF and 2-DF are measured against that of alpha = 2. Ratios are of
medians; ``by cpu`` is in processor time, so it depends little on what else the machine does. The second table is about
the growth of time with the number of users.

Run: python benchmarks/limit.py [--growth 100000,1000000,10000000 --repeats 9]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from common import arguments, interleaved, median, on_one_thread, show

import fairopt as fo


class Case(NamedTuple):
    """A policy, the alpha of the evaluation it is measured against, and the ratios wanted and aimed at."""

    name: str
    policy: fo.Policy
    alpha: float
    wanted: float
    aim: float


CASES = [
    Case("DRF", fo.DRF(), 2, 4, 2),
    Case("2-DF", fo.KDF(2, short="positive"), 2, 4, 2),
    *(Case(f"FDS {alpha}", fo.FDS(alpha), alpha, 15, 7) for alpha in (0.5, 1, 2, 5)),
]
WIDE = Case("FDS 2", fo.FDS(2), 2, 40, 15)  # of 32 resources
GAP, VIOLATION = 1e-9, 0.0


def evaluation(case: Case, instance: fo.Instance, answer: fo.Allocation) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """All users' responses to prices, and the loads they make."""
    ratios = np.ascontiguousarray(instance.demands / instance.capacities[0], dtype=float)
    share = case.policy.objective.share.coefficients(instance)
    power = -1 / case.alpha
    k = share ** (1 / case.alpha - 1)
    prices = np.ones(instance.n_resources)
    if isinstance(case.policy.objective, fo.AlphaFair):
        prices = answer.evidence_prices[0] * instance.capacities[0]

    def run() -> tuple[np.ndarray, np.ndarray]:
        tasks = k * (ratios @ prices) ** power
        return tasks, ratios.T @ tasks

    return run


def measured(case: Case, instance: fo.Instance, zeros: float, repeats: int) -> dict[str, Any]:
    """Both sides in turn."""
    solve = partial(case.policy.allocate, instance)
    answer = solve()
    evaluate = on_one_thread(evaluation(case, instance, answer))
    certificate = answer.certificate
    if isinstance(case.policy.objective, fo.AlphaFair):
        apart = float(abs(evaluate()[0] / answer.tasks - 1).max())
        if apart > 1e-6:
            raise AssertionError(f"{case.name}, {instance!r}: tasks are {apart:.1e} from the responses to the prices")
    if certificate.gap > GAP or certificate.violation > VIOLATION:
        raise AssertionError(f"{case.name}, {instance!r}: {certificate}")
    sides = {"evaluation": evaluate, "solve": solve}
    seconds, work = interleaved(sides, repeats), interleaved(sides, repeats // 2 + 1, time.process_time)
    ratio = median(seconds["solve"]) / median(seconds["evaluation"])
    return {
        "policy": case.name,
        "users": instance.n_users,
        "resources": instance.n_resources,
        "zeros": zeros,
        "eval ms": 1e3 * median(seconds["evaluation"]),
        "least eval": 1e3 * min(seconds["evaluation"]),
        "solve ms": 1e3 * median(seconds["solve"]),
        "least solve": 1e3 * min(seconds["solve"]),
        "ratio": ratio,
        "of least": min(seconds["solve"]) / min(seconds["evaluation"]),
        "by cpu": median(work["solve"]) / median(work["evaluation"]),
        "wanted": case.wanted,
        "aim": case.aim,
        "verdict": "aim" if ratio <= case.aim else "wanted" if ratio <= case.wanted else "missed",
        "gap": certificate.gap,
        "violation": certificate.violation,
    }


def growth(case: Case, instances: list[fo.Instance], repeats: int) -> dict[str, Any]:
    """Time by number of users, and per user relative to the fewest."""
    seconds = interleaved({str(i.n_users): partial(case.policy.allocate, i) for i in instances}, repeats)
    each = {n: median(taken) / int(n) for n, taken in seconds.items()}
    first = next(iter(each.values()))
    return {
        "policy": case.name,
        **{f"ms at {n}": 1e3 * median(taken) for n, taken in seconds.items()},
        **{f"per user at {n}": value / first for n, value in list(each.items())[1:]},
    }


def main() -> None:
    """Print both tables; fail where an answer is not exact."""
    options = arguments(
        str(__doc__),
        users=1_000_000,
        resources=4,
        wide_users=100_000,
        wide_resources=32,
        zeros=[0.0, 0.1],
        growth=[100_000, 1_000_000],
        repeats=9,
        seed=1,
    )
    rows = []
    for zeros in options.zeros:
        instance = fo.datasets.log_uniform(options.users, options.resources, zeros=zeros, seed=options.seed)
        rows += [measured(case, instance, zeros, options.repeats) for case in CASES]
        wide = fo.datasets.log_uniform(options.wide_users, options.wide_resources, zeros=zeros, seed=options.seed)
        rows.append(measured(WIDE, wide, zeros, options.repeats))
    show("One solve in units of one evaluation of all responses", rows, "limit")
    del instance, wide
    sizes = [fo.datasets.log_uniform(n, options.resources, seed=options.seed) for n in sorted(options.growth)]
    show(
        "Growth with the number of users (zeros 0.1)",
        [growth(c, sizes, options.repeats) for c in CASES],
        "limit-growth",
    )


if __name__ == "__main__":
    main()
