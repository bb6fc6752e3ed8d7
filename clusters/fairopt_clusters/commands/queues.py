"""``fairopt queues``: what a scheduler gives its queues beside a certified answer, and whether a job would start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairopt.cli import FAILED_CHECK, AsJson, command, console_for, labelled_number, say, say_notes, show_json
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.io import Notes
from fairopt.report import Column, Table, signed
from fairopt.runtime import first_of
from fairopt_clusters import schedulers
from fairopt_clusters.read.documents import objects_of
from fairopt_clusters.read.queues.kueue import InQueues, submitted_in
from fairopt_clusters.read.queues.reader import documents_at, tree_and_objects
from fairopt_clusters.read.queues.tree import QueueTree, Workload
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.comparison import standing
from fairopt_clusters.schedulers.in_order import with_work
from fairopt_clusters.schedulers.replay import STRATEGY, STRICT, Cycle
from fairopt_clusters.schedulers.start import WouldStart
from fairopt_clusters.schedulers.trial import gives
from fairopt_clusters.schedulers.volcano import CAPACITY
from fairopt_clusters.schedulers.whole import in_whole_gangs, never_start

if TYPE_CHECKING:
    import pandas as pd

SCHEDULERS: dict[str, Deployed] = {
    "kai": schedulers.KAI(),
    "kueue": schedulers.Kueue(),
    "kueue-classical": schedulers.Kueue(()),
    "slurm": schedulers.Slurm(),
    "volcano": schedulers.Volcano(),
    "volcano-capacity": CAPACITY,
    "yunikorn": schedulers.YuniKorn(),
}
MOST_IN_CIRCLES = 300  # workloads, each of which arrives in a replay of its own
OF_VOLCANO = "not modelled of Volcano: its enqueue, which holds back groups of pods, and its reclaim and preempt"
QUEUES = """Show what a scheduler's own arithmetic gives its queues, beside leximin beyond guarantees, certified.

One resource at a time: what the scheduler gives, the certified answer, and the difference. Who gains has a positive \
one. What queues ask for and hold is that of pods, Jobs and Workloads in the file, and of the status of KAI's queues; \
where the file says nothing, each asks for more than there is.

Of Kueue, flavors in order with affinities, taints and flavorFungibility: in which flavor each waiting workload would \
start if it came next, whom it preempts, the fewest that would do, and whether workloads preempt each other in a \
circle. kueue-classical is Kueue without fair sharing.

--submit FILE asks whether a job would start: in which flavor, by borrowing or preempting whom, or what is missing. \
The exit code is 4 if it would not.

