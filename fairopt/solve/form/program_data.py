"""What a program compares and allows, in arrays: its objective, bounds, capacities and rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Pairs
from fairopt.blocks.objectives import Objective
from fairopt.instance import Instance
from fairopt.instance.validation import distinct
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.form.program_rows import BlockRows, ProgramRows

CHUNK = 16_384  # users
RISES = 1e-8  # of what a number could be alone: less is no rise


class ProgramData(ABC):
    """An objective, and the tasks of `Pairs` among which it is maximised.

    ``low`` and ``high`` (n_users,) bound tasks, ``usable`` (n_resources,) are fractions of capacities, and ``rest`` are
    the other constraints. ``given`` is the instance of all users, ``instance`` that of those who take part. If
    ``nobody_rises`` above the base of a surplus, the objective is of nobody, and its value 0.
    """

    given: Instance
    instance: Instance
    objective: Objective
    single: bool
    low: Float
    high: Float
    usable: Float
    rest: list[Constraint]
    nobody_rises: bool

    @cached_property
    def active(self) -> Indices:
        """Indices of the active users: those with a positive task limit."""
        return np.flatnonzero(self.given.task_limits > 0)

    @cached_property
    def unlimited(self) -> bool:
        """Whether no user has an upper bound."""
        return bool(distinct(self.high).min(initial=np.inf) == np.inf)

    @cached_property
    def least_load(self) -> Float:
        """The fraction of each resource of one pool that lower bounds use, shape (n_resources,)."""
        demands, low = self.instance.per_server_demands[:, 0], self.low
        load = np.zeros(self.instance.n_resources)
        for start in range(0, len(low) if distinct(low).any() else 0, CHUNK):
            load += low[start : start + CHUNK] @ demands[start : start + CHUNK]
        whole = self.whole_capacities[0]
        return np.divide(load, whole, out=np.zeros(len(load)), where=whole > 0)

    @cached_property
    def room(self) -> Bool:
        """Which users of one pool can rise above their lower bounds, shape (n_users,)."""
        everyone = np.broadcast_to(True, self.low.shape)
        room: Bool = everyone if self.unlimited else self.high > self.low * (1 + NOISE)
        full = self.least_load >= self.usable * (1 - NOISE)
        if full.any():  # up to rounding, which may leave enough for those who need little
            left = np.maximum(self.usable - self.least_load, 0.0)[full] * self.whole_capacities[0][full]
            needed = self.instance.per_server_demands[:, 0, full] * (RISES * self.most)[:, None]
            room = room & ~(left < needed).any(axis=1)
        return room

    @cached_property
    def pairs(self) -> Pairs:
        """The (user, server) pairs of eligible users."""
        return Pairs(self.instance)

    @cached_property
    def most(self) -> Float:
        """A proven upper bound on each user's tasks, shape (n_users,)."""
        return np.minimum(self.high, self.instance.derived.tasks_alone_within(self.usable).sum(axis=1))

    @cached_property
    def capacity_rows(self) -> NDArray[np.int64]:
        """Rows of `Pairs.loads` with a nonzero coefficient."""
        loads = self.pairs.loads
        return np.flatnonzero(loads.max(axis=1) > 0 if self.single else np.diff(loads.indptr) > 0)

    @cached_property
    def whole_capacities(self) -> Float:
        """Capacities of the server rows, counts included, shape (n_servers, n_resources)."""
        return self.instance.capacities * self.instance.counts[:, None]

    @cached_property
    def usable_rows(self) -> Float:
        """The usable fraction of each row of `Pairs.loads`."""
        return np.tile(self.usable, self.instance.n_servers)

    @cached_property
    def rows(self) -> ProgramRows:
        """Capacities and linear constraints, as bounds use them."""
        return ProgramRows(
            self.pairs, self.usable_rows, lambda: [one for block in self.rest for one in self.rows_of(block) or ()]
        )

    @abstractmethod
    def rows_of(self, block: Constraint) -> list[BlockRows] | None:
        """A constraint as rows in `pairs`; None if it is not given as rows."""
