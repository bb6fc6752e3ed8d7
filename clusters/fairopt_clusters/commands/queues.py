"""``fairopt queues``: what a scheduler gives its queues beside a certified answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairopt.cli import AsJson, command, console_for, labelled_number, say, say_notes, show_json
from fairopt.errors import InvalidBlock, nearest
from fairopt.report import Column, Table, signed
from fairopt_clusters import schedulers
from fairopt_clusters.read.queues.kueue import workloads_of
from fairopt_clusters.read.queues.reader import tree_and_objects
from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.replay import Cycle
from fairopt_clusters.schedulers.volcano import CAPACITY

if TYPE_CHECKING:
    import pandas as pd

SCHEDULERS: dict[str, Deployed] = {
    "kai": schedulers.KAI(),
    "kueue": schedulers.Kueue(),
    "slurm": schedulers.Slurm(),
    "volcano": schedulers.Volcano(),
    "volcano-capacity": CAPACITY,
    "yunikorn": schedulers.YuniKorn(),
}
QUEUES = """Show what a scheduler's own arithmetic gives its queues, beside leximin beyond guarantees, certified.

A queue whose requests are not known asks for more than there is; pods in the file say what queues of KAI, Volcano \
and YuniKorn ask for. One resource at a time: what the scheduler gives, the certified answer, and the difference. Who \
gains has a positive one. For Kueue, if the file has Workloads: whom each waiting one \
preempts, the fewest that would do, and whether workloads preempt each other in a circle.

\b
[bold]Examples[/]
  fairopt queues queues.yaml --scheduler kai --capacity gpu=64
  fairopt queues queues.yaml --scheduler yunikorn --capacity cpu=400 --json"""


def _show_preemptions(table: pd.DataFrame, circle: list[str]) -> None:
    """Print whom waiting workloads preempt."""

    def cells(key: str) -> list[str]:
        listed = zip(table[key], table["fits"], strict=True)
        return ["fits" if fits else "too many to try" if of is None else ", ".join(of) or "-" for of, fits in listed]

    columns = [Column("queue", table["queue"].tolist(), right=False)]
    headers = {"victims": "preempts", "fewest": "fewest by its rules"}
    columns += [Column(header, cells(key), right=False) for key, header in headers.items()]
    console_for().print(
        Table("Preemption with fair sharing", Column("waiting", table["workload"].tolist(), right=False), [columns])
    )
    say("fewest: the smallest set that would do, in the order of its rules.")
    if circle:
        say(f"This comes again for ever: {'; '.join(circle)}.")


def _sentence(cycle: Cycle, workloads: list[Workload]) -> str:
    """What happens in a cycle, by names."""
    parts = [f"{workloads[j].name} is admitted" for j in cycle.admitted]
    parts += [f"{workloads[j].name} is preempted for {workloads[by].name}" for j, by in cycle.preempted]
    return " and ".join(parts)


@command(help=QUEUES)
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
    (tree, objects), mechanism = tree_and_objects(file), SCHEDULERS[scheduler]
    there = dict(labelled_number("--capacity", one, "resource", "gpu=64") for one in capacity or ())
    tree = replace(tree, capacity={**tree.capacity, **there})
    table, notes = schedulers.beside(mechanism, tree)
    preemptions, circle = None, list[str]()
    if isinstance(mechanism, schedulers.Kueue):
        running, waiting, more = workloads_of(objects, str(file))
        notes += more
        if waiting:
            preemptions = mechanism.preemptions(tree, waiting, running).reset_index()
            circle = [_sentence(cycle, [*running, *waiting]) for cycle in mechanism.circle(tree, waiting, running)]
    if as_json:
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
        of = {"scheduler": mechanism.name, "source": mechanism.source}
        more_keys = {} if preemptions is None else {"preemption": preemptions.to_dict("records"), "circle": circle}
        show_json("fairopt.queues/1", {**of, "queues": rows, **more_keys, "notes": notes})
        return
    gives, fair, difference = signed(*(table[name].to_numpy() for name in ("gives", "fair", "difference")))
    columns = [Column("resource", table["resource"].tolist(), right=False)]
    columns += [Column("gives", gives), Column("fair", fair), Column("difference", difference)]
    shown = Table(f"Queues by {mechanism.name}", Column("queue", table["queue"].tolist(), right=False), [columns])
    console_for().print(shown)
    say(f"{mechanism.name}: {mechanism.source}; fair: leximin beyond guarantees, certified.")
    if preemptions is not None:
        _show_preemptions(preemptions, circle)
    say_notes(notes)
