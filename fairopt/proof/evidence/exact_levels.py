"""Leximin of users proved in fractions, where rounding may move later levels (Proposition 5.17).

For a feasible point x with levels z, prices p >= 0 and multipliers y of further rows, in fractions,

    p'u + y'b  =  sum_j v_j z_j   exactly,   v_j = min_s (p'd_js + (A'y)_js) w_j / c_j,

prove the levels of users with v_j > 0 that are at least those that p fixes: no tolerance, and so nothing that a later
level could multiply. If every user is proved, or at its limit, z is the leximin optimum (Proposition 5.17,
docs/methods/servers.md). The gap of other tasks, as those of the same point in floats, is how far their levels are from
these. In floats the same equation holds to 1e-16 of p'u, which may be all that a later level is.

What is exact is the program in floats: decimals such as 0.1 are taken as the floats that the instance holds, and
numbers of constraints that were rounded on the way are assumed to be right. Rows that bound each bundle by another's
may contradict each other by such rounding and leave zeros only; zeros beside them are not proved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fairopt.blocks.constraints import MaxTasks, MinTasks, Reserve
from fairopt.errors import OutOfDomain
from fairopt.proof import feasibility as conditions
from fairopt.proof.entries import Named, price_rows, priced
from fairopt.proof.proposal import Evidence, Measured, Reader
from fairopt.runtime.arrays import Float
from fairopt.solve.form.program import Program

Entry = tuple[int, int, str]
Place = tuple[int, int]  # a server and a resource
Amounts = dict[tuple[int, int], Fraction]  # by user and server
Prices = dict[Place, Fraction]
Charges = dict[int, Fraction]  # multipliers of further rows, by row


class _NotProved(Exception):
    """What the numbers do not satisfy."""


def rounded_condition(program: Program) -> str:
    """A condition whose numbers are rounded to the floats of a program; empty if there is none."""
    for c in program.constraints:
        exact = type(c) in (MinTasks, MaxTasks)
        if type(c) is Reserve:
            exact = Fraction(1 - c.fraction) == 1 - Fraction(c.fraction)
        if not exact:
            return str(c)
    return "the guarantees of teams" if program.rows.further_in_fractions() else ""


@dataclass(frozen=True)
class ExactData:
    """A program of leximin of users in fractions.

    ``loads`` are the units of each row that a task of a pair takes, ``per_task`` the level of a task by user.
    ``further`` are linear constraints: coefficients by pair, right side, and whether it is an equation.
    """

    loads: dict[tuple[int, int], Prices]
    usable: Prices
    per_task: dict[int, Fraction]
    low: list[Fraction]
    high: list[Fraction | None]
    further: list[tuple[Amounts, Fraction, bool]]

    @classmethod
    def of(cls, program: Program) -> ExactData:
        """The data of a program; `_NotProved` if a coefficient of its share is not known as a fraction."""
        instance = program.instance.derived.of_floats()
        exact = instance.in_fractions
        try:
            c = program.term.share.enclosed(instance, as_floats=True)
        except OutOfDomain as error:
            raise _NotProved(str(error)) from error
        loads, per_task = dict[tuple[int, int], Prices](), dict[int, Fraction]()
        for j, s in np.argwhere(instance.eligible).tolist():
            per_task.setdefault(j, c[j][s].low / exact.weights[j])  # the same on all servers (`ExactLevels.applies`)
            loads[j, s] = {(s, i): d for i, d in enumerate(exact.per_server_demands[j, s]) if d}
        room = exact.capacities * exact.counts[:, None] * np.array([Fraction(float(x)) for x in program.usable])
        usable = {(s, i): units for s, row in enumerate(room) for i, units in enumerate(row)}
        # bounds and reserves of a program are floats already; `rounded_condition` says whose
        high = [None if x == np.inf else Fraction(float(x)) for x in program.high]
        low = [Fraction(float(x)) for x in program.low]
        return cls(loads, usable, per_task, low, high, program.rows.further_in_fractions())

    def levels(self, amounts: Amounts) -> dict[int, Fraction]:
        """Users' levels."""
        total = dict.fromkeys(self.per_task, Fraction(0))
        for (j, _), x in amounts.items():
            total[j] += x
        return {j: x * self.per_task[j] for j, x in total.items()}

    def require_feasible(self, amounts: Amounts) -> None:
        """`_NotProved` unless the amounts satisfy all constraints exactly."""
        if any(x < 0 for x in amounts.values()) or not amounts.keys() <= self.loads.keys():
            raise _NotProved("negative tasks, or tasks where a user may not run")
        used, total = dict.fromkeys(self.usable, Fraction(0)), dict.fromkeys(self.per_task, Fraction(0))
        for (j, s), x in amounts.items():
            total[j] += x
            for row, d in self.loads[j, s].items():
                used[row] += d * x
        if any(units > self.usable[row] for row, units in used.items()):
            raise _NotProved("a capacity is exceeded")
        for of_row, right, equal in self.further:
            held = sum((v * amounts.get(pair, Fraction(0)) for pair, v in of_row.items()), Fraction(0))
            if held > right or (equal and held < right):
                raise _NotProved("a constraint is not kept")
        for j, x in total.items():
            if x < self.low[j] or ((high := self.high[j]) is not None and x > high):
                raise _NotProved("a bound on tasks is not kept")

    def fixed_by(self, prices: Prices, charges: Charges, levels: dict[int, Fraction]) -> set[int]:
        """The users who cannot rise while those with less keep their levels, by Proposition 5.7.

        Users whose tasks cost less than nothing, as they hold what a row requires, must be at their limits.
        """
        if any(p < 0 for p in prices.values()) or not prices.keys() <= self.usable.keys():
            raise _NotProved("negative prices, or prices of no row")
        if any(k not in range(len(self.further)) or (y < 0 and not self.further[k][2]) for k, y in charges.items()):
            raise _NotProved("negative multipliers, or multipliers of no row")
        of_pairs, cost = Amounts(), dict[int, Fraction]()
        for k, y in charges.items():
            for at, v in self.further[k][0].items():
                of_pairs[at] = of_pairs.get(at, Fraction(0)) + v * y
        for (j, s), load in self.loads.items():
            unit = sum((d * prices.get(row, Fraction(0)) for row, d in load.items()), of_pairs.get((j, s), Fraction(0)))
            unit /= self.per_task[j]
            cost[j] = min(cost[j], unit) if j in cost else unit
        # p'u + y'b, against sum_j v_j z_j below
        worth = sum((p * self.usable[row] for row, p in prices.items()), Fraction(0))
        worth += sum((y * self.further[k][1] for k, y in charges.items()), Fraction(0))
        # equality in fractions: prices of another point, or of the same one in floats, prove nothing
        if worth != sum((v * levels[j] for j, v in cost.items()), Fraction(0)):
            raise _NotProved("prices do not fix the levels")
        for j, v in cost.items():
            if v < 0 and ((high := self.high[j]) is None or levels[j] < high * self.per_task[j]):
                raise _NotProved("prices pay a user below its limit")
        paying = {j for j, v in cost.items() if v > 0}
        above = [levels[j] for j in paying if levels[j] > self.low[j] * self.per_task[j]]
        # The least h with sum_k v_k min(z_k, max(low_k, h)) = p'u. It is the floor of those above it, so that prices
        # prove users at h and above, and nobody below.
        reference = max(above, default=Fraction(0))
        return {j for j in paying if levels[j] >= reference}

    def proved_levels(self, amounts: Amounts, duals: Sequence[tuple[Prices, Charges]]) -> dict[int, Fraction]:
        """The levels of an exact point, proved to be leximin; `_NotProved` if the numbers do not prove it."""
        self.require_feasible(amounts)
        levels, proved = self.levels(amounts), set[int]()
        for prices, charges in duals:
            proved |= self.fixed_by(prices, charges, levels)
        for j in levels.keys() - proved:
            high = self.high[j]
            if high is None or levels[j] < high * self.per_task[j]:
                raise _NotProved("no prices fix a user below its limit")
        return levels


