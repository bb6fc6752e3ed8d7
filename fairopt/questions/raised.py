"""Answers after a small change of the instance, with the coefficients of shares held as they were.

Each is an answer of the policy itself, solved and certified like any other. Shares are fractions of total capacities,
so that they fall as a capacity grows; here their coefficients stay, which separates what a capacity makes possible from
what only its denominator moves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import AtLeast, tiers_of
from fairopt.blocks.base import ByUser, is_ours
from fairopt.blocks.constraints import Constraint, MaxShare, MinShare, MinTasks, SharingIncentive
from fairopt.blocks.model import Point
from fairopt.blocks.shares import Share, Tasks
from fairopt.blocks.teams import OfTeam, with_shares
from fairopt.errors import Infeasible, NotCertified, OutOfDomain, OutOfTime
from fairopt.instance import Instance
from fairopt.instance.parts import merged_within_limits, taking_part
from fairopt.policies.hierarchical import HDRF
from fairopt.policy import Policy
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock, begin
from fairopt.solve.cluster import hierarchy

BY = 0.01  # the part by which numbers are raised
# Relative change of an objective that is none: answers are certified to 1e-6, and most are better than 1e-9.
SAME_VALUE = 1e-7
UNKNOWN = (NotCertified, OutOfDomain, OutOfTime)  # errors after which an answer is not known


class Change(NamedTuple):
    """One number raised by a part ``by`` of it, or a block relaxed by that.

    ``kind`` is "capacity" (``of`` a server row and a resource), "limit", "weight" or "guarantee" (of a user or team),
    "floor" or "ceiling" (of a user or team: shares that it has at least or at most), "block" (of a constraint, relaxed
    or left out), "guarantees" (of all but these users, lowered), or "together" (a limit on what users take together).
    """

    kind: str
    of: Any = None
    by: float = BY


@dataclass(frozen=True, repr=False)
class Held(Share):
    """A share with the coefficients that it has on one instance, kept as bytes so that blocks compare."""

    share: Share
    numbers: bytes
    n_users: int

    def per_task(self, instance: Instance) -> Float:
        """The kept coefficients, of the users and server rows of another instance."""
        unmerged, chosen = instance.merged_from, instance.taken_from
        if unmerged is not None:
            c = self.per_task(unmerged)
            return c if c.ndim == 1 else c[:, np.unique(unmerged.derived.server_classes, return_index=True)[1]]
        if chosen is not None:
            return self.per_task(chosen[0])[chosen[1]]
        c = np.frombuffer(self.numbers).reshape(self.n_users, -1)
        return c[:, 0] if c.shape[1] == 1 else c

    def __repr__(self) -> str:
        return repr(self.share)


def holding(instance: Instance) -> Callable[[Share], Share]:
    """A function that gives shares the coefficients that they have on an instance."""
    part = np.flatnonzero(instance.task_limits > 0)
    some = taking_part(instance, part)

    def hold(share: Share) -> Share:
        if not share._is_plain:  # `OfTeam` and `Surplus` are of another share
            inner: Any = share
            return replace(inner, share=hold(inner.share))
        c = share.coefficients(some)
        numbers = np.zeros((instance.n_users, *c.shape[1:]))
        numbers[part] = c
        return Held(share, numbers.tobytes(), instance.n_users)

    return hold


def _held_constraint(constraint: Constraint, instance: Instance, hold: Callable[[Share], Share]) -> Constraint:
    """A constraint whose coefficients stay fixed when total capacities change."""
    if isinstance(constraint, SharingIncentive):
        slices = np.minimum(instance.own_slices, instance.task_limits)
        return MinTasks(tuple(np.where(np.isfinite(slices), slices, 0.0).tolist()))
    held: Constraint = with_shares(constraint, hold)
    return held


def relaxed(constraint: Constraint, point: Point | None = None, by: float = BY) -> Constraint | None:
    """A constraint relaxed by a part; None if it has no number to relax, so that it can only be left out."""
    changed: Any = constraint  # a dataclass
    if isinstance(constraint, AtLeast):
        return None if point is None else replace(changed, level=changed.level - by * changed.objective.drop(point))
    if constraint._relaxed_by is None:
        return None
    name, sign = constraint._relaxed_by
    relaxing: Constraint = replace(changed, **{name: _times(getattr(constraint, name), 1 + sign * by)})
    return relaxing


def _times(values: Any, factor: float) -> Any:
    """A parameter by user times a number."""
    if isinstance(values, ByUser):
        return ByUser({name: value * factor for name, value in values.items()})
    if isinstance(values, tuple):
        return tuple(value * factor for value in values)
    return values * factor


def _changed(instance: Instance, changes: Iterable[Change]) -> Instance:
    """An instance with raised capacities, limits, weights and guarantees; other changes are of the policy."""
    capacities, limits = np.array(instance.capacities, dtype=float), np.array(instance.task_limits, dtype=float)
    weights: dict[str, float] = {}
    guarantees: dict[str, Any] = {}
    together: dict[str, float] = {}
    new: dict[str, Any] = {"capacities": capacities}
    for kind, of, by in changes:
        if kind == "capacity":
            capacities[of] *= 1 + by
        elif kind == "limit":
            limits[of] *= 1 + by
            new["task_limits"] = limits
        elif kind == "weight":
            weights |= _raised_weight(instance, of, by)
        elif kind == "guarantee" and isinstance(of, str):
            guarantees[of] = {name: units * (1 + by) for name, units in instance.team_guarantees[of].items()}
        elif kind == "guarantee":
            guarantees[instance.users[of]] = float(instance.guarantees[of]) * (1 + by)
        elif kind == "guarantees":
            guarantees |= _lowered_guarantees(instance, of, by)
        elif kind == "together":
            together[of] = by
    if weights:
        new["weights"] = weights
    if guarantees:
        new["guarantees"] = guarantees
    if together:
        new["limits"] = tuple(
            replace(one, amount=one.amount * (1 + together[one.name])) if one.name in together else one
            for one in instance.limits
        )
    return instance.replace(**new)


def _lowered_guarantees(instance: Instance, kept: tuple[int, ...], by: float) -> dict[str, Any]:
    """All guarantees lowered, but for those of some users and of the teams that they are all of."""
    out: dict[str, Any] = {
        user: float(instance.guarantees[j]) * (1 - by) for j, user in enumerate(instance.users) if j not in kept
    }
    for team, given in instance.team_guarantees.items():
        if not set(instance.teams.names.get(team, ())) <= set(kept):
            out[team] = {name: units * (1 - by) for name, units in given.items()}
    return out


def _raised_weight(instance: Instance, name: str, by: float) -> dict[str, float]:
    """The raised weight of a user, of a team that has one, or of the members of another."""
    if name in instance.team_weights:
        return {name: instance.team_weights[name] * (1 + by)}
    members = (
        [instance.derived.position[name]] if name in instance.derived.position else instance.teams.names[name].tolist()
    )
    return {instance.users[j]: float(instance.own_weights[j]) * (1 + by) for j in members}


class _Again(ABC):
    """Answers after changes, as tasks by user and server row of ``instance``, on one clock."""

    instance: Instance
    clock: Clock
    constraints: tuple[Constraint, ...] = ()

    def __init__(self) -> None:
        self.known: dict[frozenset[Change], Float | None] = {}
        self.unfit: set[frozenset[Change]] = set()  # changes that do not fit, such as higher floors

    def after(self, *changes: Change) -> Float | None:
        """The tasks after changes, shape (n_users, n_servers); None if no answer was certified, or none exists."""
        key = frozenset(changes)
        if key not in self.known:
            try:
                self.known[key] = self.clock.run(lambda: self._solve(key))
            except (*UNKNOWN, Infeasible) as error:
                self.known[key] = None
                if isinstance(error, Infeasible):
                    self.unfit.add(key)
        return self.known[key]

    @abstractmethod
    def _solve(self, changes: frozenset[Change]) -> Float: ...


class SolvedAgain(_Again):
    """Answers of a `Policy` after changes."""

    def __init__(self, allocation: Allocation, clock: Clock) -> None:
        super().__init__()
        policy: Policy = allocation.policy
        whole, self.clock = allocation.instance, clock
        ours = all(map(is_ours, (policy.objective, *policy.constraints, *policy.objective.share_blocks())))
        self.instance = instance = merged_within_limits(whole) if ours else whole
        hold = holding(instance)
        self.given = policy
        self.objective = with_shares(policy.objective, hold)
        self.constraints = tuple(_held_constraint(one, instance, hold) for one in policy.constraints)

    def _solve(self, changes: frozenset[Change]) -> Float:
        constraints, objective = list(self.constraints), self.objective
        out = set[int]()
        for kind, of, by in changes:
            if kind == "block":
                new = relaxed(constraints[of], self.point, by)
                out |= {of} if new is None else set()
                constraints[of] = new or constraints[of]
            elif kind in ("floor", "ceiling"):
                name, level = of
                constraints.append((MinShare if kind == "floor" else MaxShare)({name: level}, self.compared))
            elif kind == "weight" and not self._of_instance(of):
                objective = with_shares(objective, partial(_with_team_weight, team=of, by=by, instance=self.instance))
        kept = [one for k, one in enumerate(constraints) if k not in out]
        instance_changes = [c for c in changes if c.kind != "weight" or self._of_instance(c.of)]
        instance = _changed(self.instance, instance_changes)
        return Policy(objective, kept).allocate(instance, time_limit=self.clock.left).tasks_by_server

    def weighs(self, name: str) -> bool:
        """Whether the weight of a user or team counts, which that of each does."""
        return True

    def weight(self, name: str) -> float:
        """The weight of a user or team; of a team that has none, the sum of those of its members."""
        instance = self.instance
        for share in [] if self._of_instance(name) else self.objective.share_blocks():
            if (team := _of_team(share)) is not None:
                return _team_weight(team, name, instance)
        members = [instance.derived.position[name]] if name in instance.derived.position else instance.teams.names[name]
        return instance.team_weights.get(name, float(instance.own_weights[members].sum()))

    def _of_instance(self, name: str) -> bool:
        """Whether a weight counts as the instance has it, and not as a team's in `OfTeam`."""
        shares = [_of_team(share) for share in self.objective.share_blocks()]
        return not any(s is not None and name in self.instance.teams.labelling(s.by).names for s in shares)

    @cached_property
    def point(self) -> Point | None:
        """The tasks before changes, of users who take part."""
        base = self.after()
        if base is None:
            return None
        part = np.flatnonzero(self.instance.task_limits > 0)
        return Point(taking_part(self.instance, part), base[part])

    def _losses(self, table: Float) -> list[float]:
        """By how much the value of each tier is smaller at other tasks, relative to its drop towards zero."""
        part = np.flatnonzero(self.instance.task_limits > 0)
        other, best = Point(taking_part(self.instance, part), table[part]), self.point
        assert best is not None
        return [(tier.value(best) - tier.value(other)) / (tier.drop(best) or 1.0) for tier in tiers_of(self.objective)]

    def decides(self, name: str, value: float, step: float) -> bool:
        """Whether all optimal answers give a user, or a team's members together, the same shares.

        With a ``step`` more or less than their ``value`` the objective is then smaller.
        """
        tries = [Change("ceiling", (name, value - step))] if value > step else []
        for change in (*tries, Change("floor", (name, value + step))):
            moved = self.after(change)
            if moved is not None and max(self._losses(moved)) <= SAME_VALUE:
                return False
        return True

    @property
    def compared(self) -> Share:
        """The share that the policy compares, with fixed coefficients, or tasks if it compares none."""
        shares = tiers_of(self.objective)[0].share_blocks()
        share = shares[0]._of_user if shares else Tasks()
        return share if share.coefficients(self.instance).all() else Tasks()

    @cached_property
    def is_strict(self) -> bool:
        """Whether the objective has a single optimum in each user's share."""
        terms = [term for tier in tiers_of(self.objective) for term in tier.terms()]
        plain = [term for term in terms if isinstance(term.share, Share) and not term.share._counts_teams]
        return any(term.factor > 0 and (term.is_order or (term.alpha or 0) > 0) for term in plain)


