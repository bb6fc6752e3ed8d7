"""``fairopt prove``: whether a property holds on every instance of a kind, by machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import WHAT_POLICY, AsJson
from fairopt.cli.interrupts import LAST_WORDS, STOPPED
from fairopt.cli.progress import complain, console_for, working
from fairopt.policies.registry import named_policy
from fairopt.policy import label
from fairopt.properties.prove.proof import Proof, ProofReport
from fairopt.properties.prove.prove import prove as by_machine
from fairopt.report import files

PROVE = """Prove that a property holds on every pool of a kind, or find a pool on which it fails.

Solvers of real arithmetic (z3; with --cross-check cvc5 too) are asked for demands at which the property fails. Where \
there are none it is proved, for all real demands and, unless --users is given, for any number of users; where there \
are, the smallest that is found is computed again by other means. Of blocks of your own the theorem assumes what their \
`conditions` state, which is compared with what they compute on drawn pools. Install with \
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
    property: Annotated[str | None, typer.Option("--property", help="The property; by default all of them.")] = None,
    users: Annotated[int | None, typer.Option(metavar="N", help="Number of users; by default any number.")] = None,
    zeros: Annotated[bool, typer.Option("--zeros", help="Demands may be zero.")] = False,
    weights: Annotated[bool, typer.Option("--weights", help="Any weights, not equal ones.")] = False,
    limits: Annotated[bool, typer.Option("--limits", help="Any task limits, not none.")] = False,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="Seconds for each property.")] = 60.0,
    cross_check: Annotated[bool, typer.Option("--cross-check", help="Ask cvc5 as well.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write a proof as .smt2 for other solvers, or a witness as .json for 'fairopt replay'; with "
            "--property."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove properties."""
    files.check(save, (".smt2", ".json"))
    if save is not None and property is None:
        raise typer.BadParameter("give --property: one proof is saved", param_hint="--save")
    notion = named_policy(policy)
    known: list[Proof] = []

    def show() -> None:
        found = ProofReport.of(known) if property is None else known[0] if known else None
        if found is None:
            return
        if as_json:
            typer.echo(files.as_json(found.to_dict()))
        elif isinstance(found, ProofReport):
            console_for().print(found)
        else:
            typer.echo(f"{found.mechanism}: {found}")

    def last_words() -> None:  # where compiled code does not return to Python
        show()
        complain(LAST_WORDS)

    with working(f"proof of {label(notion)}", last_words=last_words):
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
        if not as_json:
            console_for().print(f"written: {save}", markup=False)
    if known[-1].interrupted:
        complain(LAST_WORDS)
        raise typer.Exit(STOPPED)