def distance(program: Program, data: ExactData, levels: dict[int, Fraction], tasks: Float) -> float:
    """The largest relative difference of the levels of tasks by pair from exact levels."""
    pairs = zip(program.pairs.user.tolist(), program.pairs.server.tolist(), tasks.tolist(), strict=True)
    own = data.levels({(j, s): Fraction(x) for j, s, x in pairs if x and j in levels})
    # a level that should be 0 is off by all of itself
    apart = [abs(own[j] - z) / z if z else Fraction(own[j] > 0) for j, z in levels.items()]
    return float(max(apart, default=Fraction(0)))


@dataclass(frozen=True)
class ExactLevels(Evidence):
    """Fractions as text: ``point`` by user and server, and for each of the ``levels`` the ``prices`` of units by server
    and resource, multipliers of further ``rows`` in the order of `ProgramRows.further`, and the prices ``of_numbers``,
    of users' levels, that the checker reads too.

    The gap is the largest relative difference of a user's level from the exact one, above or below. ``prices``
    (n_rows,) are the derivatives of the max-min level by each row. Bounds and rows other than numbers of tasks are
    rounded to floats before they are fractions, which the certificate assumes.
    """

    point: Sequence[Entry]
    levels: Sequence[Mapping[str, Any]]
    prices: Float | None = None

    kind = "exact levels"

    @property
    def by_level(self) -> bool:
        return True

    def applies(self, program: Program) -> bool:
        if program.empty or not (program.term.is_order and program.of_users):
            return False
        if any(program.rows_of(block) is None for block in program.rest):
            return False
        return program.term.share.coefficients(program.instance).ndim == 1

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        prices = None if self.prices is None else program.term.factor * self.prices
        rounded = rounded_condition(program)
        try:
            data = ExactData.of(program)
            duals = [
                (_fractions(one.get("prices", ())), {int(k): Fraction(y) for k, y in one.get("rows", ())})
                for one in self.levels
            ]
            exact = data.proved_levels(_fractions(self.point), duals)
            # Envy in a circle bounds each bundle by the next. Where all must be equal, rounding of one ratio makes
            # zeros the only point: x_1 <= r_12 x_2 <= r_12 r_21 x_1 with a product below 1. Rows with another right
            # side than 0, such as a least total, have no such circles.
            ratios = any(
                not right and min(row.values()) < 0 < max(row.values()) for row, right, _ in data.further if row
            )
            if rounded and ratios and not all(exact.values()):
                raise _NotProved("a level is 0, perhaps since rounded rows contradict each other")
            gap = distance(program, data, exact, tasks)
        except _NotProved:
            gap = np.inf
        violation = conditions.violation_at(program, tasks)
        assumed = f"the numbers of {rounded} are right as rounded" if rounded else ""
        return Measured(tasks, gap, violation, prices, assumed, (gap,) * max(len(self.levels), 1))

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        """By users and servers of the instance as given; identical servers share what the one for them has."""
        if rounded := rounded_condition(program):
            raise ValueError(f"rounding decides its levels, and the numbers of {rounded} are rounded")
        rows, users = _rows_of(program), program.active.tolist()
        point = [[users[j], s, str(Fraction(x) * part)] for j, of, x in self.point for s, part in rows[of]]
        levels = []
        for level in self.levels:
            prices = [[s, i, p] for of, i, p in level.get("prices", ()) for s, _ in rows[of]]
            levels.append({"of_numbers": level.get("of_numbers", {})} | ({"prices": prices} if prices else {}))
        held = {"kind": self.kind, "point": point, "levels": levels}
        return held if self.prices is None else held | priced(program, self.prices)

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        index = {user: j for j, user in enumerate(program.active.tolist())}
        first = {rows[0][0]: of for of, rows in enumerate(_rows_of(program))}
        of_row = {s: of for of, rows in enumerate(_rows_of(program)) for s, _ in rows}
        point = dict[tuple[int, int], Fraction]()
        for j, s, x in held["point"]:
            pair = index[int(j)], of_row[int(s)]
            point[pair] = point.get(pair, Fraction(0)) + Fraction(str(x))
        levels = []
        for level in held["levels"]:
            given = [(first[s], int(i), str(Fraction(str(p)))) for s, i, p in level.get("prices", ()) if s in first]
            levels.append({"of_numbers": dict(level["of_numbers"]), "prices": given})
        prices = price_rows(program, held) if "prices" in held else None
        return cls([(j, s, str(x)) for (j, s), x in point.items()], levels, prices)


def _rows_of(program: Program) -> list[list[tuple[int, Fraction]]]:
    """The servers of the instance as given that each server of a program stands for, and their parts of its tasks."""
    if not program.merge:
        return [[(s, Fraction(1))] for s in range(program.instance.n_servers)]
    classes, counts = program.unmerged.derived.server_classes.tolist(), program.given.counts.tolist()
    rows = [[s for s, k in enumerate(classes) if k == of] for of in range(program.instance.n_servers)]
    return [[(s, Fraction(counts[s], sum(counts[t] for t in mine))) for s in mine] for mine in rows]


def _fractions(entries: Sequence[Entry]) -> dict[tuple[int, int], Fraction]:
    return {(a, b): Fraction(value) for a, b, value in entries}
