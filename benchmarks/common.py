"""What the benchmarks share: interleaved timing, tables, and JSON beside them.

Benchmarks run as users run, without variables for threads. Where it matters, a second column is of the same with one
BLAS thread (`on_one_thread`). Tables say on what they were measured (`machine`).
"""

from __future__ import annotations

import argparse
import json
import os
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
from threadpoolctl import threadpool_info, threadpool_limits

OUT = Path(__file__).parent / "out"
ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "clusters/tests/helpers")]  # so that `oracle` and others can be imported


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


def on_one_thread(run: Callable[[], Any]) -> Callable[[], Any]:
    """What is timed, with one BLAS thread instead of as many as there are."""

    def limited() -> Any:
        with threadpool_limits(1, "blas"):
            return run()

    return limited


def machine() -> dict[str, Any]:
    """Cores that this process may use, threads of BLAS, and the load of the last minute, this process included."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = max((one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"), default=1)
    return {"cores": cores, "BLAS threads": threads, "load": round(os.getloadavg()[0], 1)}


def show(title: str, rows: Sequence[Mapping[str, Any]], name: str) -> None:
    """Print rows as a table, with the machine below it, and write them as JSON to ``benchmarks/out``.

    Parameters
    ----------
    title : str
        Above the table.
    rows : sequence of mapping
        Alike in keys.
    name : str
        Of the JSON file.
    """
    about = machine()
    table = Table(title=title, caption=", ".join(f"{value} {name}" for name, value in about.items()))
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=160).print(table)
    OUT.mkdir(exist_ok=True)
    versions = {"python": platform.python_version(), "cvxpy": cvxpy.__version__, "numpy": np.__version__}
    path = OUT / f"{name}.json"
    content = {"title": title, "machine": about, "versions": versions, "rows": list(rows)}
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


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
