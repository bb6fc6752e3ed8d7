"""``fairopt frontier``: fairness and efficiency of a family of notions, over one or two of its parameters."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fairopt.cli.application import NOT_CERTIFIED, app, guarded
from fairopt.cli.commands import AsJson, Constraints, constrained
from fairopt.cli.inputs import Source, reading
from fairopt.cli.interrupts import LAST_WORDS, STOPPED
from fairopt.cli.progress import complain, console_for, working
from fairopt.cli.values import VALUES, typed_values
from fairopt.errors import InvalidBlock
from fairopt.io.saving import write_whole
from fairopt.plots.tradeoff import check
from fairopt.policies.registry import named_constraint, named_family
from fairopt.report import files
from fairopt.report.frames import csv_text
from fairopt.report.frontiers import frontier_table, remarks
from fairopt.tradeoff.frontier import frontier

FRONTIER = """Sweep over one or two parameters of a family of notions: what does fairness cost in efficiency?

For each point the table has the smallest dominant share in percent of that under DRF (fairness), the number of tasks \
in percent of the most possible (efficiency), Jain's index, f_beta, and the price of fairness with its bound. Points \
marked * are the best of the sweep: no other point is better in both.

\b
[bold]Families[/]
  fds, gfj     --alpha, or --beta and --lam
  pnorm        --p and --alpha, or fixed as pnorm:p=2
  kdf          --k
  file.py:NAME runs that file and takes its function NAME(...) -> fo.Policy; --grid name=VALUES

[bold]Values[/]: 0:10:41 (from 0 to 10, 41 values), 0.5,1,2 or one number; for --grid also on,off and words.

A point without an answer (no optimum, not certified) is a row with the reason; the exit code is 1 if no point has an \
answer.

\b
[bold]Examples[/]
  fairopt frontier cluster/ --family fds --alpha 0:10:41 --plot fds.png
  fairopt frontier cluster/ -f gfj --alpha 0:6:25 --kind tasks --plot t.pdf
  fairopt frontier cluster/ -f fds --beta -5:5:41 --lam -2:2:41 \\
      --kind map --of method --plot map.png --resume kept.json --processes 4
  fairopt frontier cluster/ -f fds --alpha 0.5,1,2 -c "SharingIncentive()"
  fairopt frontier cluster/ -f mine.py:GAR --grid gar=on,off"""


@app.command("frontier", no_args_is_help=True, help=FRONTIER)
@guarded
@reading
def sweep(
    source: Source,
    family: Annotated[str, typer.Option("--family", "-f", metavar="NAME", help="The family, as listed above.")],
    alpha: Annotated[str | None, typer.Option(metavar=VALUES, help="alpha of alpha-fairness")] = None,
    beta: Annotated[str | None, typer.Option(metavar=VALUES, help="Type of fairness")] = None,
    lam: Annotated[str | None, typer.Option(metavar=VALUES, help="Emphasis on efficiency")] = None,
    p: Annotated[str | None, typer.Option(metavar=VALUES, help="The p of p-norms")] = None,
    k: Annotated[str | None, typer.Option(metavar=VALUES, help="The k of k-dominant shares")] = None,
    grid: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUES", help="Values of any parameter; repeat it.")
    ] = None,
    constraint: Constraints = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture, as .png, .pdf or .svg.")] = None,
    kind: Annotated[
        str, typer.Option(help="The picture: 'tradeoff', 'tasks' (one parameter) or 'map' (two).")
    ] = "tradeoff",
    of: Annotated[str, typer.Option(help="What a map shows: 'fairness', 'efficiency', 'method', ...")] = "fairness",
    out: Annotated[Path | None, typer.Option(help="Write all points: .csv, or .json with the tasks of users.")] = None,
    processes: Annotated[int, typer.Option(metavar="N", help="Processes that share the points.")] = 1,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep points in this file as they come, and go on from it if it exists."),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Seconds for the sweep; the points reached are shown.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sweep over parameters of a family."""
    files.check(out, (".csv", ".json"), source.path)
    files.check(resume, (".json",), source.path)
    files.check(plot, files.PICTURES)
    axes = _axes({"alpha": alpha, "beta": beta, "lam": lam, "p": p, "k": k}, grid)
    if len(axes) <= 2:  # more are refused by `frontier`
        check(kind, len(axes), of)
    for text in constraint or ():
        named_constraint(text)  # refused before anything is solved
    make = named_family(family)
    if constraint:
        made, make = make, functools.wraps(make)(lambda **point: constrained(made(**point), constraint))
        make.__name__ = family
    instance = source.read()

    def last_words() -> None:  # where compiled code does not return to Python
        complain(LAST_WORDS + (f"; {resume} keeps points, and the same command goes on" if resume else ""))

    with working(family, last_words=last_words):
        result = frontier(make, instance, axes, processes=processes, resume=resume, time_limit=time_limit)
    if as_json:
        typer.echo(files.as_json(result.to_dict()))
    else:
        console_for().print(frontier_table(result))
        for line in remarks(result):
            console_for().print(line, markup=False, style="dim")
    if out is not None and out.suffix.lower() == ".json":  # after it is shown, in case it cannot be written
        result.save(out)
    elif out is not None:
        write_whole(out, csv_text(result.rows(), list(result.columns)))
    drawn = plot if np.isfinite(result["efficiency"]).any() else None
    if drawn is not None:
        files.write_picture(result.plot(kind=kind, of=of).figure, drawn)
    elif plot is not None:
        complain(f"no picture: no point has an answer, so {plot} is not written")
    for path in () if as_json else filter(None, (out, drawn)):
        console_for().print(f"written: {path}", markup=False, soft_wrap=True)
    if result.interrupted:
        last_words()
        raise typer.Exit(STOPPED)
    if all(result["error"]):
        raise typer.Exit(NOT_CERTIFIED)


def _axes(named: dict[str, str | None], others: Sequence[str] | None) -> dict[str, list[Any]]:
    """The values of each parameter that was given."""
    out = {name: typed_values(f"--{name}", text) for name, text in named.items() if text is not None}
    for word in others or ():
        name, equals, text = (part.strip() for part in word.partition("="))
        if not equals or not name.isidentifier():
            raise InvalidBlock(f"--grid {word}: give a parameter, = and its values, as lam=0:1:5")
        if name in out:
            raise InvalidBlock(f"--grid {word}: {name} is given twice; give it once")
        out[name] = typed_values(f"--grid {name}", text, words=True)
    if not out:
        raise InvalidBlock("no parameter to sweep; give one or two, as --alpha 0:10:41 or --grid name=0:1:5")
    return out
