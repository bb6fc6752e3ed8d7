"""The commands ``solve``, ``compare``, ``policies``, ``solvers`` and ``demo``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt import datasets, networks
from fairopt.blocks.constraints import Constraint
from fairopt.cli.application import FAILED_CHECK, app, exit_code, guarded
from fairopt.cli.inputs import USUAL, Solving, Source, reading, say_notes
from fairopt.cli.interrupts import STOPPED
from fairopt.cli.progress import complain, console_for, say, show_json, working, written
from fairopt.cli.streams import message_of
from fairopt.errors import FairoptError, InvalidBlock, InvalidInstance
from fairopt.instance import Instance
from fairopt.io.saving import write_whole
from fairopt.networks.paths import on_network
from fairopt.online import ByRules
from fairopt.policies import known_policies, named_policy
from fairopt.policies.amounts import Amounts
from fairopt.policies.mechanism import no_constraints
from fairopt.policies.registry import named_constraint, named_family
from fairopt.policy import Policy, accepted
from fairopt.questions import idle_sentence
from fairopt.report import brief, comparison, demonstration, files, held, tables
from fairopt.report.comparison import Comparison
from fairopt.report.outcomes import Outcome, ask_all, mechanisms
from fairopt.runtime import extensions
from fairopt.solve.form import solvers

FEW_USERS = 12  # up to here a comparison also shows the tasks of each user
WHAT_POLICY = "A name such as kdf:k=2, blocks, or file.py:NAME (which runs the file); see 'fairopt policies'."
OF_TEAMS, OF_USERS = "hdrf", "drf"  # the default policies, with and without teams of several users
DEFAULT = f" Default: {OF_TEAMS} if a team has several users, else {OF_USERS}; on networks max-min flow of demands."
SOLVE = """Compute the optimal allocation under one policy, and certify it.

If the input says which tasks run now, further tables show what each team and user holds beside what is fair.

Tables of more than 40 lines are summarised in one, by team or user, and the last line says what is not shown, also \
where the output goes to a file or another program: --all shows all. --out and --json always have everything.

--fail-if-below is for jobs of CI: the exit code is 4 if a team that waits holds too little, and messages name it. \
--metrics writes numbers of the answer for programs that collect them, in formats that other packages bring: \
fairopt-clusters writes .prom for Prometheus.

\b
[bold]Examples[/]
  fairopt solve cluster/ --policy drf
  fairopt solve cluster.json --policy kdf:k=2 --out answer.json
  fairopt solve cluster/ --policy "AlphaFair(2, KDominantShare(2))" --json
  fairopt solve cluster/ --policy my_notions.py:MINE --solver SCS
  fairopt solve cluster/ -p most-tasks --constraint "SharingIncentive()" --weight web=2
  fairopt solve cluster/ --teams org,team --guarantee vision=16gpu
  fairopt solve cluster/ --policy drf --integral
  fairopt solve cluster/ --policy drf --exact
  fairopt solve now.json --all
  fairopt solve now.json --fail-if-below 0.8
  fairopt solve net.gml --demands demands.csv"""
COMPARE = """Compare policies on one cluster.

If a policy has no certified answer, its row gives the reason, and the exit code is 1.

If a team has several users, further tables show the dominant share of each team, its tasks and its units of the \
most used resource; --json has all resources.

If servers have types (the column "type" of servers.csv), further tables show tasks and use of each resource by type, \
and 'fairopt plot --kind types' draws them.

\b
[bold]Examples[/]
  fairopt compare cluster/ --policy drf --policy 2df --policy most-tasks
  fairopt compare cluster/ -p drf -p fds:alpha=1 -p nash --plot shares.png
  fairopt compare cluster/ -p drf -p my_notions.py:MINE --json"""
POLICIES = """List the named policies, and show how to write your own.

\b
[bold]Example[/]
  fairopt policies"""
SOLVERS = """List the solvers, whether they are installed, and what each can solve.

\b
[bold]Examples[/]
  fairopt solvers
  fairopt solve cluster/ -p drf --solver CLARABEL"""
DEMO = """Compare five policies on an example cluster, and explain the results.

\b
[bold]Example[/]
  fairopt demo --folder first-steps"""
OWN_POLICIES = """
[bold]With parameters[/]: kdf:k=3, fds:alpha=2, gfj:beta=2,lam=-0.5
[bold]From blocks[/]: "AlphaFair(2, KDominantShare(2)) + 0.1 * Total(Tasks())" or
  "Policy(Leximin(), constraints=[SharingIncentive()])"
[bold]Your own[/]: put in a file notions.py
    import fairopt as fo
    MINE = fo.Policy(fo.AlphaFair(2) + 0.1 * fo.Total(fo.Tasks()))
  and give --policy notions.py:MINE. This runs the file, so use only files that you trust. MINE may also be a class of
  policies, or a function annotated to return one: def make() -> fo.Policy
