"""What blocks see of an instance: tasks, shares and weights, as CVXPY expressions or as numbers.

`Model` has expressions in the unknowns, `Point` the same attributes as numbers at an allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np

from fairopt.blocks.base import Block, brief, refuse_unknown_numbers, refuse_whole_numbers
from fairopt.blocks.numbers import Numbers
from fairopt.blocks.own import OwnValues, OwnVariables, Shape
from fairopt.blocks.shares import BEYOND, Share, best_server, kept, require_share
from fairopt.errors import InvalidBlock, NotConcave, OutOfDomain
from fairopt.instance import Instance
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import cp, sp

FEW = 16  # servers up to which minima over servers are taken server by server, as reductions of short rows are slow
FAR = 1e4  # by which shares that an earlier answer found may differ from those that are expected
POWER_CONES = frozenset({"CLARABEL", "SCS", "MOSEK", "COPT", "CUCLARABEL"})


class _View:
    """Attributes common to `Model`, `Point` and `Pairs`."""

    instance: Instance

    @property
    def weights(self) -> Float:
        """Entitlements, shape (n_users,)."""
        return self.instance.weights

    def weights_of(self, share: Share) -> Float:
        """The weights of what objectives of a share compare: of users, or of teams."""
        return self.weights if share._is_plain else share._numbers(self.instance).weights

    def level(self, share: Share) -> float:
        """An estimate of the max-min level of a share, the unit in which objectives are solved.

        Exact on one pool without task limits, an upper bound otherwise. `OutOfDomain` if it is no float.
        """

        def common() -> float:
            numbers = share._numbers(self.instance)
            c = best_server(numbers.per_task, self.instance)
            return self.instance.derived.common_level(c, numbers.weights_of_users)

        level: float = kept(share, self.instance, "level", common)
        if not 0 < level < np.inf:
            raise OutOfDomain(f"shares per weight, {share!r} / weight, are about {level:.3g}, {BEYOND}")
        return level

    def unweighted_level(self, share: Share) -> float:
        """The same with all weights 1, the unit of sums of shares."""
        c = best_server(share._numbers(self.instance).per_task, self.instance)
        return self.instance.derived.common_level(c, np.ones(self.instance.n_users))


class Pairs(_View):
    """The (user, server) pairs of eligible users, ordered by user: the columns of every program.

    The argument of `Constraint.rows`; its matrices are multiplied by the tasks of pairs.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.single = instance.n_servers == 1
        if self.single:
            self.user = np.arange(instance.n_users)
            self.server = np.zeros(instance.n_users, dtype=np.int64)
        else:
            n, servers = instance.eligible.shape
            if instance.derived.everywhere:  # of 10^7 pairs in a fifth of the time
                self.user, self.server = np.repeat(np.arange(n), servers), np.tile(np.arange(servers), n)
            else:
                self.user, self.server = np.nonzero(instance.eligible)
        # every user is eligible somewhere
        self.first = self.user if self.single else np.searchsorted(self.user, np.arange(instance.n_users))

    def __len__(self) -> int:
        return len(self.user)

    @cached_property
    def full(self) -> bool:
        """Whether all users are eligible on all servers: pairs are then the entries of a table, row by row."""
        return len(self) == self.instance.n_users * self.instance.n_servers

    def index(self, user: Indices, server: Indices) -> Indices:
        """The positions of given pairs."""
        servers = self.instance.n_servers
        return np.searchsorted(self.user * servers + self.server, user * servers + server)

    def of(self, values: Any) -> Any:
        """Values of shape (n_users,) or (n_users, n_servers) by pair."""
        if self.full:  # ten times as fast as by indices
            return values.flatten() if values.ndim == 2 else np.repeat(values, self.instance.n_servers)
        return values[self.user] if values.ndim == 1 else values[self.user, self.server]

    def sum(self, by_pair: Float) -> Float:
        """Sums by user."""
        if self.single:
            return by_pair
        return np.add.reduceat(by_pair, self.first) if len(self) else np.zeros(0)

    def min(self, by_pair: Float) -> Float:
        """Minima by user."""
        if self.single:
            return by_pair
        if self.full and 0 < self.instance.n_servers <= FEW:
            return np.asarray(reduce(np.minimum, by_pair.reshape(-1, self.instance.n_servers).T))
        return np.minimum.reduceat(by_pair, self.first) if len(self) else np.zeros(0)

    def table(self, by_pair: Float) -> Float:
        """Values as (n_users, n_servers), zero where a user is not eligible."""
        if self.full:
            return np.array(by_pair, dtype=float).reshape(self.instance.n_users, self.instance.n_servers)
        out = np.zeros((self.instance.n_users, self.instance.n_servers))
        out[self.user, self.server] = by_pair
        return out

    def by_number(self, per_pair: Float, numbers: Numbers) -> sp.csr_array:
        """The matrix that sums values per task, (n_pairs,), times tasks by number: shape (n_numbers, n_pairs)."""
        p = len(self)
        return sp.csr_array((per_pair, (numbers.of_pairs(self.user), np.arange(p))), shape=(len(numbers), p))

    def by_user(self, per_pair: Float) -> sp.csr_array:
        """The matrix that sums values per task, (n_pairs,), times tasks by user: shape (n_users, n_pairs)."""
        p = len(self)
        return sp.csr_array((per_pair, (self.user, np.arange(p))), shape=(self.instance.n_users, p))

    @cached_property
    def totals(self) -> sp.csr_array:
        """The matrix that gives tasks by user, shape (n_users, n_pairs)."""
        return self.by_user(np.ones(len(self)))

    def share(self, block: Share) -> sp.csr_array:
        """The matrix that gives shares by user or team, without bases, shape (n_numbers, n_pairs)."""
        require_share(block, "pairs.share(share)")
        numbers = block._numbers(self.instance)
        return self.by_number(self.of(numbers.per_task), numbers)

    def relative_share(self, block: Share) -> sp.csr_array:
        """The matrix that gives shares per weight, without bases, (n_numbers, n_pairs); shares must be positive."""
        numbers = block._numbers(self.instance, levelled=True)
        return self.by_number(self.of(numbers.per_task) / numbers.weights[numbers.of_pairs(self.user)], numbers)

    @cached_property
    def loads(self) -> Any:
        """The fraction of a server row's capacity that one task of a pair uses: (n_servers * n_resources, n_pairs)."""
        if not self.single:
            return self.loads_by_pair.tocsr()
        capacity = self.instance.capacities * self.instance.counts[:, None]
        return np.ascontiguousarray((self.instance.per_server_demands[:, 0, :] / _positive(capacity)[0]).T)

    @cached_property
    def loads_by_pair(self) -> sp.csc_array:
        """`loads` column by column."""
        if self.single:
            return sp.csc_array(self.loads)
        instance, demands = self.instance, self.instance.demands
        values = demands[self.user] if demands.ndim == 2 else demands[self.user, self.server]
        values = values / _positive(instance.capacities * instance.counts[:, None])[self.server]
        m, p = instance.n_resources, len(self)
        keep = values > 0
        kind: Any = np.int32 if values.size < np.iinfo(np.int32).max else np.int64  # half the memory, half the time
        rows = (self.server * m).astype(kind)[:, None] + np.arange(m, dtype=kind)
        starts: Indices = np.zeros(p + 1, dtype=kind)
        np.cumsum(np.count_nonzero(keep, axis=1), out=starts[1:])
        entries = (values.ravel(), rows.ravel()) if keep.all() else (values[keep], rows[keep])
        return sp.csc_array((*entries, starts), shape=(instance.n_servers * m, p))


