"""The answer: tasks, usage, shares, prices, and the certificate that proves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairopt.certificate import Certificate
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import label
from fairopt.runtime.extensions import moved
from fairopt.runtime.lazy import later
from fairopt.runtime.threads import one_thread
from fairopt.runtime.tolerances import GAP_TOLERANCE, ROUNDING

if TYPE_CHECKING:
    import pandas as pd

    from fairopt.derivatives.level_prices import LevelPrices
    from fairopt.exact.interval import ExactBounds
    from fairopt.questions.explanation import Explanation


CHANGED = " as changed by hand"


@dataclass(frozen=True, repr=False)
class ChangedByHand:
    """A policy whose problem was changed before `Policy.certify`; the answer is optimal for the changed problem.

    Attributes
    ----------
    policy : Policy
        The policy whose `certify` was called.

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
    """The tasks of each user on each server, with usage, shares, prices and the certificate.

    Tasks are divisible unless whole tasks were requested. Usage, shares, prices and metrics are computed on first use.

    Attributes
    ----------
    instance : Instance
        The instance, as given.
    policy : Policy or other mechanism
        The policy that was solved, or `ChangedByHand`.
    tasks_by_server : ndarray of shape (n_users, n_servers)
        Tasks of each user on each server row.
    certificate : Certificate
        The proof that the tasks are feasible and optimal.
    objective : float
        Value of the objective in natural units; for `Leximin` and tiers of the first level.
    evidence_prices : ndarray of shape (n_servers, n_resources) or None
        Dual values of the proof, per natural unit; unlike `prices` they need not be derivatives.
    given_bundles : ndarray of shape (n_users, n_servers, n_resources) or None
        Amounts that users hold if the policy decides bundles; otherwise `bundles` follow from tasks.
    evidence : tuple of dict
        Prices, levels and multipliers of the certificate, by tier.
    placement : ndarray of shape (n_users, number of servers) or None
        Whole tasks by individual server, in the order of `Instance.individual`.
    variables : mapping of str to ndarray
        Values of the variables that blocks added (`Model.variable`), by name; those without a name are called after
        their block.
    multipliers : mapping of str to ndarray
        Multipliers of the constraints of blocks and of `Model.require`, by their names there; where two blocks use a
        name, it is followed by the block. By how much the objective (for tiers the first) rises per unit by which an
        inequality is relaxed, at least 0; for an equation ``a == b`` per unit by which b rises. Dual values of the
        proof, which need not be derivatives if they are not unique. There are none of bounds on single users' tasks,
        cones, `EnvyFree` and `Leximin`, and none if the proof does not use them.
    exact_tasks : ndarray of `fractions.Fraction` of shape (n_users, n_servers) or None
        The tasks without rounding, of answers with ``exact=True``; ``tasks_by_server`` are their floats.
    exact_proof : dict or None
        What proves them, in fractions, as `save` writes it.

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
    variables: Mapping[str, Float] = field(default_factory=dict)
    multipliers: Mapping[str, Float] = field(default_factory=dict)
    exact_tasks: NDArray[np.object_] | None = field(default=None)
    exact_proof: Mapping[str, Any] | None = field(default=None)

    def __post_init__(self) -> None:
        # read-only, so that the certificate stays valid
        for name in ("tasks_by_server", "evidence_prices", "given_bundles", "placement", "exact_tasks"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _read_only(getattr(self, name)))
        for name in ("variables", "multipliers"):
            object.__setattr__(self, name, {key: _read_only(value) for key, value in getattr(self, name).items()})

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
    def exact_bundles(self) -> NDArray[np.object_] | None:
        """`bundles` in fractions, (n_users, n_servers, n_resources), of exact answers that decide bundles; else None.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.MLFDRS().allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]), exact=True)
        >>> print(*a.exact_bundles[0, 0], *a.exact_tasks[:, 0])
        18/11 81/5 18/11 9/5
        """
        proof = (self.exact_proof or {}).get("proof", ())
        bundles = next((entry["bundles"] for entry in proof if "bundles" in entry), None)
        if bundles is None:
            return None
        held = [Fraction(a) for of_user in bundles for row in of_user for a in row]
        return np.array(held, dtype=object).reshape(self.bundles.shape)

    @cached_property
    def usage(self) -> Float:
        """Units that users hold on each server row, shape (n_servers, n_resources)."""
        return self.task_usage if self.given_bundles is None else self.given_bundles.sum(axis=0)

    @cached_property
    def task_usage(self) -> Float:
        """Units that tasks use, shape (n_servers, n_resources); `usage` unless the policy decides bundles."""
        return used_by(self.instance, self.tasks_by_server)

    @cached_property
    def leftover(self) -> Float:
        """Units of each server row that no user holds, shape (n_servers, n_resources)."""
        return np.maximum(self.instance.capacities * self.instance.counts[:, None] - self.usage, 0.0)

    def share(self, block: Any) -> Float:
        """Shares of each user by any share block.

        Parameters
        ----------
        block : Share
            Any share.

        Returns
        -------
        ndarray of shape (n_users,), or (n_teams,) for `OfTeam`
            Zero for users with a task limit of 0, and for teams of such users. Teams are in the order in
            which they first appear in ``instance.teams``.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[40, 8], [8, 5]], [200, 200], resources=["cpu", "memory"])
        >>> fo.DRF().allocate(cluster).share(fo.ResourceShare("memory"))
        array([0.1   , 0.3125])
        """
        if isinstance(block, type) or not hasattr(block, "coefficients"):  # shares are in a later layer
            raise InvalidBlock(f"share({block!r}): give a share, such as DominantShare() or ResourceShare('cpu')")
        instance, part = self.instance, self._taking_part
        if len(part) == 0:
            return np.zeros(instance.n_users)
        some = instance if len(part) == instance.n_users else taking_part(instance, part)
        if block._is_plain:
            return self._shares_of(block.coefficients(some))
        numbers = block._numbers(some)
        values = dict(zip(block._names(some), numbers.above(self._shares_of(numbers.per_task)[part]), strict=True))
        return np.array([values.get(name, 0.0) for name in block._names(instance)])

    @cached_property
    def shares(self) -> Float:
        """Shares of each user by the objective's first share, of members by that of their team; dominant shares if it
        has none.
        """
        policy = self.policy.policy if isinstance(self.policy, ChangedByHand) else self.policy
        objective = getattr(policy, "objective", None)
        blocks = objective.share_blocks() if objective is not None else ()
        return self.share(blocks[0]._of_user) if blocks else self._dominant_shares

    @property
    def _dominant_shares(self) -> Float:
        c = self.instance.dominant_shares[self._taking_part]
        return self._shares_of(c[:, 0] if c.ndim == 2 and self.instance.n_servers == 1 else c)

    @cached_property
    def _taking_part(self) -> NDArray[np.intp]:
        """Indices of users with a positive task limit; the shares of the others are 0."""
        return np.flatnonzero(self.instance.task_limits > 0)

    def _shares_of(self, per_task: Float) -> Float:
        """Shares of all users from the coefficients of the active users, by user or by user and server."""
        rows, out = self.tasks_by_server[self._taking_part], np.zeros(self.instance.n_users)
        if per_task.ndim == 1:
            out[self._taking_part] = per_task * rows.sum(axis=1)
        else:
            may_run = self.instance.eligible[self._taking_part]
            out[self._taking_part] = (np.where(may_run, per_task, 0.0) * rows).sum(axis=1)
        return out

    # -- prices of capacities -----------------------------------------------------------------------------------

    @property
    def _jumps(self) -> bool:
        """Whether its value jumps as capacities change: of whole tasks, and of tasks that are 0 or at least so many."""
        return self.certificate.whole or any(
            getattr(block, "or_zero", False) is True for block in getattr(self.policy, "constraints", ())
        )

    @cached_property
    def _derivatives(self) -> tuple[Float, Float] | tuple[None, None]:
        """Prices from the right and from the left."""
        prices = None if self._jumps else later("fairopt.derivatives.prices:prices")(self)
        return (None, None) if prices is None else prices.times()

    @property
    def prices(self) -> Float | None:
        """The value of one more unit of each capacity, shape (n_servers, n_resources), or None if unknown.

        The right derivative of the objective by the capacity of a server row; for `Leximin` and tiers of the first
        level (see `level_prices`). If two resources are used up by the same users, both have price 0. Coefficients of
        shares, task limits, bounds on tasks (also of `SharingIncentive`), levels of other constraints and eligibility
        are held fixed, so a resource with capacity 0 on a server has price 0. Under `Reserve` of a fraction f, ``1 -
        f`` of the unit is usable.

        Prices are computed from the blocks, the instance and the tasks. For user-defined blocks they are the dual
        values of the method if these satisfy the optimality conditions (they then lie between the left and the right
        derivative), and None otherwise. They are also None for objectives of `OfTeam` or `Surplus`, for
        `FairnessEfficiency` if it is not concave, for a problem that was changed before `Policy.certify`, for
        mechanisms without an objective, and for whole tasks and ``MinTasks(..., or_zero=True)``, whose value jumps
        as capacities change. Policies that decide bundles give the dual values of their proof.

        Examples
        --------
        >>> import fairopt as fo
        >>> tasks = fo.Policy(fo.MaxMin(fo.Tasks()))
        >>> a = tasks.allocate(fo.Instance([[4], [5]], [9], task_limits=[1, 2]))  # user1 is at its limit
        >>> a.prices, a.prices_left.round(4)
        (array([[0.]]), array([[0.1111]]))
        """
        return self._derivatives[0]

    @property
    def prices_left(self) -> Float | None:
        """The loss from one unit less of each capacity: `prices` from the left, equal to these if prices are unique.

        Infinite if lower bounds need the whole capacity.
        """
        return self._derivatives[1]

    @cached_property
    def level_prices(self) -> tuple[LevelPrices, ...] | None:
        """Prices of every level of a `Leximin`, from the lowest up; None for other objectives.

        Each has the ``level`` (share per weight), its ``users``, ``prices`` and ``prices_left``. The first level is
        often the task limit of one user, with prices of 0. Prices of later levels are negative if earlier levels rise
        at their expense.

        Also None for `OfTeam` and `Surplus`, if curved constraints bind (such as ``AlphaFair(1) >= v``), with
        user-defined nonlinear constraints, and for more than 3,000 used-up capacities or 1,000 levels that capacities
        determine.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance([[4, 1], [0, 1]], [4, 10]))
        >>> for found in a.level_prices:
        ...     print(found.level, found.users, found.prices)
        1.0 ('user1',) [[0.25 0.  ]]
        9.0 ('user2',) [[-0.25  1.  ]]
        """
        return None if self._jumps else later("fairopt.derivatives.prices:level_prices")(self)

    @cached_property
    def binding_level(self) -> LevelPrices | None:
        """The lowest of `level_prices` that capacities determine; the first ones may be those of task limits.

        Tables and pictures of prices show those of this level. None where `level_prices` are, or if capacities
        determine none.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[1], [1], [1]], [10], task_limits=[2, None, None]))
        >>> a.prices, round(a.binding_level.level, 6), a.binding_level.users, a.binding_level.prices.round(6)
        (array([[0.]]), 0.4, ('user2', 'user3'), array([[0.05]]))
        """
        if self.prices is None:
            return None
        return next((found for found in self.level_prices or () if found.prices_left.any()), None)

    @property
    def _shown_prices(self) -> tuple[Float | None, Float | None]:
        """Prices for one unit more and less in tables and pictures: of the level that binds, if it is not the first."""
        if self.prices_left is None or self.prices_left.any() or self.binding_level is None:
            return self.prices, self.prices_left
        return self.binding_level.prices, self.binding_level.prices_left

    @cached_property
    def share_prices(self) -> Float | None:
        """`prices` in shares per unit, to compare different notions; None if `prices` are.

        The derivative of the share that has the same value when it is equal for all users, per weight: for `AlphaFair`
        the weighted power mean of the shares per weight, for `Total` the total per weight, for `MaxMin` and `Leximin`
        the (first) level, for `OrderedWeighted` the value divided by the sum of its weights, for `FairnessEfficiency`
        ``(|f| / W)^(1 / lam) / W`` of the measure f and the sum W of weights (the power mean where it equals
        alpha-fairness).

        Raises
        ------
        InvalidBlock
            For sums, user-defined objectives, and policies that decide bundles: no single share has their value.

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

    @cached_property
    def wanting_more(self) -> NDArray[np.bool_]:
        """Whether each user has fewer tasks than its limit, shape (n_users,).

        The least share of all users says little if one small user has all it asks for, so measures, frontiers and
        tables of prices look at these users.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[1], [1]], [9], task_limits=[2, None]))
        >>> a.tasks, a.wanting_more
        (array([2., 7.]), array([False,  True]))
        """
        return self.tasks < self.instance.task_limits * (1 - GAP_TOLERANCE)

    @property
    def _measured(self) -> NDArray[np.intp]:
        """Indices of the users of whom measures are taken: those who want more or, if nobody does, all active ones."""
        return np.flatnonzero(self.wanting_more) if self.wanting_more.any() else self._taking_part

    def metrics(self) -> dict[str, Any]:
        """Summary numbers of the allocation.

        Returns
        -------
        dict
            ``ntt`` (number of tasks), ``aur`` (unused units, summed over all resources as in Jiang and Wu 2021),
            ``jain`` (Jain's index of dominant shares per weight) and ``smallest_dominant_share`` (per weight), both of
            `wanting_more` users if there are any, else of all active ones, ``wanting_more`` (their number), and by
            resource ``utilisation`` (the fraction of total capacity that users hold) and
            ``utilisation_of_tasks`` (the fraction that tasks use), NaN for capacity 0.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.DRF().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
        >>> a.metrics()["ntt"], a.metrics()["aur"]
        (15.0, 285.0)
        """
        instance = self.instance
        dominant = (self._dominant_shares / instance.weights)[self._measured]
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
            "wanting_more": int(self.wanting_more.sum()),
            "utilisation": part_of_total(self.usage),
            "utilisation_of_tasks": part_of_total(self.task_usage),
        }

    def to_frame(self, by: str = "user") -> pd.DataFrame:
        """A pandas frame with one row per user, per team, per server, or per user and server.

        Parameters
        ----------
        by : {"user", "server", "placement"} or a label of users, default "user"
            The rows, with these columns:

            * ``user``: labels such as ``team``, ``weight`` (as given, before weights of teams are divided among their
              members), ``task limit``, ``guarantee`` (if any), ``tasks``, ``exact tasks`` (Fractions, if known; as
              text if very long), ``share`` (the objective's first), ``dominant share``, the units of each resource, and
              ``share of <resource>``, the fraction of its total capacity;
            * a label, such as ``team``: ``users`` (the number of members), ``weight``, ``dominant share`` of what they
              get together, the units and ``share of <resource>``;
            * both, if `Instance.held` is known: ``state`` (``over``, ``under`` or ``even``), ``held`` (tasks that run
              now), ``difference`` (held above the answer; 0 within rounding), ``waiting`` (below the task limit and
              not held), the units ``<resource> held``, ``<resource> difference`` and ``<resource> waiting``, and
              ``tasks`` of teams;
            * ``server``: ``type`` (if the instance has types), ``servers`` (the count), ``tasks``, the units,
              ``capacity of <resource>``, ``used <resource>`` (the fraction), ``price of <resource>`` if known, and
              ``price of <resource>, one less`` if `prices_left` differ;
            * ``placement``: ``tasks`` and the units, for each user and server with some; whole tasks by individual
              server.

        Returns
        -------
        pandas.DataFrame
            Indexed by label. Where a label or a resource has the name of another column, its column is
            ``weight (label)`` or ``tasks (resource)``. With units columns are named ``memory (GiB)`` and
            ``price of memory (per GiB)``. If the policy decides bundles, ``<resource> of tasks`` is the part that tasks
            use. Fractions of capacity 0 are NaN.

        Raises
        ------
        InvalidBlock
            If ``by`` is something else.
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

    def quotas(self, *given: Any, **options: Any) -> NoReturn:
        """Raise, whatever is ``given`` and the ``options`` are, the error that says where this is now; for one version.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.DRF().allocate(fo.Instance([[1]], [4])).quotas("csv")
        Traceback (most recent call last):
            ...
        AttributeError: an Allocation has no quotas: it is now fairopt_clusters.quotas...
        """
        raise AttributeError(f"an Allocation has no quotas{moved('fairopt.Allocation.quotas')}")

    def plot(self, kind: str = "shares", *, ax: Any = None, users: Any = None, resources: Any = None) -> Any:
        """Draw the allocation; needs the extra ``plots``.

        Parameters
        ----------
        kind : str, default "shares"
            ``shares`` of each resource by user (as in Figs. 2 and 7 of Jiang and Wu 2021); sorted ``dominant`` shares
            (both by team if a team has several users);
            ``utilisation`` or ``prices`` by class of servers; the ``envy`` matrix; ``demands`` in the plane of two
            resources; the ``region`` of tasks that two users can run (as in Fig. 2 of Joe-Wong et al. 2013); tasks and
            utilisation by ``types`` of server; what is ``held`` now, and what waits, beside the answer.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on; for ``held`` one for each resource, and for ``types`` one more, for tasks. Default: a
            new figure.
        users, resources : (str, str), optional
            The two users of ``region``, and the two resources of ``demands``, if there are more.

        Returns
        -------
        matplotlib.axes.Axes
            For ``held`` and ``types`` a Figure.

        Examples
        --------
        >>> import fairopt as fo
        >>> axes = fo.DRF().allocate(fo.Instance([[40, 8], [8, 5]], [200, 200])).plot("utilisation")
        >>> axes.figure.savefig("utilisation.png")  # doctest: +SKIP
        """
        return later("fairopt.plots:draw")(self, kind, ax, users, resources)

    def explain(self, name: str, *, time_limit: float | None = None) -> Explanation:
        """What stops a user or team: its limit, full resources, its weight or a constraint; what gives it more.

        Each thing that may stop it is raised by 1%, and the policy is solved again, with the coefficients of shares
        held as they are: one solve for each full capacity, reached limit and constraint. For mechanisms other than
        policies and `HDRF`, and for whole tasks, only what is full and what is reached is said.

        Parameters
        ----------
        name : str
            A user or a team.
        time_limit : float, optional
            Seconds for all solves together.

        Returns
        -------
        Explanation
            One or two sentences, with the numbers behind them.

        Raises
        ------
        InvalidInstance
            If there is no such user or team.

        Examples
        --------
        >>> import fairopt as fo
        >>> pool = fo.Instance([[40, 8], [8, 5]], [200, 200], users=["batch", "web"], resources=["net", "memory"])
        >>> fo.MostTasks().allocate(pool.with_task_limits({"web": 20})).explain("batch").sentences[0]
        'batch stops at 1 task because net is full; web uses it too.'
        """
        return later("fairopt.questions.explain:explain")(self, name, time_limit)

    def __repr__(self) -> str:
        name = label(self.policy)
        shown = np.array2string(self.tasks, precision=4, threshold=6, edgeitems=3)
        return f"<Allocation by {name} of {self.instance!r}: tasks {shown}; {self.certificate}>"

    def exact_bounds(self, width: float = 1e-12, *, time_limit: float | None = None) -> ExactBounds:
        """An interval with rational ends that contains the optimal value, also where that is irrational.

        It encloses the largest value of the objective, in natural units, that feasible tasks have (of `Leximin` and
        tiers that of the first level or tier). The numbers of the instance and the policy are read as the shortest
        decimals that print them, so that 0.1 is 1/10, or as the Fractions given. The lower end is the value of tasks
        that are feasible in fractions, the upper end a bound by weak duality; both are computed in intervals of many
        digits (the extra `exact`). A rational optimum that is known exactly is an interval of width 0.

        Parameters
        ----------
        width : float, default 1e-12
            The largest length of the interval relative to the value; where the value is nearly 0, relative to a
            millionth of what tasks add to it. ``1e-30`` takes about twice as long.
        time_limit : float, optional
            Seconds.

        Returns
        -------
        ExactBounds
            ``lower``, ``upper``, the ``width`` reached, and tasks with a value of at least ``lower``.

        Raises
        ------
        OutOfDomain
            For mechanisms without an objective, user-defined blocks, `FairnessEfficiency` where it is not concave or
            not alone, norms or objectives that are no sums of shares in constraints, and whole tasks. Also if nobody
            can give somebody anything in rational numbers where the objective has a slope of infinity at 0.
        Infeasible
            If the constraints hold in floats only, by rounding.
        NotCertified
            If the width was not reached; the message names the one that was.

        Examples
        --------
        >>> import fairopt as fo
        >>> a = fo.FDS(2).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]))
        >>> found = a.exact_bounds(width=1e-20)
        >>> round(found.lower * 10**18), round(found.upper * 10**18)  # -(3 + 2 sqrt 2) / 2
        (-2914213562373095049, -2914213562373095049)
        """
        return later("fairopt.exact.bounds:exact_bounds")(self, width, time_limit)

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.pages:allocation_page")(self)

    def save(self, path: str | Path, *, evidence: bool = True) -> Path:
        """Write the allocation with its instance, certificate and evidence, as JSON or Parquet.

        Parameters
        ----------
        path : str or Path
            A name that ends in ``.json`` or ``.parquet``.
        evidence : bool, default True
            Whether to write the evidence from which `load` and `verify` certify the allocation without a solver.
            Without it files of large answers are smaller, and `load` solves again. Saving never solves the policy: an
            answer without evidence, such as of `Policy.certify` under further constraints, is saved without. If the
            evidence of a small answer leaves `verify` a gap above 2.5e-7, linear programs give better multipliers.

        Returns
        -------
        Path

        Warns
        -----
        UserWarning
            If its problem was changed by hand: the file then proves feasibility only.

        Raises
        ------
        InvalidInstance
            If the name has another ending.
        OSError
            If the file cannot be written.
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
        return later("fairopt.policies.loading:save")(self, Path(path), evidence)

    @classmethod
    def load(cls, path: str | Path, policy: Any = None) -> Allocation:
        """Read a file of `save`. Nothing in it is executed, and the allocation is certified again.

        Parameters
        ----------
        path : str or Path
            A file that `save` wrote.
        policy : Policy or other mechanism, optional
            The policy of the file, needed to certify answers of user-defined blocks. Its repr must be the same as in
            the file, where objectives by terms of fairopt's kinds stand in built-in blocks and as they were given.

        Returns
        -------
        Allocation
            ``policy`` is rebuilt from fairopt's blocks; with other blocks it stays text unless given.

        Raises
        ------
        InvalidInstance
            If the file was not written by `save`, or its numbers contradict each other.

        Examples
        --------
        >>> import pathlib, tempfile, fairopt as fo
        >>> a = fo.FDS(1).allocate(fo.Instance([[2, 3], [2, 1]], [6, 4]))
        >>> loaded = fo.Allocation.load(a.save(pathlib.Path(tempfile.mkdtemp()) / "fds.json"))
        >>> loaded.policy, loaded.certificate.ok
        (Policy(AlphaFair(1), name='FDS(alpha=1)'), True)
        """
        return later("fairopt.policies.loading:load")(Path(path), policy)


