"""Blocks and an instance prepared for solving: active users, merged servers, combined bounds.

With tasks x by (user, server) pair, loads A (rows of server and resource, per whole capacity, by pair), and the sums of
a user's pairs, a program is

    max f(x)   subject to   A x <= usable,    low_j <= sum_s x_js <= high_j,    rest,    x >= 0.

Constraints that are bounds on each user's tasks, or on the usable fraction of resources, become `low`, `high` and
`usable` (Proposition 1.5, docs/methods/instance.md); the others stay in `rest`, as rows if blocks have them. Methods
for pools read the former only, so that a bound by a constraint costs no more than one of the instance.

`ConeModel` is the program for cone solvers, in unknowns ``x / units`` near 1 and with rows near 1: their tolerances are
absolute, or relative to the largest number, so that in tasks a user of 1e-6 tasks beside one of 1e6 would be noise.
The objective is divided by its slope (`_scale`): 1e8 times the sum of three users' square roots had a gap of 1e-8
without, and of 5e-12 with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import AtLeast, Natural, Slope, varying_of
from fairopt.blocks.base import (
    Block,
    blocks_within,
    brief,
    call_block,
    is_ours,
    refuse_unknown_numbers,
    refuse_whole_numbers,
)
from fairopt.blocks.constraints import (
    UNNAMED,
    Constraint,
    FixedOnServers,
    MadeRows,
    ManyRows,
    MinShare,
    conditions_in_words,
)
from fairopt.blocks.guarantees import guarantees_of, kept_limits, team_floors
from fairopt.blocks.marginal import Marginal
from fairopt.blocks.model import FAR, Model, Pairs, Point
from fairopt.blocks.normal_form import Term
from fairopt.blocks.objectives import Objective, Total
from fairopt.blocks.rows import Rows
from fairopt.blocks.shares import Share
from fairopt.blocks.table_rows import table_rows
from fairopt.blocks.teams import Surplus, kept_bases
from fairopt.errors import Infeasible, InvalidBlock, NotConcave, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.instance.validation import distinct
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp, later, sp
from fairopt.runtime.tolerances import NOISE, ROUNDING, TINY
from fairopt.solve.form import solvers
from fairopt.solve.form.affine import affine_slopes
from fairopt.solve.form.compiled import Left
from fairopt.solve.form.digests import NewConditions
from fairopt.solve.form.program_rows import BlockRows, ProgramRows, rows_of

CHUNK = 16_384  # users
RISES = 1e-8  # of what a number could be alone: less is no rise

# `warn_of_loops` replaces this warning by one that names the block and the fix
warnings.filterwarnings("ignore", ".* contains too many subexpressions", UserWarning, module=r"fairopt\.")


class Program:
    """An objective and constraints on an instance as a program in the tasks of `Pairs`.

    With ``merge`` identical servers are solved as one row with a count. `Infeasible` if a constraint requires tasks of
    a user whose task limit is 0, or limits of 0 leave too little for guarantees.

    ``low`` and ``high`` (n_users,) bound tasks, ``usable`` (n_resources,) are fractions of capacities, and ``rest`` are
    the other constraints. ``given`` is the instance of all users, ``instance`` that of those who take part. If
    ``nobody_rises`` above the base of a surplus, the objective is of nobody, and its value 0.
    """

    def __init__(
        self, instance: Instance, objective: Objective, constraints: Sequence[Constraint], merge: bool = True
    ) -> None:
        self.given, self.objective = instance, objective
        # a program made from the constraints of another has them already
        self.constraints = (*constraints, *(block for block in self.implied() if block not in constraints))
        later("fairopt.solve.unfit_guarantees:refuse_closed")(instance)
        takes_part = instance.task_limits > 0
        self.all_take_part = bool(takes_part.all())
        self.unmerged = instance if self.all_take_part else taking_part(instance, self.active)
        self.merge = merge and servers_symmetric(self.unmerged, (objective, *self.constraints))
        self.instance = self.unmerged.merged() if self.merge else self.unmerged
        self.single = self.instance.n_servers == 1  # server row: one pool, or identical servers
        self.empty = self.instance.n_users == 0
        self.low: Float = np.broadcast_to(np.float64(0.0), (self.instance.n_users,))
        self.high: Float = self.instance.task_limits
        self.usable: Float = np.ones(self.instance.n_resources)
        self.rest: list[Constraint] = []
        self.nobody_rises = False
        self.before: Float | None = None  # tasks by pair of the tier before
        self._rows: dict[int, list[BlockRows] | None] = {}
        self.read_blocks()

    def implied(self) -> tuple[Constraint, ...]:
        """The constraints that follow from the instance and the objective: guarantees, limits, and bases."""
        return (*guarantees_of(self.given), *kept_limits(self.given), *kept_bases(self.objective))

    def read_blocks(self) -> None:
        """Check the blocks, and combine constraints that are bounds into `low`, `high` and `usable`."""
        idle = None if self.all_take_part else taking_part(self.given, self.given.task_limits <= 0)
        for constraint in self.constraints:
            constraint.check(self.instance)
            bounds, usable = constraint.bounds(self.instance), constraint.usable(self.instance)
            if bounds is not None:
                if idle is not None and not isinstance(constraint, AtLeast):  # objectives exclude users of limit 0
                    _refuse_impossible(constraint, idle)
                # one number for all stays an array of stride 0, of which a million users take no memory
                if not is_common(bounds[0], 0.0):
                    self.low = bounds[0] if is_common(self.low, 0.0) else np.maximum(self.low, bounds[0])
                if not is_common(bounds[1], np.inf):
                    self.high = np.minimum(self.high, bounds[1])
            elif usable is not None:
                self.usable = np.minimum(self.usable, usable)
            else:
                if idle is not None and isinstance(constraint, MinShare):
                    _refuse_impossible(constraint, idle)
                self.rest.append(constraint)
        # on one pool methods check a share that is compared between users in their passes
        in_passes = self.pool_share is not None and self.term.kind.levels_users
        if not (in_passes or self.is_above_base):
            self.objective.check(self.instance)
        if not (self.of_users or self.empty):
            # it needs the bounds that were read above, and what was cached of the objective before is another's
            before, self.objective = self.objective, later("fairopt.solve.form.rising:of_those_who_rise")(self)
            self.nobody_rises = isinstance(self.objective, Total) and self.objective is not before
            self.__dict__.pop("of_users")
            self.__dict__.pop("term", None)

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
        """Which users of one pool can rise above their lower bounds, shape (n_users,).

        Who leaves an objective does not hang on the order of a sum, which differs by kernel of BLAS, and is the same to
        the checker: what is left of a resource is counted in fractions where rounding would decide if it is full.
        """
        everyone = np.broadcast_to(True, self.low.shape)
        room: Bool = everyone if self.unlimited else self.high > self.low * (1 + NOISE)
        left = np.maximum(self.usable - self.least_load, 0.0)
        for i in np.flatnonzero(np.abs(left - NOISE * self.usable) < ROUNDING * self.usable).tolist():
            of_users = zip(self.instance.per_server_demands[:, 0, i].tolist(), self.low.tolist(), strict=True)
            load = sum(Fraction(demand) * Fraction(tasks) for demand, tasks in of_users)
            left[i] = float(Fraction(self.usable[i]) - load / Fraction(self.whole_capacities[0, i]))
        full = left <= NOISE * self.usable
        if full.any():  # up to rounding, which may leave enough for those who need little
            needed = self.instance.per_server_demands[:, 0, full] * (RISES * self.most)[:, None]
            room = room & ~(left[full] * self.whole_capacities[0][full] < needed).any(axis=1)
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

    @property
    def decides_tasks(self) -> bool:
        """Whether tasks are unknowns, and do not only follow from bundles."""
        return True

    @property
    def pool_share(self) -> Share | None:
        """The share of the only term, if methods for one pool solve it and all constraints are bounds; else None."""
        if not self.single or self.rest:
            return None
        return self.term.share if self.term.is_simple and self.of_users else None

    @cached_property
    def of_users(self) -> bool:
        """Whether the objective is of shares of users, not of teams or above a base."""
        return all(share._is_plain for share in self.objective.share_blocks())

    @property
    def is_above_base(self) -> bool:
        """Whether methods for one pool solve it above a base: all shares are surpluses of users above the same one."""
        if not self.single or self.rest or self.of_users:
            return False
        shares = self.objective.share_blocks()
        bases = [share.base for share in shares if isinstance(share, Surplus) and share.share._is_plain]
        return len(bases) == len(shares) and bases.count(bases[0]) == len(bases)

    @cached_property
    def term(self) -> Term:
        """The only term of the objective, or of its first tier; `Several` for a sum."""
        return self.objective.term

    @cached_property
    def marginal(self) -> Marginal | None:
        """The derivatives of the objective by the tasks of each user, if it is a sum over users."""
        given, n = self.objective.by_user(self.instance), self.instance.n_users
        if given is None or all(is_ours(t) for _, t in self.objective.summands()):
            return given
        if not isinstance(given, Marginal):
            raise InvalidBlock(f"{self.objective}.by_user gave {brief(given)}; give a fairopt.blocks.Marginal, or None")
        for name in ("slope", "curvature"):
            shape = np.shape(getattr(given, name)(np.ones(n)))
            if shape != (n,):
                raise InvalidBlock(
                    f"{self.objective}.by_user: `{name}` gave shape {shape} for tasks of shape ({n},); give a number "
                    "for each user, as 0 * x + 1"
                )
        return given

    def refuse_infinite_objective(self) -> None:
        """`OutOfDomain` if the objective is minus infinity for every allocation, since a user can run no tasks."""
        alpha = self.term.alpha
        if alpha is None or alpha < 1 or not self.of_users:  # of a surplus, those who cannot rise have left
            return
        scarce = self.usable <= 0
        if not scarce.any() and self.high.min(initial=np.inf) > 0 and not self.left_nothing.any():
            return
        demands = self.instance.per_server_demands
        starved = (self.high <= 0) | np.all((demands[:, :, scarce] > 0).any(axis=2), axis=1)
        if not (starved | self.left_nothing).any():
            return
        user = self.instance.users[int(np.flatnonzero(starved | self.left_nothing)[0])]
        what, fix = "constraints leave", "relax them"
        if not starved.any():
            if (self.least_load > self.usable * (1 + ROUNDING)).any():
                later("fairopt.solve.infeasible:explain")(self)
            what, fix = "lower bounds of others, such as guarantees, leave", "lower them, compare Surplus(share)"
        raise OutOfDomain(
            f"the {what} user {user!r} no tasks at all, so {self.objective} is minus infinity for every allocation; "
            f"{fix}, give the user a task limit of 0, or use alpha < 1"
        )

    @cached_property
    def left_nothing(self) -> Bool:
        """Users of one pool to whom the lower bounds of others leave nothing but rounding, shape (n_users,)."""
        if not (self.single and self.low.any()):
            return np.broadcast_to(np.False_, self.low.shape)
        full = self.usable - self.least_load <= ROUNDING * self.usable
        return (self.low <= 0) & (self.instance.per_server_demands[:, 0, full] > 0).any(axis=1)

    @cached_property
    def size(self) -> Float:
        """An estimate of the tasks of each user, the unit of its unknowns, shape (n_users,).

        At least its lower bound, its part of what its team is guaranteed, and of what rows require of several: with
        smaller units solvers reported infeasibility (weights of 1 and 1e12). Weights count as far as the objective
        compares those who have them.
        """
        instance = self.instance
        mu = instance.dominant_shares
        best = np.where(instance.eligible, mu, np.inf).min(axis=1) if mu.ndim == 2 else mu
        weights = self.compared_weights
        size = instance.derived.common_level(best, weights) * weights / best
        at = {j: k for k, j in enumerate(self.active.tolist())} if self.given._given else range(instance.n_users)
        for floor in team_floors(instance).values() if instance.team_guarantees else ():
            for use in floor.uses.values():  # tasks that hold the guarantee, whatever the weights
                for j, _, x in use.tasks:
                    if j in at:  # limits of 0 leave users out whose tasks count in floors
                        size[at[j]] = max(size[at[j]], x)
        for block in filter(is_ours, self.rest):
            for rows in () if isinstance(block, (ManyRows, MadeRows)) else [r.rows for r in self.rows_of(block) or ()]:
                table = sp.coo_array(rows.per_task)
                asks = (table.data < 0) & (rows.right[table.row] < 0)
                row, user = table.row[asks], self.pairs.user[table.col[asks]]
                # an equal part of what a row asks of several users
                part = rows.right[row] / table.data[asks] / np.bincount(row, minlength=1)[row]
                np.maximum.at(size, user, np.minimum(part, self.most[user]))
        return np.minimum(np.maximum(size, self.low), np.where(self.high > 0, self.high, np.inf))

    @cached_property
    def units(self) -> Float:
        """Tasks per unknown of each user in cone programs, (n_users,): `size`; after tiers, of what these leave."""
        return self.size

    @property
    def compared_weights(self) -> Float:
        """The weights of users in the objective: equal in a total, and of teams their equal parts; shape (n_users,)."""
        instance, terms = self.instance, self.objective.terms()
        shares = [term.share for term in terms if term.kind.levels_users]
        if terms and not shares:
            return np.ones(instance.n_users)
        if shares and all(share is not None and share._counts_teams for share in shares):
            return shares[0]._numbers(instance).weights_of_users
        return instance.weights

    @cached_property
    def zero_pairs(self) -> Bool:
        """Pairs forced to zero: they need a resource that may not be used, or rows force them."""
        zero, unusable = np.zeros(len(self.pairs), dtype=bool), self.usable_rows <= 0
        if unusable.any():
            zero |= np.asarray(self.pairs.loads.T @ unusable.astype(float)).ravel() > 0
        for block in self.rest:
            for one in () if isinstance(block, (ManyRows, MadeRows)) else self.rows_of(block) or ():
                zero |= one.rows.zero_pairs
        return zero

    @property
    def many_rows(self) -> list[ManyRows]:
        """The constraints whose violated rows are added lazily."""
        return [block for block in self.rest if isinstance(block, ManyRows)]

    def rows_of(self, block: Constraint) -> list[BlockRows] | None:
        """A constraint as rows in `pairs`; None if it is not given as rows."""
        if id(block) not in self._rows:
            if is_ours(block) or self.all_take_part:
                of_block = self._as_rows(block, self.pairs)
            else:  # rows of all users, without the columns of those with a task limit of 0
                every = Pairs(self.given)
                place = every.index(self.active[self.pairs.user], self.pairs.server)
                of_block = self._as_rows(block, every)
                of_block = of_block and [one._replace(rows=one.rows.of_pairs(place)) for one in of_block]
            self._rows[id(block)] = of_block
        return self._rows[id(block)]

    def _as_rows(self, block: Constraint, pairs: Pairs) -> list[BlockRows] | None:
        """`rows_of`; for a leximin, whose evidence has multipliers of rows, also of conditions that are affine in
        CVXPY.
        """
        known = rows_of(block, pairs)
        if known is None and not is_ours(block) and self.term.is_order:
            return affine_rows(block, pairs)
        return known

    def with_rows(self, made: Mapping[ManyRows, Sequence[int]]) -> Program:
        """The program with only these rows of `many_rows`."""
        chosen = [MadeRows(c, tuple(made[c])) if isinstance(c, ManyRows) else c for c in self.constraints]
        kept = [c for c in chosen if not (isinstance(c, MadeRows) and not c.made)]
        return Program(self.given, self.objective, kept, self.merge)

    def relaxes(self, other: Program) -> bool:
        """Whether this is the other program with fewer constraints."""
        blocks = [c.block if isinstance(c, MadeRows) else c for c in self.constraints]
        same = self.given is other.given and self.objective is other.objective and self.merge == other.merge
        return same and all(any(c is block for c in other.constraints) for block in blocks)

    def expand(self, values: Float) -> Float:
        """Tasks by pair as (n_users, n_servers) of the original instance: spread equally over identical servers."""
        return self.expand_rows(values[:, None] if self.single else self.pairs.table(values))

    def gather(self, values: Float) -> Float:
        """The inverse of `expand`."""
        return self.gather_rows(values)[self.pairs.user, self.pairs.server]

    def expand_rows(self, values: Float) -> Float:
        """Values of shape (n_users, n_servers, ...) on the original instance: spread over identical servers."""
        if self.merge and self.unmerged.n_servers > 1:
            values = self.unmerged.derived.spread(values)
        if self.all_take_part:
            return values
        out = np.zeros((self.given.n_users, *values.shape[1:]))
        out[self.active] = values
        return out

    def gather_rows(self, values: Float) -> Float:
        """The inverse of `expand_rows`."""
        values = values if self.all_take_part else values[self.active]
        merged = self.instance.n_servers < self.unmerged.n_servers
        return self.unmerged.derived.sum_by_class(values) if merged else values

    def expand_prices(self, by_row: Float) -> Float:
        """Prices by row of `Pairs.loads` (per whole capacity) as (n_servers, n_resources) per natural unit."""
        capacity = self.whole_capacities
        natural = np.divide(by_row.reshape(capacity.shape), capacity, out=np.zeros(capacity.shape), where=capacity > 0)
        return natural[self.unmerged.derived.server_classes] if self.merge else natural

    def zero_point(self) -> tuple[Float, Float | None]:
        """Zero tasks, and zero bundles if these are decided."""
        return np.zeros(len(self.pairs)), None

    def point(self, tasks: Float, bundles: Float | None = None, variables: Mapping[str, Float] | None = None) -> Point:
        """Tasks as a point of the solved instance, with the values of blocks' variables, by default their best."""
        written = None if self.objective.is_known and not self._has_own_levels else self.natural
        return Point(self.instance, self.pairs.table(tasks), self._variables_at(variables, tasks), written)

    @cached_property
    def natural(self) -> Natural:
        """What evaluates objectives that are given by expressions at points."""
        return Natural(self.instance, self.pairs, slopes=self._slope_at)

    def _slope_at(self, objective: Objective, tasks: Float, values: Mapping[str, Float]) -> Slope | None:
        """The `Slope` of the objective at tasks by pair and values of variables; None for another, and a transform."""
        if objective != self.objective:
            return None
        units = {key: size for key, value in values.items() if (size := float(np.max(np.abs(value), initial=0.0))) > 0}
        cone = ConeModel(self, units=units)
        form, factor = cone.maximand
        if factor is None:
            return None
        at, typical = tasks / cone.scale, (self.size / self.instance.n_servers)[self.pairs.user] / cone.scale
        slope_of, restore = later("fairopt.proof.slopes:slope_of"), partial(cone.model.own.save, values)
        slope = slope_of(form, cone.all_constraints, cone.unknowns, at, typical, restore)
        return Slope(slope.unit * factor, slope.hidden * factor)

    @cached_property
    def _has_own_levels(self) -> bool:
        """Whether a constraint bounds an objective that is given by an expression."""
        return any(isinstance(block, AtLeast) and not block.objective.is_known for block in self.rest)

    def _variables_at(
        self, variables: Mapping[str, Float] | None, tasks: Float
    ) -> Callable[[], Mapping[str, Float]] | None:
        """What gives the values of blocks' variables at tasks, if they are asked for."""
        if variables is not None:
            return lambda: variables
        if self.objective.is_known:
            return None
        return lambda: ConeModel(self).best_values(tasks)


