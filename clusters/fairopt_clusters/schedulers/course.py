"""Workloads over time under Kueue with fair sharing: what is used, who waits, and what is preempted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers.cohorts import exact, exactly, nodes_of, resource_of
from fairopt_clusters.schedulers.kueue import Kueue
from fairopt_clusters.schedulers.replay import Replay


class Timed(NamedTuple):
    """A workload that arrives and lasts so many seconds."""

    workload: Workload
    arrives: float
    lasts: float


@dataclass
class OfQueue:
    """What a queue asked for and had over time, in units times seconds of one resource; and waits in seconds.

    ``owed`` is what it asked for within its entitlement, and ``short`` what it did not have of that at the time.
    """

    asked: float = 0.0
    used: float = 0.0
    owed: float = 0.0
    short: float = 0.0
    lost: float = 0.0  # used by workloads that were preempted, and began anew
    waits: list[float] = field(default_factory=list)  # of each workload until it first ran, or until the end
    preempted: int = 0

    @property
    def mean_wait(self) -> float:
        """The mean wait, 0 without workloads."""
        return sum(self.waits) / len(self.waits) if self.waits else 0.0


@dataclass(frozen=True)
class Course:
    """What happened, by queue, of the resource that was short most; ``usable`` is what was asked for and was there."""

    resource: str
    usable: float
    queues: Mapping[str, OfQueue]

    def total(self, what: str) -> float:
        """A number of all queues together."""
        return float(sum(getattr(one, what) for one in self.queues.values()))

    @property
    def used(self) -> float:
        """The part of what was asked for and there that was used, without what was begun anew."""
        return (self.total("used") - self.total("lost")) / self.usable if self.usable else 1.0

    @property
    def short(self) -> float:
        """The part of what queues asked for within their entitlements that they did not have at the time."""
        return self.total("short") / self.total("owed") if self.total("owed") else 0.0


class Settled(NamedTuple):
    """What queues use of each resource, and the names of what waits."""

    used: dict[str, dict[str, float]]
    waiting: frozenset[str]


def settled(tree: QueueTree, running: Sequence[Workload], waiting: Iterable[Timed]) -> Settled:
    """What there is once Kueue has admitted and preempted all that it will, if nothing ends."""
    every = [Timed(one, 0.0, math.inf) for one in running] + [*waiting]
    run = _Run(Kueue(), tree, every, range(len(running)))
    run.replay.waits |= {*range(len(running), len(every))}
    run.settle(0.0)
    return Settled(run.used(), frozenset(every[j].workload.name for j in run.replay.waits))


def course_of(
    trees: Sequence[tuple[float, QueueTree]],
    work: Sequence[Timed],
    until: float,
    *,
    entitled: Mapping[str, Mapping[str, float]] | None = None,
    resumes: bool = False,
) -> Course:
    """What happens to workloads while settings change at given times, the first at the beginning.

    A workload that is preempted begins anew, unless it ``resumes``. ``entitled`` is what each queue is entitled to, by
    resource: by default what it gets if all ask for all (`entitlements`) by the first settings.
    """
    due = entitlements(trees[0][1]) if entitled is None else entitled
    run = _Run(Kueue(), trees[0][1], work)
    run.over(trees, until, resumes)
    shares = {name: sum(of.get(name, 0.0) for of in run.asked.values()) / there for name, there in run.there.items()}
    resource = max(shares, key=lambda name: (shares[name], name))
    return run.course(resource, due)


def entitlements(tree: QueueTree) -> dict[str, dict[str, float]]:
    """What each queue gets of each resource, over all flavors, by the rule of Kueue if all ask for all."""
    scheduler, full = Kueue(), replace(tree, queues=tuple(_asking_for_all(tree)))
    given, out = scheduler.divide(full).to_dict("index"), dict[str, dict[str, float]]()
    for one in tree.leaves:
        mine = out.setdefault(one.name, {})
        for cell, amount in given[one.name].items():
            mine[resource_of(str(cell))] = mine.get(resource_of(str(cell)), 0.0) + float(amount)
    return out


def _asking_for_all(tree: QueueTree) -> Iterable[Queue]:
    return (replace(one, request=None if one in tree.leaves else one.request) for one in tree.queues)


_Use = dict[str, dict[str, float]]  # by queue and resource


class _Run:
    """Workloads in the course of time."""

    def __init__(self, kueue: Kueue, tree: QueueTree, work: Sequence[Timed], runs: Iterable[int] = ()) -> None:
        self.kueue, self.work = kueue, work
        every = [exactly(one.workload) for one in work]
        self.replay = Replay({}, every, runs, partial(kueue._start, {}), kueue._order)
        self.set(tree)
        self.left = [one.lasts for one in work]
        self.begun: dict[int, float] = {j: 0.0 for j in self.replay.runs}
        self.first = dict[int, float]()
        self.asked, self.pieces = _Use(), list[tuple[float, _Use, _Use]]()
        self.lost, self.preempted = _Use(), dict[str, int]()
        self.leaves = {one.name for one in tree.leaves}
        self.ends = list[tuple[float, int, float]]()

    def set(self, tree: QueueTree) -> None:
        """Let other settings hold, for what runs too."""
        replay, checked = self.replay, self.kueue.checked(tree)
        replay.nodes = nodes = nodes_of(checked, exact)
        replay.start = partial(self.kueue._start, nodes)
        replay._use(replay.runs)
        replay.aside.clear()
        self.there = dict[str, float]()
        for cell, amount in checked.total().items():
            self.there[resource_of(cell)] = self.there.get(resource_of(cell), 0.0) + amount

    def used(self) -> _Use:
        """What queues use now."""
        return self._sum(self.replay.runs)

    def _sum(self, rows: Iterable[int]) -> _Use:
        out = _Use()
        for j in rows:
            one = self.replay.every[j]
            mine = out.setdefault(one.queue, {})
            for cell, amount in one.uses.items():
                mine[resource_of(cell)] = mine.get(resource_of(cell), 0.0) + float(amount)
        return out

    def settle(self, now: float, resumes: bool = False) -> None:
        """Let all be admitted and preempted that is, at a time."""
        for cycle in self.replay.cycles():
            for j in cycle.admitted:
                self.begun[j] = now
                self.first.setdefault(j, now)
                heappush(self.ends, (now + self.left[j], j, now))
            for j, _ in cycle.preempted:
                had, queue = now - self.begun.pop(j), self.work[j].workload.queue
                self.preempted[queue] = self.preempted.get(queue, 0) + 1
                if resumes:
                    self.left[j] -= had
                else:
                    self._add(self.lost, self._sum([j]), had)

    @staticmethod
    def _add(to: _Use, amounts: _Use, times: float) -> None:
        for queue, of in amounts.items():
            mine = to.setdefault(queue, {})
            for name, amount in of.items():
                mine[name] = mine.get(name, 0.0) + amount * times

    def over(self, trees: Sequence[tuple[float, QueueTree]], until: float, resumes: bool) -> None:
        """All that happens until a time."""
        arrivals = [(one.arrives, j) for j, one in enumerate(self.work)]
        changes = [*trees[1:]]
        heapify(arrivals)
        now = trees[0][0]
        while now < until:
            while arrivals and arrivals[0][0] <= now:
                self.replay.waits.add(heappop(arrivals)[1])
            while self.ends and self.ends[0][0] <= now:
                _, j, begun = heappop(self.ends)
                if self.begun.get(j) == begun:
                    self.replay.end(j)
                    del self.begun[j]
            while changes and changes[0][0] <= now:
                self.set(changes.pop(0)[1])
            self.settle(now, resumes)
            while self.ends and self.begun.get(self.ends[0][1]) != self.ends[0][2]:
                heappop(self.ends)  # preempted since
            nexts = [heap[0][0] for heap in (arrivals, self.ends, changes) if heap]
            then = min([until, *nexts])
            using, waiting = self.used(), self._sum(self.replay.waits)
            self.pieces.append((then - now, using, waiting))
            self._add(self.asked, using, then - now)
            self._add(self.asked, waiting, then - now)
            now = then
        self.until = until

    def course(self, resource: str, due: Mapping[str, Mapping[str, float]]) -> Course:
        """What happened, of one resource."""
        out, usable = {name: OfQueue() for name in sorted(self.leaves)}, 0.0
        for seconds, using, waiting in self.pieces:
            total = 0.0
            for name, one in out.items():
                used, more = (of.get(name, {}).get(resource, 0.0) for of in (using, waiting))
                owed = min(used + more, due.get(name, {}).get(resource, 0.0))
                one.asked += (used + more) * seconds
                one.used += used * seconds
                one.owed += owed * seconds
                one.short += max(0.0, owed - used) * seconds
                total += used + more
            usable += min(total, self.there.get(resource, 0.0)) * seconds
        for j, given in enumerate(self.work):
            one = out[given.workload.queue]
            if given.arrives < self.until:
                one.waits.append(self.first.get(j, self.until) - given.arrives)
        for name, number in self.preempted.items():
            out[name].preempted = number
            out[name].lost = self.lost.get(name, {}).get(resource, 0.0)
        return Course(resource, usable, out)
