"""Derivatives of an allocation by the data and by alpha, and which resource to buy next.

Each is the rate along a change of one number v of the data, to one side. With tasks x, coefficients c and weights w of
the n users (n,), and levels ``z = c x / w``, the rates dx of tasks give those of levels and of the welfare,

    dz  =  z (d log c - d log w) + c dx / w,      d log c  =  e dv / v,

where e are the elasticities of the share (`Share.elasticities`), 0 if coefficients are held. Rates dx come from the
active set of a smooth objective (`active_set`), water-filling or the prices of levels (`leximin`). Where the active set
is about to change both sides differ, so that each is computed by itself.

A range is how far a number may change until another set is active, found by solving at changed numbers: steps that
triple, then bisection to 1e-9 (27 solves a range for alpha-fair pools of 6 users). Linear extrapolation would not do,
as tasks are not linear in the data. Beyond 1e4 times a number rounding decides, and the range counts as infinite.
Proofs: Propositions 13.3 to 13.5 (docs/methods/tradeoffs.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import Objective, only_term
from fairopt.blocks.normal_form import Power, Term
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import Share
from fairopt.derivatives.active_set import ActiveSet
from fairopt.derivatives.leximin import SAME, OptimalLevels, Pool
from fairopt.derivatives.optimum import LATE, Change, Optimum, _NoDerivative, elasticities
from fairopt.errors import InvalidBlock, OutOfDomain, OutOfTime, nearest
from fairopt.instance import Instance
from fairopt.instance.labels import whole_name
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import SHORTEST, Clock, checked
from fairopt.runtime.display import label, tasks_in_words, without_vendor
from fairopt.runtime.lazy import later, pandas
from fairopt.runtime.progress import tell
from fairopt.runtime.threads import one_thread
from fairopt.runtime.tolerances import NOISE

if TYPE_CHECKING:
    import pandas as pd

Index = tuple[int, ...]

KINDS = {"capacity": "capacities", "demand": "demands", "weight": "weights", "alpha": "alpha"}
FAR = 1e4  # times a number (for alpha, times 1/10): the largest range, beyond which rounding decides
ZERO = "it is 0, and a positive number would change which users compete"


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives by every number of one kind: one more unit, and with ``_left`` the loss by one unit less.

    Attributes
    ----------
    kind : str
        ``capacity`` (by server row, in total, and resource), ``demand`` (by user and resource), ``weight`` (by user) or
        ``alpha``. The shapes below call its shape ``...``: (n_servers, n_resources), (n_users, n_resources), (n_users,)
        or ().
    tasks, tasks_left : ndarray of shape (n_users, ...)
        Of each user's tasks.
    welfare, welfare_left : ndarray of shape (...)
        Of the objective's value; for leximin of the smallest share per weight.
    reason : ndarray of str of shape (...)
        Why derivatives are NaN; empty if they are not.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    >>> found = fo.sensitivity(a).weights
    >>> found.tasks.round(4)  # user1 gains 5/4 tasks per unit of its weight, and loses as many per unit of user2's
    array([[ 1.25, -1.25],
           [-6.25,  6.25]])
    """

    kind: str
    tasks: Float
    tasks_left: Float
    welfare: Float
    welfare_left: Float
    reason: NDArray[np.str_]
    _ranges: Callable[[int], Float]

    @property
    def total(self) -> Float:
        """Derivatives of the number of tasks, shape (...)."""
        return np.asarray(self.tasks.sum(axis=0))

    @property
    def total_left(self) -> Float:
        """The loss of tasks per unit less, shape (...)."""
        return np.asarray(self.tasks_left.sum(axis=0))

    @cached_property
    def upper(self) -> Float:
        """By how much each number may grow until the active set changes, shape (...).

        Within the range the same equations give the allocation, so derivatives vary smoothly. For leximin and totals it
        is a rational function of the number and of the shares' coefficients (linear in capacities if these are fixed).
        Ranges are found by bisection to 1e-9; the conditions of the optimum are checked at the numbers tried, and not
        proved between them. Infinite beyond 10,000 times the number (for alpha, beyond 1,000). NaN without a
        derivative, for leximin on several servers, and if tasks can be placed in several ways.
        """
        return self._ranges(1)

    @cached_property
    def lower(self) -> Float:
        """By how much each number may shrink, as a number <= 0; see `upper`."""
        return self._ranges(-1)


