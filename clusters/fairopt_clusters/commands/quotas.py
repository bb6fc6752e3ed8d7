"""``fairopt quotas``: quotas of teams, and their difference from present ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fairopt import Instance
from fairopt.cli import (
    FAILED_CHECK,
    AsJson,
    Constraints,
    OnePolicy,
    Source,
    TimeLimit,
    Verbose,
    asked,
    command,
    console_for,
    reading,
    say,
    say_notes,
    show_json,
    working,
    written,
)
from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.io import write_whole
from fairopt.policies import accepted
from fairopt.report import check_output
from fairopt.runtime import begin, first_of
from fairopt_clusters.quotas import owed
from fairopt_clusters.quotas.bounded import TEAM
from fairopt_clusters.quotas.cluster_queues import InputQueues, read_queues
from fairopt_clusters.quotas.owed import FORMATS
from fairopt_clusters.quotas.present import quotas_of_input, read_quotas
from fairopt_clusters.quotas.tables import (
    FORMAT,
    changes_tables,
    described_quotas,
    expected_tables,
    first_lines,
    on_a_screen,
    quotas_tables,
    trial_table,
)
from fairopt_clusters.quotas.team_quotas import PATCHES
from fairopt_clusters.read.work import is_nothing_asked

ENDINGS = {  # the first format of an ending is the default for teams that are no ClusterQueues
    "csv": (".csv",),
    "kubernetes": (".yaml", ".yml"),
    "slurm": (".sh",),
    "kueue": (".sh", ".yaml", ".yml"),
}
STOPS = 5  # the exit code of quotas that would stop what could start
QUOTAS = """Write what teams are owed as settings of the cluster, which do not depend on who asks for what now.

What is written never idles what could be used, but for ResourceQuotas, which cap a namespace whatever others leave: \
of these it is the entitlement, the fair answer as if everybody had more work than fits. The scheduler itself divides \
what is free, at every moment.

\b
[bold]Kueue[/]: the ClusterQueues and Cohorts of INPUT. Nominal quotas stay, weights are those of the input or of
--weight, and nothing limits borrowing but what its owners wrote. The table says what Kueue then gives
by its own rule, beside what is fair now. With --reclaim each queue takes back what it owns from who
borrows it: what is preempted loses its work, unless it has checkpoints. Without any ClusterQueues, new
ones in one cohort, with what teams are owed as nominal quotas.
  fairopt quotas now/ --format kueue
  fairopt quotas now/ --format kueue --out queues.sh
  sh queues.sh                  ends with an error where one patch is refused

\b
[bold]Kubernetes[/]: the ResourceQuotas of INPUT by their names, with other amounts; or new ones named fairopt
  fairopt quotas now/ --users namespace --format kubernetes > quotas.yaml
  kubectl apply -f quotas.yaml

\b
[bold]Slurm[/]: fairshares of accounts, raised where an account gets less by them than it is promised: by
contracts.csv (account,resource,promised,limit) in the folder, or --guarantee. With --caps limits (GrpTRES) with
types of GPUs; those in contracts.csv are never rewritten.
  fairopt quotas slurm/ --format slurm --diff
  fairopt quotas slurm/ --format slurm > quotas.sh

\b
[bold]Anything[/]: a table by team, resource and type of server
  fairopt quotas cluster/ -p drf --out quotas.csv
  fairopt quotas cluster/ -p drf --present quotas.csv --diff

--caps writes hard limits of this moment instead, as for one busy day: what whole tasks of the fair answer of now use. \
The first line says what they leave idle. Whoever asks for more tomorrow has to wait for the next run.

--replay FOLDER tries it before it is applied: with the settings as they are and with these, how much of what was \
asked for would have been used, what was missing of what each team is owed, waits, and what is preempted. FOLDER has \
snapshots as INPUT is one, or give a .csv as for fairopt simulate, whose users are the queues.

\b
  fairopt quotas now/ --format kueue --reclaim --replay weeks/

