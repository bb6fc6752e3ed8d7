"""``fairopt buy``: the marginal gain of each resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from math import inf, isinf, nan
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt.allocation import Allocation
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson, OnePolicy, asked
from fairopt.cli.inputs import USUAL, Solving, Source, reading
from fairopt.cli.progress import console_for, say, show_json, working, written
from fairopt.cli.values import labelled_number
from fairopt.derivatives.sensitivity import Purchase, advised, checked_costs, some
from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.instance import Instance
from fairopt.instance.labels import whole_name
from fairopt.instance.parts import merged_within_limits
from fairopt.plots.gains import bars
from fairopt.policy import accepted
from fairopt.questions import TASKS, idle_sentence, leading
from fairopt.questions.buying import BY_ANSWERS, Purchases, purchases
from fairopt.questions.naming import server_kinds, server_names, with_counts
from fairopt.questions.new_servers import NewServer
from fairopt.questions.waiting import waited_for
from fairopt.report import files
from fairopt.report.tables import Column, Table, numbers
from fairopt.runtime.clock import begin
from fairopt.runtime.display import short, shortened, without_vendor

MOST_ROWS = 20
NAME = 34  # characters of a resource on a server
NAMED = 3  # purchases whose rate is not known, in a sentence
RAISE = "Raise the quotas before anything is bought: what they leave idle is there already."
NOTHING = "No resource is full on any server, so more of it brings nothing."
BUY = """Show what to buy next: the gain from more of each resource, and from one more server like each.

For each resource of each class of identical servers the table shows how many tasks and how much objective value one \
more unit adds, and for how many units this rate holds: the same resources stay full, the same limits bind. The policy \
is solved again on the larger cluster, so a user, or even all users together, may run fewer tasks than before. \
Resources of which some is left over on every server are left out.

Purchases are sorted by how many more units of the resource that leads are then in use: the GPUs of the cluster if \
users wait for some, else by tasks. --lead chooses another resource, or tasks.

Rates are derivatives, and gains of servers are differences of two certified answers. Where a derivative or its \
range is not known (hdrf, guarantees, several servers), the policy is solved again: the rate is then that of 1 % more, \
and a range marked ~ ends where the gain differs from the rate by 1 %. Without --time-limit ranges are searched for at \
most half a minute.

Rows are sorted per unit of cost with --cost, otherwise per 1 % of the capacity. The cost of a server is its own, or \
that of all its resources.

--server adds a type that the cluster has not, by its capacities in the units of the input. like=SERVER says who may \
run there: those who may run on that server. Without it, users who may run on all servers with the same resources, \
where their tasks fit.

