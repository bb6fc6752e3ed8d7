"""The answer: tasks, usage, shares, prices, and the certificate that proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairopt.certificate import Certificate
from fairopt.display import label
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.runtime.lazy import later

if TYPE_CHECKING:
    import pandas as pd

    from fairopt.derivatives.prices import LevelPrices

__all__ = ["Allocation", "ChangedByHand"]

Float = NDArray[np.float64]

CHANGED = " as changed by hand"
ROUNDING = 1e-12  # of a capacity: less left over is none


@dataclass(frozen=True, repr=False)
class ChangedByHand:
    """A policy whose problem was changed before `Policy.certify`: it names the answer, which another objective or other
    conditions made.

    Attributes
    ----------
    policy : Policy
        The policy that `Policy.certify` was called of.

    Examples
    --------
    >>> import cvxpy as cp, fairopt as fo
    >>> policy, pool = fo.MostTasks(), fo.Instance([[1], [1]], [2])
    >>> problem = policy.problem(pool)
    >>> changed = cp.Problem(problem.objective, [*problem.constraints, problem.var_dict["tasks"] <= 1])
    >>> _ = changed.solve(solver="HIGHS")
    >>> policy.certify(changed, pool).policy
    Policy(Total(Tasks()), name='most tasks') as changed by hand
    """

    policy: Any

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return label(self.policy) + CHANGED

    def __repr__(self) -> str:
        return repr(self.policy) + CHANGED


@dataclass(frozen=True, eq=False, repr=False)
class Allocation:
    """The tasks of each user on each server, with usage, shares, prices and the proof.

    Tasks are divisible unless whole ones were asked for. Usage, shares, prices and metrics are computed on first use.

    Attributes
    ----------
    instance : Instance
        The instance, as given.
    policy : Policy or other mechanism
        The policy that was solved; `ChangedByHand` of one whose problem was changed before `Policy.certify`.
    tasks_by_server : ndarray of shape (n_users, n_servers)
        Tasks of each user on each server row.
    certificate : Certificate
        The proof that the tasks are feasible and optimal.
    objective : float
        Value of the objective in natural units (of the first level, for `Leximin` and tiers).
    evidence_prices : ndarray of shape (n_servers, n_resources) or None
        Dual values that the proof uses, per natural unit; not always derivatives, as `prices` are.
    given_bundles : ndarray of shape (n_users, n_servers, n_resources) or None
        What users hold, where the policy decides bundles; otherwise `bundles` follow from tasks.
    evidence : tuple of dict
        Prices, levels and multipliers that the certificate was made from, by tier.
    placement : ndarray of shape (n_users, number of servers) or None
        Of whole tasks: how many run on each individual server, in the order of `Instance.individual`.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> a = fo.DRF().allocate(cluster)
    >>> a.tasks
    array([ 2.5, 12.5])
    >>> a.usage
    array([[200. ,  82.5,  32.5]])
    """

    instance: Instance
    policy: Any
    tasks_by_server: Float
    certificate: Certificate
    objective: float
    evidence_prices: Float | None = None
    given_bundles: Float | None = field(default=None)
    evidence: tuple[Any, ...] = ()
    placement: Float | None = field(default=None)

    def __post_init__(self) -> None:
        # no change after the certificate
        for name in ("tasks_by_server", "evidence_prices", "given_bundles", "placement"):
            if getattr(self, name) is not None:
                judged = np.asarray(getattr(self, name)).view()
                judged.flags.writeable = False
                object.__setattr__(self, name, judged)

    # -- derived on first use ---------------------------------------------------------------------------------

    @cached_property
    def tasks(self) -> Float:
        """Tasks of each user in total, shape (n_users,)."""
        return self.tasks_by_server[:, 0] if self.instance.n_servers == 1 else self.tasks_by_server.sum(axis=1)

    @cached_property
    def bundles(self) -> Float:
        """Units of each resource that each user holds on each server row, shape (n_users, n_servers, n_resources)."""
        if self.given_bundles is not None:
            return self.given_bundles
        return self.instance.per_server_demands * self.tasks_by_server[:, :, None]

    @cached_property
    def usage(self) -> Float:
        """Units that users hold on each server row, shape (n_servers, n_resources)."""
        return self.task_usage if self.given_bundles is None else self.given_bundles.sum(axis=0)

    @cached_property
    def task_usage(self) -> Float:
        """Units that tasks use, shape (n_servers, n_resources): equal to `usage` unless the policy decides bundles."""
        return used_by(self.instance, self.tasks_by_server)

    @cached_property
    def leftover(self) -> Float:
        """Units of each server row that no user holds, counts included, shape (n_servers, n_resources)."""
        return np.maximum(self.instance.capacities * self.instance.counts[:, None] - self.usage, 0.0)

    def share(self, block: Any) -> Float:
        """Shares of each user by any share block.

        Parameters
        ----------
        block : Share
            Any share, also one that the policy does not use.

        Returns
        -------
        ndarray of shape (n_users,)
            Zero for users with a task limit of 0.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[40, 8], [8, 5]], [200, 200], resources=["cpu", "memory"])
        >>> fo.DRF().allocate(cluster).share(fo.ResourceShare("memory"))
        array([0.1   , 0.3125])
        """
        if isinstance(block, type) or not hasattr(block, "coefficients"):  # shares are of a later room
            raise InvalidBlock(f"share({block!r}): give a share, such as DominantShare() or ResourceShare('cpu')")
        instance, part = self.instance, self._taking_part
        if len(part) == 0:
            return np.zeros(instance.n_users)
        some = instance if len(part) == instance.n_users else instance._taking_part(part)
        return self._shares_of(block.coefficients(some))

    @cached_property
    def shares(self) -> Float:
        """Shares of each user by the objective's first share (dominant shares where it names none)."""
        policy = self.policy.policy if isinstance(self.policy, ChangedByHand) else self.policy
        objective = getattr(policy, "objective", None)
        blocks = objective.share_blocks() if objective is not None else ()
        return self.share(blocks[0]) if blocks else self._dominant_shares

    @property
    def _dominant_shares(self) -> Float:
        c = self.instance.dominant_shares[self._taking_part]
        return self._shares_of(c[:, 0] if c.ndim == 2 and self.instance.n_servers == 1 else c)

    @cached_property
    def _taking_part(self) -> NDArray[np.intp]:
        """Indices of users with a task limit above 0; the shares of the others are 0."""
        return np.flatnonzero(self.instance.task_limits > 0)

    def _shares_of(self, per_task: Float) -> Float:
        """Shares of all users from those of one task, by user or by user and server, of those who take part."""
        rows, out = self.tasks_by_server[self._taking_part], np.zeros(self.instance.n_users)
        if per_task.ndim == 1:
            out[self._taking_part] = per_task * rows.sum(axis=1)
        else:
            may_run = self.instance.eligible[self._taking_part]
            out[self._taking_part] = (np.where(may_run, per_task, 0.0) * rows).sum(axis=1)
        return out

    # -- what capacities are worth ------------------------------------------------------------------------------

    @cached_property
    def _derivatives(self) -> tuple[Float, Float] | tuple[None, None]:
        """Prices from the right and from the left."""
        found = None if self.certificate.whole else later("fairopt.derivatives.prices:prices")(self)
        return (None, None) if found is None else found.times()

    @property
    def prices(self) -> Float | None:
        """Value of one more unit of each capacity, shape (n_servers, n_resources), or None where it is not known.

        The derivative of the objective (for `Leximin` of its first level, see `level_prices`; for tiers of the first)
        by the capacity of a server row, from the right: two resources that are full for the same users both have price
        0. Held fixed are the coefficients of shares, task limits, bounds on tasks (also of `SharingIncentive`), levels
        of other constraints and eligibility, so that a resource of which a server has none has price 0. Where `Reserve`
        keeps a fraction f free, ``1 - f`` of the unit can be used.

        Computed from the blocks, the instance and the tasks. For blocks of your own these are the dual values of the
        method if they satisfy the conditions of an optimum (then they lie between the derivatives from the right and
        from the left), and None otherwise, as for `FairnessEfficiency` where it is not concave, and for a problem that
        was changed before `Policy.certify`. Policies that decide bundles give the dual values of their proof;
        mechanisms without an objective have no prices, nor have whole tasks: their value jumps as capacities change.

        Examples
        --------
        >>> import fairopt as fo
        >>> tasks = fo.Policy(fo.MaxMin(fo.Tasks()))
        >>> a = tasks.allocate(fo.Instance([[4], [5]], [9], task_limits=[1, 2]))  # the limit of 1 is reached
        >>> a.prices, a.prices_left.round(4)
        (array([[0.]]), array([[0.1111]]))
        """
        return self._derivatives[0]

    @property
    def prices_left(self) -> Float | None:
        """Loss by one unit less of each capacity: `prices` from the left, equal to these where they are unique.

        Infinite where lower bounds need the whole capacity, so that less leaves no allocation.
        """
        return self._derivatives[1]

    @cached_property
    def level_prices(self) -> tuple[LevelPrices, ...] | None:
        """Prices of every level of a `Leximin`, from the lowest up; None for other objectives.

        Each has the ``level`` (share per weight), its ``users``, ``prices`` and ``prices_left``. The first level is
        often the task limit of one user, with prices of 0. Prices of later levels are negative where earlier levels
        rise at their cost.

        Also None where curved constraints bind (such as ``AlphaFair(1) >= v``), with non-linear constraints of your
        own, and beyond 3,000 full capacities or 1,000 levels that capacities decide.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance([[4, 1], [0, 1]], [4, 10]))
        >>> for found in a.level_prices:
        ...     print(found.level, found.users, found.prices)
        1.0 ('user1',) [[0.25 0.  ]]
        9.0 ('user2',) [[-0.25  1.  ]]
        """
        return None if self.certificate.whole else later("fairopt.derivatives.prices:level_prices")(self)

    @cached_property
    def share_prices(self) -> Float | None:
        """`prices` in shares per unit, to compare different notions; None where `prices` are.

        The derivative of the share that, equal for all users per weight, has the same value: for `AlphaFair` the
        weighted power mean of the shares per weight, for `Total` the total per weight, for `MaxMin` and `Leximin` the
        (first) level, for `OrderedWeighted` the value over the sum of its weights, for `FairnessEfficiency`
        ``(|f| / W)^(1 / lam) / W`` of the measure f and the sum W of weights (on its edge the power mean).

        Raises
        ------
        InvalidBlock
            For sums of objectives, objectives of your own, and those that decide bundles: no share has their value.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
        >>> for policy in (fo.DRF(), fo.FDS(2), fo.MostTasks()):
        ...     a = policy.allocate(cluster)
        ...     print(a.prices.round(4), a.share_prices.round(4))
        [[0.0025 0.     0.    ]] [[0.0025 0.     0.    ]]
        [[0.02 0.   0.  ]] [[0.0025 0.     0.    ]]
        [[0.125 0.    0.   ]] [[0.0625 0.     0.    ]]
        """
        return None if self.certificate.whole else later("fairopt.derivatives.prices:share_prices")(self)

    def metrics(self) -> dict[str, Any]:
        """Summary numbers of the allocation.

        Returns
        -------
        dict
            ``ntt`` (number of tasks), ``aur`` (units left over, summed over all resources as by Jiang and Wu 2021),
            ``jain`` (Jain's index of dominant shares per weight), ``smallest_dominant_share`` (per weight, of users
            with a task limit above 0), and by resource ``utilisation`` (the fraction of all capacity that users hold)
            and ``utilisation_of_tasks`` (the fraction that tasks use, less where the policy decides bundles), NaN
            where the capacity is 0.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
        >>> a.metrics()["ntt"], a.metrics()["aur"]
        (15.0, 285.0)
        """
        instance = self.instance
        dominant = (self._dominant_shares / instance.weights)[self._taking_part]
        squares = float((dominant**2).sum())
        room = instance.capacities * instance.counts[:, None]

        def part_of_total(used: Float) -> dict[str, float]:
            part = part_of_capacity(used.sum(axis=0), instance.total_capacities)
            return dict(zip(instance.resources, part.tolist(), strict=True))

        return {
            "ntt": float(self.tasks.sum()),
            "aur": float(np.where(self.leftover > ROUNDING * room, self.leftover, 0.0).sum()),
            "jain": float(dominant.sum() ** 2 / (len(dominant) * squares)) if squares > 0 else 1.0,
            "smallest_dominant_share": float(dominant.min(initial=np.inf)) if len(dominant) else 0.0,
            "utilisation": part_of_total(self.usage),
            "utilisation_of_tasks": part_of_total(self.task_usage),
        }

    # -- tables and pictures ----------------------------------------------------------------------------------

    def to_frame(self, by: str = "user") -> pd.DataFrame:
        """A pandas frame with a row per user, per server, or per user and server.

        Parameters
        ----------
        by : {"user", "server", "placement"}, default "user"
            The rows, with these columns:

            * ``user``: ``weight``, ``task limit``, ``tasks``, ``share`` (the objective's first), ``dominant share``,
              the units held of each resource, and ``share of <resource>``, the fraction of all its capacity;
            * ``server``: ``type`` (where the instance has types), ``servers`` (the count), ``tasks``, the units held,
              ``capacity of <resource>``, ``used <resource>`` (the fraction held) and, where they are known, ``price of
              <resource>`` and, where `prices_left` differ, ``price of <resource>, one less``;
            * ``placement``: ``tasks`` and the units held, of each user on each server where it holds some; of whole
              tasks on each individual server.

        Returns
        -------
        pandas.DataFrame
            By label. Where the instance has units, columns are named as ``memory (GiB)`` and prices as ``price of
            memory (per GiB)``. Where the policy decides bundles, ``<resource> of tasks`` is what tasks use. Fractions
            of a capacity of 0 are NaN.

        Raises
        ------
        InvalidBlock
            If ``by`` is none of these.
        MissingExtra
            Without pandas.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 4], [2, 2]], [10, 16], resources=["cpu", "memory"], units={"memory": "GiB"})
        >>> frame = fo.DRF().allocate(cluster).to_frame()
        >>> list(frame)[-4:]
        ['cpu', 'memory (GiB)', 'share of cpu', 'share of memory']
        """
        return later("fairopt.report.frames:frame")(self, by)

    def plot(self, kind: str = "shares", *, ax: Any = None, users: Any = None, resources: Any = None) -> Any:
        """Draw the allocation; needs the extra ``plots``.

        Parameters
        ----------
        kind : str, default "shares"
            ``shares`` of each resource by user (as in Figs. 2 and 7 of Jiang and Wu 2021); ``dominant`` shares, sorted;
            ``utilisation`` or ``prices`` by class of servers; the ``envy`` matrix; ``demands`` in the plane of two
            resources, or the ``region`` of tasks that two users can run (as in Fig. 2 of Joe-Wong et al. 2013); tasks
            and use by ``types`` of server.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on; for ``types`` a sequence of one for tasks and one for each resource. Default: a new
            figure.
        users, resources : (str, str), optional
            The two users of ``region``, and the two resources of ``demands``, where there are more.

        Returns
        -------
        matplotlib.axes.Axes
            For ``types`` a Figure.

        Examples
        --------
        >>> import fairopt as fo
        >>> axes = fo.DRF().allocate(fo.Instance([[40, 8], [8, 5]], [200, 200])).plot("utilisation")
        >>> axes.figure.savefig("utilisation.png")  # doctest: +SKIP
        """
        return later("fairopt.plots:draw")(self, kind, ax, users, resources)

    def __repr__(self) -> str:
        name = label(self.policy)
        shown = np.array2string(self.tasks, precision=4, threshold=6, edgeitems=3)
        return f"<Allocation by {name} of {self.instance!r}: tasks {shown}; {self.certificate}>"

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.pages:allocation_page")(self)

    # -- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, evidence: bool = True) -> Path:
        """Write the allocation with its instance, certificate and evidence, as JSON or (``.parquet``) Parquet.

        Parameters
        ----------
        path : str or Path
            A name that ends in ``.json`` or ``.parquet``.
        evidence : bool, default True
            Whether to write the evidence by which `load` judges the allocation again and `verify` proves it without a
            solver. Without it files of large answers are smaller, and `load` solves once more. A policy is never
            solved to save its answer: one that has no evidence, such as of `Policy.certify` under further constraints,
            is saved without. Where the evidence of a small answer leaves `verify` a gap above 2.5e-7, linear programs
            at its tasks give closer multipliers.

        Returns
        -------
        Path

        Warns
        -----
        UserWarning
            If its problem was changed by hand: of such a file only that the tasks fit can be proved.

        Raises
        ------
        InvalidInstance
            If the name ends otherwise.
        OSError
            If it cannot be written there.
        MissingExtra
            For Parquet without pyarrow.

        Examples
        --------
        >>> import pathlib, tempfile, fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
        >>> file = a.save(pathlib.Path(tempfile.mkdtemp()) / "drf.json")
        >>> fo.Allocation.load(file).tasks
        array([ 2.5, 12.5])
        """
        return later("fairopt.reading:save")(self, Path(path), evidence)

    @classmethod
    def load(cls, path: str | Path, policy: Any = None) -> Allocation:
        """Read a file of `save`. Nothing in it is executed, and its certificate is made again.

        Parameters
        ----------
        path : str or Path
            A file that `save` wrote.
        policy : Policy or other mechanism, optional
            The policy of the file, needed to certify answers where it has blocks of your own. It must have the same
            text as that in the file.

        Returns
        -------
        Allocation
            ``policy`` is rebuilt from blocks of fairopt; a policy with blocks of your own that is not given stays text.

        Raises
        ------
        InvalidInstance
            If the file is not one of `save`, or its numbers contradict each other.

        Examples
        --------
        >>> import pathlib, tempfile, fairopt as fo
        >>> a = fo.FDS(1).allocate(fo.Instance([[2, 3], [2, 1]], [6, 4]))
        >>> loaded = fo.Allocation.load(a.save(pathlib.Path(tempfile.mkdtemp()) / "fds.json"))
        >>> loaded.policy, loaded.certificate.ok
        (Policy(AlphaFair(1), name='FDS(alpha=1)'), True)
        """
        return later("fairopt.reading:load")(Path(path), policy)


