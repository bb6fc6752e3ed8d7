"""Which answers can be certified: policy x solver x number of users.

Demands spread over 4 decades, with zeros, weights and limits.

Every answer that is returned is compared with the best certified one of its row: no wrong value may come back. A
solver that cannot do it ends in `NotCertified`, which is not an error here but the finding. Run:
python benchmarks/certified.py --users 10,100,1000,10000 --time-limit 30
"""

from __future__ import annotations

import time
from typing import Any

from common import arguments, show

import fairopt as fo
from fairopt.solve.form.solvers import installed

POLICIES = {
    "DRF": fo.DRF(),
    "2-DF": fo.KDF(2, short="positive"),
    "FDS 0.5": fo.FDS(0.5),
    "FDS 1": fo.FDS(1),
    "FDS 2": fo.FDS(2),
    "FDS 5": fo.FDS(5),
    "GFJ 2": fo.GFJ(2),
    "FDS(2, -1)": fo.FDS(beta=2, lam=-1),
    "most tasks": fo.MostTasks(),
}
LINEAR = ("DRF", "2-DF", "most tasks")
SOLVERS = ["default", "CLARABEL", "ECOS", "SCS", "HIGHS"]


def attempt(policy: fo.Policy, instance: fo.Instance, solver: str, time_limit: float) -> dict[str, Any]:
    """One solve: certified or not, gap, seconds, and the objective's value."""
    start = time.perf_counter()
    choice = {} if solver == "default" else {"solver": solver}
    try:
        allocation = policy.allocate(instance, time_limit=time_limit, **choice)
        verdict = "certified"
    except fo.errors.NotCertified as refusal:
        allocation, verdict = refusal.best, "refused"
    certificate = allocation.certificate
    return {
        "verdict": verdict,
        "gap": certificate.gap,
        "seconds": time.perf_counter() - start,
        "value": allocation.objective,
        "shares": float((allocation.shares / instance.weights).sum()),
        "method": certificate.method,
    }


def main() -> None:
    """Print a row for every policy, solver and size."""
    options = arguments(str(__doc__), users=[10, 100, 1000, 10_000], time_limit=30.0)
    rows = []
    for n in options.users:
        instance = fo.datasets.log_uniform(n, 4, decades=4.0, zeros=0.1, weights=True, limits=True, seed=1)
        for name, policy in POLICIES.items():
            here = []
            for solver in SOLVERS:
                if (solver == "HIGHS" and name not in LINEAR) or (solver != "default" and solver not in installed()):
                    continue
                here.append(
                    {
                        "users": n,
                        "policy": name,
                        "solver": solver,
                        **attempt(policy, instance, solver, options.time_limit),
                    }
                )
            best = dict(min((r for r in here if r["verdict"] == "certified"), key=lambda r: r["gap"]))
            for r in here:
                r["value off"] = abs(r.pop("value") / best["value"] - 1)
                r["sum of shares off"] = abs(r.pop("shares") / best["shares"] - 1)
            rows += here
    show("Certified or refused; nothing returned is wrong", rows, "certified")


if __name__ == "__main__":
    main()
