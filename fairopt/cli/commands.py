"""The commands of ``fairopt``, one function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt import datasets, report
from fairopt.cli.application import app, exit_code, guarded
from fairopt.cli.inputs import Source, reading
from fairopt.cli.interrupts import STOPPED
from fairopt.cli.progress import complain, console_for, working
from fairopt.cli.streams import told
from fairopt.errors import FairoptError, InvalidBlock
from fairopt.formulation import solvers
from fairopt.instance import Instance
from fairopt.policies.registry import named_constraint, named_policy
from fairopt.policy import Policy, accepted, label
from fairopt.report import Comparison, Outcome, demonstration, files

FEW_USERS = 12  # whose tasks are worth a table beside the comparison
WHAT_POLICY = "A name as kdf:k=2, blocks, or file.py:NAME or module:NAME, which runs that file; see 'fairopt policies'."
SOLVE = """Find the best allocation under one policy, and prove it.

\b
[bold]Examples[/]
  fairopt solve cluster/ --policy drf
  fairopt solve cluster.json --policy kdf:k=2 --out answer.json
  fairopt solve cluster/ --policy "AlphaFair(2, KDominantShare(2))" --json
  fairopt solve cluster/ --policy my_notions.py:MINE --solver SCS
  fairopt solve cluster/ -p most-tasks --constraint "SharingIncentive()" --weight web=2
  fairopt solve cluster/ --policy drf --integral
  fairopt solve openb/ --pods gpuspec33 --capacity-scale 0.5 -p fds:alpha=2"""
COMPARE = """Compare policies on one cluster.

A policy without an answer is a row with the reason; the exit code is then 1.

Where servers have types (the column "type" of servers.csv; the model of GPU in openb), tables show the tasks and the \
use of each resource by type, and --plot-types draws them.

\b
[bold]Examples[/]
  fairopt compare cluster/ --policy drf --policy 2df --policy most-tasks
  fairopt compare cluster/ -p drf -p fds:alpha=1 -p nash --plot shares.png
  fairopt compare cluster/ -p drf -p my_notions.py:MINE --json
  fairopt compare openb/ --pods gpuspec33 --capacity-scale 0.5 -p drf -p tsf
  fairopt compare openb/ -p drf -p most-tasks --plot-types types.png"""
POLICIES = """List the policies known by name, and how to write your own.

\b
[bold]Example[/]
  fairopt policies"""
SOLVERS = """List the solvers, installed or not, and the problems that each can take.

\b
[bold]Example[/]
  fairopt solvers, and then: fairopt solve cluster/ -p drf --solver CLARABEL"""
DEMO = """Compare policies on a small cluster that ships with fairopt, and explain the results.

\b
[bold]Example[/]
  fairopt demo --folder first-steps"""
OWN_POLICIES = """
[bold]With parameters[/]: kdf:k=3, fds:alpha=2, gfj:beta=2,lam=-0.5
[bold]From blocks[/]: "AlphaFair(2, KDominantShare(2)) + 0.1 * Total(Tasks())" or
  "Policy(Leximin(), constraints=[SharingIncentive()])"
