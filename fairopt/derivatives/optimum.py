"""A policy's program at the tasks of an allocation, and the conditions on optimal multipliers there.

What an optimum is in floats is decided here, once for all derivatives: where tasks run, which users are at a bound,
which rows are full. With ``used`` the load of a row and ``usable`` its capacity it is full if
``used >= usable (1 - max(1e-6, 10 tie))``, and a pair has tasks if it has more than 1e-6 of its user's. Why thresholds:
a solver's point satisfies no condition exactly, and multipliers are found by equations on what is active. Why several
(`TIES`): too tight ones miss what is active at points of interior methods, too coarse ones make equal what differs.

The conditions themselves (`OptimalityConditions`) are those of Proposition 10.3 in docs/methods/prices.md, in units in
which all multipliers are near 1, since they are solved together: a price per byte beside one per core would otherwise
be noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import AtLeast, Objective, only_term, tiers_of
from fairopt.blocks.base import is_ours
from fairopt.blocks.model import Point
from fairopt.blocks.normal_form import Term
from fairopt.blocks.shares import Share
from fairopt.derivatives.multipliers import Conditions, Ties, dense, flat, is_sparse, times_columns
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance
from fairopt.proof.feasibility import linear_rows
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.solve.form.program import ConeModel, Program

if TYPE_CHECKING:
    from fairopt.allocation import Allocation


# Relative slack at which a capacity is full and a task limit reached. In 600 answers of all methods full rows
# had a slack of 1e-16 to 1e-6 (interior points on servers), others 1e-4 and more; limits 1e-16 to 1e-7.
FULL = 1e-6
# The part of a user's tasks that counts as 0: at a reduced cost of r interior points leave 1e-10 / r.
USED = 1e-6
# The part of what a user could run alone that counts as 0, under objectives that may leave users with nothing.
NOTHING = 1e-7
LEVELLED_NOTHING = 1e-15  # the same under objectives that level users: lower bounds of others may leave nothing
# Differences of shares, and distances from limits, that count as 0 under objectives that level users. Linear programs
# and water-filling leave 1e-16 to 1e-10; the coarser ones are for points that these do not explain, as after tiers. A
# slack ten times as large then counts as full: at alpha = 5 solvers leave 1e-6 to 1e-4 of what only rich users need.
TIES = (1e-8, 1e-6, 1e-5)

SMALL = 100  # pairs and rows up to which dense matrices are faster
LATE = "the time limit was over"
MOST_COLUMNS = 3000  # multipliers: 3,000 take 10 s


class _NoDerivative(Exception):
    """There is no derivative, or none is known; the message is the reason."""


class Change(NamedTuple):
    """Rates of the data: row capacities (S, m), demands (n, m), log c (n,), log w (n,), and alpha."""

    capacity: Float
    demand: Float
    log_c: Float
    log_w: Float
    alpha: float


class BindingConstraints(NamedTuple):
    """Active constraints besides bounds, linear or linearised at the point.

    ``charges`` (n_constraints, n_pairs) is the cost per task of a unit of each multiplier; ``signed`` are the
    equations. ``known`` says that all constraints are linear or in closed form, ``straight`` that all are linear.
    """

    charges: Any
    signed: Bool
    known: bool
    straight: bool


class Optimum:
    """A policy's program at the tasks of an allocation: users at their bounds, and full capacities.

    Pairs on which no tasks can run are left out: ``user``, ``tasks``, ``reach`` and ``used`` have shape (n_pairs,) of
    the others. ``runs``, ``low`` and ``high`` (n_users,) are users with tasks, at a lower and at an upper bound;
    ``full`` are the full rows of ``loads``. Levels within ``tie`` of each other count as equal.
    """

    def __init__(self, allocation: Allocation, tie: float = TIES[0]) -> None:
        policy = allocation.policy
        self.tie = tie
        self.objective: Objective = first_tier(allocation)
        self.tiered = len(tiers_of(policy.objective)) > 1
        self.program = program = Program(allocation.instance, self.objective, policy.constraints)
        self.evidence = allocation.evidence_prices
        if program.empty:
            return
        self.levelled = program.term.is_smallest and program.term.kind.is_known
        self.bends = any(term.kind.steep_at_zero for term in self.objective.terms())
        pairs = program.pairs
        # of users bounded by zero, and of wholly reserved resources
        closed = (program.high[pairs.user] <= 0) | program.zero_pairs
        self.open_pairs = np.flatnonzero(~closed)
        every = not closed.any()
        self.user = pairs.user[self.open_pairs]
        loads = pairs.loads if every else pairs.loads[:, self.open_pairs]
        self.loads = dense(loads) if sum(loads.shape) <= SMALL else loads
        self._evaluate(Point(program.instance, program.gather_rows(allocation.tasks_by_server)))

    def at(self, tasks: Float) -> Optimum:
        """The same program at other tasks of each pair."""
        other, by_pair = copy(self), np.zeros(len(self.program.pairs))
        other.__dict__.pop("binding", None)
        by_pair[self.open_pairs] = tasks
        other._evaluate(self.program.point(by_pair))
        return other

    def _evaluate(self, point: Point) -> None:
        """Find where tasks run, which users are at their bounds, and which rows are full."""
        program = self.program
        self.point, self.tasks = point, program.pairs.of(point.tasks_by_server)[self.open_pairs]
        self.total = np.asarray(np.bincount(self.user, self.tasks, program.instance.n_users), dtype=float)
        # about how many tasks a pair could have: of curves and levels as many as it has
        self.reach = self.tasks if self.bends or self.levelled else program.most[self.user]
        self.runs = self.total > (
            0.0 if self.bends else (LEVELLED_NOTHING if self.levelled else NOTHING) * program.most
        )
        self.used = self.runs[self.user] & (self.tasks > USED * self.total[self.user])
        if program.single and self.levelled:  # even if lower bounds of others leave nothing
            self.used |= ~self.runs[self.user]
        full = max(FULL, 10 * self.tie)
        near = self.tie if self.levelled else full  # levels stop at limits exactly; a curved optimum ends short of them
        self.high = np.isfinite(program.high) & (self.total >= program.high * (1 - near))
        self.low = np.where(program.low > 0, self.total <= program.low * (1 + near), ~self.runs)
        used = np.asarray(self.loads @ self.tasks).ravel()  # an empty row of no capacity is not full
        self.full = np.flatnonzero((used > 0) & (used >= program.usable_rows * (1 - full)))

    def of(self, by_user: Float) -> Float:
        """Values of shape (n_users,) or (n_users, n_servers), by pair."""
        return self.program.pairs.of(by_user)[self.open_pairs]

    def rates(self, share: Share) -> Float:
        """Share per weight of a task of each pair."""
        c = self.of(share.coefficients(self.program.instance))
        return c / self.program.instance.weights[self.user]

    def relative_shares(self, share: Share) -> Float:
        """Shares per weight."""
        return self.point.share(share) / self.program.instance.weights

    @cached_property
    def classes(self) -> Indices:
        """The program's row of each server as given."""
        program = self.program
        return program.unmerged.derived.server_classes if program.merge else np.arange(program.instance.n_servers)

    def by_class(self, by_server: Float) -> Float:
        """Values of servers as given, equal within classes, by row of the program."""
        return by_server[np.unique(self.classes, return_index=True)[1]]

    def log_levels(self, share: Share) -> Float:
        """Logarithms of shares per weight."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.relative_shares(share)))

    def shown(self, by_row: Float) -> Float:
        """Derivatives by the usable fraction of each row as (n_servers, n_resources), per natural unit of capacity."""
        with np.errstate(invalid="ignore"):
            usable = np.where(by_row == 0, 0.0, by_row * self.program.usable_rows)
        return self.program.expand_prices(usable)

    @property
    def hint(self) -> Float | None:
        """The evidence's prices by the usable fraction of each row, shape (n_rows,); None if there are none."""
        program = self.program
        if self.evidence is None or self.evidence.shape != program.given.capacities.shape:
            return None
        usable = np.where(program.usable_rows > 0, program.usable_rows, 1.0)
        return (self.by_class(self.evidence) * program.whole_capacities).ravel() / usable

    @cached_property
    def binding(self) -> BindingConstraints:
        """The policy's active constraints besides bounds."""
        program, point = self.program, self.point
        if not program.rest:
            return BindingConstraints(np.zeros((0, len(self.user))), np.zeros(0, dtype=bool), True, True)
        rows: list[Any] = [sp.csr_array((0, len(self.user)))]
        signed: list[Bool] = [np.zeros(0, dtype=bool)]
        known = straight = True
        tasks = point.tasks_by_server[program.pairs.user, program.pairs.server]

        def add(per_task: sp.csr_array, left: Float, equal: bool) -> None:
            """Add the active ones of rows with the excess ``left`` at these tasks."""
            # relative to the row's terms, which may cancel
            terms = np.maximum(abs(per_task) @ tasks, np.abs(left))
            binds = np.flatnonzero((left >= -FULL * terms) | equal)
            rows.append(per_task[binds][:, self.open_pairs])
            signed.append(np.full(len(binds), equal))

        for own in (one.rows for one in program.rows.further):
            add(own.per_task, own.load(tasks) - own.right, own.equal)
        if all(program.rows_of(block) is not None for block in program.rest):
            return BindingConstraints(sp.csr_array(sp.vstack(rows)), np.concatenate(signed), True, True)
        cone = ConeModel(program)
        cone.unknowns.save_value(tasks / cone.scale)
        for block, _, condition in cone.rest:
            if condition.id in cone.known:
                continue
            linear = all(argument.is_affine() for argument in condition.args)
            if isinstance(block, AtLeast) and not linear and block.objective.is_known:
                if block.objective.value(point) - block.level > FULL * block.objective.drop(point):
                    continue
                # a kept level of known form has its gradient in closed form; others are linearised by CVXPY
                marginal, ranked = log_marginal_utilities(block.objective, self)
                if ranked:
                    raise _NoDerivative
                rows.append(-sp.csr_array(np.exp(marginal)[None, :]))
                signed.append(np.zeros(1, dtype=bool))
                straight = False
                continue
            known, straight = known and linear, straight and linear
            tangent = linear_rows(condition, cone.unknowns)
            if tangent is None:
                raise _NoDerivative
            per_task = sp.csr_array(tangent.slopes.T.tocsr() @ sp.diags_array(1.0 / cone.scale))
            add(per_task, tangent.values, not tangent.inequality)
        return BindingConstraints(sp.csr_array(sp.vstack(rows)), np.concatenate(signed), known, straight)


