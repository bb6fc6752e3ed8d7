"""Everything that fairopt answers to 5,000 questions, kept, so that code can be moved without changing an answer.

``record`` writes a corpus: draws of answers_draws.py (instances by `to_dict`, policies as code) with tasks, prices,
objective, method and certified gap of each answer, or the type and text of the error; public signatures; and the exit
code and output of commands. ``compare`` asks the checkout at hand again and prints a row by part. The same are

tasks        to 1e-12 of each user's tasks, or, for a user of none, of the most that anyone has;
method       or else objectives within the certified gaps (``other method``), and nothing else is compared;
gaps         and margins, to 1e-9 absolutely;
numbers      of all other kinds, as prices, objectives and shares, to 1e-9 of their own, or of the largest beside them;
text         without seconds, addresses, paths and the modules that names are in.

Where something differs, the first ten are shown in full and the exit code is 1. Nothing depends on the clock, nor on
the order of dicts and sets. What changes on purpose is recorded again by ``record --part NAME``, which leaves the other
parts as they are: signatures, commands, or one of those of answers_draws.py.

Run: python benchmarks/answers.py record|compare [benchmarks/out/answers.json.gz] [--part NAME] [--every K]
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import platform
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import answers_draws
import answers_public
import cvxpy
import numpy as np
from common import OUT
from fuzz_blocks import NAMES
from rich.console import Console
from rich.table import Table

import fairopt as fo

CORPUS = OUT / "answers.json.gz"
SHOWN = 10  # differences, in full
ABSOLUTE = ("gap", "gaps", "violation", "block_violation", "margin", "gain", "saved")
TIMED = ("seconds", "hits", "versions", "digest")  # of the clock or the machine
CLEANED = (
    (r"\d+(\.\d+)?(e-?\d+)? ?(s|ms|seconds)\b", "SECONDS"),
    (r"'solve_time': [\d.e+-]+", "'solve_time': SECONDS"),
    (r"0x[0-9a-f]+", "ADDRESS"),
    (r"(?<![\w.])(/[\w.+-]+)+/(?=[\w.+-]+)", ""),
    (r"& +\d+\.\d{4} (?=& [^&]*\\\\)", "& SECONDS "),  # the last column but one of a comparison, in LaTeX and plain
    (r"(?m)( 0| -| \d\.\de-\d\d) +\d+\.\d{4}(?=( +\S+)? *$)", r"\1 SECONDS"),
    (r"\b(fairopt|fuzz_blocks)\.(\w+\.)*(?=[A-Z])", ""),
)


def told(value: Any) -> Any:
    """An answer as plain lists, dicts, numbers and words."""
    if isinstance(value, fo.Allocation):
        proof = value.certificate
        return {
            "tasks_by_server": told(value.tasks_by_server),
            "objective": told(value.objective),
            "method": proof.method,
            "solver": proof.solver,
            "gap": proof.gap,
            "violation": proof.violation,
            "block_violation": proof.block_violation,
            "note": told(proof.note),
            "assumed": told(proof.assumed),
            "tried": [[one.solver, one.status] for one in proof.tried],
            "policy": told(repr(value.policy)),
            "prices": told(value.prices),
            "prices_left": told(value.prices_left),
            "bundles": told(value.bundles),
        }
    if isinstance(value, fo.scale.Allocations):
        kept = ("tasks", "gap", "violation", "method", "one_by_one", "ok")
        return {key: told(getattr(value, key)) for key in kept}
    if isinstance(value, (fo.properties.PropertyReport, fo.properties.Verdict)):
        verdicts = value.verdicts if isinstance(value, fo.properties.PropertyReport) else (value,)
        return [{"name": v.name, "holds": v.holds, "margin": v.margin, "text": told(v.sentence)} for v in verdicts]
    if isinstance(value, fo.properties.Misreport):
        return told(str(value))
    if hasattr(value, "to_dict"):
        return told(value.to_dict())
    if isinstance(value, dict):
        return {str(k): told(v) for k, v in value.items() if k not in TIMED}
    if isinstance(value, (np.ndarray, np.generic)):
        return told(value.tolist())
    if isinstance(value, (list, tuple)):
        return [told(v) for v in value]
    if isinstance(value, (bool, int, float, type(None))):
        return value
    text = str(value)
    for pattern, instead in CLEANED:
        text = re.sub(pattern, instead, text)
    return text


def answer(draw: dict[str, Any]) -> Any:
    """What comes of a draw now: what is told of its answer, or the type and text of the error."""
    names: dict[str, Any] = {**NAMES, "json": json, "folder": Path()}
    try:
        if draw["instance"] is not None:
            names["instance"] = fo.Instance.from_dict(draw["instance"])
        exec(draw["code"], names)
        return told(names["answer"])
    except Exception as error:  # all are compared
        return {"error": type(error).__name__, "text": told(str(error))}


def questions(part: str, every: int) -> list[dict[str, Any]]:
    """The draws of a part, plain."""
    if part == "signatures":
        return [{"name": name} for name in answers_public.signatures()]
    if part == "commands":
        return [{"argv": argv} for argv in answers_public.argvs()[::every]]
    drawn = answers_draws.draws(part, every)
    return [{"code": d.code, "instance": None if d.instance is None else d.instance.to_dict()} for d in drawn]


def answers(part: str, asked: list[dict[str, Any]]) -> Iterator[Any]:
    """An answer to each question of a part, in a folder that is gone afterwards."""
    public = answers_public.signatures() if part == "signatures" else {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        if part == "commands":
            answers_public.inputs()
        for one in asked:
            if part == "signatures":
                yield told(public.get(one["name"], "gone"))
            else:
                # as it would be read from the file: keys are strings there, and tuples lists
                found = told(answers_public.command(one["argv"])) if part == "commands" else answer(one)
                yield json.loads(json.dumps(found))


def differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    """What is not the same, in words that begin with the kind."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.get("error") != new.get("error"):
            yield f"refusal: {old.get('error', 'none')}, now {new.get('error', 'none')}: {new.get('text', '')}"
            return
        if {"method", "objective", "gap"} <= old.keys() & new.keys() and old["method"] != new["method"]:
            one, other = old["objective"], new["objective"]
            if not abs(one - other) <= (old["gap"] + new["gap"]) * max(abs(one), abs(other)):
                yield f"objective: by {old['method']} {one!r}, by {new['method']} {other!r}"
            return
        if key == "tasks" and old.keys() == new.keys():  # by user
            yield from differences(list(old.values()), [new[k] for k in old], key)
            return
        for k in sorted(old.keys() | new.keys()):
            if (k in old) != (k in new):
                yield f"{k}: only {'before' if k in old else 'now'}"
            else:
                yield from differences(old[k], new[k], k)
    elif isinstance(old, list) and isinstance(new, list):
        if _numbers(old) and _numbers(new) and len(old) == len(new):
            pairs = enumerate(zip(old, new, strict=True))
            unit = max((abs(v) for v in old if math.isfinite(v)), default=0.0)
            yield from (f"{key}: {a!r}, now {b!r} (at {i})" for i, (a, b) in pairs if not _close(a, b, key, unit))
        elif key == "tasks_by_server" and np.shape(old) == np.shape(new):
            most = np.max(old, initial=0.0)
            for j, (one, other) in enumerate(zip(old, new, strict=True)):
                if not np.allclose(one, other, rtol=0.0, atol=1e-12 * (sum(one) or most)):
                    yield f"tasks: of user {j} {one}, now {other}"
        elif len(old) != len(new):
            yield f"{key}: {len(old)} entries, now {len(new)}"
        else:
            for one, other in zip(old, new, strict=True):
                yield from differences(one, other, key)
    elif _numbers([old, new]):
        if not _close(old, new, key, 1e-3 if key == "objective" else 0.0):
            yield f"{key}: {old!r}, now {new!r}"
    elif old != new:
        if isinstance(old, str) and isinstance(new, str):  # where they part
            at = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
            old, new = (text[max(at - 30, 0) : at + 90] for text in (old, new))
        yield f"{key or 'answer'}: {old!r}, now {new!r}"


