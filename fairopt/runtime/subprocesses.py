"""Solvers in a subprocess, which can be killed, for calls with a time limit.

ECOS has no time limit, other solvers check theirs between iterations, of which one may take minutes, and CVXPY's
compilation has steps of seconds. The process runs `solver_process`, which imports CVXPY but nothing of the user's
program. It is kept for the next call, and killed when the time is over.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("solver_process.py")
KEPT = 2  # idle processes, for threads that solve in parallel
CONES = ("zero", "nonneg", "soc", "psd", "exp", "p3d", "pnd")  # of CVXPY's sizes


class _Stopped(Exception):
    """The time was over, and the solver was stopped."""


class _CannotSend(Exception):
    """No process can be started, or the problem cannot be pickled, such as one with a user-defined atom."""


class _Process:
    """A process that solves problems in turn."""

    def __init__(self) -> None:
        flags: dict[str, Any] = {"start_new_session": True}  # without Ctrl-C
        if sys.platform == "win32":
            flags = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **flags
        )
        with suppress(BrokenPipeError):  # it has ended already, which `solve` reports
            self._send(pickle.dumps(sys.path))

    def _send(self, message: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(message)
        self.process.stdin.flush()

    def solve(self, request: bytes, until: float) -> tuple[bool, Any]:
        """Success, and the result or an exception; `_Stopped` at a time of `time.perf_counter`."""
        seconds = max(until - time.perf_counter(), 0.0)
        clock = threading.Timer(seconds, self.process.kill)
        clock.daemon = True
        clock.start()
        try:
            self._send(pickle.dumps((seconds, request), 5))
            assert self.process.stdout is not None
            done, answer = pickle.load(self.process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            code = self.process.wait()
            if time.perf_counter() >= until:
                raise _Stopped from None
            raise RuntimeError(f"the process of the solver ended with exit code {code}") from error
        finally:
            clock.cancel()
            clock.join()  # the timer may be killing the process
        return done, answer

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # unread input
                if pipe is not None:
                    pipe.close()


_idle: list[_Process] = []
_others: list[_Process] = []  # of the process from which this one was forked
_lock = threading.Lock()


def _started() -> _Process:
    """A new process; `_CannotSend` if none can be started."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise _CannotSend("this Python has no executable of its own")
    try:
        return _Process()
    except OSError as error:
        raise _CannotSend(f"no process can be started: {error}") from error


def start() -> None:
    """Start an idle process, which imports CVXPY while this one continues."""
    with _lock, suppress(_CannotSend):
        if not _idle:
            _idle.append(_started())


def solve(what: str, until: float, **data: Any) -> Any:
    """The result of a function of `solver_process.SOLVE`.

    Raises the solver's exceptions, `_Stopped` when the time is over, `_CannotSend`, and RuntimeError if the process
    ends by itself.
    """
    try:
        request = pickle.dumps((what, data), 5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise _CannotSend(str(error)) from error
    while True:
        with _lock:
            kept = _idle.pop() if _idle else None
        process = kept or _started()
        try:
            done, answer = process.solve(request, until)
            break
        except RuntimeError:  # Linux kills a process when the thread that started it ends
            process.end()
            if kept is None:
                raise
        except BaseException:
            process.end()
            raise
    with _lock:
        spare = len(_idle) < KEPT and process.alive
        if spare:
            _idle.append(process)
    if not spare:
        process.end()
    if not done:
        raise answer if isinstance(answer, Exception) else _CannotSend(answer)
    return answer


@contextmanager
def without_sigint() -> Iterator[None]:
    """Threads and processes started in the block ignore Ctrl-C, which a terminal sends to all processes."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it unblocks SIGINT when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cones(dims: Any) -> dict[str, Any]:
    """CVXPY's sizes of cones as plain numbers."""
    return {name: getattr(dims, name, []) for name in CONES}


def _end() -> None:
    """Kill the idle processes."""
    while _idle:
        _idle.pop().end()


def _forget() -> None:
    """Leave the idle processes to the process that started them."""
    _others.extend(_idle)  # deleting them would wait for them
    _idle.clear()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