def _positive(capacity: Float) -> Float:
    """Capacities without zeros, of which no eligible user needs any."""
    return np.where(capacity > 0, capacity, np.inf)


def _equal_parts(instance: Instance) -> Float:
    """Tasks of each user on an equal part of each server, within its limit."""
    table = np.where(instance.eligible, instance.tasks_alone, 0.0) * instance.counts / max(instance.n_users, 1)
    total = table.sum(axis=1)
    cut = np.minimum(1.0, np.divide(instance.task_limits, total, out=np.ones(len(total)), where=total > 0))
    return table * cut[:, None]


class _WithVariables(_View):
    """Attributes common to `Model` and `Point`."""

    own: OwnVariables
    required: list[cp.Constraint]  # constraints on variables of blocks

    def variable(
        self, shape: Shape = (), *, name: str | None = None, lower: Any = None, upper: Any = None
    ) -> cp.Expression:
        """A variable of the block's own, in natural units; at an allocation its value.

        Parameters
        ----------
        shape : int or tuple of int, default ()
            The default is a single number.
        name : str, optional
            Blocks that give the same name share the variable. Default: the variable is the block's alone.
        lower, upper : float or ndarray, optional
            Bounds; those of all blocks hold. Give a range in which the optimum lies: it makes the proof complete
            (`Certificate.assumed`), and scales the variable for solvers.

        Returns
        -------
        cvxpy.Expression or ndarray

        Raises
        ------
        InvalidBlock
            If no number lies between the bounds, or another block gave the variable another shape.

        Examples
        --------
        The mean of the two smallest shares, as the largest ``t - sum (t - s)+ / 2``:

        >>> import cvxpy as cp, fairopt as fo
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, repr=False)
        ... class TwoSmallest(fo.Objective):
        ...     def expression(self, model):
        ...         shares = model.share(fo.DominantShare())
        ...         t = model.variable(lower=0, upper=1)
        ...         below = model.variable(shares.shape, lower=0, upper=1)
        ...         model.require("below", below >= t - shares)
        ...         return t - cp.sum(below) / 2
        >>> a = fo.Policy(TwoSmallest()).allocate(fo.Instance([[1], [1], [1]], [9]))
        >>> round(a.objective, 6), a.certificate.assumed
        (0.333333, '')
        """
        found, further = self.own.make(shape, name, lower, upper)
        for side, bound in further.items():
            flat, some = cp.vec(found, order="F"), np.isfinite(bound.ravel(order="F"))
            part, values = flat[np.flatnonzero(some)], bound.ravel(order="F")[some]
            self.require(f"{side} of {name}", part >= values if side == "lower" else part <= values)
        return found

    def require(self, name: str, constraint: cp.Constraint) -> None:
        """Add a constraint beside an objective's expression, or a constraint's own: on variables, for example.

        Parameters
        ----------
        name : str
            Its name in messages and in `Allocation.multipliers`.
        constraint : cvxpy.Constraint
            A convex constraint.

        Raises
        ------
        InvalidBlock
            If an argument is something else, or holds numbers that are not finite.
        NotConcave
            If the constraint is not convex.

        Examples
        --------
        Tasks are at most a variable, which is at most 6:

        >>> import fairopt as fo
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, repr=False)
        ... class Capped(fo.Constraint):
        ...     def constraints(self, model):
        ...         most = model.variable(name="most", lower=0, upper=10)
        ...         model.require("six", most <= 6)
        ...         return {"below": model.tasks <= most}
        >>> a = fo.Policy(fo.Total(fo.Tasks()), [Capped()]).allocate(fo.Instance([[1], [2]], [20]))
        >>> a.tasks, float(a.variables["most"]), round(float(a.multipliers["six"]), 6)
        (array([6., 6.]), 6.0, 2.0)
        """
        block, what = self.own.block, f"its condition {name!r}"
        of = "" if block is None else f"{block}: "
        if not isinstance(name, str) or not name:
            raise InvalidBlock(f"{of}require({brief(name)}, ...): give a name, as a text")
        if not isinstance(constraint, cp.Constraint):
            if isinstance(self, Point):  # of numbers, which are checked in the program
                return
            raise InvalidBlock(f"{of}require({name!r}, {brief(constraint)}): give a cvxpy constraint")
        if block is not None and isinstance(self, Model):
            refuse_unknown_numbers(block, constraint, what)
            refuse_whole_numbers(block, constraint, self.unknowns)
            if not constraint.is_dcp():
                raise NotConcave(f"{block}: {what} is not convex ({constraint})")
        constraint.set_label(name)
        self.required.append(constraint)


