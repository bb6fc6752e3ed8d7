"""Leximin of a linear share on several different servers: one linear program, changed from level to level.

At each level the common level z of the users still rising is maximised. The users who need something with a price
wherever they may run are held there, and the others rise on. Task limits cost no program each: at the level found, all
users whose limit is below it stop at their limits, and z is maximised again. That is Newton's method on what users
demand at z, which is concave in z: z rises to the level in a few steps for any number of limits. Users of one
demand vector (up to a factor) who may run on the same servers are one group of the program.

At all optima of a level no user holds anything on a server where its cost is not the least. Such pairs are shut for the
later levels: the 1e-10 that a program leaves of an earlier level might be worth much to a user who needs very little of
what is scarce.

The program goes on from level to level (`LevelProgram`), from a first guess by the interior point. A few pairs of each
group are columns, and others are added when their costs require it: that took all levels of 200 users on 500 servers
from 8.7 to 0.8 s. Where groups are many, few of them have a row: on 20,000 users and 27 servers that took all levels
from 14.6 to 0.9 s.

The prices of each level are the evidence (`fairopt.proofs.levels`). Where they are refused, the levels are found once
more by exact programs (`fairopt.methods.cluster.exact_levels`).
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.blocks.model import Pairs, Point
from fairopt.certificate import Try
from fairopt.evidence.levels import LevelDuals
from fairopt.formulation.demands_at_prices import demands_of
from fairopt.formulation.program import Program
from fairopt.methods.arrays import Bool, Float, Int
from fairopt.methods.clean_levels import without_noise
from fairopt.methods.cluster.exact_levels import ExactProgram, LevelOptimum
from fairopt.methods.cluster.interior_point import Interior
from fairopt.methods.cluster.level_program import LevelProgram, choosing_at_first
from fairopt.methods.cluster.worths import Powers
from fairopt.methods.settings import Proposals, Settings
from fairopt.proofs.conditions import repair
from fairopt.proofs.levels import LevelDual
from fairopt.proofs.proposal import Proposal
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp
from fairopt.runtime.progress import tell

NOISE = 1e-9  # a capacity worth less than this part of all is taken as free; if it is not, the next level shows it
TIE = 1e-9  # relative difference of costs that is rounding
EXACT_TIE = 1e-13  # the same of exact prices
COLUMNS = 4  # of each group at first, and as many for each server per group
FAR = 1e3  # levels this much above the units of a program ask for a new one in other units: HiGHS drops small numbers
LARGEST_SYSTEM = 3000  # groups or prices, whichever are fewer: beyond, a step of the interior point takes seconds
LARGEST_EXACT = 3000  # pairs: of 19,000 and 81 capacities, all levels take minutes
STEPS = 30  # of the interior point; 6 to 10 are typical
NEAR = 1e-6  # tolerance of the interior point that the first program starts from
SAMPLE, FEWEST = 0.25, 32  # the part of all groups left that is drawn at once, and no fewer


def leximin_on_servers_applies(program: Program) -> bool:
    """Whether it is `Leximin` of a share whose coefficients do not depend on the server, on several different servers.

    Under task limits, lower bounds and reserves only.
    """
    if program.empty or program.single or program.rest or not program.term.is_order:
        return False
    return program.term.share.coefficients(program.instance).ndim == 1


def solve_leximin_on_servers(program: Program, settings: Settings) -> Proposals:
    """Leximin level by level, and once more by exact programs if that is refused.

    A proposal is not optimal where a program failed or the time was up.
    """
    for exact in (False, True):
        begun = time.perf_counter()
        with np.errstate(all="ignore"):  # NaN is judged like any answer
            filling = _LevelsOnServers(program, exact)
            complete, tasks, holdings = filling.fill(settings), filling.tasks(), filling.holdings()
            if complete and not exact:
                holdings = without_noise(program, None, holdings, repair(program, tasks))
        status = f"optimal ({filling.solves} {'exact ' if exact else ''}programs)"
        if not complete:
            status = "time limit reached" if settings.late else status.replace("optimal", "no answer")
        evidence = LevelDuals(holdings, prices=filling.prices)
        attempt = Try("levels", status, time.perf_counter() - begun)
        answer = yield Proposal("levels", tasks, evidence, attempt=attempt)
        if answer is None or answer.ok or settings.late or filling.found is None:
            return
        if len(filling.shut) > LARGEST_EXACT:
            return


class _LevelsOnServers:
    """The state of the filling. Heights are shares per weight, in units of about the max-min level.

    By user are ``height``, ``held_at``, ``caps`` and ``per_level`` (a user's tasks per unit of height). By user who can
    run anything (``users``) are ``rate``, ``limit`` and ``low``, in tasks of the first user of the group: fractions if
    the programs are ``exact``.
    """

    def __init__(self, program: Program, exact: bool = False) -> None:
        self.program, self.exact = program, exact
        self.noise, self.tie = (0.0, EXACT_TIE) if exact else (NOISE, TIE)
        instance, share = program.instance, program.term.share
        self.unit = Point(instance, np.zeros((0, 0))).level(share)
        self.per_level = instance.weights * self.unit / share.coefficients(instance)  # tasks
        self.users = np.flatnonzero(program.most > 0)
        self.caps = program.high / self.per_level
        self.height = np.zeros(instance.n_users)
        self.held_at = np.full(instance.n_users, -1)  # index of the level that holds the user; -1 is its limit
        self.levels: list[Float] = []  # prices of each level
        self.prices = np.zeros(len(program.usable_rows))
        self.solves = 0
        self.found: LevelOptimum | None = None

    def _group(self) -> None:
        """Group users whose demands differ by a factor only: their tasks add up, with any weights and limits."""
        program, users = self.program, self.users
        instance = program.instance
        demands, eligible, low = instance.demands[users], instance.eligible[users], program.low[users]
        if demands.ndim == 3:
            demands = np.where(eligible[:, :, None], demands, 0.0)
        flat = demands.reshape(len(users), -1)
        size = flat.max(axis=1, initial=0.0)
        alone = np.where(low > 0, 1.0 + np.arange(len(users)), 0.0)  # lower bounds hold for each user
        rows = np.column_stack([flat / size[:, None], eligible, alone]) + 0.0
        keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        _, first, self.group = np.unique(keys, return_index=True, return_inverse=True)
        ratio = size / size[first][self.group]
        by_user: list[Any] = [by[users] * ratio for by in (self.per_level, program.high, program.low)]
        if self.exact:
            by_user = [_fractions(v) for v in by_user]
        self.rate, self.limit, self.low = by_user
        self.models = users[first]
        self.pairs = Pairs(instance.select_users(self.models))

    def _sum(self, by_user: Float) -> Float:
        if self.exact:
            out = np.zeros(len(self.models), dtype=object)
            np.add.at(out, self.group, by_user)
            return out
        return np.asarray(np.bincount(self.group, by_user, len(self.models)), dtype=float)

    def fill(self, settings: Settings) -> bool:
        """Raise all users as far as possible; whether all levels were found."""
        if not len(self.users):
            return True
        self._group()
        rising, fixed = np.ones(len(self.users), dtype=bool), np.zeros(len(self.users), dtype=self.rate.dtype)
        rates, bases = self._asked(rising, fixed)
        height, start = self._start(np.asarray(rates, dtype=float), settings)
        sums = (self._units(height, rising, fixed), rates, bases, self._sum(self.low))
        by_group = (np.asarray(v, dtype=float) for v in sums)
        check()
        first = LevelProgram(self.loads, self.pair_group, self.program.usable_rows, *start, *by_group)
        program: LevelProgram | ExactProgram = first
        if self.exact:
            if settings.late or not first.solve(settings.left()):
                return False
            program = self._exact(first, rates, bases)
        while rising.any():
            tell("levels, users settled", len(rising) - int(rising.sum()), len(rising))
            found = None if settings.late else program.solve(settings.left())
            self.solves += 1
            if found is None or not found.level > 0:
                return False
            self.found = found
            level: Any = found.level
            stopped = rising & (self.limit <= level * self.rate)
            fixed[stopped] = self.limit[stopped]
            self.height[self.users[stopped]] = self.caps[self.users[stopped]]
            if not stopped.any():
                prices = np.where(found.prices > self.noise * found.prices.max(), found.prices, 0.0)
                by_pair, cheapest = self._costs(prices)
                stopped = rising & (cheapest[self.group] > 0)
                if not stopped.any():
                    return False
                if rising.all():
                    self.prices = prices * self.unit
                fixed[stopped] = np.maximum(level * self.rate[stopped], self.low[stopped])
                self.height[self.users[stopped]] = level
                self.held_at[self.users[stopped]] = len(self.levels)
                self.levels.append(prices)
                dearer = by_pair > cheapest[self.pair_group] * (1 + self.tie)
                self.shut |= dearer
                program.close(np.flatnonzero(dearer))
            rising &= ~stopped
            program.ask(*self._asked(rising, fixed))
            if isinstance(program, LevelProgram) and level > FAR * height:
                height = level
                program.in_units(self._units(height, rising, fixed))
        return True

    def _units(self, height: float, rising: Bool, fixed: Float) -> Float:
        """About what groups hold at a height, given the fixed tasks of users who do not rise."""
        wanted = np.where(rising, np.maximum(self.low, np.minimum(self.limit, height * self.rate)), fixed)
        return np.asarray(self._sum(wanted), dtype=float)

    def _exact(self, program: LevelProgram, rates: Float, bases: Float) -> ExactProgram:
        """The exact program that goes on from a program's optimum."""
        instance, needs = self.pairs.instance, self.loads.copy()
        user = self.pair_group[np.repeat(np.arange(needs.shape[1]), np.diff(needs.indptr))]
        needs.data = instance.per_server_demands[user, *divmod(needs.indices, instance.n_resources)]
        capacities, usable = (instance.capacities * instance.counts[:, None]).ravel(), self.program.usable_rows
        low, start = self._sum(self.low), program.basic()
        return ExactProgram(needs, capacities, self.pair_group, usable, program.unit, rates, bases, low, start)

    def _asked(self, rising: Bool, fixed: Float) -> tuple[Float, Float]:
        """What groups must have, per unit of the level and at least."""
        return self._sum(np.where(rising, self.rate, 0)), self._sum(np.where(rising, 0, fixed))

    def _start(self, rates: Float, settings: Settings) -> tuple[float, tuple[Int, Bool, Int]]:
        """A level that all can reach without limits, and how a program starts: homes, who chooses, and between what.

        Few choose: the groups that a first guess spreads most. Homes are drawn at random in proportion to its parts.
        The first program on 1,000 users and 27 servers then took a fifth of the time from scratch; in proportion to the
        servers' sizes, two thirds.
        """
        by_server, interior = self._parts(rates, settings)
        check()
        self.kept = by_server[self.pairs.user, self.pairs.server] > 0
        group, parts = self.pairs.user[self.kept], by_server[self.pairs.user, self.pairs.server][self.kept]
        self.shut = np.zeros(len(group), dtype=bool)
        self.pair_group, self.loads = group, sp.csc_array(self.pairs.loads[:, self.kept])
        check()
        usable = np.where(self.program.usable_rows > 0, self.program.usable_rows, np.inf)
        whole = by_server.sum(axis=1)
        spread = self.loads @ (rates[group] * parts / whole[group])
        n_groups, n_servers = by_server.shape
        most = choosing_at_first(n_groups, n_servers, len(usable))
        choosing, home = np.ones(n_groups, dtype=bool), np.zeros(n_groups, dtype=np.intp)
        if interior is not None and n_groups > most and not self.exact:
            choosing[np.argpartition(by_server.max(axis=1) / whole, most)[most:]] = False
            settled, at = np.flatnonzero(~choosing), np.zeros(by_server.shape, dtype=np.intp)
            at[group, self.pairs.server[self.kept]] = np.arange(len(group))
            home[settled] = at[settled, _balanced(interior, settled)]
        check()
        among = np.flatnonzero(choosing[group])
        group, draws = group[among], -np.log(-np.log(np.random.default_rng(0).random(len(among))))
        order = among[np.lexsort((np.log(parts[among]) + draws, group))]  # Gumbel: the largest sum is a draw
        last = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)  # pairs of a group are in a row
        home[choosing] = order[last]
        few = int(np.ceil(COLUMNS * (1.0 + n_servers / n_groups)))
        left = last[np.searchsorted(group[last], group)] - np.arange(len(group))
        columns = np.sort(order[left < few])
        return float(1.0 / np.float64((spread / usable).max())), (home, choosing, columns)

    def _parts(self, rates: Float, settings: Settings) -> tuple[Float, Interior | None]:
        """About how groups spread over servers at the max-min level without limits, positive where they may run."""
        program = self.program
        instance = program.instance
        alone = instance._tasks_alone_within(program.usable)[self.models]
        may = alone > 0
        if min(len(self.models), instance.n_servers * instance.n_resources) <= LARGEST_SYSTEM:
            capacities = instance.capacities * instance.counts[:, None]
            demands = demands_of(instance.demands[self.models], capacities, rates[:, None], may)
            needed = demands.all_loads(may.astype(float)) > 0
            usable = np.where(needed, program.usable[:, None], 1.0)
            interior = Interior(demands, usable, Powers(np.ones(1), 1.0), np.full(1, np.inf))
            for k in range(STEPS):
                tell(f"a first guess, step {k + 1}")
                if settings.late or interior.done(NEAR, NEAR) or not interior.step():
                    break
            if np.isfinite(interior.parts).all():
                return np.where(may, np.maximum(interior.parts, 1e-300), 0.0), interior
        return alone, None

    def _costs(self, prices: Float) -> tuple[Float, Float]:
        """The cost of a task by pair, infinite where it is shut; and the least cost of each group."""
        by_pair = np.where(self.shut, np.inf, np.asarray(self.loads.T @ prices).ravel())
        cheapest = np.full(len(self.models), np.inf)
        np.minimum.at(cheapest, self.pair_group, by_pair)
        return by_pair, cheapest

    def holdings(self) -> list[LevelDual]:
        """The users held by the prices of each level."""
        return [LevelDual(np.flatnonzero(self.held_at == k), prices) for k, prices in enumerate(self.levels)]

    def tasks(self) -> Float:
        """Each user's tasks at its height, spread over servers as those of its group."""
        program, pairs = self.program, self.program.pairs
        if self.found is None:
            return np.zeros(len(pairs))
        amounts = np.zeros(len(self.kept))
        amounts[self.kept] = self.found.amounts
        table = self.pairs.table(amounts)
        table /= table.sum(axis=1, keepdims=True)
        total = np.clip(self.height * self.per_level, program.low, program.high)
        place = np.zeros(program.instance.n_users, dtype=np.intp)
        place[self.users] = self.group
        return total[pairs.user] * np.nan_to_num(table)[place[pairs.user], pairs.server]