class ConeModel:
    """A `Program` as CVXPY constraints in unknowns near 1; expressions may depend on the solver, as in `Model`.

    ``units`` are those of blocks' variables, by key; ``seen`` are the tasks by pair of an earlier answer, in whose
    units curved terms are written.
    """

    def __init__(
        self,
        program: Program,
        solver: str | None = None,
        units: Mapping[str, float] | None = None,
        seen: Float | None = None,
    ) -> None:
        self.program = program
        self.box: list[cp.Constraint] = []
        self.known: dict[int, BlockRows] = {}  # rows by the id of their CVXPY constraint
        self.new = NewConditions()
        self.rewritten: set[int] = set()  # ids of constraints that stand for others
        self.given: Model | None = None  # of all users, if a constraint has asked for it
        self.left = Left()  # by a solver
        self.constant = 0.0  # which `maximand` leaves out of the objective
        self.model = self.in_unknowns(solver)
        self.model.own.units.update(units or {})
        if seen is not None:
            self.model.seen = seen / self.scale
        check()
        rows = program.capacity_rows
        check()
        usable = program.usable_rows[rows]
        if self.model.unknowns is self.unknowns:
            self.capacity = table_rows(self.unknowns, program.pairs.loads[rows] * self.scale, usable)
        else:
            self.capacity = self.model.loads[rows] <= usable
        self.bounds: list[tuple[Indices, Float, Float, Float]] = []  # users, units of tasks, least and most of these
        limited = np.flatnonzero(np.isfinite(program.high) & program.decides_tasks)
        users = np.array(program.instance.users, dtype=object)
        if len(limited):
            high = program.high[limited]
            positive = high > 0  # a limit of 0 has no size: the unknown's own unit stands in
            unit = np.where(positive, np.maximum(high, TINY), program.units[limited])
            self.bounds.append((limited, unit, np.full(len(unit), -np.inf), positive.astype(float)))
            totals = program.pairs.totals if len(limited) == len(program.high) else program.pairs.totals[limited]
            of_limits = Rows(totals, high, unit=unit, labels=users[limited])
            self.box.append(self.constraint_of(BlockRows(None, "limits", of_limits)))
        floors = np.flatnonzero(program.low > 0)
        if len(floors):
            low = program.low[floors]
            self.bounds.append((floors, low, np.ones(len(low)), np.full(len(low), np.inf)))
            of_floors = Rows(-program.pairs.totals[floors], -low, labels=users[floors])
            self.box.append(self.constraint_of(BlockRows(None, "floors", of_floors)))
        self.rest: list[tuple[Constraint, str, cp.Constraint]] = []
        for constraint in program.rest:
            check()
            known = program.rows_of(constraint)
            if known is not None:
                self.rest += [(constraint, some.name, self.constraint_of(some)) for some in known]
                continue
            model = self.model if is_ours(constraint) else self.model_as_given()
            conditions = checked_conditions(constraint, model)
            for name, one in conditions.items():
                self.rest.append((constraint, name, written := _without_zero_squares(one)))
                if written is not one:
                    self.rewritten.add(written.id)
            self.rest += [(constraint, one.label or "required", one) for one in self.new.among(self.model.required)]
            self.model.required.clear()  # those of the objective are added later

    def constraint_of(self, some: BlockRows) -> cp.Constraint:
        """Rows as a constraint in the unknowns, registered in `known`."""
        condition = some.rows.constraint(self.model)
        self.known[condition.id] = some
        return condition

    def in_unknowns(self, solver: str | None) -> Model:
        """The model; sets `unknowns` and their `scale`, in tasks by pair."""
        pairs = self.program.pairs
        self.scale = self.program.units[pairs.user]
        self.unknowns = cp.Variable(len(pairs), name="tasks in units", nonneg=True)
        model = Model(self.program.instance, self.unknowns, self.scale, pairs, solver)
        if self.program.units is not self.program.size:
            model.near = (self.program.size / self.program.units)[pairs.user]
        return model

    def within_capacity(self, rows: NDArray[np.int64]) -> list[cp.Constraint]:
        """The constraint that rows of `Pairs.loads` stay within whole capacities."""
        return [self.model.loads[rows] <= 1]

    @property
    def required(self) -> list[cp.Constraint]:
        """Constraints on auxiliary variables of the objective."""
        return self.model.required

    def model_as_given(self) -> Model:
        """The model with all users, including those with a task limit of 0, whose tasks are zero."""
        program, ours = self.program, self.model.pairs
        if program.all_take_part:
            return self.model
        pairs = Pairs(program.given)
        place = pairs.index(program.active[ours.user], ours.server)
        scale = np.ones(len(pairs))
        scale[place] = self.scale
        spread = sp.csr_array((np.ones(len(place)), (place, np.arange(len(place)))), shape=(len(pairs), len(place)))
        model = self.of_all_users(spread @ self.model.unknowns, scale, pairs)
        model.required, model.own = self.model.required, self.model.own
        model.asks_solver = self.given is not None and self.given.asks_solver
        self.given = model
        return model

    def of_all_users(self, tasks: cp.Expression, scale: Float, pairs: Pairs) -> Model:
        """A model of the original instance in the same unknowns."""
        return Model(self.program.given, tasks, scale, pairs, self.model.of_solver)

    @property
    def all_constraints(self) -> list[cp.Constraint]:
        """All constraints of the cone program."""
        return [self.capacity, *self.box, *(condition for _, _, condition in self.rest), *self.model.required]

    def serves(self, solver: str) -> bool:
        """Whether the model can be used for another solver, for which it then is: no block has asked for the solver."""
        models = (self.model, self.given) if self.given is not None else (self.model,)
        if any(model.asks_solver for model in models):
            return False
        for model in models:
            model.of_solver = solver
        return True

    @cached_property
    def maximand(self) -> tuple[cp.Expression, float | None]:
        """The expression that the solver maximises, and natural units per unit of it; see `objective_form`."""
        form, factor, constant = objective_form(self.program.objective, self.model, self.unknowns)
        self.constant = constant
        if factor is not None and self.model.unknowns is self.unknowns:
            (own, _) = form.args  # in natural units
            if {v.id for v in own.variables()} == {self.unknowns.id}:
                self.program.natural.adopt(self.program.objective, own, constant, self.unknowns, self.scale)
        self.model.required[:] = self.new.among(self.model.required)
        return form, factor

    @cached_property
    def natural(self) -> cp.Expression:
        """The objective in natural units without constants; conditions that it requires are those of `maximand`."""
        before = len(self.model.required)
        form, _ = varying_of(self.program.objective, self.model)
        del self.model.required[before:]
        return form

    def best_values(self, tasks: Float) -> dict[str, Float]:
        """The values of blocks' variables, by key, that maximise the objective at tasks; empty if no solver finds them.

        They are left in the model, with the tasks.
        """
        own = self.model.own
        form = cp.Constant(0.0) if self.program.objective.is_known else self.maximand[0]
        variables = {one.variable.id for one in own.held.values()}
        if not variables:
            return {}
        at = tasks / self.scale
        # tasks are fixed: other constraints say nothing of the variables, and rounding could break them
        some = [c for c in self.all_constraints if variables & {v.id for v in c.variables()}]
        problem = cp.Problem(cp.Maximize(form), [self.unknowns == at, *some])
        solved = (status in solvers.SOLVED for status in solvers.statuses(problem))
        known = any(one and len(own.values()) == len(variables) for one in solved)
        self.unknowns.save_value(np.array(at))
        return own.values() if known else {}

    def tasks(self) -> Float:
        """Tasks by pair of the solver, at least 0."""
        return np.maximum(np.asarray(self.unknowns.value, dtype=float), 0.0) * self.scale


