"""``fairopt buy``: which resource to buy next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairopt.cli.commands import WHAT_POLICY, AsJson, Method, Solver, TimeLimit, Verbose, app, guarded
from fairopt.cli.inputs import Source, reading
from fairopt.cli.progress import console_for, working
from fairopt.errors import InvalidBlock
from fairopt.plots.common import matplotlib_or_missing
from fairopt.policies.registry import named_policy
from fairopt.policy import accepted, label
from fairopt.report import files
from fairopt.report.tables import Column, Table, numbers, shortened
from fairopt.tradeoff.sensitivity import sensitivity

MOST = 20  # rows of the table
BUY = """Tell which resource to buy next: what more of each brings under a policy.

The table has the gain in the number of tasks, in the objective's value and in the smallest dominant share, per unit \
more of each resource on each server, and up to how many units it stays so (the same resources full, the same limits \
reached). The policy is applied again to the changed cluster, so more of one resource may take tasks from users, and \
even in total.

The best comes first: by tasks per cost with --cost, otherwise by tasks per 1 % of the capacity.

\b
[bold]Examples[/]
  fairopt buy cluster/ --policy drf
  fairopt buy cluster/ -p fds:alpha=2 --cost memory=3 --cost cpu=20
  fairopt buy cluster.json -p most-tasks --json
  fairopt buy cluster/ -p drf --plot purchases.png"""


@app.command(no_args_is_help=True, help=BUY)
@guarded
@reading
def buy(
    source: Source,
    policy: Annotated[str, typer.Option("--policy", "-p", help=WHAT_POLICY)] = "drf",
    cost: Annotated[list[str] | None, typer.Option(
        metavar="RESOURCE=NUMBER", help="The cost of a unit, as memory=3; repeat it. Others are left out.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the gains, as .png, .pdf or .svg.")] = None,
    solver: Solver = None, method: Method = "auto", time_limit: TimeLimit = None, as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:  # fmt: skip
    """Tell which resource to buy next."""
    files.check(plot, files.PICTURES)
    if plot is not None:
        matplotlib_or_missing()
    costs = dict(map(_cost, cost)) if cost else None
    mechanism = named_policy(policy)
    instance = source.read()
    with working(label(mechanism), verbose):
        options = accepted(mechanism, method=method, solver=solver, time_limit=time_limit, verbose=verbose)
        found = sensitivity(mechanism.allocate(instance, **options))
        rows = found.purchases(costs)[:MOST]
    if as_json:
        typer.echo(files.as_json(found.to_dict(costs)))
    else:
        titles = shortened([r.resource + (f" on {r.server}" if instance.n_servers > 1 else "") for r in rows])
        named = {"tasks": "tasks", "welfare": "objective", "smallest": "smallest share", "up_to": "up to",
                 "leftover": "left over"} | ({} if costs is None else {"tasks_per_cost": "tasks per cost"})  # fmt: skip
        columns = [Column(name, numbers([getattr(r, key) for r in rows])) for key, name in named.items()]
        console_for().print(Table("Gain per unit", Column("resource", titles, right=False), [columns[:3], columns[3:]]))
        console_for().print(found.advice(costs), markup=False)
    if plot is not None:
        found.plot(costs=costs).figure.savefig(plot, dpi=150)
        if not as_json:
            console_for().print(f"written: {plot}", markup=False)


def _cost(text: str) -> tuple[str, float]:
    """The resource and the number of ``memory=3``."""
    resource, _, number = text.rpartition("=")
    try:
        return resource, float(number)
    except ValueError:
        raise InvalidBlock(f"--cost {text!r}: give the resource, = and a number, as memory=3") from None
