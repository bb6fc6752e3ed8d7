"""``fairopt simulate``: replay jobs task by task under several policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from fairopt.blocks.algebra import only_term
from fairopt.blocks.shares import DominantShare, Share
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.inputs import Source, amounts_given, say_notes, with_options_of_jobs
from fairopt.cli.interrupts import INTERRUPTED, STOPPED
from fairopt.cli.progress import complain, console_for, say, show_json, working, written
from fairopt.cli.values import labelled_number
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.io.files import reader_of_folder
from fairopt.io.quantities import capacity_of
from fairopt.io.readers import readers_of_jobs
from fairopt.io.text_files import check_file, read_text
from fairopt.online import (
    BackfillScheduler,
    HierarchicalScheduler,
    JobTrace,
    Slurm,
    SlurmRules,
    SlurmScheduler,
    Timeline,
    Usage,
    read_jobs,
    service,
)
from fairopt.online.files import has_servers
from fairopt.online.scheduler import Scheduler
from fairopt.online.served import check_window
from fairopt.online.simulation import simulate
from fairopt.online.timeline import THRESHOLD, check_threshold
from fairopt.online.units import check_unit
from fairopt.online.usage import NAMES as USAGES
from fairopt.online.usage import named_usage
from fairopt.online.waiting import WholeJobs
from fairopt.plots import TIMELINE_KINDS, check_timelines, draw_services, draw_timelines
from fairopt.policies import named_policy
from fairopt.policies.hierarchical import HDRF
from fairopt.policy import Policy, label
from fairopt.report import files
from fairopt.report.timelines import (
    services_table,
    timeline_data,
    timeline_remarks,
    timelines_table,
    waits_table,
    write_tasks,
)
from fairopt.runtime.clock import Clock, checked
from fairopt.runtime.progress import within

FIRST_COME, BACKFILL = "fcfs", "easy"
SERVICE = "service"  # a kind of picture
COUNTED = 10**12  # the capacity of tokens, which are counted and limit nothing
TOKENS = {"input": 1.0, "output": 2.0}  # the cost of a request where none is given
NOT_IN_FILE_NAMES = re.compile(r"[^\w.=-]+")
_OTHERS = [one.shown for one in readers_of_jobs() if one.shown]
_FILES = "\n".join(one.examples for one in readers_of_jobs() if one.examples)
SIMULATE = f"""Replay jobs task by task under one or several policies, and report waiting by team and user.

A policy is a max-min policy of one share (drf, 2df, kdf:k=3, tsf, "Leximin(PNormShare(2))" or module:NAME), which \
always serves the user with the lowest share; vtc, drr, karma, slurm, kueue, kai, htcondor or decayed, which remember \
what users had ('vtc:prefill=1,decode=2'); slurm, fair-tree or classic, which with accounts in --servers replay \
Slurm's rules (priorities, usage of the tree of accounts, limits, backfilling); hdrf, which serves the lowest team, \
then its lowest user; fcfs, first come, first served; or easy, fcfs with a reservation for the first waiting job, \
which others may not delay. Tasks are whole, and each runs on one server. After Ctrl-C the finished part is shown.

\b
[bold]Jobs[/]
  jobs.csv   columns user, arrival, duration and one per resource, named as in
             servers.csv; optional: tasks, weight, servers (separated by |),
             team, gang (all tasks start together), limit
{_FILES}

All times use the same unit, of your choice (--time-unit names it), or arrivals are dates, as 2026-03-01T08:00, and \
durations seconds; in the traces times are seconds.

