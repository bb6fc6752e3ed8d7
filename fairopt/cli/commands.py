"""The commands of ``fairopt``, one function each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fairopt import datasets
from fairopt.cli.inputs import Source, reading
from fairopt.cli.progress import LAST_WORDS, STOPPED, complain, console_for, stoppable, working
from fairopt.errors import FairoptError, InvalidBlock, InvalidInput, MissingExtra, SolverUnavailable
from fairopt.formulation import solvers
from fairopt.policies.parse import parse_constraint
from fairopt.policies.registry import named_policy
from fairopt.policy import Policy, accepted, label
from fairopt.report import (
    PLACEMENT,
    Comparison,
    Outcome,
    allocation_tables,
    ask_all,
    demonstration,
    describe,
    files,
    mechanisms,
    policy_rows,
    solver_rows,
)
from fairopt.report import compare as compare_policies

if TYPE_CHECKING:
    from rich.console import Console

NOT_CERTIFIED, BAD_INPUT = 1, 2
FEW_USERS = 12  # whose tasks are worth a table beside the comparison
EXIT_CODES = (
    "Exit code: 0 for certified answers only, 1 where there is none (not certified, infeasible, undefined), "
    "2 for bad input, 130 when stopped by Ctrl-C."
)
WHAT_POLICY = "A name as kdf:k=2, blocks, or module:NAME; see 'fairopt policies'."
# "\b" on a line of its own tells typer to leave the lines of a paragraph as they are.
SOLVE = """Find the best allocation under one policy, and prove it.

\b
[bold]Examples[/]
  fairopt solve cluster/ --policy drf
  fairopt solve cluster.json --policy kdf:k=2 --out answer.json
  fairopt solve cluster/ --policy "AlphaFair(1, KDominantShare(2))" --json
  fairopt solve cluster/ --policy my_notions.py:MINE --solver SCS
  fairopt solve cluster/ -p most-tasks --constraint "SharingIncentive()" --weight web=2
  fairopt solve openb/ --pods gpuspec33 --capacity-scale 0.5 -p fds:alpha=2"""
COMPARE = """Put policies side by side on one cluster.

\b
[bold]Examples[/]
  fairopt compare cluster/ --policy drf --policy 2df --policy most-tasks
  fairopt compare cluster/ -p drf -p fds:alpha=1 -p nash --plot shares.png
  fairopt compare cluster/ -p drf -p my_notions.py:MINE --json
  fairopt compare openb/ --pods gpuspec33 --capacity-scale 0.5 -p drf -p tsf
  fairopt compare openb/ -p drf -p most-tasks --plot-types types.png

Where servers have types (the column "type" of servers.csv; the model of GPU in openb), tables show how many tasks run \
on each type and which part of each resource is in use there, and --plot-types draws that.

A policy without an answer is a row with the reason; the exit code is then 1."""
OWN_POLICIES = """
[bold]With parameters[/]: kdf:k=3, fds:alpha=2, gfj:beta=2,lam=-0.5
[bold]From blocks[/]: "AlphaFair(1, KDominantShare(2)) + 0.1 * Total(Tasks())" or
  "Policy(Leximin(), constraints=[SharingIncentive()])"
[bold]Your own[/]: in a file notions.py write
    import fairopt as fo
    MINE = fo.Policy(fo.AlphaFair(2) + 0.1 * fo.Total(fo.Tasks()))
  and ask for --policy notions.py:MINE
  (a package offers its own by entry points in the group fairopt.policies)"""
WHICH_SOLVER = (
    "\n[bold]linear[/] programs: DRF, k-DF, TSF, most tasks. [bold]exponential[/] cones: alpha = 1 and more, Nash "
    "welfare. [bold]power[/] cones: alpha below 1; solvers without them get a close approximation, and the certificate "
    "decides. Without --solver the quickest exact way is taken, and the next solver if an answer cannot be certified."
)

app = typer.Typer(
    name="fairopt", no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES,
    help="Fair shares of a cluster: certified allocations under any fairness notion, and how notions compare.",
)  # fmt: skip
_Command = TypeVar("_Command", bound=Callable[..., Any])

Solver = Annotated[str | None, typer.Option(help="Solve by cones with this solver only; see 'fairopt solvers'.")]
Method = Annotated[str, typer.Option(help="'auto' takes the first exact route, 'cone' the general one.")]
TimeLimit = Annotated[float | None, typer.Option(metavar="SECONDS", help="Seconds for each policy.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show what solvers say (on stderr).")]
Constraints = Annotated[list[str] | None, typer.Option(
    "--constraint", "-c", metavar="BLOCK", help="A further constraint of every policy, as 'MaxShare(0.3)'; repeat it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")]


def guarded(command: _Command) -> _Command:
    """Errors of fairopt as one line on stderr and an exit code; never a traceback for them, nor for Ctrl-C."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except FairoptError as error:
            complain(f"{type(error).__name__}: {error}")
            raise typer.Exit(_code(error)) from None
        except KeyboardInterrupt:
            complain(LAST_WORDS)
            raise typer.Exit(STOPPED) from None
        except OSError as error:
            if isinstance(error, BrokenPipeError):  # `fairopt ... | head` has read enough
                raise
            complain(f"{type(error).__name__}: {error}")
            raise typer.Exit(BAD_INPUT) from None

    return run  # type: ignore[return-value]


