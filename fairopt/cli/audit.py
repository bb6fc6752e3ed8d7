"""``fairopt audit`` and ``fairopt replay``: search for counterexamples to a property, and check saved ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt.cli.application import NOT_CERTIFIED, app, guarded
from fairopt.cli.commands import WHAT_POLICY, AsJson
from fairopt.cli.interrupts import STOPPED
from fairopt.cli.progress import complain, console_for, show_json, working, written
from fairopt.errors import InvalidBlock, nearest
from fairopt.policies import named_policy
from fairopt.policies.registry import named_share
from fairopt.policy import label
from fairopt.properties import MEANING
from fairopt.properties.audit.audit import audit as search
from fairopt.properties.audit.findings import AuditReport, Finding
from fairopt.properties.audit.replay import replay
from fairopt.report import files
from fairopt.runtime import extensions

WHAT_SHARE = "What users compare instead of tasks, such as 'ThroughputShare()', or file.py:NAME (which runs the file)."
AUDIT = """Search for small instances on which a policy violates a property, and prove the violations.

Properties: {properties}. Short forms are known, such as pe, si, ef and sp.

Instances are single pools, or clusters with --servers (for drf on clusters, tsf and ps-dsf). Users compare tasks, or \
the --share that is given; on clusters also the share of the policy, if it differs by server. Each refuted property \
comes with a counterexample that was checked by an independent computation. A property that is not refuted is not \
thereby proved. The exit code is 0 either way, and 1 if the policy failed on an instance.

With --scheduler in place of a policy, a scheduler that another package brings, such as fairopt-clusters, is audited \
by properties of its own, by default all: small trees of queues are drawn, and the scheduler's arithmetic divides them.

\b
[bold]Examples[/]
  fairopt audit 2df
  fairopt audit fds:alpha=2 --property sp --positive
  fairopt audit my_notions.py:MINE --property ef --property sp --max-examples 20000
  fairopt audit 2df --property ef --condition "no completely dominant user"
  fairopt audit ps-dsf --property pe --servers 3 --max-examples 200
  fairopt audit drf --servers 3 --share "ThroughputShare()" --max-examples 200
  fairopt audit --scheduler kai
  fairopt audit --scheduler yunikorn --property keeps-guarantees --json
  fairopt audit most-tasks --save found.json
  fairopt replay found.json""".format(properties=", ".join(MEANING))
REPLAY = """Check the counterexamples of a saved audit again, without running any code from the file.

The exit code is 1 if a counterexample no longer refutes its property.