\b
[bold]Examples[/]
  fairopt simulate jobs.csv --servers cluster/ -p drf -p hdrf -p fcfs -p easy
  fairopt simulate jobs.csv --servers cluster/ -p 2df --placement best-fit
  fairopt simulate jobs.csv --servers now/ -p drf --usage decayed:half_life=3600 --json
  fairopt simulate jobs.csv --servers now/ -p drf --usage kueue:half_life=86400
  fairopt simulate jobs.csv --servers cluster/ -p drf -p fcfs --plot shares.png
  fairopt simulate azure.csv --capacity slot=8 --tenants chat=1 --tenants code=3 -p vtc -p drr -p fcfs --window 60
  fairopt simulate jobs.csv --servers cluster/ -p drf -p fcfs --out tasks.csv"""


@app.command("simulate", no_args_is_help=True, help=SIMULATE)
@guarded
@with_options_of_jobs
def replay_jobs(
    jobs: Annotated[
        str,
        typer.Argument(
            metavar="JOBS",
            show_default=False,
            help=f"{', or '.join(['A CSV table of jobs', *_OTHERS])}.",
        ),
    ],
    servers: Annotated[
        str | None,
        typer.Option(
            metavar="INPUT",
            help="The servers: any INPUT of 'fairopt solve', whose users are ignored, or a folder with servers.csv. "
            "Default: those in a folder of jobs.",
        ),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AMOUNT",
            help="Instead of --servers: one server with this much of a resource, such as cpu=64 or gpu=8; repeatable.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", help="A max-min policy of one share, 'hdrf', 'fcfs' or 'easy'; repeatable. Default: drf."
        ),
    ] = None,
    placement: Annotated[
        str,
        typer.Option(
            help="Where a task starts: 'first-fit', 'best-fit', 'least-loaded', 'pooled' (one pool per server type).",
        ),
    ] = "first-fit",
    on_misfit: Annotated[
        str, typer.Option(help="If the first task in line fits nowhere: 'skip' tries the next one, 'stop' waits.")
    ] = "skip",
    usage: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What max-min policies remember; others refuse it: 'vtc', 'karma', 'slurm', 'fair-tree', 'classic', "
            "'kai', 'kueue', 'htcondor' or 'decayed', with options and costs of resources: 'kai:k=2', "
            "'vtc:prefill=1,decode=2', 'decayed:half_life=60,lift=0'.",
        ),
    ] = None,
    half_life: Annotated[
        float | None,
        typer.Option(metavar="TIME", help="Usage so long ago counts half: of max-min policies, and of --usage."),
    ] = None,
    compress: Annotated[
        float,
        typer.Option(metavar="X", help="Divide arrival times, but not durations, by this number, for more contention."),
    ] = 1.0,
    time_unit: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="Unit of the times: s, min, h or d. Default: s where the file says so."),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option("--threshold", metavar="TIME", help="Shorter durations count as this in the bounded slowdown."),
    ] = THRESHOLD,
    pooled: Annotated[bool, typer.Option("--pooled", help="Treat all servers as one pool.")] = False,
    fair: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Number of evenly spaced times at which the distance from the fair share is measured.",
        ),
    ] = 20,
    plot: Annotated[Path | None, typer.Option(help="Draw all policies to a .png, .pdf or .svg file.")] = None,
    kind: Annotated[
        str | None, typer.Option(help=f"Kind of picture: {', '.join([*TIMELINE_KINDS, SERVICE])}. Default: shares.")
    ] = None,
    between: Annotated[
        tuple[float, float] | None, typer.Option(metavar="FROM TO", help="Time range of the picture.")
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(metavar="TIME", help="Report what users were served in windows of this length."),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AMOUNT",
            help="What counts as service, by unit of a resource; repeatable. Default: input=1 and output=2 where "
            "requests have them, else the share.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write all tasks as .csv, or a .json file for Timeline.load; one file per policy."),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit for all policies; the finished part is shown.")
    ] = None,
    as_json: AsJson = False,
    options: dict[str, Any] | None = None,
) -> None:
    """Replay jobs task by task."""
    given = options or {}
    inputs = (jobs, *([servers] if servers else []))
    files.check_output(plot, files.PICTURES, *inputs)
    if plot is not None:
        kind = kind or "shares"
        if kind != SERVICE:
            check_timelines(kind, between)
        elif between is not None:
            raise InvalidBlock("--kind service has windows and no --between; leave it out")
        if kind == "distance" and not fair:
            raise InvalidBlock("--kind distance needs times at which distances are measured; give --fair 20")
    elif kind is not None or between is not None:
        raise InvalidBlock("--kind and --between need a picture; give --plot FILE too")
    checked(time_limit)
    if half_life is not None:
        name, _, rest = (usage or "decayed").partition(":")
        if "half_life" in rest:
            raise InvalidBlock("--half-life and --usage both give a half-life; leave one of the two out")
        usage = f"{name}:half_life={half_life!r}{',' * bool(rest)}{rest}"
    remembered = None if usage is None else named_usage(usage)
    costs = dict(labelled_number("--cost", text, "resource", "output=2") for text in cost or ())
    if cost and window is None and kind != SERVICE:
        raise InvalidBlock("--cost counts service; give --window TIME too, such as --window 60")
    check_window(window)
    check_unit(time_unit)
    check_threshold(threshold)
    rules: dict[str, _Rule] = {}
    for text in policy or ["drf"]:
        rule = _rule(text)
        if usage is not None:
            if rule.order != "share" or rule.usage is not None:
                why = "has a memory of its own" if rule.usage is not None else "compares no past usage"
                raise InvalidBlock(f"--usage and --half-life do not go with {rule.name}, which {why}; leave them out")
            rule = rule._replace(usage=remembered, words=usage)
        names = (rule.name if k == 0 else f"{rule.name} ({k + 1})" for k in range(len(rules) + 1))
        rules[next(name for name in names if name not in rules)] = rule
    outs = (
        {} if out is None else {name: out.with_stem(f"{out.stem}-{NOT_IN_FILE_NAMES.sub('-', name)}") for name in rules}
    )
    if out is not None and len(rules) == 1:
        outs = dict.fromkeys(rules, out)
    for one in outs.values():
        files.check_output(one, (".csv", ".json"), *inputs)
    folder = Path(jobs).is_dir()  # which has servers too
    if servers is None and capacity is None and not has_servers(Path(jobs)):
        check_file(jobs, "expected jobs")
        fix = "give --servers INPUT, such as --servers cluster/, or --capacity cpu=64"
        raise InvalidInstance(f"{jobs} has no servers; {fix}")
    if capacity is not None and (servers is not None or folder):
        raise InvalidInstance("--capacity is one server, and there are others; leave one of them out")
    of_jobs = set[str]().union(*(kind.takes for kind in readers_of_jobs()))
    shared = reader_of_folder(Path(jobs), {})[0].takes if servers is None and folder else set[str]()

    of_servers = {name: value for name, value in given.items() if name not in of_jobs or name in shared}
    source = Source(servers or jobs, of_servers, pooled=pooled)
    cluster = source.read_servers() if capacity is None else _server(capacity, jobs)
    for name in costs:
        if name not in cluster.resources:
            raise InvalidBlock(f"--cost names {name!r}; {nearest(name, cluster.resources)}")
    rules_there = source.rules(cluster, given.get("users")) if capacity is None else None
    with working(f"reading {jobs}"):
        of_reader = {name: given[name] for name in given if name in of_jobs}
        if rules_there is not None and rules_there.places and _takes_partitions(jobs):
            of_reader["partitions"] = rules_there.places
        trace = read_jobs(jobs, cluster, compress=compress, **of_reader)
    parents = {one.name: one.parent for one in rules_there.accounts if one.parent} if rules_there else {}
    notes = [*trace.notes, *(_said_of_weights(trace, source, parents) if _HDRF in rules.values() else ())]
    if rules_there is not None and any(_by_slurm(rule, rules_there) for rule in rules.values()):
        notes += rules_there.notes
    say_notes([*source.all_noted, *notes])
    if placement == "pooled":
        _by_types(trace, cluster)
    schedulers: dict[str, Scheduler | WholeJobs] = {}
    teams = dict.fromkeys(job.team for job in trace if job.team is not None)
    for name, rule in rules.items():
        _, share, order, weights, of_rule, _ = rule
        for team in weights or ():
            if team not in teams:
                raise InvalidBlock(f"hdrf: weights name {team!r}, and no job has this team; {nearest(team, teams)}")
        if order == BACKFILL:
            schedulers[name] = BackfillScheduler(cluster, placement=placement)
        elif order == "hdrf":
            of_teams = source.team_weights if weights is None else weights
            schedulers[name] = HierarchicalScheduler(cluster, of_teams, parents=parents, placement=placement)
        elif rules_there is not None and _by_slurm(rule, rules_there):
            schedulers[name] = SlurmScheduler(cluster, _rules_of(rule, rules_there), placement=placement)
        else:
            past: dict[str, Any] = {"usage": of_rule} if order == "share" else {}
            schedulers[name] = Scheduler(cluster, share, order=order, placement=placement, on_misfit=on_misfit, **past)
    runs: dict[str, Timeline] = {}
    served_as = costs or (TOKENS if {*TOKENS} <= {*cluster.resources} else None)

    def show() -> None:
        services = {}
        if window is not None or kind == SERVICE:
            try:
                services = {name: service(run, served_as, window) for name, run in runs.items()}
            except InvalidBlock as error:  # a window that is too short for the run, known only now
                complain(f"cannot measure service: {error}")
        if as_json:
            done = {name: timeline_data(run, threshold, services.get(name)) for name, run in runs.items()}
            show_json("fairopt.simulations/1", {"notes": notes, "policies": done})
        elif runs:
            console_for().print(timelines_table(runs))
            if (waits := waits_table(runs, threshold)) is not None:
                console_for().print(waits)
            if services:
                console_for().print(services_table(services))
            for line in timeline_remarks(runs, threshold):
                say(line, style="dim")
        saved = []  # after the results are shown, in case a file cannot be written
        for name, run in runs.items() if outs else ():
            saved.append(outs[name])
            run.save(outs[name]) if outs[name].suffix.lower() == ".json" else write_tasks(run, outs[name])
        if plot is not None:
            try:
                if kind == SERVICE:
                    unit = next((run.time_unit for run in runs.values()), None)
                    drawn = draw_services(services, time_unit=unit)
                else:
                    drawn = draw_timelines(runs, kind or "shares", between=between)
                files.write_picture(drawn, plot)
                saved.append(plot)
            except InvalidBlock as error:  # if only a part was replayed
                complain(f"cannot draw the picture: {error}")
        for path in saved:
            written(path)

    def interrupted() -> None:
        show()
        whole = sum(np.isinf(run.until) for run in runs.values())
        complain(f"{INTERRUPTED} after {whole} of {len(rules)} policies")

    stopped, clock = False, Clock(time_limit)
    try:
        with working(f"{len(trace):,} jobs", on_interrupt=interrupted):
            for name, scheduler in schedulers.items():
                with within(name):
                    runs[name] = simulate(
                        cluster,
                        trace,
                        rules[name].share,
                        scheduler=scheduler,
                        name=name,
                        time_unit=time_unit,
                        time_limit=clock.left,
                    )
                if stopped := runs[name].interrupted:
                    break
            else:
                stopped = _measure(runs, fair, clock)
    except KeyboardInterrupt:  # between two runs
        stopped = True
    if stopped and not clock.late:
        interrupted()
        raise typer.Exit(STOPPED)
    show()
    if stopped:
        complain(
            f"stopped by the time limit after {sum(np.isinf(run.until) for run in runs.values())} of {len(rules)} "
            "policies"
        )


class _Rule(NamedTuple):
    """A policy: its name, the share that is measured, the order of the queue, weights of teams, and its memory."""

    name: str
    share: Share
    order: str
    weights: Mapping[str, float] | None = None
    usage: Usage | None = None  # what it remembers
    words: str = ""  # how that was given


_HDRF = _Rule("HDRF", DominantShare(), "hdrf")  # with the weights of the servers' folder


def _rule(text: str) -> _Rule:
    """A policy by its name."""
    if text.strip().lower() == FIRST_COME:
        return _Rule("FCFS", DominantShare(), "arrival")
    if text.strip().lower() == BACKFILL:
        return _Rule("EASY", DominantShare(), BACKFILL)
    if text.strip().partition(":")[0].lower() in USAGES:
        return _Rule(text.strip(), DominantShare(), "share", usage=named_usage(text), words=text)
    policy = named_policy(text)
    if isinstance(policy, HDRF):
        if policy.by != ("team",):
            raise InvalidBlock(f"policy {text!r} has the labels {policy.by!r}, and jobs have a team only; leave by out")
        return _HDRF._replace(weights=policy.weights)
    if not isinstance(policy, Policy):
        problem = "is not an objective of shares"
    elif policy.constraints:
        problem = "has constraints, which a replay task by task cannot keep"
    elif (term := only_term(policy.objective)) is not None and term.is_smallest:
        return _Rule(label(policy), term.share, "share")
    else:
        problem = f"maximises {policy.objective}, which is not a max-min objective of one share"
    raise InvalidBlock(
        f"policy {text!r} {problem}; give Leximin or MaxMin alone, such as drf, 2df, kdf:k=3, tsf or "
        f"'Leximin(PNormShare(2))', or hdrf, vtc, {FIRST_COME} or {BACKFILL}"
    )


def _by_slurm(rule: _Rule, rules: SlurmRules) -> bool:
    """Whether a policy is replayed by Slurm's rules, as where there are accounts."""
    return isinstance(rule.usage, Slurm) and bool(rules.accounts)


