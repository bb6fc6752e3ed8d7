"""``fairopt audit`` and ``fairopt replay``: a search for instances that break a property, and a check of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairopt.cli.application import NOT_CERTIFIED, app, guarded
from fairopt.cli.commands import WHAT_POLICY, AsJson
from fairopt.cli.interrupts import STOPPED
from fairopt.cli.progress import complain, console_for, working
from fairopt.policies.registry import named_policy
from fairopt.policy import label
from fairopt.properties.audit.audit import USUAL
from fairopt.properties.audit.audit import audit as search
from fairopt.properties.audit.findings import AuditReport, Finding
from fairopt.properties.audit.replay import replay
from fairopt.report import files

AUDIT = """Search for small instances on which a policy breaks a property, and prove the findings.

Properties: pareto (pe), sharing-incentive (si), envy-free (ef), strategy-proof (sp), strategy-proof-boosting \
(sp-boosting), bottleneck (bf), population-monotone (pm), resource-monotone (rm).

Instances are pools of one server, or with --servers clusters, which drfh, tsf and ps-dsf are made for. A refuted \
property is shown with a witness that was computed again by other means; a property that is not refuted is not proved. \
The exit code is 0 in both cases, and 1 if the policy failed on an instance.

\b
[bold]Examples[/]
  fairopt audit 2df
  fairopt audit fds:alpha=2 --property sp --positive
  fairopt audit my_notions.py:MINE --property ef --property sp --max-examples 20000
  fairopt audit 2df --property ef --condition "no completely dominant user"
  fairopt audit ps-dsf --property pe --servers 3 --max-examples 200
  fairopt audit most-tasks --save found.json, and later: fairopt replay found.json"""
REPLAY = """Check the witnesses of a saved audit again, from the numbers alone; nothing in the file is executed.

The exit code is 1 if a witness no longer refutes its property.

\b
[bold]Examples[/]
  fairopt replay found.json
  fairopt replay found.json --policy my_notions.py:MINE"""


@app.command(no_args_is_help=True, help=AUDIT)
@guarded
def audit(
    policy: Annotated[str, typer.Argument(show_default=False, metavar="POLICY", help=WHAT_POLICY)],
    property: Annotated[
        list[str] | None, typer.Option("--property", help="A property to audit; repeat it. Default: pe, si, ef and sp.")
    ] = None,
    positive: Annotated[bool, typer.Option("--positive", help="Positive demands only, true and reported.")] = False,
    boosting_only: Annotated[bool, typer.Option("--boosting-only", help="Only lies of at least the truth.")] = False,
    condition: Annotated[
        list[str] | None, typer.Option(help="A condition on instances, as 'no completely dominant user'; repeat it.")
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Users have weights from 1 to 4.")] = False,
    limits: Annotated[bool, typer.Option("--limits", help="Some users have task limits.")] = False,
    servers: Annotated[
        int, typer.Option(metavar="N", help="Draw clusters of 2 to N servers instead of pools; much slower.")
    ] = 1,
    max_examples: Annotated[int, typer.Option(metavar="N", help="Instances per property.")] = 2000,
    prove: Annotated[
        bool, typer.Option("--prove", help="Try to prove what is not refuted, as 'fairopt prove' does.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random draws.")] = 0,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Seconds for all properties; what is found by then is shown."),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the audit to a .json file, for 'fairopt replay'.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search for instances that break a property."""
    files.check(save, (".json",))
    mechanism = named_policy(policy)
    name = label(mechanism)
    conditions = [*(condition or ()), *(["boosting only"] if boosting_only else ())]
    known: list[Finding] = []

    def show(report: AuditReport) -> None:
        if as_json:
            typer.echo(files.as_json(report.to_dict()))
        else:
            console_for().print(report)
        if save is not None:
            report.save(save)
            if not as_json:
                console_for().print(f"written: {save}", markup=False)
        if report.interrupted:
            done = sum(not f.interrupted for f in report.findings)
            complain(f"stopped by Ctrl-C after {done} whole {'property' if done == 1 else 'properties'}")

    def last_words() -> None:  # where compiled code does not return to Python
        show(AuditReport(name, mechanism, tuple(known), tuple(conditions), seed, stopped=True))

    with working(f"audit of {name}", last_words=last_words):
        report = search(
            mechanism,
            property or USUAL,
            positive=positive,
            conditions=conditions,
            weights=weights,
            limits=limits,
            servers=servers,
            max_examples=max_examples,
            seed=seed,
            found=known.append,
            prove=prove,
            time_limit=time_limit,
        )
    show(report)
    if report.interrupted:
        raise typer.Exit(STOPPED)
    faulty = [f for f in report.findings if f.n_faults]
    if faulty:
        complain(f"{name} failed: {faulty[0].faults[0]}")
        raise typer.Exit(NOT_CERTIFIED)


@app.command("replay", no_args_is_help=True, help=REPLAY)
@guarded
def replay_file(
    file: Annotated[Path, typer.Argument(show_default=False, metavar="FILE", help="A file of 'fairopt audit --save'.")],
    policy: Annotated[
        str | None,
        typer.Option("--policy", "-p", help="The policy, where the file holds only its name. " + WHAT_POLICY),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the witnesses of a saved audit again."""
    with working(f"replay of {file}"):
        found = replay(file, None if policy is None else named_policy(policy))
    if as_json:
        typer.echo(files.as_json([one.to_dict() for one in found]))
    else:
        console = console_for()
        for one in found:
            console.print(str(one), markup=False, soft_wrap=True)
        if not found:
            console.print("no property was refuted in it")
    if not all(one.refutes for one in found):
        raise typer.Exit(NOT_CERTIFIED)
