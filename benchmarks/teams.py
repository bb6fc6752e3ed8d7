"""Leximin of teams on a pool beside leximin of users: seconds, gap and peak memory, each in a process of its own.

Memory is the largest resident set, the interpreter with all modules and the instance included; ``instance MB`` is the
part before solving. Seconds include imports of solvers. With ``--limits 0`` users have no task limits; one in five
demands is zero, so that many members of a team then cost the same, and the split inside teams is left open.

Run: python benchmarks/teams.py [--users 1000000 --teams 1000 --limits 1]
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from typing import Any

import numpy as np
from common import arguments, show

import fairopt as fo

POLICIES = {"users": fo.Policy(fo.Leximin()), "teams": fo.Policy(fo.Leximin(fo.OfTeam()))}


def pool(n: int, teams: int, limits: bool) -> fo.Instance:
    """Log-normal demands of four resources, one in five zero, in teams of about equal size."""
    rng = np.random.default_rng(1)
    demands = rng.lognormal(size=(n, 4)) * (rng.random((n, 4)) < 0.8)
    demands[np.arange(n), rng.integers(0, 4, n)] += 0.1
    names = np.array([f"team {t}" for t in range(teams)], dtype=object)
    labels = names[rng.integers(0, teams, n)].tolist()
    task_limits = rng.lognormal(size=n) if limits else None
    return fo.Instance(demands, [0.3 * n] * 4, task_limits=task_limits, teams={"team": labels})


def peak() -> float:
    """The largest resident set so far in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(kind: str, n: int, teams: int, limits: bool) -> dict[str, Any]:
    """One policy on the pool."""
    instance = pool(n, teams, limits)
    before, begun, cpu = peak(), time.perf_counter(), time.process_time()
    certificate = POLICIES[kind].allocate(instance).certificate
    row = {"leximin of": kind, "users": n, "teams": teams, "gap": certificate.gap}
    row |= {"seconds": time.perf_counter() - begun, "CPU seconds": time.process_time() - cpu}
    return row | {"instance MB": before, "peak MB": peak(), "note": certificate.note}


def main() -> None:
    given = arguments(__doc__ or "", users=1_000_000, teams=1_000, limits=1)
    rows = []
    for kind in POLICIES:
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            rows.append(alone.apply(measured, (kind, given.users, given.teams, bool(given.limits))))
    for row in rows:
        row["memory ratio"] = row["peak MB"] / rows[0]["peak MB"]
    show("Leximin of teams", rows, "teams")


if __name__ == "__main__":
    main()
