"""``fairopt library``: named instances with their sources and certified answers."""

from __future__ import annotations

from typing import Annotated

import typer

from fairopt import datasets
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.inputs import LIBRARY
from fairopt.cli.progress import console_for, say, show_json
from fairopt.errors import InvalidInstance

SHOW = f"""List named instances, or show one with its source and certified answers.

Every command reads an instance of the library as {LIBRARY}NAME.

\b
[bold]Examples[/]
  fairopt library
  fairopt library --tag deployed
  fairopt library --tag hard --tag ties
  fairopt library ghodsi-2011-example
  fairopt solve library:ghodsi-2011-example -p nash
  fairopt compare library:cluster-demo -p drf -p most-tasks"""


@app.command(help=SHOW)
@guarded
def library(
    name: Annotated[str | None, typer.Argument(show_default=False, metavar="[NAME]", help="The case to show.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only cases with this tag; repeatable.", metavar="TAG")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the cases, or show one."""
    known = datasets.library()
    if name is not None:
        if tag:
            raise InvalidInstance(f"--tag lists cases, and {name!r} is one; give either")
        case = known[name.removeprefix(LIBRARY)]
        if as_json:
            show_json("fairopt.case/1", case.to_dict())
        else:
            console_for().print(case)
        return
    cases = known.tagged(*tag or ())
    if as_json:
        show_json("fairopt.library/1", {"cases": [case.to_entry() for case in cases.values()]})
        return
    console_for().print(cases)
    say(f"Tags: {', '.join(f'{tag} ({count})' for tag, count in cases.tags.items())}")
    say("Families of any size: " + ", ".join(known.families()) + " (fo.datasets.library().family)")