class Analysis:
    """An allocation with its active users, identical servers merged, and what computes rates there."""

    @one_thread()
    def __init__(self, allocation: Allocation, held: bool, time_limit: float | None = None) -> None:
        self.held, self.whole, self.left = held, allocation.instance, time_limit
        self.term, self.objective = _term(allocation.policy, allocation.instance)
        if self.whole.demands.ndim == 3:
            raise OutOfDomain("demands differ by server; derivatives need demands that are equal on all servers")
        self.optimum = optimum = Optimum(allocation)
        self.part, self.instance = optimum.program.active, optimum.program.instance
        self.share: Share = self.term.share
        self.smooth = replace(self.term, factor=1.0, kind=self.term.kind.simplest)  # of the same optimum
        none = np.zeros((len(self.part), *self.instance.capacities.shape))
        self.slopes = (none, none) if held else elasticities(self.share, self.instance)
        if not len(self.part):
            return
        self.c = self.share.coefficients(self.instance)
        if self.c.ndim == 2:
            raise OutOfDomain(f"{self.share} differs by server; derivatives need shares that are equal on all servers")
        self.x = optimum.total
        self.kernel: Any
        if not self.term.is_smallest:
            self.kernel = ActiveSet(optimum.program.pairs, self.smooth, self.c)
            with self._timed() as clock:
                try:
                    self.kernel.start(optimum, clock)
                except _NoDerivative as error:
                    if str(error) == LATE:
                        raise OutOfTime(
                            f"no derivatives were found within the time limit of {clock.time_limit:g} s; give it more "
                            "time_limit"
                        ) from None
                    raise OutOfDomain(f"no derivatives: {error}") from error
        elif self.instance.n_servers == 1:
            self.kernel = Pool(self.instance, self.c, self.x)
        else:
            self.kernel = OptimalLevels(allocation.level_prices, optimum)

    def derivatives(self, kind: str) -> Derivatives:
        """Both sides of all derivatives by the numbers of a kind."""
        shape = () if kind == "alpha" else getattr(self.instance, KINDS[kind]).shape
        n = len(self.part)
        tasks, welfare, reason = np.zeros((2, n, *shape)), np.zeros((2, *shape)), np.full(shape, "", dtype=object)
        with self._timed() as clock:
            for count, at in enumerate(np.ndindex(shape) if n else ()):
                tell(f"derivatives by {kind}", count, reason.size)
                for k, side in enumerate((1, -1)):
                    try:
                        moved, value = self.rates(kind, at, side, clock)
                    except _NoDerivative as error:
                        moved, value = np.full(n, np.nan), np.nan
                        reason[at] = reason[at] or str(error)
                    # the loss by one unit less is minus the rate of the change to less
                    tasks[(k, slice(None), *at)], welfare[(k, *at)] = side * moved, side * value

        def ranges(side: int) -> Float:
            out = np.full(shape, side * np.inf)
            with self._timed() as clock:
                for count, at in enumerate(np.ndindex(shape) if n else ()):
                    tell(f"ranges by {kind}", count, out.size)
                    out[at] = np.nan if clock.late else self.range(kind, at, side)
            return self._expand(kind, out, 0, side * np.inf)

        by_user = np.zeros((2, self.whole.n_users, *self._expand(kind, reason, 0, "").shape))
        by_user[:, self.part] = self._expand(kind, tasks, 2)
        right, left = by_user + 0.0  # no negative zeros
        value, value_left = self._expand(kind, welfare, 1) + 0.0
        return Derivatives(kind, right, left, value, value_left, self._expand(kind, reason, 0, "").astype(str), ranges)

    @contextmanager
    def _timed(self) -> Iterator[Clock]:
        """A clock of the remaining time for all computations, on one BLAS thread."""
        clock = Clock(None if self.left is None else max(self.left, SHORTEST))
        try:
            with one_thread():
                yield clock
        finally:
            self.left = None if self.left is None else self.left - clock.seconds

    def _expand(self, kind: str, values: Any, axis: int, other: Any = 0.0) -> Any:
        """Values by the numbers of the analysis, expanded to those of the instance as given."""
        if kind == "alpha":
            return values
        if kind == "capacity":
            return np.take(values, self.optimum.classes, axis=axis)
        shape = (*values.shape[:axis], self.whole.n_users, *values.shape[axis + 1 :])
        out = np.full(shape, other, dtype=values.dtype)
        out[(slice(None),) * axis + (self.part,)] = values  # users of limit 0 have no tasks to change
        return out

    def _log_slopes(self, slopes: tuple[Float, Float], kind: str, at: Index, side: int) -> Float:
        """Derivatives of log c by the logarithm of one number that grows or shrinks."""
        # slopes are of ratios that grow and that shrink: at a tie of ratios both differ
        up, down = slopes if side > 0 else slopes[::-1]
        # a larger capacity makes the ratio d / C smaller
        if kind == "capacity":
            return -down[:, at[0], at[1]]
        out = np.zeros(len(up))
        if kind == "demand":
            out[at[0]] = up[at[0], :, at[1]].sum()
        return out

    def _size(self, kind: str, at: Index) -> float:
        """The number itself; for capacities that of all identical servers."""
        if kind == "alpha":
            return float(self.smooth.alpha or 0.0)
        size = getattr(self.instance, KINDS[kind])[at]
        return float(size * self.instance.counts[at[0]] if kind == "capacity" else size)

    def change(self, kind: str, at: Index, side: int) -> Change:
        """The change of one number that grows or shrinks."""
        n = self.instance.n_users
        if kind == "alpha":
            if self.smooth.alpha is None or isinstance(self.objective, Total):
                raise _NoDerivative(f"{type(self.objective).__name__} has no alpha")
            if self.smooth.alpha == 0 and (side < 0 or not (self.x > 0).all()):
                raise _NoDerivative(
                    "alpha is 0, and cannot be less" if side < 0 else "at alpha = 0 a user runs no tasks"
                )
        rates = {name: np.zeros(getattr(self.instance, KINDS[name]).shape) for name in ("capacity", "demand", "weight")}
        log_c: Float = np.zeros(n)
        if kind != "alpha":
            size = self._size(kind, at)
            if size == 0:
                raise _NoDerivative(("the server has none of it: " if kind == "capacity" else "") + ZERO)
            rates[kind][at] = side  # one unit; log c changes by elasticities times side / size
            log_c = side / size * self._log_slopes(self.slopes, kind, at, side)
        log_w = rates["weight"] / self.instance.weights
        return Change(rates["capacity"], rates["demand"], log_c, log_w, float(side) if kind == "alpha" else 0.0)

    def rates(self, kind: str, at: Index, side: int, clock: Clock) -> tuple[Float, float]:
        """Rates of tasks and of welfare along a change."""
        if clock.late:
            raise _NoDerivative(LATE)
        change, w = self.change(kind, at, side), self.instance.weights
        moved = self.kernel.rates(change)[0]
        z = self.c * self.x / w
        dz = z * (change.log_c - change.log_w) + self.c * moved / w
        return moved, _welfare_rate(self.term, z, w, dz, w * change.log_w, change.alpha)

    def range(self, kind: str, at: Index, side: int) -> float:
        """The largest change in a direction for which the derivatives' equations hold."""
        try:
            kept = self.kernel.rates(self.change(kind, at, side))[1]
        except _NoDerivative:
            return np.nan
        if kept is None:
            return np.nan
        size = 0.1 if kind == "alpha" else self._size(kind, at)  # alpha may be 0, and has no size of its own
        good, step, bad = 0.0, 1e-2 * size, np.inf  # each solution starts from the last one of the same set
        # triple while the set stays, then bisect
        while good < FAR * size and (np.isinf(bad) or bad - good > 1e-9 * size):
            new = min(good + step, FAR * size) if np.isinf(bad) else (good + bad) / 2
            same = self._stays(kind, at, side * new, kept)
            if same is None:
                bad = new
            else:
                good, kept, step = new, same, 3 * step
        return side * (good if np.isfinite(bad) else np.inf)

    def _stays(self, kind: str, at: Index, by: float, kept: Any) -> Any:
        """The active set with one number changed, if it is the same; otherwise None."""
        if kind == "alpha":
            alpha = self._size(kind, at) + by
            return (
                None
                if alpha < 0
                else self.kernel.stays(self.instance, Term(1.0, Power(alpha), self.share), self.c, kept)
            )
        numbers = np.array(getattr(self.instance, KINDS[kind]), dtype=float)
        # of identical servers all change alike, so that they stay one row
        numbers[at] += by / (self.instance.counts[at[0]] if kind == "capacity" else 1)
        if not numbers[at] > 0:  # at 0 other users compete, or nobody runs
            return None
        instance = self.instance.replace(**{KINDS[kind]: numbers})
        if self.held or kind == "weight":
            return self.kernel.stays(instance, self.smooth, self.c, kept)
        here, now = self._log_slopes(self.slopes, kind, at, 1 if by > 0 else -1), elasticities(self.share, instance)
        # the share has kinks of its own: another ratio may be the largest there
        if ((self._log_slopes(now, kind, at, 1) != 0) != (here != 0)).any():
            return None
        return self.kernel.stays(instance, self.smooth, self.share.coefficients(instance), kept)


