"""Lies of a team: false demands of several of its users, of whom one may pose as two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.shares import Share
from fairopt.errors import FairoptError, InvalidInstance
from fairopt.instance import Instance
from fairopt.properties.answers import checked
from fairopt.properties.misreports.best import FLOOR, LEAST_GAIN, tasks_alone, tasks_on
from fairopt.properties.misreports.families import FAMILIES, legal, reports
from fairopt.properties.names import given_labels, labelled
from fairopt.properties.teams import labels_read
from fairopt.properties.uncertainty import error_bound
from fairopt.properties.units import quotient
from fairopt.properties.work import Work, work_by
from fairopt.runtime.arrays import Float, Rng

LOSS = 1e-9  # of what a member could run alone: smaller losses are rounding
SECOND = "{} (2)"  # the second user that one poses as
TRIES = 300  # for each team


@dataclass(frozen=True)
class TeamLie:
    """A lie by which a member of a team gains and none loses."""

    team: str
    reported: Instance  # with the false demands
    gain: float  # the largest of a member: true tasks under the lie over those under the truth, less 1
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def best_team_lie(
    policy: Any,
    instance: Instance,
    *,
    positive: bool = False,
    share: Share | None = None,
    seed: int = 0,
    budget: int | None = None,
) -> TeamLie | None:
    """Search for a lie by which a member of a team gains and none loses; None if none is found and verified.

    Some members report demands of the families of `best_misreport`. One may pose as two users, with the same demands
    or with the resources divided between them, and runs its tasks on what both receive. The options are those of
    `best_misreport`; the budget is of each team.

    Examples
    --------
    Where each user counts alike, a team gains by a user who poses as two:

    >>> import fairopt as fo
    >>> pool = fo.Instance([[1], [1]], [4], teams={"team": ["a", "b"]})
    >>> print(best_team_lie(fo.DRF(), pool))
    team 'a': 'user1' poses as two who report (1) and (1) and runs 2.66667 tasks instead of 2
    >>> best_team_lie(fo.HDRF(), pool) is None
    True
    """
    truth, rng = checked(policy, instance), np.random.default_rng(seed)
    work = work_by(share, policy, instance)
    names = [by for by in labels_read(policy) if by in instance.teams] or list(instance.teams)
    lies: list[tuple[float, str, Instance]] = []
    for team in (team for by in names for team in instance.teams.labelling(by).names if team in instance.teams.names):
        for reported in _lies(instance, team, rng, TRIES if budget is None else budget, positive):
            try:
                gain = _gain(truth, checked(policy, reported), team, work)
            except FairoptError:  # the mechanism is not defined for the report
                continue
            if gain > 0:
                lies.append((gain, team, reported))
    n = instance.n_users
    for _, team, reported in sorted(
        lies, key=lambda lie: (-round(lie[0], 6), (lie[2].demands[:n] != instance.demands).sum(), lie[2].n_users)
    ):
        verified = verified_team_lie(policy, instance, team, reported, share)
        if verified is not None:
            return verified
    return None


def verified_team_lie(
    policy: Any, instance: Instance, team: str, reported: Instance, share: Share | None = None
) -> TeamLie | None:
    """Solve truth and lie again; the lie, or None if it is not one of the team, or pays no more than gaps leave open.

    A lie of the team changes demands of its members, and adds at most one user to it.
    """
    members = instance.teams.names.get(team, np.zeros(0, dtype=np.intp))
    second = _second(instance, reported)
    rows = [*range(instance.n_users), *([] if second is None else [second])]
    if len(rows) != reported.n_users or (second is not None and second not in members):
        return None
    demands = np.array(instance.demands[rows])
    lying = [*members, *range(instance.n_users, len(rows))]
    demands[lying] = reported.demands[lying]
    if _with_lie(instance, demands, second) != reported:
        return None
    work = work_by(share, policy, instance)
    try:
        truth, lie = checked(policy, instance.replace()), checked(policy, reported.replace())
    except FairoptError:
        return None
    gain = _gain(truth, lie, team, work)
    off = error_bound(truth)[members] + error_bound(lie)[members]
    if not gain > float(off.max(initial=0.0)):
        return None
    return TeamLie(team, reported, gain, _sentence(truth, lie, team, second, work))


def _gain(truth: Allocation, lie: Allocation, team: str, work: Work | None) -> float:
    """The largest relative gain of a member; 0 if one loses, or if none gains more than noise."""
    instance = truth.instance
    members = instance.teams.names[team]
    before, after = _members_run(truth, lie, members, work)
    alone = np.array([tasks_alone(instance, j, work) for j in members])
    if (after < before - LOSS * alone).any():
        return 0.0
    pays = after - before > np.maximum(LEAST_GAIN * before, FLOOR * alone)
    gains = quotient(after - before, before, np.inf)
    return float(gains[pays].max(initial=0.0))


def _members_run(truth: Allocation, lie: Allocation, members: Any, work: Work | None) -> tuple[Float, Float]:
    """True tasks of members under the truth and under the lie."""
    instance, bundles = truth.instance, np.array(lie.bundles[: truth.instance.n_users])
    second = _second(instance, lie.instance)
    if second is not None:
        bundles[second] += lie.bundles[-1]
    before = np.array([tasks_on(truth.bundles[j], instance, j, work) for j in members])
    return before, np.array([tasks_on(bundles[j], instance, j, work) for j in members])


def _second(instance: Instance, reported: Instance) -> int | None:
    """The user who poses as two; None if none does."""
    if reported.n_users != instance.n_users + 1:
        return None
    named = {SECOND.format(user): j for j, user in enumerate(instance.users)}
    return named.get(reported.users[-1])


def _with_lie(instance: Instance, demands: Float, second: int | None) -> Instance:
    """The instance with other demands, of which the last are those of the second user that one poses as."""
    if second is None:
        return instance.with_demands(demands)
    rows = np.array([*range(instance.n_users), second])
    lied = instance.select_users(rows, [*instance.users, SECOND.format(instance.users[second])])
    if instance.derived.has_guarantees:  # one user's is not given twice
        lied = lied.replace(guarantees={lied.users[-1]: 0.0})
    return lied.with_demands(demands)


def _lies(instance: Instance, team: str, rng: Rng, tries: int, positive: bool) -> Iterator[Instance]:
    """Instances with false demands of members; half of them with one who poses as two."""
    members = instance.teams.names[team]
    by_server = instance.demands.ndim == 3
    shape, servers = instance.demands.shape[1:], instance.n_servers if by_server else 1
    truth = instance.demands[members].reshape(len(members), -1).astype(float)
    room = np.asarray(instance.capacities if by_server else instance.total_capacities, dtype=float).reshape(1, -1)
    room = np.repeat(room, len(members), axis=0)
    each = max(-(-tries // len(FAMILIES)), 1)
    for family in FAMILIES:
        made, lies = legal(reports(family, truth, room, rng, each, servers), truth, room, False, positive, servers)
        for k in rng.permutation(made.shape[1])[:each]:
            who = lies[:, k] & (rng.random(len(members)) < rng.choice([0.5, 1.0]))
            rows = np.where(who[:, None], made[:, k], truth)
            demands, second = np.array(instance.demands, dtype=float), None
            demands[members] = rows.reshape(-1, *shape)
            if rng.random() < 0.5:
                second = int(rng.choice(members))
                one, other = _divided(demands[second], rng, positive)
                demands = np.concatenate([demands, other[None]])
                demands[second] = one
            elif not who.any():
                continue
            try:
                yield _with_lie(instance, demands, second)
            except InvalidInstance:  # as if no server could run it: not a legal report
                continue


def _divided(demands: Float, rng: Rng, positive: bool) -> tuple[Float, Float]:
    """What the two report whom a user poses as: the same, or each some of the resources."""
    if positive or rng.random() < 0.5:
        return demands, demands
    first = rng.random(demands.shape[-1]) < 0.5
    one, other = np.where(first, demands, 0.0), np.where(first, 0.0, demands)
    fine = one.any(axis=-1).all() and other.any(axis=-1).all()
    return (one, other) if fine else (demands, demands)


def _sentence(truth: Allocation, lie: Allocation, team: str, second: int | None, work: Work | None) -> str:
    """The lie in words: what members report, and what those who gain or lie run."""
    instance, reported = truth.instance, lie.instance
    labels = given_labels(instance.resources, "resource")

    def row(demands: Float) -> str:
        return f"({labelled([f'{d:.6g}' for d in demands.ravel()], labels if demands.ndim == 1 else ())})"

    members = instance.teams.names[team]
    words = []
    for j, before, after in zip(members, *_members_run(truth, lie, members, work), strict=True):
        said = []
        if j == second:
            said.append(f"poses as two who report {row(reported.demands[j])} and {row(reported.demands[-1])}")
        elif (reported.demands[j] != instance.demands[j]).any():
            said.append(f"reports {row(reported.demands[j])}")
        if after > before * (1 + LEAST_GAIN):
            has = "runs {} tasks" if work is None else f"has a {work.share!r} of {{}}"
            said.append(f"{has.format(f'{after:.6g}')} instead of {before:.6g}")
        if said:
            words.append(f"{instance.users[j]!r} {' and '.join(said)}")
    return f"team {team!r}: {'; '.join(words)}"
