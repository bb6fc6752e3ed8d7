"""Leximin of a linear share on several different servers, level by level (Propositions 5.5 and 5.6).

Users fixed so far keep their tasks f_j, and the others are free. The program of a level is

    max z  under  x_j >= b_j z (free),  x_j >= f_j (fixed),  x_j >= low_j,  capacities of server rows,

with b_j tasks per unit of level. At every optimum a user whose task has a positive price on its cheapest server has
exactly its lower bound, and nobody runs where a task costs more than there. So the prices fix users and close pairs,
and the next program follows. Limits need no rows: users whose limit is at most ``b_j z`` are fixed there, and the
program is solved again. To maximise each user's level by a program of its own, to see who can rise, takes n programs a
level.

One linear program (`LevelProgram`), started by the interior point, is changed from level to level. Users with
proportional demands on the same servers are one group of it: their parts of a level are equal up to their sizes. Most
levels are near the last one. A level that is not starts anew near an interior point of its free users, beside the
others as they are: 2,000, 5,000 and 10,000 users in 14 groups, each on few of 27 servers, take .6, 1.9 and 3.8 s of
CPU instead of .7, 2.8 and 11.

Rounding: HiGHS solves to 1e-10. A price below 1e-9 of the largest is noise and fixes nobody; a later level may depend
on smaller prices, or on what rounding leaves of a capacity, which Bound 5.18 counts. So prices are those of the basis
to rounding, and at the end all rows with a price are filled to rounding. The prices of each level are the evidence
(Bound 5.8); where the gate refuses them, exact linear programs decide, if pairs times levels are few (3,000).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fairopt.blocks.model import Point
from fairopt.certificate import Try
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.exact_levels import rounded_condition
from fairopt.proof.evidence.levels import LevelDuals
from fairopt.proof.level_bounds import exact_sums
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE, TINY
from fairopt.solve.cluster.alpha_fair import LARGEST_SYSTEM
from fairopt.solve.cluster.interior_point import Interior
from fairopt.solve.cluster.level_program import UNFINISHED, LevelOptimum, LevelProgram, choosing_at_first
from fairopt.solve.cluster.utilities import Powers
from fairopt.solve.form.demands_at_prices import demands_of
from fairopt.solve.form.program import Program
from fairopt.solve.levels_in_fractions import is_small, levels_in_fractions
from fairopt.solve.settings import Proposals, Settings

COLUMNS = 4  # of each group at first, and as many for each server per group
FAR = 1e3  # levels so far above a program's units need other units: HiGHS drops entries below 1e-12
STEPS = 60  # of the interior point; 6 to 10 are typical, and more where users may run on few servers that differ
# A level's program gets further pairs each time it is solved, and starts anew after a few times, unless it is small.
FEW_SOLVES, FEW_GROUPS = 2, 2000
NEAR = 1e-6  # tolerance of the interior point from which the first program starts
FILLINGS = 3  # least-squares steps: the first may fill rows that had room
SMALL = 1e-13  # of a group's tasks: less on a server is rounding
MOST_FULL = 500  # rows and groups on several servers of which a dense table is made
SAMPLE, FEWEST = 0.25, 32  # part of the remaining groups that is drawn at once, and at least how many


def solve_leximin_on_servers(program: Program, settings: Settings) -> Proposals:
    """Leximin level by level, and again by exact programs if the gate refuses the first proposal."""
    begun = time.perf_counter()
    with np.errstate(all="ignore"):  # the gate refuses NaN
        filling = _LevelsOnServers(program)
        complete, tasks, holdings = filling.fill(settings), filling.tasks(), filling.holdings()
    status = f"{'optimal' if complete else 'no answer'} ({filling.solves} programs)"
    if not complete and settings.clock.late:
        status = "time limit reached"
    evidence = LevelDuals(holdings, prices=filling.prices)
    attempt = Try("levels", status, time.perf_counter() - begun)
    answer = yield Proposal("levels", tasks, evidence, attempt=attempt)
    if answer is None or answer.ok or settings.clock.late or filling.found is None:
        return
    if rounded_condition(program):  # no file proves such fractions, but those of levels of numbers
        return
    if is_small(program, len(holdings)):  # 13 of 60 clusters of up to 60 users were certified by these only
        yield levels_in_fractions(program, settings, filling.prices)


class _LevelsOnServers:
    """Users' levels, in units of about the max-min level, found by one program after another.

    ``user_levels``, ``fixed_at``, ``level_limits`` and ``per_level``, tasks per unit of level, are by user; ``rate``,
    ``limit`` and ``low`` by user who can run anything (``users``), in tasks of the first user of the group.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        instance, share = program.instance, program.term.share
        self.unit = Point(instance, np.zeros((0, 0))).level(share)
        self.per_level = instance.weights * self.unit / share.coefficients(instance)  # tasks
        self.users = np.flatnonzero(program.most > 0)
        self.level_limits = program.high / self.per_level
        self.user_levels = np.zeros(instance.n_users)
        self.fixed_at = np.full(instance.n_users, -1)  # index of the level that fixes the user; -1 for its limit
        self.levels: list[Float] = []  # prices of each level
        self.prices = np.zeros(len(program.usable_rows))
        self.solves = 0
        self.found: LevelOptimum | None = None

    def _group(self) -> None:
        """Group users with proportional demands and the same eligible rows, unless they have lower bounds."""
        program, users = self.program, self.users
        instance = program.instance
        demands, eligible, low = instance.demands[users], instance.eligible[users], program.low[users]
        if demands.ndim == 3:
            demands = np.where(eligible[:, :, None], demands, 0.0)
        flat = demands.reshape(len(users), -1)
        size = flat.max(axis=1, initial=0.0)
        alone = np.where(low > 0, 1.0 + np.arange(len(users)), 0.0)
        # adding 0 turns -0 into 0: rows are compared as bytes
        rows = np.column_stack([flat / size[:, None], eligible, alone]) + 0.0
        keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        _, first, self.group = np.unique(keys, return_index=True, return_inverse=True)
        order = first.argsort()  # groups in the order of their first users
        first, self.group = first[order], order.argsort()[self.group]
        ratio = size / size[first][self.group]
        by_user: list[Any] = [by[users] * ratio for by in (self.per_level, program.high, program.low)]
        self.rate, self.limit, self.low = by_user
        self.models = users[first]

    def _sum(self, by_user: Float) -> Float:
        return np.asarray(np.bincount(self.group, by_user, len(self.models)), dtype=float)

    def fill(self, settings: Settings) -> bool:
        """Find all levels; False if a program failed or the time was up."""
        if not len(self.users):
            return True
        self._group()
        free, fixed = np.ones(len(self.users), dtype=bool), np.zeros(len(self.users), dtype=self.rate.dtype)
        rates, bases = self._targets(free, fixed)
        by_server, interior = self._parts(rates, settings)
        if settings.clock.late:
            return False
        scale, start = self._start(rates, by_server, interior)  # scale: level of its units
        sums = (self._units(scale, free, fixed), rates, bases, self._sum(self.low))
        check()
        program = LevelProgram(self.loads, self.pair_group, self.program.usable_rows, *start, *sums)
        while free.any():
            tell("levels, users settled", len(free) - int(free.sum()), len(free))
            again = self.found is not None and len(self.models) > FEW_GROUPS
            optimum = None if settings.clock.late else program.solve(settings.clock, FEW_SOLVES if again else None)
            if optimum is UNFINISHED:
                self._begin_again(program, *self._targets(free, fixed), settings)
                optimum = program.solve(settings.clock)
            self.solves += 1
            if optimum is None or not optimum.level > 0:
                return False
            self.found = optimum
            level = optimum.level
            newly = free & (self.limit <= level * self.rate)
            fixed[newly] = self.limit[newly]
            self.user_levels[self.users[newly]] = self.level_limits[self.users[newly]]
            if not newly.any():
                # tiny prices would fix users who only need what is nearly free
                prices = np.where(optimum.prices > NOISE * optimum.prices.max(), optimum.prices, 0.0)
                by_pair, cheapest = self._costs(prices)
                newly = free & (cheapest[self.group] > 0)
                if not newly.any():
                    return False
                if free.all():
                    self.prices = prices * self.unit
                fixed[newly] = np.maximum(level * self.rate[newly], self.low[newly])
                self.user_levels[self.users[newly]] = level
                self.fixed_at[self.users[newly]] = len(self.levels)
                self.levels.append(prices)
                # Servers that cost more by rounding alone stay open; one that is left open wrongly costs the gate a
                # gap: with 0 instead of 1e-9, 6 instead of 20 gaps of 120 small clusters were above 1e-12, at a fifth
                # more CPU.
                costly = by_pair > cheapest[self.pair_group] * (1 + NOISE)
                self.closed |= costly
                program.close(np.flatnonzero(costly))
            free &= ~newly
            program.change(*self._targets(free, fixed))
            if level > FAR * scale:
                scale = level
                program.in_units(self._units(scale, free, fixed))
        return True

    def _units(self, scale: float, free: Bool, fixed: Float) -> Float:
        """About what groups hold at a level, given the tasks of fixed users."""
        tasks = np.where(free, np.maximum(self.low, np.minimum(self.limit, scale * self.rate)), fixed)
        return np.asarray(self._sum(tasks), dtype=float)

    def _targets(self, free: Bool, fixed: Float) -> tuple[Float, Float]:
        """What groups must hold, per unit of level and constant."""
        return self._sum(np.where(free, self.rate, 0)), self._sum(np.where(free, 0, fixed))

    def _start(
        self, rates: Float, by_server: Float, interior: Interior | None
    ) -> tuple[float, tuple[Indices, Bool, Indices]]:
        """A level that fits without limits, and the homes, choosing groups and columns of the first program."""
        pairs, place = self.program.pairs, np.full(self.program.instance.n_users, -1)
        place[self.models] = np.arange(len(self.models))
        group, server = place[pairs.user], pairs.server
        check()  # time limits: this table takes long on many users
        loads = pairs.loads_by_pair
        kept = (group >= 0) & (by_server[group, server] > 0)
        if not kept.all():
            group, server, loads = group[kept], server[kept], loads[:, kept]
        self.pair_group, self.pair_server, self.loads = group, server, loads
        self.closed = np.zeros(len(group), dtype=bool)
        check()
        usable = np.where(self.program.usable_rows > 0, self.program.usable_rows, np.inf)
        whole = by_server.sum(axis=1)
        loads = self.loads @ (rates[group] * by_server[group, server] / whole[group])
        # the level at which the parts of the interior point fill the first row
        every = np.arange(len(self.models))
        return float(1.0 / np.float64((loads / usable).max())), self._near(every, by_server, interior)

    def _near(self, groups: Indices, by_server: Float, interior: Interior | None) -> tuple[Indices, Bool, Indices]:
        """Homes of some groups, which of them choose, and first columns, near how the interior point spreads them.

        The groups that it spreads most choose. Homes are drawn in proportion to its parts: the first program on 1,000
        users and 27 servers took a fifth of the time so, and two thirds in proportion to servers.
        """
        n_groups, n_servers = by_server.shape
        place = np.full(len(self.models), -1)
        place[groups] = np.arange(n_groups)
        pair = np.flatnonzero(place[self.pair_group] >= 0) if n_groups < len(place) else np.arange(len(self.pair_group))
        group, server = place[self.pair_group[pair]], self.pair_server[pair]
        parts = by_server[group, server]
        if not parts.all():
            pair, group, server, parts = (of[parts > 0] for of in (pair, group, server, parts))
        most = choosing_at_first(n_groups, n_servers, self.loads.shape[0])
        choosing, home = np.ones(n_groups, dtype=bool), np.zeros(n_groups, dtype=np.intp)
        if interior is not None and n_groups > most:
            choosing[np.argpartition(by_server.max(axis=1) / by_server.sum(axis=1), most)[most:]] = False
            settled, at = np.flatnonzero(~choosing), np.zeros(by_server.shape, dtype=np.intp)
            at[group, server] = pair
            home[settled] = at[settled, _balanced(interior, settled)]
        check()
        among = np.flatnonzero(choosing[group])
        group, draws = group[among], -np.log(-np.log(np.random.default_rng(0).random(len(among))))
        # one pair of each group as its home, and a few more as columns, in proportion to parts and without replacement
        order = among[np.lexsort((np.log(parts[among]) + draws, group))]  # Gumbel: the largest sum is a draw
        last = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)  # pair of each group
        home[choosing] = pair[order[last]]
        few = int(np.ceil(COLUMNS * (1.0 + n_servers / n_groups)))
        left = last[np.searchsorted(group[last], group)] - np.arange(len(group))
        return home, choosing, np.sort(pair[order[left < few]])

    def _parts(self, rates: Float, settings: Settings) -> tuple[Float, Interior | None]:
        """About how groups spread over servers at the max-min level without limits, positive where they may run."""
        instance = self.program.instance
        alone = instance.derived.tasks_alone_within(self.program.usable)[self.models]
        interior = self._interior(self.models, rates, self.program.usable[:, None], alone > 0, settings)
        if interior is None:
            return alone, None
        # any point is a start: positive where a group may run, as its logarithm is drawn by
        return np.where(alone > 0, np.maximum(interior.parts, TINY), 0.0), interior

    def _interior(self, models: Indices, rates: Float, usable: Float, may: Bool, settings: Settings) -> Interior | None:
        """The interior point near the largest common level of some groups on what is usable of servers; None if the
        program is too large for it.
        """
        instance = self.program.instance
        if min(len(models), instance.n_servers * instance.n_resources) > LARGEST_SYSTEM:
            return None
        capacities = instance.capacities * instance.counts[:, None]
        demands = demands_of(instance.demands[models], capacities, rates[:, None], may)
        needed = demands.all_loads(may.astype(float)) > 0
        interior = Interior(demands, np.where(needed, usable, 1.0), Powers(np.ones(1), 1.0), np.full(1, np.inf))
        for k in range(STEPS):
            tell(f"a first guess, step {k + 1}")
            if settings.clock.late or interior.done(NEAR, NEAR) or not interior.step():
                break
        return interior if np.isfinite(interior.parts).all() else None

    def _begin_again(self, program: LevelProgram, rates: Float, bases: Float, settings: Settings) -> None:
        """Start a level's program anew, near how the interior point spreads free groups beside all others as they are.

        Not before some programs went by: most levels are near the last one.
        """
        assert self.found is not None
        n_groups, amounts = len(self.models), self.found.amounts
        total = np.bincount(self.pair_group, amounts, n_groups)
        part = np.divide(bases, total, out=np.zeros(n_groups), where=(rates == 0) & (total > 0))
        left = self.program.usable_rows - self.loads @ (part[self.pair_group] * amounts)
        full = left <= NOISE * self.program.usable_rows
        may = np.zeros((n_groups, self.program.instance.n_servers), dtype=bool)
        may[self.pair_group, self.pair_server] = ~self.closed & ~(np.asarray(self.loads.T @ full.astype(float)) > 0)
        groups = np.flatnonzero((rates > 0) & may.any(axis=1))
        if not len(groups):
            return
        usable = left.reshape(-1, self.program.instance.n_resources).T
        interior = self._interior(self.models[groups], rates[groups], usable, may[groups], settings)
        if interior is None:
            return
        spread = np.where(may[groups], np.maximum(interior.parts, TINY), 0.0)
        slack = np.where(full, 0.0, (interior.slack / interior.usable).T.ravel())
        program.restart(groups, *self._near(groups, spread, interior), slack.argsort())

    def _costs(self, prices: Float) -> tuple[Float, Float]:
        """The cost of a task by pair, infinite for closed pairs, and the least cost of each group."""
        by_pair = np.where(self.closed, np.inf, np.asarray(self.loads.T @ prices).ravel())
        cheapest = np.full(len(self.models), np.inf)
        np.minimum.at(cheapest, self.pair_group, by_pair)
        return by_pair, cheapest

    def holdings(self) -> list[Dual]:
        """The users fixed by the prices of each level, and these prices."""
        return [Dual(prices, fixed=np.flatnonzero(self.fixed_at == k)) for k, prices in enumerate(self.levels)]

    def tasks(self) -> Float:
        """Each user's tasks at its level, spread over servers as those of its group."""
        program, pairs = self.program, self.program.pairs
        if self.found is None:
            return np.zeros(len(pairs))
        total = np.clip(self.user_levels * self.per_level, program.low, program.high)
        amounts, by_level = self._filled(total[self.users])
        total[self.users] = by_level
        table = np.zeros((len(self.models), program.instance.n_servers))
        table[self.pair_group, self.pair_server] = amounts
        table /= table.sum(axis=1, keepdims=True)
        place = np.zeros(program.instance.n_users, dtype=np.intp)
        place[self.users] = self.group
        return total[pairs.user] * np.nan_to_num(table)[place[pairs.user], pairs.server]

    def _filled(self, total: Float) -> tuple[Float, Float]:
        """Amounts of pairs, and tasks of users, at which rows with a price at some level are full to rounding.

        The last program fills its own rows so, and those of earlier levels to 1e-13, which is too much where a later
        level pays for it with 1e3 times as much. Amounts of groups on several pairs, and levels, change by the least
        relative changes that make up what rows lack. ``total`` (n_users,) are tasks at levels.
        """
        assert self.found is not None
        amounts, n_groups, n_levels = self.found.amounts, len(self.models), len(self.levels)
        held = np.flatnonzero(amounts > SMALL * np.bincount(self.pair_group, amounts, n_groups)[self.pair_group])
        held = held[np.lexsort((-amounts[held], self.pair_group[held]))]
        group = self.pair_group[held]
        first = np.flatnonzero(np.diff(group, prepend=-1))  # the largest amount of each group
        others = np.setdiff1d(np.arange(len(held)), first, assume_unique=True)
        largest = first[np.searchsorted(group[first], group[others])]
        usable = self.program.usable_rows
        full = np.max(self.levels, axis=0, initial=0.0) > 0
        if not full.any() or max(int(full.sum()), len(others) + n_levels) > MOST_FULL:
            return amounts, total
        level, ratio = np.where(total > self.low, self.fixed_at[self.users], -1), self.rate / self.per_level[self.users]
        by_pair, here = self.loads[:, held], amounts[held]
        for _ in range(FILLINGS):
            whole = self._sum(total * ratio)
            here = here * (whole / np.bincount(group, here, n_groups))[group]
            lacks = usable - exact_sums(by_pair, here)
            full |= lacks < 0  # or the repair lowers all that is on the server
            at_level = [self._sum(np.where(level == k, total * ratio, 0.0)) / whole for k in range(n_levels)]
            moves = (by_pair[:, others] - by_pair[:, largest]).toarray() * here[others]
            slopes = np.column_stack([moves, *(by_pair @ (here * part[group]) for part in at_level)])[full]
            if not np.isfinite(slopes).all():
                return amounts, total
            change = np.linalg.lstsq(slopes, lacks[full])[0]
            if not np.abs(change).max(initial=0.0) <= NOISE:
                return amounts, total
            moved = here[others] * change[: len(others)]
            here[others] += moved
            np.subtract.at(here, largest, moved)
            total = total * (1.0 + np.append(change[len(others) :], 0.0)[level])
        made = np.zeros(len(amounts))
        made[held] = here
        return made, total