# -- marginal utilities -----------------------------------------------------------------------------------------------


def log_marginal_utilities(objective: Objective, optimum: Optimum) -> tuple[Float, list[Term]]:
    """Logarithms of the marginal utilities of tasks by pair, of the differentiable terms, and the ranked terms."""
    point, ranked, logs = optimum.point, list[Term](), [np.full(len(optimum.user), -np.inf)]
    for term in objective.terms():
        if term.factor == 0:
            continue
        if term.ranks is not None:
            ranked.append(term)
            continue
        if not term.kind.is_known:
            raise _NoDerivative
        log_z = optimum.log_levels(term.share)
        curves = term.kind.curves(log_z, point.weights)
        if curves is None:
            raise _NoDerivative
        with np.errstate(divide="ignore"):
            log_rate = np.log(optimum.rates(term.share))
        log_unit = float(np.log(term.factor)) + term.kind.log_unit(log_z, point.weights)
        logs += [log_unit + log_rate + curve.log_slopes(log_z)[optimum.user] for curve in curves]
    return reduce(np.logaddexp, logs[1:] or logs), ranked


def elasticities(share: Share, instance: Instance) -> tuple[Float, Float]:
    """`Share.elasticities`; `OutOfDomain` if they are not known, as for user-defined shares."""
    known = share.elasticities(instance) if is_ours(share) else None
    if known is None:
        raise OutOfDomain(
            f"it is not known how {share} changes with capacities and demands; use held=True for derivatives with "
            "fixed coefficients"
        )
    return known


