"""Jiang and Wu (2021): 2-DF and k-DF; `jiang_wu_2021_online` has sec. 6.3. See `published` for what a row is.

Run: python benchmarks/papers/jiang_wu_2021.py [--quick]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, permutations
from typing import Any

import jiang_wu_2021_online
import matplotlib.pyplot as plt
import numpy as np
from jiang_wu_2021_demands import REQUEST_TYPES, heavy_light_demands, jiang_wu_demands
from numpy.typing import NDArray
from published import COLOURS, Paper, Row, Run, cannot, claim, listed, main, number

import fairopt as fo

Float = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
TWO_DF = fo.KDF(k=2)
CLUSTER = fo.Instance(
    [[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["user 1", "user 2"], resources=["bandwidth", "memory", "CPU"]
)


def tasks_on(bundles: Float) -> Float:
    """Tasks that the users of Fig. 1 could run on these bundles."""
    return (bundles / CLUSTER.demands).min(axis=1)


def lying(policy: fo.Policy) -> tuple[Float, Float, Float]:
    """Tasks and bundles if user 2 of Fig. 1 reports (10, 9, 9), and the true tasks that these bundles run."""
    a = policy.allocate(fo.Instance([CLUSTER.demands[0], [10, 9, 9]], CLUSTER.capacities))
    return a.tasks, a.bundles[:, 0], tasks_on(a.bundles[:, 0])


def unused(tasks: Sequence[float]) -> Float:
    """Units of each resource left on the instance of Fig. 1; negative where tasks do not fit."""
    return CLUSTER.capacities[0] - np.asarray(tasks) @ CLUSTER.demands


def varied(memory: Float, user: int) -> Float:
    """Tasks under DRF and 2-DF, (2, n, users), if a user of Fig. 1 requests so much memory per task."""
    demands = np.repeat(CLUSTER.demands[None], len(memory), axis=0)
    demands[:, user, 1] = memory
    return np.stack([fo.allocate_many(p, demands, CLUSTER.capacities[0]).tasks for p in (fo.DRF(), TWO_DF)])


# -- secs. 1.1 to 4.4: the instance of Fig. 1 -----------------------------------------------------------------------


def motivation(run: Run) -> Iterator[Row]:
    """Sec. 1.1, Figs. 2 to 4."""
    fair, most, place = fo.DRF().allocate(CLUSTER), fo.MostTasks().allocate(CLUSTER), "Sec. 1.1, Fig. 2"
    yield number(place, "DRF's bundle of user 1", "100, 20, 20", fair.bundles[0, 0])
    yield number(place, "DRF's bundle of user 2", "100, 62.5, 12.5", fair.bundles[1, 0])
    yield number(place, "tasks under DRF", "2.5 and 12.5, 15 in total", [*fair.tasks, fair.tasks.sum()])
    left, place = unused([2, 15]), "Sec. 1.1"
    yield claim(place, "2 and 15 tasks are feasible", left.min() >= 0, f"left: {listed(left)}")
    yield number(place, "tasks if all is for user 2", "25", most.tasks.sum())
    yield number(place, "units unused under DRF", "285", fair.leftover.sum())
    yield number(place, "units unused with 22.5 tasks of user 2", "285", unused([0, 22.5]).sum())
    why = "25 tasks of user 2 fit."
    yield number("Fig. 3", "the maximal number of tasks", "21", most.tasks.sum(), why=why)

    memory = np.linspace(1, 20, 77)
    drf, two = varied(memory, user=1)[:, :, 1]
    yield claim(
        "Fig. 4",
        "under DRF the tasks of user 2 do not depend on its memory request",
        np.ptp(drf[memory <= 8]) < 1e-9,
        f"{drf[0]:.6g} for 1 to 8 units",
        reading="Above 8 units memory is dominant.",
    )
    same = np.allclose(two[memory >= 8], drf[memory >= 8], rtol=1e-9)
    points = ", ".join(f"{two[memory == units][0]:.4g} at {units}" for units in (20, 8, 5, 1))
    yield claim(
        "Fig. 4",
        "2-DF gives user 2 more tasks as its memory request changes",
        same and (np.diff(two) < 0).all(),
        f"{points} units; from 8 on as under DRF",
    )
    if run.draws:
        draw_bundles(run)
        draw_memory(run)


def fair_properties(run: Run) -> Iterator[Row]:
    """Sec. 3: one resource, and DRF's properties by the example."""
    line = fo.Instance([[1], [1], [1]], [12], task_limits=[1.5, 4.5, 6])
    fair, equal = fo.DRF().allocate(line).tasks, np.minimum(12 / 3, line.task_limits)
    reading = "Max-min of 12 units under limits."
    yield number("Sec. 3", "an allocation better than 4 units for each user", "1.5, 4.5, 6", fair, reading=reading)
    measured = f"of 4 units each they use {listed(equal)}"
    yield claim("Sec. 3", "each user gets at least what it can use of 4 units", (fair >= equal).all(), measured)
    drf = fo.DRF().allocate(CLUSTER)
    other, equal = tasks_on(drf.bundles[::-1, 0]), tasks_on(CLUSTER.capacities / 2)
    pareto, measured = fo.check(drf)["pareto"].holds, f"{listed(drf.tasks)} tasks, by `check`"
    yield claim("Fig. 5 (b)", "no user can run more tasks unless another runs fewer", pareto, measured)
    measured = f"{listed(equal)} tasks on 100 units of each resource"
    yield claim("Fig. 5", "both users run as many tasks as on equal parts", np.allclose(drf.tasks, equal), measured)
    measured = f"{listed(other, '.5g')} tasks"
    yield claim("Fig. 5 (d)", "both users run fewer tasks on each other's bundle", (other < drf.tasks).all(), measured)
    reading = "The report is (10, 9, 9), as in the slides of 2018."
    yield number("Fig. 5 (e)", "tasks of user 2 under a misreport", "12.5", lying(fo.DRF())[2][1], reading=reading)


