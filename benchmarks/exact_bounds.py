"""Intervals for optimal values: widths reached and seconds, on the fuzzer's draws and by size.

Every draw that is one call of a policy: the interval must contain the certified value up to its gap, its tasks must fit
in fractions and reach the lower end, and the interval of width 1e-12 must meet that of 1e-25. Exact answers of `HDRF`
are compared with recursion in fractions. Then seconds of pools and clusters.

Run: python benchmarks/exact_bounds.py [--draws 500 --trees 500 --seed 1 --kinds pools,wide --sizes 1000x1,50x10]
"""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from common import arguments, show  # isort: skip
import numpy as np
from fuzz_blocks import Draw
from fuzz_draws import CATEGORIES
from oracle import hierarchy

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.instance.parts import taking_part

KINDS = ("pools", "servers", "guarantees", "teams", "weights", "scales", "ties", "zeros", "blocks", "flat")
KINDS += ("tiers", "speeds", "alpha", "wide", "bundles")
CLOSE = 1e-5  # of what halving all tasks costs: the gap of certified answers, and the violations they may have
SHOWN = 5
TRIES = 1_000


def decimal(value: Any) -> Fraction:
    """A number as intervals read it."""
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))


def draw_of(kind: str, seed: int, k: int) -> Draw:
    """The k-th draw of a kind that calls a policy."""
    rng = np.random.default_rng([seed, *kind.encode(), k])
    for _ in range(TRIES):
        draw = CATEGORIES[kind](rng)
        if draw.how == ("allocate",) and isinstance(draw.policy, fo.Policy) and not draw.options.get("integral"):
            return draw
    raise ValueError(f"{kind} draws no call of a policy; leave it out of --kinds")


def fits(instance: fo.Instance, tasks: Any) -> bool:
    """Whether tasks are within capacities, limits and eligibility in fractions."""
    needs, (n, servers) = instance.per_server_demands, instance.eligible.shape
    for s in range(servers):
        users = [j for j in range(n) if tasks[j][s]]
        if any(tasks[j][s] < 0 or not instance.eligible[j, s] for j in users):
            return False
        for i, c in enumerate(instance.capacities[s]):
            if sum(decimal(needs[j, s, i]) * tasks[j][s] for j in users) > decimal(c) * int(instance.counts[s]):
                return False
    return all(np.isinf(t) or sum(row) <= decimal(t) for row, t in zip(tasks, instance.task_limits, strict=True))


def wrong(draw: Draw, instance: fo.Instance, answer: fo.Allocation, found: Any) -> str:
    """What is wrong with an interval; empty if nothing is."""
    first = getattr(draw.policy.objective, "tiers", (draw.policy.objective,))[0]
    if not fits(instance, found.tasks):
        return "the tasks do not fit"
    if not first.of_bundles and answer._taking_part.size:
        part = answer._taking_part
        some = instance if len(part) == instance.n_users else taking_part(instance, part)
        with np.errstate(all="ignore"):
            half = first.value(Point(some, 0.5 * answer.tasks_by_server[part]))
            reached = first.value(Point(some, np.array(found.tasks, dtype=float)[part]))
        unit = abs(answer.objective - half) if np.isfinite(half) else abs(answer.objective)
        slack = CLOSE * max(unit, abs(answer.objective))
        if not abs(reached - float(found.lower)) <= 1e-9 * max(unit, abs(reached)) + 1e-300:
            return f"the tasks have the value {reached!r}, not {float(found.lower)!r}"
    else:
        slack = CLOSE * abs(answer.objective)
    if not float(found.lower) - slack <= answer.objective <= float(found.upper) + slack:
        return f"the certified value is {answer.objective!r}"
    try:
        narrow = answer.exact_bounds(1e-25)
    except fo.errors.NotCertified as error:
        return f"a width of 1e-25: {error}"
    if narrow.lower > found.upper or found.lower > narrow.upper:
        return f"two intervals do not meet: {found} and {narrow}"
    return ""