def _balanced(interior: Interior, groups: Int) -> Int:
    """A server for each of some groups, drawn in proportion to parts, so that loads are about those of all parts.

    Each draw makes good what those before it left: where a capacity has less than its part, more are drawn.
    """
    rng, demands, every = np.random.default_rng(0), interior.demands, np.ones_like(interior.prices)
    out, left, missing = np.empty(len(groups), dtype=np.intp), rng.permutation(len(groups)), np.zeros_like(every)
    while len(left):
        now, left = np.split(left, [max(int(SAMPLE * len(left)), FEWEST)])
        users = groups[now]
        parts = interior.parts[users] * demands.eligible[users]
        asked = demands.loads(parts, users)
        factor = np.clip(np.divide(asked + missing, asked, out=np.ones_like(asked), where=asked > 0), 0.1, 10.0)
        odds = np.log(parts * (demands.price(factor, users) / demands.price(every, users)))
        out[now] = (odds - np.log(-np.log(rng.random(parts.shape)))).argmax(axis=1)
        held = np.zeros_like(parts)
        held[np.arange(len(now)), out[now]] = parts.sum(axis=1)
        missing += asked - demands.loads(held, users)
    return out


def _fractions(values: Float) -> Float:
    """Exactly these numbers, as fractions but for infinite ones."""
    return np.array([Fraction(v) if np.isfinite(v) else v for v in values.tolist()], dtype=object)