def two_dominant(run: Run) -> Iterator[Row]:
    """Secs. 4.3 and 4.4, Fig. 7, Algorithm 1."""
    a, place = TWO_DF.allocate(CLUSTER), "Sec. 4.3, Fig. 7"
    yield number(
        place,
        "2-dominant share of a task",
        "1/125 and 1/1000",
        fo.KDominantShare(2).per_task(CLUSTER),
    )
    yield number(place, "tasks under 2-DF", "1.9, 15.4", a.tasks)
    yield number(place, "2-DF's bundle of user 1", "77, 15.4, 15.4", a.bundles[0, 0])
    yield number(place, "2-DF's bundle of user 2", "123, 77, 15.4", a.bundles[1, 0])
    both = fo.DRF().allocate(CLUSTER).tasks.sum(), a.tasks.sum()
    yield number(place, "all tasks under DRF and 2-DF", "15, 17.3", both)
    used, share = {10: 1, 16: -1, 17: -1}, {12: 1, 19: -1, 20: 1}  # signs of D and of d1 d2, by line
    yield claim(
        "Algorithm 1",
        "a task that finishes gives back what it took",
        not (sum(used.values()) or sum(share.values())),
        f"use ends at {sum(used.values())} times its demand, the share at {sum(share.values())} times its",
        reading="fairopt omits lines 17 and 20.",
        why="Line 17 repeats line 16, and line 20 undoes line 19.",
    )
    why = "The text gives no numbers."
    yield cannot("Figs. 6, 8", "NTT and AUR of an example, properties of 2-DF by the example", "pictures", why)


# -- sec. 6.1: three users, three resources, all whole requests -------------------------------------------------------


def orbits(capacity: int) -> tuple[Ints, Ints]:
    """All requests that differ by more than the order of users and resources, (n, 3, 3), and how often each occurs.

    Combinations are numbers in base C^3 with a digit for each user; of the up to 36 orders the smallest is kept.
    """
    c, size = capacity, capacity**3
    digits = np.stack(np.unravel_index(np.arange(size), (c, c, c)), axis=1)
    users = np.array(list(combinations_with_replacement(range(size), 3)))
    orders = np.array([6, 3, 1])[(np.diff(users, axis=1) == 0).sum(axis=1)]  # of users, by how many are like the next
    first = np.full(len(users), size**3)
    for p in permutations((c * c, c, 1)):
        np.minimum(first, np.sort((digits @ p)[users], axis=1) @ [size**2, size, 1], out=first)
    kept, which = np.unique(first, return_inverse=True)
    return 1 + digits[np.stack(np.unravel_index(kept, (size,) * 3), axis=1)], np.bincount(which, orders).astype(int)


