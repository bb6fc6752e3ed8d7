"""Derivatives of an allocation by the data and by alpha, and which resource to buy next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.accessor import later
from fairopt.allocation import Allocation
from fairopt.blocks.algebra import Tiers
from fairopt.blocks.base import is_ours
from fairopt.blocks.efficiency import FairnessEfficiency, single_term
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Objective, Total
from fairopt.blocks.shares import DominantShare, Share
from fairopt.errors import InvalidBlock, MissingExtra, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.tradeoff.active_set import ActiveSet, Change, NoRate
from fairopt.tradeoff.coefficients import elasticities
from fairopt.tradeoff.filling import LIMIT, Filled, Flow, fill

__all__ = ["Derivatives", "Purchase", "Sensitivity", "sensitivity"]

Float = NDArray[np.floating[Any]]

KINDS = ("capacity", "demand", "weight", "alpha")
SAME = 1e-6  # relative difference of shares that are tied for the smallest, and of derivatives from both sides
NOISE = 1e-9  # of the largest rate: shown as none
ZERO = "it is 0, and a positive number would change who competes for what"


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives by every number of one kind: one more unit (and, where named ``_left``, one less, as a loss).

    Attributes
    ----------
    kind : str
        ``capacity`` (by server row, in total, and resource), ``demand`` (by user and resource), ``weight`` (by user) or
        ``alpha``; the shapes below call its shape ``...``: (n_servers, n_resources), (n_users, n_resources),
        (n_users,) or ().
    tasks, tasks_left : ndarray of shape (n_users, ...)
        Of each user's tasks.
    total, total_left : ndarray of shape (...)
        Of the number of tasks.
    welfare, welfare_left : ndarray of shape (...)
        Of the objective's value; of leximin the smallest share per weight.
    smallest, smallest_left : ndarray of shape (...)
        Of the smallest dominant share per weight.
    reason : ndarray of str of shape (...)
        Why derivatives are NaN; empty where they are not.

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
    total: Float
    total_left: Float
    welfare: Float
    welfare_left: Float
    smallest: Float
    smallest_left: Float
    reason: NDArray[np.str_]
    _find_range: Callable[[tuple[int, ...], int], float]

    @cached_property
    def upper(self) -> Float:
        """By how much each number may grow, until other resources are full, or other limits reached.

        Up to there the same equations give the allocation: its derivatives vary smoothly, and for leximin and totals
        it is a rational function of the number (linear in capacities if coefficients are held). Found by bisection to
        1e-9, with the conditions of the optimum satisfied at every number tried, not proved between them. Infinite
        beyond a million times the number; NaN where there is no derivative, on several servers for leximin, and where
        tasks can be placed in several ways.
        """
        return self._ranges(1)

    @cached_property
    def lower(self) -> Float:
        """By how much each number may shrink, as a number <= 0; see `upper`."""
        return self._ranges(-1)

    def _ranges(self, side: int) -> Float:
        out = np.empty(self.total.shape)
        for at in np.ndindex(out.shape):
            out[at] = self._find_range(at, side)
        return out


@dataclass(frozen=True)
class Purchase:
    """What more of one resource brings: a row of `Sensitivity.purchases`.

    Attributes
    ----------
    server, resource, unit : str
        What is bought; the unit is "unit" where the instance has none.
    capacity, leftover : float
        Units of the server row, and how many of them no user holds.
    tasks, welfare, smallest : float
        Gain per unit in the number of tasks, in the objective's value, and in the smallest dominant share per weight.
    tasks_per_percent : float
        Gain in tasks per 1 % of the row's capacity.
    cost, tasks_per_cost : float or None
        Cost of a unit, and gain in tasks per unit of cost; None without costs.
    up_to : float
        Units for which the same resources stay full; NaN where not known.
    losers : tuple of str
        Users whose tasks become fewer.
    reason : str
        Why there is no rate; empty where there is one.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.NoFairness().allocate(fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"]))
    >>> best = fo.sensitivity(a).purchases()[0]
    >>> best.resource, round(best.tasks, 4), round(best.up_to, 4)
    ('cpu', 0.2727, 45.0)
    """

    server: str
    resource: str
    unit: str
    capacity: float
    leftover: float
    tasks: float
    welfare: float
    smallest: float
    tasks_per_percent: float
    cost: float | None
    tasks_per_cost: float | None
    up_to: float
    losers: tuple[str, ...]
    reason: str


class Sensitivity:
    """What a change of capacities, demands, weights or alpha brings; made by `sensitivity`.

    Attributes
    ----------
    allocation : Allocation
        The allocation that changes.
    held : bool
        Whether coefficients of shares are held.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"], units={"memory": "GiB"})
    >>> s = fo.sensitivity(fo.GFJ(2).allocate(cluster))
    >>> s.capacities.total.round(4), s.alpha.total.round(4)
    (array([[0.3333, 0.    ]]), array(-0.5226))
    """

    def __init__(self, allocation: Allocation, held: bool = False) -> None:
        self.allocation, self.held = allocation, held
        self._analysis = _Analysis(allocation, held)

    @cached_property
    def capacities(self) -> Derivatives:
        """Derivatives by each capacity; where server rows are alike, ranges are of a change spread over them."""
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
        """Derivatives by alpha of `AlphaFair`; NaN for other objectives."""
        return self._analysis.derivatives("alpha")

    def purchases(self, costs: Mapping[str, float] | None = None) -> tuple[Purchase, ...]:
        """What more of each resource on each server row brings, the best first.

        Parameters
        ----------
        costs : dict of float by resource, optional
            The cost of a unit. Then the order is by tasks per cost, of these resources only; otherwise by tasks per 1 %
            of the capacity, since units of different resources cannot be compared.

        Returns
        -------
        tuple of Purchase
            A row for each server row and resource.

        Raises
        ------
        InvalidBlock
            If a resource is unknown, or a cost is not a positive number.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"])
        >>> s = fo.sensitivity(fo.NoFairness().allocate(cluster))
        >>> [(p.resource, round(p.tasks_per_cost, 3)) for p in s.purchases({"cpu": 10, "memory": 2})]
        [('memory', 0.091), ('cpu', 0.027)]
        """
        instance, found = self.allocation.instance, self.capacities
        checked = _checked_costs(costs, instance)
        rows = []
        room = instance.capacities * instance.counts[:, None]
        units = instance.units or ("",) * instance.n_resources
        size = float(np.nan_to_num(np.abs(found.total * room)).max(initial=0.0))
        for s, i in np.ndindex(found.total.shape):
            resource = instance.resources[i]
            cost = None if checked is None else checked.get(resource)
            if checked is not None and cost is None:
                continue
            gain = float(found.total[s, i])
            gain = 0.0 if abs(gain) * room[s, i] <= NOISE * size else gain
            lose = found.tasks[:, s, i] < -NOISE * max(float(np.abs(found.tasks[:, s, i]).max()), 1e-300)
            rows.append(Purchase(
                instance.servers[s], resource, units[i] or "unit", float(room[s, i]),
                float(self.allocation.leftover[s, i]), gain, float(found.welfare[s, i]), float(found.smallest[s, i]),
                gain * float(room[s, i]) / 100, cost, None if cost is None else gain / cost,
                float(found.upper[s, i]), tuple(instance.users[j] for j in np.flatnonzero(lose)), str(found.reason[s, i]),
            ))  # fmt: skip

        def worth(row: Purchase) -> float:
            rate = row.tasks_per_percent if row.tasks_per_cost is None else row.tasks_per_cost
            return np.inf if np.isnan(rate) else -rate

        return tuple(sorted(rows, key=worth))

    def advice(self, costs: Mapping[str, float] | None = None) -> str:
        """Which resource to buy next, in a sentence or two.

        Parameters
        ----------
        costs : dict of float by resource, optional
            As in `purchases`.

        Returns
        -------
        str

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"], units={"memory": "GiB"})
        >>> print(fo.sensitivity(fo.GFJ(2).allocate(cluster)).advice())
        Buy cpu: 0.3333 tasks more per unit, up to 2.928 units. memory: no tasks more (2.921 GiB are left over).
        """
        rows = self.purchases(costs)
        several = self.allocation.instance.n_servers > 1
        known = [row for row in rows if not row.reason]
        if not known:
            return f"No rate is known: {rows[0].reason}." if rows else "There is nothing to buy."
        out, best = [], known[0]

        def name(row: Purchase) -> str:
            return row.resource + (f" on {row.server}" if several else "")

        if best.tasks > 0:
            end = f", up to {_units(best.up_to, best.unit)}" if np.isfinite(best.up_to) else ""
            per = "" if best.tasks_per_cost is None else f" ({best.tasks_per_cost:.4g} per unit of cost)"
            less = f", fewer tasks for {_some(best.losers)}" if best.losers else ""
            out.append(f"Buy {name(best)}: {best.tasks:.4g} tasks more per {best.unit}{per}{end}{less}.")
        else:
            out.append("No resource alone brings more tasks.")
        for row in () if several else known[best.tasks > 0 :]:
            rest = row.leftover if row.leftover > SAME * row.capacity else 0.0
            left = f" ({_units(rest, row.unit)} are left over)" if rest else ""
            fewer = f", fewer tasks for {_some(row.losers)}" if row.losers else ""
            gain = "no tasks more" if row.tasks == 0 else f"{row.tasks:.4g} tasks per {row.unit}"
            out.append(f"{name(row)}: {gain}{fewer}{left}.")
        lowering = [name(row) for row in known if row.tasks < 0]
        if lowering:
            out.append(f"More {_some(tuple(lowering))} lowers the number of tasks.")
        if costs is None and sum(row.tasks > 0 for row in known) > 1:
            out.append("(Compared per 1 % more of each; give costs to compare by these.)")
        return " ".join(out)

    def to_frame(self, by: str = "capacity") -> Any:
        """A pandas frame with a row per number, or per user.

        Parameters
        ----------
        by : {"capacity", "demand", "weight", "alpha", "user"}, default "capacity"
            Rows of the first four have the derivatives of `Derivatives` (``total``, ``welfare``, ``smallest``, those of
            one unit less, ``lower``, ``upper``, ``reason``); those by ``user`` have the derivatives of the user's tasks
            by each capacity, by its own weight, and by alpha.

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
        >>> fo.sensitivity(a).to_frame(by="weight")[["total", "lower"]].round(4)
               total  lower
        user
        user1  -5.00  -0.8
        """
        views = (*KINDS, "user")
        if by not in views:
            raise InvalidBlock(f"no table by {by!r}; {nearest(by, views)}")
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("pandas", "parquet", "to_frame()") from error
        instance = self.allocation.instance
        if by == "user":
            columns = {"tasks": self.allocation.tasks}
            for s, i in np.ndindex(instance.capacities.shape):
                name = instance.resources[i] + (f" on {instance.servers[s]}" if instance.n_servers > 1 else "")
                columns[f"by {name}"] = self.capacities.tasks[:, s, i]
            columns["by own weight"] = np.diagonal(self.weights.tasks)
            columns["by alpha"] = self.alpha.tasks
            return pd.DataFrame(columns, index=pd.Index(instance.users, name="user"))
        names = {"capacity": (instance.servers, instance.resources), "demand": (instance.users, instance.resources),
                 "weight": (instance.users,), "alpha": (["alpha"],)}[by]  # fmt: skip
        titles = {"capacity": ["server", "resource"], "demand": ["user", "resource"], "weight": ["user"]}
        index = pd.MultiIndex.from_product(names, names=titles.get(by, ["parameter"]))
        found = {"capacity": self.capacities, "demand": self.demands, "weight": self.weights, "alpha": self.alpha}
        numbers = ("total", "welfare", "smallest", "total_left", "welfare_left", "smallest_left", "lower", "upper")
        data = {name: np.ravel(getattr(found[by], name)) for name in (*numbers, "reason")}
        return pd.DataFrame(data, index=index if len(names) > 1 else index.get_level_values(0))

    def to_dict(self, costs: Mapping[str, float] | None = None) -> dict[str, Any]:
        """Advice and `purchases` as plain data, with None for what is not known or infinite.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[2, 1]], [8, 8]))
        >>> fo.sensitivity(a).to_dict()["purchases"][0]["tasks"]
        0.5
        """
        plain = [{k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in asdict(row).items()}
                 for row in self.purchases(costs)]  # fmt: skip
        return {"format": "fairopt.purchases/1", "policy": label(self.allocation.policy), "held": self.held,
                "advice": self.advice(costs), "purchases": plain}  # fmt: skip

    def plot(self, ax: Any = None, costs: Mapping[str, float] | None = None) -> Any:
        """Draw what more of each resource brings; needs the extra ``plots``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. Default: a new figure.
        costs : dict of float by resource, optional
            As in `purchases`: then bars are tasks per unit of cost, else per 1 % of the capacity.

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
        return later("Sensitivity.plot")(self, ax, costs)

    def __repr__(self) -> str:
        held = ", coefficients held" if self.held else ""
        return f"<Sensitivity of {label(self.allocation.policy)}{held}: {self.allocation.instance!r}>"