def _term(policy: Any, instance: Instance) -> tuple[Term, Objective]:
    """The only term of a policy's objective, and the objective; `OutOfDomain` if derivatives are not known."""
    name, objective = label(policy), getattr(policy, "objective", None)
    term = only_term(objective)
    if objective is None or term is None:
        raise OutOfDomain(f"{name} does not maximise a single objective over tasks, so its derivatives are not known")
    if policy.constraints:
        raise OutOfDomain(f"{name} has constraints, under which derivatives are not known; leave them out")
    if instance.derived.has_guarantees or instance.limits:
        what = "guarantees" if instance.derived.has_guarantees else "limits"
        raise OutOfDomain(f"{instance!r} has {what}, under which derivatives are not known; leave them out")
    if not term.is_simple and term.measure is None:
        raise OutOfDomain(
            f"derivatives of {objective} are not known; the objective must be one AlphaFair, concave "
            "FairnessEfficiency, Total, Leximin or MaxMin"
        )
    if term.measure is not None and not term.measure.concave:
        raise OutOfDomain(
            f"{term.measure} is not concave, and its optimum can jump; derivatives need the concave region"
        )
    return term, objective


@np.errstate(all="ignore")
def _welfare_rate(term: Term, z: Float, w: Float, dz: Float, dw: Float, d_alpha: float) -> float:
    """The rate of a term in natural units, from those of shares per weight, weights and alpha."""
    if term.is_smallest:
        # of several that are smallest together, the one that rises least is the smallest next
        return term.factor * float(dz[z <= z.min() * (1 + SAME)].min())
    return term.factor * term.kind.rate(z, w, dz, dw, d_alpha)


