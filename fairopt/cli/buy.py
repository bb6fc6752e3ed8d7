"""``fairopt buy``: the marginal gain of each resource."""

from __future__ import annotations

from dataclasses import asdict
from math import isinf
from pathlib import Path
from typing import Annotated

import typer

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import WHAT_POLICY, AsJson, Method, Solver, TimeLimit, Verbose, named, say_compared
from fairopt.cli.inputs import Source, reading
from fairopt.cli.progress import console_for, say, show_json, working, written
from fairopt.cli.values import labelled_number
from fairopt.derivatives.sensitivity import checked_costs, sensitivity
from fairopt.policy import accepted, label
from fairopt.report import files
from fairopt.report.tables import Column, Table, numbers, shortened
from fairopt.runtime.clock import begin

MOST_ROWS = 20
BUY = """Show which resource to buy next: the marginal gain of each resource under a policy.

For each resource of each server row the table shows how many tasks and how much objective value one more unit adds, \
and for how many units this rate holds (the same resources stay full, the same limits bind). The policy is solved \
again on the larger cluster, so a user, or even all users together, may run fewer tasks than before.

Rows are sorted by tasks per cost with --cost, otherwise by tasks per 1 % of the capacity.

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
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RESOURCE=NUMBER",
            help="Cost of one unit, such as memory=3; repeatable. Resources without a cost are left out.",
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the gains to a .png, .pdf or .svg file.")] = None,
    solver: Solver = None,
    method: Method = "auto",
    time_limit: TimeLimit = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show which resource to buy next."""
    files.check(plot, files.PICTURES)
    chosen = named(policy)
    given = dict(labelled_number("--cost", one, "resource", "memory=3") for one in cost or ())
    instance = source.read()
    mechanism = chosen(instance)
    say_compared({label(mechanism): mechanism}, instance)
    costs = checked_costs(given, instance) if given else None
    with working(label(mechanism), verbose):
        clock = begin(time_limit)
        options = accepted(mechanism, method=method, solver=solver, time_limit=time_limit, verbose=verbose)
        answer = mechanism.allocate(instance, **options)
        found = sensitivity(answer, time_limit=clock.left)
        rows, advice = found.purchases(costs), found.advice(costs)
    if as_json:
        plain = [asdict(row) | {"no_end": isinf(row.up_to)} for row in rows]
        about = {"policy": label(mechanism), "blocks": repr(mechanism), "advice": advice}
        show_json("fairopt.purchases/1", {**about, "purchases": plain})
    else:
        titles = Column("resource", shortened([row.name for row in rows[:MOST_ROWS]]), right=False)
        sorted_by = ("tasks_per_cost", "per cost") if costs else ("tasks_per_percent", "per 1 %")
        shown = dict([sorted_by]) | {
            "tasks": "tasks",
            "welfare": "objective",
            "up_to": "up to",
            "leftover": "left over",
        }
        columns = [Column(name, numbers([getattr(r, key) for r in rows[:MOST_ROWS]])) for key, name in shown.items()]
        ends = ["no end" if isinf(r.up_to) else "-" if r.reason else "unknown" for r in rows]
        ends = [end if cell == "-" else cell for cell, end in zip(columns[3].cells, ends, strict=False)]
        columns[3] = Column("up to", ends)
        fewer = f" ({MOST_ROWS} of {len(rows):,} rows)" if len(rows) > MOST_ROWS else ""
        title = f"Gain in tasks {sorted_by[1]}, and in tasks and objective per unit{fewer}"
        console_for().print(Table(title, titles, [columns[:3], columns[3:]]))
        for reason in dict.fromkeys(row.reason for row in rows if row.reason):
            without = ", ".join(shortened([row.name for row in rows if row.reason == reason][:MOST_ROWS]))
            say(f"No rate for {without}: {reason}.", style="dim")
        merged = " A unit is added to a row of identical servers together, not to each of them."
        say(advice + merged * bool((instance.counts > 1).any()))
    if plot is not None:
        files.write_picture(found.plot(costs=costs).figure, plot)
        if not as_json:
            written(plot)
