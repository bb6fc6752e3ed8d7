"""``fairopt prove``: automated proofs that a property holds on all pools of a class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import WHAT_POLICY, AsJson
from fairopt.cli.interrupts import INTERRUPTED, STOPPED
from fairopt.cli.progress import complain, console_for, show_json, working, written
from fairopt.policies.registry import named_policy
from fairopt.policy import label
from fairopt.properties.prove.proof import Proof, ProofReport
from fairopt.properties.prove.prove import prove as by_machine
from fairopt.report import files

PROVE = """Prove that a property holds on all pools with M resources, or find a counterexample.

The SMT solver z3 searches for real demands that violate the property. If there are none, the property is proved for \
all positive demands (with --zeros also zero ones) and, unless --users is given, for any number of users. With \
--cross-check cvc5 checks the proof. A counterexample is checked by an independent computation. For your own blocks \
the proof relies on the conditions that they state; these are tested on random pools. Needs \
pip install 'fairopt\\[prove]'.

Properties: pareto (pe), sharing-incentive (si), envy-free (ef), strategy-proof (sp), strategy-proof-boosting \
(sp-boosting), bottleneck (bf), population-monotone (pm), resource-monotone (rm).

The exit code is 0 whether a property is proved, refuted or neither.

\b
[bold]Examples[/]
  fairopt prove -p drf --resources 3
  fairopt prove -p fds:alpha=2 --property ef --resources 3 --save ef.smt2
  fairopt prove -p drf --property sp --resources 2 --users 3 --zeros --weights --limits
  fairopt prove -p my_notions.py:MINE --property si --resources 2"""


@app.command(no_args_is_help=True, help=PROVE)
@guarded
def prove(
    policy: Annotated[str, typer.Option("--policy", "-p", show_default=False, help=WHAT_POLICY)],
    resources: Annotated[int, typer.Option(metavar="M", show_default=False, help="Number of resources.")],
    property: Annotated[str | None, typer.Option("--property", help="The property. Default: all of them.")] = None,
    users: Annotated[int | None, typer.Option(metavar="N", help="Number of users. Default: any number.")] = None,
    zeros: Annotated[bool, typer.Option("--zeros", help="Allow zero demands.")] = False,
    weights: Annotated[bool, typer.Option("--weights", help="Allow any weights instead of equal ones.")] = False,
    limits: Annotated[bool, typer.Option("--limits", help="Allow task limits.")] = False,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="Time limit for each property.")] = 60.0,
    cross_check: Annotated[bool, typer.Option("--cross-check", help="Confirm proofs with cvc5.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Save a proof as .smt2 for other solvers, or a counterexample as .json for 'fairopt replay'; "
            "needs --property."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove properties."""
    files.check_output(save, (".smt2", ".json"))
    if save is not None and property is None:
        raise typer.BadParameter("a file holds one proof; give --property too", param_hint="--save")
    notion = named_policy(policy)
    known: list[Proof] = []

    def show() -> None:
        shown = ProofReport.of(known) if property is None else known[0] if known else None
        if shown is None:
            return
        if as_json:
            show_json("fairopt.proofs/1", ProofReport.of(known).to_dict())
        elif isinstance(shown, ProofReport):
            console_for().print(shown)
        else:
            typer.echo(f"{shown.mechanism}: {shown}")

    def interrupted() -> None:
        show()
        complain(INTERRUPTED)

    with working(f"proof of {label(notion)}", on_interrupt=interrupted):
        by_machine(
            notion,
            property,
            resources=resources,
            users=users,
            positive=not zeros,
            weights=weights,
            limits=limits,
            time_limit=time_limit,
            cross_check=cross_check,
            found=known.append,
        )
    show()
    if save is not None:
        known[0].export(save)
        written(save)
    if known[-1].interrupted:
        complain(INTERRUPTED)
        raise typer.Exit(STOPPED)