[bold]From packages[/]: entry points in the group fairopt.policies"""
WHICH_SOLVER = (
    "\n[bold]linear[/] programs: DRF, k-DF, TSF, most tasks. [bold]exponential[/] cones: alpha >= 1, Nash welfare. "
    "[bold]power[/] cones: alpha < 1. Solvers without power cones get an approximation, and its answer must be "
    "certified like any other. Without --solver, fairopt uses the fastest exact method, and tries the next solver if "
    "an answer cannot be certified."
)


OnePolicy = Annotated[str | None, typer.Option("--policy", "-p", help=WHAT_POLICY + DEFAULT)]
Constraints = Annotated[
    list[str] | None,
    typer.Option(
        "--constraint",
        "-c",
        metavar="BLOCK",
        help="Add a constraint to every policy: 'MaxShare(0.3)', with amounts by name and in units, as in "
        "'MaxShare(\"vision=16gpu, web=0.2\")' or 'Reserve(\"8gpu\")', or file.py:NAME (which runs the file); "
        "repeatable.",
    ),
]
Integral = Annotated[
    bool,
    typer.Option("--integral", help="Whole tasks, each on one server: optimal for linear problems, else rounded."),
]
Rounded = Annotated[
    bool, typer.Option("--rounded", help="Whole tasks by rounding the divisible answer; fast on large clusters.")
]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Solve and prove it in fractions, such as 5/11, where the optimum is rational: max-min, leximin, totals, "
        "ordered weights, linear constraints, HDRF, MLF-DRS.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON to stdout.")]


def constrained(mechanism: Any, constraints: Sequence[Constraint | Amounts], instance: Instance) -> Any:
    """A policy with more constraints, and amounts in units as fractions of the instance."""
    if not constraints:
        return mechanism
    if not isinstance(mechanism, Policy):
        raise InvalidBlock(f"--constraint: {no_constraints(mechanism)}")
    known = (one.on(instance) if isinstance(one, Amounts) else (one,) for one in constraints)
    return mechanism.with_constraints(*chain.from_iterable(known))


def named(text: str | None, constraints: Sequence[str] | None = None) -> Callable[[Instance], Any]:
    """A policy and more constraints by name, found before an instance is read.

    The default, and ``hdrf`` without parameters, are over all labels of the instance.
    """
    of_text = None if text is None or text.strip() == OF_TEAMS else named_policy(text)
    more = [named_constraint(one) for one in constraints or ()]

    def of(instance: Instance) -> Any:
        if of_text is not None:
            mechanism = of_text
        elif text is None and on_network(instance):
            mechanism = networks.MAX_MIN
        elif text is not None or instance.teams.mixed:
            by = instance.teams.outermost_first
            mechanism = named_family(OF_TEAMS)(**({"by": by} if by else {}))
        else:
            mechanism = named_policy(OF_USERS)
        return constrained(mechanism, more, instance)

    return of


def asked(
    policies: Sequence[str | None], constraints: Sequence[str] | None = None, solver: str | None = None
) -> Callable[..., dict[str, Any]]:
    """Policies and more constraints by name, and a solver, all checked before an instance is read.

    The function takes the instance, and its source, whose rules some policies follow, such as what Slurm bills. It says
    which policies compare users and not their teams, if a team has several.
    """
    known = [named(one, constraints) for one in policies]
    if solver is not None:
        solvers.named(solver)

    def of(instance: Instance, source: Source | None = None) -> dict[str, Any]:
        found = [one(instance) for one in known]
        if source is not None and any(isinstance(one, ByRules) for one in found):
            rules = source.rules(instance, source.options.get("users"))
            found = [one.by_rules(rules) if rules is not None and isinstance(one, ByRules) else one for one in found]
        chosen = mechanisms(found)
        names = [name for name, mechanism in chosen.items() if _compares_users(mechanism)]
        if names and instance.teams.mixed:
            of_teams = "without --policy demands are compared"
            if not on_network(instance):
                of_teams = f"--policy {OF_TEAMS} compares teams"
            these = f"{comparison.listed(names)} compare{'s' * (len(names) == 1)} the {instance.n_users:,} users"
            say_notes([f"{these}, and not their teams; {of_teams}"])
        return chosen

    return of


def _compares_users(mechanism: Any) -> bool:
    """Whether a policy compares shares between users; those between teams have labels ``by``."""
    if not isinstance(mechanism, Policy):
        return not hasattr(mechanism, "by")
    terms = mechanism.objective.terms()
    return any(term.kind.levels_users and not (term.share and term.share._counts_teams) for term in terms)


@app.command(no_args_is_help=True, help=SOLVE)
@guarded
@reading
def solve(
    source: Source,
    policy: OnePolicy = None,
    constraint: Constraints = None,
    how: Solving = USUAL,
    integral: Integral = False,
    rounded: Rounded = False,
    exact: Exact = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all tables, also where they are longer than a screen.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Save the allocation: complete as .json or .parquet, by user as .csv.")
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.prom",
            help="Write what teams get, hold and wait for, the certificate and the age of the input, for monitoring.",
        ),
    ] = None,
    fail_if_below: Annotated[
        float | None,
        typer.Option(
            metavar="PART",
            help="Exit with 4 if a team that waits holds less than this part of its fair share, such as 0.8.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the optimal allocation under one policy, and certify it."""
    files.check_output(out, files.ALLOCATIONS, source.path)
    exposition = _exposition(metrics, source.path)
    if fail_if_below is not None and not 0 < fail_if_below <= 1:  # NaN too
        raise InvalidBlock(f"--fail-if-below {fail_if_below:g}: give a part of the fair share up to 1, such as 0.8")
    chosen = asked([policy], constraint)
    instance = source.read()
    if fail_if_below is not None and instance.held is None:
        raise InvalidInstance(
            f"--fail-if-below: {source.title} does not say what runs now; give running pods or jobs too, or held, or "
            "leave the option out"
        )
    ((name, mechanism),) = chosen(instance, source).items()
    with working(name, how.verbose):
        whole = "rounded" if rounded else integral
        options = accepted(mechanism, **how.options, integral=whole, exact=exact)
        allocation = mechanism.allocate(instance, **options)
    if as_json:
        show_json(tables.FORMAT, tables.describe(allocation))
    else:
        for line in (idle_sentence(allocation), held.would_run(name, allocation)):
            if line:
                say(line)
        shown, lines = brief.answer_tables(allocation, console_for().width, everything)
        for table in shown:
            console_for().print(table)
        say(f"{name}: {allocation.tasks.sum():,.6g} tasks; {allocation.certificate}")
        if allocation.certificate.note:
            say(f"note: {allocation.certificate.note}")
        for sentence in held.held_sentences(allocation):
            say(sentence)
        for attempt in allocation.certificate.tried if how.verbose else ():
            say(f"  tried {attempt}")
        for line in lines:
            say(line)
    if out is not None:  # after the answer is shown, in case the file cannot be written
        files.write_allocation(allocation, out)
    if metrics is not None and exposition is not None:
        write_whole(metrics, exposition(allocation, input_time=source.written_at))
    written(out, metrics)
    below = [] if fail_if_below is None else held.below_sentences(allocation, fail_if_below)
    for line in below:
        complain(line)
    if below:
        raise typer.Exit(FAILED_CHECK)


