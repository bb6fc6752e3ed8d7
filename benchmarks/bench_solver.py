"""The command that compares solvers on problems with known optima.

Run: python benchmarks/bench_solver.py SOLVER... [--help]
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from league_solvers import FORMAT, bench_solver
from league_standings import league_markdown, league_tables, remarks

from fairopt import datasets
from fairopt.cli.application import NOT_CERTIFIED, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.interrupts import INTERRUPTED, STOPPED
from fairopt.cli.progress import complain, console_for, say, show_json, working, written
from fairopt.errors import InvalidBlock
from fairopt.io.saving import write_whole
from fairopt.report import files
from fairopt.report.frames import csv_text

BENCH = """Compare solvers on problems with known optima: a league table.

SOLVER is a solver that CVXPY can call, a method of fairopt such as prices or cone, or all. The problems are the \
notions and cases of fairopt's library. fairopt's own choice, auto, always runs beside.

Each solver is judged twice on each problem. First through fairopt, which scales the problem, asks for tight \
tolerances and certifies the answer: certified, refused (no certificate, or out of time), or n/a (it lacks a cone). \
Then alone: the problem in natural units, solved with the solver's own options. Its claim is wrong if it reports \
"optimal" but the true gap of its answer is larger than --wrong-above, or if it reports that there is no optimum.

Each call runs in a subprocess, so that a solver that crashes or does not end fails on one problem only. After Ctrl-C \
the table shows the problems so far. The exit code is 1 if a certified answer contradicts the library, which would be \
a bug.

\b
[bold]Examples[/]
  python benchmarks/bench_solver.py CLARABEL
  python benchmarks/bench_solver.py all --max-users 100 --out league.csv
  python benchmarks/bench_solver.py SCS HIGHS --notion drf --notion nash
  python benchmarks/bench_solver.py prices cone --tag servers --json
  python benchmarks/bench_solver.py all --case ghodsi-2011-example
  python benchmarks/bench_solver.py CLARABEL --notion "AlphaFair(3)" --time-limit 2"""


app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


@app.command(no_args_is_help=True, help=BENCH)
@guarded
def bench(
    solver: Annotated[
        list[str],
        typer.Argument(
            metavar="SOLVER", show_default=False, help="One or several solvers or methods of fairopt, or 'all'."
        ),
    ],
    notion: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this notion, as drf or nash, or another policy, whose optima are computed first; repeatable.",
        ),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this case, see 'fairopt library'; repeatable.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Only cases with this tag; repeatable, all must fit.")
    ] = None,
    max_users: Annotated[int | None, typer.Option(metavar="N", min=0, help="Leave out cases with more users.")] = None,
    wrong_above: Annotated[float, typer.Option(metavar="GAP", help="A larger true gap makes a claim wrong.")] = 1e-4,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="Time limit for each call.")] = 10.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Save each solver on each problem as .csv, all as .json, or the tables as .md."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare solvers on problems with known optima."""
    files.check_output(out, (".csv", ".json", ".md"))
    library = datasets.library()
    chosen = library.tagged(*tag) if tag else library
    cases = {name: one for name, one in ((name, library[name]) for name in case) if name in chosen} if case else chosen
    if not cases:
        raise InvalidBlock("no case has all of these tags; give fewer --tag, or leave out --case")
    with working("bench", on_interrupt=lambda: complain(INTERRUPTED)):
        league = bench_solver(
            solver, notions=notion, cases=cases, max_users=max_users, wrong_above=wrong_above, time_limit=time_limit
        )
    if as_json:
        show_json(FORMAT, league.to_dict())
    else:
        for table in league_tables(league):
            console_for().print(table)
        for line in remarks(league):
            say(line, style="dim")
    if out is not None:  # after the table is shown, in case the file cannot be written
        texts = {
            ".csv": lambda: csv_text([asdict(match) | {"lacks": "; ".join(match.lacks)} for match in league.matches]),
            ".json": lambda: files.as_json(league.to_dict()) + "\n",
            ".md": lambda: league_markdown(league.standings) + "\n",
        }
        write_whole(out, texts[out.suffix.lower()]())
        if not as_json:
            written(out)
    for match in league.contradictions:
        complain(
            f"{match.solver} on {match.case}, {match.notion}: the certified answer differs from the library's by "
            f"{match.true_gap:.1e}; please report it"
        )
    if league.interrupted:
        complain(INTERRUPTED)
        raise typer.Exit(STOPPED)
    if league.contradictions:
        raise typer.Exit(NOT_CERTIFIED)


if __name__ == "__main__":
    app()
