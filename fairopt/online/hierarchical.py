"""Hierarchical DRF of whole tasks: teams, and users in them, by dominant shares."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.instance import Instance
from fairopt.online.scheduler import UNIT, in_units
from fairopt.online.waiting import WaitingJob, WholeJobs, is_number
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.solve.form.no_whole_task import SAME
from fairopt.solve.whole.greedy import to_36_bits
from fairopt.solve.whole.servers import Placement


class HierarchicalScheduler(WholeJobs):
    """Hierarchical DRF of whole tasks (Bhattacharya et al. 2013): first the lowest team, then its lowest user.

    Parameters
    ----------
    weights : dict of float by team, optional
        Weights of teams. Default: 1.
    capacities, resources, servers, server_types
        As in `Scheduler`.
    placement : str or callable, default "first-fit"
        The server of a task, as in `Scheduler`.

    Notes
    -----
    A user *can rise* if a waiting task of it, or a gang, fits now; a team if one of its users can. A user's vector is
    what its running tasks hold, as parts of total capacities. A team's vector is the sum of its users', in which those
    that can rise are scaled down to the lowest level among them. A level is the largest entry of a vector over the
    resources that are not in use everywhere, per weight. Of the teams, and users without a team, that can rise the one
    with the lowest level is next, and of a team its lowest user; ties go to the lower dominant share per weight without
    scaling. Other ties are those of `Scheduler`, among teams as among the users of a team: of those that hold nothing
    the one that was given least per weight while it waited is next, then whoever was served least recently, then who
    came first. Of a user the first job that fits starts. `fairopt.HDRF` is the same with divisible tasks.

    Examples
    --------
    A user whose tasks need a CPU and a GB each, beside a team of a user of CPUs and one of memory:

    >>> import fairopt as fo
    >>> scheduler = fo.online.HierarchicalScheduler([10, 10])
    >>> for user, units, team in (("a", [1, 1], None), ("b1", [1, 0], "b"), ("b2", [0, 1], "b")):
    ...     job = scheduler.submit(user, units, tasks=10, team=team)
    >>> started = list(iter(scheduler.next_task, None))
    >>> scheduler.running
    {'a': 5, 'b1': 5, 'b2': 5}
    """

    name = "HDRF"

    def __init__(
        self,
        capacities: ArrayLike | Mapping[str, Any] | Instance,
        weights: Mapping[str, float] | None = None,
        *,
        resources: Sequence[str] | None = None,
        servers: Sequence[str] | None = None,
        server_types: Sequence[str] | None = None,
        placement: str | Placement = "first-fit",
    ) -> None:
        labels = {"resources": resources, "servers": servers, "server_types": server_types}
        super().__init__(capacities, **labels, placement=placement)
        if weights is not None and not isinstance(weights, Mapping):
            raise InvalidBlock(f"weights is {weights!r}; give a dict by team, such as {{'nlp': 2}}")
        self.weights = dict(weights or {})
        for team, weight in self.weights.items():
            if not is_number(weight) or not 0 < weight < math.inf:
                raise InvalidBlock(f"the weight of team {team!r} is {weight!r}; give a finite number > 0")
        total = self.instance.total_capacities
        self._total, self._has = np.where(total > 0, total, 1.0), total > 0
        self._index: dict[str, int] = {}
        self._teams: dict[str, int] = {}  # children of the root: teams, and users without one
        self._team_of = np.zeros(0, dtype=int)
        self._vectors, self._of_user, self._of_team = np.zeros((0, len(total))), np.zeros(0), np.zeros(0)
        self._held: list[list[int]] = []  # vectors in whole numbers of UNIT, so that sums are exact
        self._ratios: list[list[int]] = []  # of one task, by kind
        self._turns = _Turns()  # of children of the root
        self._turns_in: list[_Turns] = []  # of users, by child of the root
        self._queues: dict[tuple[int, int, int, str | None], int] = {}  # of a user, kind and size
        self._lines: list[deque[WaitingJob]] = []
        self._first = np.zeros(0)  # the first job of each queue, infinity without one
        self._user_of, self._kind_of, self._size_of = (np.zeros(0, dtype=int) for _ in range(3))

    def submit(
        self,
        user: str,
        demands: ArrayLike | Mapping[str, float],
        tasks: int = 1,
        *,
        weight: float = 1.0,
        team: str | None = None,
        eligible: Sequence[str] | ArrayLike | None = None,
        gang: bool = False,
        together: str | None = None,
        at: float | None = None,
    ) -> int:
        """Add a job; return its number. See `Scheduler.submit`; a user has one team, or none."""
        if team is not None and (not isinstance(team, str) or not team):
            raise InvalidInstance(f"team of user {user!r} is {team!r}; give a label, as 'nlp'")
        self._advance(at)
        child = f"user {user}" if team is None else f"team {team}"
        if user in self._index and self._team_of[self._index[user]] != self._teams.get(child):
            raise InvalidInstance(f"user {user!r} has jobs of another team than {team!r}; give all the same team")
        job, own = self._submit(user, demands, tasks, weight, eligible, gang, math.inf, together)
        if child not in self._teams:
            self._teams[child] = len(self._teams)
            self._turns_in.append(_Turns())
            self._of_team = np.append(self._of_team, 1.0 if team is None else float(self.weights.get(team, 1.0)))
        if user not in self._index:
            self._index[user] = len(self._index)
            self._team_of = np.append(self._team_of, self._teams[child])
            self._of_user = np.append(self._of_user, float(weight))
            self._vectors = np.vstack([self._vectors, np.zeros(len(self._total))])
            self._held.append([0] * len(self._total))
        j = self._index[user]
        self._of_user[j] = weight
        if team is None:  # a child of the root with one user, whose weight is the user's
            self._of_team[self._teams[child]] = weight
        if job.kind == len(self._ratios):
            ratios = np.where(self._has, self._kinds.requests[job.kind].units / self._total, 0.0)
            self._ratios.append([*map(in_units, ratios.tolist())])
        self._turns.wait(self._teams[child], job.left)
        self._turns_in[self._teams[child]].wait(j, job.left)
        if not own:
            return job.number
        key = j, job.kind, job.size, job.together
        if key not in self._queues:
            self._queues[key] = len(self._lines)
            self._lines.append(deque())
            self._first = np.append(self._first, np.inf)
            self._user_of, self._kind_of, self._size_of = (
                np.append(old, new) for old, new in zip((self._user_of, self._kind_of, self._size_of), key[:3], strict=True)
            )
        q = self._queues[key]
        self._lines[q].append(job)
        self._first[q] = self._lines[q][0].number
        return job.number

    def _can_rise(self) -> tuple[Bool, Bool]:
        """The queues of which a job fits, and the users with one."""
        fits = (self._first < np.inf) & (self._kinds.total[self._kind_of] >= self._size_of)
        for job in self._together.values():
            q = self._queues[self._index[job.user], job.kind, job.size, job.together]
            fits[q] = fits[q] and self._fits(job)
        can = np.zeros(len(self._index), dtype=bool)
        can[self._user_of[fits]] = True
        return fits, can

    def _levels(self, can: Bool) -> tuple[Float, Float]:
        """Levels of users and of the children of the root."""
        room = self._servers.room(range(self.instance.n_servers)).sum(axis=0)  # with the tolerance of SAME
        counts = self._has & (room > 2 * SAME * self._total)
        vectors, team_of = self._vectors, self._team_of
        level = vectors.max(axis=1, where=counts, initial=0.0) / self._of_user
        lowest = np.full(len(self._teams), np.inf)
        np.minimum.at(lowest, team_of[can], level[can])
        scale = np.ones(len(level))
        above = can & (level > lowest[team_of])
        scale[above] = lowest[team_of[above]] / level[above]
        sums = np.zeros((len(self._teams), vectors.shape[1]))
        np.add.at(sums, team_of, vectors * scale[:, None])
        return level, sums.max(axis=1, where=counts, initial=0.0) / self._of_team

    def _next(self) -> WaitingJob | None:
        fits, can = self._can_rise()
        users = np.flatnonzero(can)
        if not len(users):
            return None
        level, of_team = self._levels(can)
        team_of = self._team_of
        sums = np.zeros((len(self._teams), self._vectors.shape[1]))
        np.add.at(sums, team_of, self._vectors)
        teams = np.unique(team_of[users])
        team = self._turns.lowest(teams, of_team, sums.max(axis=1) / self._of_team)
        members = users[team_of[users] == team]
        user = self._turns_in[team].lowest(members, level, self._vectors.max(axis=1) / self._of_user)
        queues = np.flatnonzero(fits & (self._user_of == user))
        return self._lines[int(queues[self._first[queues].argmin()])][0]

    def _begun(self, job: WaitingJob, rows: list[int], number: int) -> None:
        user = self._index[job.user]
        team = int(self._team_of[user])
        share = len(rows) * max(self._ratios[job.kind]) / UNIT
        self._turns.serve(team, number, len(rows), share / self._of_team[team])
        self._turns_in[team].serve(user, number, len(rows), share / self._of_user[user])
        self._add(user, job.kind, len(rows))
        if not job.left and (job.together is None or job.parts is not None):
            q = self._queues[user, job.kind, job.size, job.together]
            self._lines[q].popleft()
            self._first[q] = self._lines[q][0].number if self._lines[q] else np.inf

    def _ended(self, job: WaitingJob, row: int, number: int) -> None:
        self._add(self._index[job.user], job.kind, -1)

    def _add(self, user: int, kind: int, tasks: int) -> None:
        """Add running tasks to a user's vector."""
        held = self._held[user] = [h + tasks * r for h, r in zip(self._held[user], self._ratios[kind], strict=True)]
        self._vectors[user] = [h / UNIT for h in held]


