"""Ctrl-C in the command: one line, exit code 130, and no traceback.

`KeyboardInterrupt` does nearly all of it: Typer ends a command by it, and files are put in their place whole. Here is
what no library does: Ctrl-C while packages are imported, where compiled code drops the exception or makes it an error
of its own, and in a solver that does not return to Python for minutes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

__all__ = ["GRACE", "LAST_WORDS", "STOPPED", "end", "handled", "pressed", "stoppable"]

STOPPED = 130
LAST_WORDS = "stopped by Ctrl-C"
GRACE = 1.0  # seconds for Python to react: compiled solvers can take minutes to return

_pressed = threading.Event()


def pressed() -> bool:
    """Whether Ctrl-C was pressed, also where nobody noticed."""
    return _pressed.is_set()


def _press(number: int, frame: object) -> NoReturn:
    _pressed.set()
    raise KeyboardInterrupt


def end() -> NoReturn:
    """End the process at once, without the exit handlers of libraries: Dask waits ten seconds for a cluster."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it
            stream.flush()
    os._exit(STOPPED)


@contextmanager
def handled() -> Iterator[None]:
    """A block after which the process ends, with exit code 130 if Ctrl-C was pressed in it."""
    if signal.getsignal(signal.SIGINT) not in (signal.SIG_DFL, signal.default_int_handler):  # ignored, as under nohup
        yield
        return
    signal.signal(signal.SIGINT, _press)
    sys.unraisablehook = lambda lost: None if pressed() else sys.__unraisablehook__(lost)  # dropped in a destructor
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
    """Let Ctrl-C end the process, after ``stop``, where a solver does not return to Python.

    Then the main thread raises nothing, but Python writes the number of a signal to its wakeup file at once, where
    another thread reads it.
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
