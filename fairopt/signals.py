"""What Ctrl-C, SIGTERM and SIGHUP do to the command ``fairopt``: one line and an exit code, at any moment.

Python raises `KeyboardInterrupt` between any two steps: a traceback where nobody waits for it, as during imports. So
the package imports this module before all others (it imports little itself), and it handles signals where the process
is the command. A signal raises an exception inside `raising`, where a command does its work and cleans up; elsewhere it
ends the process. Without the command only `undivided` changes what signals do.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
from contextlib import contextmanager, suppress

TYPE_CHECKING = False  # importing it takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any, NoReturn

__all__ = [
    "CTRL_C",
    "HANDLED",
    "Terminated",
    "end",
    "exit_code",
    "finish",
    "install",
    "kept_from_children",
    "noticed",
    "raising",
    "undivided",
    "unfinished",
    "words",
]

CTRL_C = int(signal.SIGINT)
_NAMES = {CTRL_C: "Ctrl-C"} | {int(getattr(signal, s)): s for s in ("SIGTERM", "SIGHUP") if hasattr(signal, s)}
HANDLED = tuple(_NAMES)

unfinished: set[Any] = set()  # paths that `end` removes: files which are not yet in their place
_writing = _thread.RLock()  # held while files are put in their place
_first = 0  # the first signal, 0 before
_raising = False


class Terminated(BaseException):
    """SIGTERM or SIGHUP, as KeyboardInterrupt is Ctrl-C; only the command catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(words(number))
        self.number = number


def exit_code(number: int) -> int:
    """What shells report for a signal."""
    return 128 + number


def words(number: int) -> str:
    """The line that a signal leaves."""
    return f"stopped by {_NAMES[number]}"


@contextmanager
def noticed() -> Iterator[None]:
    """Raise the exception of the first signal, if it came in the block and somebody dropped it."""
    before = _first
    yield
    if _first and not before:
        raise _exception(_first)


def end(number: int, line: str = "") -> NoReturn:
    """End the process at once, with the line if there is one."""
    with _writing:
        for path in tuple(unfinished):
            with suppress(OSError):
                os.unlink(path)
        _forget_semaphores()
        with suppress(OSError):  # nobody reads it
            hidden = sys.__stderr__ is not None and sys.__stderr__.isatty()
            os.write(2, (("\r\x1b[K\x1b[?25h" if hidden else "") + (f"{line}\n" if line else "")).encode())
        os._exit(exit_code(number))


def _forget_semaphores() -> None:
    """Let multiprocessing remove what the system keeps for it, which it would warn of; for a second at most.

    Children that are starting would miss it: they are ended first.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    import threading

    def clean() -> None:
        with suppress(BaseException):
            for child in sys.modules["multiprocessing"].active_children():
                child.terminate()
            util._run_finalizers(0)

    cleaner = threading.Thread(target=clean, daemon=True)
    with suppress(RuntimeError):  # no thread can be started
        cleaner.start()
        cleaner.join(1.0)


def finish() -> None:
    """End the process after a signal, once the command has cleaned up, without the exit handlers of libraries.

    Dask, for one, waits ten seconds for a cluster that never was, and then prints a traceback.
    """
    if _first:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it
                stream.flush()
        end(_first)


@contextmanager
def raising() -> Iterator[None]:
    """Signals raise `KeyboardInterrupt` or `Terminated` in the block.

    Compiled code may drop an exception, or make it one of its own, such as that a package is not installed. So the
    block ends by the exception of the signal that came, unless by an exception with its exit code.
    """
    global _raising
    try:
        _raising = True
        yield
    except BaseException as error:
        known = isinstance(error, (KeyboardInterrupt, Terminated))
        if _first and not known and getattr(error, "exit_code", None) != exit_code(_first):
            raise _exception(_first) from None
        raise
    else:
        if _first:
            raise _exception(_first)
    finally:
        _raising = False


@contextmanager
def undivided() -> Iterator[None]:
    """Signals that come in the block act at its end: for steps of which all are done, or none."""
    import threading

    if threading.current_thread() is not threading.main_thread():  # where no signal is raised
        with _writing:
            yield
        return
    noted: list[int] = []
    before: dict[int, Any] = {}
    try:
        for number in HANDLED:
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):  # None: not of Python
                before[number] = handler
                signal.signal(number, lambda number, frame: noted.append(number))
        with _writing:
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in noted:
            signal.raise_signal(number)


@contextmanager
def kept_from_children() -> Iterator[None]:
    """Threads and processes started in the block do not hear Ctrl-C, which a terminal sends to all: it is for this one.

    Where another thread hears it meanwhile, as that of `fairopt.cli.progress.stoppable`, it acts as ever.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # started later, it would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {CTRL_C})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def install() -> None:
    """Handle signals until the process ends; those that are ignored, as under ``nohup``, stay so."""
    if signal.getsignal(CTRL_C) is _handle:
        return
    with suppress(ValueError):  # only the main thread may
        for number in HANDLED:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, _handle)
        sys.unraisablehook = _unraisable
        atexit.register(_restore)  # registered first, called last: Python forgets its modules next
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_restore)


def _handle(number: int, frame: FrameType | None) -> None:
    global _first
    _first = _first or number
    if _raising:
        raise _exception(number)
    end(number, words(number))


def _exception(number: int) -> BaseException:
    return KeyboardInterrupt() if number == CTRL_C else Terminated(number)


def _unraisable(lost: Any) -> None:
    """Say nothing of a signal that came in a destructor: `raising` knows of it."""
    if not isinstance(lost.exc_value, (KeyboardInterrupt, Terminated)):
        sys.__unraisablehook__(lost)


def _restore() -> None:
    for number in HANDLED:
        if signal.getsignal(number) is _handle:
            signal.signal(number, signal.SIG_DFL)


def _is_command() -> bool:
    """Whether Python was started as ``python -m fairopt`` or by the script ``fairopt``, and not by either of them."""
    place = sys.argv[0] if sys.argv else ""
    if place == "-m":  # until the module is found
        return not {"fairopt", "-mfairopt"}.isdisjoint(sys.orig_argv)
    return os.path.splitext(os.path.basename(place))[0] == "fairopt" and place in sys.orig_argv


if _is_command():
    install()