@dataclass(frozen=True)
class Purchase:
    """The gain from more of one resource: a row of `Sensitivity.purchases`.

    Attributes
    ----------
    name, server, resource, unit : str
        What is bought. The name is the resource, with the server if there are several; the unit is "unit" if the
        instance has none.
    leftover : float
        Unused units of it.
    tasks, welfare : float
        Gain in the number of tasks and in the objective's value per unit more, in a class of servers together.
    tasks_per_percent : float
        Gain in tasks per 1 % of the row's capacity.
    tasks_per_cost : float or None
        Gain in tasks per unit of cost; None without costs.
    up_to : float
        Units up to which the same resources stay full; infinite if always, NaN if not known.
    losers : tuple of str
        Users who lose tasks.
    reason : str
        Why there is no rate; empty if there is one.
    lead_units, lead_per_percent, lead_per_cost : float or None
        The same three for the units of the resource that leads in use by tasks; None if none leads.
    rate_by, up_to_by : str
        How the rate and ``up_to`` were found: "derivative" and "active set". ``fairopt buy`` solves again where these
        are not known ("answers"): the rate is then that of 1 % more, and ``up_to`` is where the gain differs from the
        rate by 1 %.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.MostTasks().allocate(fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"]))
    >>> best = fo.sensitivity(a).purchases()[0]
    >>> best.name, round(best.tasks, 4), round(best.up_to, 4)
    ('memory', 0.1818, 18.0)
    """

    name: str
    server: str
    resource: str
    unit: str
    leftover: float
    tasks: float
    welfare: float
    tasks_per_percent: float
    tasks_per_cost: float | None
    up_to: float
    losers: tuple[str, ...]
    reason: str
    rate_by: str = "derivative"
    up_to_by: str = "active set"
    lead_units: float | None = None
    lead_per_percent: float | None = None
    lead_per_cost: float | None = None

    @property
    def rate(self) -> float:
        """The order of purchases: tasks, or units of the resource that leads, per unit of cost or 1 % of capacity."""
        if self.lead_per_percent is not None:
            return self.lead_per_percent if self.lead_per_cost is None else self.lead_per_cost
        return self.tasks_per_percent if self.tasks_per_cost is None else self.tasks_per_cost

    @property
    def order(self) -> tuple[float, float]:
        """The key by which purchases are sorted, the best first; tasks decide between equal gains of what leads."""
        return (np.inf, 0.0) if self.reason else (-self.rate, -self.tasks_per_percent)


