"""What schedulers of whole tasks have in common: which tasks run on which servers, and what is left."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.shares import Share
from fairopt.errors import InvalidInstance
from fairopt.io.notes import counted
from fairopt.online.requests import MOST_TASKS, Requests, individual_servers
from fairopt.runtime.arrays import Float
from fairopt.solve.whole.servers import Placement, Servers, placement_rule


class PlacedTask(NamedTuple):
    """One task that starts.

    Attributes
    ----------
    id : int
        Number of the task, from 0 in order of start.
    user, server : str
        Labels.
    job : int
        Number of the job, as `Scheduler.submit` gave it.

    Examples
    --------
    >>> import fairopt as fo
    >>> scheduler = fo.Scheduler([9, 18])
    >>> _ = scheduler.submit("A", [1, 4])
    >>> scheduler.next_task()
    PlacedTask(id=0, user='A', server='pool', job=0)
    """

    id: int
    user: str
    server: str
    job: int


class TaskScheduler(ABC):
    """Whole tasks on servers: which run, and what is left; subclasses say which is next."""

    def __init__(
        self, capacities: Any, share: Share, resources: Any, servers: Any, server_types: Any, placement: str | Placement
    ) -> None:
        self.placement = placement_rule(placement, "pooled")
        self.instance = individual_servers(capacities, resources, servers, server_types, placement == "pooled")
        self._rule: str | Placement = "first-fit" if self.placement == "pooled" else self.placement
        self._servers = Servers(self.instance.capacities)
        self.requests = Requests(self.instance, self._servers, share)
        self._of = ""  # what it compares
        self._users: dict[str, Any] = {}  # with the numbers of their ``running`` and ``waiting`` tasks
        self._running: dict[int, tuple[Any, int]] = {}  # by number of a task what it is of, and its server
        self._started = 0
        self._gang: list[PlacedTask] = []  # tasks of a gang that starts, the next one last

    @property
    def running(self) -> dict[str, int]:
        """Number of running tasks of each user."""
        return {name: user.running for name, user in self._users.items()}

    @property
    def waiting(self) -> dict[str, float]:
        """Number of waiting tasks of each user."""
        return {name: user.waiting for name, user in self._users.items()}

    @property
    def used(self) -> Float:
        """Units in use on each server (of each type, if pooled), shape (n_servers, n_resources)."""
        return self._servers.used

    def __repr__(self) -> str:
        many = f"{sum(self.running.values()):,} tasks running, {sum(self.waiting.values()):,} waiting"
        who = f"{counted(len(self._users), 'user')} on {counted(self.instance.n_servers, 'server')}"
        return f"<{type(self).__name__}{self._of}: {who}, {many}>"

    @abstractmethod
    def _advance(self, at: float | None) -> None:
        """Set the time of a call."""

    def _placed(self, of: Any, user: str, job: int, rows: list[int]) -> PlacedTask:
        """The first of the tasks that start on servers; the others of a gang follow it."""
        number, self._started = self._started, self._started + len(rows)
        tasks = []
        for k, row in enumerate(rows, number):
            self._running[k] = of, row
            tasks.append(PlacedTask(k, user, self.instance.servers[row], job))
        self._gang = tasks[:0:-1]
        return tasks[0]

    def _end(self, task: PlacedTask | int, at: float | None) -> tuple[int, Any, int]:
        """The number of a task that ends, what it is of, and its server."""
        number = task.id if isinstance(task, PlacedTask) else task
        running = self._running.get(number) if isinstance(number, (int, np.integer)) else None
        if running is None:
            raise InvalidInstance(f"no task {number!r} is running; give one that next_task returned, once")
        self._advance(at)
        del self._running[number]
        return number, *running


def check_tasks(user: Any, tasks: Any, endless: bool = False) -> None:
    """Raise `InvalidInstance` unless a user has a name, and a number of tasks, perhaps an endless one."""
    if not isinstance(user, str) or not user:
        raise InvalidInstance(f"user is {user!r}; give a label, as 'web'")
    number = isinstance(tasks, (int, float, np.integer)) and not isinstance(tasks, bool)
    if not (number and ((endless and tasks == math.inf) or (1 <= tasks <= MOST_TASKS and tasks % 1 == 0))):
        raise InvalidInstance(f"tasks of user {user!r} is {tasks!r}; give a whole number >= 1 and up to 2**53")