class Point(_WithVariables):
    """An allocation as numbers, with the attributes of `Model`; from tasks of shape (n_users, n_servers).

    ``variables`` gives the values of blocks' variables in natural units, by name; other variables are left open.
    """

    own: OwnValues

    def __init__(
        self,
        instance: Instance,
        tasks_by_server: Float,
        variables: Callable[[], Mapping[str, Float]] | None = None,
        written: Written | None = None,
    ) -> None:
        self.instance = instance
        self.written = written  # what evaluates objectives that are given by expressions, if points share it
        self.tasks_by_server = tasks_by_server
        self.required = []
        self.own = OwnValues(variables)

    @cached_property
    def tasks(self) -> Float:
        """Tasks of each user, shape (n_users,)."""
        return self.tasks_by_server.sum(axis=1)

    @property
    def bundles(self) -> Float:
        """Amounts that users hold, shape (n_users, n_servers, n_resources)."""
        return self.instance.per_server_demands * self.tasks_by_server[:, :, None]

    def share(self, block: Share) -> Float:
        """Shares of each user, shape (n_users,), or of each team."""
        return block._numbers(self.instance).at(self)

    def scaled(self, factor: float) -> Point:
        """The point with all tasks multiplied by a factor."""
        return Point(self.instance, self.tasks_by_server * factor, self._variables(factor), self.written)

    def _variables(self, factor: float = 1.0) -> Callable[[], Mapping[str, Float]]:
        """The values of blocks' variables times a factor, for another point."""
        return lambda: {key: value * factor for key, value in self.own.known.items()}

    def typical(self) -> Point:
        """Another point: an equal part of what each user could run alone, within its task limit."""
        return Point(self.instance, _equal_parts(self.instance), written=self.written)

    def towards_typical(self, part: float) -> Point:
        """The point moved by a fraction towards `typical`."""
        there = self.typical()
        tasks = self.tasks_by_server + part * (there.tasks_by_server - self.tasks_by_server)
        return Point(self.instance, tasks, self._variables(), self.written)