class Sensitivity:
    """Derivatives by capacities, demands, weights and alpha; made by `sensitivity`.

    Attributes
    ----------
    allocation : Allocation
        The allocation.
    held : bool
        Whether coefficients of shares are fixed.
    time_limit : float, optional
        Seconds for all derivatives and ranges together.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"], units={"memory": "GiB"})
    >>> s = fo.sensitivity(fo.GFJ(2).allocate(cluster))
    >>> s.capacities.total.round(4), s.alpha.tasks.round(4)
    (array([[0.5774, 0.    ]]), array([-0.5736,  0.1912]))
    """

    def __init__(self, allocation: Allocation, held: bool = False, time_limit: float | None = None) -> None:
        self.allocation, self.held = allocation, held
        self._analysis = Analysis(allocation, held, checked(time_limit))

    @cached_property
    def capacities(self) -> Derivatives:
        """Derivatives by each capacity; for identical server rows, ranges are of a change spread over them."""
        return self._analysis.derivatives("capacity")

    @cached_property
    def demands(self) -> Derivatives:
        """Derivatives by each demand; NaN where it is 0."""
        return self._analysis.derivatives("demand")

    @cached_property
    def weights(self) -> Derivatives:
        """Derivatives by each weight, the other weights fixed."""
        return self._analysis.derivatives("weight")

    @cached_property
    def alpha(self) -> Derivatives:
        """Derivatives by alpha of `AlphaFair`, and by beta of an alpha-fair `FairnessEfficiency`; NaN for others."""
        return self._analysis.derivatives("alpha")

    def purchases(self, costs: Mapping[str, float] | None = None, lead: str | None = None) -> tuple[Purchase, ...]:
        """The gain from more of each resource on each server row, the best first.

        Parameters
        ----------
        costs : dict of float by resource, optional
            The cost of a unit. The order is then by tasks per cost, for these resources; otherwise by tasks per 1 %
            of the capacity, since units of different resources cannot be compared.
        lead : str, optional
            The resource of which more shall be in use, such as ``"gpu"``: the order is then by its units that tasks
            use, and not by tasks.

        Returns
        -------
        tuple of Purchase
            One for each server row and resource.

        Raises
        ------
        InvalidBlock
            If a resource is unknown, or a cost is not a positive number.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"])
        >>> s = fo.sensitivity(fo.MostTasks().allocate(cluster))
        >>> [(p.resource, round(p.tasks_per_cost, 3)) for p in s.purchases({"cpu": 10, "memory": 2})]
        [('memory', 0.091), ('cpu', 0.027)]
        >>> [(p.resource, round(p.lead_units, 3)) for p in s.purchases(lead="cpu")]
        [('cpu', 1.0), ('memory', 0.0)]
        """
        instance, by_capacity = self.allocation.instance, self.capacities
        leading = None if lead is None else instance.resource_index(whole_name(lead, instance.resources))
        checked = None if costs is None else checked_costs(costs, instance)
        room = instance.capacities * instance.counts[:, None]
        units = instance.units or ("",) * instance.n_resources
        none = NOISE * float(self.allocation.tasks.sum())  # a gain by doubling the capacity that counts as none
        rows = []
        for s, i in np.ndindex(room.shape):
            resource = instance.resources[i]
            if checked is not None and resource not in checked:
                continue
            gain = float(by_capacity.total[s, i])
            gain = 0.0 if abs(gain) * room[s, i] <= none else gain  # noise would name a resource to buy
            losers = np.flatnonzero(by_capacity.tasks[:, s, i] * room[s, i] < -none)
            more = None if leading is None else self._used(leading, by_capacity.tasks[:, s, i], float(room[s, i]))
            rows.append(
                Purchase(
                    _name(instance, s, i),
                    instance.servers[s],
                    resource,
                    units[i] or "unit",
                    float(self.allocation.leftover[s, i]),
                    gain,
                    float(by_capacity.welfare[s, i]),
                    gain * float(room[s, i]) / 100,
                    None if checked is None else gain / checked[resource],
                    float(by_capacity.upper[s, i]),
                    tuple(instance.users[j] for j in losers),
                    str(by_capacity.reason[s, i]),
                    lead_units=more,
                    lead_per_percent=None if more is None else more * float(room[s, i]) / 100,
                    lead_per_cost=None if more is None or checked is None else more / checked[resource],
                )
            )
        return tuple(sorted(rows, key=lambda row: row.order))

    def _used(self, leading: int, tasks: Float, room: float) -> float:
        """More units of a resource in use for some rates of tasks; 0 within rounding."""
        allocation = self.allocation
        used, now = float(tasks @ allocation.instance.demands[:, leading]), allocation.task_usage[:, leading].sum()
        return 0.0 if abs(used) * room <= NOISE * now else used

    def advice(self, costs: Mapping[str, float] | None = None, lead: str | None = None) -> str:
        """Which resource to buy next, in a sentence or two.

        Parameters
        ----------
        costs : dict of float by resource, optional
            As in `purchases`.
        lead : str, optional
            As in `purchases`.

        Returns
        -------
        str

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"], units={"memory": "GiB"})
        >>> print(fo.sensitivity(fo.GFJ(2).allocate(cluster)).advice())
        Buy cpu: 0.5774 tasks more per unit, up to 1.744 units. memory: no tasks more (2.921 GiB left over).
        """
        return advised(self.purchases(costs, lead), self.allocation.instance, costs is not None, lead)

    def to_frame(self, by: str = "capacity") -> pd.DataFrame:
        """A pandas frame with a row per number, or per user.

        Parameters
        ----------
        by : {"capacity", "demand", "weight", "alpha", "user"}, default "capacity"
            The first four have the columns ``total``, ``welfare``, ``total_left``, ``welfare_left``, ``lower``,
            ``upper`` and ``reason`` of `Derivatives`; ``user`` has the derivatives of each user's tasks by each
            capacity, its own weight, and alpha.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        InvalidBlock
            If ``by`` is none of these.
        MissingExtra
            Without pandas.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[40, 8], [8, 5]], [200, 200], resources=["cpu", "memory"]))
        >>> fo.sensitivity(a).to_frame(by="user").round(4).to_dict("index")["user1"]
        {'tasks': 2.5, 'by cpu': 0.0125, 'by memory': 0.0, 'by own weight': 1.25, 'by alpha': nan}
        """
        views = (*KINDS, "user")
        if by not in views:
            raise InvalidBlock(f"no table by {by!r}; {nearest(by, views)}")
        pd = pandas()
        instance = self.allocation.instance
        if by == "user":
            columns = {"tasks": self.allocation.tasks}
            for s, i in np.ndindex(instance.capacities.shape):
                columns[f"by {_name(instance, s, i)}"] = self.capacities.tasks[:, s, i]
            columns["by own weight"] = np.diagonal(self.weights.tasks)
            columns["by alpha"] = self.alpha.tasks
            return pd.DataFrame(columns, index=pd.Index(instance.users, name="user"))
        numbers = ("total", "welfare", "total_left", "welfare_left", "lower", "upper", "reason")
        data = {name: np.ravel(getattr(getattr(self, KINDS[by]), name)) for name in numbers}
        if by in ("weight", "alpha"):
            labels, name = (instance.users, "user") if by == "weight" else (("alpha",), "parameter")
            return pd.DataFrame(data, index=pd.Index(labels, name=name))
        outer, name = (instance.servers, "server") if by == "capacity" else (instance.users, "user")
        return pd.DataFrame(data, pd.MultiIndex.from_product([outer, instance.resources], names=[name, "resource"]))

    def plot(self, kind: str = "purchases", *, ax: Any = None, costs: Mapping[str, float] | None = None) -> Any:
        """Draw the gain from more of each resource; needs the extra ``plots``.

        Parameters
        ----------
        kind : {"purchases"}
            The only picture.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. Default: a new figure.
        costs : dict of float by resource, optional
            As in `purchases`: bars are then tasks per unit of cost, otherwise per 1 % of the capacity.

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[40, 8], [8, 5]], [200, 200], resources=["cpu", "memory"]))
        >>> fo.sensitivity(a).plot().get_xlabel()
        'tasks per 1 % more capacity'
        """
        return later("fairopt.plots.gains:purchases")(self, kind, ax, costs)

    def __repr__(self) -> str:
        held = ", coefficients fixed" if self.held else ""
        return f"<Sensitivity of {label(self.allocation.policy)}{held}: {self.allocation.instance!r}>"


