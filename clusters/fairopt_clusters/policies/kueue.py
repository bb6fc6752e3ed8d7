"""Fair sharing of Kueue: teams share what they borrow beyond what they are owed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from fairopt import Allocation, Instance, Leximin, Objective, OfTeam, Policy, Surplus
from fairopt.blocks import tiers_of
from fairopt.errors import Infeasible, InvalidBlock, NotCertified, OutOfDomain
from fairopt.exact import allocate_in_fractions
from fairopt.policies import NotOfBlocks, require_instance
from fairopt.runtime import Clock
from fairopt_clusters.policies.fair_tree import divided, with_all_labels

# of users and servers: 1,440 took 24 s in fractions, and were not certified within 120 s in floats
MOST_PAIRS = 1_500


@dataclass(frozen=True, repr=False)
class Kueue(NotOfBlocks):
    """Fair sharing of Kueue: what teams hold beyond their guarantees is shared by weights, level by level.

    Of the outermost teams the smallest share above the guarantee, per weight, is as large as possible, then the next
    smallest, and so on; with these kept, likewise of the teams inside them, and at last of users. Kueue admits next
    what has the smallest weighted share of borrowed resources, and preempts what has the largest; with divisible tasks
    of one kind in each queue this comes to the same.

    Two things differ. The share of a team is the sum of its users' dominant shares of the cluster, while Kueue takes
    the largest share of what a cohort may lend. And the total of a cohort in a cohort comes before what is fair inside.

    Parameters
    ----------
    by : sequence of str, optional
        Labels of users, the outermost first. Default: all labels of the instance, but for ``cohort``, ``cohort2``, ...
        if it is the outermost: trees of cohorts share nothing in Kueue.

    Raises
    ------
    InvalidBlock
        If ``by`` is not a sequence of labels.

    Examples
    --------
    Of 12 CPUs the teams are owed 6 and 2, and borrow 2 of the other 4 each:

    >>> import fairopt as fo, fairopt_clusters as fc
    >>> cluster = fo.Instance(
    ...     [[1], [1]], [12], resources=["cpu"], teams={"team": ["a", "b"]},
    ...     guarantees={"a": {"cpu": 6}, "b": {"cpu": 2}},
    ... )
    >>> fc.policies.Kueue().allocate(cluster).tasks.round(6)
    array([8., 4.])
    """

    by: Any = None
    _name = "Kueue"
    _keeps_limits = True

    def __post_init__(self) -> None:
        if self.by is None:
            return
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by)
        if not by or not all(isinstance(name, str) for name in by):
            raise InvalidBlock(f"Kueue: by is {self.by!r}; give labels of users, the outermost first")
        object.__setattr__(self, "by", by)

    def __repr__(self) -> str:
        return f"Kueue({'' if self.by is None else f'by={self.by!r}'})"

    def allocate(self, instance: Instance, *, time_limit: float | None = None, **options: Any) -> Allocation:
        """The allocation of the policy for an instance.

        Parameters
        ----------
        instance : Instance
        time_limit : float, optional
            Seconds.
        **options
            As in `Policy.allocate`.

        Returns
        -------
        Allocation
            Of the blocks that say this, on the instance in which each user has all labels: a team without an outer one
            is beside the outer teams, alone. It is exact, `Allocation.exact_tasks`, for up to 1,500 pairs of users and
            servers (identical ones together) if no options are given; tolerances between levels could otherwise move a
            queue by 1e-5 of its share. If the tolerances of larger programs leave no proof of how users divide what
            their team gets, the division is any.

        Examples
        --------
        >>> import fairopt as fo, fairopt_clusters as fc
        >>> pool = fo.Instance([[1], [1]], [8], teams={"team": ["a", "b"]}, weights={"a": 3, "b": 1})
        >>> fc.policies.Kueue().allocate(pool).tasks.round(6)
        array([6., 2.])
        """
        require_instance(instance)
        by = self.by or instance.teams.outermost_first
        if self.by is None and len(by) > 1 and by[0].rstrip("0123456789") == "cohort":
            by = by[1:]
        whole, active = with_all_labels(instance, by), instance.task_limits > 0
        levels: dict[tuple[int, ...], Objective] = {}  # by users: a team of one team is no level
        for label in by:
            teams = whole.teams.labelling(label).of_user
            if len({*teams[active].tolist()}) > 1 or label == by[-1]:  # one team alone is compared with none
                levels.setdefault(divided(teams), Leximin(Surplus(OfTeam(by=label))))
        objective = reduce(Objective.then, levels.values() or [Leximin(Surplus())])
        of_teams, clock = Policy(objective, name=self.name), Clock(time_limit)
        decided = not by or tuple(range(whole.n_users)) in levels
        policy = of_teams if decided else Policy(objective.then(Leximin()), name=self.name)
        if not options and len(tiers_of(policy.objective)) > 1 and int(whole.eligible.sum()) <= MOST_PAIRS:
            exact = _in_fractions(policy, whole, Clock(None if time_limit is None else time_limit / 2))
            if exact is not None:
                return exact
        try:
            return policy.allocate(whole, time_limit=clock.left, **options)
        except NotCertified:  # what teams get is known; how they divide it by tolerances only
            if decided or clock.late:
                raise
            return of_teams.allocate(whole, time_limit=clock.left, **options)


def _in_fractions(policy: Policy, instance: Instance, clock: Clock) -> Allocation | None:
    """The exact answer; None if there is none, as where numbers fit in floats only, or not in time."""
    try:
        return allocate_in_fractions(policy, instance, clock)
    except (Infeasible, NotCertified, OutOfDomain):
        return None
