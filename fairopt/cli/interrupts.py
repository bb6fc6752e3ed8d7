"""Ctrl-C in the command: one line, exit code 130, and no traceback.

`KeyboardInterrupt` ends a command, and `fairopt.io.saving` writes files whole. This module covers the rest: Ctrl-C
during imports, compiled code that drops the exception or replaces it, and solvers that run for minutes without
returning to Python.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

STOPPED = 130
INTERRUPTED = "stopped by Ctrl-C"
GRACE = 1.0  # seconds that Python gets to raise KeyboardInterrupt

_pressed = threading.Event()


def pressed() -> bool:
    """Whether Ctrl-C was pressed, even if the exception was dropped."""
    return _pressed.is_set()


def _press(number: int, frame: object) -> NoReturn:
    _pressed.set()
    raise KeyboardInterrupt


def end() -> NoReturn:
    """End the process at once. Exit handlers are skipped: that of Dask waits ten seconds for its cluster."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has gone
            stream.flush()
    os._exit(STOPPED)


@contextmanager
def handled() -> Iterator[None]:
    """Exit with code 130 after this block if Ctrl-C was pressed in it."""
    if signal.getsignal(signal.SIGINT) not in (signal.SIG_DFL, signal.default_int_handler):  # ignored, as under nohup
        yield
        return
    signal.signal(signal.SIGINT, _press)
    sys.unraisablehook = lambda lost: None if pressed() else sys.__unraisablehook__(lost)  # raised in a destructor
    try:
        yield
    except BaseException:
        if not pressed():
            raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to clean up
    if pressed():
        end()


@contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` and end the process if Ctrl-C does not take effect within `GRACE`, as in a compiled solver.

    While a solver runs, the main thread cannot raise `KeyboardInterrupt`. Python still writes the number of the signal
    to its wakeup file, which another thread reads.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    import socket

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    over = threading.Event()

    def watch() -> None:
        while number := reader.recv(1):
            if number[0] == signal.SIGINT and not over.wait(GRACE):
                stop()
                end()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        writer.close()
        watcher.join()
        reader.close()