def by_level(demands: Ints, per_task: Ints) -> tuple[Ints, Ints]:
    """Tasks under k-DF exactly: numerators (n, users) and denominators (n,), in units of the capacity of each resource.

    All users need everything, so all shares, per_task times tasks, are one level, and some resource is full.
    """
    parts = per_task.prod(axis=1, keepdims=True) // per_task
    return parts, (parts[:, :, None] * demands).sum(axis=1).max(axis=1)


def judged(demands: Ints, capacity: int) -> dict[str, Any]:
    """Columns about each combination: NTT by fairopt, and 2-DF compared with DRF and with its users in integers."""
    policies = {"NFC": fo.MostTasks(), "DRF": fo.DRF(), "2-DF": TWO_DF}
    ntt = {name: fo.allocate_many(p, demands, [capacity] * 3).tasks.sum(axis=1) for name, p in policies.items()}
    ordered, pairs = np.sort(demands, axis=2), list(permutations(range(demands.shape[1]), 2))
    dominant, second = ordered[..., -1], ordered[..., -2]
    (tasks, base), (tasks2, base2) = by_level(demands, dominant), by_level(demands, dominant * second)
    one, two = tasks.sum(axis=1), tasks2.sum(axis=1)
    assert np.allclose([ntt["DRF"], ntt["2-DF"]], [capacity * one / base, capacity * two / base2], rtol=1e-9)
    held, more = tasks2[:, :, None] * demands, two * base > one * base2
    free = ~np.any([(held[:, k] > held[:, j]).all(axis=1) for j, k in pairs], axis=0)
    sharing = (demands.shape[1] * tasks2 * dominant >= base2[:, None]).all(axis=1)
    return ntt | {
        "all": np.ones(len(demands)),
        "more": more,
        "tie": two * base == one * base2,
        "free": free,
        "both": free & more,
        "30%": 10 * two * base >= 13 * one * base2,
        "sharing": sharing,
        "gain": (ntt["2-DF"] - ntt["DRF"]) * sharing,
    }


@cache
def first_scenario(capacity: int, every: bool) -> dict[str, float]:
    """Sums of these columns over all combinations: of the orbits, or of every one, which must then agree."""
    demands, times = orbits(capacity)
    found = {name: float(times @ column) for name, column in judged(demands, capacity).items()}
    if not every:
        return found
    total = dict.fromkeys(found, 0.0)
    for start in range(0, capacity**9, 300_000):
        demands = jiang_wu_demands(capacity, start, min(start + 300_000, capacity**9)).astype(np.int64)
        for name, column in judged(demands, capacity).items():
            total[name] += float(column.sum())
    assert all(math.isclose(total[name], found[name], rel_tol=1e-12, abs_tol=1e-12) for name in found)
    return total


def scenarios(run: Run) -> dict[int, dict[str, float]]:
    """C = 3 and 5: every combination one by one, but C = 5 only in a full run."""
    return {c: first_scenario(c, run.full or c == 3) for c in (3, 5)}


