"""The split of totals inside teams, which objectives of teams alone leave open.

Where no later tier decides it, it is the leximin of the members' shares given the totals. After a leximin of totals
its prices determine the tasks of all members but those whose costs tie (complementary slackness), and of the last one
of each team.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Leximin, Objective
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.evidence.number_levels import NumberLevels
from fairopt.formulation.program import Float, Program
from fairopt.instance import Instance
from fairopt.methods.arrays import Bool
from fairopt.methods.cone.solve import _SolverFailed
from fairopt.methods.numbers.level_program import NumberPrograms
from fairopt.methods.numbers.leximin import linear_only, open_columns, solve_leximin_of_numbers
from fairopt.methods.settings import Proposals, Settings
from fairopt.proofs import gate
from fairopt.proofs.conditions import repair
from fairopt.proofs.gate import Answer
from fairopt.proofs.number_levels import NumberBounds, NumberDual
from fairopt.proofs.proposal import Proposal
from fairopt.tolerances import NOISE

MOST = 20_000  # members whose tasks the totals leave open: with more, programs take minutes


@dataclass(frozen=True, repr=False, eq=False)
class _Fixed(Constraint):
    """The tasks of users that the totals of their teams determine."""

    fixed: Bool
    tasks: Float

    def bounds(self, instance: Instance) -> tuple[Float, Float]:
        if instance.n_users != len(self.tasks):  # users of limit 0
            return np.zeros(instance.n_users), np.full(instance.n_users, np.inf)
        return np.where(self.fixed, self.tasks, 0.0), np.where(self.fixed, self.tasks, np.inf)


def team_share(objective: Objective) -> OfTeam | None:
    """The only share of teams of an objective that has no other shares."""
    shares = {s.share if isinstance(s, Surplus) else s for s in objective.share_blocks()}
    team = shares.pop() if len(shares) == 1 else None
    return team if objective.is_known and isinstance(team, OfTeam) else None


def split_inside_teams(
    program: Program,
    answer: Answer,
    settings: Settings,
    keep: Callable[[Point, Share], Constraint],
    best: Callable[[Program, Proposals], Answer],
) -> Answer:
    """The answer with the totals of teams split by leximin of the members' shares, and a note.

    ``keep`` gives the constraint that shares at a point are kept, ``best`` the best of a method's proposals.
    """
    team = team_share(program.objective)
    if team is None or program.empty:
        return answer
    open_split = replace(answer, note=f"the split of totals inside a {team.by} is one of several")
    if not linear_only(program):
        return open_split
    settings = replace(settings, start=None, general=None)
    try:
        totals = Program(program.given, Leximin(team), program.constraints, program.merge)
        tasks, duals = _at_the_boundary(totals, answer, settings)
        kept: list[Constraint] = [keep(program.point(tasks), team)]
        fixed = _determined(totals, duals)
        if (~fixed).sum() > MOST:
            return open_split
        if fixed.any():
            kept.append(_Fixed(fixed, tasks))
        inside = Program(program.given, Leximin(team.share), (*program.constraints, *kept), program.merge)
        inside.objective.check(inside.instance)
        found = best(inside, solve_leximin_of_numbers(inside, settings))
    except (OutOfDomain, Infeasible, _SolverFailed):  # a member without a share, or rounding
        return open_split
    after = gate.judge(program, Proposal(answer.method, found.tasks, answer.evidence, answer.solver))
    if not (found.ok and after.ok):
        return open_split
    note = f"inside a {team.by} the split is the leximin of the members' {team.share} given the totals"
    return replace(after, tried=answer.tried, note=note)


def _at_the_boundary(program: Program, answer: Answer, settings: Settings) -> tuple[Float, Sequence[NumberDual]]:
    """Tasks at which no total can rise in proportion, and the prices that prove it.

    An interior point leaves totals a little below, and members that cost too much would share the difference.
    """
    if isinstance(answer.evidence, NumberLevels):
        return answer.tasks, answer.evidence.duals
    bounds = NumberBounds(program)
    totals = bounds.at(answer.tasks)
    totals = np.where(totals > NOISE * bounds.typical, totals, 0.0)
    programs = NumberPrograms(bounds, settings, *open_columns(bounds))
    dual = programs.solve(np.zeros(len(totals)), totals, np.maximum(totals, bounds.typical)).dual
    return repair(program, programs.tasks), (dual,)


def _determined(program: Program, duals: Sequence[NumberDual]) -> Bool:
    """The users whose tasks on one pool follow from the totals, by prices of these.

    They are at a bound if their reduced costs are not zero, and the last one of a team runs what its total leaves.
    """
    if not program.single:
        return np.zeros(program.instance.n_users, dtype=bool)
    bounds = NumberBounds(program)
    fixed, totals = program.most <= program.low, np.zeros(len(bounds.most), dtype=bool)
    for dual in duals:
        paid = dual.of_numbers * bounds.typical
        totals |= paid > NOISE * paid.max(initial=0.0)
        fixed |= np.abs(bounds.reduced_costs(dual)) > NOISE * dual.of_numbers[bounds.number] * bounds.c
    members = np.bincount(bounds.number[~fixed], minlength=len(totals))
    return fixed | (totals & (members == 1))[bounds.number]
