"""Leximin of numbers on one pool, such as demands over the links of a network, by small programs.

Of numbers ``z_t = sum_(p of t) c_p x_p``, each at most l_t, with loads A_p of capacities, the next level is

    max h  under  sum_p (A_p / c_p) u_p <= usable,  sum_(p of t) u_p >= floor_t + rate_t h,  u = c x >= 0,

which is the program of groups on servers (`LevelProgram`). A basic solution spreads no more numbers over several users
than resources are full. So all numbers begin settled on one user, without a row; those that prices tell to choose get
a row and columns. The basis goes on from level to level. Numbers with a price are fixed. Limits need neither rows nor
levels: numbers whose limit is below the level are fixed there, and the program is solved again.

Why not all rows and columns (`NumberPrograms`): HiGHS then spends its time on numbers that stay on one user. With
demands over four paths each they take, gate included, and these programs take (CPU seconds, and number of programs):

    UsCarrier, 378 links, 496 demands      1.8, 160    .20, 55
    Kdl, 1,790 links, 500 demands          5.7, 237    .71, 79
    Cogentco, 486 links, 2,480 demands     26, 288     1.8, 133
    UsCarrier, all 24,806 demands                      126, 304

On Cogentco 300 numbers that choose from the start took 2.4 s for 1.9, and 1,000 took 3.4.

The first homes are users that are cheap in some rounds of prices ``exp(load)``, which cost a multiplication by A each.

Floats: HiGHS's prices are refined, since users of one number cost the same only to 1e-12. What the gate refuses is
solved again by all rows and columns.
"""

from __future__ import annotations

import numpy as np

from fairopt.instance.validation import distinct
from fairopt.proof.dual import Dual
from fairopt.proof.number_level_bounds import NumberBounds
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import ROUNDING, TERM_ROUNDING
from fairopt.solve.cluster.level_program import LevelOptimum, LevelProgram
from fairopt.solve.cone.solve import _SolverFailed
from fairopt.solve.form.solvers import LATE
from fairopt.solve.settings import Settings

PAID = 1e-9  # of what a level's numbers pay: prices below are noise
FAR = 1e3  # levels so far above a program's units need other units
ROUNDS = 60  # of prices before the first program
STEP = 4.0  # of the logarithm of the price of the fullest resource, in the first round


def on_a_pool(bounds: NumberBounds) -> bool:
    """Whether numbers are sums over users of one pool whom nothing but limits of single numbers and capacities bind."""
    program = bounds.program
    plain = program.single and bounds.numbers.base is None and program.unlimited and not distinct(program.low).any()
    return plain and bool((bounds.c > 0).all()) and not program.zero_pairs.any() and bounds.by_rows.alone


class PoolLevels:
    """The levels of numbers in turn; users are ordered by number."""

    def __init__(self, bounds: NumberBounds, settings: Settings) -> None:
        self.bounds, self.settings, self.w = bounds, settings, bounds.numbers.weights
        self.order = np.argsort(bounds.number, kind="stable")
        self.number, self.c = bounds.number[self.order], bounds.c[self.order]
        self.first = np.searchsorted(self.number, np.arange(len(self.w)))
        self.loads = sp.csc_array(bounds.program.rows.columns(self.order))
        self.loads.data /= np.repeat(self.c, np.diff(self.loads.indptr))
        self.costs = sp.csr_array(self.loads.T)
        self.usable = np.where(bounds.program.usable_rows > 0, bounds.program.usable_rows, np.inf)
        self.duals: list[Dual] = []
        self.prices = np.zeros(len(self.usable))
        self.solves = 0

    def cheapest(self, prices: Float) -> Float:
        """The least cost of a unit of each number."""
        return np.asarray(np.minimum.reduceat(self.costs @ prices, self.first))

    def parts(self) -> tuple[float, Float]:
        """About how numbers spread over users at the first level, and a level at which they fit."""
        parts, log = np.zeros(len(self.number)), np.zeros(len(self.usable))
        for k in range(ROUNDS):
            check("the first prices")
            cost = self.costs @ (np.exp(log - log.max()) / self.usable)
            now = (cost <= np.minimum.reduceat(cost, self.first)[self.number] * (1 + ROUNDING)).astype(float)
            now /= np.add.reduceat(now, self.first)[self.number]
            parts += now / ROUNDS
            load = self.loads @ (now * self.w[self.number]) / self.usable
            log += STEP / np.sqrt(1 + k) * load / load.max()
        return float(1 / (self.loads @ (parts * self.w[self.number]) / self.usable).max()), parts

    def fill(self) -> None:
        """Find all levels; `_SolverFailed` if a program fails or the time is up."""
        unit, parts = self.parts()
        n, limits, rates = len(self.w), self.bounds.by_rows.most, unit * self.w
        home = np.lexsort((parts, self.number))[np.append(self.first[1:], len(self.number)) - 1]
        free, fixed, scale = np.ones(n, dtype=bool), np.zeros(n), 1.0
        settled = home, np.zeros(n, dtype=bool), np.zeros(0, dtype=np.intp)
        units = np.minimum(limits, rates)
        program = LevelProgram(
            self.loads, self.number, self.bounds.program.usable_rows, *settled, units, rates, fixed, 0.0 * fixed
        )
        while free.any():
            tell("levels, numbers settled", n - int(free.sum()), n)
            optimum = self._solved(program)
            newly = free & (limits <= optimum.level * rates)
            fixed[newly] = limits[newly]
            if not newly.any():
                newly = self._paying(optimum, free)
                fixed[newly] = optimum.level * rates[newly]
            free &= ~newly
            program.change(np.where(free, rates, 0.0), np.where(free, 0.0, fixed))
            if optimum.level > FAR * scale:
                scale = optimum.level
                program.in_units(np.where(free, np.minimum(limits, scale * rates), fixed))
        # the last numbers may be at limits below the last level
        total = np.add.reduceat(optimum.amounts, self.first)
        part = np.divide(fixed, total, out=np.zeros(n), where=total > 0)
        self.tasks = np.empty(len(self.order))
        self.tasks[self.order] = optimum.amounts * part[self.number] / self.c

    def _solved(self, program: LevelProgram) -> LevelOptimum:
        """The next level."""
        optimum = None if self.settings.clock.late else program.solve(self.settings.clock)
        self.solves += 1
        if optimum is None or not optimum.level > 0:
            raise _SolverFailed(LATE if self.settings.clock.late else f"no optimum of program {self.solves}")
        return optimum

    def _paying(self, optimum: LevelOptimum, free: Bool) -> Bool:
        """The free numbers that the prices of a level fix; they are kept as its dual solution."""
        prices = np.where(optimum.prices > ROUNDING * optimum.prices.max(), optimum.prices, 0.0)
        of_numbers = self.cheapest(prices) * (1 - 3 * TERM_ROUNDING)  # so that no reduced cost is rounded below 0
        paid = np.where(free, of_numbers * self.w, 0.0)
        newly = paid > PAID * paid.max()
        if not newly.any():
            raise _SolverFailed(f"prices of program {self.solves} fix nothing")
        if free.all():
            self.prices = prices / (of_numbers @ self.w)
        self.duals.append(Dual(prices, mixtures=[of_numbers], fixed=np.flatnonzero(newly)))
        return newly
