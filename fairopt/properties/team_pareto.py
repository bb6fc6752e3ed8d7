"""Pareto efficiency of teams: whether a team's total can grow while no other team's falls.

The program that decides it is a policy: it maximises the sum of the teams' relative gains over all that the policy may
choose, with every total kept, so that the gate proves its answer. If the sum can grow by no more than the tolerance, no
team can; else teams are tried one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.allocation import Allocation, ChangedByHand
from fairopt.blocks.base import ByUser
from fairopt.blocks.constraints import MinShare
from fairopt.blocks.objectives import Objective, Total
from fairopt.blocks.shares import DominantShare
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.errors import InvalidBlock
from fairopt.policy import Policy
from fairopt.properties.units import quotient
from fairopt.properties.within import SLACK, Counted, constraints_of
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import tell

LOOKS = 20  # teams that are tried alone


@dataclass(frozen=True, eq=False)
class TeamGain:
    """An allocation in which one team's total grows while no other team's falls."""

    share: OfTeam  # of which the totals are
    teams: tuple[str, ...]
    totals: Float  # in the allocation, (n_teams,)
    better: Float  # in the other, (n_teams,); the same where no gain was found
    team: str | None  # the team that gains most; None if none does
    margin: float  # its gain, relative to its total
    bound: float  # no team can gain more, of those that were tried; proved


def team_gain(allocation: Allocation, tol: float, clock: Clock) -> TeamGain:
    """The largest relative gain of a team's total by the share of the objective, and a proved bound."""
    instance, share = allocation.instance, _share(allocation)
    names, of_user = share.labelling(instance)
    totals = allocation.share(share)
    alone = np.bincount(
        of_user, share.share.coefficients(instance).reshape(instance.n_users, -1).max(axis=1), len(names)
    )
    unit = np.where(totals > 0, totals, np.where(alone > 0, alone, 1.0))
    most = np.full(len(names), np.inf)
    margin, better, who = 0.0, totals, -1
    floors = MinShare(ByUser(dict(zip(names, (totals * (1 - SLACK)).tolist(), strict=True))), share)
    constraints = [*constraints_of(allocation.policy, instance), floors]
    for look in range(min(LOOKS, len(names)) + 1):
        if clock.late or not len(names) or (most <= tol).all() or margin > tol:
            break
        tell("Pareto efficiency of teams: teams in question", look, LOOKS)
        part = 1 / unit if look == 0 else np.where(np.arange(len(names)) == most.argmax(), 1 / unit, 0.0)
        factors = ByUser(dict(zip(instance.users, part[of_user].tolist(), strict=True)))
        program = Policy(Total(Counted(share.share, factors)), constraints)
        answer = program.allocate(instance, time_limit=clock.left)
        reached = answer.share(share)
        bound = max(0.0, float(answer.objective * np.exp(answer.certificate.gap) - part @ totals * (1 - SLACK)))
        most = np.minimum(most, np.where(part > 0, bound, np.inf))
        gains = quotient(reached - totals, unit, 0.0)
        if gains.max() > margin:
            margin, better, who = float(gains.max()), reached, int(gains.argmax())
    worst = float(most.max(initial=0.0))
    return TeamGain(share, tuple(names), totals, better, names[who] if who >= 0 else None, margin, max(worst, margin))


def levelled(policy: Any) -> OfTeam | None:
    """The teams' share that a policy compares, if it compares one."""
    policy = policy.policy if isinstance(policy, ChangedByHand) else policy
    objective = getattr(policy, "objective", None)
    for block in objective.share_blocks() if isinstance(objective, Objective) else ():
        inner = block.share if isinstance(block, Surplus) else block
        if isinstance(inner, OfTeam):
            return inner
    return None


def _share(allocation: Allocation) -> OfTeam:
    """The teams' share that the policy compares, else the dominant share under the innermost label."""
    if (share := levelled(allocation.policy)) is not None:
        return share
    by = allocation.instance.teams.outermost_first
    if not by:
        raise InvalidBlock("team-pareto is of teams, and users have none; leave it out, or give teams={'team': [...]}")
    return OfTeam(DominantShare(), by[-1])
