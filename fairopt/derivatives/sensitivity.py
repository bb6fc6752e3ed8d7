"""Derivatives of an allocation by the data and by alpha, and which resource to buy next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.derivatives.analysis import KINDS, Analysis, Derivatives
from fairopt.derivatives.leximin import SAME
from fairopt.errors import InvalidBlock, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.instance.labels import whole_name
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import checked
from fairopt.runtime.display import label, without_vendor
from fairopt.runtime.lazy import later, pandas
from fairopt.runtime.tolerances import NOISE

if TYPE_CHECKING:
    import pandas as pd


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
        instance, found = self.allocation.instance, self.capacities
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
            gain = float(found.total[s, i])
            gain = 0.0 if abs(gain) * room[s, i] <= none else gain
            losers = np.flatnonzero(found.tasks[:, s, i] * room[s, i] < -none)
            more = None if leading is None else self._used(leading, found.tasks[:, s, i], float(room[s, i]))
            rows.append(
                Purchase(
                    _name(instance, s, i),
                    instance.servers[s],
                    resource,
                    units[i] or "unit",
                    float(self.allocation.leftover[s, i]),
                    gain,
                    float(found.welfare[s, i]),
                    gain * float(room[s, i]) / 100,
                    None if checked is None else gain / checked[resource],
                    float(found.upper[s, i]),
                    tuple(instance.users[j] for j in losers),
                    str(found.reason[s, i]),
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
        return later("fairopt.plots.purchase_bars:purchases")(self, kind, ax, costs)

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
    known = [row for row in rows if not row.reason]
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
        gain = f"{best.tasks:.4g} tasks more" if lead is None else f"{best.lead_units:.4g} {what} more in use"
        name = names.get(best.name, best.name)
        out = [f"Buy {name}: {gain} per {best.unit}{per}{end}{_less(best.losers)}."]
    capacity = instance.total_capacities
    for row in known[best.rate > 0 :] if instance.n_servers == 1 else ():
        rest = row.leftover > SAME * capacity[instance.resource_index(row.resource)]
        left = f" ({_units(row.leftover, row.unit)} left over)" if rest else ""
        gain = "no tasks more" if row.tasks == 0 else f"{row.tasks:.4g} tasks per {row.unit}"
        if lead is not None:
            gain = f"{row.lead_units:.4g} {what} in use per {row.unit}" if row.lead_units else f"no {what} more in use"
        out.append(f"{names.get(row.name, row.name)}: {gain}{_less(row.losers)}{left}.")
    lowering = tuple(names.get(row.name, row.name) for row in known if row.rate < 0)
    if lowering:
        out.append(f"More {some(lowering)} lowers {'the number of tasks' if lead is None else f'{what} in use'}.")
    if not by_cost and sum(row.rate > 0 for row in known) > 1:
        out.append("(Compared per 1 % more of each; give costs to compare by these.)")
    return " ".join(out).replace(": 1 tasks ", ": 1 task ")


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