class Written(Protocol):
    """Expressions that are written once for all points of a program."""

    def value(self, objective: Block, point: Point) -> float | None:
        """The objective at a point without constants; None if it is not known by its expression alone."""

    def constant(self, objective: Block) -> float:
        """The constants that an objective's expression adds."""

    def rounding(self, objective: Block, point: Point) -> float | None:
        """A bound on the rounding in `value`, as in `rounding_of`; None where that is None."""

    def is_flat(self, objective: Block, point: Point) -> bool:
        """Whether the objective is flat at a point, whatever rounding does."""

    def slope(self, objective: Any, point: Point) -> Any:
        """The `Slope` of an objective with variables besides tasks; None for others."""

    def set_slope(self, objective: Any, point: Point, slope: Any) -> None:
        """Keep what is known of it, or forget it."""


class Model(_WithVariables):
    """An instance as CVXPY expressions in one vector of unknowns, one per (user, server) pair.

    The argument of `Objective.expression` and `Constraint.constraints`. If bundles are decided, ``bundles`` and
    ``loads`` refer to these, and tasks fit in them.

    Parameters
    ----------
    instance : Instance
        In objectives it has only the users with a positive task limit, in constraints all.
    unknowns : cvxpy.Expression of shape (n_pairs,)
        Tasks by pair, divided by ``scale``.
    scale : ndarray of shape (n_pairs,), optional
        Tasks per unit of each unknown. Default: 1.
    pairs : Pairs, optional
        The (user, server) pairs of eligible users. Default: those of the instance.
    solver : str, optional
        The solver that will be used, if known.

    Examples
    --------
    >>> import cvxpy as cp, fairopt as fo
    >>> model = fo.Model(fo.Instance([[2, 3], [2, 1]], [6, 4]), cp.Variable(2))
    >>> model.unknowns.value = [0.5, 2.0]
    >>> model.share(fo.DominantShare()).value, model.loads.value
    (array([0.375     , 0.66666667]), array([0.83333333, 0.875     ]))
    """

    def __init__(
        self,
        instance: Instance,
        unknowns: cp.Expression,
        scale: Float | None = None,
        pairs: Pairs | None = None,
        solver: str | None = None,
    ) -> None:
        self.instance = instance
        self.pairs = pairs or Pairs(instance)
        self.unknowns = unknowns
        self.scale = np.ones(len(self.pairs)) if scale is None else scale
        self.near: Float | float = 1.0  # about what the unknowns are
        self.seen: Float | None = None  # what they were in an earlier answer, shape (n_pairs,)
        self.of_solver, self.asks_solver = solver, False
        self.required = []
        self.own = OwnVariables(natural=scale is None)

    @property
    def solver(self) -> str | None:
        """The solver that will be used, if known; an expression for which it is asked may depend on it."""
        self.asks_solver = True
        return self.of_solver

    @property
    def exact_powers(self) -> bool:
        """Whether the solver supports power cones; otherwise CVXPY approximates powers by second-order cones."""
        return self.solver is None or self.solver in POWER_CONES

    def sum_by_user(self, per_pair: Float) -> cp.Expression:
        """Values per task, (n_pairs,), times tasks, summed by user: shape (n_users,)."""
        if self.pairs.single:
            return cp.multiply(per_pair * self.scale, self.unknowns)
        return self.pairs.by_user(per_pair * self.scale) @ self.unknowns

    @cached_property
    def tasks(self) -> cp.Expression:
        """Tasks of each user, shape (n_users,)."""
        return self.sum_by_user(np.ones(len(self.pairs)))

    @cached_property
    def tasks_by_server(self) -> cp.Expression:
        """Tasks of each user on each server row, shape (n_users, n_servers)."""
        pairs, n, servers = self.pairs, self.instance.n_users, self.instance.n_servers
        if pairs.single:
            return cp.reshape(self.tasks, (n, 1), order="C")
        place = sp.csr_array(
            (self.scale, (pairs.user * servers + pairs.server, np.arange(len(pairs)))), shape=(n * servers, len(pairs))
        )
        return cp.reshape(place @ self.unknowns, (n, servers), order="C")

    @cached_property
    def bundles(self) -> cp.Expression:
        """Amounts that users hold, shape (n_users, n_servers, n_resources)."""
        shape = (self.instance.n_users, self.instance.n_servers, 1)
        tasks = cp.reshape(self.tasks_by_server, shape, order="C")
        return cp.multiply(self.instance.per_server_demands, tasks)

    @cached_property
    def loads(self) -> cp.Expression:
        """Used fraction of each capacity, shape (n_servers * n_resources,), ordered by server."""
        loads = self.pairs.loads
        scaled = loads * self.scale if self.pairs.single else (loads @ sp.diags_array(self.scale)).tocsr()
        return scaled @ self.unknowns

    @property
    def can_hold(self) -> Bool:
        """Which users can hold which resources, (n_users, n_servers, n_resources)."""
        return (self.instance.per_server_demands > 0) & self.instance.eligible[:, :, None]

    def split_bundles(self, user: Indices, server: Indices, resource: Indices) -> tuple[cp.Expression, Float]:
        """Amounts that users hold of resources on given servers, as (expression near 1, units by entry)."""
        pair = self.pairs.index(user, server)
        return self.unknowns[pair], self.scale[pair] * self.instance.per_server_demands[user, server, resource]

    def held_together(self, who: Bool) -> cp.Expression:
        """The fraction of each capacity that chosen users hold together, shape (n_servers * n_resources,).

        ``who``, of shape (n_users, n_servers, n_resources), is true for the bundles that count.
        """
        loads = sp.coo_array(self.pairs.loads)
        server, resource = np.divmod(loads.row, self.instance.n_resources)
        kept = np.where(who[self.pairs.user[loads.col], server, resource], loads.data * self.scale[loads.col], 0.0)
        return sp.csr_array((kept, (loads.row, loads.col)), shape=loads.shape) @ self.unknowns

    def share(self, block: Share) -> cp.Expression:
        """Shares of each user, shape (n_users,), or of each team."""
        require_share(block, "model.share(share)")
        return self._above(block._numbers(self.instance), 1.0)

    def _above(self, numbers: Numbers, unit: Float | float) -> cp.Expression:
        """Numbers in a unit."""
        unit = np.broadcast_to(unit, (len(numbers),))
        per_pair = self.pairs.of(numbers.per_task) / unit[numbers.of_pairs(self.pairs.user)]
        if numbers.of_user is None:
            total = self.sum_by_user(per_pair)
        else:
            total = self.pairs.by_number(per_pair * self.scale, numbers) @ self.unknowns
        return total if numbers.base is None else total - numbers.base / unit

    def relative_share(self, block: Share) -> cp.Expression:
        """Shares per weight in units of their max-min level, hence near 1."""
        numbers = block._numbers(self.instance, levelled=True)
        return self._above(numbers, numbers.weights * self.level(block))

    def split_share(self, block: Share) -> tuple[cp.Expression, Float]:
        """`relative_share` as (expression near 1, factor by user), for logarithms and powers."""
        if not block._is_plain:
            relative = self.relative_share(block)
            return relative, np.ones(relative.shape)
        instance = self.instance
        c = block.coefficients(instance, levelled=True)
        per_unit = best_server(c, instance) * (self.scale * self.near)[self.pairs.first]
        if self.seen is not None:
            shares = self.pairs.by_user(self.pairs.of(c) * self.scale) @ self.seen
            per_unit = np.clip(shares, per_unit / FAR, per_unit * FAR)
        elif self.pairs.single:
            near_one = self.unknowns if isinstance(self.near, float) else cp.multiply(1 / self.near, self.unknowns)
            return near_one, per_unit / (self.weights * self.level(block))
        per_pair = self.pairs.of(c) / per_unit[self.pairs.user]
        return self.sum_by_user(per_pair), per_unit / (self.weights * self.level(block))
