"""Hierarchical DRF of whole tasks: a tree of teams, and users in them, by dominant shares."""

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
        Weights of teams, which count among teams with the same parent. Default: 1.
    parents : dict of str by team, optional
        The team above; teams that are not named are at the top.
    capacities, resources, servers, server_types
        As in `Scheduler`.
    placement : str or callable, default "first-fit"
        The server of a task, as in `Scheduler`.

    Notes
    -----
    A user *can rise* if a waiting task of it, or a gang, fits now; a team if one of its members, users and teams, can.
    A user's vector is what its running tasks hold, as parts of total capacities. A team's vector is the sum of its
    members', in which those that can rise are scaled down to the lowest level among them. A level is the largest entry
    of a vector over the resources that are not in use everywhere, per weight. Of the teams, and users without a team,
    that can rise the one with the lowest level is next, and of a team its lowest member; ties go to the lower dominant
    share per weight without scaling. Other ties are those of `Scheduler`, among the members of each team: of those that
    hold nothing the one that was given least per weight while it waited is next, then whoever was served least
    recently, then who came first. Of a user the first job that fits starts. `fairopt.HDRF` is the same with divisible
    tasks.

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
        parents: Mapping[str, str] | None = None,
        resources: Sequence[str] | None = None,
        servers: Sequence[str] | None = None,
        server_types: Sequence[str] | None = None,
        placement: str | Placement = "first-fit",
    ) -> None:
        labels = {"resources": resources, "servers": servers, "server_types": server_types}
        super().__init__(capacities, **labels, placement=placement)
        for name, value, example in (("weights", weights, "{'nlp': 2}"), ("parents", parents, "{'nlp': 'research'}")):
            if value is not None and not isinstance(value, Mapping):
                raise InvalidBlock(f"{name} is {value!r}; give a dict by team, such as {example}")
        self.weights, self.parents = dict(weights or {}), dict(parents or {})
        for team, weight in self.weights.items():
            if not is_number(weight) or not 0 < weight < math.inf:
                raise InvalidBlock(f"the weight of team {team!r} is {weight!r}; give a finite number > 0")
        for team in self.parents:
            self._path(team)
        total = self.instance.total_capacities
        self._total, self._has = np.where(total > 0, total, 1.0), total > 0
        self._index: dict[str, int] = {}  # users, by their nodes
        self._nodes: dict[str, int] = {}  # teams and users, each after the team that it is in
        self._parent, self._depth = np.zeros(0, dtype=int), np.zeros(0, dtype=int)  # -1: at the top
        self._weight, self._vectors = np.zeros(0), np.zeros((0, len(total)))  # of teams no vectors
        self._held: dict[int, list[int]] = {}  # vectors in whole numbers of UNIT, so that sums are exact
        self._ratios: list[list[int]] = []  # of one task, by kind
        self._turns = {-1: _Turns()}  # of the members of each team, and of those at the top
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
        above = -1
        for name in () if team is None else self._path(team)[::-1]:
            above = self._node(f"team {name}", above, float(self.weights.get(name, 1.0)))
        known = self._index.get(user)
        if known is not None and self._parent[known] != above:
            raise InvalidInstance(f"user {user!r} has jobs of another team than {team!r}; give all the same team")
        job, own = self._submit(user, demands, tasks, weight, eligible, gang, math.inf, together)
        j = self._index[user] = self._node(f"user {user}", above, float(weight))
        self._weight[j] = weight
        self._held.setdefault(j, [0] * len(self._total))
        if job.kind == len(self._ratios):
            ratios = np.where(self._has, self._kinds.requests[job.kind].units / self._total, 0.0)
            self._ratios.append([*map(in_units, ratios.tolist())])
        for node in self._above(j):
            self._turns[int(self._parent[node])].wait(node, job.left)
        if not own:
            return job.number
        key = j, job.kind, job.size, job.together
        if key not in self._queues:
            self._queues[key] = len(self._lines)
            self._lines.append(deque())
            self._first = np.append(self._first, np.inf)
            self._user_of, self._kind_of, self._size_of = (
                np.append(old, new)
                for old, new in zip((self._user_of, self._kind_of, self._size_of), key[:3], strict=True)
            )
        q = self._queues[key]
        self._lines[q].append(job)
        self._first[q] = self._lines[q][0].number
        return job.number

    def _path(self, team: str) -> list[str]:
        """A team and those above it."""
        path = [team]
        while (team := self.parents.get(team, "")) and team not in path:
            path.append(team)
        if team:
            raise InvalidBlock(f"the team {team!r} is above itself; correct parents")
        return path

    def _node(self, label: str, above: int, weight: float) -> int:
        """The number of a team or a user, which is new at first."""
        if label not in self._nodes:
            node = self._nodes[label] = len(self._nodes)
            self._parent = np.append(self._parent, above)
            self._depth = np.append(self._depth, 0 if above < 0 else self._depth[above] + 1)
            self._weight = np.append(self._weight, weight)
            self._vectors = np.vstack([self._vectors, np.zeros(len(self._total))])
            self._turns[node] = _Turns()
        return self._nodes[label]

    def _above(self, node: int) -> list[int]:
        """A node and those above it."""
        path = [node]
        while (node := int(self._parent[node])) >= 0:
            path.append(node)
        return path

    def _can_rise(self) -> tuple[Bool, Bool]:
        """The queues of which a job fits, and the users and teams with one."""
        fits = (self._first < np.inf) & (self._kinds.total[self._kind_of] >= self._size_of)
        for job in self._together.values():
            q = self._queues[self._index[job.user], job.kind, job.size, job.together]
            fits[q] = fits[q] and self._fits(job)
        can = np.zeros(len(self._nodes), dtype=bool)
        can[self._user_of[fits]] = True
        for depth in range(int(self._depth.max(initial=0)), 0, -1):
            can[self._parent[can & (self._depth == depth)]] = True
        return fits, can

    def _levels(self, can: Bool) -> tuple[Float, Float]:
        """Levels of users and teams, and their dominant shares per weight without scaling."""
        room = self._servers.room(range(self.instance.n_servers)).sum(axis=0)  # with the tolerance of SAME
        counts = self._has & (room > 2 * SAME * self._total)
        scaled, plain, level = self._vectors.copy(), self._vectors.copy(), np.zeros(len(can))
        for depth in range(int(self._depth.max(initial=0)), -1, -1):
            k = np.flatnonzero(self._depth == depth)
            level[k] = scaled[k].max(axis=1, where=counts, initial=0.0) / self._weight[k]
            if depth:
                above, rises = self._parent[k], can[k]
                lowest = np.full(len(can), np.inf)
                np.minimum.at(lowest, above[rises], level[k][rises])
                scale, lower = np.ones(len(k)), rises & (level[k] > lowest[above])
                scale[lower] = (lowest[above] / np.where(lower, level[k], 1.0))[lower]
                np.add.at(scaled, above, scaled[k] * scale[:, None])
                np.add.at(plain, above, plain[k])
        return level, plain.max(axis=1) / self._weight

    def _next(self) -> WaitingJob | None:
        fits, can = self._can_rise()
        if not can.any():
            return None
        level, plain = self._levels(can)
        node = -1
        while node not in self._held:
            node = self._turns[node].lowest(np.flatnonzero(can & (self._parent == node)), level, plain)
        queues = np.flatnonzero(fits & (self._user_of == node))
        return self._lines[int(queues[self._first[queues].argmin()])][0]

    def _begun(self, job: WaitingJob, rows: list[int], number: int) -> None:
        user = self._index[job.user]
        share = len(rows) * max(self._ratios[job.kind]) / UNIT
        for node in self._above(user):
            self._turns[int(self._parent[node])].serve(node, number, len(rows), share / self._weight[node])
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
    """Whose turn it is among equals: those at the top, or the members of one team."""

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
