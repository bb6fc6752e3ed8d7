"""The split of totals inside teams, which objectives of teams alone leave open.

Where no later tier decides it, it is the leximin of the members' shares given the totals. Prices of an optimum
determine the tasks of all members but those whose costs tie (complementary slackness); `inside` finds the others'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairopt.blocks.objectives import Leximin, Objective
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.proof import gate
from fairopt.proof.determined import determined_pairs
from fairopt.proof.evidence.number_levels import NumberLevels
from fairopt.proof.feasibility import repair
from fairopt.proof.gate import BY_LEXIMIN, OPEN, Answer
from fairopt.proof.inside_teams import InsideTeams
from fairopt.proof.number_level_bounds import NumberBounds, NumberDual, n_further
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE
from fairopt.solve.cone.solve import _SolverFailed
from fairopt.solve.form.program import Program
from fairopt.solve.numbers.leximin import linear_only
from fairopt.solve.settings import Settings


def team_share(objective: Objective) -> OfTeam | None:
    """The only share of teams of an objective that has no other shares."""
    shares = {s.share if isinstance(s, Surplus) else s for s in objective.share_blocks()}
    team = shares.pop() if len(shares) == 1 else None
    return team if objective.is_known and isinstance(team, OfTeam) else None


def split_inside_teams(program: Program, answer: Answer, settings: Settings) -> Answer:
    """The answer with the totals of teams split by leximin of the members' shares, and a note."""
    team = team_share(program.objective)
    if team is None or program.empty or np.bincount(team.labelling(program.instance).of_user).max() == 1:
        return answer
    open_split = replace(answer, note=f"the split of totals inside each {team.by} {OPEN}")
    if team.inside == "any" or not linear_only(program):
        return open_split
    from fairopt.solve.numbers.inside import Split

    note = f"inside each {team.by} {BY_LEXIMIN} of the members' {team.share} given the totals, as proved when found"
    totals = program
    if not program.term.is_order:
        totals = Program(program.given, Leximin(team), program.constraints, program.merge)
    tasks = repair(program, answer.tasks)
    try:
        Leximin(team.share).check(program.instance)
        fixed = _determined(totals, answer, tasks)
        if fixed.all():
            return replace(answer, note=note)
        inside = InsideTeams(totals, team, tasks, ~fixed)
        split = Split(inside, settings)
        split.fill()
    except (OutOfDomain, Infeasible, _SolverFailed):  # a member without a share, or rounding
        return open_split
    divided = tasks.copy()
    divided[inside.place] = split.tasks
    after = gate.judge(program, Proposal(answer.method, repair(program, divided), answer.evidence, answer.solver))
    if not after.ok:
        return open_split
    gap = inside.gap(split.duals, after.tasks[inside.place])
    if not gap <= GAP_TOLERANCE:
        note = (
            f"the split of totals inside each {team.by} {OPEN}: about the leximin of the members' {team.share}, but "
            f"not proved (gap {gap:.1e})"
        )
    return replace(after, tried=answer.tried, note=note)


def _determined(program: Program, answer: Answer, tasks: Float) -> Bool:
    """The pairs whose tasks follow from the totals; all of a user that has others, unless it runs none there."""
    bounds, pairs = NumberBounds(program), program.pairs
    fixed = determined_pairs(bounds, _prices(bounds, answer, tasks), tasks)
    open_users = np.zeros(len(program.most), dtype=bool)
    open_users[pairs.user[~fixed]] = True
    return fixed & ~(open_users[pairs.user] & (tasks > NOISE * pairs.sum(tasks)[pairs.user]))


def _prices(bounds: NumberBounds, answer: Answer, tasks: Float) -> Iterator[NumberDual]:
    """Prices of rows and totals at the answer: those of its levels, or of capacities with what a total then costs."""
    if isinstance(answer.evidence, NumberLevels):
        yield from answer.evidence.duals
        return
    program = bounds.program
    if answer.prices is None or len(answer.prices) != len(program.usable_rows):
        return
    prices = np.maximum(answer.prices, 0.0)
    below = (bounds.pairs.sum(tasks) < program.most * (1 - NOISE))[bounds.pairs.user]
    per = np.where(below, program.rows.cost(prices) / bounds.c, np.inf)
    of_numbers = np.full(len(bounds.most), np.inf)
    np.minimum.at(of_numbers, bounds.number, per)
    of_numbers = np.where(np.isfinite(of_numbers), of_numbers, 0.0)
    yield NumberDual(np.zeros(0, dtype=np.intp), prices, of_numbers, np.zeros(n_further(program)))