def unique(name: str, names: Iterable[str]) -> str:
    """The name, extended if another has it."""
    taken = names if isinstance(names, (set, dict)) else set(names)  # a copy for each of many names takes seconds
    while name in taken:
        name += " (another)"
    return name


def servers_symmetric(instance: Instance, blocks: Sequence[Block]) -> bool:
    """Whether identical servers can be merged into one row: blocks must treat them alike.

    User-defined shares are evaluated, and objectives with known terms depend on servers through shares only; other
    user-defined blocks may refer to servers by index and prevent merging.
    """
    if instance.n_servers == 1:
        return True
    if any(isinstance(block, FixedOnServers) for block in blocks):
        return False
    own: list[Block] = []
    for block in blocks_within(tuple(blocks)):
        parts = blocks_within(block.share_blocks()) if isinstance(block, Objective) and block.is_known else (block,)
        own += [part for part in parts if not is_ours(part)]
    if not own:
        return True
    classes = instance.derived.server_classes
    first = np.unique(classes, return_index=True)[1]
    for block in own:
        if not isinstance(block, Share):
            return False
        c = block.coefficients(instance)
        if c.ndim == 2 and not np.array_equal(c, c[:, first][:, classes]):
            return False
    return True


def is_common(values: Float, number: float) -> bool:
    """Whether an array repeats this number by a stride of zero."""
    return values.strides == (0,) and bool((values[:1] == number).all())