def sensitivity(allocation: Allocation, *, held: bool = False, time_limit: float | None = None) -> Sensitivity:
    """Derivatives of tasks, of their number and of welfare by capacities, demands, weights and alpha.

    They are those of the policy applied to the changed instance, where coefficients of shares change too, such as
    ``max_i d_ji / C_i`` of dominant shares. With ``held`` these are fixed, as in `Allocation.prices`, then the
    derivatives of the welfare by capacities.

    Parameters
    ----------
    allocation : Allocation
        By a policy without constraints, whose objective is `AlphaFair`, a concave `FairnessEfficiency`, `Total`,
        `Leximin` or `MaxMin`.
    held : bool, default False
        Fix the coefficients of shares.
    time_limit : float, optional
        Seconds for all derivatives and ranges together, which are computed on first use. Those that are not reached are
        NaN, with a reason.

    Returns
    -------
    Sensitivity

    Raises
    ------
    InvalidBlock
        If it is not an allocation.
    OutOfDomain
        For other policies and mechanisms, demands or shares that differ by server, user-defined shares unless ``held``,
        and allocations by `MaxMin` that are not leximin.
    OutOfTime
        If the time limit ends before the first derivative.

    Notes
    -----
    Derivatives by capacities are per unit more of a server row, with identical servers as one class, as in
    `Allocation.prices`. They follow from the optimality conditions with the active set fixed (Joe-Wong et al. 2013,
    eqs. 12 and 13). Where the active set is about to change, the two sides differ; a derivative that does not exist is
    NaN with a reason. For leximin on several servers both sides must agree, and demands have no derivatives. More
    capacity may lower the number of tasks, and with ``held=False`` also the welfare, since shares are relative to
    capacity.

    Examples
    --------
    More memory takes tasks from user2, who shares the cpu with user1:

    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"])
    >>> a = fo.DRF().allocate(cluster)
    >>> found = fo.sensitivity(a).capacities
    >>> found.tasks[:, 0].round(4)
    array([[ 0.1111,  0.1111],
           [ 0.2963, -0.037 ]])
    >>> fo.sensitivity(a, held=True).capacities.welfare.round(4), a.prices.round(4)
    (array([[0.0741, 0.    ]]), array([[0.0741, 0.    ]]))
    """
    if not isinstance(allocation, Allocation):
        raise InvalidBlock(
            f"sensitivity({type(allocation).__name__}): give an Allocation, such as fo.DRF().allocate(instance)"
        )
    if allocation.certificate.whole:
        raise OutOfDomain("whole tasks have no derivatives; allocate without integral")
    if allocation._jumps:
        raise OutOfDomain("tasks that are 0 or at least so many have no derivatives; leave MinTasks(or_zero=True) out")
    return Sensitivity(allocation, held, time_limit)


