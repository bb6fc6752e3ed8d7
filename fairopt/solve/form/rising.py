"""Users and teams that cannot rise above the base of a surplus, which leave the objective.

With numbers ``z_t = (R x)_t - b_t`` of users or teams above their bases, an objective that levels them has no optimum
with a finite value, or is decided by one of them, if the constraints leave some z_t at 0. On one pool under bounds on
tasks these are the users at their limits, and those who need a resource that the lower bounds fill. Otherwise linear
programs

    max sum_(t in N) rise_t  under  rise_t <= z_t / unit_t,  rise_t <= a small step,  and all constraints

raise as many of those left as they can at once; who rises leaves N, and so on. A step of 1 would raise few at a time,
and a program for each number takes n. In the end the prices y of the last program bound what those left can rise
together, at any prices (Proposition 4.16 of docs/methods/pool.md):

    sum_(t in N) z_t / v_t <= h'y + sum_j max_T T max_s (sum_t R_t,js / v_t - (A'y)_js) - sum_t b_t / v_t.

Floats: whether a rise of 1e-10 is one is not to be seen. What the bound leaves is negligible if it is rounding of its
terms, which are counted, or below 1e-9 of what a number could be alone and 1e-6 of those who rise. Between that and
`RISES` nothing is certain; then everybody stays in the objective, and the certificate decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.blocks.constraints import ManyRows
from fairopt.blocks.model import Point
from fairopt.blocks.numbers import Numbers
from fairopt.blocks.objectives import Objective, Total
from fairopt.blocks.rows import Rows, largest
from fairopt.blocks.shares import Share, best_server
from fairopt.blocks.teams import OfTeam, Rising, Surplus, with_shares
from fairopt.errors import OutOfDomain
from fairopt.instance.validation import distinct
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE, ROUNDING, TERM_ROUNDING
from fairopt.solve.form.program import RISES, Program
from fairopt.solve.form.program_rows import BlockRows

LEAST_STEP = 1e-3  # of what a number could be alone: large beside `RISES`
STARVED = 1e-6  # of what a number could be alone: answers with less are asked whether more is possible


def of_those_who_rise(program: Program) -> Objective:
    """The objective of those who can rise above their base; if nobody can, the total of shares that nobody changes."""
    objective, changed = program.objective, dict[Share, Share]()
    for term in objective.terms():
        share = term.share
        if not isinstance(share, Surplus) or isinstance(share, Rising):
            continue
        compares = term.kind.levels_users
        if not compares and len(objective.terms()) > 1:
            continue
        rises = who_rises(program, share)
        if not compares:  # a total compares nobody, but has no value to measure a gap by if nobody can rise
            if rises is not None and not rises.any():
                return Total(share.share)
            continue
        if rises is None and term.ranks is not None and not term.is_order:  # one who stays would be its smallest
            raise OutOfDomain(
                f"whether all can rise above the base of {share} is not certain: some by less than 1e-8 of what they "
                "could have alone; lower their base a little, or use Leximin"
            )
        if rises is None or distinct(rises).all():
            continue
        if not rises.any():
            return Total(share.share)
        names: tuple[str, ...] | bytes
        if isinstance(share.share, OfTeam):
            names = tuple(name for name, some in zip(share._names(program.instance), rises, strict=True) if not some)
        else:
            out = np.zeros(program.given.n_users, dtype=bool)
            out[program.active] = ~rises
            names = out.tobytes()
        changed[share] = Rising(share.share, share.base, names)
    if not changed:
        return objective
    made: Objective = with_shares(objective, lambda share: changed.get(share, share))
    return made


def names_at_base(program: Program, share: Surplus) -> set[str]:
    """The names of users or teams that cannot rise above the base of a surplus, and have left the objective."""
    every = {*map(str, share._names(program.given))}
    if program.nobody_rises:
        return every
    for one in program.objective.share_blocks():
        if isinstance(one, Rising) and (one.share, one.base) == (share.share, share.base):
            return every - {*map(str, one._names(program.given))}
    return set()


def who_rises(program: Program, share: Surplus) -> Bool | None:
    """Which users or teams of a surplus can rise above their base, shape (n_numbers,); None if that is not certain."""
    of_pool = program.single and not program.rest
    if of_pool and share.share._is_plain:
        room = program.room  # decided in fractions near the threshold
        return room if distinct(room).all() else room | (program.low > share.tasks(program.instance))
    numbers = share._numbers(program.instance)
    c = best_server(numbers.per_task, program.instance)
    if of_pool:
        able = numbers.sums((program.room & (c > 0)).astype(float)) > 0
        return able | (numbers.above(c * program.low) > 0)
    # one point at which all rise is a proof, without a program
    if not program.rest and numbers.of_user is None and _all_fit(program):
        return np.ones(len(numbers), dtype=bool)
    staying = _by_programs(program, numbers, c)
    return None if staying is None else staying.rises


def refuse_starved(program: Program, tasks: Float | None) -> None:
    """`OutOfDomain` if an objective is minus infinity, as the constraints leave a number that it compares nothing.

    Linear programs decide, if some number is nearly 0 at ``tasks``, by pair: an answer that breaks constraints by no
    more than their tolerances may have a little where every feasible one has exactly 0. None: no answer is certified.
    """
    if not program.rest and not distinct(program.low).any():  # nobody has to make room for others
        return
    for term in program.objective.terms():
        share, alpha = term.share, term.alpha
        if share is None or alpha is None or alpha < 1 or isinstance(share, Surplus):  # those who stay left a surplus
            continue
        numbers = share._numbers(program.instance)
        c = best_server(numbers.per_task, program.instance)
        alone = numbers.sums(np.where(c > 0, c * program.most, 0.0))
        if tasks is not None and (_at(program, numbers, tasks) > STARVED * alone).all():
            continue
        staying = _by_programs(program, numbers, c, noise=False)
        if staying is None or staying.rises.all():
            continue
        name = share._names(program.instance)[int(np.argmin(staying.rises))]
        who = "team" if share._counts_teams else "user"
        raise OutOfDomain(
            f"the constraints, such as guarantees, leave {who} {name!r} no tasks at all, so {program.objective} is "
            f"minus infinity for every allocation; relax them, compare Surplus(share), give the {who} task limits of "
            "0, or use alpha < 1"
        )


class Staying(NamedTuple):
    """Who can rise above a base, a mask (n_numbers,), and what proves that the others stay.

    ``raised`` are tasks by pair at which all who rise are above it. ``of_numbers`` (n_numbers,) are prices of the
    numbers of the others, 0 of those who rise; ``prices`` are by row of loads, per whole capacity, and ``further`` the
    multipliers of further rows.
    """

    rises: Bool
    raised: Float
    of_numbers: Float
    prices: Float
    further: list[tuple[BlockRows, Float]]


def who_stays(program: Program, share: Surplus) -> Staying | None:
    """The proof of who stays at the base of a surplus, and who can rise above it; None if none was found."""
    numbers = share._numbers(program.instance)
    return _by_programs(program, numbers, best_server(numbers.per_task, program.instance))


def at_base(program: Program, share: Surplus, tasks: Float) -> Bool:
    """Which numbers of a surplus are at their base at tasks by pair, but for what is tiny beside what they could be."""
    numbers = share._numbers(program.instance)
    c = best_server(numbers.per_task, program.instance)
    stays: Bool = _at(program, numbers, tasks) <= RISES * numbers.sums(np.where(c > 0, c * program.most, 0.0))
    return stays


def _at(program: Program, numbers: Numbers, tasks: Float) -> Float:
    """The numbers at tasks by pair."""
    return numbers.at(Point(program.instance, program.pairs.table(tasks)))


def _all_fit(program: Program) -> bool:
    """Whether the lower bounds, spread in proportion to tasks alone, leave room for every user everywhere."""
    alone = program.instance.tasks_alone
    part = program.low / np.maximum(alone.sum(axis=1), program.low)
    load = program.rows.load(program.pairs.of(alone * part[:, None]))
    needed = np.zeros(len(load), dtype=bool)
    needed[program.capacity_rows] = True
    return bool(
        (program.high > program.low * (1 + NOISE)).all() and (load < program.usable_rows * (1 - NOISE))[needed].all()
    )


def _by_programs(program: Program, numbers: Numbers, c: Float, noise: bool = True) -> Staying | None:
    """Those whom linear programs can raise, if prices prove that the others stay; None if they do not.

    A possible rise of others is negligible if it is rounding, or (with ``noise``) tiny beside those of all who rise.
    """
    with np.errstate(invalid="ignore"):  # 0 tasks of infinitely many
        alone = numbers.sums(np.where(c > 0, c * program.most, 0.0))
    unit = np.where((alone > 0) & np.isfinite(alone), alone, 1.0)
    linear, level = _Linear(program, numbers, unit), unit / numbers.weights
    left, least, prices = np.ones(len(numbers), dtype=bool), np.inf, np.zeros(linear.n_prices)
    points = list[Float]()
    while left.any():
        largest_rises = linear.raised(left)
        if largest_rises is None:
            return None
        tasks, rises, prices = largest_rises
        more = left & (rises > RISES)
        if not more.any():
            bound = linear.most(left, prices)
            tiny = noise and bound <= NOISE and bound * level[left].max() <= GAP_TOLERANCE * least
            if not tiny and bound > ROUNDING * left.sum():
                return None
            break
        points.append(tasks)
        least = min(least, float((rises * level)[more].min()))
        left &= ~more
    # constraints are convex: at the mean of the points all of them rise
    raised = np.mean(points, axis=0) if points else np.zeros(len(program.pairs))
    return Staying(~left, raised, np.where(left, 1.0 / unit, 0.0), *linear.split(prices))


class _Linear:
    """Linear programs over all placements: the largest sum of the rises of some numbers, each at most a step.

    With small steps many numbers rise in one program, and few programs find all that can.
    """

    def __init__(self, program: Program, numbers: Numbers, unit: Float) -> None:
        pairs = program.pairs
        self.program, self.numbers, self.unit = program, numbers, unit
        self.per_task = pairs.of(numbers.per_task) / unit[numbers.of_pairs(pairs.user)]
        self.base = np.zeros(len(numbers)) if numbers.base is None else numbers.base / unit
        self.scale = np.where(program.most > 0, program.most, 1.0)[pairs.user]
        known = [program.rows_of(block) or () for block in program.rest if not isinstance(block, ManyRows)]
        self.blocks: list[BlockRows] = [one for some in known for one in some]
        self.further: list[Rows] = [one.rows for one in self.blocks]
        self.n_prices = len(program.usable_rows) + sum(map(len, self.further))

    def raised(self, some: Bool) -> tuple[Float, Float, Float] | None:
        """The tasks and rises of the largest sum, and the prices of capacities and further rows; None if unsolved."""
        program, pairs, n = self.program, self.program.pairs, len(self.numbers)
        floors, limits = np.flatnonzero(program.low > 0), np.flatnonzero(np.isfinite(program.high))
        rows = [
            Rows(pairs.loads, program.usable_rows),
            *self.further,
            Rows(-pairs.totals[floors], -program.low[floors], unit=self.scale[pairs.first[floors]]),
            Rows(pairs.totals[limits], program.high[limits]),
            Rows(sp.hstack([-pairs.by_number(self.per_task, self.numbers), sp.eye_array(n)]), -self.base, unit=1.0),
        ]
        # an equal part of what they could be alone is about what all can rise by together; smaller is hard to tell from
        # 0
        step = max(1.0 / max(int(some.sum()), 1), LEAST_STEP)
        least, most = (np.repeat(bounds, [len(pairs), n]) for bounds in ((0.0, -1.0), (np.inf, step)))
        optimum = largest(np.append(np.zeros(len(pairs)), some), rows, self.scale, least, most)
        if optimum is None:
            return None
        tasks, rises = optimum.at[: len(pairs)], optimum.at[len(pairs) :]
        return tasks, rises, np.concatenate(optimum.multipliers[: 1 + len(self.further)])

    def most(self, some: Bool, prices: Float) -> float:
        """A bound on the sum of the rises of some numbers, at any prices of capacities and of further rows."""
        program, pairs = self.program, self.program.pairs
        of_rows, rest = np.maximum(prices[: len(program.usable_rows)], 0.0), prices[len(program.usable_rows) :]
        gain = np.where(some[self.numbers.of_pairs(pairs.user)], self.per_task, 0.0)
        cost, parts = program.rows.cost(of_rows), [float(of_rows @ program.usable_rows)]
        size = gain + cost
        for one in self.further:
            of_row, rest = one.valid(rest[: len(one)]), rest[len(one) :]
            charged = one.per_task.T @ of_row
            cost, size = cost + charged, size + np.abs(charged)
            parts.append(float(of_row @ one.right))
        # the largest over servers, rounding of its terms added: a bound has to be above
        best = -pairs.min(-(gain - cost + TERM_ROUNDING * size))
        most = np.where(best > 0, program.most, program.low) * best
        parts += [float(most.sum()), -float(self.base[some].sum())]
        sizes = [abs(part) for part in parts] + [float(np.abs(most).sum())]
        return float(sum(parts) + TERM_ROUNDING * sum(sizes))

    def split(self, prices: Float) -> tuple[Float, list[tuple[BlockRows, Float]]]:
        """Prices of capacities, and valid multipliers of further rows by block."""
        of_rows, *rest = np.split(prices, np.cumsum([len(self.program.usable_rows), *map(len, self.further)])[:-1])
        further = [(block, block.rows.valid(values)) for block, values in zip(self.blocks, rest, strict=True)]
        return np.maximum(of_rows, 0.0), further