def constrained(mechanism: Any, constraints: Sequence[str] | None) -> Any:
    """A policy under further constraints, given as text."""
    if not constraints:
        return mechanism
    if not isinstance(mechanism, Policy):
        raise InvalidBlock(f"{label(mechanism)} is not a policy of blocks and takes no --constraint; leave one out")
    return mechanism.with_constraints(*map(parse_constraint, constraints))


def _version(asked: bool) -> None:
    if asked:
        from fairopt import __version__

        typer.echo(f"fairopt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option(
        "--version", is_eager=True, callback=_version, help="Print the version and stop.")] = False,
) -> None:  # fmt: skip
    pass


@app.command(no_args_is_help=True, help=SOLVE)
@guarded
@reading
def solve(
    source: Source,
    policy: Annotated[str, typer.Option("--policy", "-p", help=WHAT_POLICY)] = "drf",
    constraint: Constraints = None, solver: Solver = None, method: Method = "auto", time_limit: TimeLimit = None,
    out: Annotated[Path | None, typer.Option(
        help="Write the allocation: .json or .parquet with everything, .csv by user.")] = None,
    as_json: AsJson = False, verbose: Verbose = False,
) -> None:  # fmt: skip
    """Find the best allocation under one policy, and prove it."""
    files.check(out, files.ALLOCATIONS)
    mechanism = constrained(named_policy(policy), constraint)
    instance = source.read()
    with working(label(mechanism), verbose):
        options = accepted(mechanism, method=method, solver=solver, time_limit=time_limit, verbose=verbose)
        allocation = mechanism.allocate(instance, **options)
    console = console_for()
    if as_json:
        typer.echo(files.as_json(describe(allocation)))
    else:
        for table in allocation_tables(allocation):
            console.print(table)
        _say(console, f"{label(mechanism)}: {allocation.tasks.sum():,.6g} tasks; {allocation.certificate}")
        for attempt in allocation.certificate.tried if verbose else ():
            _say(console, f"  tried {attempt}")
    if out is not None:  # after it is shown: a disk that is full must not cost the answer
        files.write_allocation(allocation, out)
        if not as_json:
            _say(console, f"written: {out}")