\b
[bold]Examples[/]
  fairopt queues queues.yaml --scheduler kai --capacity gpu=64
  fairopt queues now/ --submit job.yaml
  fairopt queues queues.yaml --scheduler yunikorn --capacity cpu=400 --json"""


def _show_preemptions(table: pd.DataFrame, circle: list[str], fair: bool) -> None:
    """Print in which flavors waiting workloads start, and whom they preempt."""

    def cells(key: str) -> list[str]:
        listed = zip(table[key], table["fits"], strict=True)
        return ["fits" if fits else "too many to try" if of is None else ", ".join(of) or "-" for of, fits in listed]

    columns = [Column("queue", table["queue"].tolist(), right=False)]
    if any(table["flavors"]):
        columns += [Column("flavors", [", ".join(of) or "-" for of in table["flavors"]], right=False)]
    headers = {"victims": "preempts", "fewest": "fewest by its rules"} if fair else {"victims": "preempts"}
    columns += [Column(header, cells(key), right=False) for key, header in headers.items()]
    title = "Preemption with fair sharing" if fair else "Preemption without fair sharing"
    console_for().print(Table(title, Column("waiting", table["workload"].tolist(), right=False), [columns]))
    if fair:
        say("fewest: the smallest set that would do, in the order of its rules.")
    if circle:
        say(f"This comes again for ever: {'; '.join(circle)}.")


def _sentence(cycle: Cycle, workloads: list[Workload]) -> str:
    """What happens in a cycle, by names."""
    parts = [f"{workloads[j].name} is admitted" for j in cycle.admitted]
    parts += [f"{workloads[j].name} is preempted for {workloads[by].name}" for j, by in cycle.preempted]
    return " and ".join(parts)


def _asked(
    mechanism: schedulers.Kueue, tree: QueueTree, objects: Mapping[str, Any], before: InQueues, file: Path
) -> dict[str, WouldStart]:
    """Whether what a file submits would start beside what is in the queues, by name."""
    documents = documents_at(file)
    if isinstance(documents, QueueTree):
        raise InvalidInstance(f"{file} holds queues; give a job, in YAML or JSON")
    given = objects_of([one for one in documents if isinstance(one[0], Mapping)], str(file))
    both = submitted_in({"kind": "List", "items": [*objects["items"], *given["items"]]}, str(file))
    known = {one.workload.name for one in before.submitted}
    new = [one for one in both.waits if one.name not in known]
    out = {name: WouldStart("never", missing=(why,)) for name, why in both.never.items() if name not in before.never}
    if not new and not out:
        fix = "give it a namespace, and the label kueue.x-k8s.io/queue-name with a LocalQueue of it that is there"
        raise InvalidInstance(f"{file} holds no job for a ClusterQueue that is not there already; {fix}")
    for one in new:
        how = mechanism.would_start(tree, one, before.runs)
        ahead = [other.name for other in before.waits if other.queue == one.queue and other.priority >= one.priority]
        if ahead and tree.by_name[one.queue].notes.get(STRATEGY) == STRICT:
            how = how._replace(starts="waits", missing=(f"{one.queue} is {STRICT}, and first comes {first_of(ahead)}",))
        out[one.name] = how
    return out


@command(help=QUEUES)
def queues(
    file: Annotated[Path, typer.Argument(help="Queues of the scheduler, in its own format.", show_default=False)],
    scheduler: Annotated[
        str | None,
        typer.Option(help="Whose arithmetic: " + ", ".join(SCHEDULERS) + ". Default: that of the file's queues."),
    ] = None,
    capacity: Annotated[
        list[str] | None, typer.Option(help="What there is, such as gpu=64; repeatable.", metavar="NAME=AMOUNT")
    ] = None,
    submit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A job, or several: would it start? For Kueue.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a scheduler gives its queues."""
    if scheduler is not None and scheduler not in SCHEDULERS:
        raise InvalidBlock(f"--scheduler {scheduler!r} is not known; {nearest(scheduler, SCHEDULERS)}")
    tree, objects = tree_and_objects(file)
    if (name := scheduler or tree.scheduler.lower()) not in SCHEDULERS:
        known = f"give the --scheduler whose arithmetic you ask for: {', '.join(SCHEDULERS)}"
        raise InvalidBlock(f"{file} holds queues of {tree.scheduler}, whose arithmetic fairopt does not have; {known}")
    mechanism = SCHEDULERS[name]
    there = dict(labelled_number("--capacity", one, "resource", "gpu=64") for one in capacity or ())
    tree = replace(tree, capacity={**tree.capacity, **there})
    found, notes = _Found(), list[str]()
    if not isinstance(mechanism, schedulers.Kueue):
        if submit is not None:
            raise InvalidBlock(f"--submit asks Kueue, and not {mechanism.scheduler}; give --scheduler kueue")
        found.table, notes = schedulers.beside(mechanism, tree)
        notes += [OF_VOLCANO] * (mechanism.scheduler == "Volcano")
    else:
        mechanism.checked(tree)
        inside, fair = submitted_in(objects, str(file)), bool(mechanism.strategies)
        if submit is not None:
            found.asked = _asked(mechanism, tree, objects, inside, submit)
        else:
            notes = found.of_kueue(mechanism, tree, inside)
        notes += inside.notes
        if inside.fair is not None and inside.fair != fair:
            on, other = ("on", "kueue") if inside.fair else ("off", "kueue-classical")
            notes.append(f"fair sharing is {on} in Kueue's Configuration here: --scheduler {other}")
    if as_json:
        of = {"scheduler": mechanism.name, "source": mechanism.source}
        show_json("fairopt.queues/1", {**of, **found.described(), "notes": notes})
    else:
        found.show(mechanism)
        say_notes(notes)
    if not all(how.starts in ("now", "preempting") for how in found.asked.values()):
        raise typer.Exit(FAILED_CHECK)


