"""Programs in processes of their own, forked from one that has imported fairopt.

Starting Python and importing fairopt with CVXPY and all commands takes 1.4 s of CPU, a fork a few milliseconds. What
is said of an import itself needs a Python that is started.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue
from typing import Any

from fairopt.cli.application import COMMANDS
from fairopt.properties.prove import prover_process
from fairopt.properties.prove.provers import Reply
from fairopt.properties.prove.statements import Query

METHODS = multiprocessing.get_all_start_methods()
CONTEXT = multiprocessing.get_context("forkserver" if "forkserver" in METHODS else "spawn")
PATIENCE = 120.0  # seconds
SLOW = ["cvxpy", "scipy.optimize", "scipy.sparse.linalg", "rich.progress"]  # imported when needed: here once for all


def ready() -> None:
    """Start the process that all others are forked from, those of Dask among them."""
    if "forkserver" in METHODS:
        from multiprocessing import forkserver

        commands = [f"fairopt.cli.{module}" for module in COMMANDS.values()]
        forkserver.set_forkserver_preload([*SLOW, *commands, "distributed", "z3", "cvc5"])
        forkserver.ensure_running()


class Program:
    """A program that runs: ``-c CODE`` or ``-m MODULE ARGUMENTS``, as Python takes them.

    Parameters
    ----------
    arguments : str
        What would stand behind ``python``.
    folder : Path, optional
        Where it runs.
    """

    def __init__(self, *arguments: str, folder: Path | None = None) -> None:
        ready()
        self.arguments = arguments
        self.said = tempfile.TemporaryDirectory()
        out, err = self.out, self.err = Path(self.said.name, "out"), Path(self.said.name, "err")
        for path in (out, err):
            path.touch()
        target = (arguments, str(folder or os.getcwd()), str(out), str(err))
        self.process = CONTEXT.Process(target=_run, args=target)
        self.process.start()
        atexit.register(self.process.kill)  # a test may end before its program does, whose end Python would wait for

    def wait_for(self, word: str, path: Path, patience: float = PATIENCE) -> None:
        """Wait until a word was said; kill the program if it does not come."""
        until, alive = time.monotonic() + patience, True
        while word not in path.read_text():
            assert alive, self.err.read_text()
            if time.monotonic() > until:
                raise self._killed(f"{self.arguments} does not say {word!r}")
            alive = self.process.is_alive()
            time.sleep(0.01)

    def interrupt(self) -> None:
        """Ctrl-C."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGINT)

    def done(self) -> subprocess.CompletedProcess[str]:
        """What it said, once it has ended."""
        self.process.join(PATIENCE)
        code = self.process.exitcode
        if code is None:
            raise self._killed(f"{self.arguments} still runs")
        with self.said:
            return subprocess.CompletedProcess(self.arguments, code, self.out.read_text(), self.err.read_text())

    def _killed(self, what: str) -> TimeoutError:
        self.process.kill()
        self.process.join()
        return TimeoutError(f"{what}; it said {self.err.read_text()!r}")


def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return Program(*arguments, folder=folder).done()


def prover(query: Query, name: str, running: set[Any], done: Queue[Reply]) -> None:
    """What `provers` does to start a prover: starting Python and importing z3 takes ten times what most proofs do."""
    ready()
    receive, send = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_prove, args=(query.text, name, send), daemon=True)
    process.start()
    send.close()
    running.add(process)

    def wait() -> None:
        try:
            answer, values = receive.recv()
        except EOFError:
            answer, values = "unknown", {}
        running.discard(process)
        done.put(Reply(query, answer, values, why="" if answer != "unknown" else "ended early"))

    threading.Thread(target=wait, daemon=True).start()


def _prove(text: str, name: str, send: Connection) -> None:
    found = prover_process.PROVERS[name](text)
    send.send((found["answer"], {symbol: Fraction(value) for symbol, value in found.get("values", {}).items()}))


def _run(arguments: tuple[str, ...], folder: str, out: str, err: str) -> None:
    if hasattr(signal, "SIGHUP"):  # tests that run in the background (nohup) ignore it
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a process may wait for a word
    os.chdir(folder)
    kind, what, *rest = arguments
    sys.argv = [what, *rest]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