class _Turns:
    """Whose turn it is among equals: teams, or the users of one team."""

    def __init__(self) -> None:
        self.tags: dict[int, float] = {}  # the start tag of the next task, in shares per weight
        self.latest = 0.0  # the largest start tag of tasks that have started
        self.waiting: dict[int, float] = {}
        self.last: dict[int, int] = {}  # the task that was started last

    def wait(self, who: int, tasks: float) -> None:
        """Add tasks; who waited for nothing till now has no claim on the past."""
        if not self.waiting.get(who):
            self.tags[who] = max(self.tags.get(who, 0.0), self.latest)
        self.waiting[who] = self.waiting.get(who, 0) + tasks

    def serve(self, who: int, number: int, tasks: int, amount: float) -> None:
        """Record tasks that start, and their share per weight."""
        self.latest = max(self.latest, self.tags[who])
        self.tags[who] += amount
        self.waiting[who] -= tasks
        self.last[who] = number

    def lowest(self, among: Indices, level: Float, plain: Float) -> int:
        """The first of the lowest level, of those with the lowest share without scaling."""
        for keys in (level, plain):
            values = to_36_bits(keys[among])
            among = among[values == values.min()]
        holds = plain[among[0]] > 0

        def place(who: int) -> tuple[float, ...]:
            return 0.0 if holds else to_36_bits(self.tags[who]), self.last.get(who, -1), who

        return min(among.tolist(), key=place)