def all_requests(run: Run) -> Iterator[Row]:
    """Secs. 6.1, 6.2.1 and 6.2.2, Table 1, Fig. 9."""
    found = scenarios(run)
    yield claim(
        "Sec. 6.1.1",
        "3^(3C) combinations",
        all(found[c]["all"] == 3 ** (3 * c) for c in found),
        f"{found[3]['all']:,.0f} at C = 3 and {found[5]['all']:,.0f} at C = 5",
        why="It is C^9; later the paper has 3^9 and 5^9.",
    )
    for c, *printed in ((3, "1.62", "1.34", "1.39"), (5, "1.81", "1.48", "1.56")):
        for name, words in zip(("NFC", "DRF", "2-DF"), printed, strict=True):
            mean = found[c][name] / found[c]["all"]
            why = "The slides of 2018 print this value." if c == 5 and name != "DRF" else ""
            yield number("Table 1", f"mean NTT under {name}, C = {c}", words, mean, why=why)
    gain = [found[c]["2-DF"] / found[c]["DRF"] for c in (3, 5)]
    yield claim(
        "Sec. 6.1.1",
        "2-DF's advantage over DRF grows with the capacity",
        1 < gain[0] < gain[1],
        f"{100 * (gain[0] - 1):.4g}% more tasks at C = 3, {100 * (gain[1] - 1):.4g}% at C = 5",
    )
    counted = "Counted in integers."
    for c, words in ((3, "51.7"), (5, "58.1")):
        f = found[c]
        what = f"% of cases with more tasks, C = {c}"
        yield number("Sec. 6.1.1", what, words, 100 * f["more"] / f["all"], why=counted)
    yield from unique_cases(run)
    place = "Secs. 6.1.2, 6.2.1"
    for c, words in ((3, "0.04"), (5, "0.08")):
        f = found[c]
        why = f"Over all cases it is {(f['2-DF'] - f['DRF']) / f['all']:.4f}."
        reading = f"Over the {f['sharing']:,.0f} cases with all dominant shares at least 1/3."
        what = f"tasks gained on average under sharing incentive, C = {c}"
        yield number(place, what, words, f["gain"] / f["sharing"], reading=reading, why=why)
    place = "Secs. 6.1.2, 6.2.2"
    for c, free, among in ((3, "64.0", "37.2"), (5, "58.8", "38.7")):
        f, what = found[c], "% of envy-free cases"
        yield number(place, f"{what}, C = {c}", free, 100 * f["free"] / f["all"], why=counted * (c == 5))
        what += f" among those with more tasks, C = {c}"
        yield number(place, what, among, 100 * f["both"] / f["more"], why=counted)


def unique_cases(run: Run) -> Iterator[Row]:
    """Fig. 9."""
    fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.8), layout="constrained")
    for ax, c, what in zip(axes, (3, 5), ("", " at least 30%"), strict=True):
        found, place = judged(orbits(c)[0], c), f"Fig. 9 ({'ab'[c == 5]})"
        chosen = found["more" if c == 3 else "30%"]
        drf, two = found["DRF"][chosen], found["2-DF"][chosen]
        yield claim(
            place,
            f"some unique cases have{what} more tasks under 2-DF, C = {c}",
            chosen.any(),
            f"{chosen.sum():,} of {found['more'].sum():,}; at most {(two / drf).max() * 100 - 100:.4g}% more",
            reading="Unique up to the order of users and resources.",
        )
        order = np.lexsort((two, drf))
        ax.plot(two[order], ".", ms=3, color=COLOURS[1], label="2-DF")
        ax.plot(drf[order], color=COLOURS[0], label="DRF")
        ax.set(xlabel="case, in order of tasks under DRF", title=f"{place[7:]} C = {c}: {what.strip() or 'all cases'}")
        tidy(ax)
    axes[0].set_ylabel("tasks of all users")
    axes[0].legend(frameon=False)
    run.save(fig, "fig-9", "Fig. 9: unique cases with more tasks under 2-DF, of at least 30% in (b).")


# -- sec. 6.2: heavy and light requests -------------------------------------------------------------------------------

EIGHT = REQUEST_TYPES
NINE = (*EIGHT, (1, 1, 1))
TEN = tuple(combinations_with_replacement((25, 5, 1), 3))  # all levels, the largest first
BIG, MIXED = (25, 25, 25), (25, 5, 5)  # user 1 in the two cases of Table 3 and Fig. 10
COMBINATIONS = ("I", "II", "III")


@cache
def second_scenario(types: tuple[tuple[int, ...], ...]) -> tuple[Float, Float, Float]:
    """Tasks in all and units unused, (2 policies, 3 combinations, type of user 1, type of user 2), and the demands."""
    demands = np.array([heavy_light_demands(c, types=types, repeats=1)[:, :, 0] for c in COMBINATIONS])
    flat, shape = demands.reshape(-1, 2, 3), demands.shape[:3]
    tasks = [fo.allocate_many(p, flat, [1000] * 3).tasks for p in (fo.DRF(), TWO_DF)]
    left = [3000 - (t[:, :, None] * flat).sum(axis=(1, 2)) for t in tasks]
    return np.reshape([t.sum(axis=1) for t in tasks], (2, *shape)), np.reshape(left, (2, *shape)), demands


