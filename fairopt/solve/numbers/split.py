"""The split of totals inside teams, which objectives of teams alone leave open.

Where no later tier decides it, it is the leximin of the members' shares given the totals. After a leximin of totals
its prices determine the tasks of all members but those whose costs tie (complementary slackness), and of the last one
of each team.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Pairs
from fairopt.blocks.objectives import Leximin, Objective
from fairopt.blocks.rows import Rows
from fairopt.blocks.shares import Share, takes_windows
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.errors import Infeasible, OutOfDomain
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.proof.evidence.number_levels import NumberLevels
from fairopt.proof.feasibility import repair
from fairopt.proof.gate import BY_LEXIMIN, OPEN, Answer
from fairopt.proof.number_level_bounds import NumberBounds, NumberDual
from fairopt.proof.proposal import Proposal
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import NOISE
from fairopt.solve.arrays import Bool
from fairopt.solve.cone.solve import _SolverFailed
from fairopt.solve.form.program import Float, Program
from fairopt.solve.numbers.level_program import NumberPrograms, loads
from fairopt.solve.numbers.leximin import linear_only, open_columns, solve_leximin_of_numbers
from fairopt.solve.settings import Proposals, Settings

MOST = 2_000  # members whose tasks the totals leave open: with many ties there are tens of levels more


@dataclass(frozen=True, repr=False, eq=False)
class _Bounds(Constraint):
    """The bounds on tasks of some users of a program."""

    low: Float
    high: Float

    def bounds(self, instance: Instance) -> tuple[Float, Float]:
        return self.low, self.high

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        limited = np.isfinite(self.high)
        return {"low": Rows(-pairs.totals, -self.low), "high": Rows(pairs.totals[limited], self.high[limited])}


@dataclass(frozen=True, repr=False, eq=False)
class _Left(Constraint):
    """What the other users leave of capacities and further rows, and the totals to be kept."""

    left: Mapping[str, Rows]

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        return dict(self.left)


def team_share(objective: Objective) -> OfTeam | None:
    """The only share of teams of an objective that has no other shares."""
    shares = {s.share if isinstance(s, Surplus) else s for s in objective.share_blocks()}
    team = shares.pop() if len(shares) == 1 else None
    return team if objective.is_known and isinstance(team, OfTeam) else None


def split_inside_teams(
    program: Program,
    answer: Answer,
    settings: Settings,
    best: Callable[[Program, Proposals], Answer],
) -> Answer:
    """The answer with the totals of teams split by leximin of the members' shares, and a note.

    ``best`` is the best of a method's proposals, as the gate judges them.
    """
    team = team_share(program.objective)
    if team is None or program.empty or np.bincount(team.labelling(program.instance).of_user).max() == 1:
        return answer
    open_split = replace(answer, note=f"the split of totals inside each {team.by} {OPEN}")
    if team.inside == "any" or not linear_only(program):
        return open_split
    settings = replace(settings, start=None, general=None)
    try:
        totals = program
        if not program.term.is_order:
            totals = Program(program.given, Leximin(team), program.constraints, program.merge)
        tasks, duals = _at_the_boundary(totals, answer, settings)
        undetermined = ~_determined(totals, duals, team.share)
        if undetermined.sum() > MOST:
            return open_split
        found = tasks
        if undetermined.any():
            inside = _among(totals, undetermined, tasks, team.share)
            inside.objective.check(inside.instance)
            split = best(inside, solve_leximin_of_numbers(inside, settings))
            if not split.ok:
                return open_split
            found = tasks.copy()
            found[undetermined[program.pairs.user]] = split.tasks
    except (OutOfDomain, Infeasible, _SolverFailed):  # a member without a share, or rounding
        return open_split
    after = gate.judge(program, Proposal(answer.method, found, answer.evidence, answer.solver))
    if not after.ok:
        return open_split
    note = f"inside each {team.by} {BY_LEXIMIN} of the members' {team.share} given the totals, as proved when found"
    return replace(after, tried=answer.tried, note=note)


def _among(program: Program, users: Bool, tasks: Float, share: Share) -> Program:
    """Leximin of shares of some users, while the totals of all numbers and the tasks of the others are kept."""
    part, of_pair = program.instance._taking_part(users), users[program.pairs.user]
    part.__dict__["team_guarantees"] = {}  # rows of the program keep them
    rest, bounds = np.where(of_pair, 0.0, tasks), NumberBounds(program)
    totals = bounds.at(tasks) - bounds.at(rest)
    some = np.unique(bounds.number[of_pair])
    place = np.searchsorted(some, bounds.number[of_pair]), np.arange(int(of_pair.sum()))
    kept = sp.csr_array((bounds.c[of_pair], place), shape=(len(some), len(place[0])))
    totals = np.where(totals > NOISE * bounds.typical, totals, 0.0)[some]
    left = {"totals": Rows(kept, totals, equal=True)}
    rows = [(loads(program, of_pair), program.usable_rows - program.rows.load(rest), False)]
    for one in program.rows.further:
        rows.append((one.rows.per_task[:, of_pair], one.rows.right - one.rows.load(rest), one.rows.equal))
    for k, (table, right, equal) in enumerate(rows):  # a right side is never below what is used, by rounding
        left[f"row {k}"] = Rows(table, right if equal else np.maximum(right, table @ tasks[of_pair]), equal)
    blocks = _Bounds(program.low[users], program.high[users]), _Left(left)
    inside = Program(part, Leximin(share), blocks, merge=False)
    equal = (totals / np.bincount(place[0]))[place[0]] / bounds.c[of_pair]  # tasks at equal parts of the totals
    size = np.zeros(len(inside.size))
    np.maximum.at(size, inside.pairs.user, equal)
    inside.__dict__["size"] = np.where(size > 0, size, inside.size)
    return inside


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


def _determined(program: Program, duals: Sequence[NumberDual], share: Share) -> Bool:
    """The users whose tasks on one pool follow from the totals, by prices of these.

    They are at a bound if their reduced costs are not zero, and the last one of a team runs what its total leaves.
    """
    if not (program.single and takes_windows(share, program.instance)):
        return np.zeros(program.instance.n_users, dtype=bool)
    bounds = NumberBounds(program)
    fixed = program.most <= program.low
    for dual in duals:
        fixed |= np.abs(bounds.reduced_costs(dual)) > NOISE * dual.of_numbers[bounds.number] * bounds.c
    members = np.bincount(bounds.number[~fixed], minlength=len(bounds.most))
    return fixed | (members == 1)[bounds.number]
