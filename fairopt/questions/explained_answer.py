"""An answer as explanations see it: what its policy compares, and what is full or reached."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import tiers_of
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.guarantees import TeamFloor, team_floors
from fairopt.errors import InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.instance.parts import merged_within_limits, taking_part
from fairopt.proof.gate import OPEN
from fairopt.questions.by_team import team_sums
from fairopt.questions.explanation import Binding
from fairopt.questions.raised import FilledAgain, SolvedAgain, again
from fairopt.runtime.arrays import Float, Indices

FULL = 1e-5  # relative slack of capacities, limits and bounds that are worth raising; others cannot matter
SAME = 1e-6  # relative difference of equal levels

Place = tuple[int, int]


class Subject(NamedTuple):
    """A user, or a team of several, and its users."""

    name: str
    members: Indices
    is_team: bool


def subject_of(instance: Instance, name: str) -> Subject:
    """The user or team of a name; `InvalidInstance` with the nearest names if there is none."""
    teams = instance.teams.names
    if isinstance(name, str) and name in instance.derived.position:
        return Subject(name, np.array([instance.derived.position[name]]), False)
    if isinstance(name, str) and name in teams:
        return Subject(name, teams[name], len(teams[name]) > 1)
    kind = "user or team" if teams else "user"
    raise InvalidInstance(f"there is no {kind} {name!r}; {nearest(name, [*instance.users, *teams])}")


class ExplainedAnswer:
    """What an answer gives, what its policy compares, and what stops its users; users and teams share it."""

    def __init__(self, allocation: Allocation, time_limit: float | None = None) -> None:
        self.allocation = allocation
        self.again: SolvedAgain | FilledAgain | None = again(allocation, time_limit)
        self.whole = allocation.instance
        self.instance: Instance = merged_within_limits(self.whole) if self.again is None else self.again.instance
        self.demands = self.instance.per_server_demands
        self.room = self.instance.capacities * self.instance.counts[:, None]
        self.part = np.flatnonzero(self.instance.task_limits > 0)
        self.some = taking_part(self.instance, self.part)
        self.blocks = [] if isinstance(self.again, FilledAgain) else self._share_blocks()
        if self.again is not None and self.again.after() is None:
            self.again = None

    def _share_blocks(self) -> list[Any]:
        objective = getattr(self.allocation.policy, "objective", None)
        return [] if objective is None else list(tiers_of(objective)[0].share_blocks())

    def subject(self, name: str) -> Subject:
        """The user or team of a name."""
        return subject_of(self.instance, name)

    @cached_property
    def given(self) -> Float:
        """The tasks of the answer, shape (n_users, n_servers)."""
        tasks = self.allocation.tasks_by_server
        return self.whole.derived.sum_by_class(tasks) if self._merges else tasks

    @cached_property
    def base(self) -> Float:
        """The tasks with which those after changes are compared: solved in the same way."""
        base = None if self.again is None else self.again.after()
        return self.given if base is None else base

    @property
    def _merges(self) -> bool:
        return self.instance.n_servers < self.whole.n_servers

    @cached_property
    def per_task(self) -> Float:
        """The share of one task, (n_users, 1) or (n_users, n_servers), of the share that the policy compares; 1 for
        users for whom that is 0.
        """
        if self.blocks:
            c = self.blocks[0]._of_user.coefficients(self.some)
        elif isinstance(self.again, FilledAgain):
            c = self.some.dominant_shares
        else:
            c = np.ones(len(self.part))
        c = c[:, None] if c.ndim == 1 else c
        out = np.ones((self.instance.n_users, c.shape[1]))
        out[self.part] = np.where(c.max(axis=1, keepdims=True) > 0, c, 1.0)
        return out

    def value(self, table: Float, subject: Subject) -> float:
        """The shares of a user, or of a team's members together."""
        rows = subject.members
        return float((self.per_task[rows] * table[rows]).sum())

    @cached_property
    def levels(self) -> dict[str, float]:
        """What the policy compares, by user or team."""
        if isinstance(self.again, FilledAgain):
            shares = (self.per_task * self.given).sum(axis=1)
            weight = self.again.weight
            out = {user: float(shares[j]) / weight(user) for j, user in enumerate(self.instance.users)}
            for by in self.again.policy.by:
                sums = team_sums(self.allocation, by)
                out |= {name: float(v) / weight(name) for name, v in zip(sums.names, sums.dominant, strict=True)}
            return out
        if not self.blocks or not len(self.part):
            return {}
        numbers, shares = self.blocks[0]._numbers(self.some), (self.per_task * self.given).sum(axis=1)[self.part]
        z = numbers.above(shares) / numbers.weights
        return dict(zip(self.blocks[0]._names(self.some), z.tolist(), strict=True))

    def _level(self, subject: Subject) -> float | None:
        if subject.name in self.levels or not subject.is_team:
            return self.levels.get(subject.name, self.levels.get(self.instance.users[subject.members[0]]))
        own = sum(float(self.instance.own_weights[j]) for j in subject.members)
        return self.value(self.given, subject) / self.instance.team_weights.get(subject.name, own)

    @cached_property
    def usable(self) -> Float:
        """Usable units of each capacity."""
        out = np.ones(self.instance.n_resources)
        for one in self.constraints:
            part = one.usable(self.instance)
            out = out if part is None else np.minimum(out, part)
        return self.room * out

    @property
    def constraints(self) -> Sequence[Constraint]:
        """The policy's constraints with their coefficients fixed, in the policy's order."""
        return () if self.again is None else self.again.constraints

    @cached_property
    def full(self) -> list[Place]:
        """Full capacities, as (server row, resource)."""
        used = np.einsum("js,jsi->si", self.base, self.demands)
        if self.allocation.given_bundles is not None:
            used = (
                self.allocation.usage
                if not self._merges
                else self.whole.derived.sum_by_class(self.allocation.usage[None])[0]
            )
        return [(int(s), int(i)) for s, i in np.argwhere((used > 0) & (used >= self.usable * (1 - FULL)))]

    @cached_property
    def at_limit(self) -> NDArray[np.bool_]:
        """Users at a positive task limit."""
        limits = self.instance.task_limits
        return (limits > 0) & np.isfinite(limits) & (self.base.sum(axis=1) >= limits * (1 - FULL))

    def touches(self, user: int, row: Place) -> bool:
        """Whether tasks of a user could use a capacity."""
        s, i = row
        return bool(
            self.instance.task_limits[user] > 0 and self.instance.eligible[user, s] and self.demands[user, s, i]
        )

    @cached_property
    def alone(self) -> Float:
        """Tasks that each user could run alone, at most its limit."""
        return np.minimum(self.instance.tasks_alone.sum(axis=1), self.instance.task_limits)

    def _is_split(self, subject: Subject) -> bool:
        """Whether a user is only a part of the numbers that the policy compares."""
        of_teams = bool(self.blocks) and self.blocks[0]._counts_teams
        return of_teams and not subject.is_team and len(self._team_of(subject)) > 1 and OPEN in self._note

    def _team_of(self, subject: Subject) -> Indices:
        """The members of the team that the policy compares in which a user is."""
        names = self.blocks[0]._names(self.some)
        return next(
            rows for name, rows in self.instance.teams.names.items() if name in names and subject.members[0] in rows
        )

    @property
    def _note(self) -> str:
        return self.allocation.certificate.note or ""

    def _facts(self, subject: Subject) -> list[Binding]:
        """What is reached or full where it runs."""
        limits, users = self.instance.task_limits, self.instance.users
        reached = [j for j in subject.members.tolist() if self.at_limit[j]]
        out = [Binding("limit", users[j], amount=float(limits[j])) for j in reached]
        runs = self.given[subject.members].sum(axis=0) > 0
        rows = [r for r in self.full if runs[r[0]] and any(self.touches(j, r) for j in subject.members.tolist())]
        for i in dict.fromkeys(i for _, i in rows):
            servers = [s for s, k in rows if k == i]
            out.append(
                Binding("fact", self.instance.resources[i], self._servers(servers), float(self.room[servers, i].sum()))
            )
        return out

    def _servers(self, rows: Sequence[int]) -> tuple[str, ...]:
        """The names of server rows, empty on one pool."""
        if self.whole.n_servers == 1:
            return ()
        return tuple(self.instance.servers[s] for s in rows)

    @cached_property
    def _floors(self) -> dict[str, TeamFloor]:
        return team_floors(self.instance)

    def at_floor(self, team: str) -> dict[str, float]:
        """The units of each resource in which a team has only its guarantee."""
        if (floor := self._floors.get(team)) is None:
            return {}
        held = np.einsum("js,jsi->i", self.base[floor.members], self.demands[floor.members])
        at = np.flatnonzero((floor.units > 0) & (held <= floor.units * (1 + SAME)))
        return {self.instance.resources[i]: float(floor.units[i]) for i in at}
