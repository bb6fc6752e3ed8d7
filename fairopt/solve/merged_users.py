"""Users who are alike, solved as one user of each kind (`fairopt.solve.form.alike`)."""

from __future__ import annotations

from fairopt.errors import FairoptError
from fairopt.proof.evidence.alike import OfKinds
from fairopt.proof.proposal import Proposal
from fairopt.solve.dispatch import ask
from fairopt.solve.form.alike import alike
from fairopt.solve.form.program import Program
from fairopt.solve.numbers.split import team_share
from fairopt.solve.settings import Proposals, Settings


def solve_merged_users(program: Program, settings: Settings) -> Proposals:
    """The answer of the program of kinds as that of the users; none if it has none, which these explain."""
    kinds = alike(program)
    if kinds is None:
        return
    try:
        found = ask(kinds.inner, settings)
    except FairoptError:
        return
    if not found.ok or found.evidence is None or (found.note and team_share(program.objective) is None):
        return
    evidence, tasks = OfKinds(kinds, found.evidence), kinds.spread(found.tasks)
    yield Proposal(found.method, tasks, evidence, found.solver, tried=found.tried, note=found.note)