def used_by(instance: Instance, tasks_by_server: Float) -> Float:
    """Units that tasks by user and server use on each server row, shape (n_servers, n_resources)."""
    if instance.demands.ndim == 2:
        return tasks_by_server.T @ instance.demands
    return np.einsum("jsi,js->si", instance.demands, tasks_by_server)


def held_units(allocation: Allocation, chosen: Sequence[int] | None = None) -> Float:
    """Units that the chosen users (or all) hold, shape (n_chosen, n_resources), by server only where demands differ."""
    rows = slice(None) if chosen is None else list(chosen)
    if allocation.given_bundles is None and allocation.instance.demands.ndim == 2:
        return allocation.instance.demands[rows] * allocation.tasks[rows, None]
    return allocation.bundles[rows].sum(axis=1)


def part_of_capacity(units: Float, capacity: Float, of_nothing: float = np.nan) -> Float:
    """Units over capacity; another number, by default NaN, where the capacity is 0."""
    return np.divide(units, capacity, out=np.full(units.shape, of_nothing), where=capacity > 0)


def feasibility(instance: Instance, tasks_by_server: Float, usable: Float | float = 1.0) -> float:
    """Largest relative violation of capacities, task limits, eligibility and sign; infinity where a number is NaN.

    Of each resource's capacities only a part may be ``usable``, (n_resources,).
    """
    if not np.isfinite(tasks_by_server).all():
        return float("inf")
    if instance.n_users == 0:
        return 0.0
    used = used_by(instance, tasks_by_server)
    capacity = instance.capacities * instance.counts[:, None] * usable
    over = np.divide(used - capacity, capacity, out=np.where(used > 0, np.inf, 0.0), where=capacity > 0)
    worst = float(over.max(initial=0.0))
    total, limits = tasks_by_server.sum(axis=1), instance.task_limits
    beyond = total > limits
    if beyond.any():
        most = limits[beyond]
        excess = np.divide(total[beyond] - most, most, out=np.full(len(most), np.inf), where=most > 0)
        worst = max(worst, float(excess.max()))
    if instance._everywhere and tasks_by_server.min() >= 0:
        return worst
    size = np.where(total > 0, total, 1.0)[:, None]
    misplaced = np.where(instance.eligible, np.maximum(-tasks_by_server, 0.0), np.abs(tasks_by_server)) / size
    return max(worst, float(misplaced.max(initial=0.0)))


def holdings_violation(instance: Instance, bundles: Float) -> float:
    """Largest excess of what users hold over a capacity, relative to it.

    Infinity for bundles that are negative, of a capacity of 0, or where the user may not run.
    """
    room = instance.capacities * instance.counts[:, None]
    misplaced = ~instance.eligible[:, :, None] | (room == 0)
    if not (np.isfinite(bundles).all() and (bundles >= 0).all()) or (bundles[misplaced] > 0).any():
        return float("inf")
    held = bundles.sum(axis=0)
    return float(np.divide(held - room, room, out=np.zeros_like(room), where=room > 0).max(initial=0.0))