def require_instance(instance: object) -> None:
    """`InvalidBlock` unless the argument is an `Instance`."""
    if not isinstance(instance, Instance):
        raise InvalidBlock(
            f"this is {type(instance).__name__}, not an instance; give a fairopt.Instance, or fairopt.read(path)"
        )


def checked_conditions(constraint: Constraint, model: Model) -> dict[str, cp.Constraint]:
    """The CVXPY constraints of a block by name, without those that always hold.

    `InvalidBlock` for other objects, `NotConcave` for non-convex constraints, and `Infeasible` for one that never
    holds.
    """
    conditions = call_block(constraint, "constraints", model)
    if not isinstance(conditions, dict):
        raise InvalidBlock(
            f"{constraint}.constraints gave {type(conditions).__name__}; give a dict of conditions by name"
        )
    for name, condition in conditions.items():
        if not isinstance(name, str) or not name:
            raise InvalidBlock(f"{constraint} names a condition {brief(name)}; give a name, as a text")
        if not isinstance(condition, cp.Constraint):
            raise InvalidBlock(f"{constraint} gave {condition!r} under {name!r}; give a cvxpy constraint")
        refuse_whole_numbers(constraint, condition, model.unknowns)
        which = "its condition" if name == UNNAMED else f"its condition {name!r}"
        refuse_unknown_numbers(constraint, condition, which)
        if not condition.is_dcp():
            raise NotConcave(f"{constraint}: {which} is not convex ({condition})")
        if not condition.variables() and not condition.value():
            raise Infeasible(
                f"{conditions_in_words(constraint, [name])} cannot hold, whatever the tasks", (f"`{constraint}`",)
            )
    warn_of_loops(constraint, conditions.values())
    return {name: condition for name, condition in conditions.items() if condition.variables()}


