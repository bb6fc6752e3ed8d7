"""z3 and cvc5, run in subprocesses so that each statement has a time limit."""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

from fairopt.errors import MissingExtra
from fairopt.properties.prove.statements import Query

PROVERS = {"z3": "z3-solver", "cvc5": "cvc5"}  # names of packages
PROCESSES = os.cpu_count() or 1  # at a time
PROCESS = Path(__file__).with_name("prover_process.py")


@dataclass(frozen=True)
class Reply:
    """A prover's answer to a statement: ``unsat``, ``sat`` with the values of a solution, or ``unknown`` and why."""

    query: Query
    answer: str
    values: dict[str, Fraction] = field(default_factory=dict)
    why: str = ""


def require(prover: str) -> None:
    """`MissingExtra` unless a prover is installed."""
    if find_spec(prover) is None:
        raise MissingExtra(PROVERS[prover], "prove", f"proofs by {prover}")


def answers(
    queries: Iterable[Query], prover: str, seconds: float, pause: float = math.inf
) -> Generator[Reply | None, None, None]:
    """Answers of a prover as they come, as many processes at a time as there are processors, for up to ``seconds``.

    None is yielded after each ``pause`` seconds without an answer. Closing the generator kills the processes.
    """
    end = time.perf_counter() + seconds
    left, running = list(queries), set[subprocess.Popen[str]]()
    waiting = len(left)
    done: queue.Queue[Reply] = queue.Queue()
    try:
        while waiting:
            while left and len(running) < PROCESSES:
                _start(left.pop(0), prover, running, done)
            try:
                answer = done.get(timeout=max(min(end - time.perf_counter(), pause), 0.0))
            except queue.Empty:
                if time.perf_counter() >= end:
                    return
                yield None
                continue
            waiting -= 1
            yield answer
    finally:
        for process in list(running):
            process.kill()


def _start(query: Query, prover: str, running: set[subprocess.Popen[str]], done: queue.Queue[Reply]) -> None:
    """Start a process for a statement, and a thread that waits for it."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as text:
        text.write(query.text)
        text.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", str(PROCESS), prover],
            stdin=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    running.add(process)

    def wait() -> None:
        out, errors = process.communicate()
        running.discard(process)
        if process.returncode:
            why = (errors.strip().splitlines() or [f"ended with code {process.returncode}"])[-1]
            done.put(Reply(query, "unknown", why=why))
            return
        result = json.loads(out)
        values = {name: Fraction(value) for name, value in result.get("values", {}).items()}
        done.put(Reply(query, result["answer"], values))

    threading.Thread(target=wait, daemon=True).start()