@dataclass
class _Found:
    """What there is to show: the table of queues, what waiting workloads preempt, and whether submitted ones start."""

    table: pd.DataFrame | None = None
    preemptions: pd.DataFrame | None = None
    circle: list[str] = field(default_factory=list)
    asked: dict[str, WouldStart] = field(default_factory=dict)

    def of_kueue(self, mechanism: schedulers.Kueue, tree: QueueTree, inside: InQueues) -> list[str]:
        """Find it for Kueue; notes are returned."""
        notes, never = Notes(), never_start(tree, inside.waits)
        notes.add(
            "{workload} that can never start {was} left out", *(f"{one.name}: {first_of(why)}" for one, why in never)
        )
        gone = {one.name for one, _ in never}
        could = [one for one in inside.waits if one.name not in gone]
        if could:
            alike = dict[tuple[str, int, str], list[Workload]]()
            for one in could:
                alike.setdefault((one.queue, one.priority, repr(one.parts)), []).append(one)
            firsts = [
                first._replace(name=first.name + f" and {len(others):,} alike" * bool(others))
                for first, *others in alike.values()
            ]
            self.preemptions = mechanism.preemptions(tree, firsts, inside.runs).reset_index()
        if len(could) + len(inside.runs) > MOST_IN_CIRCLES:
            notes.say(f"circles of preemption are looked for among up to {MOST_IN_CIRCLES} workloads")
        elif could:
            ring = mechanism.circle(tree, could, inside.runs)
            self.circle = [_sentence(cycle, [*inside.runs, *could]) for cycle in ring]
        if not mechanism.strategies:
            notes.say("without fair sharing Kueue divides nothing beyond quotas: what is free goes to who comes first")
            return notes.sentences()
        if inside.submitted or inside.never:  # else each queue asks for more than there is
            tree = with_work(tree, inside.runs, could, lambda one: gives(mechanism, one))
        self.table, more = schedulers.beside(mechanism, tree)
        whole, why = in_whole_gangs(mechanism, tree, self.table, [*inside.runs, *could])
        self.table = self.table if whole is None else self.table.assign(whole=whole)
        return [*notes.sentences(), *more, *why]

    def described(self) -> dict[str, Any]:
        """The same as data."""
        rows = [] if self.table is None else self.table.to_dict("records")
        rows = [{key: None if one in (inf, -inf) or one != one else one for key, one in row.items()} for row in rows]
        keys: dict[str, Any] = {"queues": rows}
        if self.preemptions is not None:
            keys |= {"preemption": self.preemptions.to_dict("records"), "circle": self.circle}
        if self.asked:
            asked = {name: how._asdict() for name, how in self.asked.items()}
            known = {name: how | {key: dict(how[key]) for key in ("uses", "borrows")} for name, how in asked.items()}
            keys["submit"] = [{"workload": name, **how} for name, how in known.items()]
        return keys

    def show(self, mechanism: Deployed) -> None:
        """Print it."""
        for name, how in self.asked.items():
            say(f"{name} {how.words}")
        if self.table is not None:
            _show(mechanism, self.table)
        if self.preemptions is not None:
            _show_preemptions(self.preemptions, self.circle, bool(getattr(mechanism, "strategies", ())))


def _show(mechanism: Deployed, table: pd.DataFrame) -> None:
    """Print what queues are given, and where they stand."""
    gives, fair, difference = signed(*(table[name].to_numpy() for name in ("gives", "fair", "difference")))
    columns = [Column("resource", table["resource"].tolist(), right=False)]
    known = table["asks"] < inf
    if known.any():
        asks = [f"{amount:,.6g}" if of else "all" for amount, of in zip(table["asks"], known, strict=True)]
        columns += [Column("asks", asks), Column("holds", [f"{amount:,.6g}" for amount in table["holds"]])]
    columns += [Column("gives", gives), Column("fair", fair), Column("difference", difference)]
    if "whole" in table:
        columns.append(Column("whole", [f"{amount:,.6g}" for amount in table["whole"]]))
    shown = Table(f"Queues by {mechanism.name}", Column("queue", table["queue"].tolist(), right=False), [columns])
    console_for().print(shown)
    say(f"{mechanism.name}: {mechanism.source}; fair: leximin beyond guarantees, certified.")
    if "whole" in table:
        say("whole: fair where pods that start together run all or not at all; of equal ones the last waits.")
    for line in standing(table):
        say(line)
