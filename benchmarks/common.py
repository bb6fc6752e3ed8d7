"""What the benchmarks share: interleaved timing, tables, and JSON beside them."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out"
sys.path.append(str(Path(__file__).parents[1] / "tests"))  # so that `oracle` can be imported


def interleaved(
    sides: Mapping[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each side, run in turn so that a drifting machine is fair to all; one warm-up each.

    Parameters
    ----------
    sides : mapping of str to callable
        What to time.
    repeats : int
        Counted runs of each.
    clock : callable, default time.perf_counter
        `time.process_time` counts what all threads work, whatever else the machine does.

    Returns
    -------
    dict of str to list of float
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, run in sides.items():
            start = clock()
            run()
            if turn:
                seconds[name].append(clock() - start)
    return seconds


def answered(
    sides: Mapping[str, Callable[[], Any]], repeats: int, patience: float = 1.0
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """What each side answers, and its seconds as by `interleaved`; who takes long runs once only, cold.

    Parameters
    ----------
    sides : mapping of str to callable
        What to run.
    repeats : int
        Counted runs of each side whose first run takes less than ``patience``.
    patience : float, default 1.0
        Seconds. Beyond them a warm-up would change little and cost much.

    Returns
    -------
    (dict of str to Any, dict of str to list of float)
    """
    answers: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {}
    for name, run in sides.items():
        start = time.perf_counter()
        answers[name] = run()
        seconds[name] = [time.perf_counter() - start]
    quick = {name: run for name, run in sides.items() if seconds[name][0] < patience}
    return answers, seconds | interleaved(quick, repeats)


def median(values: Sequence[float]) -> float:
    """The middle of the measured values."""
    return statistics.median(values)


def show(title: str, rows: Sequence[Mapping[str, Any]], name: str) -> None:
    """Print rows as a table, and write them as JSON to ``benchmarks/out``.

    Parameters
    ----------
    title : str
        Above the table.
    rows : sequence of mapping
        Alike in keys.
    name : str
        Of the JSON file.
    """
    table = Table(title=title)
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=160).print(table)
    OUT.mkdir(exist_ok=True)
    about = {"python": platform.python_version(), "cvxpy": cvxpy.__version__, "numpy": np.__version__}
    path = OUT / f"{name}.json"
    path.write_text(json.dumps({"title": title, "versions": about, "rows": list(rows)}, indent=1), encoding="utf-8")


def arguments(description: str, **defaults: Any) -> argparse.Namespace:
    """Command-line options, one per keyword, of the type of its default.

    Parameters
    ----------
    description : str
        For ``--help``.
    **defaults
        Names and default values; lists are read from comma-separated words, and False is a switch.

    Returns
    -------
    argparse.Namespace
    """
    parser = argparse.ArgumentParser(description=description)
    for key, value in defaults.items():
        if isinstance(value, bool):
            parser.add_argument(f"--{key.replace('_', '-')}", action="store_true")
            continue
        kind = _list_of(type(value[0])) if isinstance(value, list) else type(value)
        parser.add_argument(f"--{key.replace('_', '-')}", type=kind, default=value, help=f"default {value}")
    return parser.parse_args()


def _list_of(kind: type) -> Callable[[str], list[Any]]:
    return lambda text: [kind(word) for word in text.split(",")]
