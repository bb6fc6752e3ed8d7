"""Lowest share first: whose task starts next, and on which server (Definition 14.1 in docs/methods/online.md).

Users are in a heap by their keys, so that a decision takes O(log n) steps if every task fits, apart from placing it. A
job whose task fits nowhere is blocked and leaves the heap; it is compared only with servers on which a task has ended
since, as free capacity elsewhere has only shrunk.

Decayed averages change at all times. But ``log2(a(t)) + t / h``, which orders users as their averages a(t) of half-life
h do, stays while a user runs nothing and does not fall while its tasks run: what is in the heap is a lower bound, and
only keys at its top are brought up to date.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.blocks.base import brief
from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.online.requests import MOST_TASKS, Asked, Requests
from fairopt.online.task_scheduler import PlacedTask, TaskScheduler, check_tasks
from fairopt.online.usage import Usage
from fairopt.solve.whole.greedy import to_36_bits
from fairopt.solve.whole.servers import Placement, Request, Servers

MOST_TRIED = 64  # blocked users tried one by one before all blocked queues are compared at once
EACH_COSTS = 175  # comparing so many queues at once takes as long as trying one user
FEW_FREED = 4  # up to so many servers on which tasks ended are tried one by one
_DOMINANT = DominantShare()
UNIT = 1 << 1074  # a share of 1: every float is a whole number of 1 / UNIT
FIX_AT = "give at= as a time, a number that never decreases"


class _Queue:
    """Waiting tasks of one user with the same request; ``share`` is that of one task, or a list by server.

    ``share`` is in whole numbers of ``UNIT``. All of the ``size`` tasks of a job start together; 0 is no gang. Tasks of
    other requests that start with them are ``parts``, which are in no line.
    """

    __slots__ = ("jobs", "number", "parts", "request", "share", "size", "slot", "user")

    def __init__(self, number: int, user: _User, request: Request, share: float | list[float], size: int) -> None:
        self.number, self.user, self.request, self.size = number, user, request, size
        self.share = [*map(in_units, share)] if isinstance(share, list) else in_units(share)
        self.jobs: deque[list[Any]] = deque()  # [number of the job, tasks left]
        self.slot: int | None = None  # in the table of blocked queues, whose task fits nowhere
        self.parts: list[_Queue] = []

    @property
    def all_parts(self) -> list[_Queue]:
        """The queue, and what starts with its tasks."""
        return [self, *self.parts]


class _User:
    """A user with its running and waiting tasks."""

    __slots__ = (
        "allowance",
        "average",
        "blocked",
        "held",
        "index",
        "last",
        "limit",
        "name",
        "present",
        "queues",
        "ready",
        "running",
        "since",
        "turn",
        "waiting",
        "weight",
    )

    def __init__(self, name: str, index: int) -> None:
        self.name, self.index, self.weight, self.limit = name, index, 1.0, math.inf
        self.queues: dict[Any, _Queue] = {}
        self.ready: list[tuple[int, int, _Queue]] = []  # heap of queues that are not blocked, by their first job
        self.blocked: set[_Queue] = set()
        self.held = 0  # the share of running tasks, in whole numbers of UNIT, so that sums are exact
        self.present, self.running = 0.0, 0
        self.waiting: float = 0
        self.average: float = 0.0  # what is remembered of the share, and since when
        self.since: Any = 0.0
        self.turn = 0.0  # the start tag of the next task, in shares per weight
        self.last = -1  # the number of tasks that had started when one of it did so last
        self.allowance: float | None = None  # what samples say of it


class _Line:
    """A priority queue of users: a heap of keys that end with the user; a new key replaces the user's old one."""

    def __init__(self, fresh: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None) -> None:
        self.heap: list[tuple[Any, ...]] = []
        self.counts: dict[_User, tuple[Any, ...]] = {}  # the valid key of each user
        self.fresh = fresh  # the current key of the same user, if keys increase with time

    def put(self, key: tuple[Any, ...]) -> None:
        """Set the key of a user."""
        heap = self.heap
        self.counts[key[-1]] = key
        if heap and heap[0][-1] is key[-1]:
            heapreplace(heap, key)
        else:
            heappush(heap, key)
            if len(heap) > 2 * len(self.counts) + 64:
                heap[:] = self.counts.values()
                heapify(heap)

    def first(self) -> tuple[Any, ...] | None:
        """The smallest current key."""
        while (key := self._top()) is not None:
            if not self._refreshed(key):
                return key
        return None

    def _top(self) -> tuple[Any, ...] | None:
        """The smallest key, which may have increased with time."""
        heap, counts = self.heap, self.counts
        while heap:
            key = heap[0]
            if counts.get(key[-1]) is key:
                return key
            heappop(heap)
        return None

    def _refreshed(self, top: tuple[Any, ...]) -> bool:
        """Whether the smallest key had increased with time, and was replaced."""
        if self.fresh is None or (now := self.fresh(top)) is top:
            return False
        self.counts[top[-1]] = now
        heapreplace(self.heap, now)
        return True

    def search(self, found: Callable[[_User], Any], most: int) -> tuple[Any, bool]:
        """The first result of a function of users, in order, and whether it is conclusive after ``most`` users.

        Where a user is in order matters only if it has a result.
        """
        passed: list[tuple[Any, ...]] = []
        results: dict[_User, Any] = {}
        answer = None
        while answer is None and len(passed) <= most and (key := self._top()) is not None:
            user = key[-1]
            result = results[user] if user in results else found(user)
            if result is not None and self._refreshed(key):
                results[user] = result
                continue
            answer = result
            passed.append(heappop(self.heap))
        for key in passed:
            heappush(self.heap, key)
        return answer, answer is not None or len(passed) <= most