def sensitivity(allocation: Allocation, *, held: bool = False) -> Sensitivity:
    """Derivatives of tasks, of their number and of welfare by capacities, demands, weights and alpha.

    They are those of the policy applied again to the changed instance: of dominant shares, for example, the
    coefficients ``max_i d_ji / C_i`` change too. With ``held`` these stay as they are, as in `Allocation.prices`, which
    then are the derivatives of the welfare by capacities.

    Parameters
    ----------
    allocation : Allocation
        By a policy with one of the objectives `AlphaFair`, `FairnessEfficiency` where it is concave, `Total`, `Leximin`
        or `MaxMin`, and no constraints of its own.
    held : bool, default False
        Hold the coefficients of shares.

    Returns
    -------
    Sensitivity

    Raises
    ------
    OutOfDomain
        For other policies and mechanisms, demands that differ by server, shares of your own unless ``held``, and
        allocations by `MaxMin` that are not the leximin one.

    Notes
    -----
    From the optimality conditions (Joe-Wong et al. 2013, eqs. 12 and 13): what is full, used, or at a limit stays so.
    Where a condition is about to change, derivatives from both sides differ; where there is none, it is NaN with a
    reason. For leximin on several servers both sides must agree, and demands have no derivatives. More capacity may
    lower the number of tasks, and with ``held=False`` the welfare too, since shares are of capacity.

    Examples
    --------
    More memory takes tasks from user2, who shares the cpu with user1:

    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], resources=["cpu", "memory"])
    >>> a = fo.DRF().allocate(cluster)
    >>> found = fo.sensitivity(a).capacities
    >>> found.tasks[:, 0].round(4)
    array([[ 0.2 ,  0.1 ],
           [ 0.2667, -0.0333]])
    >>> fo.sensitivity(a, held=True).capacities.total.round(4), a.prices.round(4)
    (array([[0.5556, 0.    ]]), array([[0.0741, 0.    ]]))
    """
    return Sensitivity(allocation, held)


