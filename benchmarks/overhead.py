"""What the cone method costs beyond the same model written by hand in CVXPY, with the same solver and tolerances.

Both sides build, compile and solve; fairopt also repairs the answer and proves it. Run: python benchmarks/overhead.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo
from fairopt.formulation.solvers import TIGHT


def by_hand(instance: fo.Instance, alpha: float, solver: str) -> Callable[[], Any]:
    """The model as an expert on solvers would write it: variables near 1, relative capacities, the good form."""

    def run() -> np.ndarray:
        capacities = instance.capacities[0]
        ratios = instance.demands / capacities
        mu = ratios.max(axis=1)
        level = 1.0 / (ratios / mu[:, None]).sum(axis=0).max()
        unit = level / mu
        x = cp.Variable(instance.n_users, nonneg=True)
        if alpha == 0:
            objective = cp.sum(cp.multiply(mu * unit / level, x)) / instance.n_users
        elif alpha == 1:
            objective = cp.sum(cp.log(x))
        else:
            objective = cp.log_sum_exp((1 - alpha) * cp.log(x)) / (1 - alpha)
        problem = cp.Problem(cp.Maximize(objective), [(ratios.T * unit) @ x <= 1])
        problem.solve(solver=solver, ignore_dpp=True, **TIGHT[solver])
        return np.asarray(x.value) * unit

    return run


def main() -> None:
    """Time both sides in turn on several instances, and check that the answers agree.

    Interior-point solvers take twice as many steps on data that differ in the last bit, so one instance says little.
    """
    options = arguments(str(__doc__), users=[1000, 10_000], repeats=3, seeds=5)
    rows = []
    for n in options.users:
        for alpha, solver in [(0, "HIGHS"), (0, "CLARABEL"), (1, "CLARABEL"), (2, "CLARABEL"), (5, "CLARABEL")]:
            objective = fo.Total() if alpha == 0 else fo.AlphaFair(alpha)
            seconds: dict[str, list[float]] = {"fairopt": [], "by hand": []}
            gaps, differences = [], []
            for seed in range(1, options.seeds + 1):
                instance = fo.datasets.log_uniform(n, 4, zeros=0.1, seed=seed)
                hand = by_hand(instance, alpha, solver)
                ours = partial(fo.Policy(objective).allocate, instance, solver=solver)
                answer, tasks = ours(), hand()
                gaps.append(answer.certificate.gap)
                differences.append(float(abs(answer.shares.sum() / (instance.dominant_shares @ tasks) - 1)))
                for side, measured in interleaved({"fairopt": ours, "by hand": hand}, options.repeats).items():
                    seconds[side].append(median(measured))
            ratios = [a / b for a, b in zip(seconds["fairopt"], seconds["by hand"], strict=True)]
            rows.append({
                "policy": repr(objective), "solver": solver, "users": n,
                "fairopt s": median(seconds["fairopt"]), "by hand s": median(seconds["by hand"]),
                "ratio": median(ratios), "least": min(ratios), "most": max(ratios),
                "worst gap": max(gaps), "sums agree to": max(differences),
            })  # fmt: skip
    show("The cone method against the same model by hand (medians over instances)", rows, "overhead")


if __name__ == "__main__":
    main()
