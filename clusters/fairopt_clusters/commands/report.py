"""``fairopt report``: one page on a cluster for those who run it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fairopt.cli import (
    DEFAULT,
    INTERRUPTED,
    STOPPED,
    USUAL,
    WHAT_POLICY,
    AsJson,
    Constraints,
    Solving,
    Source,
    asked,
    command,
    complain,
    exit_code,
    reading,
    say,
    show_json,
    working,
    written,
)
from fairopt.errors import InvalidBlock
from fairopt.report import check_output
from fairopt_clusters.report import cluster

REPORT = """Write one page on a cluster for those who run it: what to do, who waits, who gets what, and why.

The page is one HTML file that loads nothing else, for a phone, a desk or a printer, in light and dark. It has what \
each team and user gets under each notion, and what it is entitled to if all had more work than fits, beside what runs \
now where INPUT says so; shares and utilisation; what one \
more of each resource is worth; what stops each team; envy; properties of fairness with the users who show that one \
fails; certificates, and the command that proves the answers again.

The answers are saved beside the page, for report.html in the folder report-answers, and proved again from these \
files. The summary is of the first policy. Teams are always listed, of many users the smallest and the largest shares.

\b
[bold]Examples[/]
  fairopt report cluster/
  fairopt report now.json -p hdrf -p drf --out shares.html --title "GPU cluster, March"
  fairopt report cluster/ -p drf --no-answers --out page.html
  fairopt report openb/ --pods gpuspec33 --capacity-scale 0.5 -p drf --time-limit 60
  fairopt report cluster/ -p drf -p most-tasks --json"""


@command(help=REPORT)
@reading
def report(
    source: Source,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", help=WHAT_POLICY + " Repeatable; the summary is of the first." + DEFAULT),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page, a .html file.")] = Path("report.html"),
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the answers are saved. Default: beside the page, report-answers."),
    ] = None,
    no_answers: Annotated[bool, typer.Option("--no-answers", help="Do not save the answers.")] = False,
    title: Annotated[str | None, typer.Option(help="The heading of the page. Default: made of INPUT.")] = None,
    lead: Annotated[
        str | None,
        typer.Option(
            metavar="RESOURCE",
            help="Advise on purchases by units of this resource more in use, such as gpu, or by 'tasks'. Default: GPUs "
            "if users wait for some, else tasks.",
        ),
    ] = None,
    constraint: Constraints = None,
    how: Solving = USUAL,
    as_json: AsJson = False,
) -> None:
    """Write one page on a cluster for those who run it."""
    check_output(out, cluster.ENDINGS, source.path)
    if no_answers and answers is not None:
        raise InvalidBlock(f"--answers {answers} and --no-answers contradict each other; give one of them")
    folder = None if no_answers else answers or out.with_name(f"{out.stem}-answers")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InvalidBlock(f"--answers {folder}: this is a file; give the name of a folder")
    given: list[str | None] = [*policy] if policy else [None]
    of = asked(given, constraint, how.solver)
    instance = source.read()
    chosen = of(instance, source)
    more = [word for one in constraint or () for word in ("-c", one)]
    words = {name: (*(("-p", one) if one else ()), *more) for name, one in zip(chosen, given, strict=True)}
    with working("report", how.verbose, lambda: complain(INTERRUPTED)):  # Ctrl-C keeps what is found
        found = cluster.report(
            chosen,
            instance,
            title=title or f"Fair shares of {source.title}",
            lead=lead,
            full_demand=None if np.isinf(instance.task_limits).all() else source.read_at_full_demand(),
            **how.options,
        )
        saved = found.write(out, answers=folder, origin=cluster.Origin(source.words, words), time_limit=how.time_limit)
    made = [out, *(one.path for one in saved.values())]
    if as_json:
        show_json(cluster.FORMAT, found.to_dict() | {"written": [str(path) for path in made]})
    else:
        for line in found.sentences:
            say(line)
        written(*made)
    for name, error in found.comparison.errors.items():
        complain(f"{name}: {type(error).__name__}: {error}")
    if found.comparison.interrupted:
        complain(f"stopped by Ctrl-C after {len(found.comparison.outcomes)} of {len(chosen)} policies")
        raise typer.Exit(STOPPED)
    if found.comparison.errors:
        raise typer.Exit(max(map(exit_code, found.comparison.errors.values())))