class _Blocked:
    """A table of blocked queues, whose task fits nowhere, compared at once when tasks end."""

    def __init__(self, n_resources: int) -> None:
        self.queues: list[_Queue] = []
        self.units, self.keys = np.empty((8, n_resources)), np.empty(8)

    def add(self, queue: _Queue, key: float) -> None:
        """Add a queue with its key."""
        k = queue.slot = len(self.queues)
        self.queues.append(queue)
        queue.user.blocked.add(queue)
        if k == len(self.keys):
            self.units, self.keys = np.concatenate([self.units] * 2), np.concatenate([self.keys] * 2)
        self.units[k] = np.min([one.request.units for one in queue.all_parts], axis=0)  # each part needs as much
        self.keys[k] = key

    def remove(self, queue: _Queue) -> None:
        """Remove a queue; the last one takes its slot."""
        k, last = queue.slot, self.queues.pop()
        assert k is not None
        if last is not queue:
            self.queues[k], last.slot = last, k
            self.units[k], self.keys[k] = self.units[len(self.queues)], self.keys[len(self.queues)]
        queue.slot = None
        queue.user.blocked.remove(queue)

    def fitting(self, servers: Servers, rows: list[int]) -> list[_Queue]:
        """The queues whose task fits on one of some servers, a gang with the room on all.

        For one server only those with the smallest key.
        """
        n = len(self.queues)
        fits = np.logical_and.reduce(self.units[:n] <= servers.room(rows)[:, None], axis=2)
        fitting = np.flatnonzero(fits[0] if len(rows) == 1 else np.logical_or.reduce(fits))
        if len(rows) == 1:
            while len(fitting):
                least = fitting[self.keys[fitting] == self.keys[fitting].min()]
                here = [q for q in map(self.queues.__getitem__, least.tolist()) if _possible(servers, q, rows)]
                if here:
                    return here
                fitting = np.setdiff1d(fitting, least, assume_unique=True)
        return [q for q in map(self.queues.__getitem__, fitting.tolist()) if _possible(servers, q, rows)]