def _exposition(path: Path | None, source: str) -> Callable[..., str] | None:
    """What another package brings to write metrics in a file of this ending."""
    if path is None:
        return None
    known = extensions.points(extensions.EXPOSITIONS)
    if not known:
        raise extensions.missing("--metrics")
    files.check_output(path, tuple(f".{name}" for name in known), source)
    point = known[path.suffix[1:].lower()]
    try:
        found: Callable[..., str] = point.load()
        if not callable(found):
            raise TypeError("it is no function")
    except Exception as error:  # of somebody else's code
        raise InvalidBlock(f"--metrics {path}: {point.value} cannot be loaded: {error!r}") from error
    return found


@app.command(no_args_is_help=True, help=COMPARE)
@guarded
@reading
def compare(
    source: Source,
    policy: Annotated[list[str], typer.Option("--policy", "-p", help=WHAT_POLICY + " Repeatable.")],
    constraint: Constraints = None,
    how: Solving = USUAL,
    integral: Integral = False,
    rounded: Rounded = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the shares of each resource by user or team to a .png, .pdf or .svg file.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Save the table as .json, .csv, .md or .tex.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare policies on one cluster."""
    files.check_output(out, files.COMPARISONS, source.path)
    files.check_output(plot, files.PICTURES)
    of = asked(policy, constraint, how.solver)
    instance = source.read()
    chosen = of(instance, source)

    def show(result: Comparison) -> None:
        console = console_for()
        if as_json:
            show_json(comparison.FORMAT, result.to_dict())
        elif result.outcomes:
            console.print(result)
            if result.allocations and instance.n_users <= FEW_USERS:
                console.print("")
                console.print(result.tasks_table())
            for table in result.team_tables():
                console.print(table)
            by_type = result.server_type_tables()
            for table in by_type:
                console.print(table)
            if by_type:
                console.print(tables.PLACEMENT, style="dim")
        outputs: dict[Path | None, Callable[[Path], Any]] = {}  # written last, in case a file cannot be written
        if result.outcomes:
            outputs[out] = lambda path: files.write_comparison(result, path)
        if result.allocations:
            outputs[plot] = lambda path: files.write_picture(result.plot(), path)
        for path, write in outputs.items():
            if path is not None:
                with working(f"writing {path}"):
                    write(path)
                written(path)
        if result.errors:
            failed = ", ".join(result.errors)
            complain(f"no certified answer from {len(result.errors)} of {len(chosen)} policies: {failed}")

    ask(chosen, instance, show, **how.options, integral="rounded" if rounded else integral)


def ask(chosen: Mapping[str, Any], instance: Instance, show: Callable[[Comparison], None], **options: Any) -> None:
    """Solve each policy and show the outcomes, after Ctrl-C those so far; set the exit code if some failed."""
    outcomes: list[Outcome] = []

    def interrupted() -> None:
        try:
            show(Comparison(instance, tuple(outcomes), tuple(chosen)[len(outcomes) :]))
        except (FairoptError, OSError, MemoryError) as error:  # exceptions in a thread are not shown
            complain(message_of(error))
        complain(f"stopped by Ctrl-C after {len(outcomes)} of {len(chosen)} policies")

    with working(f"{len(chosen)} policies", options["verbose"], interrupted):
        left = ask_all(chosen, instance, outcomes, **options)
    if left:
        interrupted()
        raise typer.Exit(STOPPED)
    result = Comparison(instance, tuple(outcomes))
    show(result)
    if result.errors:
        raise typer.Exit(max(map(exit_code, result.errors.values())))


@app.command(help=POLICIES)
@guarded
def policies(as_json: AsJson = False) -> None:
    """List the named policies, and show how to write your own."""
    rows = policy_rows()
    if as_json:
        show_json("fairopt.policies/1", {"policies": rows})
        return
    lines = [(r["name"], r["summary"] + (f"\nparameters: {r['parameters']}" if r["parameters"] else "")) for r in rows]
    _print_table(("policy", "description"), lines)
    console_for().print(OWN_POLICIES)


@app.command("solvers", help=SOLVERS)
@guarded
def list_solvers(as_json: AsJson = False) -> None:
    """List the solvers, whether they are installed, and what each can solve."""
    rows = solver_rows()
    if as_json:
        show_json("fairopt.solvers/1", {"solvers": rows})
        return
    mark = {True: "yes", False: "-"}
    _print_table(
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
    folder: Annotated[Path, typer.Option(help="Folder for the pictures and the data.")] = Path("demo-out"),
    as_json: AsJson = False,
) -> None:
    """Compare five policies on an example cluster, and explain the results."""
    demonstration.check(folder)
    with working("five policies on ten users", verbose=False):
        result = comparison.compare(demonstration.POLICIES, datasets.demo())
    for part in () if as_json else demonstration.story(result):
        say(part)
    drawn = find_spec("matplotlib") is not None
    files_made = demonstration.save(result, folder, drawn)
    if as_json:
        findings = demonstration.findings(result)
        made = [*map(str, files_made)]
        show_json("fairopt.demonstration/1", {"findings": findings, "comparison": result.to_dict(), "written": made})
        return
    say("Written: " + ", ".join(map(str, files_made)))
    if not drawn:
        say("To draw pictures too: pip install 'fairopt[plots]'")
    say(f"Next: fairopt solve {shlex.quote(str(files_made[0]))} --policy 2df, or fairopt policies")


def _print_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*map(Text, row))
    console_for().print(table)


def policy_rows() -> list[dict[str, str]]:
    """One dict per named policy: ``name``, ``parameters`` and ``summary``."""
    return [{"name": n.name, "parameters": n.parameters, "summary": n.summary} for n in known_policies().values()]


def solver_rows() -> list[dict[str, Any]]:
    """One dict per solver that CVXPY knows, installed ones first.

    Keys are ``name``, ``installed``, ``linear``, ``exponential`` and ``power`` (whether it takes such programs), and
    ``install`` (the pip command, if CVXPY has one).
    """
    from cvxpy.reductions.solvers import defines

    installed = solvers.installed()
    extras = set(metadata.metadata("cvxpy").get_all("Provides-Extra") or ())
    known = {*defines.SOLVER_MAP_CONIC, *defines.SOLVER_MAP_QP, *installed}
    cones = {name: solvers.takes(name) for name in known}
    names = sorted(known, key=lambda name: (name not in installed, name))
    return [
        {
            "name": name,
            "installed": name in installed,
            "linear": True,
            "exponential": "ExpCone" in cones[name],
            "power": "PowCone3D" in cones[name],
            "install": None
            if name in installed or (extra := name.lower().replace("_", "-")) not in extras
            else f"pip install cvxpy[{extra}]",
        }
        for name in names
    ]