def first_tier(allocation: Allocation) -> Any:
    """The objective of an allocation's policy, the first of tiers; None if it has none."""
    objective: Any = getattr(allocation.policy, "objective", None)
    return tiers_of(objective)[0]


def first_term(allocation: Allocation) -> Term | None:
    """The term of the first tier; None if the policy has no objective."""
    return only_term(first_tier(allocation))


# -- the conditions on multipliers -------------------------------------------------------------------------------------


class OptimalityConditions:
    """The conditions on the multipliers of a sum of objectives: pairs, and columns besides those of capacities."""

    def __init__(self, optimum: Optimum, marginal: Float) -> None:
        n = optimum.program.instance.n_users
        self.optimum, self.marginal = optimum, marginal
        self.rate: Float = np.ones(len(marginal))
        self.low, self.high, self.own = optimum.low.copy(), optimum.high.copy(), np.zeros(n, dtype=bool)
        self.ranked_value = 0.0
        self.columns: list[tuple[Indices, Float, float]] = []  # charges of further multipliers: pairs, values, unit
        self.n_separate = 0  # multipliers of users ranked twice, each as a further user of one pair

    def rank(self, terms: Sequence[Term], unit: float) -> list[Ties]:
        """Add the ranked terms, times a unit, and return their ties."""
        ties = [tie for term in terms for tie in self._rank(term, unit)]
        self.separate_bounds()
        return ties

    def _rank(self, term: Term, unit: float) -> list[Ties]:
        """Add the unambiguous part of a ranked term to the marginal utilities, and return the ties of the others."""
        optimum, ranks = self.optimum, term.ranks or ()
        z = optimum.relative_shares(term.share)
        n, order = len(z), np.argsort(z, kind="stable")
        v = np.zeros(n)
        v[: min(n, len(ranks))] = np.asarray(ranks[:n]) * term.factor * unit
        self.ranked_value += float(v @ z[order])
        starts = np.flatnonzero(np.diff(z[order], prepend=-np.inf) > optimum.tie * z[order])
        ends = np.append(starts[1:], n)
        certain = np.empty(n)
        certain[order] = v
        rate = optimum.rates(term.share)
        ties: list[Ties] = []
        for g in np.flatnonzero(v[starts] > v[ends - 1]):  # users of equal weights are not ambiguous
            users, places = order[starts[g] : ends[g]], v[starts[g] : ends[g]]
            certain[users] = 0.0  # theirs is any point of the permutahedron, a multiplier of their own
            if self.own[users].any():
                ties.append(Ties(self._rank_separately(users, rate, float(places[0])), places))
                continue
            self.own[users] = True
            self.rate = np.where(np.isin(optimum.user, users), rate, self.rate)
            ties.append(Ties(users, places))
        self.marginal = self.marginal + rate * certain[optimum.user]
        return ties

    def _rank_separately(self, users: Indices, rate: Float, unit: float) -> Indices:
        """A column for the multiplier of each user, as of a further user of one pair; the indices of these users."""
        n, at = len(self.optimum.low), len(self.marginal)
        made = n + self.n_separate + np.arange(len(users))
        for k, j in enumerate(users):
            pairs = np.flatnonzero(self.optimum.user == j)
            self.columns.append((np.append(pairs, at + self.n_separate + k), np.append(-rate[pairs], 1.0), unit))
        self.n_separate += len(users)
        return made

    def separate_bounds(self) -> None:
        """A column for the bound of each ranked user whose share differs by server: two multipliers, two rates."""
        optimum, user = self.optimum, self.optimum.user
        first = np.searchsorted(user, np.arange(len(self.own)))
        # one multiplier for both needs one unit: only where a task's share differs by server are there two
        differs = np.abs(self.rate - self.rate[first[user]]) > 1e-12 * self.rate
        bounded = self.own & (self.low | self.high) & optimum.runs
        for j in np.unique(user[differs & bounded[user]]):
            pairs = np.flatnonzero(user == j)
            for at_bound, sign in ((self.high, 1.0), (self.low, -1.0)):
                if at_bound[j]:
                    unit = (self.ranked_value or 1.0) / optimum.total[j]
                    self.columns.append((pairs, np.full(len(pairs), sign), unit))
                    at_bound[j] = False

    def conditions(
        self,
        rows: Indices,
        scale: Float,
        whole: float,
        excluded: Bool | None = None,
        paid: Float | None = None,
        most: float = MOST_COLUMNS,
    ) -> tuple[Conditions, Float]:
        """The conditions, and the unit of each multiplier: prices, those of other constraints, and others.

        Prices are of capacities given as rows of the optimum's loads, about as large as ``scale``; ``whole`` is about
        the value of everything. Users who are ``excluded`` have no condition; ``paid`` is the cost of tasks at given
        prices. `_NoDerivative` for more than ``most`` multipliers.
        """
        optimum, separate, binding = self.optimum, self.n_separate, self.optimum.binding
        largest_charge = np.zeros(0)
        if binding.charges.shape[0]:
            largest_charge = flat(times_columns(abs(binding.charges), optimum.program.size[optimum.user]).max(axis=1))
        others = [unit for *_, unit in self.columns]
        # all multipliers near 1, by what a row's users pay or a constraint charges them
        units = np.concatenate([scale, whole / np.where(largest_charge > 0, largest_charge, 1.0), others])
        signed = np.concatenate([np.zeros(len(scale), dtype=bool), binding.signed, np.zeros(len(others), dtype=bool)])
        if len(units) > most:
            raise _NoDerivative
        charges: Any = optimum.loads[rows]
        if len(units) > len(scale):
            charges = sp.vstack([sp.csr_array(charges), binding.charges])
            charges = sp.vstack([sp.hstack([charges, sp.csr_array((charges.shape[0], separate))]), self._further()])
        charges = sp.csc_array(sp.diags_array(units) @ charges) if is_sparse(charges) else units[:, None] * charges
        kept: Any = slice(None)
        if excluded is not None and excluded.any():
            kept = np.flatnonzero(np.append(~excluded[optimum.user], np.ones(separate, dtype=bool)))

        def by_pair(values: NDArray[Any], made: Any) -> NDArray[Any]:
            return np.append(values, made * np.ones(separate, dtype=values.dtype))[kept]

        def by_user(values: Bool, made: bool) -> Bool:
            return np.append(values, np.full(separate, made))

        marginal, size = self.marginal, None
        if paid is not None:
            marginal, size = marginal - paid, by_pair(np.maximum(np.abs(marginal), paid), 1)
        conditions = Conditions(
            charges[:, kept],
            by_pair(marginal, 0),
            by_pair(self.rate, 1),
            by_pair(optimum.user, len(self.own) + np.arange(separate)),
            by_pair(optimum.tasks, 0),
            by_pair(optimum.reach, 0),
            by_pair(optimum.used, True),
            by_user(self.low, False),
            by_user(self.high, False),
            by_user(self.own, True),
            signed,
            size,
        )
        return conditions, units

    def _further(self) -> Any:
        """Charges of the multipliers besides those of capacities and constraints, (n_columns, n_pairs)."""
        of_column = np.repeat(np.arange(len(self.columns)), [len(pairs) for pairs, *_ in self.columns])
        pairs = [np.zeros(0, dtype=np.intp), *(pairs for pairs, *_ in self.columns)]
        values = [np.zeros(0), *(values for _, values, _ in self.columns)]
        shape = (len(self.columns), len(self.marginal) + self.n_separate)
        return sp.csr_array((np.concatenate(values), (of_column, np.concatenate(pairs))), shape=shape)