class Scheduler(TaskScheduler):
    """Schedule whole tasks: the user with the lowest share per weight runs next, if its task fits.

    Algorithm 1 of Jiang and Wu (2021), for any share, with weights, limits and placement constraints, on one or several
    servers. Call `submit` when tasks arrive, `next_task` until it returns None, and `finish` when a task ends. A
    scheduler has no clock and no threads, and can be pickled.

    Parameters
    ----------
    capacities : array-like of shape (n_resources,) or (n_servers, n_resources), dict by resource, or Instance
        Units on each server. Of an instance its servers, one for each count, and labels are used.
    share : Share, default DominantShare()
        A user's share is the sum over its running tasks; that of a task is its share in an instance of its user alone.
    resources, servers, server_types : sequence of str, optional
        Labels, and the type of each server.
    placement : str or callable, default "first-fit"
        The server of a task, among those where it fits: ``"first-fit"``, the first; ``"best-fit"``, the fullest, by the
        mean fraction in use over resources; ``"least-loaded"``, the emptiest; ``"pooled"``, all servers of a type as
        one pool. A function is called as ``rule(units, free, rows)`` with the task's units (n_resources,), the free
        units (n_rows, n_resources) of servers where it fits, and their rows, and returns one of the rows.
    on_misfit : {"skip", "stop"}, default "skip"
        If the task of the first user fits nowhere, go on to the next user, or start nothing before it fits, as in the
        paper.
    order : {"share", "arrival"}, default "share"
        ``"arrival"`` is first come, first served.
    half_life : float, optional
        Compare decayed averages of shares: usage a half-life ago counts half. It means ``usage=Usage(half_life)``.
    usage : Usage, optional
        What is remembered of users, such as `fairopt.online.VTC`. If time counts, every call needs it as ``at``.

    Raises
    ------
    InvalidInstance
        If capacities or labels are wrong.
    InvalidBlock
        If an option is wrong.

    Notes
    -----
    *Ties* of users who hold nothing go to the one who was given least per weight while it waited (start tags; a user
    who waited for nothing has no claim on the past), so that single slots, one after another, follow the weights. Other
    ties go to whoever was served least recently, then to the user who submitted first. A user's tasks start in the
    order of submission, except that ``"skip"`` passes over those that fit nowhere. Shares that agree to 36 bits are
    equal.

    *Cost:* O(log n) per decision and per user whose task fits nowhere, which is tried again only on servers where tasks
    end; plus a pass over the servers.

    *Decay:* a share s held from time t to u changes the average a to ``s + (a - s) * 2 ** (-(u - t) / half_life)``; a
    user who begins to wait is lifted to the least average of those who wait. Equal averages are ordered by the current
    shares. See `fairopt.online.Usage` for other memories.

    References
    ----------
    Jiang and Wu (2021), sec. 4.4; Ghodsi et al. (2011), Algorithm 1; Goyal, Vin and Cheng (1996) for start tags.

    Examples
    --------
    The example of Ghodsi et al. (2011): 9 CPUs, 18 GB.

    >>> import fairopt as fo
    >>> scheduler = fo.Scheduler([9, 18], resources=["cpu", "memory"])
    >>> for user, units in {"A": [1, 4], "B": [3, 1]}.items():
    ...     job = scheduler.submit(user, units, tasks=10)
    >>> started = list(iter(scheduler.next_task, None))
    >>> "".join(task.user for task in started)
    'ABABA'
    >>> scheduler.finish(started[1])  # one of B, which then has the lower share
    >>> scheduler.next_task().user
    'B'
    """

    def __init__(
        self,
        capacities: ArrayLike | Mapping[str, Any] | Instance,
        share: Share = _DOMINANT,
        *,
        resources: Sequence[str] | None = None,
        servers: Sequence[str] | None = None,
        server_types: Sequence[str] | None = None,
        placement: str | Placement = "first-fit",
        on_misfit: str = "skip",
        order: str = "share",
        half_life: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        if not isinstance(share, Share):
            raise InvalidBlock(f"share is {brief(share)}; give a share such as DominantShare() or KDominantShare(2)")
        options = {"on_misfit": (on_misfit, ("skip", "stop")), "order": (order, ("share", "arrival"))}
        for name, (value, known) in options.items():
            if value not in known:
                raise InvalidBlock(f"{name} is {value!r}; {nearest(value, known)}")
        if usage is not None and not isinstance(usage, Usage):
            raise InvalidBlock(f"usage is {brief(usage)}; give one such as fo.online.Usage(half_life=3600)")
        if usage is not None and half_life is not None:
            raise InvalidBlock("half_life=h means usage=Usage(h); leave one of the two out")
        if order == "arrival" and not (usage is None and half_life is None):
            raise InvalidBlock("order='arrival' compares no shares; leave half_life and usage out")
        self.usage = Usage(half_life) if usage is None else usage
        self.share, self.on_misfit, self.order, self.half_life = share, on_misfit, order, half_life
        super().__init__(capacities, share, resources, servers, server_types, placement)
        self._of = f" of {share}"
        if usage is not None:
            self.requests = Requests(self.instance, self._servers, self.usage._counted(share, self.instance))
        self._every = getattr(self.usage, "sampling", None)  # the time between two samples
        self._timed = self.usage.half_life is not None or self._every is not None
        self._plain = not self._timed and self.usage.cost is None
        fresh = self._fresh if self._timed and self._every is None else None
        self._line, self._blocked_line = _Line(fresh), _Line(fresh)
        self._left: _User | None = None  # the last user of whom no task waits any more
        self._samples = 0  # times between samples that have passed
        self._queues = 0
        self._jobs = 0
        self._queue_of: dict[int, _Queue] = {}  # by number of a job with waiting tasks
        self._together: dict[str, _Queue] = {}  # of waiting jobs that start together, by label
        self._blocked = _Blocked(self.instance.n_resources)
        self._freed: dict[int, None] = {}  # servers on which tasks ended since blocked queues were last tried there
        self._time: float | None = None
        self._origin = 0.0
        self._turn = 0.0  # the largest start tag of tasks that have started: of those who waited for nothing till now

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def shares(self) -> dict[str, float]:
        """Share of each user, in order of first submission; with ``usage`` what is remembered of it."""
        return {name: self._share(user) for name, user in self._users.items()}

    # -- events ---------------------------------------------------------------------------------------------------

    def submit(
        self,
        user: str,
        demands: ArrayLike | Mapping[str, float],
        tasks: float = 1,
        *,
        weight: float | None = None,
        limit: float | None = None,
        eligible: Sequence[str] | ArrayLike | None = None,
        gang: bool = False,
        together: str | None = None,
        at: float | None = None,
    ) -> int:
        """Add a job: equal tasks of a user.

        Parameters
        ----------
        user : str
            Label; a new one is a new user.
        demands : array-like of shape (n_resources,) or dict by resource
            Units that one task takes.
        tasks : int, default 1
            Number of tasks; infinity for an endless backlog.
        weight, limit : float, optional
            The user's weight, and the most tasks that it may run at once, from now on for all its jobs. Default:
            unchanged, initially 1 and infinity.
        eligible : sequence of str, or array-like of bool of shape (n_servers,), optional
            Servers, or types of servers, where the tasks may run. Default: all.
        gang : bool, default False
            Start all tasks at the same moment or none: `next_task` returns them one after another.
        together : str, optional
            A label of jobs of a user, submitted one after another, that all start at the same moment, or none.
        at : float, optional
            The time, which never decreases; required if time counts.

        Returns
        -------
        int
            Number of the job, from 0.

        Raises
        ------
        InvalidInstance
            If a value is wrong, or a task, or a gang, does not fit on empty servers.
        OutOfDomain
            If the share is zero or not defined for the demands.

        Examples
        --------
        >>> import fairopt as fo
        >>> scheduler = fo.Scheduler([[8, 64], [8, 32]], resources=["cpu", "memory"], servers=["a", "b"])
        >>> scheduler.submit("batch", {"cpu": 2, "memory": 48}, tasks=3)
        0
        >>> scheduler.submit("web", [4, 40], eligible=["b"])
        Traceback (most recent call last):
            ...
        fairopt.errors.InvalidInstance: a task of user 'web' needs 40 of memory, and no server where it may run has ...
        """
        check_tasks(user, tasks, endless=True)
        numbers = (int, float, np.number)
        if weight is not None and not (isinstance(weight, numbers) and 0 < weight <= sys.float_info.max):
            raise InvalidInstance(f"weight of user {user!r} is {weight!r}; give a number > 0")
        if limit is not None and not (isinstance(limit, numbers) and (0 <= limit <= MOST_TASKS or limit == math.inf)):
            fix = "give a number >= 0 and up to 2**53, or math.inf for none"
            raise InvalidInstance(f"limit of user {user!r} is {limit!r}; {fix}")
        asked = self.requests.of(user, demands, eligible)
        if gang:
            self.requests.check_gang(user, asked[1], tasks)
        self._advance(at)
        tasks = tasks if tasks == math.inf else int(tasks)
        return self._add(user, asked, tasks, weight, limit, gang, together)

    def _add(
        self,
        user: str,
        asked: Asked,
        tasks: float,
        weight: float | None,
        limit: float | None,
        gang: bool,
        together: str | None,
    ) -> int:
        """Add a job that was checked."""
        held = self._users.get(user)
        if held is None:
            held = self._users[user] = _User(user, len(self._users))
            held.since = self._origin if self._time is None else self._time
        held.weight = held.weight if weight is None else float(weight)
        held.limit = held.limit if limit is None else float(limit)
        key, request, share = asked
        size = int(tasks) if gang or together is not None else 0
        job, self._jobs = self._jobs, self._jobs + 1
        first = None if together is None else self._together.get(together)
        if first is not None:
            if first.user is not held:
                raise InvalidInstance(f"jobs that start together as {together!r} are of several users; give them one")
            first.parts.append(_Queue(self._queues, held, request, share, size))
            first.parts[-1].jobs.append([job, tasks])
            self._queues += 1
            held.waiting += tasks
            return job
        queue = held.queues.get((key, size, together))
        if queue is None:
            queue = held.queues[key, size, together] = _Queue(self._queues, held, request, share, size)
            self._queues += 1
            if together is not None:
                self._together[together] = queue
        queue.jobs.append([job, tasks])
        self._queue_of[job] = queue
        if not held.waiting:
            self._begin_to_wait(held)
        held.waiting += tasks
        if queue.slot is None and len(queue.jobs) == 1:
            heappush(held.ready, (job, queue.number, queue))
        if limit is not None:
            self._return_gangs(held)
        self._enter(held)
        return job

    def _begin_to_wait(self, user: _User) -> None:
        """Lift a user, if usage does, so that it has no claim on the time when it waited for nothing."""
        if self._plain:
            user.turn = max(user.turn, self._turn)
        elif self.usage.lift:
            first, blocked = self._line.first(), self._blocked_line.first()
            if first is None or (blocked is not None and blocked < first):
                first = blocked
            other = self._left if first is None else first[-1]
            if other is not None and other is not user:
                self.usage._raise_to(user, other, self._time)

    def withdraw(self, job: int, at: float | None = None) -> float:
        """Withdraw the waiting tasks of a job.

        Parameters
        ----------
        job : int
            A number that `submit` returned.
        at : float, optional
            The time; required if time counts.

        Returns
        -------
        int
            The number of waiting tasks; infinity for an endless backlog.

        Raises
        ------
        InvalidInstance
            If no task of the job waits, or it starts together with others.

        Examples
        --------
        >>> import fairopt as fo
        >>> scheduler = fo.Scheduler([4])
        >>> job = scheduler.submit("web", [3], tasks=2)
        >>> _ = scheduler.next_task()
        >>> scheduler.withdraw(job), scheduler.waiting, scheduler.running
        (1, {'web': 0}, {'web': 1})
        """
        queue = self._queue_of.get(job) if isinstance(job, (int, np.integer)) else None
        if queue is None:
            raise InvalidInstance(f"no task of job {job!r} waits; give a number that submit returned")
        if queue.parts:
            raise InvalidInstance(f"job {job!r} starts together with others, which cannot be withdrawn; let it wait")
        self._advance(at)
        user = queue.user
        ((_, left),) = [one for one in queue.jobs if one[0] == job]
        queue.jobs.remove([job, left])
        del self._queue_of[job]
        if left < math.inf:
            user.waiting -= left
        else:
            user.waiting = sum(tasks for one in user.queues.values() for _, tasks in one.jobs)
        if not user.waiting:
            self._left = user
        if queue.slot is None:
            user.ready = [(_first_job(one), one.number, one) for *_, one in user.ready if one.jobs]
            heapify(user.ready)
        elif not queue.jobs:
            self._unblock(queue)
        self._enter(user)
        return left

    def next_task(self, at: float | None = None) -> PlacedTask | None:
        """Start the next task; None if no task can start now.

        Parameters
        ----------
        at : float, optional
            The time; required if time counts.

        Returns
        -------
        PlacedTask or None

        Examples
        --------
        >>> import fairopt as fo
        >>> scheduler = fo.Scheduler([4])
        >>> _ = scheduler.submit("web", [3], tasks=2)
        >>> scheduler.next_task()
        PlacedTask(id=0, user='web', server='pool', job=0)
        >>> scheduler.next_task() is None  # no room for the second
        True
        """
        if self._gang:
            return self._gang.pop()
        if at is not None or self._timed:
            self._advance(at)
        if self._freed and not self._blocked.queues:
            self._freed.clear()
        elif len(self._freed) > FEW_FREED:
            self._retry()
        line, skip = self._line, self.on_misfit == "skip"
        while True:
            key = line.first()
            first = None if key is None else key[-1].ready[0][2]
            if self._freed and skip:
                queue = self._first_blocked()
                if queue is not None and (first is None or self._place(queue) < self._place(first)):
                    rows = self._take(queue)
                    assert rows is not None
                    self._return(queue)
                    return self._start(queue, rows)
            if first is None:
                return None
            rows = self._take(first)
            if rows is not None:
                return self._start(first, rows)
            if not skip and _within_limit(first):
                return None
            heappop(first.user.ready)
            self._blocked.add(first, self._plain_key(first))
            self._enter(first.user)

    def _take(self, queue: _Queue) -> list[int] | None:
        """Take the resources of the first task or gang of a queue, then of its parts; None if they do not fit."""
        if queue.parts:
            parts = [(one.request, one.size) for one in queue.all_parts]
            taken = self._servers.take_parts(parts, self._rule) if _within_limit(queue) else None
            return None if taken is None else [row for rows in taken for row in rows]
        if queue.size:
            fits = _within_limit(queue)
            return self._servers.take_all(queue.request, self._rule, queue.size) if fits else None
        row = self._servers.choose(queue.request, self._rule)
        if row is None:
            return None
        self._servers.take(queue.request, row)
        return [row]

    def finish(self, task: PlacedTask | int, at: float | None = None) -> None:
        """End a running task, and release its resources.

        Parameters
        ----------
        task : PlacedTask or int
            A task from `next_task`, or its id.
        at : float, optional
            The time; required if time counts.

        Raises
        ------
        InvalidInstance
            If no such task runs.

        Examples
        --------
        >>> import fairopt as fo
        >>> scheduler = fo.Scheduler([4])
        >>> _ = scheduler.submit("web", [3], tasks=2)
        >>> scheduler.finish(scheduler.next_task())
        >>> scheduler.shares, scheduler.waiting
        ({'web': 0.0}, {'web': 1})
        """
        _, queue, row = self._end(task, at)
        self._servers.give_back(queue.request, row)
        self._freed[row] = None
        user = queue.user
        user.running -= 1
        if self._timed:
            self.usage._settle(user, self._time)
        user.held -= _share_on(queue, row)
        if user.limit < math.inf:
            self._return_gangs(user)
        elif self.order == "arrival":  # the user's place in line has not changed
            return
        user.present = user.held / UNIT
        self._enter(user)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _advance(self, at: float | None) -> None:
        """Set the time of a call."""
        if at is None:
            if self._timed:
                what = "usage" if self.half_life is None else "half_life"
                raise InvalidInstance(f"{what} needs the time of every call; {FIX_AT}")
            return
        if at == self._time:
            return
        if not (isinstance(at, (int, float, Fraction, np.number)) and -math.inf < at < math.inf):
            raise InvalidInstance(f"at is {at!r}; {FIX_AT}")
        if self._time is None:
            self._origin = at
        elif at < self._time:
            raise InvalidInstance(f"at is {at!r} after {self._time!r}; {FIX_AT}")
        self._time = at
        if self._every is None:
            return
        samples = math.floor((at - self._origin) / self._every)
        if samples > self._samples:
            users = list(self._users.values())
            self.usage._sample(users, self._origin + samples * self._every, samples - self._samples)
            self._samples = samples
            for user in users:
                self._enter(user)

    def _share(self, user: _User) -> float:
        """The current share, or what is remembered of it."""
        if self._plain or (self._time is None and self._timed):
            return user.held / UNIT
        return self.usage._remembered(user, self._time)

    def _key(self, user: _User) -> tuple[Any, ...]:
        """The sort key of a user, with the user last.

        Without samples keys do not decrease between events, so that entries of the heap are lower bounds.
        """
        if self.order == "arrival":
            return (user.ready[0][0] if user.ready else 0), user.index, user
        if self._plain:
            turn = 0.0 if user.held else to_36_bits(user.turn)
            return to_36_bits(user.present / user.weight), turn, user.last, user.index, user
        level = self.usage._level(user, self._time, self._origin)
        present = user.present / user.weight if self._timed else 0.0  # equals are rare: not rounded
        return level, present, user.last, user.index, self._time, user

    def _fresh(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """The current key of a user with a key, which is constant while the user is idle."""
        user, now = key[-1], self._time
        if key[-2] == now or not user.held:
            return key
        return self.usage._level(user, now, self._origin), *key[1:4], now, user

    def _plain_key(self, queue: _Queue) -> float:
        """The key of a blocked queue as one number; 0 where it changes with time."""
        if self.order == "arrival":
            return queue.jobs[0][0]
        return 0.0 if self._timed else self._key(queue.user)[0]

    def _enter(self, user: _User) -> None:
        """Update the keys of a user and of its blocked queues; a user at its limit leaves both."""
        at_limit = user.running + 1 > user.limit
        if user.blocked and at_limit:
            for queue in tuple(user.blocked):
                self._return(queue)
        if at_limit or not user.ready:
            self._line.counts.pop(user, None)
        else:
            self._line.put(self._key(user))
        if user.blocked:
            self._blocked_line.put(self._key(user))
            if not self._timed:
                keys = self._blocked.keys
                for queue in user.blocked:
                    keys[queue.slot] = self._plain_key(queue)

    def _return_gangs(self, user: _User) -> None:
        """Return the blocked gangs of a user whose limit may have held them."""
        for queue in [one for one in user.blocked if one.size]:
            self._return(queue)

    def _return(self, queue: _Queue) -> None:
        """Return a blocked queue to its user's ready ones."""
        self._unblock(queue)
        heappush(queue.user.ready, (_first_job(queue), queue.number, queue))

    def _unblock(self, queue: _Queue) -> None:
        """Remove a queue from the blocked ones, and its user too if it was the last."""
        self._blocked.remove(queue)
        if not queue.user.blocked:
            self._blocked_line.counts.pop(queue.user, None)

    def _retry(self) -> None:
        """Return to the heap all blocked queues whose task fits on a server where one ended."""
        rows = list(self._freed)
        self._freed.clear()
        for queue in self._blocked.fitting(self._servers, rows):
            self._return(queue)
            self._enter(queue.user)

    def _first_blocked(self) -> _Queue | None:
        """The first blocked queue whose task fits where one ended; forget servers where none fits."""
        servers, rows = self._servers, list(self._freed)

        def fitting(user: _User) -> _Queue | None:
            fits = [
                queue
                for queue in user.blocked
                if any(servers.fits(one.request, row) for one in queue.all_parts for row in rows)
                and (not queue.size or _fits_together(servers, queue))
            ]
            return min(fits, key=_first_job, default=None)

        if self.order == "share":
            most = min(4 + len(self._blocked.queues) // EACH_COSTS, MOST_TRIED)
            queue, decided = self._blocked_line.search(fitting, most)
            if decided:
                if queue is None:
                    self._freed.clear()
                return queue
        queues: list[_Queue] = []
        for row in rows:
            here = self._blocked.fitting(servers, [row])
            if not here:
                del self._freed[row]
            queues += here
        return min(queues, key=self._place, default=None)

    def _place(self, queue: _Queue) -> tuple[Any, ...]:
        """The sort key of a queue."""
        number = _first_job(queue)
        return (number,) if self.order == "arrival" else (*self._key(queue.user), number)

    def _start(self, queue: _Queue, rows: list[int]) -> PlacedTask:
        """Start the first task, or gang, of a queue on servers where its resources are taken."""
        user, job, many = queue.user, queue.jobs[0], len(rows)
        job[1] -= queue.size or 1
        if not job[1]:
            queue.jobs.popleft()
            del self._queue_of[job[0]]
            if user.ready[0][2] is queue:
                heappop(user.ready)
            else:
                user.ready = [one for one in user.ready if one[2] is not queue]
                heapify(user.ready)
            if queue.jobs:
                heappush(user.ready, (queue.jobs[0][0], queue.number, queue))
        user.waiting -= many
        user.running += many
        if self._timed:
            self.usage._settle(user, self._time)
        self._turn = max(self._turn, user.turn)
        parts = [one for one in queue.all_parts for _ in range(one.size or 1)]
        amount = sum(map(_share_on, parts, rows))
        user.turn += amount / UNIT / user.weight
        user.last = self._started
        user.held += amount
        if not user.waiting:
            self._left = user
        if self.order == "share":
            user.present = user.held / UNIT
            if self._timed:
                self.usage._started(user, amount / UNIT, self._time)
        self._enter(user)
        first = self._placed(queue, user.name, job[0], rows[: queue.size or 1])
        placed = queue.size
        for part in queue.parts:
            before, number = self._gang, part.jobs[0][0]
            started = self._placed(part, user.name, number, rows[placed : placed + part.size])
            self._gang, placed = [*self._gang, started, *before], placed + part.size
        if queue.parts:
            self._together = {name: of for name, of in self._together.items() if of is not queue}
        return first


def in_units(share: float) -> int:
    """A share in whole numbers of ``UNIT``."""
    above, below = share.as_integer_ratio()
    return above * (UNIT // below)


def _first_job(queue: _Queue) -> int:
    """The number of the first job of a queue."""
    return queue.jobs[0][0]


def _share_on(queue: _Queue, row: int) -> int:
    """The share of a task on a server."""
    return queue.share[row] if isinstance(queue.share, list) else queue.share


def _possible(servers: Servers, queue: _Queue, rows: list[int]) -> bool:
    """Whether a queue may run on one of some servers, and the tasks of a gang fit together."""
    masks = [one.request.allowed for one in queue.all_parts]
    if not any(allowed is None or allowed[rows].any() for allowed in masks):
        return False
    return not queue.size or _fits_together(servers, queue)


def _fits_together(servers: Servers, queue: _Queue) -> bool:
    """Whether the tasks of a gang fit now, within the limit of its user."""
    if not _within_limit(queue):
        return False
    if queue.parts:
        return servers.take_parts([(one.request, one.size) for one in queue.all_parts], "first-fit", False) is not None
    return bool(servers.most_of(queue.request).sum() >= queue.size)


def _within_limit(queue: _Queue) -> bool:
    """Whether all tasks of a gang may run within the limit of its user."""
    return queue.user.running + sum(one.size for one in queue.all_parts) <= queue.user.limit