def mean_unused(first: tuple[int, ...], types: tuple[tuple[int, ...], ...]) -> Float:
    """Units unused under DRF and 2-DF by combination, (2, 3), on the average over the types of user 2."""
    return second_scenario(types)[1][:, :, types.index(first)].mean(axis=-1)


def readings(printed: Sequence[Sequence[int]]) -> str:
    """Requests of user 1, and sets of types of user 2, that give all numbers of a part of Table 3 within 1 unit."""
    sets = (np.arange(1, 2 ** len(TEN))[:, None] >> np.arange(len(TEN)) & 1).astype(bool)
    mean = second_scenario(TEN)[1] @ sets.T / sets.sum(axis=1)  # policy, combination, type of user 1, set
    found = np.argwhere((abs(mean - np.array(printed)[:, :, None, None]) <= 1).all(axis=(0, 1)))
    all_but = [", ".join(str(TEN[i]) for i in np.flatnonzero(~sets[k])) for _, k in found]
    given = "; ".join(f"{TEN[i]} with all types but {types}" for (i, _), types in zip(found, all_but, strict=True))
    return given


def heavy_and_light(run: Run) -> Iterator[Row]:
    """Sec. 6.2, Tables 2 and 3, Fig. 10."""
    tasks, _, demands = second_scenario(EIGHT)
    made = sum(math.prod(heavy_light_demands(c).shape[:3]) for c in COMBINATIONS)
    yield number("Sec. 6.2, Table 2", "pairs of requests, experiments", "64, 1920", [len(EIGHT) ** 2, made])
    found = judged(demands.astype(np.int64).reshape(-1, 2, 3), 1000)
    more, tie = (found[name].reshape(tasks.shape[1:]) for name in ("more", "tie"))
    fewer = np.argwhere(~(more | tie))
    ratio, shown = tasks[1] / tasks[0], [EIGHT.index(t) for t in (BIG, MIXED)]
    yield claim(
        "Fig. 10",
        "2-DF runs more tasks than DRF in the two cases shown",
        (more | tie)[:, shown].all(),
        f"more in {more[:, shown].sum()}, equal in {tie[:, shown].sum()} of {more[:, shown].size} pairs",
        reading="Read as at least as many.",
    )
    yield claim(
        "Sec. 6.2",
        "all other cases are like those of Fig. 10",
        not len(fewer),
        f"more in {more.sum()}, equal in {tie.sum()}, fewer in {len(fewer)} of {more.size} pairs",
        why="User 1 (5, 1, 1) in II and user 2 (25, 25, x).",
    )
    big, small = EIGHT.index(BIG), EIGHT.index((5, 1, 1))
    yield claim(
        "Sec. 6.2",
        "the gain is largest for big requests of user 1 and small ones of user 2",
        np.allclose(ratio[:, big, small], ratio.max(axis=(1, 2)), rtol=1e-9),
        f"+{listed(100 * (ratio[:, big, small] - 1))}% in I, II, III",
        reading="(25x, 25x, 25x) and (5x, x, x).",
    )
    yield number(
        "Sec. 6.2",
        "mean increase of NTT over all experiments, %",
        "45",
        100 * ratio.mean() - 100,
        reading="Mean of ratios, over the eight types.",
        why=f"Ratio of sums: {100 * tasks[1].sum() / tasks[0].sum() - 100:.4g}; over cases with more tasks: "
        f"{100 * ratio[more].mean() - 100:.3g}.",
    )
    eight, nine, printed = mean_unused(BIG, EIGHT), mean_unused(BIG, NINE), ((418, 418, 418), (654, 802, 654))
    yield claim(
        "Table 3 (a)",
        "user 2 has each of the eight printed types",
        (abs(eight - printed) <= 0.5).all(),
        f"{listed(eight[0])} and {listed(eight[1])}; the printed numbers: {readings(printed)}",
        why="A ninth type, (x, x, x), is needed.",
    )
    reading = "With nine types."
    yield number("Table 3 (a)", "mean AUR under DRF, I to III", "418, 418, 418", nine[0], reading=reading)
    yield number("Table 3 (a)", "mean AUR under 2-DF, I to III", "654, 802, 654", nine[1], reading=reading)
    (drf, two), reading = mean_unused(MIXED, NINE), "User 1 of (b) requests (25x, 5x, 5x)."
    yield claim(
        "Table 3",
        "2-DF leaves more unused than DRF",
        (nine[1] > nine[0]).all() and (two > drf).all(),
        reading=reading,
        ours=f"(a) {listed(nine[1])} and {listed(nine[0])}; (b) {listed(two)} and {listed(drf)}",
        why="Not in II of (b).",
    )
    if run.draws:
        draw_two_cases(run)