@app.command(no_args_is_help=True, help=COMPARE)
@guarded
@reading
def compare(
    source: Source,
    policy: Annotated[list[str], typer.Option("--policy", "-p", help="One to compare; repeat it.")],
    constraint: Constraints = None, solver: Solver = None, method: Method = "auto", time_limit: TimeLimit = None,
    plot: Annotated[Path | None, typer.Option(
        help="Draw who holds how much of each resource, as .png, .pdf or .svg.")] = None,
    plot_types: Annotated[Path | None, typer.Option(
        help="Draw tasks, and use of each resource, by type of server, as .png, .pdf or .svg.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the table: .json, .csv, .md or .tex.")] = None,
    as_json: AsJson = False, verbose: Verbose = False,
) -> None:  # fmt: skip
    """Put policies side by side on one cluster."""
    files.check(out, files.COMPARISONS)
    for option, picture in (("--plot", plot), ("--plot-types", plot_types)):
        files.check(picture, files.PICTURES)
        if picture is not None:
            _need_matplotlib(option)
    if plot is not None and plot == plot_types:
        raise InvalidBlock(f"--plot and --plot-types would both write {plot}; give two names")
    chosen = mechanisms([constrained(named_policy(name), constraint) for name in policy] if constraint else policy)
    if solver is not None:
        solvers.named(solver)
    instance = source.read()
    outcomes: list[Outcome] = []

    def show() -> Comparison:
        """On the screen first: what cannot be written or drawn must not cost the answers."""
        result = Comparison(instance, tuple(outcomes), tuple(chosen)[len(outcomes) :])
        console = console_for()
        if as_json:
            typer.echo(files.as_json(result.to_dict()))
        elif outcomes:
            console.print(result)
            if result.allocations and instance.n_users <= FEW_USERS:
                console.print("")
                console.print(result.tasks_table())
            by_type = result.server_type_tables()
            for table in by_type:
                console.print(table)
            if by_type:
                console.print(PLACEMENT, style="dim")
        made: dict[Path | None, Callable[[Path], Any]] = {}
        if outcomes:
            made[out] = lambda path: files.write_comparison(result, path)
        if result.allocations:
            made[plot] = lambda path: result.plot()[0].figure.savefig(path, dpi=150)
            made[plot_types] = lambda path: result.plot_server_types()[0].figure.savefig(path, dpi=150)
        for path, make in made.items():
            if path is not None:
                with working(f"writing {path}"):
                    make(path)
                if not as_json:
                    _say(console, f"written: {path}")
        return result

    def last_words() -> None:  # what is done is not lost
        show()
        complain(f"stopped by Ctrl-C after {len(outcomes)} of {len(chosen)} policies")

    with working(f"{len(chosen)} policies", verbose, last_words):
        options = {"method": method, "solver": solver, "time_limit": time_limit, "verbose": verbose}
        left = ask_all(chosen, instance, outcomes, **options)
    if left:
        last_words()
        raise typer.Exit(STOPPED)
    result = show()
    if result.errors:
        failed = ", ".join(result.errors)
        complain(f"no certified answer from {len(result.errors)} of {len(chosen)} policies: {failed}")
        raise typer.Exit(max(map(_code, result.errors.values())))


@app.command()
@guarded
def policies(as_json: AsJson = False) -> None:
    """List the policies known by name, and how to write your own."""
    rows = policy_rows()
    if as_json:
        typer.echo(files.as_json(rows))
        return
    console = console_for()
    lines = [
        (r["name"], r["summary"] + (f"\nparameters: {r['parameters']}" if r["parameters"] else "")) for r in rows
    ]  # fmt: skip
    _words(console, ("policy", "what it is"), lines)
    console.print(OWN_POLICIES, highlight=False)


@app.command("solvers")
@guarded
def list_solvers(as_json: AsJson = False) -> None:
    """List the solvers, installed or not, and the problems that each can take."""
    rows = solver_rows()
    if as_json:
        typer.echo(files.as_json(rows))
        return
    console = console_for()
    mark = {True: "yes", False: "-"}
    _words(
        console, ("solver", "installed", "linear", "exponential", "power", "pip install"),
        [(r["name"], *(mark[r[key]] for key in ("installed", "linear", "exponential", "power")),
          (r["install"] or "").removeprefix("pip install ")) for r in rows],
    )  # fmt: skip
    console.print(WHICH_SOLVER, highlight=False)


@app.command()
@guarded
def demo(
    folder: Annotated[Path, typer.Option(help="Where pictures and the data go.")] = Path("demo-out"),
) -> None:
    """Compare policies on a small cluster that ships with fairopt, and explain what is seen."""
    console = console_for()
    with working("five policies on ten users", verbose=False):
        result = compare_policies(demonstration.POLICIES, datasets.demo())
    for part in demonstration.story(result):
        console.print(part, markup=False)
    drawn = _has_matplotlib()
    written = demonstration.save(result, folder, drawn)
    _say(console, "Written: " + ", ".join(map(str, written)))
    if not drawn:
        _say(console, "For pictures too: pip install 'fairopt[plots]'")
    _say(console, f"Next: fairopt solve {written[0]} --policy 2df, or fairopt policies")


def main() -> None:
    """Run the command line."""
    # what is imported when it is needed may take a KeyboardInterrupt for a package that is not installed
    with stoppable(lambda: complain(LAST_WORDS)):
        app(prog_name="fairopt")


# -- pieces ---------------------------------------------------------------------------------------------------


def _code(error: FairoptError) -> int:
    """Exit code of an error: asked wrongly, or asked rightly and no answer."""
    wrongly = isinstance(error, (InvalidInput, SolverUnavailable, MissingExtra))
    return BAD_INPUT if wrongly else NOT_CERTIFIED


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False)


def _words(console: Console, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _has_matplotlib() -> bool:
    return find_spec("matplotlib") is not None


def _need_matplotlib(option: str) -> None:
    if not _has_matplotlib():
        raise MissingExtra("matplotlib", "plots", option)
