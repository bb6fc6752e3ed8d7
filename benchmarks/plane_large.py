"""Points off the edge of alpha-fairness of the (beta, lambda) plane (Joe-Wong et al. 2013) at many users.

FDS on demands over four decades, with zeros, by prices. CPU seconds are also given in units of one concave solve of
the same instance by prices, `FDS(2)` (the median of five). With ``--cones`` the search by cone programs answers too,
and must agree to 1e-6. A point that cannot be certified is a row that says so. Run:

    python benchmarks/plane_large.py [--users 10000 --resources 4 --seed 1] [--cones] [--failures FILE]
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from common import arguments, median, show

import fairopt as fo

AGREE = 1e-6  # of the objective
# two of the concave region, three of each other: beta > 1 below the edge, 0 < beta < 1 below it, beta < 0; and one more
# far out
POINTS = (
    (2.0, -1.0),
    (0.5, 2.0),
    (1.5, -0.1),
    (2.0, -0.25),
    (5.0, -0.4),
    (0.25, 1.0),
    (0.5, 0.5),
    (0.75, 0.1),
    (-0.5, 2.0),
    (-1.0, 1.0),
    (-2.0, 0.5),
    (-5.0, 0.2),
)


def timed(policy: fo.Policy, instance: fo.Instance, **options: Any) -> tuple[fo.Allocation, float, str]:
    """An allocation, certified or the best found, CPU seconds, and the error if there was one."""
    start = time.process_time()
    try:
        answer, error = policy.allocate(instance, **options), ""
    except fo.errors.NotCertified as refusal:
        answer, error = refusal.best, " ".join(str(refusal).split())
    return answer, time.process_time() - start, error


def main() -> None:
    """A row per point."""
    options = arguments(str(__doc__), users=10_000, resources=4, seed=1, cones=False, failures="")
    instance = fo.datasets.log_uniform(options.users, options.resources, seed=options.seed)
    concave = [timed(fo.FDS(2), instance) for _ in range(5)]
    unit = median([seconds for _, seconds, _ in concave])
    print(f"{instance!r}: one concave solve {unit:.4f} s, median of 5; {concave[0][0].certificate}")
    rows = []
    for beta, lam in POINTS:
        answer, seconds, error = timed(fo.FDS(beta=beta, lam=lam), instance)
        proof = answer.certificate
        cones: dict[str, Any] = {}
        if options.cones:
            other, by_cones, refusal = timed(fo.FDS(beta=beta, lam=lam), instance, solver="CLARABEL")
            apart = abs(answer.objective / other.objective - 1)
            if not (error or refusal) and apart > AGREE:
                raise AssertionError(f"({beta}, {lam}): prices and cones are {apart:.1e} apart")
            cones = {"s by cones": by_cones, "agree to": "refused" if refusal else apart}
        rows.append(
            {
                "beta": beta,
                "lam": lam,
                "verdict": "refused" if error else "certified",
                "gap": proof.gap,
                "programs": sum(int(k) for t in proof.tried for k in re.findall(r"(\d+) programs", t.status)),
                "solver": str(proof.solver),
                "s": seconds,
                "concave solves": seconds / unit,
                **cones,
            }
        )
        print(rows[-1], error, "; ".join(map(str, proof.tried)), flush=True)
        if error and options.failures:
            with Path(options.failures).open("a", encoding="utf-8") as file:
                what = f"log_uniform({options.users}, {options.resources}, seed={options.seed})"
                print("FDS", beta, lam, what, error, sep="  ", file=file)
    show(f"Off the edge at {options.users} users, {options.resources} resources", rows, "plane_large")


if __name__ == "__main__":
    main()
