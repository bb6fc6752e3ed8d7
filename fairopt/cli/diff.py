"""``fairopt diff``: what changed between two saved answers, and because of what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairopt.allocation import Allocation
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.inputs import TimeLimit
from fairopt.cli.progress import console_for, say, show_json, working
from fairopt.policies.registry import named_policy
from fairopt.questions.differences import diff as difference
from fairopt.report import differences as report
from fairopt.runtime.display import sentence

DIFF = """Show what changed between two saved answers, and because of what: jobs, servers, weights or the policy.

The old policy is solved again for the new jobs on the old servers, then on the new servers with the old weights, \
guarantees and limits. All answers are certified, and what the steps add is together what changed.

\b
[bold]Examples[/]
  fairopt solve cluster/ --out today.json
  fairopt diff monday.json today.json
  fairopt diff monday.json today.json --json"""
_SAVED = "A file of 'fairopt solve --out'."


@app.command(no_args_is_help=True, help=DIFF)
@guarded
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help=_SAVED, show_default=False)],
    new: Annotated[Path, typer.Argument(metavar="NEW", help=_SAVED, show_default=False)],
    policy: Annotated[
        str | None,
        typer.Option("--policy", "-p", help="The policy of both, if its blocks are your own: file.py:NAME (runs it)."),
    ] = None,
    time_limit: TimeLimit = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two saved answers, and because of what."""
    own = None if policy is None else named_policy(policy)
    with working("comparing answers"):
        answers = [Allocation.load(path, own) for path in (old, new)]
        differences = difference(*answers, time_limit=time_limit)
    if as_json:
        show_json(report.FORMAT, differences.to_dict())
    else:
        for table in report.diff_tables(differences):
            console_for().print(table)
        for line in report.certificates(differences):
            say(line)
        for line in differences.sentences:
            say(sentence(line))
