"""What the cone route costs beyond the same model written by hand in CVXPY, with the same solver and tolerances.

Both sides build, compile and solve; fairopt also repairs the answer and proves it. Run: python benchmarks/overhead.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo
from fairopt.routes.solvers import TIGHT


def by_hand(instance: fo.Instance, alpha: float, solver: str) -> Callable[[], Any]:
    """The model as somebody who knows solvers would write it: variables near 1, relative capacities, the good form."""

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
    """Time both sides in turn, and check that the answers agree."""
    options = arguments(str(__doc__), users=[1000, 10_000], repeats=7)
    rows = []
    for n in options.users:
        instance = fo.datasets.log_uniform(n, 4, zeros=0.1, seed=1)
        for alpha, solver in [(0, "HIGHS"), (0, "CLARABEL"), (1, "CLARABEL"), (2, "CLARABEL"), (5, "CLARABEL")]:
            objective = fo.Total() if alpha == 0 else fo.AlphaFair(alpha)
            policy = fo.Policy(objective)
            hand = by_hand(instance, alpha, solver)

            def ours(policy: fo.Policy = policy, instance: fo.Instance = instance, solver: str = solver) -> Any:
                return policy.allocate(instance, solver=solver)

            answer, tasks = ours(), hand()
            seconds = interleaved({"fairopt": ours, "by hand": hand}, options.repeats)
            ratios = [a / b for a, b in zip(seconds["fairopt"], seconds["by hand"], strict=True)]
            shares = answer.shares, instance.dominant_shares * tasks
            rows.append({
                "policy": repr(objective), "solver": solver, "users": n,
                "fairopt s": median(seconds["fairopt"]), "by hand s": median(seconds["by hand"]),
                "ratio": median(ratios), "gap": answer.certificate.gap,
                "sums agree to": float(abs(shares[0].sum() / shares[1].sum() - 1)),
            })  # fmt: skip
    show("The cone route against the same model by hand (medians; ratio of pairs)", rows, "overhead")


if __name__ == "__main__":
    main()
