"""Individual servers that hold whole tasks: their free capacity, and placement rules.

A task fits on a server if ``free_i >= d_i`` for every resource i that it needs, with a tolerance in the capacity: ten
tasks of 0.1 sum to 0.9999999999999999, and three to 0.30000000000000004, so that a capacity of 0.3 must count as a
little more. The tolerance is added once to the capacity, not at each test, so that it is not spent several times.

Free units are kept twice: as lists for a test of one server, by resource in arrays for a test of all (single elements
of arrays are slow in Python). Rounding of ``free - d + d`` could grow over many tasks; a server that is empty again has
exactly its capacity. Ties of rules are decided on numbers rounded to 9 digits, then by the first server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.errors import InvalidBlock, nearest
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.solve.form.no_whole_task import SAME

__all__ = ["Placement", "Request", "Servers", "placement_rule"]

Placement = Callable[[Float, Float, Indices], int]


class Request(NamedTuple):
    """What one task needs: ``units`` (n_resources,), and the same as pairs (resource, units > 0).

    ``allowed`` are the servers where it may run; None for all.
    """

    units: Float
    needs: tuple[tuple[int, float], ...]
    allowed: Bool | None


class Servers:
    """Servers with capacities (n_servers, n_resources), and what is free of them.

    Capacities have a relative tolerance of 1e-9, or a ``slack`` of the same shape, so that ten tasks of 0.1 fill a
    capacity of 1.
    """

    def __init__(self, capacities: Float, slack: Float | None = None) -> None:
        self.capacities = np.asarray(capacities, dtype=float)
        self.n_servers, self.n_resources = self.capacities.shape
        tolerated = SAME * self.capacities if slack is None else slack
        self._whole: list[list[float]] = (self.capacities + tolerated).tolist()
        self._room = [row[:] for row in self._whole]  # free units, for tests of one server
        self._columns = np.array(self._whole).T.copy()  # the same by resource, for tests of all servers
        has = self.capacities > 0
        # one over the capacity, over the number of resources: the mean of free parts, for best fit and least loaded
        self._parts = np.divide(1.0, self.capacities * has.sum(axis=1)[:, None], out=np.zeros(has.shape), where=has).T
        self._tasks = [0] * self.n_servers

    def request(self, units: Float, allowed: Bool | None = None) -> Request:
        """The request of a task."""
        units = np.asarray(units, dtype=float)
        needs = tuple((i, float(u)) for i, u in enumerate(units) if u > 0)
        return Request(units, needs, None if allowed is None or allowed.all() else allowed)

    @property
    def used(self) -> Float:
        """Units in use, shape (n_servers, n_resources)."""
        return np.maximum(np.subtract(self._whole, self._room), 0.0)

    @property
    def free(self) -> Float:
        """Free units, shape (n_servers, n_resources)."""
        return np.maximum(self.capacities - self.used, 0.0)

    def fits(self, request: Request, row: int) -> bool:
        """Whether one more task fits on a server."""
        room = self._room[row]
        for i, units in request.needs:
            if room[i] < units:
                return False
        return request.allowed is None or bool(request.allowed[row])

    def fitting(self, request: Request) -> Bool:
        """The servers on which one more task fits, shape (n_servers,)."""
        (i, units), *others = request.needs
        mask = np.asarray(self._columns[i] >= units)  # by resource: most tasks need few of them
        for i, units in others:
            mask &= self._columns[i] >= units
        if request.allowed is not None:
            mask &= request.allowed
        return mask

    def would_fit_empty(self, request: Request) -> Bool:
        """The servers on which one task fits if they are empty, shape (n_servers,)."""
        fits: Bool = np.asarray((np.array(self._whole) >= request.units).all(axis=1))
        if request.allowed is not None:
            fits &= request.allowed
        return fits

    def room(self, rows: Iterable[int]) -> Float:
        """Free units of some servers, with the tolerance, shape (n_rows, n_resources)."""
        if self.n_servers > 1 and rows == range(self.n_servers):  # of 600 servers in a twentieth of the time
            return self._columns.T.copy()
        return np.array([self._room[row] for row in rows])

    def choose(self, request: Request, rule: str | Placement) -> int | None:
        """The server that a rule chooses among those where one more task fits; None if it fits nowhere."""
        if self.n_servers == 1:
            return 0 if self.fits(request, 0) else None
        mask = self.fitting(request)
        if rule == "first-fit":
            row = int(mask.argmax())
            return row if mask[row] else None
        rows = np.flatnonzero(mask)
        if not len(rows):
            return None
        if callable(rule):
            free = self.free[rows]
            free.flags.writeable = False
            row = rule(request.units.copy(), free, rows)
            if not (isinstance(row, (int, np.integer)) and row in rows):
                raise InvalidBlock(f"placement {rule!r} returned {row!r}; return one of {rows.tolist()[:10]}")
            return int(row)
        free = self._columns[:, rows] - request.units[:, None]  # after the task is placed
        empty = np.round((free * self._parts[:, rows]).sum(axis=0), 9)  # so that ties do not depend on rounding
        return int(rows[empty.argmin() if rule == "best-fit" else empty.argmax()])

    def how_many(self, request: Request, row: int) -> int:
        """How many more tasks fit on a server."""
        room = self._room[row]
        return max(int(min(room[i] // units for i, units in request.needs)), 0)

    def most_of(self, request: Request) -> Float:
        """How many more tasks fit on each server, shape (n_servers,)."""
        columns = self._columns if self.n_servers > 1 else np.array(self._room).T
        (i, units), *others = request.needs
        most = columns[i] // units
        for i, units in others:
            np.minimum(most, columns[i] // units, out=most)
        np.maximum(most, 0.0, out=most)
        return most if request.allowed is None else np.where(request.allowed, most, 0.0)

    def take_all(self, request: Request, rule: str | Placement, tasks: int) -> list[int] | None:
        """Start equal tasks together, each placed after those before it; their servers, or None if they do not fit."""
        most = self.most_of(request)
        if most.sum() < tasks:  # before anything is placed
            return None
        rows: list[int] = []
        if rule != "first-fit":
            while len(rows) < tasks and (row := self.choose(request, rule)) is not None:
                self.take(request, row)
                rows.append(row)
            most = self.most_of(request)
        for row in np.flatnonzero(most).tolist():  # with another rule, only if subtraction rounded otherwise
            count = min(int(most[row]), tasks - len(rows))
            if count:
                self.take(request, row, count)
                rows += [row] * count
        return rows

    def take_parts(
        self, parts: Sequence[tuple[Request, int]], rule: str | Placement, keep: bool = True
    ) -> list[list[int]] | None:
        """Start tasks of several requests together, one request after another; None, and nothing, if some do not fit.

        Without ``keep`` nothing is started; the servers are those where the tasks would be.
        """
        before = [row[:] for row in self._room], self._columns.copy(), self._tasks[:]
        taken = list[list[int]]()
        for request, tasks in parts:
            rows = self.take_all(request, rule, tasks)
            if rows is None:
                break
            taken.append(rows)
        else:
            if keep:
                return taken
        self._room, self._columns, self._tasks = before
        return taken if len(taken) == len(parts) else None

    def take(self, request: Request, row: int, count: int = 1) -> None:
        """Start tasks that fit on a server."""
        self._change(request, row, -count)
        self._tasks[row] += count

    def give_back(self, request: Request, row: int) -> None:
        """End a task on a server; an empty server has exactly its capacity again."""
        self._tasks[row] -= 1
        if self._tasks[row]:
            self._change(request, row, 1)
        else:
            self._room[row] = self._whole[row][:]  # what adding and subtracting rounds would grow over a long run
            self._columns[:, row] = self._whole[row]

    def _change(self, request: Request, row: int, by: int) -> None:
        """Add the units of tasks to a server's free units."""
        room = self._room[row]
        for i, units in request.needs:
            room[i] += by * units
        if self.n_servers > 1:
            columns = self._columns
            for i, _ in request.needs:
                columns[i, row] = room[i]


def placement_rule(rule: Any, *others: str) -> str | Placement:
    """The placement rule, by name or a user's function; raise `InvalidBlock` unless it is known or in ``others``."""
    known = ("first-fit", "best-fit", "least-loaded", *others)
    if callable(rule) or rule in known:
        return rule
    hint = nearest(rule, known)
    raise InvalidBlock(f"placement is {rule!r}; {hint}{'' if hint.endswith('?') else ', or give a function'}")