def affine_rows(block: Constraint, pairs: Pairs) -> list[BlockRows] | None:
    """A block's CVXPY conditions as rows; None if one is not affine in the tasks, or has variables of its own."""
    model = Model(pairs.instance, cp.Variable(len(pairs)), pairs=pairs)
    conditions, kinds, out = checked_conditions(block, model), cp.constraints, list[BlockRows]()
    for name, condition in conditions.items():
        if not is_affine(condition, model.unknowns):
            return None
        expression = condition.expr if hasattr(condition, "expr") else condition.args[0]
        model.unknowns.save_value(np.zeros(len(pairs)))
        sign = -1.0 if isinstance(condition, kinds.NonNeg) else 1.0
        (slopes,) = affine_slopes(expression).values()
        per_task = sp.csr_array(slopes.T) * sign
        # a x + at_zero <= 0; an affine function's value at no tasks is its constant
        at_zero = np.ravel(np.asarray(expression.value, dtype=float), order="F") * sign
        out.append(
            BlockRows(block, name, Rows(per_task, -at_zero, equal=isinstance(condition, (kinds.Equality, kinds.Zero))))
        )
    return None if model.required else out


def is_affine(condition: cp.Constraint, unknowns: cp.Variable) -> bool:
    """Whether a condition is linear rows in the unknowns, without other variables."""
    kinds = cp.constraints
    if any(v.id != unknowns.id for v in condition.variables()):
        return False
    if not isinstance(condition, (kinds.Inequality, kinds.NonPos, kinds.NonNeg, kinds.Equality, kinds.Zero)):
        return False
    return bool((condition.expr if hasattr(condition, "expr") else condition.args[0]).is_affine())


