"""``fairopt simulate``: jobs replayed task by task under several policies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fairopt.blocks.algebra import only_term
from fairopt.blocks.shares import DominantShare, Share
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.inputs import Source, say_notes
from fairopt.cli.interrupts import LAST_WORDS, STOPPED
from fairopt.cli.progress import complain, console_for, working
from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.instance import Instance
from fairopt.io.jobs import is_openb
from fairopt.online.files import Trace, read_jobs
from fairopt.online.scheduler import Scheduler
from fairopt.online.simulation import simulate
from fairopt.online.timeline import Timeline
from fairopt.plots.timeline import TIMELINE_KINDS, check_timelines, draw_timelines
from fairopt.policies.registry import named_policy
from fairopt.policy import Policy, label
from fairopt.report import files
from fairopt.report.timelines import timeline_data, timeline_remarks, timelines_table, write_tasks
from fairopt.runtime.clock import Clock, checked
from fairopt.runtime.progress import within

FIRST_COME = "fcfs"
UNFIT = re.compile(r"[^\w.=-]+")  # for the name of a file
SIMULATE = """Replay jobs task by task: how long do they wait if the user with the lowest share goes first?

Policies are those that level one share, as drf, 2df, kdf:k=3, tsf, "Leximin(PNormShare(2))" or module:NAME, and fcfs: \
first come, first served. Tasks are whole, and run on one server each. Ctrl-C shows the part done.

\b
[bold]Jobs[/]
  jobs.csv  columns user, arrival, duration, and one for each resource, headed
            as in servers.csv; optionally tasks, weight, servers (joined by |)
  openb/    the folder of the openb trace: creation, scheduled, deletion times

Times have any unit, the same for all of them; of openb it is seconds.

\b
[bold]Examples[/]
  fairopt simulate jobs.csv --servers cluster/ -p drf -p 2df -p fcfs
  fairopt simulate jobs.csv --servers cluster/ -p 2df --placement best-fit
  fairopt simulate jobs.csv --servers now/ -p drf --half-life 3600 --json
  fairopt simulate jobs.csv --servers cluster/ -p drf -p fcfs --plot shares.png
  fairopt simulate openb/ --compress 20000 --capacity-scale 0.5 -p drf -p fcfs
  fairopt simulate jobs.csv --servers cluster/ -p drf -p fcfs --out tasks.csv"""


@app.command("simulate", no_args_is_help=True, help=SIMULATE)
@guarded
def replay_jobs(
    jobs: Annotated[
        str,
        typer.Argument(metavar="JOBS", show_default=False, help="A CSV table of jobs, or a folder of the openb trace."),
    ],
    servers: Annotated[
        str | None,
        typer.Option(
            metavar="INPUT",
            help="The servers: a cluster as other commands read it, whose users do not matter, or a "
            "folder with servers.csv. Default for openb: those of the folder.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", help="A policy that levels one share, or 'fcfs'; repeat it. Default: drf."),
    ] = None,
    placement: Annotated[
        str,
        typer.Option(
            help="Where a task starts: 'first-fit', 'best-fit', 'least-loaded', or 'pooled': each type as one pool.",
        ),
    ] = "first-fit",
    on_misfit: Annotated[
        str, typer.Option(help="If the first task in line fits nowhere: 'skip' goes on to others, 'stop' waits for it.")
    ] = "skip",
    half_life: Annotated[
        float | None,
        typer.Option(metavar="TIME", help="Compare averages of past shares that decay by half in this time."),
    ] = None,
    compress: Annotated[
        float, typer.Option(metavar="X", help="Divide arrivals by this number, not durations, for more contention.")
    ] = 1.0,
    users: Annotated[
        str | None, typer.Option(metavar="WHO", help="openb: the users, by 'shape' of request (default) or 'qos'.")
    ] = None,
    pods: Annotated[str | None, typer.Option(metavar="NAME", help="openb: the list of tasks, as 'gpuspec33'.")] = None,
    capacity_scale: Annotated[
        float | None, typer.Option(metavar="X", help="Servers of openb: factor on all capacities.")
    ] = None,
    pooled: Annotated[bool, typer.Option("--pooled", help="Replace the servers by one pool.")] = False,
    fair: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Moments, evenly spaced, at which the distance from the fair share is measured.",
        ),
    ] = 20,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture of all policies, as .png, .pdf or .svg.")] = None,
    kind: Annotated[
        str | None, typer.Option(help=f"The picture: {', '.join(TIMELINE_KINDS)}. Default: shares.")
    ] = None,
    between: Annotated[
        tuple[float, float] | None, typer.Option(metavar="FROM TO", help="The picture: the first and the last moment.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write .csv with all tasks, or .json that Timeline.load reads; of several policies one each."
        ),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Seconds for all policies; the part done is shown.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay jobs task by task."""
    inputs = (jobs, *([servers] if servers else []))
    files.check(plot, files.PICTURES, *inputs)
    if plot is not None:
        kind = kind or "shares"
        check_timelines(kind, between)
        if kind == "distance" and not fair:
            raise InvalidBlock("distances are known at some moments only; give --fair 20, say")
    elif kind is not None or between is not None:
        raise InvalidBlock("--kind and --between are about a picture; give --plot FILE too")
    checked(time_limit)
    rules: dict[str, tuple[Share, str]] = {}
    for text in policy or ["drf"]:
        plain, share, order = _rule(text)
        names = (plain if k == 0 else f"{plain} ({k + 1})" for k in range(len(rules) + 1))
        rules[next(name for name in names if name not in rules)] = share, order
    outs = {} if out is None else {name: out.with_stem(f"{out.stem}-{UNFIT.sub('-', name)}") for name in rules}
    if out is not None and len(rules) == 1:
        outs = dict.fromkeys(rules, out)
    for one in outs.values():
        files.check(one, (".csv", ".json"), *inputs)
    openb = is_openb(jobs)
    if servers is None and not openb:
        raise InvalidInstance(f"the servers of {jobs} are missing; give --servers INPUT, as --servers cluster/")
    asked = {"capacity_scale": capacity_scale, "pods": pods if servers is None else None}
    source = Source(servers or jobs, {k: v for k, v in asked.items() if v is not None}, pooled=pooled)
    cluster = source.read_servers()
    with working(f"reading {jobs}"):
        trace = read_jobs(jobs, cluster, users=users, pods=pods, compress=compress)
    say_notes(trace.notes)
    if placement == "pooled":
        _by_types(trace, cluster)
    schedulers = {
        name: Scheduler(
            cluster,
            share,
            order=order,
            placement=placement,
            on_misfit=on_misfit,
            half_life=half_life if order == "share" else None,
        )
        for name, (share, order) in rules.items()
    }
    runs: dict[str, Timeline] = {}

    def show() -> None:
        if as_json:
            done = {name: timeline_data(run) for name, run in runs.items()}
            typer.echo(files.as_json({"notes": trace.notes, "policies": done}))
        elif runs:
            console_for().print(timelines_table(runs))
            for line in timeline_remarks(runs):
                console_for().print(line, markup=False, style="dim")
        written = []  # after they are shown, in case they cannot be written
        for name, run in runs.items() if outs else ():
            written.append(outs[name])
            run.save(outs[name]) if outs[name].suffix.lower() == ".json" else write_tasks(run, outs[name])
        if plot is not None:
            try:
                files.write_picture(draw_timelines(runs, kind or "shares", between=between), plot)
                written.append(plot)
            except InvalidBlock as error:  # of the part done, say
                complain(f"cannot draw the picture: {error}")
        for to in () if as_json else written:
            console_for().print(f"written: {to}", markup=False, soft_wrap=True)

    def last_words() -> None:
        show()
        whole = sum(np.isinf(run.until) for run in runs.values())
        complain(f"{LAST_WORDS} after {whole} of {len(rules)} policies")

    stopped, clock = False, Clock(time_limit)
    try:
        with working(f"{len(trace):,} jobs", last_words=last_words):
            for name, scheduler in schedulers.items():
                with within(name):
                    runs[name] = simulate(
                        cluster, trace, rules[name][0], scheduler=scheduler, name=name, time_limit=clock.left
                    )
                if stopped := runs[name].interrupted:
                    break
            else:
                stopped = _measure(runs, fair, clock)
    except KeyboardInterrupt:  # between two runs
        stopped = True
    if stopped and not clock.late:
        last_words()
        raise typer.Exit(STOPPED)
    show()
    if stopped:
        complain(
            f"stopped by the time limit after {sum(np.isinf(run.until) for run in runs.values())} of {len(rules)} "
            "policies"
        )


