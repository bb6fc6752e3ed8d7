"""What is above guarantees on one pool, beside the plain objective.

``guarantees`` is the plain objective on the same instance, which keeps them as lower bounds; ``plain`` is without
guarantees, and ``ratio`` the time of the surplus over that. Seconds are of the wall clock, the median of interleaved
runs.

Run: python benchmarks/surplus.py [--users 1000000 --resources 4 --repeats 3]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo

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


if __name__ == "__main__":
    given = arguments(__doc__, users=1_000_000, resources=4, repeats=3)
    title = f"{given.users:,} users, {given.resources} resources, one pool: seconds"
    show(title, pools(given.users, given.resources, given.repeats), "surplus")