def _without_zero_squares(condition: cp.Constraint) -> cp.Constraint:
    """A constraint that a sum of squares is at most 0, as linear equations, since squares have no multipliers there."""
    if not isinstance(condition, cp.constraints.Inequality) or not condition.args[1].is_zero():
        return condition
    roots = _roots(condition.args[0])
    return cp.hstack([cp.vec(root, order="F") for root in roots]) == 0 if roots else condition


def _roots(expression: cp.Expression) -> list[cp.Expression] | None:
    """The arguments of a sum of squares if they are affine; None for other expressions."""
    atoms, args = cp.atoms, expression.args
    if isinstance(expression, (atoms.affine.sum.Sum, atoms.affine.add_expr.AddExpression)):
        parts = [_roots(argument) for argument in args]
        return None if None in parts else [root for part in parts if part for root in part]
    squares = isinstance(expression, atoms.quad_over_lin) and args[1].is_constant()
    squares |= isinstance(expression, cp.atoms.elementwise.power.Power) and expression.p.value == 2
    return [args[0]] if squares and args[0].is_affine() else None


def warn_of_loops(block: Block, parts: Iterable[Any]) -> None:
    """Warn of a user-defined block with so many CVXPY expressions that compiling takes seconds."""
    if all(map(is_ours, blocks_within(block))):
        return
    count = sum(map(cp.utilities.debug_tools.node_count, parts))
    if count >= cp.utilities.debug_tools.MAX_NODES:
        warnings.warn(
            f"{block} makes {count:,} CVXPY expressions, which are slow to compile; write it with vectors instead of "
            "a loop over users, such as cp.sum(cp.log(model.tasks))",
            stacklevel=2,
        )