def compensation(run: Run) -> Iterator[Row]:
    """Sec. 6.2.3, Fig. 11."""
    memory, place = np.linspace(1, 40, 79), "Sec. 6.2.3, Fig. 11"
    held = varied(memory, user=0)[:, :, 0] * (48 + memory)
    drf, two = held[:, memory >= 8]
    yield claim(
        place,
        "2-DF gives user 1 more units the less memory it needs, from 40 to 8",
        (np.diff(two) < 0).all(),
        f"{two[-1]:.4g} units at 40 per task, {two[0]:.4g} at 8",
        reading="Below 8 units they fall again.",
    )
    measured = f"2.5 tasks throughout: {drf[-1]:.4g} units at 40 per task, {drf[0]:.4g} at 8"
    yield claim(place, "DRF does not compensate user 1", (np.diff(drf) > 0).all(), measured)


def google_servers(run: Run) -> Iterator[Row]:
    """Table 4 and the 50 servers of sec. 6.3."""
    counts = fo.datasets.google_servers().counts
    words = "0.5107, 0.2930, 0.0759, 0.0603, 0.0551, 0.0039, 0.0004, 0.0004, 0.0002, 0.0001"
    n, ratios = np.arange(2000)[:, None], np.array(words.split(", "), dtype=float)
    tried = np.where(np.arange(10) == 4, n, counts) / (counts.sum() - counts[4] + n)
    agree = np.flatnonzero((abs(tried - ratios) <= 5e-5 * (1 + 1e-9)).all(axis=1))
    why = "The only number that gives all ten ratios."
    yield number("Table 4", "servers of type 4", "126", agree, why=why)
    yield number("Table 4", "ratios", words, [*(counts / counts.sum())], reading="With 726 servers of type 4.")
    mix = fo.datasets.google_servers(50, types=4, cpu=16, memory=128)
    yield number("Sec. 6.3", "servers of types 1 to 4, 50 in the ratios of Table 4", "27, 16, 4, 3", mix.counts)
    capacities = mix.capacities.ravel()
    yield number("Sec. 6.3", "their CPUs and GB", "8, 64; 8, 32; 8, 96; 16, 128", capacities)


# -- pictures -------------------------------------------------------------------------------------------------------


