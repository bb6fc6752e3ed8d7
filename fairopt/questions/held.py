"""What runs now beside what a policy gives: by user and by team."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, units_of
from fairopt.instance import Instance
from fairopt.questions.by_team import team_sums
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import NOISE, SAME_TASKS, VIOLATION_TOLERANCE

OVER, UNDER, EVEN = "over", "under", "even"
SAME_USE = 6  # digits of the fraction of a resource in use; solvers leave 1e-9


@dataclass(frozen=True, eq=False)
class HeldNow:
    """What a policy gives each user or team, and what it holds now.

    ``fair``, ``held`` and ``waiting`` have a row for each of ``names``. Their first column is the number of tasks, and
    the others are units of each resource. ``waiting`` is what was asked for and is not held, infinite without a task
    limit. ``capacities`` are those of the resources, and ``scarcest`` is the resource of which the policy uses the
    largest part.
    """

    names: tuple[str, ...]
    fair: Float
    held: Float
    waiting: Float
    resources: tuple[str, ...]
    capacities: Float
    scarcest: int

    @cached_property
    def difference(self) -> Float:
        """What is held above the fair share, negative below it; 0 within rounding."""
        return apart(self.fair, self.held, self.capacities)

    @cached_property
    def of_capacity(self) -> Float:
        """The difference in units as a fraction of capacities; without capacity, of the largest difference."""
        units = self.difference[:, 1:]
        largest = np.abs(units).max(axis=0, initial=0.0)
        whole = np.where(self.capacities > 0, self.capacities, np.where(largest > 0, largest, 1.0))
        return units / whole

    @cached_property
    def judged(self) -> NDArray[np.intp]:
        """The resource by which each row is over or under.

        Of those that it waits for and holds less of than is fair, the one with the smallest part of it; else the
        scarcest or, where none of it is used, the one with the largest difference.
        """
        uses = (self.fair + self.held + self.waiting)[:, 1 + self.scarcest] > 0
        usual = np.where(uses, self.scarcest, np.abs(self.of_capacity).argmax(axis=1))
        fair, held, waiting, apart = (of[:, 1:] for of in (self.fair, self.held, self.waiting, self.difference))
        starves = (apart < 0) & (waiting > 0)
        parts = np.divide(held, fair, out=np.full(fair.shape, np.inf), where=starves & (fair > 0)).round(SAME_USE)
        rows = np.arange(len(parts))
        least = np.where(parts[rows, usual] <= parts.min(axis=1), usual, parts.argmin(axis=1))
        return np.where(np.isfinite(parts[rows, least]), least, usual)

    @cached_property
    def states(self) -> tuple[str, ...]:
        """``over``, ``under`` or ``even`` for each row."""
        judged = self.difference[np.arange(len(self.names)), 1 + self.judged]
        return tuple(OVER if x > 0 else UNDER if x < 0 else EVEN for x in judged.tolist())

    @cached_property
    def ratios(self) -> Float:
        """What is held as a part of the fair amount of the judged resource; NaN where that is 0."""
        rows = np.arange(len(self.names)), 1 + self.judged
        fair = self.fair[rows]
        return np.divide(self.held[rows], fair, out=np.full(len(fair), np.nan), where=fair > 0)

    def below(self, part: float) -> list[int]:
        """Rows that hold less than a part of their fair amount of the judged resource, and wait for more of it; the
        smallest ratio first.
        """
        rows = np.arange(len(self.names)), 1 + self.judged
        short = (self.ratios < part) & (self.difference[rows] < 0) & (self.waiting[rows] > 0)
        return sorted(np.flatnonzero(short).tolist(), key=lambda r: self.ratios[r])

    @property
    def largest_first(self) -> list[int]:
        """Rows from the largest difference in the scarcest resource down; then by the largest in any."""
        parts = np.abs(self.of_capacity)
        return np.lexsort((-parts.max(axis=1), -parts[:, self.scarcest])).tolist()

    @property
    def excess(self) -> Float:
        """Units of each resource that all together hold above its capacity, shape (n_resources,)."""
        above = self.held[:, 1:].sum(axis=0) - self.capacities
        return np.where(above > VIOLATION_TOLERANCE * self.capacities, above, 0.0)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Plain data by name; what is waiting without a task limit is None."""
        parts = (self.fair, self.held, self.difference, self.waiting)
        keys = ("fair", "held", "difference", "waiting")
        out = {}
        for name, state, *numbers in zip(self.names, self.states, *parts, strict=True):
            rows = np.column_stack(numbers).tolist()
            tasks, *units = [dict(zip(keys, (v if np.isfinite(v) else None for v in row), strict=True)) for row in rows]
            out[name] = {"state": state, "tasks": tasks, "units": dict(zip(self.resources, units, strict=True))}
        return out


