"""EASY backfilling: first come, first served, with a reservation for the first waiting job."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.errors import InvalidInstance
from fairopt.online.waiting import WaitingJob, WholeJobs
from fairopt.runtime.arrays import Float
from fairopt.solve.whole.servers import Request

_PROPERTIES: dict[str, Any] = {"number": int, "kind": int, "size": float, "walltime": float, "parts": bool}


class BackfillScheduler(WholeJobs):
    """First come, first served, with EASY backfilling (Lifka 1995): one reservation, for the first waiting job.

    Jobs start in order of arrival. If the next task of the first waiting job (all its tasks if it is a gang) does not
    fit, it is reserved the earliest moment at which it would fit if running tasks ended at their ``walltime``, and room
    on the first servers that have it then. Other jobs may start if they fit and end by that moment at their walltime,
    or if they leave the reserved room free. So no job that passes the first one delays it.

    Parameters
    ----------
    capacities, resources, servers, server_types
        As in `Scheduler`.
    placement : str or callable, default "first-fit"
        The server of a task, as in `Scheduler`. Tasks that would run into the reservation go to the first server where
        they do not delay it.

    Notes
    -----
    Every call needs the time ``at``, which never decreases. The reservation is found again when a task ends.

    Examples
    --------
    A gang of four waits for the first four tasks; a short task passes it, a long one may not:

    >>> import fairopt as fo
    >>> jobs = [fo.Job("a", [1], 10, tasks=3), fo.Job("b", [1], 5, tasks=4, gang=True),
    ...         fo.Job("long", [1], 11), fo.Job("short", [1], 10)]
    >>> fo.simulate([4], jobs, scheduler=fo.online.BackfillScheduler([4])).to_frame("job")["first start"].tolist()
    [0.0, 10.0, 15.0, 0.0]
    """

    name = "EASY"

    def _prepare(self) -> None:
        self._waiting = 0  # the jobs in line, of which some properties are kept in arrays
        self._arrays = {name: np.zeros(8, dtype=kind) for name, kind in _PROPERTIES.items()}
        self._passed = 0  # so many jobs at the front cannot start before a task ends
        self._ends: list[tuple[float, int, int, int]] = []  # planned end, number, kind and server, sorted
        self._planned: dict[int, float] = {}
        self._moment = math.inf  # of the reservation
        self._later: Float | None = None  # free units then, without what is reserved; None without a reservation

    def submit(
        self,
        user: str,
        demands: ArrayLike | Mapping[str, float],
        tasks: int = 1,
        *,
        walltime: float,
        weight: float = 1.0,
        eligible: Sequence[str] | ArrayLike | None = None,
        gang: bool = False,
        together: str | None = None,
        at: float,
    ) -> int:
        """Add a job; return its number. See `Scheduler.submit`; ``walltime`` is the longest that a task runs.

        Weights change nothing, since no shares are compared. Without a planned end ``walltime`` is infinite.
        """
        self._advance(at)
        job, own = self._submit(user, demands, tasks, weight, eligible, gang, walltime, together)
        if not own:
            self._join(job)
        else:
            self._add(
                number=job.number, kind=job.kind, size=job.size, walltime=job.walltime, parts=together is not None
            )
        return job.number

    def _add(self, **properties: float) -> None:
        """Put a job at the end of the line."""
        for name, array in self._arrays.items():
            if self._waiting == len(array):
                array = self._arrays[name] = np.concatenate([array] * 2)
            array[self._waiting] = properties[name]
        self._waiting += 1

    def _join(self, job: WaitingJob) -> None:
        """Plan an end of jobs that start together when the last of them ends."""
        place = self._of_line("number") == self._together[str(job.together)].number
        self._of_line("walltime")[place] = np.maximum(self._of_line("walltime")[place], job.walltime)

    def _of_line(self, name: str) -> Any:
        """A property of the jobs in line, in their order."""
        return self._arrays[name][: self._waiting]

    def _at(self, place: int) -> WaitingJob:
        """The job at a place in line."""
        return self._jobs[self._arrays["number"][place]]

    @property
    def _able(self) -> int:
        """How many jobs at the front of the line may start at all."""
        return self._waiting

    def _advance(self, at: float | None) -> None:
        if at is None:
            raise InvalidInstance("backfilling needs the time of every call; give at= as a time that never decreases")
        super()._advance(at)

    def _next(self) -> WaitingJob | None:
        """The first job if it fits, else the first one that does not delay it."""
        n = self._able
        if not n:
            return None
        head = self._at(0)
        if self._fits(head):
            return head
        if self._later is None:
            self._reserve(head)
        first, total = max(self._passed, 1), self._kinds.total
        kinds, size = self._of_line("kind")[first:n], self._of_line("size")[first:n]
        fits = total[kinds] >= size
        for k in np.flatnonzero(fits & self._of_line("parts")[first:n]).tolist():
            fits[k] = self._fits(self._at(first + k))
        ok = fits & (self._time + self._of_line("walltime")[first:n] <= self._moment)
        until = int(ok.argmax()) + 1 if ok.any() else n - first  # jobs behind the first short one need no test
        longer = np.flatnonzero(fits[:until] & ~ok[:until] & ~self._of_line("parts")[first : first + until])
        beside = {k: float(self._beside(k).sum()) for k in np.unique(kinds[longer]).tolist()}
        for k in longer.tolist():
            if beside[kinds[k]] >= size[k]:
                self._passed = first + k
                return self._at(self._passed)
        self._passed = first + until - 1 if ok.any() else n
        return self._at(self._passed) if ok.any() else None

    def _take(self, job: WaitingJob) -> list[int]:
        """Take resources by the rule, or for a job that would run into the reservation on servers beside it."""
        later = self._later
        if later is None or job is self._at(0) or self._time + job.walltime <= self._moment:
            return super()._take(job)
        request, rows = self._kinds.requests[job.kind], list[int]()
        most = self._beside(job.kind)
        for row in np.flatnonzero(most).tolist():
            count = min(int(most[row]), job.size - len(rows))
            if count:
                self._servers.take(request, row, count)
                later[row] -= count * request.units
                rows += [row] * count
        return rows

    def _beside(self, kind: int) -> Float:
        """How many tasks of a kind fit on each server now and beside the reservation, shape (n_servers,)."""
        assert self._later is not None
        room = np.minimum(self._servers.room(range(len(self._later))), self._later)
        return self._in_room(self._kinds.requests[kind], room)

    def _in_room(self, request: Request, room: Float) -> Float:
        """How many tasks with a request fit on each server with some room, shape (n_servers,)."""
        most = np.full(len(room), np.inf)
        for i, units in request.needs:
            np.minimum(most, room[:, i] // units, out=most)
        return np.maximum(most, 0.0) if request.allowed is None else np.where(request.allowed, np.maximum(most, 0.0), 0)

    def _reserve(self, job: WaitingJob) -> None:
        """Find the earliest moment when a job, and all that start with it, fit, and what is free then beside them."""
        request, size = self._kinds.requests[job.kind], job.size
        most = self._servers.most_of(request).tolist()
        total, room = sum(most), self._servers.room(range(self.instance.n_servers)).tolist()
        moment = self._time
        later = None
        for end, _, kind, row in self._ends:
            if end > moment:
                if total >= size and (later := self._reserved(job, room)) is not None:
                    break
                moment = end
            there = room[row]
            for i, units in self._kinds.requests[kind].needs:
                there[i] += units
            if request.allowed is None or request.allowed[row]:
                fits = max(min([there[i] // units for i, units in request.needs]), 0.0)
                total, most[row] = total + fits - most[row], fits
        self._moment, self._later = moment, self._reserved(job, room) if later is None else later

    def _reserved(self, job: WaitingJob, room: list[list[float]]) -> Float | None:
        """What is free beside a job, and all that start with it, on the first servers of some room.

        None if they do not fit.
        """
        later = np.array(room)
        for one in (job, *(job.parts or ())):
            request, left = self._kinds.requests[one.kind], one.size
            most = self._in_room(request, later)
            for row in np.flatnonzero(most).tolist():
                take = min(int(most[row]), left)
                later[row] -= take * request.units
                left -= take
                if not left:
                    break
            if left:
                return None
        return later

    def _begun(self, job: WaitingJob, rows: list[int], number: int) -> None:
        end = self._time + job.walltime
        for k, row in enumerate(rows):
            self._planned[number + k] = end
            insort(self._ends, (end, number + k, job.kind, row))
        if job.together is not None and job.parts is None:
            return  # it was never in line
        at = 0 if self._waiting and job is self._at(0) else self._passed
        if at == 0:
            self._later = None
        if job.left:
            return
        self._waiting -= 1
        for array in self._arrays.values():
            array[at : self._waiting] = array[at + 1 : self._waiting + 1]

    def _ended(self, job: WaitingJob, row: int, number: int) -> None:
        end = self._planned.pop(number)
        del self._ends[bisect_left(self._ends, (end, number))]
        self._passed = 0
        if end != self._time or end > self._moment:  # otherwise the reservation counted on it
            self._later = None