def advised(
    rows: Sequence[Purchase],
    instance: Instance,
    by_cost: bool,
    lead: str | None = None,
    names: Mapping[str, str] | None = None,
) -> str:
    """Advice on purchases, the best first; see `Sensitivity.advice`. ``names`` are other names of purchases."""
    names = names or {}
    known = [row for row in rows if not row.reason]  # the best first, as `Purchase.order` sorts
    if not known:
        return f"No rate is known: {rows[0].reason}." if rows else "There is nothing to buy."
    what = "tasks" if lead is None else without_vendor([lead])[0]
    out = [f"No resource alone {'brings more tasks' if lead is None else f'puts more {what} in use'}."]
    best = known[0]
    if best.rate > 0:
        about = "about " * (best.up_to_by != Purchase.up_to_by)
        end = ", range unknown" if np.isnan(best.up_to) else f", up to {about}{_units(best.up_to, best.unit)}"
        end = ", without end" if np.isinf(best.up_to) else end
        per = "" if best.tasks_per_cost is None else f" ({best.rate:.4g} per unit of cost)"
        gain = (
            f"{tasks_in_words(f'{best.tasks:.4g}')} more"
            if lead is None
            else f"{best.lead_units:.4g} {what} more in use"
        )
        name = names.get(best.name, best.name)
        out = [f"Buy {name}: {gain} per {best.unit}{per}{end}{_less(best.losers)}."]
    capacity = instance.total_capacities
    for row in known[best.rate > 0 :] if instance.n_servers == 1 else ():
        rest = row.leftover > SAME * capacity[instance.resource_index(row.resource)]
        left = f" ({_units(row.leftover, row.unit)} left over)" if rest else ""
        gain = "no tasks more" if row.tasks == 0 else f"{tasks_in_words(f'{row.tasks:.4g}')} per {row.unit}"
        if lead is not None:
            gain = f"{row.lead_units:.4g} {what} in use per {row.unit}" if row.lead_units else f"no {what} more in use"
        out.append(f"{names.get(row.name, row.name)}: {gain}{_less(row.losers)}{left}.")
    lowering = tuple(names.get(row.name, row.name) for row in known if row.rate < 0)
    if lowering:
        out.append(f"More {some(lowering)} lowers {'the number of tasks' if lead is None else f'{what} in use'}.")
    if not by_cost and sum(row.rate > 0 for row in known) > 1:
        out.append("(Compared per 1 % more of each; give costs to compare by these.)")
    return " ".join(out)