Pods that start together or not at all, as in Kueue: where some could start before, and could not with these quotas, \
nothing is written, and the exit code is 5; --anyway writes it.

--diff shows present, new and held amounts, and names teams that hold more than their new quota; the exit code is \
4 if a quota or a setting changes, else 0. Present quotas come from INPUT: clusterqueues.json, resourcequotas.json \
(kubectl get resourcequotas -A -o json) or accounts of Slurm (associations.json, cluster.cfg or sshare.txt) in \
its folder, or from --present.

Without --out and --diff a chosen --format is printed alone, and notes go to stderr.

Whole tasks are the divisible answer rounded: what that loses at most is proved, and a better whole answer may exist. \
--integral looks for the best one of drf and others by integer programs, level by level, which may take minutes; that \
it is best is HiGHS's word. --time-limit ends them with the best answer so far."""
Integral = Annotated[
    bool,
    typer.Option(
        "--integral/--rounded",
        help="Whole tasks by integer programs, which may take minutes, or by rounding, in about a second.",
    ),
]


@command(help=QUOTAS)
@reading
def quotas(
    source: Source,
    policy: OnePolicy = None,
    constraint: Constraints = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="csv, kubernetes, kueue or slurm. Default: that of --out, or of present quotas.",
        ),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show present, new and held amounts.")] = False,
    present: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Present quotas: what kubectl, sacctmgr or this command gave.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="LABEL", help="Label of the teams with quotas. Default: team.")
    ] = None,
    team: Annotated[list[str] | None, typer.Option("--team", help="Only quotas of this team; repeatable.")] = None,
    resource: Annotated[
        list[str] | None, typer.Option("--resource", help="Only quotas of this resource; repeatable.")
    ] = None,
    api_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Of new ClusterQueues: v1beta2 or v1beta1.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Write them though pods that could start together then cannot.")
    ] = False,
    caps: Annotated[
        bool, typer.Option("--caps", help="Limits of this moment: what is fair now, for those who ask now.")
    ] = False,
    reclaim: Annotated[
        bool, typer.Option("--reclaim", help="Let ClusterQueues preempt who borrows what they own.")
    ] = False,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Try it on snapshots of past weeks, or on a .csv of workloads."),
    ] = None,
    resumes: Annotated[
        bool, typer.Option("--resumes", help="In --replay what is preempted goes on where it was.")
    ] = False,
    integral: Integral = False,
    time_limit: TimeLimit = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the quotas to a .csv, .yaml (Kubernetes, Kueue) or .sh file (Slurm, patches of Kueue)."
        ),
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make quotas of teams, and write them for the cluster."""
    if format is not None and format not in FORMATS:
        raise InvalidBlock(f"--format {format}: give {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    chosen = asked([policy], constraint)
    known = None if present is None else read_quotas(present)
    instance = _instance(source)
    queues = read_queues(source.path) if format in (None, "kueue", "kubernetes") else InputQueues()
    of_queues = source.options.get("users") == "queue" or ("users" not in source.options and bool(queues.raw))
    if format is None and out is not None:
        written_as = [name for name, endings in ENDINGS.items() if out.suffix.lower() in endings]
        format = "kueue" if of_queues and "kueue" in written_as else next(iter(written_as), None)
    if known is None and (diff or format is None):
        of_kueue = format == "kueue" or (format is None and of_queues)
        of_input = quotas_of_input(source.path, "kueue" if of_kueue else format)
        known = (queues.present, "kueue") if of_kueue and queues.raw else of_input
    target = format or (known[1] if known is not None else FORMATS[0])
    check_output(out, ENDINGS[target], source.path)
    if by in (None, TEAM):
        _check_teams(target, source, of_queues, bool(queues.raw))
    full = None
    if instance.n_users and not (caps or (target == "kueue" and queues.raw)):
        full = source.fitted(source.read_at_full_demand())
    ((name, mechanism),) = chosen(instance, source).items()
    with working(name, verbose):
        clock = begin(time_limit)
        answer = mechanism.allocate(instance, **accepted(mechanism, time_limit=time_limit, verbose=verbose))
        made = owed.quotas(
            answer,
            target,
            by=by,
            teams=team,
            resources=resource,
            queues=queues,
            source=source.path,
            present=present,
            api_version=api_version,
            integral=integral or "rounded",
            time_limit=clock.left,
            users=source.options.get("users"),
            caps=caps,
            reclaim=reclaim,
            full_demand=full,
        )
    changes = made.diff(known[0] if known is not None else []) if diff else None
    if changes is not None and instance.n_users and not any(row.present is not None for row in changes.rows):
        unknown = (
            f"no present quotas of these are known: {source.path} has none; give --present FILE, such as the output of "
            "kubectl get resourcequotas -A -o json, or of sacctmgr show associations --json"
            if present is None
            else f"no quota in {present} is for a team, a resource and servers of these"
        )
        changes = replace(changes, notes=(*changes.notes, unknown))
    trial = None if replay is None else made.replay(replay, resumes=resumes)
    text_alone = format is not None and not (out or diff or as_json or trial)
    refused = bool(made.stopped) and not anyway
    if refused:
        why = f"what starts whole, and could start before, could not: {first_of(made.stopped)}"
        say_notes([f"not written, as {why}; --anyway writes it"])
        if text_alone or not (diff or as_json):
            raise typer.Exit(STOPS)
    if as_json:
        show_json(FORMAT, described_quotas(made, name, repr(mechanism), changes, trial))
    elif text_alone:
        typer.echo(made.text(), nl=False)
        say_notes([*made.notes, *source.below])
        source.below.clear()  # stdout is the text alone
    else:
        tables = expected_tables(made) if changes is None and made.expected else quotas_tables(made)
        for line in first_lines(made, changes):
            say(line)
        for table in tables if changes is None else changes_tables(changes, made.by):
            shown, more = on_a_screen(table)
            console_for().print(shown)
            if more:
                say(f"{more:,} more rows: --out FILE or --json has all")
        for line in (*made.notes, *(changes.notes if changes is not None else ())):
            if line not in made.first:
                say(line)
        if trial is not None:
            console_for().print(trial_table(trial))
            for line in (*trial.sentences, *trial.notes):
                say(line)
    if out is not None and not refused:
        write_whole(out, made.text(PATCHES if (target, out.suffix.lower()) == ("kueue", ".sh") else None))
        written(out)
    if refused:
        raise typer.Exit(STOPS)
    if changes is not None and (made.changed or any(row.is_change for row in changes.rows)):
        raise typer.Exit(FAILED_CHECK)


def _instance(source: Source) -> Instance:
    """The instance of the input; one without users if nobody asks for anything, which a message says."""
    try:
        return source.read()
    except InvalidInstance as error:
        if not is_nothing_asked(error):
            raise
        say_notes([f"nobody asks for anything: {error}"])
        return Instance([], [[1.0]], resources=["cpu"])


def _check_teams(target: str, source: Source, of_queues: bool, has_queues: bool) -> None:
    """Refuse a format whose objects are of other teams than the input's."""
    users = source.options.get("users")
    if target == "kueue" and has_queues and not of_queues:
        raise InvalidBlock(
            f"the ClusterQueues of {source.path} serve others than the teams of --users {users}, of which some may "
            "have their names; give --users queue, or leave the ClusterQueues out of the input for new ones"
        )
    if target == "kubernetes" and (of_queues or str(users).startswith("label:")):
        teams = "the ClusterQueues of Kueue" if of_queues else f"the values of {users}"
        raise InvalidBlock(
            f"ResourceQuotas are of namespaces, but the teams of {source.path} are {teams}; give --users namespace, or "
            "another --format"
        )
    if target == "slurm" and users not in (None, "account"):
        raise InvalidBlock(
            f"fairshares and limits of Slurm are of accounts, but --users {users} makes other teams; leave it out, or "
            "give another --format"
        )
