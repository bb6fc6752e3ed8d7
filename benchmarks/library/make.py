"""Make the data of the library again: instances, and their answers.

Run: python benchmarks/library/make.py [NAME ...] [--check] [--new]

Without names all cases in fairopt/instances/library/data are made; with names only those, and with ``--new`` only those
that are missing. With
``--check`` nothing is written, and answers that differ from the stored ones are printed.
"""

from __future__ import annotations

import json
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import claims
import deployed
import hard
import numpy as np
import papers
from entries import Entry
from solving import Wrong, answered, exact_bundles, notions

import clusters
import fairopt as fo
from fairopt.instance import entries_of
from fairopt.instances.library.answers import Answer
from fairopt.instances.library.library import kind_of

DATA = Path(fo.__file__).parent / "instances" / "library" / "data"
HEAD = ("name", "title", "source", "tags", "command", "size")  # what the index has of a case
SAME = 1e-6  # relative, between tasks that a source states and ours


def entries() -> list[Entry]:
    """All cases, in the order of the library."""
    found = [entry for module in (papers, deployed, claims, hard, clusters) for entry in module.entries()]
    names = [entry.name for entry in found]
    if len(set(names)) < len(names):
        raise Wrong(f"names are given twice: {sorted(name for name in names if names.count(name) > 1)}")
    return found


def made(entry: Entry) -> dict[str, Any]:
    """A case, in the format of its entry in a file."""
    instance = entry.instance
    wanted = dict(entry.notions) if entry.only else notions(instance) | dict(entry.notions)
    answers = {
        name: exact_bundles(instance, policy) if policy in ("mlf-drs", "h-ffmra") else answered(instance, name, policy)
        for name, policy in wanted.items()
        if name not in entry.without
    }
    for name, tasks in entry.expected.items():
        _require_expected(entry.name, answers[name], tasks)
    tags = (*entry.tags, *_tags(instance))
    head: dict[str, Any] = {
        "name": entry.name,
        "title": entry.title,
        "source": dict(entry.source),
        "tags": list(dict.fromkeys(tags)),
        "command": f"python benchmarks/library/make.py {entry.name}",
    }
    head["size"] = [instance.n_users, instance.n_resources, int(instance.counts.sum())]
    what = {"instance": compact(instance)} if isinstance(entry.given, fo.Instance) else {"family": dict(entry.given)}
    body = {"answers": {name: answer.to_dict() for name, answer in answers.items()}}
    return {"format": "fairopt.case/1"} | head | what | body


def _tags(instance: fo.Instance) -> list[str]:
    """Tags that follow from the instance."""
    found = ["pool" if instance.n_servers == 1 else "servers"]
    found += ["weights"] * bool(instance.n_users and np.ptp(instance.weights) > 0)
    found += ["limits"] * bool(np.isfinite(instance.task_limits).any())
    found += ["placement"] * (not instance.eligible.all())
    found += ["teams"] * bool(instance.teams)
    found += ["guarantees"] * bool(instance.derived.has_guarantees)
    return found + ["rates"] * (instance.rates is not None)


def _require_expected(name: str, answer: Answer, tasks: tuple[Any, ...]) -> None:
    """The tasks that a source states must be ours."""
    given = [float(Fraction(x)) for x in tasks]
    if answer.tasks is None or not np.allclose([float(x) for x in answer.tasks], given, rtol=SAME, atol=1e-12):
        raise Wrong(f"{name}: {answer.notion} gives {answer.tasks}, and the source {tasks}")


def compact(instance: fo.Instance) -> dict[str, Any]:
    """The arguments of an instance that are not their defaults, with whole numbers as such."""
    found = _plain({key: value for key, value in entries_of(instance).items() if value is not None})
    for key, kind in (("users", "user"), ("resources", "resource"), ("servers", "server")):
        if found[key] == [f"{kind}{k + 1}" for k in range(len(found[key]))]:
            del found[key]
    for key, default in (("weights", 1), ("counts", 1), ("task_limits", None)):
        if isinstance(found[key], list) and all(value == default for value in found[key]):
            del found[key]
    if found.get("servers") == ["pool"]:
        del found["servers"]
    if len(found["capacities"]) == 1 and "servers" not in found and "counts" not in found:
        (found["capacities"],) = found["capacities"]
    again = fo.Instance.from_dict(found)
    if again != instance:
        raise Wrong(f"{instance!r} is not what its file holds, {again!r}")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def written(documents: dict[str, dict[str, Any]]) -> str:
    """JSON with a line per case."""
    lines = (f"{json.dumps(name)}:{compact_json(one)}" for name, one in documents.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def compact_json(data: dict[str, Any]) -> str:
    """JSON on one line."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def stored() -> dict[str, dict[str, Any]]:
    """All cases that are stored, by name."""
    files = [file for file in DATA.glob("*.json") if file.stem != "index"]
    return {name: one for file in files for name, one in json.loads(file.read_text(encoding="utf-8")).items()}


def main(words: list[str]) -> None:
    """Make the cases named, or all."""
    check, names = "--check" in words, [word for word in words if not word.startswith("--")]
    found, before, failed, differ = entries(), stored(), list[str](), 0
    if "--new" in words:
        names = [entry.name for entry in found if entry.name not in before]
    if unknown := set(names) - {entry.name for entry in found}:
        raise SystemExit(f"no case {', '.join(sorted(unknown))}")
    cases = {}
    for entry in found:
        if names and entry.name not in names:
            if entry.name in before:
                cases[entry.name] = before[entry.name]
            continue
        start = time.perf_counter()
        try:
            one = made(entry)
        except (Wrong, fo.FairoptError) as error:
            failed.append(entry.name)
            print(f"{entry.name}: {type(error).__name__}: {error}")
            continue
        cases[entry.name] = one
        seconds = time.perf_counter() - start
        exact = sum("exact" in answer for answer in one["answers"].values())
        changed = before.get(entry.name) != one
        differ += changed
        print(f"{entry.name}: {exact} of {len(one['answers'])} exact, {seconds:.1f} s{', changed' * changed}")
    if check:
        raise SystemExit(f"{differ} cases differ, {len(failed)} failed" if differ or failed else 0)
    for kind in dict.fromkeys(kind_of(one) for one in cases.values()):
        documents = {name: one for name, one in cases.items() if kind_of(one) == kind}
        (DATA / f"{kind}.json").write_text(written(documents), encoding="utf-8")
    heads = [{key: value for key, value in one.items() if key in HEAD} for one in cases.values()]
    lines = ",\n".join(map(compact_json, heads))
    (DATA / "index.json").write_text(f'{{"format":"fairopt.library/1","cases":[\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(cases)} cases")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
