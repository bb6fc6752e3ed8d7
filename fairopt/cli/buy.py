"""``fairopt buy``: the marginal gain of each resource."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from math import isinf, nan
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import DEFAULT, WHAT_POLICY, AsJson, Method, Solver, TimeLimit, Verbose, named, say_compared
from fairopt.cli.inputs import Source, reading
from fairopt.cli.progress import console_for, say, show_json, working, written
from fairopt.cli.values import labelled_number
from fairopt.derivatives.sensitivity import advised, checked_costs
from fairopt.instance import Instance
from fairopt.operate.purchases import BY_ANSWERS, Purchases, purchases
from fairopt.plots.purchase_bars import bars
from fairopt.policy import accepted, label
from fairopt.report import files
from fairopt.report.tables import Column, Table, numbers, shortened
from fairopt.runtime.clock import begin

MOST_ROWS = 20
NOTHING = "No resource is full on any server, so more of it brings nothing."
BUY = """Show what to buy next: the gain from more of each resource, and from one more server like each.

For each resource of each class of identical servers the table shows how many tasks and how much objective value one \
more unit adds, and for how many units this rate holds: the same resources stay full, the same limits bind. The policy \
is solved again on the larger cluster, so a user, or even all users together, may run fewer tasks than before. \
Resources of which some is left over on every server are left out.

Rates are derivatives, and gains of servers are differences of two certified answers. Where a derivative or its \
range is not known (hdrf, guarantees, several servers), the policy is solved again: the rate is then that of 1 % more, \
and a range marked ~ ends where the gain differs from the rate by 1 %. Without --time-limit ranges are searched for at \
most half a minute.

Rows are sorted by tasks per cost with --cost, otherwise by tasks per 1 % of the capacity. The cost of a server is \
that of all its resources.

\b
[bold]Examples[/]
  fairopt buy cluster/ --policy drf
  fairopt buy cluster/ -p fds:alpha=2 --cost memory=3 --cost cpu=20
  fairopt buy cluster.json -p most-tasks --json
  fairopt buy cluster/ -p hdrf --plot purchases.png"""


@app.command(no_args_is_help=True, help=BUY)
@guarded
@reading
def buy(
    source: Source,
    policy: Annotated[str | None, typer.Option("--policy", "-p", help=WHAT_POLICY + DEFAULT)] = None,
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
    instance = source.read().merged()  # as every solve does; a row is a class of identical servers
    mechanism = chosen(instance)
    say_compared({label(mechanism): mechanism}, instance)
    costs = checked_costs(given, instance) if given else None
    with working(label(mechanism), verbose):
        clock = begin(time_limit)
        options: dict[str, Any] = {"method": method, "solver": solver, "verbose": verbose}
        answer = mechanism.allocate(instance, **accepted(mechanism, **options, time_limit=time_limit))
        found = purchases(answer, costs, clock, **options)
    advice = advised(found.resources, instance, costs is not None) if found.resources else NOTHING
    if as_json:
        about = {"policy": label(mechanism), "blocks": repr(mechanism), "advice": advice}
        plain = [asdict(row) | {"no_end": isinf(row.up_to)} for row in found.resources]
        servers = [asdict(row) for row in found.servers]
        others = {"servers": servers, "idle": found.idle, "no_derivatives": found.no_derivatives}
        show_json("fairopt.purchases/1", {**about, "purchases": plain, **others})
    else:
        for table in (_resources(found, costs is not None), _servers(found)):
            if table.first.cells:
                console_for().print(table)
        for line in _remarks(found, instance):
            say(line, style="dim")
        merged = " A unit is added to a row of identical servers together, not to each of them."
        say(advice + merged * bool((instance.counts > 1).any()))
        for line in _best_server(found):
            say(line)
    if plot is not None:
        files.write_picture(bars(found.resources, label(mechanism), costs is not None).figure, plot)
        if not as_json:
            written(plot)


def _resources(found: Purchases, by_cost: bool) -> Table:
    """The gain from more of each resource."""
    rows = found.resources[:MOST_ROWS]
    titles = Column("resource", shortened([row.name for row in rows]), right=False)
    sorted_by = ("tasks_per_cost", "per cost") if by_cost else ("tasks_per_percent", "per 1 %")
    shown = dict([sorted_by]) | {"tasks": "tasks", "welfare": "objective", "leftover": "left over"}
    columns = [Column(name, numbers([getattr(row, key) for row in rows])) for key, name in shown.items()]
    ends = ["no end" if isinf(r.up_to) else "-" if r.reason else "unknown" for r in rows]
    cells = zip(rows, numbers([row.up_to for row in rows]), ends, strict=True)
    ends = [end if cell == "-" else "~" * (row.up_to_by == BY_ANSWERS) + cell for row, cell, end in cells]
    columns.insert(3, Column("up to", ends))
    fewer = f" ({MOST_ROWS} of {len(found.resources):,} rows)" if len(found.resources) > MOST_ROWS else ""
    title = f"Gain in tasks {sorted_by[1]}, and in tasks and objective per unit{fewer}"
    return Table(title, titles, [columns[:3], columns[3:]])


def _servers(found: Purchases) -> Table:
    """The gain from one more server."""
    rows, classes = found.servers, found.allocation.instance.n_servers
    columns = [
        Column("servers now", [f"{row.servers:,}" for row in rows]),
        Column("tasks", numbers([row.tasks for row in rows])),
        Column("objective", numbers([row.welfare for row in rows])),
    ]
    if any(row.tasks_per_cost is not None for row in rows):
        per_cost = [nan if row.tasks_per_cost is None else row.tasks_per_cost for row in rows]
        columns.insert(1, Column("per cost", numbers(per_cost)))
    fewer = f" (the largest {len(rows)} of {classes:,} classes)" if len(rows) < classes else ""
    names = Column("server", shortened([row.server for row in rows]), right=False)
    return Table(f"Gain from one more server like each, by solving again{fewer}", names, [columns])


def _remarks(found: Purchases, instance: Instance) -> Iterator[str]:
    """What is left out, and how numbers were found."""
    of: dict[str, list[str]] = {}
    for name, reason in (
        *((row.name, row.reason) for row in found.resources),
        *((f"one more {row.server}", row.reason) for row in found.servers),
    ):
        of.setdefault(reason, []).append(name)
    for reason in filter(None, of):
        yield f"No rate for {', '.join(shortened(of[reason][:MOST_ROWS]))}: {reason}."
    if found.idle:
        units = dict(zip(instance.resources, instance.units or ("",) * instance.n_resources, strict=True))
        left = [f"{name} ({f'{amount:,.4g} {units[name]}'.strip()})" for name, amount in found.idle.items()]
        yield f"Left out, since some is left over on every server: {', '.join(left)}."
    if found.no_derivatives:
        yield f"Rates are those of 1 % more, by solving again: {found.no_derivatives}."
    if any(row.up_to_by == BY_ANSWERS and row.up_to > 0 for row in found.resources[:MOST_ROWS]):
        yield "~: found by solving again; up to there the gain per unit stays within 1 % of the rate."
    if found.late:
        yield "Some ranges are unknown for lack of time; give a larger --time-limit."


def _best_server(found: Purchases) -> Iterator[str]:
    """The best server, in a sentence."""
    best = next((row for row in found.servers if not row.reason), None)
    if best is not None and best.tasks > 0:
        less = f", fewer tasks for {', '.join(best.losers[:3])}" if best.losers else ""
        more = f" and {len(best.losers) - 3:,} more" if len(best.losers) > 3 else ""
        yield f"One more server like {best.server} brings {best.tasks:,.4g} tasks{less}{more}."
