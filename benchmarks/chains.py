"""Leximin on servers where a level rests on the last parts of what lower levels leave, against exact fractions.

Users stand in a line: each is stopped by its own resource and leaves a part of the next one, 1e-3 to 1e-7 of it, on
which the next user rests. Weights fall with these parts, to 1e-8 to 1e-14. Rounding of the first level then moves the
last by up to all of it. Each answer is compared with the levels by linear programs in fractions that share no code with
fairopt (`tests/oracle`).

``wrong`` are certified and further than 1e-6 from the exact level of some user: none may be. ``refused`` are not
certified; ``exact`` were decided by exact programs, ``floats`` by floating point.

Run: python benchmarks/chains.py [--draws 2000 --first-seed 0]
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import arguments, show
from oracle import exact_lp
from oracle.chains import chain
from oracle.exact_cluster import Cluster

import fairopt as fo

TOLERANCE = 1e-6


def exact_levels(given: dict[str, Any], share: fo.Share) -> np.ndarray:
    """The level of each user by linear programs in fractions."""
    cluster = Cluster(**given)
    worth = cluster.dominant() if share == fo.DominantShare() else cluster.tasks()
    return np.array([float(v) for v in exact_lp.leximin(cluster.forms(worth), cluster.rows)])


def judged(seed: int) -> tuple[str, float]:
    """How an answer was found, or "refused", and how far its levels are from the exact ones."""
    given = chain(seed)
    share: fo.Share = fo.Tasks() if seed % 3 else fo.DominantShare()
    instance = fo.Instance(**given)
    try:
        answer = fo.Policy(fo.Leximin(share)).allocate(instance)
    except fo.errors.NotCertified:
        return "refused", 0.0
    levels = answer.tasks * share.coefficients(instance) / instance.weights
    apart = float(abs(levels / exact_levels(given, share) - 1).max())
    return ("exact" if "exact" in answer.certificate.tried[-1].status else "floats"), apart


def main() -> None:
    """Count the answers of all draws."""
    options = arguments(str(__doc__), draws=2000, first_seed=0)
    begun, found = time.perf_counter(), [judged(options.first_seed + k) for k in range(options.draws)]
    counts = {how: sum(h == how for h, _ in found) for how in ("floats", "exact", "refused")}
    row = {
        "draws": len(found),
        **counts,
        "wrong": sum(apart > TOLERANCE for _, apart in found),
        "furthest": max(apart for _, apart in found),
        "s": time.perf_counter() - begun,
    }
    show("Chains of servers, weights down to 1e-14", [row], "chains")


if __name__ == "__main__":
    main()