def tidy(ax: Any) -> None:
    """Light lines behind, no frame."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#E0E0E0", lw=0.6)
    ax.set_axisbelow(True)


def draw_bundles(run: Run) -> None:
    """Figs. 2, 3, 6 and 7."""
    cases = {
        "DRF\n(Figs. 2, 3, 6)": fo.DRF().allocate(CLUSTER).tasks,
        "17 tasks": np.array([2.0, 15.0]),
        "most tasks": fo.MostTasks().allocate(CLUSTER).tasks,
        "2-DF\n(Fig. 7)": TWO_DF.allocate(CLUSTER).tasks,
    }
    fig, axes = plt.subplots(1, 4, figsize=(8, 4.2), layout="constrained", sharey=True)
    for ax, (name, tasks) in zip(axes, cases.items(), strict=True):
        floor = np.zeros(3)
        rows = [*(tasks[:, None] * CLUSTER.demands), unused(tasks)]
        for units, colour, label in zip(rows, (*COLOURS[:2], "#D9D9D9"), ("user 1", "user 2", "unused"), strict=True):
            bars = ax.bar(CLUSTER.resources, units, bottom=floor, color=colour, width=0.75, label=label)
            texts, ink = [f"{u:.4g}" if u > 12 else "" for u in units], "white" if label == "user 1" else "black"
            ax.bar_label(bars, texts, label_type="center", size=8, color=ink)
            floor += units
        ax.set(title=name, xlabel=f"tasks {listed(tasks)}\nNTT {tasks.sum():.4g}, AUR {unused(tasks).sum():.4g}")
        ax.tick_params(axis="x", labelsize=7.5, length=0)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("units")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    run.save(
        fig,
        "fig-2-3-6-7",
        "Figs. 2, 3, 6 and 7: bundles, NTT and AUR.",
    )


def draw_memory(run: Run) -> None:
    """Figs. 4 and 11."""
    fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.8), layout="constrained")
    for ax, user, most in zip(axes, (1, 0), (20, 40), strict=True):
        memory = np.linspace(1, most, 200)
        values = varied(memory, user)[:, :, user] * (1 if user else 48 + memory)
        for line, name, style, colour in zip(values, ("DRF", "2-DF"), ("-", "--"), COLOURS, strict=False):
            ax.plot(memory, line, style, color=colour, label=name, lw=2)
        ax.axvline(8, color="#808080", lw=0.8, ls=":")
        ax.set(xlabel=f"units of memory per task of user {user + 1}", ylim=(0, None))
        tidy(ax)
    axes[0].set(ylabel="tasks of user 2", title="Fig. 4")
    axes[1].set(ylabel="units of all resources, user 1", title="Fig. 11")
    axes[0].legend(frameon=False)
    run.save(fig, "fig-4-11", "Figs. 4 and 11: a user of Fig. 1 changes its memory request.")


def draw_two_cases(run: Run) -> None:
    """Fig. 10."""
    tasks = second_scenario(NINE)[0]
    fig, axes = plt.subplots(2, 3, figsize=(8, 5), layout="constrained", sharex=True, sharey=True)
    for row, (first, case) in zip(axes, ((BIG, "(a)"), (MIXED, "(b)")), strict=True):
        for c, ax in enumerate(row):
            drf, two = tasks[:, c, NINE.index(first)]
            ax.vlines(range(9), drf, two, color="#A0A0A0", lw=1)
            ax.plot(drf, "o", ms=7, color=COLOURS[0], label="DRF")
            ax.plot(two, "D", ms=4, color=COLOURS[1], label="2-DF")
            ax.set(yscale="log", title=f"{case} {COMBINATIONS[c]}")
            ax.set_xticks(range(9), [", ".join(map(str, t)) for t in NINE], rotation=90, size=8)
            ax.set_yticks([10, 100, 1000], ["10", "100", "1000"])
            tidy(ax)
        row[0].set_ylabel("tasks of both users")
    axes[1, 1].set_xlabel("request of user 2, times x")
    axes[0, 0].legend(frameon=False, fontsize=8)
    run.save(
        fig,
        "fig-10",
        "Fig. 10: tasks of both users by the request of user 2; user 1 requests (25x, 25x, 25x) in (a), (25x, 5x, 5x) "
        "in (b). I: both heavy; II: user 2 light; III: both light.",
    )


EXPERIMENTS = (
    motivation,
    fair_properties,
    two_dominant,
    all_requests,
    heavy_and_light,
    compensation,
    google_servers,
    *jiang_wu_2021_online.EXPERIMENTS,
)
NOTE = (
    "NTT is the number of tasks, AUR the number of unused units, NFC the policy of most tasks. Sec. 6.3 is read as "
    "Algorithm 1 on separate servers or, from 60 s on, as *rounds*: the divisible 2-DF of the servers of each type as "
    "one pool, rounded down to whole rounds of equal 2-dominant shares."
)
PAPER = Paper("jiang-wu-2021", "Jiang and Wu (2021)", "2-DF and k-DF", EXPERIMENTS, NOTE)

if __name__ == "__main__":
    main(PAPER)
