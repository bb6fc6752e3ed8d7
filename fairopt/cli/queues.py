"""``fairopt queues``: what a scheduler gives its queues beside a certified answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fairopt import datasets, deployed
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.inputs import say_notes
from fairopt.cli.progress import console_for, say, show_json
from fairopt.cli.values import labelled_number
from fairopt.deployed.base import Deployed
from fairopt.errors import InvalidBlock, nearest
from fairopt.report.tables import Column, Table, signed

SCHEDULERS: dict[str, Deployed] = {
    "kai": deployed.KAI(),
    "kueue": deployed.Kueue(),
    "slurm": deployed.Slurm(),
    "volcano": deployed.Volcano(),
    "volcano-capacity": deployed.Volcano("capacity"),
    "yunikorn": deployed.YuniKorn(),
}
QUEUES = """Show what a scheduler's own arithmetic gives its queues, beside leximin beyond guarantees, certified.

Each queue asks for more than there is. One resource at a time: what the scheduler gives, the certified answer, \
and the difference. Who gains has a positive one.

\b
[bold]Examples[/]
  fairopt queues queues.yaml --scheduler kai --capacity gpu=64
  fairopt queues queues.yaml --scheduler yunikorn --capacity cpu=400 --json"""


@app.command(no_args_is_help=True, help=QUEUES)
@guarded
def queues(
    file: Annotated[Path, typer.Argument(help="Queues of the scheduler, in its own format.", show_default=False)],
    scheduler: Annotated[
        str, typer.Option(help="Whose arithmetic: " + ", ".join(SCHEDULERS) + ".", show_default=False)
    ],
    capacity: Annotated[
        list[str] | None, typer.Option(help="What there is, such as gpu=64; repeatable.", metavar="NAME=AMOUNT")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a scheduler gives its queues."""
    if scheduler not in SCHEDULERS:
        raise InvalidBlock(f"--scheduler {scheduler!r} is not known; {nearest(scheduler, SCHEDULERS)}")
    tree, mechanism = datasets.queues(file), SCHEDULERS[scheduler]
    there = dict(labelled_number("--capacity", one, "resource", "gpu=64") for one in capacity or ())
    tree = replace(tree, capacity={**tree.capacity, **there})
    table, notes = deployed.beside(mechanism, tree)
    if as_json:
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
        of = {"scheduler": mechanism.name, "source": mechanism.source}
        show_json("fairopt.queues/1", {**of, "queues": rows, "notes": notes})
        return
    gives, fair, difference = signed(*(table[name].to_numpy() for name in ("gives", "fair", "difference")))
    columns = [Column("resource", table["resource"].tolist(), right=False)]
    columns += [Column("gives", gives), Column("fair", fair), Column("difference", difference)]
    shown = Table(f"Queues by {mechanism.name}", Column("queue", table["queue"].tolist(), right=False), [columns])
    console_for().print(shown)
    say(f"{mechanism.name}: {mechanism.source}; fair: leximin beyond guarantees, certified.")
    say_notes(notes)