def _rules_of(rule: _Rule, rules: SlurmRules) -> SlurmRules:
    """The rules of a folder, with what a policy says of them."""
    name, _, options = rule.words.strip().partition(":")
    usage, priority = rule.usage, rules.priority
    assert isinstance(usage, Slurm)
    if "sampling" in options:
        raise InvalidBlock(f"{rule.words!r}: with accounts usage is continuous; leave sampling out")
    given: dict[str, Any] = {"half_life": usage.half_life} if "half_life" in options else {}
    given |= {"formula": name.lower()} if name.lower() != "slurm" else {}
    if usage.cost is not None:
        given["billing"] = dict(usage.cost)
    elif rule.name != rule.words.strip():  # the share of a policy with --usage
        given["billing"] = rule.share
    return replace(rules, priority=replace(priority, **given))


def _said_of_weights(trace: JobTrace, source: Source, parents: Mapping[str, str]) -> list[str]:
    """Which weights of the inputs count between teams under HDRF, and which do not."""
    teams = {job.team for job in trace if job.team is not None}
    for team in [*teams]:
        while (team := parents.get(team, "")) and team not in teams:
            teams.add(team)
    notes = []
    if known := {team: weight for team, weight in sorted(source.team_weights.items()) if team in teams}:
        listed = ", ".join(f"{team} {weight:g}" for team, weight in [*known.items()][:5]) + ", ..." * (len(known) > 5)
        among = ", each among those with the same account above" if parents else ""
        notes.append(
            f"hdrf: weights of teams are those of {source.title}{among}: {listed}; hdrf:weights=... replaces them"
        )
    if source.team_weights.keys() - teams:
        above = "" if parents else ", such as accounts above,"
        notes.append(f"hdrf: jobs have a team only, so weights of other teams{above} do not count")
    if any(job.weight != 1 and job.team is not None for job in trace):
        notes.append("hdrf: weights of jobs count inside their teams; hdrf:weights={nlp: 2} gives those of teams")
    return notes


