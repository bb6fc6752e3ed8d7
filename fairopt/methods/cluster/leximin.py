"""Leximin of a linear share on several different servers: one linear program, changed from level to level.

At each level the common level z of the users still rising is maximised. The users who need something with a price
wherever they may run are held there, and the others rise on. Task limits cost no program each: at the level found, all
users whose limit is below it stop at their limits, and z is maximised again. That is Newton's method on what users
demand at z, which is concave in z: z rises to the level in a few steps for any number of limits. Users of one
demand vector (up to a factor) who may run on the same servers are one group of the program.

At all optima of a level no user holds anything on a server where its cost is not the least. Such pairs are shut for the
later levels: the 1e-10 that a program leaves of an earlier level might be worth much to a user who needs very little of
what is scarce.

The program is kept in HiGHS (`LevelProgram`). Holding users, or stopping them at their limits, only lowers what groups
must have at larger z, so the last basis stays feasible, and primal simplex steps continue from it. On 1,000 users and
27 servers a later level took a twentieth of the first by primal steps; by dual steps, the default, up to as long as the
first. A few pairs of each group are columns, and others are added when their costs require it: that took all levels
from 0.28 to 0.16 s, and from 8.7 to 0.8 s with 200 users on 500 servers.

The prices of each level are the evidence (`fairopt.proofs.levels`). Where they are refused, the levels are found once
more by exact programs (`fairopt.methods.cluster.exact_levels`).
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.blocks.model import Pairs, Point
from fairopt.blocks.objectives import Leximin
from fairopt.certificate import Try
from fairopt.formulation.demands_at_prices import demands_of
from fairopt.formulation.program import Program
from fairopt.lazy import sp
from fairopt.methods.arrays import Bool, Float, Int
from fairopt.methods.cluster.exact_levels import Basic, ExactProgram, LevelOptimum
from fairopt.methods.cluster.interior_point import Interior
from fairopt.methods.settings import Proposals, Settings
from fairopt.progress import tell
from fairopt.proofs.evidence import HeldLevels, Holding, Proposal

NOISE = 1e-9  # a capacity worth less than this part of all is taken as free; if it is not, the next level shows it
TIE = 1e-9  # relative difference of costs that is rounding
EXACT_TIE = 1e-13  # the same of exact prices
COLUMNS = 4  # of each group at first, and as many for each server per group
FAR = 1e3  # levels this much above the units of a program ask for a new one in other units: HiGHS drops small numbers
LARGEST_SYSTEM = 3000  # groups or prices, whichever are fewer: beyond, a step of the interior point takes seconds
LARGEST_EXACT = 3000  # pairs: of 19,000 and 81 capacities, all levels take minutes
STEPS = 30  # of the interior point; 6 to 10 are typical
NEAR = 1e-6  # tolerance of the interior point that the first program starts from
TOLERANCE, SMALLEST = 1e-10, 1e-12  # the tightest that HiGHS takes
TIED = 1e-9  # a pair that gains a group less than this part of what it pays is not added
MORE = 5  # columns added to a group at once
DUAL, PRIMAL = 1, 4  # HiGHS's numbers of simplex strategies


def leximin_on_servers_applies(program: Program) -> bool:
    """Whether it is `Leximin` of a share whose coefficients do not depend on the server, on several different servers.

    Under task limits, lower bounds and reserves only.
    """
    objective = program.objective
    if program.empty or program.single or program.rest or not isinstance(objective, Leximin):
        return False
    return objective.share.coefficients(program.instance).ndim == 1


def solve_leximin_on_servers(program: Program, settings: Settings) -> Proposals:
    """Leximin level by level, and once more by exact programs if that is refused.

    A proposal is not optimal where a program failed or the time was up.
    """
    for exact in (False, True):
        begun = time.perf_counter()
        with np.errstate(all="ignore"):  # NaN is judged like any answer
            filling = _LevelsOnServers(program, exact)
            complete, tasks = filling.fill(settings), filling.tasks()
        status = f"optimal ({filling.solves} {'exact ' if exact else ''}programs)"
        if not complete:
            status = "time limit reached" if settings.late else status.replace("optimal", "no answer")
        evidence = HeldLevels(filling.holdings(), prices=filling.prices)
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
        instance, objective = program.instance, program.objective
        assert isinstance(objective, Leximin)
        self.unit = Point(instance, np.zeros((0, 0))).level(objective.share)
        self.per_level = instance.weights * (self.unit / objective.share.coefficients(instance))  # tasks
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
        height, home, fullest = self._start(settings)
        first = self._program(height, rising, fixed)
        first.start_at(home, fullest)
        program: LevelProgram | ExactProgram = first
        if self.exact:
            if settings.late or not first.solve(settings.left()):
                return False
            program = self._exact(first, *self._asked(rising, fixed))
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
            if isinstance(program, LevelProgram) and level > FAR * height:
                height, before, self.columns = level, program, program.columns
                program = self._program(height, rising, fixed)
                program.close(before.closed)
                program.highs.setBasis(before.highs.getBasis())
            else:
                changed = np.unique(self.group[stopped])
                rates, bases = self._asked(rising, fixed)
                program.ask(changed, rates[changed], bases[changed])
        return True

    def _program(self, height: float, rising: Bool, fixed: Float) -> LevelProgram:
        """The program for rising users and the fixed tasks of the others, in units of what groups hold at a height."""
        wanted = np.where(rising, np.maximum(self.low, np.minimum(self.limit, height * self.rate)), fixed)
        sums = (self._sum(wanted), *self._asked(rising, fixed), self._sum(self.low))
        unit, rates, bases, low = (np.asarray(by_group, dtype=float) for by_group in sums)
        return LevelProgram(
            self.loads, self.pair_group, self.columns, self.program.usable_rows, unit, rates, bases, low
        )

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

    def _start(self, settings: Settings) -> tuple[float, Int, int]:
        """A level that all can reach without limits, a pair for each group to begin with, and the fullest row.

        Each group begins on one server, drawn at random in proportion to its parts. The first program on 1,000 users
        and 27 servers then took a fifth of the time from scratch; in proportion to the servers' sizes, two thirds.
        """
        rates = np.asarray(self._sum(self.rate), dtype=float)
        by_server = self._parts(rates, settings)
        self.kept = by_server[self.pairs.user, self.pairs.server] > 0
        group, parts = self.pairs.user[self.kept], by_server[self.pairs.user, self.pairs.server][self.kept]
        self.shut = np.zeros(len(group), dtype=bool)
        self.pair_group, self.loads = group, sp.csc_array(self.pairs.loads[:, self.kept])
        usable = np.where(self.program.usable_rows > 0, self.program.usable_rows, np.inf)
        spread = self.loads @ (rates[group] * parts / np.bincount(group, parts)[group])
        draws = -np.log(-np.log(np.random.default_rng(0).random(len(group))))  # Gumbel: the largest sum is a draw
        order = np.lexsort((np.log(parts) + draws, group))
        last = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)  # pairs of a group are in a row
        home = order[last]
        few = int(np.ceil(COLUMNS * (1.0 + self.program.instance.n_servers / len(self.models))))
        self.columns = np.sort(order[last[group] - np.arange(len(group)) < few])
        held = np.zeros(len(group))
        held[home] = rates
        return 1.0 / float((spread / usable).max()), home, int((self.loads @ held / usable).argmax())

    def _parts(self, rates: Float, settings: Settings) -> Float:
        """About how groups spread over servers at the max-min level without limits, positive where they may run."""
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

    def _costs(self, prices: Float) -> tuple[Float, Float]:
        """The cost of a task by pair, infinite where it is shut; and the least cost of each group."""
        by_pair = np.where(self.shut, np.inf, np.asarray(self.loads.T @ prices).ravel())
        cheapest = np.full(len(self.models), np.inf)
        np.minimum.at(cheapest, self.pair_group, by_pair)
        return by_pair, cheapest

    def holdings(self) -> list[Holding]:
        """The users held by the prices of each level."""
        return [Holding(np.flatnonzero(self.held_at == k), prices) for k, prices in enumerate(self.levels)]

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


def _fractions(values: Float) -> Float:
    """Exactly these numbers, as fractions but for infinite ones."""
    return np.array([Fraction(v) if np.isfinite(v) else v for v in values.tolist()], dtype=object)


class LevelProgram:
    """Maximise z where each group holds at least ``bases + rates z``, and never less than ``low``, all of (n_groups,).

    ``loads`` (n_rows, n_pairs) is the fraction of each capacity that a unit of each pair takes, ``usable`` (n_rows,)
    what may be used of it. ``group`` (n_pairs,) is ascending. ``columns`` are the pairs to begin with; others are added
    when prices ask for them. ``unit`` (n_groups,) is about what each group will hold: the unit of its rows, so that
    tolerances are relative.
    """

    def __init__(
        self, loads: sp.csc_array, group: Int, columns: Int, usable: Float, unit: Float, rates: Float, bases: Float,
        low: Float,
    ) -> None:  # fmt: skip
        import highspy  # comes with CVXPY, and takes a quarter of a second to import

        self.unit, self.group, self.columns = unit, group, columns
        self.n_rows, n_pairs, n_groups = len(usable), len(group), len(unit)
        self.floored = np.flatnonzero(low > 0)
        totals = sp.csr_array((np.ones(n_pairs), (group, np.arange(n_pairs))), shape=(n_groups, n_pairs))
        per_unit = loads @ sp.diags_array(unit[group])
        self.matrix = sp.vstack([per_unit, totals, totals[self.floored]], format="csc")
        model = highspy.HighsLp()
        n_all = self.matrix.shape[0]
        model.num_row_, model.num_col_ = n_all, 1
        model.col_cost_ = np.full(1, -float(n_groups))  # so that the payment of a group is near 1
        model.col_lower_, model.col_upper_ = np.zeros(1), np.full(1, np.inf)
        model.row_lower_ = np.concatenate([np.full(self.n_rows, -np.inf), bases / unit, (low / unit)[self.floored]])
        model.row_upper_ = np.concatenate([usable, np.full(n_all - self.n_rows, np.inf)])
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_, model.a_matrix_.index_ = [0, n_groups], self.n_rows + np.arange(n_groups)
        model.a_matrix_.value_ = -rates / unit
        self.highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        options: dict[str, Any] = {
            "output_flag": False, "solver": "simplex", "simplex_strategy": PRIMAL, "parallel": "off",
            "small_matrix_value": SMALLEST, "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        }  # fmt: skip
        for name, value in options.items():
            self.highs.setOptionValue(name, value)
        self.highs.passModel(model)
        self.closed: Int = np.zeros(0, dtype=np.intp)
        self._add(columns)

    def _add(self, columns: Int) -> None:
        """Add columns; HiGHS refuses them all if a number is beyond 1e15, and then `_run` finds nothing."""
        part, n = self.matrix[:, columns], len(columns)
        self.highs.addCols(
            n, np.zeros(n), np.zeros(n), np.full(n, np.inf), part.nnz, part.indptr[:-1].astype(np.int32),
            part.indices.astype(np.int32), part.data,
        )  # fmt: skip

    def close(self, pairs: Int) -> None:
        """Let pairs hold nothing from now on."""
        self.closed = np.union1d(self.closed, pairs)
        columns = 1 + np.flatnonzero(np.isin(self.columns, pairs)).astype(np.int32)  # the level is the first column
        if len(columns):
            self.highs.changeColsBounds(len(columns), columns, np.zeros(len(columns)), np.zeros(len(columns)))

    def start_at(self, home: Int, fullest: int) -> None:
        """Begin where each group holds only its pair of ``home``; as z rises, the row ``fullest`` is full first."""
        from highspy import HighsBasis, HighsBasisStatus

        lower, basic = HighsBasisStatus.kLower, HighsBasisStatus.kBasic
        chosen = np.isin(self.columns, home).tolist()
        rows = [basic] * self.n_rows + [lower] * len(self.unit) + [basic] * len(self.floored)
        rows[fullest] = HighsBasisStatus.kUpper
        basis = HighsBasis()
        basis.col_status, basis.row_status = [basic, *(basic if at_home else lower for at_home in chosen)], rows
        basis.valid = True
        self.highs.setBasis(basis)

    def basic(self) -> Basic:
        """The last basis."""
        from highspy import HighsBasisStatus

        basis = self.highs.getBasis()
        status = (basis.row_status, basis.col_status)
        rows, columns = (np.array([one == HighsBasisStatus.kBasic for one in by]) for by in status)
        return Basic(bool(columns[0]), np.flatnonzero(rows), self.columns[columns[1:]])

    def ask(self, groups: Int, rates: Float, bases: Float) -> None:
        """Change what some groups must hold to ``bases + rates z``."""
        rows, unit = self.n_rows + groups, self.unit[groups]
        for row, rate in zip(rows.tolist(), (rates / unit).tolist(), strict=True):
            self.highs.changeCoeff(row, 0, -rate)
        self.highs.changeRowsBounds(len(rows), rows.astype(np.int32), bases / unit, np.full(len(rows), np.inf))

    def solve(self, seconds: float | None = None) -> LevelOptimum | None:
        """The optimum within some seconds, from the last basis; None if HiGHS finds none."""
        deadline = None if seconds is None else time.perf_counter() + seconds
        while self._run(deadline):
            solution = self.highs.getSolution()
            values, duals = np.array(solution.col_value), np.array(solution.row_dual)
            more = self._worth_adding(duals)
            if not len(more):
                amounts = np.zeros(len(self.group))
                amounts[self.columns] = np.maximum(values[1:], 0.0) * self.unit[self.group[self.columns]]
                prices = np.maximum(-duals[: self.n_rows], 0.0) / len(self.unit)
                return LevelOptimum(float(values[0]), amounts, prices)
            self._add(more)
            self.columns = np.concatenate([self.columns, more])
        return None

    def _run(self, deadline: float | None) -> bool:
        """Whether HiGHS finds an optimum with the present columns."""
        from highspy import HighsModelStatus

        highs = self.highs
        for strategy in (PRIMAL, DUAL):
            if deadline is not None:
                highs.setOptionValue("time_limit", highs.getRunTime() + max(deadline - time.perf_counter(), 0.0))
            highs.setOptionValue("simplex_strategy", strategy)
            highs.run()
            status, found = highs.getModelStatus(), highs.getSolution()
            there = found.value_valid and found.dual_valid and len(found.col_value) == len(self.columns) + 1
            if status == HighsModelStatus.kOptimal and there:
                return True
            if strategy == PRIMAL:
                highs.clearSolver()
        return bool(status == HighsModelStatus.kUnknown and there)  # nearly optimal: the certificate decides

    def _worth_adding(self, duals: Float) -> Int:
        """The cheapest few pairs of each group among those that cost less than the group pays."""
        if len(self.columns) == len(self.group):
            return np.zeros(0, dtype=np.intp)
        gain = self.matrix.T @ duals  # payment minus cost
        gain[self.columns] = gain[self.closed] = 0.0
        paid = np.maximum(duals[self.n_rows :][: len(self.unit)], 0.0)
        np.add.at(paid, self.floored, np.maximum(duals[self.n_rows + len(self.unit) :], 0.0))
        worth = np.flatnonzero(gain > TIED * paid[self.group])
        order = worth[np.lexsort((-gain[worth], self.group[worth]))]
        begins = np.searchsorted(self.group[order], self.group[order])
        return order[np.arange(len(order)) - begins < MORE]
