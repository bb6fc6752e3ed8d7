"""Users alike, merged and one by one: jobs of few kinds, and random instances.

Jobs are solved on one pool and on several servers; ``alone`` is the same by one user each, and ``ratio`` the time of
that over ``merged``. Seconds are of the wall clock, the median of interleaved runs; inf is for answers that are not
certified within the limit. Jobs without envy have no guarantees, and those of hierarchical DRF are in teams. On random
instances ``apart`` is the largest relative difference of the objective, or of levels for leximin and of tasks for
hierarchical DRF; ``refused`` counts answers that are not certified for users one by one.

Run: python benchmarks/alike.py [--jobs 2048 --kinds 26 --servers 27 --teams 5 --repeats 3 --instances 1000]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from common import arguments, interleaved, median, show
from oracle.hierarchy import drawn
from oracle.instances import users_alike

import fairopt as fo
from fairopt.errors import NotCertified
from fairopt.solve.cluster import filling
from fairopt.solve.form import alike
from fairopt.solve.form.program import Program

LIMIT = 30.0  # seconds for an answer by users one by one
WITHOUT_ENVY = (
    fo.Leximin(),
    fo.Leximin(fo.Tasks()),
    fo.AlphaFair(1),
    fo.AlphaFair(0.5, fo.Tasks()),
    fo.Total(fo.Tasks()),
    fo.FairnessEfficiency(2, -3),
)


@contextmanager
def merging(fewest: int | None) -> Iterator[None]:
    """Merge where that saves so many users, and leaves of hierarchical DRF; or nothing."""
    before = alike.FEWER, filling.significant
    alike.FEWER = 1 << 60 if fewest is None else fewest
    if fewest is None:
        filling.significant = lambda _: object()  # type: ignore[assignment,return-value]
    try:
        yield
    finally:
        alike.FEWER, filling.significant = before


def jobs(number: int, kinds: int, servers: int, teams: int, guarantees: bool) -> fo.Instance:
    """Jobs of a few kinds."""
    rng = np.random.default_rng(0)
    kind, weights = rng.integers(0, kinds, number), rng.integers(1, 4, number).astype(float)
    limits = np.where(rng.random(kinds) < 0.4, rng.lognormal(0, 1, kinds), np.inf)
    given: dict[str, Any] = {"weights": weights, "task_limits": limits[kind] * weights}
    if guarantees:
        given["guarantees"] = (1e-4 * rng.random(kinds))[kind] * weights
    if teams:
        given["teams"] = {"team": [f"team{t}" for t in rng.integers(0, teams, number)]}
    return fo.Instance(rng.lognormal(0, 1, (kinds, 3))[kind], rng.lognormal(5, 1, (servers, 3)), **given)


def timed(given: Any) -> list[dict[str, object]]:
    """Times of jobs, merged and one by one."""
    plain = [fo.DRF(), fo.NashWelfare(), fo.MostTasks(), fo.FDS(beta=2, lam=-3), fo.NashBargaining()]
    cases: list[tuple[Any, int, bool]] = [(policy, 0, True) for policy in plain]
    cases += [(fo.Policy(objective, [fo.EnvyFree()]), 0, False) for objective in WITHOUT_ENVY]
    cases.append((fo.HDRF(), given.teams, True))
    rows = []
    for servers in (1, given.servers):
        for policy, teams, guarantees in cases:
            if servers == 1 and policy in plain:
                continue  # methods for one pool need no merging
            instance, seconds = jobs(given.jobs, given.kinds, servers, teams, guarantees), dict[str, float]()
            for side, fewest in (("merged", alike.FEWER), ("alone", None)):
                try:
                    with merging(fewest):
                        run = partial(policy.allocate, instance, time_limit=LIMIT)
                        seconds[side] = median(interleaved({side: run}, given.repeats)[side])
                except NotCertified:
                    seconds[side] = np.inf
            name = str(policy.name) if policy in plain or isinstance(policy, fo.HDRF) else str(policy)
            rows.append({"policy": name, "servers": servers, **seconds, "ratio": seconds["alone"] / seconds["merged"]})
    return rows


def compared(case: Any, instances: int) -> dict[str, object]:
    """How far merged answers are from those of users one by one."""
    apart, merged_ones, refused, tree = 0.0, 0, 0, isinstance(case, fo.HDRF)
    for seed in range(instances):
        policy: Any
        if tree:
            instance, _, policy = drawn(seed, 1 + 2 * (seed % 2), copies=3)
        else:
            instance = users_alike(np.random.default_rng(seed), 1).replace(guarantees=None)
            policy = fo.Policy(case, [fo.EnvyFree()])
        with merging(1):
            merged = policy.allocate(instance)
            kinds = tree or alike.alike(Program(instance, policy.objective, policy.constraints))
        merged_ones += kinds is not None
        try:
            with merging(None):
                alone = policy.allocate(instance)
        except NotCertified:
            refused += 1
            continue
        if tree:
            ours, theirs = merged.tasks, alone.tasks
        elif case.term.is_order:
            ours, theirs = merged.share(case.term.share), alone.share(case.term.share)
        else:
            ours, theirs = np.array([merged.objective]), np.array([alone.objective])
        apart = max(apart, float((np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-9)).max()))
    name = "HDRF" if tree else f"{case}, EnvyFree()"
    return {"policy": name, "instances": instances, "merged": merged_ones, "refused": refused, "apart": apart}


if __name__ == "__main__":
    given = arguments(__doc__ or "", jobs=2048, kinds=26, servers=27, teams=5, repeats=3, instances=1000)
    show(f"{given.jobs:,} jobs of {given.kinds} kinds: seconds", timed(given), "alike")
    cases = (*WITHOUT_ENVY, fo.HDRF())
    rows = [compared(case, given.instances) for case in cases]
    show("Users alike, merged beside one by one", rows, "alike_random")