def drawn_bounds(draws: int, seed: int, kinds: Sequence[str]) -> None:
    """The table of the fuzzer's draws."""
    counts, spent, widths = defaultdict(Counter), defaultdict(list), defaultdict(list)
    shown: list[str] = []
    for kind in kinds:
        for k in range(-(-draws // len(kinds))):
            draw = draw_of(kind, seed, k)
            try:
                instance = fo.Instance(**draw.given)
                answer = draw.policy.allocate(instance, **draw.options)
            except fo.errors.FairoptError:
                counts[kind]["no answer"] += 1
                continue
            begun = time.perf_counter()
            try:
                found = answer.exact_bounds()
            except fo.errors.FairoptError as error:
                counts[kind][type(error).__name__] += 1
                shown += [f"{kind} {k}: {error}"] * isinstance(error, fo.errors.NotCertified)
                continue
            spent[kind].append(time.perf_counter() - begun)
            widths[kind].append(found.width)
            what = wrong(draw, instance, answer, found)
            counts[kind]["wrong" if what else "enclosed"] += 1
            if what:
                shown.append(f"{kind} {k}, {what}: {found}\n{draw.policy!r}\n{draw.given}")
    words = ("enclosed", "OutOfDomain", "NotCertified", "no answer", "wrong")
    rows = [
        {"kind": kind, "tried": counts[kind].total()}
        | {word: counts[kind][word] for word in words}
        | {"widest": max(widths[kind], default=0.0), "ms": 1e3 * float(np.median(spent[kind] or [0.0]))}
        | {"slowest, ms": 1e3 * max(spent[kind], default=0.0)}
        for kind in kinds
    ]
    show("Intervals of width 1e-12", rows, "exact_bounds")
    print("\n\n".join(shown[:SHOWN]))


def trees(count: int, seed: int) -> None:
    """Exact answers of `HDRF` on random trees."""
    rows = []
    for servers, of in ((1, count - count // 4), (3, count // 4)):
        equal, seconds = 0, []
        for k in range(of):
            instance, problem, policy = hierarchy.drawn(10_000 * seed + k, servers)
            names = ("demands", "capacities", "weights", "limits", "starts", "tree")
            problem = replace(problem, **{name: in_decimals(getattr(problem, name)) for name in names})
            begun = time.perf_counter()
            answer = policy.allocate(instance, exact=True)
            seconds.append(time.perf_counter() - begun)
            equal += [sum(row) for row in answer.exact_tasks] == hierarchy.filled(problem)
        rows.append({"servers": servers, "trees": of, "equal": equal, "ms": 1e3 * float(np.median(seconds or [0.0]))})
    show("HDRF in fractions", rows, "exact_trees")


def in_decimals(values: Any) -> Any:
    """Nested lists of the decimals that print floats."""
    if isinstance(values, (list, tuple)):
        return type(values)(map(in_decimals, values))
    return values if values is None or isinstance(values, (int, bool)) else Fraction(repr(float(values)))


def sized(sizes: list[str]) -> None:
    """Seconds by size."""
    rows = []
    notions = {
        "alpha-fair, 2": fo.FDS(2),
        "Nash welfare": fo.NashWelfare(),
        "sum with max-min": fo.Policy(fo.AlphaFair(0.5) + fo.MaxMin()),
    }
    for size in sizes:
        n, servers = map(int, size.split("x"))
        rng = np.random.default_rng(1)
        instance = fo.Instance(rng.integers(1, 20, (n, 3)), rng.integers(20, 200, (servers, 3)))
        for name, policy in notions.items():
            answer = policy.allocate(instance)
            for width in (1e-12, 1e-30):
                begun = time.perf_counter()
                found = answer.exact_bounds(width)
                rows.append(
                    {"users x servers": size, "notion": name, "width": width}
                    | {"reached": found.width, "seconds": time.perf_counter() - begun}
                )
    show("Seconds of intervals", rows, "exact_bounds_times")


def main() -> None:
    """All tables."""
    options = arguments(__doc__, draws=500, trees=500, seed=1, kinds=[*KINDS], sizes="1000x1,50x10,200x20")
    warnings.simplefilter("ignore")
    if options.draws:
        drawn_bounds(options.draws, options.seed, options.kinds)
    if options.trees:
        trees(options.trees, options.seed)
    if options.sizes:
        sized(options.sizes.split(","))


if __name__ == "__main__":
    main()
