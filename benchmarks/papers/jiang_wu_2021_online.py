"""Sec. 6.3 and Fig. 12 of Jiang and Wu (2021): three jobs on 50 servers under 2-DF, task by task.

Each number is compared with up to three readings: Algorithm 1 on separate servers (first fit), Algorithm 1 with the
servers of each type as one pool, and, from 60 s on, *rounds*: the divisible 2-DF of each pool, rounded down to whole
rounds of as many tasks of each job as give equal 2-dominant shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from published import NUMBER, Experiment, Row, Run, claim, listed, number, plt

import fairopt as fo
from fairopt.plots import draw_timelines

Float = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Runs = Mapping[str, fo.online.Timeline]
SHARE = fo.KDominantShare(2)
DEMANDS = np.array([[2.5, 3.0], [1.0, 15.0], [1.0, 10.0]])  # CPU and GB
TASKS, DURATIONS, ARRIVALS = np.array([450, 150, 80]), (30, 20, 80), (0, 40, 50)
NAMES = ("job 1", "job 2", "job 3")
JOBS = [fo.Job(NAMES[j], DEMANDS[j], DURATIONS[j], tasks=int(TASKS[j]), arrival=ARRIVALS[j]) for j in range(3)]
TYPES = fo.datasets.google_servers(50, types=4, cpu=16, memory=128)
POOLS = TYPES.capacities * TYPES.counts[:, None]
KINDS = np.repeat(["type 1", "type 2", "type 3", "type 4"], TYPES.counts).tolist()
CLUSTER = fo.Instance(
    [], np.repeat(TYPES.capacities, TYPES.counts, axis=0), resources=["CPU", "RAM"], server_types=KINDS
)
ALONE, POOLED, ROUNDS = "Algorithm 1 on servers", "Algorithm 1 on pools", "Rounds"
AT_60 = ((56, 28, 42), (28, 14, 21), (8, 4, 6), (56, 28, 42))  # printed, by type
TEXT = {0: (159, 0, 0), 30: (159, 0, 0), 40: (0, 3, 0), 80: (15, 13, 1), 90: (13, 15, 0), 100: (0, 34, 0)}


def started(run: fo.online.Timeline, at: float) -> Ints:
    """Tasks that started at a moment, (n_types, n_jobs)."""
    kinds = np.unique(run.server_types or run.servers, return_inverse=True)[1][run.task_server]
    now = run.start == at
    return np.array([np.bincount(run.task_job[now & (kinds == k)], minlength=3) for k in range(4)])


def finished(run: fo.online.Timeline, since: float, by: float) -> Ints:
    """Tasks of each job that ended after a moment and by another one."""
    return np.bincount(run.task_job[(since < run.end) & (run.end <= by)], minlength=3)


def left(run: fo.online.Timeline, at: float) -> Ints:
    """Tasks of each job that have not started by a moment."""
    return TASKS - np.bincount(run.task_job[run.start <= at], minlength=3)


def rounds(free: Float, waiting: Ints) -> tuple[Ints, Float]:
    """Tasks by pool and job that start in whole rounds, and the divisible number of rounds of each pool.

    A job that has fewer tasks waiting than rounds would start goes first, pool by pool.
    """
    free, starts = free.copy(), np.zeros((len(free), len(waiting)), dtype=np.int64)
    active = np.flatnonzero(waiting)
    while len(active):
        twice = (2 * DEMANDS[active].prod(axis=1)).astype(np.int64)  # in proportion to 2-dominant shares of a task
        once = np.lcm.reduce(twice) // twice
        times = fo.NaivePerServer(fo.KDF(2)).allocate(fo.Instance(DEMANDS[active], free)).tasks_by_server[0] / once[0]
        many = np.floor(times + 1e-9).astype(np.int64)[:, None] * once
        short = active[waiting[active] <= many.sum(axis=0)]
        if not len(short):
            starts[:, active] = many
            return starts, times
        j = short[0]
        most = np.floor((free / DEMANDS[j]).min(axis=1)).astype(np.int64)
        starts[:, j] = np.diff(np.minimum(most.cumsum(), waiting[j]), prepend=0)
        free -= starts[:, [j]] * DEMANDS[j]
        active = active[active != j]
    return starts, np.zeros(len(free))


def in_turn(pools: Float, waiting: Ints) -> list[int]:
    """Tasks of jobs 1 and 2 that start in each pool by itself, one of each in turn while they fit."""
    tasks = np.zeros(2, dtype=np.int64)
    for pool in pools:
        scheduler = fo.Scheduler(pool, fo.Tasks())
        for j in np.flatnonzero(waiting[:2] - tasks):
            scheduler.submit(NAMES[j], DEMANDS[j], int(waiting[j] - tasks[j]))
        while scheduler.next_task():
            pass
        tasks += [scheduler.running.get(name, 0) for name in NAMES[:2]]
    return tasks.tolist()


class AsPrinted:
    """A scheduler that starts what the text says, on one server with all capacity."""

    def __init__(self, starts: Mapping[int, Iterable[int]]) -> None:
        tasks = [fo.online.PlacedTask(0, "", "all", j) for j in range(3)]
        self.due = {at: [task for task, k in zip(tasks, n, strict=True) for _ in range(k)] for at, n in starts.items()}

    def submit(self, user: str, demands: Any, tasks: int) -> int:
        """The number of a job."""
        return NAMES.index(user)

    def next_task(self, at: float) -> fo.online.PlacedTask | None:
        """The next task of those that start now."""
        due = self.due.get(int(at))
        return due.pop() if due else None

    def finish(self, task: fo.online.PlacedTask) -> None:
        """Nothing is kept of tasks that end."""


def _row(at: int, what: str, printed: str, ours: Mapping[str, Any], why: str = "") -> Row:
    """The first reading that gives what is printed, or else the first one."""
    values = {name: np.atleast_1d(value).tolist() for name, value in ours.items()}
    wanted = [*map(int, NUMBER.findall(printed))]
    chosen = next((name for name, value in values.items() if value == wanted), next(iter(values)))
    return number(f"Sec. 6.3, {at} s", what, printed, values[chosen], reading=f"{chosen}.", why=why)


def before_60(runs: Runs) -> Iterator[Row]:
    """The numbers up to the moment at which all that runs ends."""
    yield _row(0, "tasks of job 1", "159", {name: started(x, 0)[:, 0].sum() for name, x in runs.items()})
    there, with_pools = (started(x, 40)[:, 1].tolist() for x in runs.values())
    found = f"{listed(there)} on types 1 to 4; on pools {listed(with_pools)}"
    words = "only the servers of type 4 start a task of job 2, one each"
    yield claim("Sec. 6.3, 40 s", words, there == [0, 0, 0, TYPES.counts[3]], found, reading=f"{ALONE}.")
    alone = runs[ALONE]
    running, free = (alone.start <= 50) & (alone.end > 50), alone.capacities.copy()
    np.subtract.at(free, alone.task_server[running], DEMANDS[alone.task_job[running]])
    yield number("Sec. 6.3, 50 s", "CPUs left on a server, at most", "0.5", free[:, 0].max())
    starts = [int(started(x, 50).sum()) for x in runs.values()]
    found = f"{starts[0]} start (pools {starts[1]}); at least {free[:, 1].min():g} GB left on each server"
    yield claim("Sec. 6.3, 50 s", "memory suffices, but no task of job 3 starts", starts[0] == 0, found)
    on = ((alone.start < 60) & (alone.end > 60)).sum()
    yield claim("Sec. 6.3, 60 s", "all tasks that run are finished", on == 0, f"{on} go on")
    yield _row(
        60, "tasks of jobs 1 and 2 finished", "318, 3", {name: finished(x, 0, 60)[:2] for name, x in runs.items()}
    )


def at_60(runs: Runs, found: Ints) -> Iterator[Row]:
    """The numbers by type at 60 s."""
    needed = AT_60[3] @ DEMANDS
    for k, printed in enumerate(AT_60):
        ours = {ROUNDS: found[k], **{name: started(x, 60)[k] for name, x in runs.items()}}
        why = f"These are the numbers of type 1; they take {needed[0]:g} of {POOLS[k, 0]:g} CPUs." if k == 3 else ""
        yield _row(
            60, f"{'' if k in (1, 2) else 'tasks of jobs 1, 2, 3 started '}on type {k + 1}", listed(printed), ours, why
        )
    small = fo.Instance(DEMANDS, TYPES.capacities[1], resources=["CPU", "RAM"])
    most = fo.Policy(fo.Total(fo.ResourceShare("RAM"))).allocate(small, integral=True).usage[0, 1]
    needed, room = AT_60[1] @ DEMANDS[:, 1], most * TYPES.counts[1]
    measured = f"{needed:g} GB; whole tasks use at most {room:g} GB of {TYPES.counts[1]} servers"
    why = f"They fit into a pool of {POOLS[1, 1]:g} GB, not on its servers."
    yield claim("Sec. 6.3, 60 s", "servers of type 2 run 28, 14 and 21 tasks", needed <= room, measured, why=why)


def after_60(runs: Runs, r60: Ints) -> Iterator[Row]:
    """The numbers from 80 s on, where the text goes on from rounds."""
    text = {at: np.array(tasks) for at, tasks in TEXT.items()}
    left80 = TASKS - [318, 3, 0] - r60.sum(axis=0)
    free80 = POOLS - (r60 * [1, 0, 1]) @ DEMANDS
    r80 = rounds(free80, left80)[0]
    left90 = left80 - r80.sum(axis=0)
    r90 = rounds(POOLS - (r60 * [0, 0, 1] + r80) @ DEMANDS, left90)[0]

    def row(
        at: int, what: str, printed: str, rule: Ints, of: Callable[[fo.online.Timeline], Ints], why: str = ""
    ) -> Row:
        return _row(at, what, printed, {ROUNDS: rule, **{name: of(x) for name, x in runs.items()}}, why)

    yield row(80, "tasks of job 2 finished", "52", r60.sum(axis=0)[1:2], lambda x: finished(x, 60, 80)[1:2])
    yield row(80, "tasks of jobs 1 and 2 waiting", "28, 95", left80[:2], lambda x: left(x, 79)[:2])
    why = f"80 - {' - '.join(map(str, r60[:, 2]))} = {left80[2]}."
    yield row(80, "tasks of job 3 waiting", "1", left80[2:], lambda x: left(x, 79)[2:], why)
    turns = in_turn(r60[:, [1]] * DEMANDS[1] - np.eye(4)[:, [0]] * DEMANDS[2], left80)  # job 3 on type 1
    why = (
        f"In turn, {turns[0]} and {turns[1]} tasks of jobs 1 and 2 fit into what job 2 releases, but 2-DF gives equal "
        "shares, not equal numbers."
    )
    yield row(
        80, "tasks of jobs 1, 2, 3 started", "15, 13, 1", r80.sum(axis=0), lambda x: started(x, 80).sum(axis=0), why
    )
    used, free = text[80] @ DEMANDS, free80.sum(axis=0)
    everything = (free - used < DEMANDS[:2]).any(axis=1).all()
    measured = f"{used[0]:g} of {free[0]:g} CPUs and {used[1]:g} of {free[1]:,.0f} GB"
    why = f"More is free than the {r60[:, 1].sum()} CPUs that job 2 releases."
    yield claim("Sec. 6.3, 80 s", "all remaining resources are allocated", everything, measured, why=why)
    per_task = SHARE.per_task(fo.Instance(DEMANDS, POOLS.sum(axis=0)))
    shares = (r60.sum(axis=0) * [1, 0, 1] + text[80]) * per_task
    times, lowest = shares / shares[1], shares[0] - per_task[0] <= shares[1]
    measured = f"jobs 1 and 3 have {times[0]:.1f} and {times[2]:.1f} times the share of job 2"
    why = f"Algorithm 1 starts {started(runs[ALONE], 80)[:, 1].sum()} tasks of job 2 only."
    yield claim("Sec. 6.3, 80 s", "as in Algorithm 1, tasks start where the share is lowest", lowest, measured, why=why)
    waiting = np.array([28, 95, 1]) - text[80]
    turns = in_turn(r60[:3, [0]] * DEMANDS[0], waiting)
    why = f"In turn, {turns[0]} and {turns[1]} fit into what job 1 releases on types 1 to 3; more is free."
    yield row(
        90,
        "tasks of jobs 1 and 2 started",
        "13, 15",
        r90.sum(axis=0)[:2],
        lambda x: started(x, 90).sum(axis=0)[:2],
        why,
    )
    rest = (waiting - text[90])[1]
    why = f"By the printed numbers 95 - 13 - 15 = {rest}."
    still = left90 - r90.sum(axis=0)
    yield row(90, "tasks of job 2 waiting", "34", still[1:2], lambda x: left(x, 90)[1:2], why)
    why = f"Of the {rest} waiting tasks {rest - 34} would never start."
    yield row(100, "tasks of job 2 started", "34", still[1:2], lambda x: started(x, 100).sum(axis=0)[1:2], why)
    need, room = waiting @ DEMANDS, POOLS.sum(axis=0) - (r60.sum(axis=0) * [0, 0, 1] + text[80]) @ DEMANDS
    measured = (
        f"at 90 s all waiting tasks need {need[0]:g} of {room[0]:g} free CPUs, {need[1]:,.0f} of {room[1]:,.0f} GB"
    )
    why = "Pools have room at 90 s for all."
    yield claim("Sec. 6.3, 100 s", "the rest of job 2 has waited for this", (need > room).any(), measured, why=why)


def three_jobs(run: Run) -> Iterator[Row]:
    """Sec. 6.3, and Fig. 12."""
    runs = {
        name: fo.simulate(CLUSTER, JOBS, SHARE, scheduler=fo.Scheduler(CLUSTER, SHARE, placement=placement))
        for name, placement in ((ALONE, "first-fit"), (POOLED, "pooled"))
    }
    yield from before_60(runs)
    r60 = rounds(POOLS, TASKS - [318, 3, 0])[0]
    yield from at_60(runs, r60)
    yield from after_60(runs, r60)
    if run.draws:
        pictures(run, runs, r60)


def pictures(run: Run, runs: Runs, r60: Ints) -> None:
    """Fig. 12, and 2-dominant shares beside fair ones, of both runs and of what the text says."""
    whole = fo.Instance([], POOLS.sum(axis=0), resources=["CPU", "RAM"], servers=["all"])
    text = fo.simulate(whole, JOBS, SHARE, scheduler=AsPrinted(TEXT | {60: r60.sum(axis=0).tolist()}))
    shown = {"as the text has it": text, "each server by itself": runs[ALONE], "pools by type": runs[POOLED]}
    figure, axes = plt.subplots(2, 3, figsize=(8.2, 4), layout="constrained", sharex=True, sharey=True)
    draw_timelines(shown, "allocation", ax=axes.ravel(), between=(0, 160))
    _label(axes, "CPU (%)", "RAM (%)")
    run.save(
        figure,
        "fig-12",
        "Figs. 12a and 12b: CPU and RAM of the jobs, by the text (with 12, 6 and 9 tasks on type 4 at 60 s) and by "
        f"Algorithm 1. By the text {text.unstarted[1]} tasks of job 2 never start.",
    )
    figure, axes = plt.subplots(1, 3, figsize=(8.2, 2.8), layout="constrained", sharey=True, squeeze=False)
    fair = {name: x.with_fair_at([*range(5, 145, 10)]) for name, x in shown.items()}
    draw_timelines(fair, "shares", ax=axes[0], between=(0, 160))
    _label(axes, "2-dominant share")
    run.save(
        figure,
        "fig-12-shares",
        "2-dominant shares of the jobs, and of the divisible 2-DF for the tasks present (rings).",
    )


def _label(axes: Any, *rows: str) -> None:
    for (k, c), ax in np.ndenumerate(axes):
        ax.set(xlabel="time (s)" if k == len(rows) - 1 else "", ylabel=rows[k] if c == 0 else "")


EXPERIMENTS: tuple[Experiment, ...] = (three_jobs,)
