"""The split of totals inside teams: that no member can rise unless one that is no larger falls.

Totals ``C x = T``, capacities and further rows are linear, and so are the members' shares s = c x. On such a set
leximin is max-min fairness (Radunović and Le Boudec 2007). At multipliers y of rows, mu of totals, of either sign, and
prices pi >= 0 of the members, every feasible x has

    ``sum_u pi_u s_u <= V := y'b + mu'T + sum_p max_x (pi_u c_p - (y'A + mu'C)_p) x``.

So if the others keep their floors, up to the level that is fixed, no member u rises above its own by more than ``(V -
sum_v pi_v floor_v) / pi_u``. A member without such prices rises only if another of its team falls, and then to the
highest level of the team at most.

Why a proof of its own: the totals are optimal to 1e-6, so that members could rise by as much at the cost of other
teams; what is asked here is whether the split of these very totals is right. So right sides are what the tasks use, if
that is more, and totals are those of the tasks to the bit: else rounding would leave no point at all. Multipliers of
totals have any sign, and their terms cancel; rounding is counted by absolute terms. Gaps are relative to what a member
has or, where that is less, to an equal part of its team (Proposition 7.16, docs/methods/cone.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairopt.blocks.teams import OfTeam
from fairopt.errors import OutOfDomain
from fairopt.instance.teams import sums_by
from fairopt.proof.bound import rounded_up_sum
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import NOISE, ROUNDING, TERM_ROUNDING
from fairopt.solve.form.program import Program

AT_BOUND = 1e-9  # relative: members that near to a bound are at it, and do not count as able to fall


@dataclass(frozen=True)
class SplitDual:
    """Multipliers that fix some ``members`` (indices) at a level: of rows, of totals, and of members."""

    members: Indices
    of_rows: Float
    of_totals: Float
    of_members: Float


class InsideTeams:
    """The members' tasks as unknowns, but for pairs that are ``fixed``; ``settled`` users keep their tasks in total.

    Fixed pairs where a member runs tasks are unknowns while it has others. ``table`` has the rows between ``low`` and
    ``high``; a right side is never beyond what ``tasks`` use, since rounding would make it infeasible. Members are
    those users of which some pair varies.
    """

    def __init__(self, program: Program, team: OfTeam, tasks: Float, fixed: Bool, settled: Bool) -> None:
        instance, pairs = program.instance, program.pairs
        own, whole = team.share._numbers(instance, levelled=True), team._numbers(instance)
        c, in_total = pairs.of(own.per_task), pairs.of(whole.per_task)
        # a total of other shares than those compared inside would not be fixed by what members exchange
        if not np.allclose(c, in_total, rtol=ROUNDING, atol=0.0):
            raise OutOfDomain(f"{team} sums other shares than its members compare")
        by_user = pairs.sum(tasks)
        varies = (pairs.sum((~fixed).astype(float)) > 0)[pairs.user]
        columns = varies & ~(fixed & (tasks <= NOISE * by_user[pairs.user]))
        self.place = np.flatnonzero(columns)
        self.users, self.user = np.unique(pairs.user[self.place], return_inverse=True)
        names, of_pair = np.unique(whole.of_pairs(pairs.user)[self.place], return_inverse=True)
        self.n_teams, self.team = len(names), of_pair[np.unique(self.user, return_index=True)[1]]
        number = team.labelling(instance).of_user
        each = sums_by(number, pairs.sum(c * tasks), len(whole)) / sums_by(number, own.weights, len(whole))
        self.equal_parts = (each[number] * own.weights)[self.users]  # by weight, of what the whole team has
        self.tasks, self.c, self.w = tasks[self.place], c[self.place], own.weights[self.users]
        self.single = program.single
        zero = program.zero_pairs[self.place]
        least, limit = (np.where(settled, by_user, bound) for bound in (program.low, program.high))
        low, high = least[self.users], np.minimum(program.most, limit)[self.users]
        self.limited = np.isfinite(limit[self.users])
        self.most_tasks = np.where(zero, 0.0, high[self.user])
        self.least_tasks = np.minimum(low[self.user] if self.single else 0.0, self.most_tasks)
        self.totals_table = sp.csr_array((self.c, (of_pair, np.arange(len(zero)))), shape=(self.n_teams, len(zero)))
        self.totals: Float = np.asarray(self.totals_table @ self.tasks)
        best, worst = np.zeros(len(self.users)), np.full(len(self.users), np.inf)
        np.maximum.at(best, self.user, np.where(zero, 0.0, self.c))
        np.minimum.at(worst, self.user, self.c)
        self.shares = self.at(self.tasks)
        # what a share is at least and at most, by the worst and the best server; never tighter than what it is
        self.lowest, self.most = np.minimum(worst * low, self.shares), np.maximum(best * high, self.shares)
        self._add_rows(program, tasks, columns, (least, limit))

    def _add_rows(self, program: Program, tasks: Float, columns: Bool, by_user: tuple[Float, Float]) -> None:
        """Write capacities, users' limits (on several servers) and further rows in the columns."""
        rest = np.where(columns, 0.0, tasks)
        kept = np.flatnonzero(program.usable_rows > 0)
        parts = [program.rows.columns(self.place)[kept]]
        low, high = [np.full(len(kept), -np.inf)], [(program.usable_rows - program.rows.load(rest))[kept]]
        if not self.single:
            least, most = by_user
            some, used = np.flatnonzero((least > 0) | np.isfinite(most)), program.pairs.sum(rest)
            parts.append(sp.csr_array(program.pairs.totals[some][:, self.place]))
            low, high = [*low, (least - used)[some]], [*high, (most - used)[some]]
        for one in program.rows.further:
            parts.append(sp.csr_array(one.rows.per_task[:, self.place]))
            right = one.rows.right - one.rows.load(rest)
            low, high = [*low, right if one.rows.equal else np.full(len(right), -np.inf)], [*high, right]
        table = sp.csr_array(sp.vstack(parts))
        used = table @ self.tasks
        some = np.flatnonzero(np.diff(table.indptr) > 0)
        self.table = table[some]
        # tasks exceed rows by rounding: with the right sides as they are, the totals would not be feasible
        self.low = np.minimum(np.concatenate(low), used)[some]
        self.high = np.maximum(np.concatenate(high), used)[some]

    def at(self, tasks: Float) -> Float:
        """The members' shares at tasks in the columns."""
        return sums_by(self.user, self.c * tasks, len(self.users))

    def gap(self, duals: Sequence[SplitDual], tasks: Float) -> float:
        """By how much a member can rise at most, relative to what it has or to an equal part of its team's total."""
        s = self.at(tasks)
        unit = np.maximum(s, self.equal_parts)
        rise, room, priced = np.zeros(len(s)), np.maximum(self.most - s, 0.0), np.zeros(len(s), dtype=bool)
        for dual in duals:
            rise[dual.members], priced[dual.members] = self._rises(dual, s), True
        above = s > self.lowest + AT_BOUND * unit
        top = np.zeros(self.n_teams)
        np.maximum.at(top, self.team[above], (s / self.w)[above])
        rise = np.where(priced, rise, np.maximum(top[self.team] * self.w - s, 0.0))
        moved = np.abs(self.totals_table @ tasks - self.totals)  # a split of other totals is none of these
        held = [moved / np.where(self.totals > 0, self.totals, 1.0), (np.minimum(rise, room) / unit)[unit > 0]]
        worst = float(np.max(np.concatenate(held), initial=0.0))
        return worst if np.isfinite(worst) else np.inf

    def _rises(self, dual: SplitDual, s: Float) -> Float:
        """By how much the members that a dual solution fixes can rise."""
        y, mu, pi = dual.of_rows, dual.of_totals, np.maximum(dual.of_members, 0.0)
        y = np.where(np.isfinite(np.where(y > 0, self.high, self.low)), y, 0.0)  # no side without a bound
        b = np.where(y > 0, self.high, np.where(y < 0, self.low, 0.0))
        paid = pi[self.user] * self.c
        gain = paid - self.table.T @ y - self.totals_table.T @ mu
        gain = gain + TERM_ROUNDING * (paid + self.sizes.T @ np.abs(y) + self.totals_table.T @ np.abs(mu))
        level = float((s / self.w)[dual.members].min())  # what is above it may fall to it
        floors = np.minimum(s, np.maximum(level * self.w, self.lowest))
        terms = [y * b, mu * self.totals, np.where(gain > 0, gain * self.most_tasks, gain * self.least_tasks)]
        terms.append(-pi * floors)
        slack = rounded_up_sum(np.concatenate(terms), TERM_ROUNDING * float(sum(np.abs(t).sum() for t in terms)))
        some = dual.members
        return np.maximum(floors[some] - s[some] + max(slack, 0.0) / pi[some], 0.0)

    @cached_property
    def sizes(self) -> sp.csr_array:
        """The table in absolute values, the scale of its rounding."""
        return abs(self.table)