[bold]Your own[/]: in a file notions.py write
    import fairopt as fo
    MINE = fo.Policy(fo.AlphaFair(2) + 0.1 * fo.Total(fo.Tasks()))
  and give --policy notions.py:MINE, which runs that file; give only files that you trust. NAME is a policy, a class
  of policies, or a function annotated to return one: def make() -> fo.Policy
  (packages offer policies by entry points in the group fairopt.policies)"""
WHICH_SOLVER = (
    "\n[bold]linear[/] programs: DRF, k-DF, TSF, most tasks. [bold]exponential[/] cones: alpha = 1 and more, Nash "
    "welfare. [bold]power[/] cones: alpha below 1; for solvers without them powers are approximated closely, and the "
    "certificate decides. Without --solver the fastest exact method is taken, and the next solver if an answer cannot "
    "be certified."
)


Solver = Annotated[str | None, typer.Option(help="Solve by CVXPY with this solver only; see 'fairopt solvers'.")]
Method = Annotated[str, typer.Option(help="'auto' takes the first exact method, 'cone' the general one.")]
TimeLimit = Annotated[float | None, typer.Option(metavar="SECONDS", help="Seconds for each policy.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the output of solvers (on stderr).")]
Constraints = Annotated[
    list[str] | None,
    typer.Option(
        "--constraint",
        "-c",
        metavar="BLOCK",
        help="A further constraint of every policy, as 'MaxShare(0.3)', or file.py:NAME, which runs it; repeat it.",
    ),
]
Integral = Annotated[
    bool,
    typer.Option("--integral", help="Whole tasks, each on one server: the best where that is linear, else rounded."),
]
Rounded = Annotated[
    bool, typer.Option("--rounded", help="Whole tasks by rounding divisible ones, fast on large clusters.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")]


def constrained(mechanism: Any, constraints: Sequence[str] | None) -> Any:
    """A policy under further constraints, given as text."""
    if not constraints:
        return mechanism
    if not isinstance(mechanism, Policy):
        raise InvalidBlock(f"{label(mechanism)} is not made of blocks, so it takes no --constraint; leave it out")
    return mechanism.with_constraints(*map(named_constraint, constraints))


@app.command(no_args_is_help=True, help=SOLVE)
@guarded
@reading
def solve(
    source: Source,
    policy: Annotated[str, typer.Option("--policy", "-p", help=WHAT_POLICY)] = "drf",
    constraint: Constraints = None,
    solver: Solver = None,
    method: Method = "auto",
    time_limit: TimeLimit = None,
    integral: Integral = False,
    rounded: Rounded = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the allocation: .json or .parquet with everything, .csv by user.")
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Find the best allocation under one policy, and prove it."""
    files.check(out, files.ALLOCATIONS, source.path)
    mechanism = constrained(named_policy(policy), constraint)
    instance = source.read()
    with working(label(mechanism), verbose):
        options = accepted(
            mechanism,
            method=method,
            solver=solver,
            time_limit=time_limit,
            verbose=verbose,
            integral="rounded" if rounded else integral,
        )
        allocation = mechanism.allocate(instance, **options)
    if as_json:
        typer.echo(files.as_json(report.describe(allocation)))
    else:
        for table in report.allocation_tables(allocation):
            console_for().print(table)
        _say(f"{label(mechanism)}: {allocation.tasks.sum():,.6g} tasks; {allocation.certificate}")
        if allocation.certificate.note:
            _say(f"note: {allocation.certificate.note}")
        for attempt in allocation.certificate.tried if verbose else ():
            _say(f"  tried {attempt}")
    if out is not None:  # after it is shown, in case it cannot be written
        files.write_allocation(allocation, out)
        if not as_json:
            _say(f"written: {out}")