class FilledAgain(_Again):
    """Answers of `HDRF` after changes: the tree is filled again, with shares of the unchanged total capacities."""

    def __init__(self, allocation: Allocation, clock: Clock) -> None:
        super().__init__()
        self.policy: HDRF = allocation.policy
        self.rows: list[hierarchy.Terms] = []  # that stopped users before changes
        self.instance, self.clock = merged_within_limits(allocation.instance), clock

    def weighs(self, name: str) -> bool:
        """Whether the weight of a user or team counts: teams under other labels are not in the tree."""
        labels = [self.instance.teams.labelling(by) for by in self.policy.by]
        return name in self.instance.derived.position or any(name in label.names for label in labels)

    def weight(self, name: str) -> float:
        """The weight of a user or team."""
        instance = self.instance
        own = float(instance.own_weights[instance.derived.position[name]]) if name in instance.derived.position else 1.0
        return (self.policy.weights or {}).get(name, instance.team_weights.get(name, own))

    def _solve(self, changes: frozenset[Change]) -> Float:
        instance, weights = self.instance, dict(self.policy.weights or {})
        room = instance.capacities * instance.counts[:, None]
        more, capacities = np.zeros(instance.n_resources), np.array(instance.capacities, dtype=float)
        raised = any(change.kind == "capacity" for change in changes)
        for kind, of, by in changes:
            if kind == "capacity":
                s, i = of
                more[i] += by * room[s, i] / instance.total_capacities[i]
                capacities[s, i] *= 1 + by
            elif kind == "weight":
                weights[of] = self.weight(of) * (1 + by)
        kept = [change for change in changes if change.kind not in ("capacity", "weight")]
        bounded = _changed(instance, kept) if kept else instance
        roomy = bounded.with_capacities(capacities) if raised else bounded
        policy = HDRF(self.policy.by, weights or None)
        try:
            filled = hierarchy.fill(roomy, policy, self.clock, bounded, more.tolist(), self.rows)
        except ArithmeticError as error:
            raise NotCertified(f"numbers differ by more than floats can tell ({error})") from error
        if not changes:
            self.rows = hierarchy.rows_of(filled.entry)
        return filled.tasks