def _takes_partitions(jobs: str) -> bool:
    """Whether the reader of the jobs knows their partitions."""
    return any("partitions" in kind.takes and kind.asked(kind.path, Path(jobs), ()) for kind in readers_of_jobs())


def _server(capacity: list[str], jobs: str) -> Instance:
    """One server with a capacity, in the units that the header of the jobs names."""
    given = capacity_of(amounts_given("--capacity", capacity))
    of_requests = next(kind for kind in readers_of_jobs() if kind.name == "requests")
    if of_requests.asked(of_requests.path, Path(jobs), ()):
        # tokens are counted, and limit nothing unless their amount is given
        given = dict.fromkeys(TOKENS, Fraction(COUNTED)) | dict(given)
        return Instance([], [float(amount) for amount in given.values()], resources=list(given), servers=["capacity"])
    header = [cell.strip() for cell in read_text(jobs, "expected jobs").partition("\n")[0].split(",")]
    units = dict((match[1], match[2]) for cell in header if (match := re.fullmatch(r"(.*\S)\s*\[(.*)\]", cell)))
    if len(header) == 1:  # of sacct
        units = {"cpu": "core", "memory": "GiB"}
    mine = {name: units[name] for name in given if name in units}
    amounts = [float(amount) for amount in given.values()]
    return Instance([], amounts, resources=list(given), servers=["capacity"], units=mine or None)


def _by_types(trace: JobTrace, cluster: Instance) -> None:
    """Refuse jobs that name servers, since pools are named by server type."""
    for job in trace:
        name = next((one for one in job.eligible or () if one not in (cluster.server_types or ())), None)
        if name is not None:
            raise InvalidInstance(
                f"a job of user {job.user!r} names the server {name!r}, but --placement pooled knows types only; "
                "name types in the column 'servers'"
            )


def _measure(runs: dict[str, Timeline], fair: int, clock: Clock) -> bool:
    """Compute fair shares of all runs at the same times; return whether Ctrl-C or the time limit stopped it."""
    spans = [(run.table.arrival.min(), run.start.max()) for run in runs.values()]
    first, last = min(low for low, _ in spans), max(high for _, high in spans)
    times = np.unique(first + (last - first) * (np.arange(fair) + 0.5) / max(fair, 1))
    for name, run in runs.items():
        with within(name):
            runs[name] = run.with_fair_at(times, time_limit=clock.left)
        if runs[name].interrupted:
            return True
    return False