\b
[bold]Examples[/]
  fairopt replay found.json
  fairopt replay found.json --policy my_notions.py:MINE"""


@app.command(no_args_is_help=True, help=AUDIT)
@guarded
def audit(
    policy: Annotated[str | None, typer.Argument(show_default=False, metavar="POLICY", help=WHAT_POLICY)] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            help="A property to audit; repeatable. Default: pe, si, ef and sp; of teams pe, team-si, sp, team-sp; of "
            "schedulers all.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="A scheduler in place of a policy, such as kai.", metavar="NAME")
    ] = None,
    positive: Annotated[
        bool | None,
        typer.Option(
            "--positive/--zeros",
            help="Only positive demands, both true and reported, or also zero ones. Default: positive for pm and rm, "
            "which papers state so.",
        ),
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(
            help="Only instances that meet this condition, such as 'no completely dominant user'; repeatable."
        ),
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Draw weights from 1 to 4.")] = False,
    limits: Annotated[bool, typer.Option("--limits", help="Draw task limits for some users.")] = False,
    servers: Annotated[
        int, typer.Option(metavar="N", help="Draw clusters of 2 to N servers instead of pools (much slower).")
    ] = 1,
    share: Annotated[str | None, typer.Option(help=WHAT_SHARE)] = None,
    max_examples: Annotated[int, typer.Option(metavar="N", help="Number of instances per property.")] = 2000,
    prove: Annotated[
        bool, typer.Option("--prove", help="Try to prove properties that are not refuted, as 'fairopt prove' does.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time limit for all properties; findings so far are shown."),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Save the audit as .json for 'fairopt replay'.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search for counterexamples to properties."""
    files.check_output(save, (".json",))
    if (policy is None) == (scheduler is None):
        raise InvalidBlock("give either a policy, such as drf, or a scheduler, such as --scheduler kai")
    conditions = condition or ()
    of_instances: dict[str, Any] = {
        "share": None if share is None else named_share(share),
        "positive": positive,
        "conditions": conditions,
        "weights": weights,
        "limits": limits,
        "servers": servers,
        "prove": prove,
    }
    if policy is not None:
        mechanism = named_policy(policy)
        asked: Any = partial(search, mechanism, **of_instances)
    else:
        given = {**of_instances, "positive": positive is not None, "servers": servers > 1, "save": save}
        if option := next((option for option, value in given.items() if value), None):
            raise InvalidBlock(f"--{option.replace('conditions', 'condition')} is of policies; leave it out")
        mechanism = _scheduler(str(scheduler))
        asked = mechanism.audit
    name = label(mechanism)
    known: list[Finding] = []

    def show(report: AuditReport) -> None:
        if as_json:
            show_json("fairopt.findings/1", {**report.to_dict(), "interrupted": report.interrupted})
        else:
            console_for().print(report)
        if save is not None:
            report.save(save)
            written(save)
        if report.interrupted:
            done = sum(not f.interrupted for f in report.findings)
            complain(f"stopped by Ctrl-C after {done} complete {'property' if done == 1 else 'properties'}")

    def interrupted() -> None:
        show(AuditReport(name, mechanism, tuple(known), tuple(conditions), seed, True, of_instances["share"]))

    with working(f"audit of {name}", on_interrupt=interrupted):
        report = asked(property, max_examples=max_examples, seed=seed, found=known.append, time_limit=time_limit)
    show(report)
    if report.interrupted:
        raise typer.Exit(STOPPED)
    faulty = [f for f in report.findings if f.n_faults]
    if faulty:
        complain(f"{name} failed: {faulty[0].faults[0]}")
        raise typer.Exit(NOT_CERTIFIED)


def _scheduler(name: str) -> Any:
    """The scheduler of a name, which another package brings; it has ``audit``."""
    known = extensions.points(extensions.SCHEDULERS)
    if name not in known:
        if not known or name in extensions.OF_CLUSTERS[extensions.SCHEDULERS]:
            raise extensions.missing(f"--scheduler {name}")
        raise InvalidBlock(f"--scheduler {name!r} is not known; {nearest(name, known)}")
    try:
        loaded = known[name].load()
        made = loaded() if isinstance(loaded, type) else loaded
        if not callable(getattr(made, "audit", None)):
            raise TypeError("it has no audit")
        return made
    except Exception as error:  # of somebody else's code
        raise InvalidBlock(f"--scheduler {name!r} cannot be loaded from {known[name].value}: {error!r}") from error


@app.command("replay", no_args_is_help=True, help=REPLAY)
@guarded
def replay_file(
    file: Annotated[
        Path, typer.Argument(show_default=False, metavar="FILE", help="A file written by 'fairopt audit --save'.")
    ],
    policy: Annotated[
        str | None,
        typer.Option("--policy", "-p", help="The policy, if the file holds only its name. " + WHAT_POLICY),
    ] = None,
    share: Annotated[
        str | None, typer.Option(help="What users compare, if the file holds only its name. " + WHAT_SHARE)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check saved counterexamples again."""
    with working(f"replay of {file}"):
        compared = None if share is None else named_share(share)
        replayed = replay(file, None if policy is None else named_policy(policy), compared)
    if as_json:
        show_json("fairopt.replay/1", {"counterexamples": [one.to_dict() for one in replayed]})
    else:
        console = console_for()
        for one in replayed:
            console.print(str(one), markup=False, soft_wrap=True)
        if not replayed:
            console.print("the audit refuted no property")
    if not all(one.refutes for one in replayed):
        raise typer.Exit(NOT_CERTIFIED)