def checked_costs(costs: Mapping[str, float], instance: Instance) -> dict[str, float]:
    """Costs of a unit by resource; `InvalidBlock` for an unknown resource or a cost that is not a positive number."""
    if not isinstance(costs, Mapping):
        raise InvalidBlock(f"costs are {costs!r}; give a dict by resource, such as {{{instance.resources[0]!r}: 3}}")
    out = {}
    for given, cost in costs.items():
        resource = whole_name(given, instance.resources)
        if resource not in instance.resources:
            raise InvalidBlock(f"costs name an unknown resource {resource!r}; {nearest(resource, instance.resources)}")
        if not (isinstance(cost, (int, float, np.number)) and 0 < cost < np.inf):
            raise InvalidBlock(f"the cost of {resource!r} is {cost!r}; give a positive number per unit")
        out[resource] = float(cost)
    return out


def _name(instance: Instance, s: int, i: int) -> str:
    """A resource, with its server if there are several."""
    return instance.resources[i] + (f" on {instance.servers[s]}" if instance.n_servers > 1 else "")


def _units(amount: float, unit: str) -> str:
    word = unit.isalpha() and unit.islower() and len(unit) > 3 and not unit.endswith("s")  # cores, but not GiBs
    return f"{amount:.4g} {unit}{'s' * (word and amount != 1)}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _less(losers: tuple[str, ...]) -> str:
    return f", fewer tasks for {some(losers)}" if losers else ""
