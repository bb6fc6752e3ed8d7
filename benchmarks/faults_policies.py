"""Policy files, entry points and texts that exit, raise, or are no policies (a module of `faults`)."""

from __future__ import annotations

import os

from faults import Bench, Ended, Fault

CLUSTER = '{"users": ["a", "b"], "resources": ["cpu", "ram"], "demands": [[1, 2], [2, 1]], "capacities": [[4, 4]]}'
OWN = """
import sys
from pathlib import Path
import fairopt as fo
def unsaid():
    Path("called").touch()
    return fo.DRF()
def exits() -> fo.Policy:
    sys.exit(0)
class Exits:
    def allocate(self, instance):
        sys.exit(0)
"""
HUGE = ("1" + 400 * "0", hex(10**400), "0x" + 5000 * "f")


def _solve(bench: Bench, *policy: str, **env: str) -> Ended:
    (bench.folder / "two.json").write_text(CLUSTER)
    (bench.folder / "own.py").write_text(OWN)
    return bench.fairopt("solve", "two.json", "-p", *policy, **env)


def _refused(done: Ended, word: str = "") -> str:
    """Empty if the command refused its input by one line that holds the word."""
    held = done.code in (1, 2) and done.one_line and word in done.err
    return "" if held else str(done)


def _file_exits(bench: Bench) -> str:
    (bench.folder / "exits.py").write_text("import sys\nsys.exit(0)\n")
    return _refused(_solve(bench, "exits.py:MINE"), "exits.py")


def _entry_point(text: str) -> Fault:
    """A package whose entry point is a module of this text."""

    def fault(bench: Bench) -> str:
        info = bench.folder / "site" / "gives-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gives\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[fairopt.policies]\ngiven = gives:MINE\n")
        (info.parent / "gives.py").write_text(text)
        path = os.pathsep.join([str(bench.checkout), str(info.parent)])
        return _refused(_solve(bench, "given", PYTHONPATH=path), "given")

    return fault


def _any_callable(bench: Bench) -> str:
    _solve(bench, "own.py:unsaid")
    return "called" if (bench.folder / "called").exists() else ""


def _named(name: str, word: str = "") -> Fault:
    return lambda bench: _refused(_solve(bench, name), word)


def _huge(bench: Bench) -> str:
    forms = ("AlphaFair({})", "AlphaFair(1, KDominantShare({}))", "fds:alpha={}")
    texts = [form.format(number) for number in HUGE for form in forms]
    return "; ".join(filter(None, {_refused(_solve(bench, text)) for text in texts}))


def _optimised(bench: Bench) -> str:
    _solve(bench, "drf")
    commands = (
        "policies",
        "solvers",
        "claims",
        "demo --folder demo",
        "solve two.json",
        "compare two.json -p drf -p nash",
        "audit drf --property si --max-examples 20",
        "frontier two.json --family fds --alpha 0:2:3",
        "--help",
    )
    ended = {command: bench.fairopt(*command.split(), PYTHONOPTIMIZE="2") for command in commands}
    bad = {str(done) for done in ended.values() if done.code}
    return f"{sum(done.code != 0 for done in ended.values())} of {len(ended)} commands: {'; '.join(bad)}" if bad else ""


def _told(bench: Bench) -> str:
    told = {words: bench.fairopt(*words.split(), COLUMNS="200").out for words in ("solve --help", "policies")}
    return ", ".join(words for words, text in told.items() if "runs that file" not in text)


FAULTS: dict[str, Fault] = {
    "a file that exits": _file_exits,
    "a function that exits": _named("own.py:exits", "own.py"),
    "allocate exits": _named("own.py:Exits"),
    "sys:exit": _named("sys:exit", "sys:exit"),
    "a function that says nothing is called": _any_callable,
    "an entry point that raises": _entry_point("1 / 0\n"),
    "an entry point that exits": _entry_point("raise SystemExit(0)\n"),
    "numbers beyond floats": _huge,
    "PYTHONOPTIMIZE=2": _optimised,
    "help says that FILE.py:NAME runs it": _told,
}
