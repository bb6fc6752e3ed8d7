"""Put deployed schedulers on trial: which properties small trees of queues refute, each with its smallest witness.

A table of schedulers by properties is printed; ``--json`` keeps the findings, from which the documentation is made,
and ``--witnesses`` writes each witness as a file that its scheduler reads. Run:

    python benchmarks/trial.py --json benchmarks/trial.json --witnesses trial
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairopt_clusters.commands.queues import SCHEDULERS
from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers import manifest
from fairopt_clusters.schedulers.search import trials_of
from fairopt_clusters.schedulers.trial import TRIALS
from fairopt_clusters.schedulers.volcano import HDRF
from trial_causes import CAUSES, READ, SHARED

ON_TRIAL = {**SCHEDULERS, "volcano-hdrf": HDRF}
FEW = 150  # cases of what is compared with a certified answer, which takes a tenth of a second
KEPT = Path(__file__).with_suffix(".json")
Row = dict[str, Any]


def tried(name: str, prop: str, examples: int, seed: int) -> Row:
    """The finding of a scheduler and a property."""
    few = min(examples, FEW) if prop == "max-min-fair" else examples
    found = ON_TRIAL[name].audit(prop, max_examples=few, seed=seed)[prop]
    row: Row = {"scheduler": name, "property": prop, "cases": found.instances, "seconds": round(found.seconds, 1)}
    witness: Any = found.witness
    if witness is None:
        return row | {"refuted": False}
    queues = [{key: value for key, value in asdict(one).items() if value} for one in witness.tree.queues]
    tree = {"scheduler": witness.tree.scheduler, "queues": queues, "capacity": dict(witness.tree.capacity)}
    shown = {"sentence": witness.sentence, "where": witness.where, "margin": round(witness.margin, 6), "tree": tree}
    running = [one._asdict() for one in witness.running]
    return row | {"refuted": True, **shown, "running": running}


def tree_of(row: Row) -> QueueTree:
    """The tree of a finding."""
    tree = row["tree"]
    return QueueTree(tree["scheduler"], tuple(Queue(**one) for one in tree["queues"]), tree["capacity"])


def file_of(row: Row) -> str:
    """The witness of a finding as a file of its scheduler, with what it shows."""
    return f"# {row['sentence']}\n{written(row)}\n"


def written(row: Row) -> str:
    """The queues and workloads of a finding as their scheduler's file."""
    workloads = [Workload(**one) for one in row["running"]]
    return manifest(tree_of(row), workloads, annotations=row["scheduler"] == "volcano-hdrf")


def table(rows: list[Row]) -> list[list[str]]:
    """Properties by schedulers: refuted, or on how many cases not; empty where the property is not asked."""
    cells = {(row["property"], row["scheduler"]): row for row in rows}
    words = [["", *ON_TRIAL]]
    for trial in TRIALS:
        of = [cells.get((trial.name, name)) for name in ON_TRIAL]
        shown = ["" if one is None else "**no**" if one["refuted"] else f"{one['cases']}" for one in of]
        words.append([trial.name, *shown])
    return words


def markdown() -> str:
    """The kept findings for the documentation: the properties, the table, and each refutation with its witness."""
    rows: list[Row] = json.loads(KEPT.read_text(encoding="utf-8"))["findings"]
    lines = [f"- **{one.name}**: {one.meaning}." for one in TRIALS]
    head, *body = table(rows)
    lines += ["", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in body]
    for name, scheduler in ON_TRIAL.items():
        cases: dict[str, list[Row]] = {}
        for row in rows:
            if row["scheduler"] == name and row["refuted"]:
                cases.setdefault(row["where"], []).append(row)
        lines += ["", f"### {scheduler.name.replace(' as deployed', '')}"] if cases else []
        lines += ["", *(f"*{cause}.* {words}\n" for cause, words in SHARED.get(name, {}).items())]
        for of_case in cases.values():
            for row in of_case:
                words = f"**not {row['property']}**: {row['sentence']}. {CAUSES.get((name, row['property']), '')}"
                lines.append(f"- {words.strip()}")
            lines += ["", "```yaml", written(of_case[0]), "```", ""]
    return "\n".join([*lines, *read_twice(rows)])


def read_twice(rows: list[Row]) -> list[str]:
    """The refutations whose witnesses a second reader followed through the source by hand, as a table."""
    lines = ["### Read twice", "", "| | property | lines of the source | in a run |", "|---|---|---|---|"]
    for row in rows:
        if row["refuted"] and (read := READ.get((row["scheduler"], row["property"]))):
            lines.append(f"| {row['scheduler']} | {row['property']} | {read[0]} | {read[1]} |")
    return lines


def main() -> None:
    """The table, and the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=1000, help="cases of each scheduler and property")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--witnesses", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    begun, rows = time.perf_counter(), list[Row]()
    for name, scheduler in ON_TRIAL.items():
        for prop in trials_of(scheduler):
            rows.append(tried(name, prop, options.examples, options.seed))
            if rows[-1]["refuted"]:
                print(f"{name}, {prop}: {rows[-1]['sentence']}; {rows[-1]['where']}", flush=True)
    seconds = round(time.perf_counter() - begun, 1)
    for cells in table(rows):
        print("".join(f"{cell.strip('*'):<20}" for cell in cells))
    print(f"{sum(row['refuted'] for row in rows)} of {len(rows)} refuted, in {seconds} s")
    if options.json is not None:
        kept = {"seed": options.seed, "seconds": seconds, "findings": rows}
        options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if options.witnesses is not None:
        options.witnesses.mkdir(parents=True, exist_ok=True)
        for row in rows:
            if row["refuted"]:
                ending = "txt" if row["scheduler"] == "slurm" else "yaml"
                file = options.witnesses / f"{row['scheduler']}-{row['property']}.{ending}"
                file.write_text(file_of(row), encoding="utf-8")


if __name__ == "__main__":
    main()
