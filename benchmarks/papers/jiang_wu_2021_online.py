"""Sec. 6.3 of Jiang and Wu (2021): three jobs on 50 servers under 2-DF, task by task; and the DRF example of 2011.

Each printed number stands beside three that are measured here: of Algorithm 1 with each server by itself (first fit),
of Algorithm 1 with the servers of each type as one pool, and of *rounds*, the rule that the text follows at 60 s: the
divisible 2-DF of each type's pool, rounded down to whole rounds of as many tasks of each job as give equal shares.
Figs. 12a and 12b are drawn with both of the former. Run:

    python benchmarks/papers/jiang_wu_online.py

Pictures and tables (JSON) go to benchmarks/out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import numpy as np
from numpy.typing import NDArray

import fairopt as fo
from fairopt.plots.timeline import draw_timelines

sys.path.insert(0, str(Path(__file__).parents[1]))  # this script is run by its path
from common import OUT, arguments, show

Float = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
SHARE = fo.KDominantShare(2)
DEMANDS = np.array([[2.5, 3.0], [1.0, 15.0], [1.0, 10.0]])  # CPU and GB
TASKS, DURATIONS, ARRIVALS = np.array([450, 150, 80]), (30, 20, 80), (0, 40, 50)
NAMES = ("job 1", "job 2", "job 3")
TYPES = fo.datasets.google_servers(50, types=4, cpu=16, memory=128)  # 27, 16, 4 and 3 servers
KINDS = tuple(f"type {k + 1}" for k in range(4))


def cluster() -> fo.Instance:
    """50 servers of four types."""
    return fo.Instance(
        [], np.repeat(TYPES.capacities, TYPES.counts, axis=0), resources=["CPU", "RAM"],
        units={"CPU": "cores", "RAM": "GB"}, server_types=np.repeat(KINDS, TYPES.counts).tolist(),
    )  # fmt: skip


def jobs() -> list[fo.Job]:
    """The three jobs."""
    rows = zip(NAMES, DEMANDS, DURATIONS, TASKS.tolist(), ARRIVALS, strict=True)
    return [fo.Job(user, units, length, tasks=n, arrival=at) for user, units, length, n, at in rows]


# -- the rule of the text -------------------------------------------------------------------------------------------


def a_round(chosen: Sequence[int]) -> Ints:
    """The fewest whole tasks of some jobs at equal 2-dominant shares; the same on any pool of two resources."""
    shares = [math.prod(map(Fraction, DEMANDS[j])) for j in chosen]
    tasks = [math.lcm(*(share.numerator for share in shares)) / share for share in shares]
    scale = math.lcm(*(n.denominator for n in tasks))
    whole = [int(n * scale) for n in tasks]
    out = np.zeros(len(TASKS), dtype=np.int64)
    out[list(chosen)] = np.array(whole) // math.gcd(*whole)
    return out


def rounds(free: Float, left: Ints) -> Ints:
    """Tasks by type and job that start in pools with so much free, (n_types, n_jobs).

    Whole rounds of all jobs with tasks left; a job that has fewer left than that starts them first, type by type.
    """
    free, starts = free.copy(), np.zeros((len(free), len(left)), dtype=np.int64)
    active = np.flatnonzero(left).tolist()
    while active:
        once = a_round(active)
        many = _times(free, once @ DEMANDS)[:, None] * once
        short = [j for j in active if left[j] <= many[:, j].sum()]
        if not short:
            return starts + many
        for j in short:
            fits = np.diff(np.minimum(_times(free, DEMANDS[j]).cumsum(), left[j]), prepend=0)
            starts[:, j] += fits
            free -= fits[:, None] * DEMANDS[j]
            active.remove(j)
    return starts


def _times(free: Float, units: Float) -> Ints:
    return np.floor((free / units).min(axis=1) + 1e-9).astype(np.int64)


class Moment(NamedTuple):
    """What the rule of the text does at one moment."""

    at: int
    free: Float  # (n_types, 2), before
    starts: Ints  # (n_types, n_jobs)
    left: Ints  # (n_jobs,), after


def by_rounds(moments: Sequence[int], left: Sequence[int]) -> list[Moment]:
    """The rule of the text at some moments, with all pools empty at the first one."""
    free, remaining = np.array(TYPES.capacities * TYPES.counts[:, None]), np.array(left)
    ends: list[tuple[int, int, Ints]] = []
    found = []
    for at in moments:
        for over, j, many in ends:
            free += (over == at) * many[:, None] * DEMANDS[j]
        starts = rounds(free, remaining)
        remaining = remaining - starts.sum(axis=0)
        found.append(Moment(at, free.copy(), starts, remaining))
        free -= starts @ DEMANDS
        ends += [(at + DURATIONS[j], j, starts[:, j]) for j in range(len(TASKS))]
    return found


def most_used(capacity: Float, resource: int) -> float:
    """The most units of a resource that whole tasks can use on one server."""
    most = [range(int((capacity / units).min() + 1e-9) + 1) for units in DEMANDS]
    used = (np.array(n) @ DEMANDS for n in product(*most))
    return float(max(u[resource] for u in used if (u <= capacity + 1e-9).all()))


# -- what a simulation did ------------------------------------------------------------------------------------------


def started(run: fo.Timeline, at: float) -> Ints:
    """Tasks of each job that started at a moment, by type, (n_types, n_jobs)."""
    out = np.zeros((len(KINDS), len(TASKS)), dtype=np.int64)
    now = run.start == at
    kinds = [KINDS.index(kind) for kind in run.server_types or run.servers]
    np.add.at(out, (np.array(kinds)[run.task_server[now]], run.task_job[now]), 1)
    return out


def ended(run: fo.Timeline, by: float, since: float = -math.inf) -> Ints:
    """Tasks of each job that ended after a moment and by another one."""
    return np.bincount(run.task_job[(since < run.end) & (run.end <= by)], minlength=len(TASKS))


def left(run: fo.Timeline, at: float) -> Ints:
    """Tasks of each job that have not started after a moment."""
    return TASKS - np.bincount(run.task_job[run.start <= at], minlength=len(TASKS))


# -- claims ---------------------------------------------------------------------------------------------------------


def _row(at: str, what: str, printed: Any, rule: Any, alone: Any, pooled: Any) -> dict[str, Any]:
    """A printed number beside ours; which of ours agree is found by comparing."""
    ours = {"rounds": rule, "Algorithm 1": alone, "pooled": pooled}
    agree = [name for name, value in ours.items() if value is not None and _text(value) == _text(printed)]
    shown = {name: "" if value is None else _text(value) for name, value in ours.items()}
    return {"at": at, "what": what, "printed": _text(printed), **shown, "agrees": ", ".join(agree) or "none"}


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple, np.ndarray)) else str(value)


PRINTED_AT_60 = ((56, 28, 42), (28, 14, 21), (8, 4, 6), (56, 28, 42))


def compared(alone: fo.Timeline, pooled: fo.Timeline, rule: Sequence[Moment]) -> Iterator[dict[str, Any]]:
    """Each number of the text, in its order."""
    both = (alone, pooled)
    yield _row("0 s", "job 1 in parallel", 159, None, *(started(run, 0)[:, 0].sum() for run in both))
    yield _row("40 s", "job 2 starts", 3, None, *(started(run, 40)[:, 1].sum() for run in both))
    yield _row("", "by type", (0, 0, 0, 3), None, *(started(run, 40)[:, 1] for run in both))
    yield _row("50 s", "job 3 starts", 0, None, *(started(run, 50)[:, 2].sum() for run in both))
    yield _row("60 s", "finished", (318, 3, 0), None, *(ended(run, 60) for run in both))
    by_type = (rule[0].starts, *(started(run, 60) for run in both))
    for k, (kind, printed) in enumerate(zip(KINDS, PRINTED_AT_60, strict=True)):
        yield _row("", f"start on {kind}", printed, *(found[k] for found in by_type))
    yield _row("80 s", "job 2 finishes", 52, rule[0].starts[:, 1].sum(), *(ended(run, 80, 60)[1] for run in both))
    yield _row("", "left before", (28, 95, 1), rule[0].left, *(left(run, 79) for run in both))
    yield _row("", "start", (15, 13, 1), rule[1].starts.sum(axis=0), *(started(run, 80).sum(axis=0) for run in both))
    yield _row(
        "90 s", "start", (13, 15, 0), rule[2].starts.sum(axis=0), *(started(run, 90).sum(axis=0) for run in both)
    )
    yield _row("", "left after", (0, 34, 0), rule[2].left, *(left(run, 90) for run in both))
    yield _row(
        "100 s", "start", (0, 34, 0), rule[3].starts.sum(axis=0), *(started(run, 100).sum(axis=0) for run in both)
    )


def inner(rule: Sequence[Moment]) -> Iterator[dict[str, Any]]:
    """Printed numbers against each other, against capacities and against the paper's own rule."""
    divisible = fo.NaivePerServer(fo.KDF(2)).allocate(
        fo.Instance(DEMANDS, TYPES.capacities * TYPES.counts[:, None], users=NAMES, servers=KINDS)
    )
    times = divisible.tasks_by_server / a_round(range(3))[:, None]
    yield _fact("60 s: rounds of 4, 2, 3 by type", "14, 7, 2, and type 4 as type 1", _text(times[0].round(3)))
    capacities = TYPES.capacities * TYPES.counts[:, None]
    needed = np.array(PRINTED_AT_60[3]) @ DEMANDS
    yield _fact("60 s: type 4 as printed needs", "(all there is, or less)",
                f"{needed[0]:g} cores, {needed[1]:g} GB of {capacities[3, 0]:g}, {capacities[3, 1]:g}")  # fmt: skip
    for k in range(4):
        used, most = rule[0].starts[k] @ DEMANDS, [most_used(TYPES.capacities[k], i) for i in range(2)]
        yield _fact(
            f"60 s: rounds on {KINDS[k]} in whole servers", "(scheduled)",
            f"{used[0]:g} cores and {used[1]:g} GB; whole tasks use at most {most[0] * TYPES.counts[k]:g} and "
            f"{most[1] * TYPES.counts[k]:g}",
        )  # fmt: skip
    free = rule[1].free.sum(axis=0)
    taken = np.array([15, 13, 1]) @ DEMANDS
    yield _fact("80 s: what the printed tasks take", "all remaining resources",
                f"{taken[0]:g} of {free[0]:g} cores, {taken[1]:g} of {free[1]:g} GB")  # fmt: skip
    shares = (rule[0].starts.sum(axis=0) * [1, 0, 1] + [15, 13, 1]) * DEMANDS.prod(axis=1)
    yield _fact("80 s: 2-dominant shares after that, job 2 = 1", "lowest first", _text((shares / shares[1]).round(2)))
    yield _fact("90 s: left of job 2", "34", f"95 - 13 - 15 = {95 - 13 - 15}")
    # as printed up to 90 s: what runs then is job 3 of 60 s, and what started at 80 s
    running = (rule[0].starts.sum(axis=0) * [0, 0, 1] + [15, 13, 1]) @ DEMANDS
    wanted = np.array([13, 15 + 67, 0]) @ DEMANDS
    room = capacities.sum(axis=0) - running
    yield _fact("90 s: all that is left of jobs 1 and 2 takes", "waits for 100 s in part",
                f"{wanted[0]:g} of {room[0]:g} free cores, {wanted[1]:g} of {room[1]:g} free GB")  # fmt: skip