def _balanced(interior: Interior, groups: Indices) -> Indices:
    """A server for each of some groups, drawn in proportion to parts, corrected for the loads of earlier draws."""
    rng, demands, every = np.random.default_rng(0), interior.demands, np.ones_like(interior.prices)
    out, left, missing = np.empty(len(groups), dtype=np.intp), rng.permutation(len(groups)), np.zeros_like(every)
    while len(left):
        now, left = np.split(left, [max(int(SAMPLE * len(left)), FEWEST)])
        users = groups[now]
        parts = interior.parts[users] * demands.eligible[users]
        # servers that earlier draws left short of what parts ask for get more of the next ones
        load = demands.loads(parts, users)
        factor = np.clip(np.divide(load + missing, load, out=np.ones_like(load), where=load > 0), 0.1, 10.0)
        log_odds = np.log(parts * (demands.price(factor, users) / demands.price(every, users)))
        log_odds[~demands.eligible[users]] = -np.inf  # where loads of demands by server are 0 / 0
        out[now] = (log_odds - np.log(-np.log(rng.random(parts.shape)))).argmax(axis=1)
        drawn = np.zeros_like(parts)
        drawn[np.arange(len(now)), out[now]] = parts.sum(axis=1)
        missing += load - demands.loads(drawn, users)
    return out