def _read_only(values: Float) -> Float:
    """A view that cannot be written."""
    out = np.asarray(values).view()
    out.flags.writeable = False
    return out


@one_thread()
def used_by(instance: Instance, tasks_by_server: Float) -> Float:
    """Units that tasks by user and server use on each server row, shape (n_servers, n_resources)."""
    if instance.demands.ndim == 2:
        return tasks_by_server.T @ instance.demands
    return np.einsum("jsi,js->si", instance.demands, tasks_by_server)


def units_of(allocation: Allocation, chosen: Sequence[int] | None = None) -> Float:
    """Units that the chosen users (default: all) hold, shape (n_chosen, n_resources)."""
    rows = slice(None) if chosen is None else list(chosen)
    if allocation.given_bundles is None and allocation.instance.demands.ndim == 2:
        return allocation.instance.demands[rows] * allocation.tasks[rows, None]
    return allocation.bundles[rows].sum(axis=1)


def part_of_capacity(units: Float, capacity: Float, of_nothing: float = np.nan) -> Float:
    """Units over capacity, ``of_nothing`` where the capacity is 0."""
    return np.divide(units, capacity, out=np.full(units.shape, of_nothing), where=capacity > 0)


def feasibility(instance: Instance, tasks_by_server: Float, usable: Float | float = 1.0) -> float:
    """Largest relative violation of capacities, task limits, eligibility and sign; infinite for NaN.

    ``usable``, (n_resources,), are the usable fractions of capacities.
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
    if instance.derived.everywhere and tasks_by_server.min() >= 0:
        return worst
    size = np.where(total > 0, total, 1.0)[:, None]
    misplaced = np.where(instance.eligible, np.maximum(-tasks_by_server, 0.0), np.abs(tasks_by_server)) / size
    return max(worst, float(misplaced.max(initial=0.0)))


def holdings_violation(instance: Instance, bundles: Float) -> float:
    """Largest relative excess of bundles over a capacity.

    Infinite for bundles that are negative, or positive for capacity 0 or an ineligible user.
    """
    room = instance.capacities * instance.counts[:, None]
    misplaced = ~instance.eligible[:, :, None] | (room == 0)
    if not (np.isfinite(bundles).all() and (bundles >= 0).all()) or (bundles[misplaced] > 0).any():
        return float("inf")
    held = bundles.sum(axis=0)
    return float(np.divide(held - room, room, out=np.zeros_like(room), where=room > 0).max(initial=0.0))