def _fact(what: str, printed: str, found: str) -> dict[str, Any]:
    return {"what": what, "printed": printed, "computed": found}


def decisions() -> Iterator[dict[str, Any]]:
    """The order of decisions for 9 CPUs and 18 GB by tie rule; the paper's is B, A, A, B, A."""
    units = {"A": [1, 4], "B": [3, 1]}
    for rule, users in (
        ("order of users, A first", "AB"), ("order of users, B first", "BA"),
        ("larger dominant share per task first", sorted(units, key=lambda u: -max(np.array(units[u]) / [9, 18]))),
        ("smaller dominant share per task first", sorted(units, key=lambda u: max(np.array(units[u]) / [9, 18]))),
    ):  # fmt: skip
        scheduler = fo.Scheduler([9, 18])
        for user in users:
            scheduler.submit(user, units[user], tasks=10)
        order = "".join(task.user for task in iter(scheduler.next_task, None))
        yield {"ties": rule, "decisions": order, "tasks": f"{order.count('A')}, {order.count('B')}",
               "as printed": "yes" if order == "BAABA" else "no"}  # fmt: skip


def main() -> None:
    """Simulations, pictures and tables."""
    arguments(str(__doc__))
    servers = cluster()
    moments = [*range(5, 145, 5)]
    runs = {
        name: fo.simulate(
            servers, jobs(), SHARE, scheduler=fo.Scheduler(servers, SHARE, placement=placement), fair_at=moments,
            name=name,
        )
        for name, placement in (("each server by itself", "first-fit"), ("each type as one pool", "pooled"))
    }  # fmt: skip
    rule = by_rounds([60, 80, 90, 100], TASKS - [318, 3, 0])
    rows = [*compared(*runs.values(), rule)]
    show("Sec. 6.3 of Jiang and Wu (2021): jobs 1, 2, 3, or types 1 to 4", rows, "jiang-wu-online")
    show("Printed numbers of sec. 6.3 among themselves", [*inner(rule)], "jiang-wu-online-inner")
    show("Ghodsi et al. (2011), 9 CPUs and 18 GB: decisions by tie rule", [*decisions()], "ghodsi-decisions")
    for kind in ("allocation", "shares", "distance", "utilisation"):
        name = "figs-12a-12b" if kind == "allocation" else kind
        draw_timelines(runs, kind)[0].figure.savefig(OUT / f"jiang-wu-online-{name}.png", dpi=120)


if __name__ == "__main__":
    main()