def held_now(allocation: Allocation, by: str | None = None, alone: bool = False) -> HeldNow | None:
    """What is held beside what is fair, by user or by team under a label; None if it is not known what is held.

    Units that wait are those of the smallest demands where demands differ by server. With ``alone`` each user without
    a team has a row.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[1], [1]], [8], users=["a", "b"], held=[6, 1], task_limits=[8, 8])
    >>> found = fo.questions.held_now(fo.DRF().allocate(pool))
    >>> found.states, found.difference[:, 0].tolist()
    (('over', 'under'), [2.0, -3.0])
    """
    instance = allocation.instance
    tasks, units = instance.held_tasks, instance.held_units
    if tasks is None or units is None:
        return None
    fair, held = np.column_stack([allocation.tasks, units_of(allocation)]), np.column_stack([tasks, units])
    waiting = _waiting(instance, np.maximum(instance.task_limits - tasks, 0.0))
    names: Sequence[str] = instance.users
    if by is not None:
        names, members, *_ = team_sums(allocation, by, alone)
        fair, held, waiting = (_sums(part, members) for part in (fair, held, waiting))
    scarcest = most_used([allocation])
    return HeldNow(tuple(names), fair, held, waiting, instance.resources, instance.total_capacities, scarcest)


def by_team_else_user(instance: Instance) -> str | None:
    """The innermost label of teams, under which users without a team stand alone; None, for users, without teams."""
    return next(iter(instance.teams), None)


def _sums(by_user: Float, members: Sequence[NDArray[np.intp]]) -> Float:
    """Sums over the members of each team."""
    return np.array([by_user[rows].sum(axis=0) for rows in members]).reshape(len(members), by_user.shape[1])


def apart(before: Float, after: Float, capacities: Float) -> Float:
    """Differences of tasks, in the first column, and of units; 0 within rounding."""
    large = np.maximum(before, after)
    scale = np.append(large[:, 0].max(initial=0.0), capacities)
    difference: Float = after - before
    return np.where(np.abs(difference) <= np.maximum(SAME_TASKS * large, NOISE * scale), 0.0, difference)


def most_used(allocations: Iterable[Allocation], resources: Sequence[str] | None = None) -> int:
    """The resource, of some or of all, with the largest utilisation, averaged over the allocations."""
    used = [a.metrics()["utilisation"] for a in allocations]
    parts = [[of[r] for r in (resources or of)] for of in used]
    return int(np.nan_to_num(np.mean(parts, axis=0)).round(SAME_USE).argmax())


def _waiting(instance: Instance, tasks: Float) -> Float:
    """Tasks of each user and their units, the smallest where demands differ by server."""
    demands = instance.demands
    if demands.ndim == 3:
        demands = np.where(instance.eligible[:, :, None], demands, np.inf).min(axis=1)
    units = np.multiply(
        tasks[:, None], demands, out=np.zeros(demands.shape), where=(demands > 0) & (tasks[:, None] > 0)
    )
    return np.column_stack([tasks, units])


def described_held(allocation: Allocation) -> dict[str, Any] | None:
    """What is held beside what is fair as plain data: ``scarcest``, ``users`` and ``teams`` by label and team."""
    by_user = held_now(allocation)
    if by_user is None:
        return None
    teams = {by: held_now(allocation, by) for by in allocation.instance.teams}
    return {
        "scarcest": by_user.resources[by_user.scarcest],
        "users": by_user.rows(),
        "teams": {by: found.rows() for by, found in teams.items() if found is not None},
    }
