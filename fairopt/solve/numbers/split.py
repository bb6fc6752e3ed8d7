"""The split of totals inside teams, which objectives of teams alone leave open.

Where no later tier decides it, it is the leximin of the members' shares given the totals. Prices of an optimum
determine the tasks of all members but those whose costs tie (complementary slackness); `inside` finds the others'.

The answer's own proof is of the totals and stays as it is: the gate judges the divided tasks by the same evidence, and
if they lose the certificate the split is left open. How near the split is to leximin is a second number, which only the
note states (docs/methods/cone.md, *The split inside teams*).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairopt.blocks.objectives import Leximin, Objective
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.proof import gate
from fairopt.proof.determined import determined
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.number_levels import NumberLevels
from fairopt.proof.feasibility import repair
from fairopt.proof.gate import BY_LEXIMIN, OPEN, JudgedPoint
from fairopt.proof.inside_teams import InsideTeams
from fairopt.proof.number_level_bounds import NumberBounds
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
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


def split_inside_teams(program: Program, answer: JudgedPoint, settings: Settings) -> JudgedPoint:
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
    tasks = repair(program, answer.tasks)  # within capacities exactly, else the split has no point to start from
    try:
        Leximin(team.share).check(program.instance)
        bounds = NumberBounds(totals)
        fixed, settled = determined(bounds, _prices(bounds, answer, tasks), tasks)
        if settled.all():
            return replace(answer, note=note)
        inside = InsideTeams(totals, team, tasks, fixed, settled)
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


def _prices(bounds: NumberBounds, answer: JudgedPoint, tasks: Float) -> Iterator[Dual]:
    """Prices of rows and totals at the answer: those of its levels, or of capacities with what a total then costs."""
    if isinstance(answer.evidence, NumberLevels):
        yield from answer.evidence.duals
        return
    program = bounds.program
    if answer.prices is None or len(answer.prices) != len(program.usable_rows):
        return
    prices = np.maximum(answer.prices, 0.0)
    of_numbers = _marginal_costs(bounds, program.rows.cost(prices), tasks)
    yield Dual(prices, mixtures=[of_numbers])


@np.errstate(all="ignore")  # users without tasks
def _marginal_costs(bounds: NumberBounds, cost: Float, tasks: Float) -> Float:
    """What a unit of each number costs where its users, those that cost least first, run what they have."""
    program, pairs, numbers = bounds.program, bounds.pairs, bounds.numbers
    x, shares, paid = pairs.sum(tasks), pairs.sum(bounds.c * tasks), pairs.sum(cost * tasks)
    runs = x > NOISE * program.most
    # at a limit what it pays includes the limit's multiplier, which the cheapest pair does not show
    per = np.where(x >= program.most * (1 - NOISE), paid / shares, pairs.min(cost / bounds.c))
    c = np.where(runs, shares / x, -pairs.min(-bounds.c))
    team = bounds.number[pairs.first]
    order, ends = np.lexsort((per, team)), np.cumsum(np.bincount(team, minlength=len(numbers)))
    first, filled = np.append(0, ends[:-1]), np.append(0.0, np.cumsum((c * (program.most - program.low))[order]))
    wanted, room = numbers.sums(shares - c * program.low), filled[ends] - filled[first]
    last = np.searchsorted(filled, filled[first] + wanted * (1 - NOISE)) - 1
    out = per[order[np.clip(last, first, ends - 1)]]
    # where all are at their limits, enough for the servers on which they run
    full, above = wanted >= room * (1 - NOISE), c[pairs.user] - bounds.c
    worse = np.flatnonzero(full[bounds.number] & (above > NOISE * bounds.c))
    np.maximum.at(out, bounds.number[worse], (((c * per)[pairs.user] - cost) / above)[worse])
    return out