\b
[bold]Examples[/]
  fairopt buy cluster/ --policy drf
  fairopt buy cluster/ --lead gpu --server "cpu=96 memory=768 gpu=8"
  fairopt buy cluster/ --cost a100-01=250000 --server "name=h100 cpu=192 memory=2000 gpu=8 cost=400000 like=a100-01"
  fairopt buy cluster/ -p fds:alpha=2 --cost memory=3 --cost cpu=20
  fairopt buy cluster.json -p most-tasks --json
  fairopt buy cluster/ -p hdrf --plot purchases.png"""


@app.command(no_args_is_help=True, help=BUY)
@guarded
@reading
def buy(
    source: Source,
    policy: OnePolicy = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER",
            help="Cost of one unit of a resource, such as memory=3, or of one more server, such as a100-01=250000; "
            "repeatable. If resources have costs, those without are left out.",
        ),
    ] = None,
    lead: Annotated[
        str | None,
        typer.Option(
            metavar="RESOURCE",
            help="Sort by units of this resource more in use, such as gpu, or by 'tasks'. Default: GPUs if users wait "
            "for some, else tasks.",
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CAPACITIES",
            help="A new type of server, such as 'cpu=96 memory=768 gpu=8'; also name=, cost= and like=SERVER, on which "
            "the same users may run; repeatable.",
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the gains to a .png, .pdf or .svg file.")] = None,
    how: Solving = USUAL,
    as_json: AsJson = False,
) -> None:
    """Show which resource to buy next."""
    files.check_output(plot, files.PICTURES)
    chosen = asked([policy])
    given = dict(labelled_number("--cost", one, "resource", "memory=3") for one in cost or ())
    new = [_new_server(text, k) for k, text in enumerate(server or ())]
    as_given = source.read_as_given()
    instance = merged_within_limits(source.limited(as_given))  # a row is a class of identical servers
    ((name, mechanism),) = chosen(instance, source).items()
    costs, prices = _costs(given, instance)
    for one in new:
        one.check(instance)
    if lead not in (None, TASKS):
        instance.resource_index(whole_name(lead, instance.resources))
    with working(name, how.verbose):
        clock, options = begin(how.time_limit), how.options
        answer = mechanism.allocate(instance, **accepted(mechanism, **options))
        del options["time_limit"]  # the clock has the rest of it
        more: dict[str, Any] = {"lead": leading(answer, lead), "new": new, "prices": prices, **options}
        bought = purchases(answer, costs, clock, asked=as_given.task_limits, **more)
    names = _names(bought.resources, instance)
    advice = advised(bought.resources, instance, costs is not None, bought.lead, names) if bought.resources else NOTHING
    if idle := idle_sentence(answer):
        advice = f"{RAISE} {advice}"
    if as_json:
        about = {"policy": name, "blocks": repr(mechanism), "advice": advice, "lead": bought.lead}
        plain = [asdict(row) | {"no_end": isinf(row.up_to)} for row in bought.resources]
        servers = [asdict(row) for row in bought.servers]
        others = {"servers": servers, "idle": bought.idle, "no_derivatives": bought.no_derivatives}
        show_json("fairopt.purchases/1", {**about, "purchases": plain, **others})
    else:
        if idle:
            say(idle)
        say(_order(bought, answer, lead is None))
        for table in (_servers(bought), _resources(bought, names, costs is not None)):
            if table.first.cells:
                console_for().print(table)
        for line in _remarks(bought, names):
            say(line, style="dim")
        merged = " A unit is added to a row of identical servers together, not to each of them."
        say(advice + merged * bool((instance.counts > 1).any()))
    if plot is not None:
        rows = [replace(row, name=names[row.name]) for row in bought.resources]
        files.write_picture(bars(rows, name, costs is not None, lead=bought.lead).figure, plot)
        written(plot)


def _new_server(text: str, k: int) -> NewServer:
    """A server from its capacities as text, the k-th that is given."""
    words, amounts = text.replace(",", " ").split(), dict[str, str]()
    for word in words:
        name, _, value = word.rpartition("=")
        if not name or name in amounts:
            raise InvalidBlock(f"--server {text!r}: give each resource once, such as 'cpu=96 memory=768 gpu=8'")
        amounts[name] = value
    name, like = amounts.pop("name", "new server" + f" {k + 1}" * (k > 0)), amounts.pop("like", None)
    numbers = {}
    for resource, value in amounts.items():
        try:
            numbers[resource] = float(value)
        except ValueError:
            problem = f"{resource} is {value!r}; give a number in the unit of the input"
            raise InvalidBlock(f"--server {text!r}: {problem}") from None
    cost = numbers.pop("cost", None)
    if cost is not None and not 0 < cost < inf:
        raise InvalidBlock(f"--server {text!r}: the cost is {cost:g}; give a positive number")
    return NewServer(numbers, name, like, cost)


def _costs(given: dict[str, float], instance: Instance) -> tuple[dict[str, float] | None, dict[str, float]]:
    """Costs of units by resource, None if there are none, and of servers by name."""
    of_servers = dict[str, float]()
    for name, price in given.items():
        if whole_name(name, instance.resources) in instance.resources:
            continue
        try:
            instance.server_index(name)
        except InvalidInstance:
            continue  # refused below
        if not 0 < price < inf:
            raise InvalidBlock(f"the cost of {name!r} is {price!r}; give a positive number per server")
        of_servers[name] = price
    of_units = {name: price for name, price in given.items() if name not in of_servers}
    return checked_costs(of_units, instance) if of_units else None, of_servers


def _names(rows: Sequence[Purchase], instance: Instance) -> dict[str, str]:
    """Short names of purchases, all different."""
    if instance.n_servers == 1:
        return {row.name: row.name for row in rows}
    of = dict(zip(instance.servers, with_counts(instance, server_names(instance)), strict=True))
    resources = dict(zip(instance.resources, without_vendor(instance.resources), strict=True))
    return {row.name: f"{resources[row.resource]} on {of[row.server]}" for row in rows}


def _order(found: Purchases, answer: Allocation, by_default: bool) -> str:
    """By what purchases are sorted, and how many units of it users wait for."""
    if found.lead is None:
        return "Sorted by tasks; --lead RESOURCE sorts by what is in use of a resource."
    name, i = without_vendor([found.lead])[0], answer.instance.resource_index(found.lead)
    units = float(waited_for(answer)[i])
    waiting = "more, without limit" if isinf(units) else f"{units:,.4g} more" if units else "no more"
    why = "; --lead tasks sorts by tasks" if by_default else ""
    return f"Sorted by {name} more in use (users ask for {waiting}){why}."


def _resources(found: Purchases, names: Mapping[str, str], by_cost: bool) -> Table:
    """The gain from more of each resource."""
    rows, instance = found.resources[:MOST_ROWS], found.allocation.instance
    titles = Column("resource", shortened([names[row.name] for row in rows], NAME), right=False)
    per, what = ("per cost" if by_cost else "per 1 %"), "tasks"
    shown = {"tasks_per_cost" if by_cost else "tasks_per_percent": per}
    if found.lead is not None:
        what = without_vendor([found.lead])[0]
        shown = {"lead_per_cost" if by_cost else "lead_per_percent": per, "lead_units": short(f"{what} in use")}
    shown |= {"tasks": "tasks", "welfare": "objective", "leftover": "left over"}
    columns = [Column(name, numbers([getattr(row, key) for row in rows])) for key, name in shown.items()]
    ends = ["no end" if isinf(r.up_to) else "-" if r.reason else "unknown" for r in rows]
    cells = zip(rows, numbers([row.up_to for row in rows]), ends, strict=True)
    ends = [end if cell == "-" else "~" * (row.up_to_by == BY_ANSWERS) + cell for row, cell, end in cells]
    columns.insert(len(columns) - 1, Column("up to", ends))
    fewer = f" ({MOST_ROWS} of {len(found.resources):,} rows)" if len(found.resources) > MOST_ROWS else ""
    gains = "tasks" if found.lead is None else f"{what} in use, tasks"
    title = f"Gain in {what}{' in use' * (found.lead is not None)} {per}, and in {gains} and objective per unit{fewer}"
    if instance.n_servers > 1:
        kinds = dict(zip(instance.servers, server_kinds(instance), strict=True))
        columns.append(Column("each", shortened([kinds[row.server] for row in rows], NAME), right=False))
    return Table(title, titles, [columns[:3], columns[3:]])


def _servers(found: Purchases) -> Table:
    """The gain from one more server."""
    rows, instance = found.servers, found.allocation.instance
    lead = None if found.lead is None else short(without_vendor([found.lead])[0])
    columns = [Column("servers now", [f"{row.servers:,}" for row in rows])]
    if lead is not None:
        columns.append(Column(f"{lead} in use", numbers([row.lead_units for row in rows])))
    columns.append(Column("tasks", numbers([row.tasks for row in rows])))
    if any(row.raised is not None for row in rows):
        raised = [nan if row.raised is None else row.raised for row in rows]
        columns.append(Column(f"{lead or 'tasks'}, quotas raised", numbers(raised)))
    if any(row.cost is not None for row in rows):
        gains = [row.tasks if row.lead_units is None else row.lead_units for row in rows]
        per = [
            nan if row.cost is None or not gain > 0 else row.cost / gain for row, gain in zip(rows, gains, strict=True)
        ]
        columns.insert(1, Column(f"cost per {lead or 'task'}", numbers(per)))
    about = zip(instance.servers, server_names(instance), server_kinds(instance), strict=True)
    of = {server: (name, kind) for server, name, kind in about}
    shown = [of[row.server] if row.servers else (row.server, "new") for row in rows]
    names, kinds = ([pair[k] for pair in shown] for k in (0, 1))
    others = [
        Column("each", shortened(kinds, NAME), right=False),
        Column("objective", numbers([row.welfare for row in rows])),
    ]
    old = sum(row.servers > 0 for row in rows)
    fewer = f" (the largest {old} of {instance.n_servers:,} classes)" if 0 < old < instance.n_servers else ""
    title = f"Gain from one more server, by solving again{fewer}"
    return Table(title, Column("server", shortened(names), right=False), [columns, *([one] for one in others)])


def _remarks(found: Purchases, names: Mapping[str, str]) -> Iterator[str]:
    """What is left out, and how numbers were found."""
    instance = found.allocation.instance
    servers = dict(zip(instance.servers, server_names(instance), strict=True))
    of: dict[str, list[str]] = {}
    for name, reason in (
        *((names[row.name], row.reason) for row in found.resources),
        *((f"one more {servers.get(row.server, row.server)}", row.reason) for row in found.servers),
    ):
        of.setdefault(reason, []).append(name)
    for reason in filter(None, of):
        yield f"No rate for {some(of[reason], NAMED)}: {reason}."
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
    if any(row.raised is not None for row in found.servers):
        yield (
            "quotas raised: limits of quotas grow with the capacity, and what is owed stays; other numbers are with "
            "quotas as they are."
        )
    elif instance.limits:
        yield "Limits on what teams take together stay as they are: where these bind, more brings nothing."
