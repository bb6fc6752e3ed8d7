"""Hierarchical DRF: teams of users whose tasks differ, filled from event to event."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, NotCertified, OutOfDomain, nearest
from fairopt.exact.allocate import made_exact
from fairopt.instance import Instance
from fairopt.policies.mechanism import NotOfBlocks
from fairopt.proof import gate
from fairopt.runtime.clock import Clock, begin, check
from fairopt.runtime.tolerances import VIOLATION_TOLERANCE
from fairopt.solve.cluster import exact_hierarchy
from fairopt.solve.cluster.hierarchy import Terms, fill, rows_of
from fairopt.solve.form.no_whole_task import refuse_whole
from fairopt.solve.form.program import require_instance
from fairopt.solve.unfit_guarantees import FIT, refuse_closed


@dataclass(frozen=True, repr=False)
class HDRF(NotOfBlocks):
    """Hierarchical Dominant Resource Fairness (Bhattacharya et al. 2013): DRF between teams with different tasks.

    Users are the leaves of a tree of teams. Always the child with the smallest dominant share per weight rises, with
    those that tie. The vector of a team is the sum of its children's, in which those that can still rise are scaled
    down to the smallest level among them, and its dominant share is the largest of it. Resources that are in use
    everywhere do not count, so that shares jump when one is used up. Tasks are divisible.

    A team whose share stands still while something inside it rises goes on alone until its share moves. The paper
    leaves open what happens where several stand still at once: here they rise together, each at a rate of its weight
    over the dominant share of what it adds. Levels within 1e-9 of each other tie.

    Parameters
    ----------
    by : str or sequence of str, default ("team",)
        Labels of users, the outermost first. A user without a label is a child of the team outside it, or of the root.
    weights : dict of float by name of a team or user, optional
        Weights here, instead of those of the instance. By default the weight of a team is that in the instance, or 1.

    Raises
    ------
    InvalidBlock
        If a weight is not positive, or ``by`` is empty.

    Examples
    --------
    A user whose tasks need a CPU and a GB each, beside a team of a user of CPUs and one of memory:

    >>> import fairopt as fo
    >>> pool = fo.Instance([[1, 1], [1, 0], [0, 1]], [10, 10], teams={"team": [None, "b", "b"]})
    >>> fo.HDRF().allocate(pool).tasks
    array([5., 5., 5.])

    Flat DRF, in which the users of the team have half of its weight each:

    >>> fo.DRF().allocate(pool.with_weights({"b": 1})).tasks.round(2)
    array([6.67, 3.33, 3.33])
    """

    by: Any = ("team",)
    weights: Mapping[str, float] | None = None
    _solve_exactly = staticmethod(exact_hierarchy.solve)
    _name = "HDRF"
    _keeps_limits = True

    def __post_init__(self) -> None:
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by)
        if not by or not all(isinstance(name, str) for name in by) or len({*by}) < len(by):
            raise InvalidBlock(
                f"HDRF: by is {self.by!r}; give labels of users, the outermost first, as ('org', 'team')"
            )
        object.__setattr__(self, "by", by)
        if self.weights is None:
            return
        if not isinstance(self.weights, Mapping):
            raise InvalidBlock(f"HDRF: weights is {self.weights!r}; give a dict by name of a team or user")
        for name, weight in self.weights.items():
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < np.inf:
                raise InvalidBlock(f"HDRF: the weight of {name!r} is {weight!r}; give a positive finite number")
        object.__setattr__(self, "weights", {str(name): float(w) for name, w in self.weights.items()} or None)

    def __repr__(self) -> str:
        by = f"by={self.by!r}" if self.by != ("team",) else ""
        return f"HDRF({', '.join(filter(None, (by, f'weights={self.weights!r}' if self.weights else '')))})"

    def __hash__(self) -> int:
        return hash((self.by, tuple((self.weights or {}).items())))

    def allocate(
        self,
        instance: Instance,
        *,
        time_limit: float | None = None,
        exact: bool = False,
        integral: bool | Literal["rounded"] = False,
    ) -> Allocation:
        """Fill the tree, and prove the tasks from the levels at its events.

        Parameters
        ----------
        instance : Instance
            Users with the labels ``by``, on servers on which their demands do not differ.
        time_limit : float, optional
            Seconds for the whole call.
        exact : bool, default False
            Also fill the tree in fractions, `Allocation.exact_tasks`: without tolerances, so that only equal levels
            tie. Numbers are read as in `Policy.allocate`.
        integral : bool or "rounded", default False
            Only False.

        Returns
        -------
        Allocation
            Its gap is the largest relative distance of a level at an event from what the definition says there, or of a
            user's tasks from those at these levels. Its objective is the smallest dominant share per weight of the
            outermost teams and users. Its ``evidence`` lists the events: the level of the root, the cause (``limit`` of
            a user, ``full`` for a resource, ``placement`` for a row), and the users who stopped. It has no prices.

        Raises
        ------
        InvalidInstance
            If users have no such label, a weight names nobody, or a team is in two teams.
        OutOfDomain
            If demands differ by server, or whole tasks are requested; for ``exact`` also if teams have guarantees.
        Infeasible
            If guarantees do not fit together.
        NotCertified
            If the tasks could not be proved.

        Examples
        --------
        Two teams of equal weight; *vision* also has tasks without GPUs:

        >>> import fairopt as fo
        >>> cluster = fo.Instance(
        ...     [[4, 2], [4, 2], [1, 0]], [1000, 100], task_limits=[None, None, 20],
        ...     users=["train", "label", "parse"], teams={"team": ["nlp", "vision", "vision"]},
        ... )
        >>> fo.HDRF().allocate(cluster).tasks
        array([25., 25., 20.])
        >>> print(*fo.HDRF().allocate(cluster.with_weights({"vision": 2}), exact=True).exact_tasks[:, 0])
        50/3 100/3 20
        """
        clock = begin(time_limit)
        require_instance(instance)
        refuse_whole(self.name, integral)
        self._check(instance)
        if exact:
            return made_exact(lambda: (self._filled(instance, clock), ()), self, instance, clock, self._solve_exactly)
        return clock.run(lambda: self._filled(instance, clock))

    def _filled(self, instance: Instance, clock: Clock, rows: Sequence[Terms] = ()) -> Allocation:
        """The certified allocation; ``rows`` are those found on a like instance."""
        try:
            tasks, entry = fill(instance.merged(), self, clock, found=rows)
        except ArithmeticError as error:
            raise NotCertified(f"numbers differ by more than floats can tell ({error}); use other units") from error
        check("the proof")
        answer = gate.of_filling(self, instance, tasks, entry, clock.begun)
        if not answer.certificate.ok:
            raise NotCertified(
                f"the filling could not be proved: {answer.certificate}. Fix: see .best for what was found", best=answer
            )
        return answer

    def _check(self, instance: Instance) -> None:
        """Refuse instances whose users are not the leaves of a tree."""
        if instance.demands.ndim == 3:
            raise OutOfDomain(
                f"{self.name} compares what teams hold, and demands that differ by server make that depend on the "
                "placement; give demands of shape (n_users, n_resources)"
            )
        _check_guarantees(instance, self.by)
        refuse_closed(instance)
        above: dict[str, str | None] = {}
        columns = [instance.teams.labelling(by) for by in self.by]
        for j in range(instance.n_users):
            outer = None
            for names, of_user in columns:
                if of_user[j] < 0:
                    continue
                team = names[of_user[j]]
                if above.setdefault(team, outer) != outer:
                    places = " and ".join("in no team" if t is None else f"in {t!r}" for t in (above[team], outer))
                    raise InvalidInstance(
                        f"team {team!r} is {places} (user {instance.users[j]!r}); rename one, or give its users the "
                        "same outer label"
                    )
                outer = team
        known = [*above, *instance.users]
        for name in self.weights or {}:
            if name not in above and name not in instance.derived.position:
                raise InvalidInstance(
                    f"weights of {self.name} name an unknown team or user {name!r}; {nearest(name, known)}"
                )


def _check_guarantees(instance: Instance, by: tuple[str, ...]) -> None:
    """Refuse guarantees of teams that are not in the tree, and of users that do not fit in the total capacities."""
    teams = {name for label in by for name in instance.teams.labelling(label).names}
    for team in instance.team_guarantees:
        if team not in teams:
            raise InvalidInstance(
                f"the guarantee of {team!r} is of no team of HDRF(by={by!r}); give "
                f"by={instance.teams.outermost_first!r}, or leave it out"
            )
    starts = np.minimum(instance.guarantees, instance.task_limits)
    used = starts @ instance.ratios
    for i in np.flatnonzero(used > 1 + VIOLATION_TOLERANCE):
        capacity = float(instance.total_capacities[i])
        raise Infeasible(
            f"guarantees do not fit: those of users need {used[i] * capacity:.6g} {instance.resources[i]}, "
            f"{(used[i] - 1) * capacity:.6g} more than there are; {FIT}"
        )


def filled_like(answer: Allocation, instance: Instance, time_limit: float | None = None) -> Allocation:
    """The answer of `HDRF` to an instance that differs little from that of an answer, whose rows it starts from."""
    policy, clock, rows = answer.policy, begin(time_limit), list[Terms]()
    if answer.instance.merged().n_servers == instance.merged().n_servers:
        rows = rows_of(answer.evidence[0])
    policy._check(instance)
    return clock.run(lambda: policy._filled(instance, clock, rows))


def refilled(allocation: Allocation) -> Allocation:
    """An answer of a version that saved no levels at events: its tasks, proved by those of a new filling.

    `NotCertified` if the tasks are not those.
    """
    instance, policy = allocation.instance, allocation.policy
    again = policy.allocate(instance, exact=allocation.exact_tasks is not None)
    if allocation.exact_tasks is not None:
        if (allocation.exact_tasks.sum(axis=1) != again.exact_tasks.sum(axis=1)).any():
            raise NotCertified("the exact tasks are not those of the filling", best=again)
        return replace(
            allocation, exact_proof={**dict(allocation.exact_proof or {}), "proof": again.exact_proof["proof"]}
        )
    tasks = instance.derived.sum_by_class(allocation.tasks_by_server)
    proved = gate.of_filling(policy, instance, tasks, again.evidence[0], time.perf_counter())
    if not proved.certificate.ok:
        raise NotCertified(f"the tasks are not those of the filling: {proved.certificate}", best=again)
    return proved


def _limits_of_merged(instance: Instance) -> list[int]:
    """The positions of the limits that are left where identical servers are one row."""
    position = {limit.name: i for i, limit in enumerate(instance.limits)}
    return [position[limit.name] for limit in instance.merged().limits]


def written(allocation: Allocation) -> dict[str, Any]:
    """The evidence for `verify`: of an instance in which identical servers are not one row."""
    instance, entry = allocation.instance, allocation.evidence[0]
    classes = instance.derived.server_classes
    of_class = [np.flatnonzero(classes == k).tolist() for k in range(int(classes.max()) + 1)]
    part = instance.counts / np.bincount(classes, weights=instance.counts)[classes]
    limits = _limits_of_merged(instance)
    rows = [
        [[s, limits[i] if k is None else i, p] for k, i, p in row for s in (of_class[k] if isinstance(k, int) else [k])]
        for row in entry.get("rows") or ()
    ]
    placements = [
        [[j, s, x * float(part[s])] for j, k, x in placement for s in of_class[k]]
        for placement in entry.get("placements") or ()
    ]
    floors = {
        team: {i: use | {"tasks": [[j, of_class[k][0], x] for j, k, x in use["tasks"]]} for i, use in uses.items()}
        for team, uses in (entry.get("floors") or {}).items()
    }
    made = {"kind": "filling", "rows": rows, "placements": placements, "floors": floors}
    return made | ({"states": entry["states"]} if "states" in entry else {})


def of_classes(instance: Instance, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence that `written` wrote, of one row for identical servers; as it is if it is malformed."""
    classes = instance.derived.server_classes.tolist()
    limits = {i: position for position, i in enumerate(_limits_of_merged(instance))}
    try:
        rows = [
            [
                [*key, p]
                for key, p in {
                    (classes[k] if isinstance(k, int) else k, limits[i] if k is None else i): p for k, i, p in row
                }.items()
            ]
            for row in entry.get("rows") or ()
        ]
        placements = []
        for placement in entry.get("placements") or ():
            held = dict[tuple[int, int], float]()
            for j, s, x in placement:
                held[j, classes[s]] = held.get((j, classes[s]), 0.0) + x
            placements.append([[*pair, x] for pair, x in held.items()])
        floors = {
            team: {i: use | {"tasks": [[j, classes[s], x] for j, s, x in use["tasks"]]} for i, use in uses.items()}
            for team, uses in (entry.get("floors") or {}).items()
        }
    except (LookupError, TypeError, ValueError, AttributeError):
        return dict(entry)  # which the gate refuses
    return {**entry, "rows": rows, "placements": placements, "floors": floors}
