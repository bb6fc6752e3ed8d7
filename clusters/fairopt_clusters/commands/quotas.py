"""``fairopt quotas``: quotas of teams, and their difference from present ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

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
from fairopt.errors import InvalidBlock
from fairopt.io import write_whole
from fairopt.policies import accepted
from fairopt.report import check_output
from fairopt.runtime import begin
from fairopt_clusters.quotas import owed
from fairopt_clusters.quotas.cluster_queues import LIMITS_CHANGE, InputQueues, read_queues
from fairopt_clusters.quotas.owed import FORMATS, TEAM
from fairopt_clusters.quotas.present import quotas_of_input, read_quotas
from fairopt_clusters.quotas.tables import FORMAT, changes_tables, described_quotas, quotas_tables
from fairopt_clusters.quotas.team_quotas import PATCHES

ENDINGS = {  # the first format of an ending is the default for teams that are no ClusterQueues
    "csv": (".csv",),
    "kubernetes": (".yaml", ".yml"),
    "slurm": (".sh",),
    "kueue": (".sh", ".yaml", ".yml"),
}
QUOTAS = """Make quotas of teams from the fair answer, in whole tasks, and write them for the cluster.

A quota is what a team's whole tasks use of each resource: whole GPUs, millicores of cpu (whole cores in Slurm), MiB \
of memory. For Kubernetes and Slurm, whose limits stop all that is beyond them, what is left over is added in \
proportion, and what a team's tasks do not request is not limited. Together quotas are never more than there is, but \
that ResourceQuotas leave room for one more task where all have a place: Kubernetes shows no pods beyond them. Limits \
that stay beside them are named and counted. Notes say how whole tasks were found, what they lose against the \
certified divisible answer, and what could not be placed.

\b
[bold]Kubernetes[/]: the ResourceQuotas of INPUT by their names, with other amounts; or new ones named fairopt
  fairopt quotas now/ --users namespace --format kubernetes > quotas.yaml
  kubectl apply -f quotas.yaml

\b
[bold]Kueue[/]: the ClusterQueues of INPUT with what is lent to them, by flavor; or new ones
  fairopt quotas now/ --format kueue --diff
  fairopt quotas now/ --format kueue --out queues.sh
  sh queues.sh

\b
[bold]Slurm[/]: limits (GrpTRES) on accounts, with types of GPUs
  fairopt quotas slurm/ --format slurm --diff
  fairopt quotas slurm/ --format slurm > quotas.sh

\b
[bold]Anything[/]: a table by team, resource and type of server
  fairopt quotas cluster/ -p drf --out quotas.csv
  fairopt quotas cluster/ -p drf --present quotas.csv --diff

--diff shows present, new and held amounts, and names teams that hold more than their new quota; the exit code is 4 \
if a quota changes, else 0. Present quotas come from INPUT: clusterqueues.json, resourcequotas.json (kubectl get \
resourcequotas -A -o json) or associations.json (sacctmgr show associations --json) in its folder, or from --present.

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
    instance = source.read()
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
    ((name, mechanism),) = chosen(instance).items()
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
        )
    changes = made.diff(known[0] if known is not None else []) if diff else None
    if changes is not None and not any(row.present is not None for row in changes.rows):
        unknown = (
            f"no present quotas of these are known: {source.path} has none; give --present FILE, such as the output of "
            "kubectl get resourcequotas -A -o json, or of sacctmgr show associations --json"
            if present is None
            else f"no quota in {present} is for a team, a resource and servers of these"
        )
        changes = replace(changes, notes=(*changes.notes, unknown))
    text_alone = format is not None and not (out or diff or as_json)
    if as_json:
        show_json(FORMAT, described_quotas(made, name, repr(mechanism), changes))
    elif text_alone:
        typer.echo(made.text(), nl=False)
        say_notes([*made.notes, *source.below])
        source.below.clear()  # stdout is the text alone
    else:
        tables = quotas_tables(made) if changes is None else changes_tables(changes, made.by)
        for table in tables:
            console_for().print(table)
        for line in (*made.notes, *(changes.notes if changes is not None else ())):
            say(line)
    if out is not None:
        write_whole(out, made.text(PATCHES if (target, out.suffix.lower()) == ("kueue", ".sh") else None))
        written(out)
    limits_change = any(note.startswith(LIMITS_CHANGE) for note in made.notes)
    if changes is not None and (limits_change or any(row.is_change for row in changes.rows)):
        raise typer.Exit(FAILED_CHECK)


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
            f"limits of Slurm are of accounts, but --users {users} makes other teams; leave it out, or give another "
            "--format"
        )