def _refuse_impossible(constraint: Constraint, idle: Instance) -> None:
    """`Infeasible` if a constraint requires tasks of users whose task limit is 0."""
    bounds = constraint.bounds(idle)  # None if the share differs by server
    if isinstance(constraint, MinShare) and bounds is None:
        of_users = constraint.share._numbers(idle).of_user is None
        least, what = constraint.least(idle) if of_users else np.zeros(idle.n_users), "as the share"
    else:
        least, what = np.zeros(idle.n_users) if bounds is None else bounds[0], "tasks"
    if (least > 0).any():
        j = int(np.flatnonzero(least > 0)[0])
        raise Infeasible(
            f"`{constraint}` requires {least[j]:.4g} {what} of user {idle.users[j]!r}, whose task limit is 0; "
            "raise the limit or leave the user out of the constraint",
            (f"`{constraint}`", "the task limits"),
        )


def objective_form(
    objective: Objective, model: Model, unknowns: cp.Variable
) -> tuple[cp.Expression, float | None, float]:
    """The expression that the solver maximises, natural units per unit of it (None: an increasing transform), and the
    constants that are left out of it.

    `NotConcave` if it does not satisfy CVXPY's rules.
    """
    form = objective.solver_form(model)
    factor, constant = None, 0.0
    if form is None:
        form, constant = varying_of(objective, model)
        refuse_whole_numbers(objective, form, model.unknowns)
        warn_of_loops(objective, [form])
        typical = model.near if model.seen is None else np.maximum(model.seen, model.near / FAR)
        factor = _scale(form, unknowns, typical)
        form = form / factor
    if not _is_concave(objective, form):
        parts = [t for _, t in objective.summands() if not cp.sum(t.expression(model)).is_concave()]
        raise NotConcave(
            f"{(parts or [objective])[0]} is not concave by CVXPY's rules ({form.curvature.lower()}); "
            "write it with concave atoms of increasing arguments, or use another objective"
        )
    return form, factor, constant