def _rule(text: str) -> tuple[str, Share, str]:
    """The name, the share and the order of a policy."""
    if text.strip().lower() == FIRST_COME:
        return "FCFS", DominantShare(), "arrival"
    found = named_policy(text)
    if not isinstance(found, Policy):
        problem = "is not an objective of shares"
    elif found.constraints:
        problem = "has constraints, which starting task by task does not keep"
    elif (term := only_term(found.objective)) is not None and term.is_smallest:
        return label(found), term.share, "share"
    else:
        problem = f"maximises {found.objective}, and task by task one share is levelled"
    raise InvalidBlock(
        f"policy {text!r} {problem}; give one of Leximin or MaxMin alone, as drf, 2df, kdf:k=3, tsf or "
        f"'Leximin(PNormShare(2))', or {FIRST_COME}"
    )


def _by_types(trace: Trace, cluster: Instance) -> None:
    """Refuse jobs that name servers, which pools of types do not have."""
    for job in trace:
        name = next((one for one in job.eligible or () if one not in (cluster.server_types or ())), None)
        if name is not None:
            raise InvalidInstance(
                f"a job of user {job.user!r} names the server {name!r}, and --placement pooled has a pool for each "
                "type of server; name types in the column 'servers'"
            )


def _measure(runs: dict[str, Timeline], fair: int, clock: Clock) -> bool:
    """Find the fair shares of all runs at the same moments; whether Ctrl-C or the clock ended the search."""
    spans = [(run.table.arrival.min(), run.start.max()) for run in runs.values()]
    first, last = min(low for low, _ in spans), max(high for _, high in spans)
    moments = np.unique(first + (last - first) * (np.arange(fair) + 0.5) / max(fair, 1))
    for name, run in runs.items():
        with within(name):
            runs[name] = run.with_fair_at(moments, time_limit=clock.left)
        if runs[name].interrupted:
            return True
    return False
