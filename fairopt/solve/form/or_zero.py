"""Tasks that are 0 or at least so many, as choices: which of them are 0.

With bounds v_k > 0 of ``MinTasks(v, or_zero=True)`` on the tasks t_k of a user, or of a user on a server, a program is

    max f(x)   subject to   t_k = 0 or t_k >= v_k  for each k,   and convex constraints.

Some t_k fixed at 0, others at v_k or more, and the rest left free at ``t_k >= 0``, are a convex `Program`: a node of
branch and bound. Users who differ in nothing can be exchanged, so that of these the first run tasks if not all do: what
is decided for one is decided for those before or after it (`Choices.decided`). Else 10 of 20 equal cars at a charger
would be 184,756 choices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairopt.blocks.algebra import tiers_of
from fairopt.blocks.base import ByUser, blocks_within, is_ours
from fairopt.blocks.constraints import Constraint, FixedOnServers, MaxTasks, MinTasks
from fairopt.blocks.normal_form import Linear, Ranked
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidInstance, OutOfDomain
from fairopt.instance import Instance
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.solve.form.program import Program

DEFINED_AT_0 = (
    "give Leximin, MaxMin, OrderedWeighted or Total of shares of single users, or a sum of these, which are defined "
    "where users have 0"
)


def searched(constraints: Sequence[Constraint]) -> list[MinTasks]:
    """The constraints that tasks are 0 or at least so many."""
    return [block for block in constraints if isinstance(block, MinTasks) and block.or_zero]


class Choices:
    """The choices of a policy on an instance.

    ``user``, ``server`` (-1 for all) and ``least`` are those of each t_k, in the instance as given; ``alike`` is the
    class of users that can be exchanged. ``root`` is the program without a bound v_k. `OutOfDomain` for objectives that
    are not defined where users have 0 tasks.
    """

    def __init__(self, instance: Instance, objective: Objective, constraints: Sequence[Constraint]) -> None:
        blocks = searched(constraints)
        for tier in tiers_of(objective):
            for term in tier.terms():
                plain = term.share is not None and term.share._is_plain
                if tier is not objective or not isinstance(term.kind.simplest, (Linear, Ranked)) or not plain:
                    raise OutOfDomain(f"{blocks[0]} is not searched for {objective}; {DEFINED_AT_0}")
        self.instance, self.objective = instance, objective
        self.others = tuple(block for block in constraints if block not in blocks)
        every = [block._thresholds(instance) for block in blocks]
        by_user = np.max([v for v in every if v.ndim == 1], axis=0, initial=0.0) * np.ones(instance.n_users)
        by_pair = np.max([v for v in every if v.ndim == 2], axis=0, initial=0.0) * np.ones(instance.eligible.shape)
        self.by_server = bool(by_pair.any())
        if self.by_server and (instance.counts > 1).any():
            raise InvalidInstance(
                f"{blocks[0]} is by server, and row {instance.servers[int(np.argmax(instance.counts))]!r} has several; "
                "give each a row of its own"
            )
        part = instance.task_limits > 0
        users, (of_pair, server) = np.flatnonzero(part & (by_user > 0)), np.nonzero(part[:, None] & (by_pair > 0))
        self.user: Indices = np.append(users, of_pair)
        self.server: Indices = np.append(np.full(len(users), -1), server)
        self.least: Float = np.append(by_user[users], by_pair[of_pair, server])
        self.root = Program(instance, objective, self.others)
        self.alike = self._alike()

    def __len__(self) -> int:
        return len(self.user)

    @property
    def share(self) -> Share:
        """The share of leximin."""
        share = self.objective.term.share
        assert isinstance(share, Share)
        return share

    def _alike(self) -> Indices:
        """The class of each choice, by the data of its user and the bounds on it."""
        program, single = self.root, np.arange(len(self))
        blocks = blocks_within((self.objective, self.others))
        if self.by_server or program.rest or program.empty or not all(map(is_ours, blocks)):
            return single
        given, at = program.instance, np.searchsorted(program.active, self.user)
        shares = [share.coefficients(given).reshape(given.n_users, -1) for share in self.objective.share_blocks()]
        columns = [given.per_server_demands.reshape(given.n_users, -1), given.eligible, *shares]
        every = np.column_stack([given.weights, program.low, program.high, *columns])[at]
        return np.unique(np.column_stack([self.least, every]), axis=0, return_inverse=True)[1].ravel()

    def amounts(self, table: Float) -> Float:
        """The t_k of tasks by user and server."""
        return np.where(self.server < 0, table.sum(axis=1)[self.user], table[self.user, self.server])

    def decided(self, fixed: Indices, k: int, runs: bool) -> Indices:
        """What is fixed (1, 0, or -1 for free) with t_k fixed too, and with it those alike before or after it."""
        out, same = fixed.copy(), (self.alike == self.alike[k]) & (fixed < 0)
        out[same & (np.arange(len(fixed)) <= k if runs else np.arange(len(fixed)) >= k)] = int(runs)
        return out

    def in_order(self, runs: Bool) -> Indices:
        """A choice with as many of each class, but those listed first, as 1 and 0."""
        out = runs.astype(np.intp)
        for of_class in np.unique(self.alike):
            same = np.flatnonzero(self.alike == of_class)
            out[same] = np.arange(len(same)) < out[same].sum()
        return out

    def constraints(self, fixed: Indices) -> tuple[Constraint, ...]:
        """The constraints of a node."""
        users, runs, none, own = self.instance.users, fixed == 1, fixed == 0, self.server < 0
        low = {users[self.user[k]]: float(self.least[k]) for k in np.flatnonzero(runs & own)}
        closed = np.zeros(self.instance.eligible.shape, dtype=bool)
        closed[self.user[none & own]] = True
        closed[self.user[none & ~own], self.server[none & ~own]] = True
        # of whom nothing is open has a bound of 0, of which methods know that it leaves no share
        high = {users[j]: 0.0 for j in np.flatnonzero((closed | ~self.instance.eligible).all(axis=1))}
        pairs = [
            (users[self.user[k]], int(self.server[k]), float(self.least[k] * runs[k]))
            for k in np.flatnonzero((runs | none) & ~own)
        ]
        out = [MinTasks(ByUser(low))] * bool(low) + [MaxTasks(ByUser(high))] * bool(high)
        return (*self.others, *out, *[FixedOnServers(tuple(pairs))] * bool(pairs))

    def program(self, fixed: Indices) -> Program:
        """The program of a node. Bounds by server keep identical servers apart, also where nothing is fixed yet."""
        return Program(self.instance, self.objective, self.constraints(fixed), merge=not self.by_server)
