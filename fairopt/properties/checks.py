"""Checks of one allocation: Pareto efficiency, sharing incentive, envy-freeness (up to one task), bottlenecks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.shares import Share, Tasks
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.policies.bottleneck import bottleneck_fairness
from fairopt.policy import is_mechanism, label
from fairopt.properties.envy import LESS_ONE_OF_THEIRS, LESS_ONE_OWN, TASKS, Counting, Envy, envy
from fairopt.properties.feasible import require_feasible
from fairopt.properties.names import (
    BY_NAME,
    OF_ALLOCATIONS,
    OF_TEAMS,
    PROPERTIES,
    USUAL_CHECKS,
    percent,
    property_name,
    texts,
    when_late,
    zero_if_noise,
)
from fairopt.properties.pareto import dominating
from fairopt.properties.team_pareto import levelled, team_gain
from fairopt.properties.teams import team_slices
from fairopt.properties.units import first_largest, own_units, quotient
from fairopt.properties.verdicts import PropertyReport, Verdict
from fairopt.properties.within import WITHIN, judged, most_on_slices
from fairopt.properties.work import Wording, Work, work_by
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import later
from fairopt.runtime.threads import one_thread
from fairopt.runtime.tolerances import NOISE

MENTIONED_GAP = 1e-8  # a verdict on Pareto efficiency mentions larger gaps


@dataclass(frozen=True, eq=False)
class OwnSlices:
    """Tasks of users, or their work, and the same on their own slices of the servers."""

    slices: Float  # on the own slice, within the limit, (n_users,)
    tasks: Float  # in the allocation, (n_users,)
    missing: dict[str, float]  # what the own slice offers more, by user who falls short
    worst: str | None  # the user who falls short most or comes closest to it; None without users
    tasks_by_server: Float | None = None  # where constraints bind slices: tasks on them in which ``worst`` has its most


@one_thread()
def check(
    allocation: Allocation,
    properties: Any = None,
    tol: float = 1e-6,
    *,
    share: Share | None = None,
    time_limit: float | None = None,
) -> PropertyReport:
    """Check properties of one allocation.

    A margin is relative to the user's tasks, or to the tasks on its own slice of the servers if these are more (for
    ``pareto``: if it runs nothing). Definition 11.1 of :doc:`/methods/checks` states each property. Where users count
    tasks by a ``share`` that differs between servers, such as work at the instance's rates, that share takes the place
    of tasks in ``pareto``, ``sharing-incentive`` and ``envy-free``; within its task limit a user then fills its best
    servers of a slice or bundle first.

    Of a policy with constraints ``pareto`` and ``sharing-incentive-within`` are judged within them; the others keep
    their definitions. Sentences say so.

    * ``pareto``: the largest gain in tasks of one user while no other user loses (`Dominating`). Gains within what the
      certificate's gap leaves open do not count, up to a hundredth of the user's tasks.
    * ``sharing-incentive``: how much more a user would run on its own slice of every server (`OwnSlices`).
    * ``sharing-incentive-within``: the same where all users run on their own slices and the policy's constraints, and
      limits of the instance, hold there too: one program for each user who has less than its slice alone offers.
    * ``team-sharing-incentive``: how much larger the dominant share of a team or user would be if one of its members
      that is below its limit ran alone on the team's slice of every server, within that limit (`TeamSlices`). The tree
      of teams is that which the policy reads, or that of all labels.
    * ``team-pareto``: a gain of a team's total, by the share that the policy compares, while no other team's falls,
      relative to it (`TeamGain`).
    * ``envy-free``: how much more a user would run on the bundle of another, at its own weight and within its limit
      (`Envy`). The matrix is kept for up to 5,000 users; beyond, the margin is an upper bound where the property holds.
    * ``ef1``: how many more whole tasks a user could run on the bundle of another less one of the other's tasks.
      ``ef1-own``: the same, less one task of the user's own.
    * ``bottleneck``: the part of its entitlement that a user lacks on every full resource (`BottleneckVerdict`), or no
      justified complaints (Dolev et al. 2012); one pool only.

    Parameters
    ----------
    allocation : Allocation
        Any allocation, also of your own mechanism or changed by hand.
    properties : str or iterable of str, optional
        Names or short forms. Default: ``pe``, ``si``, ``ef`` and, if all servers are alike, ``bf``; only
        ``team-pareto`` if the policy leaves open how teams divide totals (`OfTeam` with ``inside="any"``), and no
        ``ef`` if users are paths of demands on a network; the report says so. Only ``ef1`` and ``ef1-own`` count whole
        tasks; an allocation of whole tasks may fail the others, which compare it with divisible tasks.
    tol : float, default 1e-6
        Largest margin that counts as holding, from 1e-9 to below 1. Tasks of a cone solver may be off by 1e-4 at a
        certified gap of 1e-6; check its envy with a larger ``tol``.
    share : Share, optional
        What users compare instead of tasks. Default: the first share of the policy's objective, if its coefficients
        differ between servers. If they do not, margins are the same in tasks.
    time_limit : float, optional
        Seconds. Where a property is undecided by then, ``holds`` is None.

    Returns
    -------
    PropertyReport

    Raises
    ------
    InvalidInstance
        If a value is NaN, negative, beyond a capacity or limit by more than ``tol``, or where a user may not run.
    InvalidBlock
        If a property is unknown or one of mechanisms, ``tol`` is out of range, or ``share`` is not a share.
    OutOfDomain
        If ``bottleneck`` is given and servers differ, or a user has nothing of ``share``, whatever it runs.
    NotCertified
        If Pareto efficiency can neither be proved nor refuted.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> print(fo.check(fo.KDF(2).allocate(cluster)))
    2-DF on Instance(2 users x 3 resources on 1 server)
      yes pareto             no user can run more tasks unless another runs fewer
      NO  sharing-incentive  user 'batch' runs 1.923 tasks, where its own slice would run 2.5: short by 23.1%
      yes envy-free          no user would run more tasks on what another holds
      NO  bottleneck         user 'batch' has 0.38461538 of 'resource1', is entitled to 0.5 of one, and asks for more

    An equal division of hours wastes a user's speed:

    >>> hours = fo.Instance([[1], [1]], [[1], [1]], task_limits=2, rates=[[1, 10], [1, 1.1]])
    >>> equal = fo.Policy(fo.Leximin(fo.Tasks())).allocate(hours)
    >>> fo.check(equal, "pareto").ok
    True
    >>> print(fo.check(equal, "pareto", share=fo.ThroughputShare())["pareto"])
    with no user losing any, user 'user1' could have a ThroughputShare() of 1.736 instead of 1
    """
    given: Any = allocation
    if not isinstance(given, Allocation):
        hint = "give an Allocation, as policy.allocate(instance) returns it"
        if is_mechanism(given):
            hint += "; fo.audit(policy) checks a whole policy"
        raise InvalidBlock(f"check(...) of {type(given).__name__}: {hint}")
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.number)) or not 1e-9 <= tol < 1:
        raise InvalidBlock(f"tol is {tol!r}; give a number from 1e-9 (what solvers leave) to below 1")
    clock, names = Clock(time_limit), _chosen(properties, allocation)
    require_feasible(allocation, float(tol))
    work = work_by(share, allocation.policy, allocation.instance)
    checks = [later(f"fairopt.properties.{BY_NAME[p].check}") for p in names]
    verdicts = tuple(_qualified(one(allocation, float(tol), clock, work), allocation) for one in checks)
    about = f"{label(allocation.policy)} on {allocation.instance!r}" + ("" if work is None else f", by {work.share!r}")
    about += f"; envy is not checked, as {why}" if properties is None and (why := without_envy(allocation)) else ""
    return PropertyReport(about, verdicts)


def without_envy(allocation: Allocation) -> str:
    """Why envy between users says nothing, if it does."""
    if later("fairopt.networks.paths:on_network")(allocation.instance):
        return "users are paths of demands"
    return "the policy leaves open how teams divide totals" if _leaves_users_open(allocation) else ""


def _leaves_users_open(allocation: Allocation) -> bool:
    """Whether the policy compares teams and leaves open how they divide: users are ways of doing the same."""
    share = levelled(allocation.policy)
    return share is not None and share.inside == "any"


def _qualified(verdict: Verdict, allocation: Allocation) -> Verdict:
    """The verdict, with a sentence that says what constraints and whole tasks mean for it."""
    sentence, words = verdict.sentence, judged(verdict.name, allocation.policy, allocation.instance)
    if words:
        sentence = f"{words}, {sentence}" if verdict.name in WITHIN else f"{sentence} ({words})"
    if allocation.certificate.whole and verdict.holds is False and not COUNTINGS.get(verdict.name, TASKS).in_whole:
        sentence += " (in divisible tasks)"
    if _leaves_users_open(allocation) and verdict.name not in OF_TEAMS:
        sentence += " (of users, whose parts of their team's total the policy leaves open)"
    return replace(verdict, sentence=sentence)


# -- each property -------------------------------------------------------------------------------------------------


def pareto(allocation: Allocation, tol: float, clock: Clock, work: Work | None) -> Verdict:
    """Whether no user can gain unless another loses."""
    better, instance = dominating(allocation, tol, clock, work), allocation.instance
    holds, say = better.margin <= tol, Wording(work)
    words = f"no user can {say.more} unless another {say.fewer}"
    if holds and better.bound > tol:
        words = f"no user was found who can {say.more} unless another {say.fewer}, but a gain of "
        words += f"{percent(better.bound)} is not ruled out {when_late(clock)}"
        return Verdict("pareto", None, better.margin, better, words)
    for user, gain in better.gains.items():  # of one user at most
        if not holds:
            has = float(_counted(allocation, work)[instance.user_index(user)])
            before, after = _numbers(has, has + gain)
            words = f"with no user {say.losing}, user {user!r} could {say.have(after)} instead of {before}"
            words += _also(better.others + 1, "could gain", "could gain")
        elif better.margin > NOISE:
            words += f", but for {percent(better.margin)} of user {user!r}"
    if better.assumed and holds:
        words += f", assuming that {better.assumed}"
    if holds and MENTIONED_GAP < (gap := allocation.certificate.gap) < np.inf and not allocation.certificate.whole:
        words += f", beyond what the certificate's gap of {gap:.1e} leaves open"
    return Verdict("pareto", holds, better.margin, better, words)


def sharing_incentive(allocation: Allocation, tol: float, clock: Clock, work: Work | None) -> Verdict:
    """Whether each user has at least what its own slice offers."""
    slices = allocation.instance.own_slices if work is None else work.slices
    return _on_slices("sharing-incentive", allocation, tol, work, slices)


def sharing_incentive_within(allocation: Allocation, tol: float, clock: Clock, work: Work | None) -> Verdict:
    """The same of what the policy could choose where all users run on their own slices."""
    plain, name = sharing_incentive(allocation, tol, clock, work), "sharing-incentive-within"
    if plain.holds or not judged(name, allocation.policy, allocation.instance):
        return replace(plain, name=name)
    has, share, users = plain.details.tasks, Tasks() if work is None else work.share, allocation.instance.users
    slices, bounds, tasks = plain.details.slices.copy(), plain.details.slices.copy(), dict[str, Float]()
    fits = True
    for j in np.flatnonzero([user in plain.details.missing for user in users]):
        slices[j] = 0.0  # until the program says more
        if fits and not clock.late and (found := most_on_slices(allocation, share, users[j], clock.left)):
            slices[j], most, tasks[users[j]] = found
            bounds[j] = min(most, bounds[j])
        elif not clock.late:  # the slices of all fit, or those of none
            fits, bounds[j] = False, 0.0
    verdict = _on_slices(name, allocation, tol, work, slices)
    if not fits:
        return replace(verdict, sentence="users cannot all run on their own slices, so none would have more there")
    if not verdict.holds:
        return replace(verdict, details=replace(verdict.details, tasks_by_server=tasks[verdict.details.worst]))
    left = quotient(bounds - has, own_units(bounds, has), -1.0)
    if (open_ := np.flatnonzero(left > tol)).size:
        words = (
            f"{verdict.sentence}, as far as is known: {len(open_):,} of those with less than the slice alone are open"
        )
        return replace(verdict, holds=None, sentence=f"{words} {when_late(clock)}" if clock.late else words)
    return verdict


def _on_slices(name: str, allocation: Allocation, tol: float, work: Work | None, slices: Float) -> Verdict:
    instance, has, say = allocation.instance, _counted(allocation, work), Wording(work)
    short = quotient(slices - has, own_units(slices, has), -1.0)
    who = np.flatnonzero(short > tol)
    margin = float(short.max(initial=-1.0))
    j = int(first_largest(short)) if len(short) else None
    missing = {instance.users[k]: float(slices[k] - has[k]) for k in who}
    witness = OwnSlices(slices, has, missing, None if j is None else instance.users[j])
    if j is None or not len(who):
        words = f"no user would {say.more} on its own slice of the servers"
        return Verdict(name, True, margin, witness, words)
    now, would = _numbers(has[j], slices[j])
    words = f"user {instance.users[j]!r} {say.has(now)}, where its own slice would {say.give} {would}: short by "
    words += percent(margin) + _also(len(who), "falls short", "fall short")
    return Verdict(name, False, margin, witness, words)


def team_sharing_incentive(allocation: Allocation, tol: float, clock: Clock, work: Work | None) -> Verdict:
    """Whether each team and each user in its team has at least what its slice offers."""
    name, teams = "team-sharing-incentive", team_slices(allocation)
    short = teams.short
    margin = float(short.max(initial=-1.0))
    if margin <= tol:
        words = "no team or user would hold a larger dominant share with one member's tasks on its slice of the servers"
        return Verdict(name, True, margin, teams, words)
    k = int(first_largest(short))
    now, would = _numbers(teams.holds[k], teams.slices[k])
    is_user = teams.names[k] in allocation.instance.users
    what, where = ("user", "its own slice") if is_user else ("team", "one member's tasks on its own slice")
    words = f"{what} {teams.names[k]!r} holds a dominant share of {now}, where {where} would hold {would}: "
    words += f"short by {percent(margin)}"
    return Verdict(name, False, margin, teams, words)


def team_pareto(allocation: Allocation, tol: float, clock: Clock, work: Work | None) -> Verdict:
    """Whether no team's total can grow unless another's falls."""
    gain = team_gain(allocation, tol, clock)
    name, of = "team-pareto", f"{gain.share.by}'s total {gain.share.share}"
    if gain.team is not None and gain.margin > tol:
        t = gain.teams.index(gain.team)
        before, after = _numbers(gain.totals[t], gain.better[t])
        words = f"with no {of} falling, that of {gain.team!r} could be {after} instead of {before}"
        return Verdict(name, False, gain.margin, gain, words)
    words = f"no {of} can grow unless another's falls"
    if gain.bound > tol:
        left = "" if np.isinf(gain.bound) else f" of {percent(gain.bound)}"
        return Verdict(name, None, gain.margin, gain, f"{words}, as far as is known: a gain{left} is not ruled out")
    return Verdict(name, True, gain.margin, gain, words)


def _envy(name: str, allocation: Allocation, tol: float, clock: Clock, work: Work | None) -> Verdict:
    work = work if name == "envy-free" else None
    envies = envy(allocation, COUNTINGS[name], tol, clock, work)
    enviers = envies.enviers(tol)
    known = envies.largest if envies.left == 0 else np.minimum(envies.largest, tol)
    left = f"{envies.left:,} users (up to {envies.pairs_left:,} pairs) were not compared {when_late(clock)}"
    if len(enviers):
        j = int(enviers[first_largest(envies.largest[enviers])])
        words = _envied(envies, allocation, j, work, COUNTINGS[name])
        words += _also(len(enviers), "envies another", "envy another")
        words += f"; {left}" if envies.left else ""
        return Verdict(name, False, float(envies.largest[j]), envies, words)
    words, margin = _UNENVIED[name].format(Wording(work).more), float(known.max(initial=-1.0))
    if envies.left:
        return Verdict(name, None, margin, envies, f"{words}, as far as is known: {left}")
    return Verdict(name, True, margin, envies, words)


def _envied(envies: Envy, allocation: Allocation, j: int, work: Work | None, counting: Counting) -> str:
    """The sentence about the envy of user j."""
    has, would = _numbers(envies.runs, envies.would_run + counting.less_own)
    if counting.in_whole:
        words = f"user {envies.envier!r} could run {would} whole task{'s' * (would != '1')} on what {envies.envied!r} "
        return f"{words}holds{' less one task' * counting.less_theirs}, but runs {has}"
    say, slices = Wording(work), allocation.instance.own_slices if work is None else work.slices
    words = f"user {envies.envier!r} would {say.have(would)} on what {envies.envied!r} holds, but {say.verb} {has}: "
    return f"{words}envy of {percent(envies.largest[j])}{' of its own slice' * bool(slices[j] > envies.runs)}"


def bottleneck(allocation: Allocation, tol: float, clock: Clock, _: Work | None) -> Verdict:
    """Whether each user has its entitlement of a full resource, or all it asks for."""
    if allocation.instance.n_users == 0:
        return Verdict("bottleneck", True, 0.0, None, "no user has a justified complaint")
    result = bottleneck_fairness(allocation, tol)
    margin = 0.0 if result.holds else 1.0 - result.best_share / result.entitlement
    return Verdict("bottleneck", result.holds, margin, result, str(result))


COUNTINGS = {"envy-free": TASKS, "ef1": LESS_ONE_OF_THEIRS, "ef1-own": LESS_ONE_OWN}
_UNENVIED = {
    "envy-free": "no user would {} on what another holds",
    "ef1": "no user could run more whole tasks on what another holds, less one of the other's tasks",
    "ef1-own": "no user could run more whole tasks on what another holds, after one of its own",
}
envy_free, ef1, ef1_own = (partial(_envy, name) for name in COUNTINGS)


# -- arguments ------------------------------------------------------------------------------------------------


def _chosen(properties: Any, allocation: Allocation) -> list[str]:
    """Canonical names of the properties to check, in order."""
    if properties is None and _leaves_users_open(allocation):
        return ["team-pareto"]
    if properties is None:
        pool, limited = allocation.instance.merged().n_servers == 1, bool(allocation.instance.limits)
        left_out = {"bottleneck"} if not (pool or limited) else {"bottleneck", "pareto"} if limited else set[str]()
        left_out |= {"envy-free"} if without_envy(allocation) else set()
        return [p for p in USUAL_CHECKS if p not in left_out]
    names = set(map(property_name, texts(properties, "properties")))
    if not names:
        raise InvalidBlock(f"no property to check; name some of {', '.join(OF_ALLOCATIONS)}, or leave properties out")
    for name in sorted(names - set(OF_ALLOCATIONS)):
        other = "fo.audit(policy, properties=[...])"
        if name.startswith("strategy"):
            other += " or fo.properties.best_misreport(policy, instance, user)"
        raise InvalidBlock(f"{name} is a property of a mechanism, not of one allocation; use {other}")
    if names & {"bottleneck", "pareto"} and allocation.instance.limits:
        raise OutOfDomain(
            f"{min(names & {'bottleneck', 'pareto'})} is not checked beside limits on what several take together, and "
            f"{allocation.instance!r} has some; leave it out"
        )
    if "bottleneck" in names and allocation.instance.merged().n_servers > 1:
        raise OutOfDomain(
            f"bottleneck fairness is a notion for one pool, and {allocation.instance!r} has servers that differ; leave "
            "it out, or check an allocation of instance.pooled()"
        )
    return [p for p in PROPERTIES if p in names]


# -- sentences ------------------------------------------------------------------------------------------------


def _counted(allocation: Allocation, work: Work | None) -> Float:
    """Tasks of users, or their work."""
    return allocation.tasks if work is None else work.of(np.asarray(allocation.tasks_by_server))


def _numbers(first: float, second: float) -> tuple[str, str]:
    """Two numbers with enough digits to distinguish them, at least four; 0 for rounding."""
    first, second = zero_if_noise(first, second), zero_if_noise(second, first)
    for digits in range(4, 16):
        shown = f"{first:.{digits}g}", f"{second:.{digits}g}"
        if shown[0] != shown[1]:
            break
    return shown


def _also(count: int, one: str, several: str) -> str:
    """The number of other users that a sentence applies to, in brackets."""
    if count < 2:
        return ""
    return f" ({count - 1:,} more {'user' if count == 2 else 'users'} {one if count == 2 else several})"
