"""``fairopt frontier``: fairness and efficiency over the parameters of a family of notions."""

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
from fairopt.cli.interrupts import INTERRUPTED, STOPPED
from fairopt.cli.progress import complain, console_for, say, show_json, working, written
from fairopt.cli.values import VALUES, typed_values
from fairopt.errors import InvalidBlock
from fairopt.io.saving import write_whole
from fairopt.plots.tradeoff import check
from fairopt.policies.registry import named_constraint, named_family
from fairopt.report import files
from fairopt.report.frames import csv_text
from fairopt.report.frontiers import frontier_table, remarks
from fairopt.tradeoff.frontier import FORMAT, frontier

FRONTIER = """Trade fairness against efficiency: sweep one or two parameters of a family of notions.

Fairness is the smallest dominant share of users who want more, in percent of that under DRF; efficiency is the number \
of tasks in percent of the maximum. The table also shows Jain's index, f_beta, and the price of fairness with its \
bound. An asterisk marks points on the frontier: no other point is better in both fairness and efficiency.

\b
[bold]Families[/]
  fds, gfj      --alpha, or --beta and --lam
  pnorm         --p and --alpha; pnorm:p=2 fixes p
  kdf           --k
  file.py:NAME  a function NAME(...) -> fo.Policy; runs the file;
                --grid name=VALUES sets its parameters

[bold]Values[/]: 0:10:41 (41 values from 0 to 10), 0.5,1,2 or one number; --grid also takes on,off and words.

If a point has no certified answer, its row gives the reason. The exit code is 1 if no point has an answer.

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
    family: Annotated[str, typer.Option("--family", "-f", metavar="NAME", help="A family listed above.")],
    alpha: Annotated[str | None, typer.Option(metavar=VALUES, help="Parameter alpha of alpha-fairness.")] = None,
    beta: Annotated[str | None, typer.Option(metavar=VALUES, help="Parameter beta: the type of fairness.")] = None,
    lam: Annotated[
        str | None, typer.Option(metavar=VALUES, help="Parameter lambda: the emphasis on efficiency.")
    ] = None,
    p: Annotated[str | None, typer.Option(metavar=VALUES, help="Parameter p of p-norm shares.")] = None,
    k: Annotated[str | None, typer.Option(metavar=VALUES, help="Parameter k of k-dominant shares.")] = None,
    grid: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUES", help="Values of any parameter; repeatable.")
    ] = None,
    constraint: Constraints = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture to a .png, .pdf or .svg file.")] = None,
    kind: Annotated[
        str, typer.Option(help="Kind of picture: 'tradeoff', 'tasks' (one parameter) or 'map' (two).")
    ] = "tradeoff",
    of: Annotated[str, typer.Option(help="Quantity on a map: 'fairness', 'efficiency', 'method', ...")] = "fairness",
    out: Annotated[
        Path | None, typer.Option(help="Save all points as .csv, or with the tasks of users as .json.")
    ] = None,
    processes: Annotated[int, typer.Option(metavar="N", help="Number of processes.")] = 1,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Store finished points in this file, and continue from it if it exists."),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit for the sweep; finished points are shown.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sweep parameters of a family."""
    files.check_output(out, (".csv", ".json"), source.path)
    files.check_output(resume, (".json",), source.path)
    files.check_output(plot, files.PICTURES)
    axes = _axes({"alpha": alpha, "beta": beta, "lam": lam, "p": p, "k": k}, grid)
    if len(axes) <= 2:  # more are refused by `frontier`
        check(kind, len(axes), of)
    blocks = [named_constraint(text) for text in constraint or ()]  # raises before anything is solved
    make = named_family(family)
    instance = source.read()
    if blocks:
        made, make = make, functools.wraps(make)(lambda **point: constrained(made(**point), blocks, instance))
        make.__name__ = family

    def interrupted() -> None:
        complain(
            INTERRUPTED + (f"; {resume} holds the finished points, and the same command continues" if resume else "")
        )

    with working(family, on_interrupt=interrupted):
        result = frontier(make, instance, axes, processes=processes, resume=resume, time_limit=time_limit)
    if as_json:
        show_json(FORMAT, result.to_dict())
    else:
        console_for().print(frontier_table(result))
        for line in remarks(result):
            say(line, style="dim")
    if (
        out is not None and out.suffix.lower() == ".json"
    ):  # after the table is shown, in case the file cannot be written
        result.save(out)
    elif out is not None:
        write_whole(out, csv_text(result.rows(), list(result.columns)))
    drawn = plot if np.isfinite(result["efficiency"]).any() else None
    if drawn is not None:
        files.write_picture(result.plot(kind=kind, of=of).figure, drawn)
    elif plot is not None:
        complain(f"no picture: no point has an answer, so {plot} is not written")
    for path in (out, drawn):
        written(path)
    if result.interrupted:
        interrupted()
        raise typer.Exit(STOPPED)
    if all(result["error"]):
        raise typer.Exit(NOT_CERTIFIED)


def _axes(named: dict[str, str | None], others: Sequence[str] | None) -> dict[str, list[Any]]:
    """The values of each parameter given."""
    out = {name: typed_values(f"--{name}", text) for name, text in named.items() if text is not None}
    for word in others or ():
        name, equals, text = (part.strip() for part in word.partition("="))
        if not equals or not name.isidentifier():
            raise InvalidBlock(f"--grid {word}: give a parameter and its values, such as lam=0:1:5")
        if name in out:
            raise InvalidBlock(f"--grid {word}: {name} is given twice; give it once")
        out[name] = typed_values(f"--grid {name}", text, words=True)
    if not out:
        raise InvalidBlock("no parameter to sweep; give one or two, such as --alpha 0:10:41 or --grid name=0:1:5")
    return out