def again(allocation: Allocation, time_limit: float | None) -> SolvedAgain | FilledAgain | None:
    """Answers after changes; None for mechanisms for which none are known, and for whole tasks."""
    if allocation.certificate.whole or allocation.given_bundles is not None:
        return None
    clock = begin(time_limit)
    if isinstance(allocation.policy, HDRF):
        return FilledAgain(allocation, clock)
    return SolvedAgain(allocation, clock) if isinstance(allocation.policy, Policy) else None


def _of_team(share: Any) -> OfTeam | None:
    """The `OfTeam` in a share."""
    if isinstance(share, OfTeam):
        return share
    inner = getattr(share, "share", None)
    return None if inner is None or share._is_plain else _of_team(inner)


def _team_weight(share: OfTeam, team: str, instance: Instance) -> float:
    """The weight of a team in a share."""
    given = {} if share.weights is None else dict(share.weights)
    return float(given.get(team, instance.team_weights.get(team, 1.0)))


def _with_team_weight(share: Share, team: str, by: float, instance: Instance) -> Share:
    """A share in which a team's weight is raised."""
    inner: Any = share
    if isinstance(share, OfTeam):
        if team not in instance.teams.labelling(share.by).names:
            return share
        given = {} if share.weights is None else dict(share.weights)
        return replace(share, weights={**given, team: _team_weight(share, team, instance) * (1 + by)})
    return share if share._is_plain else replace(inner, share=_with_team_weight(inner.share, team, by, instance))
