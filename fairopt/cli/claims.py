"""``fairopt claims``: claims from the literature, and whether they hold."""

from __future__ import annotations

from typing import Annotated

import typer

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.progress import console_for, show_json
from fairopt.properties.literature import claims as literature

CLAIMS = """List the claims of papers on fairness notions, and whether they hold.

A claim is proved (by an argument, or by an instance if it says that a property fails), refuted (by an argument, or by \
an instance small enough to check by hand), or held on all instances that were tried. --paper also shows the reasons.

\b
[bold]Examples[/]
  fairopt claims
  fairopt claims --paper MLF-DRS
  fairopt claims --json"""


@app.command(help=CLAIMS)
@guarded
def claims(
    paper: Annotated[
        str | None,
        typer.Option(help="Only matching papers: DRF, DRFH, k-DF, slides, MLF-DRS, FDS, H-FFMRA, or an author."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the claims."""
    chosen = literature.claims(paper)
    if as_json:
        show_json("fairopt.claims/1", {"claims": [claim.to_dict() for claim in chosen]})
        return
    console = console_for()
    for part in literature.tables(chosen, reasons=paper is not None):
        console.print(part)
        console.print("")
    console.print(literature.summary(chosen), markup=False)