@app.command(no_args_is_help=True, help=COMPARE)
@guarded
@reading
def compare(
    source: Source,
    policy: Annotated[list[str], typer.Option("--policy", "-p", help=WHAT_POLICY + " Repeat it.")],
    constraint: Constraints = None,
    solver: Solver = None,
    method: Method = "auto",
    time_limit: TimeLimit = None,
    integral: Integral = False,
    rounded: Rounded = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the shares of each resource by user, as .png, .pdf or .svg.")
    ] = None,
    plot_types: Annotated[
        Path | None,
        typer.Option(help="Draw tasks, and use of each resource, by type of server, as .png, .pdf or .svg."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the table: .json, .csv, .md or .tex.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Compare policies on one cluster."""
    files.check(out, files.COMPARISONS, source.path)
    for picture in (plot, plot_types):
        files.check(picture, files.PICTURES)
    if plot is not None and plot == plot_types:
        raise InvalidBlock(f"--plot and --plot-types would both write {plot}; give two names")
    constrained_policies = [constrained(named_policy(name), constraint) for name in policy] if constraint else policy
    chosen = report.mechanisms(constrained_policies)
    if solver is not None:
        solvers.named(solver)
    instance = source.read()

    def show(result: Comparison) -> None:
        console = console_for()
        if as_json:
            typer.echo(files.as_json(result.to_dict()))
        elif result.outcomes:
            console.print(result)
            if result.allocations and instance.n_users <= FEW_USERS:
                console.print("")
                console.print(result.tasks_table())
            by_type = result.server_type_tables()
            for table in by_type:
                console.print(table)
            if by_type:
                console.print(report.PLACEMENT, style="dim")
        made: dict[Path | None, Callable[[Path], Any]] = {}  # after they are shown, in case they cannot be written
        if result.outcomes:
            made[out] = lambda path: files.write_comparison(result, path)
        if result.allocations:
            made[plot] = lambda path: files.write_picture(result.plot(), path)
            made[plot_types] = lambda path: files.write_picture(result.plot("types"), path)
        for path, make in made.items():
            if path is not None:
                with working(f"writing {path}"):
                    make(path)
                if not as_json:
                    _say(f"written: {path}")
        if result.errors:
            failed = ", ".join(result.errors)
            complain(f"no certified answer from {len(result.errors)} of {len(chosen)} policies: {failed}")

    ask(
        chosen,
        instance,
        show,
        method=method,
        solver=solver,
        time_limit=time_limit,
        verbose=verbose,
        integral="rounded" if rounded else integral,
    )


def ask(chosen: Mapping[str, Any], instance: Instance, show: Callable[[Comparison], None], **options: Any) -> None:
    """Solve by each policy and show the outcomes, also those before Ctrl-C; exit with a code if some failed."""
    outcomes: list[Outcome] = []

    def last_words() -> None:
        try:
            show(Comparison(instance, tuple(outcomes), tuple(chosen)[len(outcomes) :]))
        except (FairoptError, OSError, MemoryError) as error:  # perhaps in a thread, whose exceptions are not shown
            complain(told(error))
        complain(f"stopped by Ctrl-C after {len(outcomes)} of {len(chosen)} policies")

    with working(f"{len(chosen)} policies", options["verbose"], last_words):
        left = report.ask_all(chosen, instance, outcomes, **options)
    if left:
        last_words()
        raise typer.Exit(STOPPED)
    result = Comparison(instance, tuple(outcomes))
    show(result)
    if result.errors:
        raise typer.Exit(max(map(exit_code, result.errors.values())))


@app.command(help=POLICIES)
@guarded
def policies(as_json: AsJson = False) -> None:
    """List the policies known by name, and how to write your own."""
    rows = report.policy_rows()
    if as_json:
        typer.echo(files.as_json(rows))
        return
    lines = [(r["name"], r["summary"] + (f"\nparameters: {r['parameters']}" if r["parameters"] else "")) for r in rows]
    _print_words(("policy", "what it is"), lines)
    console_for().print(OWN_POLICIES)


@app.command("solvers", help=SOLVERS)
@guarded
def list_solvers(as_json: AsJson = False) -> None:
    """List the solvers, installed or not, and the problems that each can take."""
    rows = report.solver_rows()
    if as_json:
        typer.echo(files.as_json(rows))
        return
    mark = {True: "yes", False: "-"}
    _print_words(
        ("solver", "installed", "linear", "exponential", "power", "pip install"),
        [
            (
                r["name"],
                *(mark[r[key]] for key in ("installed", "linear", "exponential", "power")),
                (r["install"] or "").removeprefix("pip install "),
            )
            for r in rows
        ],
    )
    console_for().print(WHICH_SOLVER)


@app.command(help=DEMO)
@guarded
def demo(
    folder: Annotated[Path, typer.Option(help="A folder for the pictures and the data.")] = Path("demo-out"),
) -> None:
    """Compare policies on a small cluster that ships with fairopt, and explain the results."""
    with working("five policies on ten users", verbose=False):
        result = report.compare(demonstration.POLICIES, datasets.demo())
    for part in demonstration.story(result):
        console_for().print(part, markup=False)
    drawn = find_spec("matplotlib") is not None
    written = demonstration.save(result, folder, drawn)
    _say("Written: " + ", ".join(map(str, written)))
    if not drawn:
        _say("For pictures too: pip install 'fairopt[plots]'")
    _say(f"Next: fairopt solve {written[0]} --policy 2df, or fairopt policies")


# -- pieces ---------------------------------------------------------------------------------------------------


def _say(line: str) -> None:
    console_for().print(line, markup=False)


def _print_words(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*map(Text, row))
    console_for().print(table)