def _numbers(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def _close(old: float, new: float, key: str, unit: float) -> bool:
    """Whether two numbers are the same; NaN is itself."""
    if old == new or (math.isnan(old) and math.isnan(new)):
        return True
    if key in ABSOLUTE:
        return abs(old - new) <= 1e-9
    if key == "tasks":
        return abs(old - new) <= 1e-12 * (max(abs(old), abs(new)) if old and new else unit)
    return abs(old - new) <= 1e-9 * max(abs(old), abs(new), unit)


def other_method(old: Any, new: Any) -> bool:
    """Whether an answer came about in another way."""
    if isinstance(old, list) and isinstance(new, list):
        return any(map(other_method, old, new))
    both = isinstance(old, dict) and isinstance(new, dict) and "method" in old and "method" in new
    return both and old["method"] != new["method"]


def record(path: Path, parts: list[str], every: int) -> None:
    """Ask, and write questions and answers; other parts of a corpus that is there are kept."""
    corpus: dict[str, Any] = _read(path) if path.exists() and parts != PARTS else {"parts": {}}
    table = Table("part", "questions", "answers", "errors", "seconds", title=f"Recorded from {fo.__file__}")
    total = [0.0] * 4
    for part in parts:
        begun = time.perf_counter()
        asked = questions(part, every)
        found = [{**one, "answer": now} for one, now in zip(asked, answers(part, asked), strict=True)]
        corpus["parts"][part] = found
        errors = sum(isinstance(one["answer"], dict) and "error" in one["answer"] for one in found)
        row = [len(found), len(found) - errors, errors, time.perf_counter() - begun]
        print(f"{part}: {len(found)} in {row[-1]:.0f} s", file=sys.stderr)
        table.add_row(part, *(f"{v:.0f}" for v in row))
        total = [a + b for a, b in zip(total, row, strict=True)]
    table.add_row("all", *(f"{v:.0f}" for v in total))
    corpus["versions"] = _versions()
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(corpus, file)
    Console(width=120).print(table)


def compare(path: Path, parts: list[str], every: int) -> bool:
    """Ask again, print how many answers differ by part and in what, and say whether none does."""
    corpus = _read(path)
    console, shown = Console(width=160, soft_wrap=True, highlight=False, markup=False), 0
    if corpus["versions"] != _versions():
        console.print(f"recorded with {corpus['versions']}, compared with {_versions()}: solvers may answer otherwise")
    table = Table(
        "part",
        "questions",
        "same",
        "DIFFERENT",
        "in what",
        "other method",
        "seconds",
        title=f"The answers of {fo.__file__} and {path}",
    )
    total = Counter[str]()
    for part in parts:
        begun, kinds, count = time.perf_counter(), Counter[str](), Counter[str]()
        old = corpus["parts"].get(part, [])[:: 1 if part == "signatures" else every]
        if part == "signatures":  # what is new is a difference as well
            new = sorted(answers_public.signatures().keys() - {one["name"] for one in old})
            old += [{"name": name, "answer": "none"} for name in new]
        for one, now in zip(old, answers(part, old), strict=True):
            found = list(differences(one["answer"], now))
            count.update(questions=1, different=int(bool(found)), other=int(other_method(one["answer"], now)))
            kinds.update({words.partition(":")[0] for words in found})
            if found and shown < SHOWN:
                shown += 1
                console.print(f"\n-- {part} --")
                for key, value in one.items():
                    console.print(f"{'before' if key == 'answer' else key}: {value}")
                console.print(f"now: {now}\ndifferent: {'; '.join(found[:SHOWN])}")
        what = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()) or "nothing"
        table.add_row(*_row(part, count, what), f"{time.perf_counter() - begun:.0f}")
        print(f"{part}: {count['questions']}, {count['different']} differ", file=sys.stderr)
        total += count
    table.add_row(*_row("all", total, ""))
    console.print(table)
    return not total["different"]


def _row(name: str, count: Counter[str], what: str) -> list[str]:
    same = count["questions"] - count["different"]
    return [name, *map(str, (count["questions"], same, count["different"], what, count["other"]))]


def _read(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), "numpy": np.__version__, "cvxpy": cvxpy.__version__}


PARTS = ["signatures", "commands", *answers_draws.PARTS]


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=["record", "compare"], help="compare, if there is a corpus")
    parser.add_argument("path", nargs="?", type=Path, default=CORPUS, help="the corpus")
    parser.add_argument("--out", type=Path, help="the same, for record")
    parser.add_argument("--part", action="append", choices=PARTS, help="one part only; repeat it")
    parser.add_argument("--every", type=int, default=1, help="every K-th question of each part only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path = (options.out or options.path).resolve()
    if (options.command or ("compare" if path.exists() else "record")) == "record":
        record(path, options.part or PARTS, options.every)
    elif not compare(path, options.part or PARTS, options.every):
        sys.exit(1)


if __name__ == "__main__":
    main()
