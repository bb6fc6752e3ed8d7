"""What is above guarantees on one pool, beside the plain objective; and users alike, merged and one by one.

``guarantees`` is the plain objective on the same instance, which keeps them as lower bounds; ``plain`` is without
guarantees, and ``ratio`` the time of the surplus over that. Jobs of few kinds on several servers are solved as these
kinds; ``alone`` is the same by one user each. Seconds are of the wall clock, the median of interleaved runs; inf is for
answers that are not certified.

Run: python benchmarks/surplus.py [--users 1000000 --resources 4 --jobs 2048 --kinds 26 --servers 27 --repeats 3]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo
from fairopt.errors import NotCertified
from fairopt.formulation import alike

LIMIT = 30.0  # seconds for an answer by users one by one

OBJECTIVES: dict[str, Callable[..., fo.Objective]] = {
    "Leximin": fo.Leximin,
    "AlphaFair(1)": partial(fo.AlphaFair, 1),
    "AlphaFair(2)": partial(fo.AlphaFair, 2),
    "Total": fo.Total,
}


def pools(users: int, resources: int, repeats: int) -> list[dict[str, object]]:
    """Times on one pool with guarantees of up to a fifth of what fits, and without."""
    rng = np.random.default_rng(0)
    demands = rng.lognormal(0, 1, (users, resources))
    capacities = demands.sum(axis=0) / 2
    free = fo.Instance(demands, capacities)
    held = fo.Instance(demands, capacities, guarantees=0.1 * rng.random(users))
    rows = []
    for name, make in OBJECTIVES.items():
        sides = {
            "plain": partial(fo.Policy(make()).allocate, free),
            "surplus": partial(fo.Policy(make(fo.Surplus())).allocate, held),
        }
        # apart, since after it both others took twice as long: it leaves the caches and the allocator otherwise
        kept = {"guarantees": partial(fo.Policy(make()).allocate, held)}
        timed = interleaved(sides, repeats) | interleaved(kept, repeats)
        seconds = {side: median(timed[side]) for side in ("plain", "guarantees", "surplus")}
        rows.append({"objective": name, **seconds, "ratio": seconds["surplus"] / seconds["plain"]})
    return rows


def jobs(number: int, kinds: int, servers: int, repeats: int) -> list[dict[str, object]]:
    """Times of jobs of few kinds on several servers, merged and one by one."""
    rng = np.random.default_rng(0)
    kind, weights = rng.integers(0, kinds, number), rng.integers(1, 4, number).astype(float)
    limits = np.where(rng.random(kinds) < 0.4, rng.lognormal(0, 1, kinds), np.inf)
    given = fo.Instance(
        rng.lognormal(0, 1, (kinds, 3))[kind],
        rng.lognormal(5, 1, (servers, 3)),
        weights=weights,
        task_limits=limits[kind] * weights,
        guarantees=(1e-4 * rng.random(kinds))[kind] * weights,
    )
    rows = []
    for policy in (fo.DRF(), fo.NashWelfare(), fo.MostTasks(), fo.FDS(beta=2, lam=-3), fo.NashBargaining()):
        seconds = {}
        for side, fewer in (("merged", alike.FEWER), ("alone", number)):
            before, alike.FEWER = alike.FEWER, fewer
            try:
                run = partial(policy.allocate, given, time_limit=LIMIT)
                seconds[side] = median(interleaved({side: run}, repeats)[side])
            except NotCertified:
                seconds[side] = np.inf
            finally:
                alike.FEWER = before
        rows.append({"policy": str(policy.name), **seconds})
    return rows


if __name__ == "__main__":
    given = arguments(__doc__, users=1_000_000, resources=4, jobs=2048, kinds=26, servers=27, repeats=3)
    title = f"{given.users:,} users, {given.resources} resources, one pool: seconds"
    show(title, pools(given.users, given.resources, given.repeats), "surplus")
    title = f"{given.jobs:,} jobs of {given.kinds} kinds on {given.servers} servers: seconds"
    show(title, jobs(given.jobs, given.kinds, given.servers, given.repeats), "alike")