# -- how it is found ---------------------------------------------------------------------------------------------------


class _Analysis:
    """An allocation, the users who take part, identical servers merged, and what gives rates there."""

    def __init__(self, allocation: Allocation, held: bool) -> None:
        self.allocation, self.held, self.whole = allocation, held, allocation.instance
        objective = getattr(allocation.policy, "objective", None)
        self.term, self.factor = _term(allocation.policy, objective)
        if self.whole.demands.ndim == 3:
            raise OutOfDomain("demands differ by server, and derivatives are of tasks that take the same everywhere")
        self.part = np.flatnonzero(self.whole.task_limits > 0)
        self.share: Share = self.term.share  # type: ignore[attr-defined]
        self.instance = self._of(self.whole)
        self.c = self.share.coefficients(self.instance) if len(self.part) else np.zeros(0)
        self.slopes = elasticities(self.share, self.instance, held)
        self.mu_slopes = elasticities(DominantShare(), self.instance, held)
        if len(self.part):
            self.kernel: Any = self._kernel()

    def _of(self, whole: Instance) -> Instance:
        return whole.taking_part(self.part).merged()

    def _kernel(self) -> Any:
        tasks = self.whole.sum_by_class(self.allocation.tasks_by_server[self.part])
        if not isinstance(self.term, (Leximin, MaxMin)):
            smooth = ActiveSet(self.instance, single_term(_as_alpha(self.term)), self.c)
            try:
                smooth.start(tasks)
            except NoRate as error:
                raise OutOfDomain(f"{error}; solve the policy by another method") from error
            return smooth
        if self.instance.n_servers == 1:
            return _Pool(self, tasks[:, 0])
        return _Levels(self, tasks)

    def derivatives(self, kind: str) -> Derivatives:
        """Both sides of all derivatives by the numbers of a kind."""
        whole, n, at = self.whole, self.whole.n_users, self.part
        shape = {"capacity": self.instance.capacities.shape, "demand": (len(at), whole.n_resources),
                 "weight": (len(at),), "alpha": ()}[kind]  # fmt: skip
        tasks = np.zeros((2, len(at), *shape))
        sums = np.zeros((2, 3, *shape))
        reason = np.full(shape, "", dtype=object)
        for index in np.ndindex(shape):
            for k, side in enumerate((1, -1)) if len(at) else ():
                try:
                    found = self.rates(kind, index, side)
                    tasks[(k, slice(None), *index)] = side * found[0]
                    sums[(k, slice(None), *index)] = side * np.array(found[1])
                except NoRate as error:
                    tasks[(k, slice(None), *index)] = sums[(k, slice(None), *index)] = np.nan
                    reason[index] = reason[index] or str(error)
        places: Any = {"capacity": whole.server_classes, "demand": at, "weight": at, "alpha": ...}[kind]
        if kind == "capacity":
            tasks, sums, reason = tasks[:, :, places], sums[:, :, places], reason[places]
        elif kind != "alpha":  # users who take no part change nothing
            given, out = (tasks, sums, reason), []
            for values, before in zip(given, (2, 2, 0), strict=True):
                filled = np.zeros((*values.shape[:before], n, *values.shape[before + 1 :]), dtype=values.dtype)
                filled[(slice(None),) * before + (at,)] = values
                out.append(filled)
            tasks, sums, reason = out[0], out[1], np.where(out[2] == 0, "", out[2])
        every = np.zeros((2, n, *tasks.shape[2:]))
        every[:, at] = tasks
        to_part = {int(j): k for k, j in enumerate(at)}

        def find_range(index: tuple[int, ...], side: int) -> float:
            if kind == "capacity":
                index = (int(whole.server_classes[index[0]]), index[1])
            elif kind != "alpha":
                if index[0] not in to_part:
                    return side * np.inf
                index = (to_part[index[0]], *index[1:])
            return self.range(kind, index, side)

        right, left = sums + 0.0  # no negative zeros
        return Derivatives(
            kind, every[0] + 0.0, every[1] + 0.0, right[0], left[0], right[1], left[1], right[2], left[2],
            reason.astype(str), find_range,
        )  # fmt: skip

    def change(self, kind: str, index: tuple[int, ...], side: int) -> tuple[Change, Float]:
        """One number that grows or shrinks, and the rates of the logarithms of dominant shares."""
        instance = self.instance
        n = instance.n_users
        out = Change(np.zeros(instance.capacities.shape), np.zeros((n, instance.n_resources)), np.zeros(n), np.zeros(n),
                     float(side) if kind == "alpha" else 0.0)  # fmt: skip
        log_mu = np.zeros(n)
        if kind == "capacity":
            room = float(instance.capacities[index] * instance.counts[index[0]])
            if room == 0:
                raise NoRate("the server has none of it: " + ZERO)
            out.capacity[index] = side
            for logs, slopes in ((out.log_c, self.slopes), (log_mu, self.mu_slopes)):
                logs += side * (slopes.capacity if side > 0 else slopes.capacity_left)[:, index[0], index[1]] / room
        elif kind == "demand":
            if instance.demands[index] == 0:
                raise NoRate(ZERO)
            out.demand[index] = side
            for logs, slopes in ((out.log_c, self.slopes), (log_mu, self.mu_slopes)):
                of = slopes.demand if side > 0 else slopes.demand_left
                logs[index[0]] = side * of[index] / instance.demands[index]
        elif kind == "weight":
            out.log_w[index] = side / instance.weights[index]
        elif not isinstance(self.term, AlphaFair):
            raise NoRate(f"{type(self.term).__name__} has no alpha")
        elif self.term.alpha == 0 and (side < 0 or not (self.allocation.tasks[self.part] > 0).all()):
            raise NoRate("alpha is 0, and cannot be less" if side < 0 else "at alpha = 0 a user runs no tasks")
        return out, log_mu

    def rates(self, kind: str, index: tuple[int, ...], side: int) -> tuple[Float, tuple[float, float, float]]:
        """Rates of tasks, and of their number, welfare and the smallest dominant share, along a change."""
        change, log_mu = self.change(kind, index, side)
        moved = self.kernel.rates(change, kind in ("capacity", "demand"))[0]
        x, w = self.allocation.tasks[self.part], self.instance.weights
        z = self.c * x / w
        dz = z * (change.log_c - change.log_w) + self.c * moved / w
        mu = self.instance.dominant_shares
        y = mu * x / w
        dy = y * (log_mu - change.log_w) + mu * moved / w
        welfare = self.factor * _welfare_rate(self.term, z, w, dz, w * change.log_w, change.alpha)
        return moved, (float(moved.sum()), welfare, _smallest_rate(y, dy))

    def changed(self, kind: str, index: tuple[int, ...], by: float) -> Instance | None:
        """The instance with one number changed by an amount; None where the number is not positive any more."""
        whole = self.whole
        name, old = {"capacity": ("capacities", whole.capacities), "demand": ("demands", whole.demands),
                     "weight": ("weights", whole.weights), "alpha": ("", whole.weights)}[kind]  # fmt: skip
        if not name:
            return self.instance
        new = np.array(old, dtype=float)
        if kind == "capacity":
            rows = np.flatnonzero(whole.server_classes == index[0])
            new[rows, index[1]] += by / whole.counts[rows].sum()
            smallest = float(new[rows, index[1]].min())
        else:
            new[(self.part[index[0]], *index[1:])] += by
            smallest = float(new[(self.part[index[0]], *index[1:])])
        return self._of(whole.replace(**{name: new})) if smallest > 0 else None

    def range(self, kind: str, index: tuple[int, ...], side: int) -> float:
        """The largest change in a direction to which the derivatives' equations hold."""
        try:
            change, _ = self.change(kind, index, side)
            _, *kept = self.kernel.rates(change, kind in ("capacity", "demand"))
        except NoRate:
            return np.nan
        if not self.kernel.regular:
            return np.nan
        size = {"capacity": lambda: self.instance.capacities[index] * self.instance.counts[index[0]],
                "demand": lambda: self.instance.demands[index], "weight": lambda: self.instance.weights[index],
                "alpha": lambda: max(self.term.alpha, 1.0)}[kind]()  # type: ignore[attr-defined]  # fmt: skip
        size = float(size)
        good, kept, step, bad = 0.0, tuple(kept), 1e-2 * size, np.inf
        while abs(good) < 1e6 * size and (np.isinf(bad) or bad - abs(good) > 1e-9 * size):
            new = abs(good) + step if np.isinf(bad) else (abs(good) + bad) / 2
            found = self._stays(kind, index, side * new, kept)
            if found is None:
                bad = new
            else:
                good, kept, step = side * new, found, 3 * step
        return good if np.isfinite(bad) else side * np.inf

    def _stays(self, kind: str, index: tuple[int, ...], by: float, kept: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What is held at the changed number, if it is the same; else None."""
        instance, term = self.changed(kind, index, by), single_term(_as_alpha(self.term))
        if kind == "alpha":
            if term.alpha + by < 0:  # type: ignore[attr-defined]
                return None
            term = AlphaFair(term.alpha + by, self.share)  # type: ignore[attr-defined]
        if instance is None or instance.n_servers != self.instance.n_servers:
            return None
        c = self.c if self.held else self.share.coefficients(instance)
        if not self.held and kind in ("capacity", "demand"):
            now = elasticities(self.share, instance)
            if kind == "capacity":
                mine = self.slopes.capacity if by > 0 else self.slopes.capacity_left
                same = ((now.capacity != 0) == (mine != 0))[:, index[0], index[1]].all()
            else:
                same = (now.demand[index] > 0) == ((self.slopes.demand if by > 0 else self.slopes.demand_left)[index] > 0)
            if not same:
                return None
        found: tuple[Any, ...] | None = self.kernel.stays(instance, term, c, kept)
        return found


class _Pool:
    """Leximin on one pool, by water-filling with rates."""

    regular = True

    def __init__(self, analysis: _Analysis, tasks: Float) -> None:
        instance = analysis.instance
        self.limits, self.c = instance.task_limits, analysis.c
        self.flow = Flow(instance.weights / self.c, instance.demands, instance.total_capacities)
        if not np.allclose(fill(self.flow, self.limits).tasks, tasks, rtol=1e-4, atol=1e-6 * float(tasks.max())):
            raise OutOfDomain(
                "max-min leaves some tasks open, and these are not those of leximin; allocate by Leximin instead"
            )

    def rates(self, change: Change, moves: bool) -> tuple[Float, Filled]:
        """Rates of tasks along a change, and what holds each user."""
        log_speed = change.log_w - change.log_c
        flow = Flow(self.flow.speed * log_speed, change.demand, change.capacity.sum(axis=0))
        found = fill(self.flow, self.limits, flow)
        return found.rates, found

    def stays(self, instance: Instance, term: Objective, c: Float, kept: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What holds each user of another instance, if it is the same."""
        found = fill(Flow(instance.weights / c, instance.demands, instance.total_capacities), self.limits)
        return kept if (found.cause == kept[0].cause).all() else None


class _Levels:
    """Leximin on several servers, from the prices of its levels.

    A level rises by its prices times the capacity gained; a user whose tasks per level grow by a part gains as much as
    if its use of each row, by that part, were taken from the capacities.
    """

    regular = False

    def __init__(self, analysis: _Analysis, tasks: Float) -> None:
        allocation, instance = analysis.allocation, analysis.instance
        levels = allocation.level_prices
        if levels is None:
            raise OutOfDomain(
                "prices of the levels are not known on these servers: MaxMin leaves tasks open (allocate by Leximin), "
                "or there are too many full capacities"
            )
        first = np.unique(analysis.whole.server_classes, return_index=True)[1]
        self.prices = np.zeros((instance.n_users, *instance.capacities.shape))
        self.z, self.kink = np.ones(instance.n_users), False
        at = {analysis.whole.users[j]: k for k, j in enumerate(analysis.part)}
        for level in levels:
            self.kink |= not np.allclose(level.prices, level.prices_left, rtol=SAME, atol=SAME * level.level)
            mine = [at[user] for user in level.users if user in at]
            self.prices[mine], self.z[mine] = level.prices[first], level.level
        self.x = tasks.sum(axis=1)
        self.used = tasks[:, :, None] * instance.demands[:, None, :]
        self.free = self.x < instance.task_limits * (1 - SAME)

    def rates(self, change: Change, moves: bool) -> tuple[Float, None]:
        """Rates of tasks along a change."""
        if self.kink:
            raise NoRate("prices of more and of less capacity differ, and on several servers only these are known")
        if change.demand.any():
            raise NoRate("for leximin on several servers it depends on where tasks run, which is not unique in general")
        log_speed = np.where(self.free, change.log_w - change.log_c, 0.0)
        room = change.capacity - np.einsum("j,jsi->si", log_speed, self.used)
        rise = np.einsum("jsi,si->j", self.prices, room) / self.z
        return np.where(self.free, self.x * (rise + log_speed), 0.0), None


def _term(policy: Any, objective: Any) -> tuple[Objective, float]:
    """The only term of a policy's objective, and its factor; `OutOfDomain` where derivatives are not known."""
    name = label(policy)
    if not isinstance(objective, Objective) or isinstance(objective, Tiers):
        raise OutOfDomain(f"{name} does not maximise a single objective over tasks, so its derivatives are not known")
    if policy.constraints:
        raise OutOfDomain(f"{name} has constraints of its own, under which derivatives are not known; leave them out")
    terms = [(factor, term) for factor, term in objective.terms() if factor > 0]
    known = (AlphaFair, FairnessEfficiency, Total, Leximin, MaxMin)
    if len(terms) != 1 or not is_ours(terms[0][1]) or not isinstance(terms[0][1], known):
        raise OutOfDomain(
            f"derivatives of {objective!r} are not known; they are of one AlphaFair, concave FairnessEfficiency, Total, "
            "Leximin or MaxMin"
        )
    factor, term = terms[0]
    if isinstance(term, FairnessEfficiency) and not term.concave:
        raise OutOfDomain(f"{term!r} is not concave, and its optimum can jump; derivatives are of the concave region")
    return term, factor


def _as_alpha(term: Objective) -> Objective:
    """A total as alpha-fairness of alpha = 0."""
    plain = single_term(term)
    return AlphaFair(0, plain.share) if isinstance(plain, Total) else plain


def _welfare_rate(term: Objective, z: Float, w: Float, dz: Float, dw: Float, d_alpha: float) -> float:
    """Rate of an objective in natural units, from those of shares per weight, weights and alpha."""
    if isinstance(term, (Leximin, MaxMin)):
        return _smallest_rate(z, dz)
    with np.errstate(all="ignore"):
        if isinstance(term, FairnessEfficiency):
            q, b = 1 - term.beta, term.beta
            power, total = float((w * z**q).sum()), float(w @ z)
            log_power = float((dw * z**q + w * q * z ** (q - 1) * dz).sum()) / power
            f = (1 if b <= 1 else -1) * power ** (1 / b) * total ** (term.lam - q / b)
            return float(f * (log_power / b + (term.lam - q / b) * float(dw @ z + w @ dz) / total))
        if isinstance(term, Total):
            return float(dw @ z + w @ dz)
        alpha = term.alpha  # type: ignore[attr-defined]
        u = np.log(z) if alpha == 1 else z ** (1 - alpha) / (1 - alpha)
        out = float((w * z**-alpha * dz).sum()) + float(dw[dw != 0] @ u[dw != 0])
        if d_alpha:  # at alpha = 1 the value jumps from powers to logarithms
            each = w * z ** (1 - alpha) * (1 / (1 - alpha) - np.log(z)) / (1 - alpha) if alpha != 1 else np.array([np.nan])
            out += d_alpha * float(each.sum())
    return out if np.isfinite(out) else np.nan


def _smallest_rate(values: Float, rates: Float) -> float:
    """Rate of the smallest of some values."""
    return float(rates[values <= values.min() * (1 + SAME)].min())


def _checked_costs(costs: Mapping[str, float] | None, instance: Instance) -> dict[str, float] | None:
    if costs is None:
        return None
    out: dict[str, float] = {}
    for resource, cost in costs.items():
        if resource not in instance.resources:
            raise InvalidBlock(f"costs name an unknown resource {resource!r}; {nearest(resource, instance.resources)}")
        if not (isinstance(cost, (int, float, np.number)) and 0 < cost < np.inf):
            raise InvalidBlock(f"the cost of {resource!r} is {cost!r}; give a positive number per unit")
        out[resource] = float(cost)
    return out


def _units(amount: float, unit: str) -> str:
    return f"{amount:.4g} {unit + 's' * (amount != 1) if unit == 'unit' else unit}"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