def _is_concave(objective: Objective, form: cp.Expression) -> bool:
    """Whether CVXPY's rules find an expression concave; `NotConcave` where they fail, as for matrices of 1e12."""
    try:
        return bool(form.is_concave())
    except (ValueError, ArithmeticError, np.linalg.LinAlgError, cp.error.SolverError) as error:
        raise NotConcave(
            f"{objective}: CVXPY cannot tell whether it is concave ({error}); scale its matrices to numbers near 1, or "
            "write them as sums of squares, such as cp.sum_squares(F @ model.tasks)"
        ) from error


def _scale(form: cp.Expression, unknowns: cp.Variable, typical: Float | float) -> float:
    """The slope of an expression where unknowns are typical; dividing by it makes tolerances of solvers relative.

    If it is not finite there, then at the first of 2, 1/2, 4, 1/4, ... times these where it is.
    """
    slope = 1.0
    for at in (1.0, *(2.0 ** (k * sign) for k in range(1, 20) for sign in (1, -1))):
        values = []
        for part in (at, at * (1.0 - 1e-4)):
            unknowns.save_value(np.full(unknowns.shape, part * typical))
            with np.errstate(all="ignore"):
                values.append(form.value)
        if values[0] is None:  # auxiliary variables
            break
        if np.isfinite(values).all():
            full, near = map(float, values)
            slope = abs(full - near) / 1e-4 or abs(full) or 1.0
            break
    unknowns.save_value(None)
    return slope
