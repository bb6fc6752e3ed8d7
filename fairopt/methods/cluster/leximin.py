"""Leximin of a linear share on several different servers: one linear program, changed from level to level.

At each level the common level z of the users still rising is maximised. Its prices say who is held: whoever needs
something priced wherever it may run. They stay at z, and the others rise on. Task limits cost no program each: at the
level found, everybody whose limit is below it stops there, and z is maximised again. That is Newton's method on what
the users ask for at z, a concave function of it: it climbs to the level from below, in a few steps for any number of
limits. Users of one demand vector (up to a factor) who may run on the same servers are one group of the program.

At all optima of a level no user holds anything on a server where that costs more than where it is cheapest. Such pairs
are shut for the later levels: the 1e-10 that a program leaves of an earlier level might be worth much to a user who
needs but a trace of what is scarce.

The prices of each level are the evidence (`fairopt.proofs.levels`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairopt.blocks.model import Pairs, Point
from fairopt.blocks.objectives import Leximin
from fairopt.certificate import Try
from fairopt.formulation.demands_at_prices import demands_of
from fairopt.formulation.program import Program
from fairopt.methods.cluster.interior_point import Interior
from fairopt.methods.cluster.level_program import Found, LevelProgram
from fairopt.methods.settings import Proposals, Settings
from fairopt.progress import tell
from fairopt.proofs.evidence import Held, Holding, Proposal

__all__ = ["applies", "solve"]

Float = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

NOISE = 1e-9  # a capacity worth less than this part of all is taken as free; if it is not, the next level will say so
TIE = 1e-9  # relatively: costs as near as this are equal but for rounding
COLUMNS = 4  # of each group to begin with, and so many for what each server adds
FAR = 1e3  # levels this much above the units of a program are written down anew: HiGHS drops small numbers
LARGEST_SYSTEM = 3000  # groups or prices, whichever are fewer: beyond, a step of the interior point takes seconds
STEPS = 30  # of it; 6 to 10 are typical
NEAR = 1e-6  # how good its point has to be to start from


def applies(program: Program) -> bool:
    """Whether this route is for the program.

    Parameters
    ----------
    program : Program
        What to solve.

    Returns
    -------
    bool
        True for `Leximin` of a share that a task is worth alike on all servers, on several different servers, under
        task limits, lower bounds and reserves only.
    """
    objective = program.objective
    if program.empty or program.single or program.rest or not isinstance(objective, Leximin):
        return False
    return objective.share.coefficients(program.instance).ndim == 1


def solve(program: Program, settings: Settings) -> Proposals:
    """Solve a program that `applies` accepts.

    Parameters
    ----------
    program : Program
        What to solve.
    settings : Settings
        Only the deadline matters here.

    Yields
    ------
    Proposal
        Of any merit, where no program had an answer or the time was up.
    """
    begun = time.perf_counter()
    with np.errstate(all="ignore"):  # what is no number is judged like the rest
        filling = _Filling(program)
        complete = filling.fill(settings)
    status = f"optimal ({filling.solves} programs)"
    if not complete:
        status = "time limit reached" if settings.late else f"no answer ({filling.solves} programs)"
    evidence = Held(filling.holdings(), prices=filling.prices)
    yield Proposal("levels", filling.tasks(), evidence, attempt=Try("levels", status, time.perf_counter() - begun))


class _Filling:
    """Users on their way up. Heights are shares per weight, in units of about the max-min level.

    ``height``, ``held_at``, ``caps`` and ``per_level`` (a user's own tasks per unit of height) are by user. ``rate``,
    ``limit`` and ``low`` are by those who can run anything (``users``), in tasks of the user that their group is
    modelled on.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        instance, objective = program.instance, program.objective
        assert isinstance(objective, Leximin)
        self.unit = Point(instance, np.zeros((0, 0))).level(objective.share)
        self.per_level = instance.weights * (self.unit / objective.share.coefficients(instance))  # tasks
        self.users = np.flatnonzero(program.most > 0)
        self.caps = program.high / self.per_level
        self.height = np.zeros(instance.n_users)
        self.held_at = np.full(instance.n_users, -1)  # which level holds the user; -1 is its limit
        self.levels: list[Float] = []  # the prices of each
        self.prices = np.zeros(len(program.usable_rows))
        self.solves = 0
        self.found: Found | None = None

    def _group(self) -> None:
        """Users alike but for a factor: their tasks add up, whatever their weights and limits."""
        program, users = self.program, self.users
        instance = program.instance
        demands, eligible, low = instance.demands[users], instance.eligible[users], program.low[users]
        if demands.ndim == 3:
            demands = np.where(eligible[:, :, None], demands, 0.0)
        flat = demands.reshape(len(users), -1)
        size = flat.max(axis=1, initial=0.0)
        alone = np.where(low > 0, 1.0 + np.arange(len(users)), 0.0)  # what must hold at any level, holds for each
        rows = np.column_stack([flat / size[:, None], eligible, alone]) + 0.0
        keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        _, first, self.group = np.unique(keys, return_index=True, return_inverse=True)
        ratio = size / size[first][self.group]
        self.rate, self.limit, self.low = (by[users] * ratio for by in (self.per_level, program.high, program.low))
        self.models = users[first]
        self.pairs = Pairs(instance.select_users(self.models))

    def _sum(self, by_user: Float) -> Float:
        return np.asarray(np.bincount(self.group, by_user, len(self.models)), dtype=float)

    def fill(self, settings: Settings) -> bool:
        """Raise everybody as far as possible; whether it came to an end."""
        if not len(self.users):
            return True
        self._group()
        rising, fixed = np.ones(len(self.users), dtype=bool), np.zeros(len(self.users))
        caps = self.caps[self.users]
        height, home, fullest = self._start(settings)
        program = self._program(height, rising, fixed)
        program.start_at(home, fullest)
        while rising.any():
            tell("levels, users settled", len(rising) - int(rising.sum()), len(rising))
            found = None if settings.late else program.solve(settings.left())
            self.solves += 1
            if found is None or not found.level > 0:
                return False
            self.found, level = found, found.level
            stopped = rising & (caps <= level)
            fixed[stopped] = self.limit[stopped]
            self.height[self.users[stopped]] = caps[stopped]
            if not stopped.any():
                prices = np.where(found.prices > NOISE * found.prices.max(), found.prices, 0.0)
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
                dearer = by_pair > cheapest[self.pair_group] * (1 + TIE)
                self.shut |= dearer
                program.close(np.flatnonzero(dearer))
            rising &= ~stopped
            if level > FAR * height:
                height, before, self.columns = level, program, program.columns
                program = self._program(height, rising, fixed)
                program.close(before.closed)
                program.resume(before)
            else:
                changed = np.unique(self.group[stopped])
                rates, bases = self._sum(np.where(rising, self.rate, 0.0)), self._sum(np.where(rising, 0.0, fixed))
                program.ask(changed, rates[changed], bases[changed])
        return True

    # -- the program ------------------------------------------------------------------------------------------

    def _program(self, height: float, rising: NDArray[np.bool_], fixed: Float) -> LevelProgram:
        """The program for who is rising and what the others have, in units of what all hold at a height."""
        wanted = np.where(rising, np.maximum(self.low, np.minimum(self.limit, height * self.rate)), fixed)
        rates, bases = self._sum(np.where(rising, self.rate, 0.0)), self._sum(np.where(rising, 0.0, fixed))
        usable, low = self.program.usable_rows, self._sum(self.low)
        return LevelProgram(self.loads, self.pair_group, self.columns, usable, self._sum(wanted), rates, bases, low)

    def _start(self, settings: Settings) -> tuple[float, NDArray[np.intp], int]:
        """A level that all can reach without limits, and where to begin: a pair for each group, and the fullest row.

        Each group begins on one server, drawn by the parts it has on all. On 1,000 users and 27 servers the first
        program took a fifth of a solve from scratch so; with parts as large as the servers, two thirds.
        """
        rates = self._sum(self.rate)
        by_server = self._parts(rates, settings)
        self.kept = by_server[self.pairs.user, self.pairs.server] > 0
        group, parts = self.pairs.user[self.kept], by_server[self.pairs.user, self.pairs.server][self.kept]
        self.shut = np.zeros(len(group), dtype=bool)
        self.pair_group, self.loads = group, sp.csc_array(self.pairs.loads[:, self.kept])
        usable = np.where(self.program.usable_rows > 0, self.program.usable_rows, np.inf)
        spread = self.loads @ (rates[group] * parts / np.bincount(group, parts)[group])
        draws = -np.log(-np.log(np.random.default_rng(0).random(len(group))))  # the largest sum is a draw by parts
        order = np.lexsort((np.log(parts) + draws, group))
        last = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)  # pairs of a group are neighbours
        home = order[last]
        few = int(np.ceil(COLUMNS * (1.0 + self.program.instance.n_servers / len(self.models))))
        self.columns = np.sort(order[last[group] - np.arange(len(group)) < few])
        held = np.zeros(len(group))
        held[home] = rates
        return 1.0 / float((spread / usable).max()), home, int((self.loads @ held / usable).argmax())

    def _parts(self, rates: Float, settings: Settings) -> Float:
        """About how each group spreads over servers at the max-min level without limits, positive where it may run."""
        program = self.program
        instance = program.instance
        alone = instance.tasks_alone_within(program.usable)[self.models]
        may = alone > 0
        if min(len(self.models), instance.n_servers * instance.n_resources) <= LARGEST_SYSTEM:
            capacities = instance.capacities * instance.counts[:, None]
            demands = demands_of(instance.demands[self.models], capacities, rates[:, None], may)
            needed = demands.all_loads(may.astype(float)) > 0
            usable = np.where(needed, program.usable[:, None], 1.0)
            interior = Interior(demands, usable, np.ones(1), 1.0, np.full(1, np.inf))
            for k in range(STEPS):
                tell(f"a first guess, step {k + 1}")
                if settings.late or interior.done(NEAR, NEAR) or not interior.step():
                    break
            if np.isfinite(interior.parts).all():
                return np.where(may, np.maximum(interior.parts, 1e-300), 0.0)
        return alone

    # -- prices -----------------------------------------------------------------------------------------------

    def _costs(self, prices: Float) -> tuple[Float, Float]:
        """What a task costs by pair, infinity where it is shut; and what it costs each group where it is cheapest."""
        by_pair = np.where(self.shut, np.inf, np.asarray(self.loads.T @ prices).ravel())
        cheapest = np.full(len(self.models), np.inf)
        np.minimum.at(cheapest, self.pair_group, by_pair)
        return by_pair, cheapest

    def holdings(self) -> list[Holding]:
        """Who is held by the prices of which level."""
        return [Holding(np.flatnonzero(self.held_at == k), prices) for k, prices in enumerate(self.levels)]

    def tasks(self) -> Float:
        """Everybody's tasks at its height, spread over servers like its group's."""
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
