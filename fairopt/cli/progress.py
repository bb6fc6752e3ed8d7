"""What is shown while something long runs, on stderr, and how Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fairopt.display import sentence
from fairopt.progress import Listener, progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["LAST_WORDS", "STOPPED", "complain", "console_for", "stoppable", "working"]

STOPPED = 130  # what shells report for Ctrl-C
BAR = 20  # characters: there is room for a sentence beside it on 80 columns
GRACE = 1.0  # seconds for Python to react to Ctrl-C: compiled solvers can take minutes to come back to it
LAST_WORDS = "stopped by Ctrl-C"


def console_for(stderr: bool = False) -> Console:
    """A console on what stdout or stderr is now."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def complain(line: str) -> None:
    """One line on stderr, however long: it is read by people and by machines."""
    console_for(stderr=True).print(sentence(line), markup=False, soft_wrap=True, style="red")


@contextlib.contextmanager
def working(what: str, verbose: bool = False, last_words: Callable[[], None] | None = None) -> Iterator[None]:
    """Run something long: shown on a terminal, stdout kept for results, and Ctrl-C that works within a second.

    A terminal shows what is told (`fairopt.progress`), a bar where it is known how much there is to do, and a clock;
    not with ``verbose``, since solvers will print. ``last_words`` says what to say when Ctrl-C ends the process in the
    middle of compiled code.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = console_for(stderr=True)
    silent = verbose or not console.is_terminal
    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (SpinnerColumn(), text, BarColumn(BAR), TimeElapsedColumn())
    display = Progress(*columns, console=console, transient=True, disable=silent)

    def stop() -> None:
        display.stop()
        aside.close()
        if last_words is None:
            complain(LAST_WORDS)
        else:
            last_words()

    with contextlib.ExitStack() as aside:  # closed by whoever comes first
        aside.enter_context(_stdout_to_stderr())
        with stoppable(stop), display, contextlib.nullcontext() if silent else progress(_shown(display, what)):
            yield


def _shown(display: Progress, what: str) -> Listener:
    """A listener that shows what it hears on one line."""
    task = display.add_task(sentence(what), total=None)

    def hear(now: str, done: int | None, total: int | None) -> None:
        count = "" if done is None else f", {done:,}" if total is None else f", {done:,} of {total:,}"
        display.tasks[0].total = total  # `update` takes None for "as before", not for "not known any more"
        display.update(task, description=sentence(f"{what}: {now}{count}"), completed=done or 0)

    return hear


@contextlib.contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C end the process where a solver does not come back to Python, after calling ``stop``.

    While it runs compiled code the main thread raises no KeyboardInterrupt, but Python writes each signal's number to
    its wakeup file at once, where another thread can read it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    over = threading.Event()

    def watch() -> None:
        while number := reader.recv(1):
            if number[0] == signal.SIGINT and not over.wait(GRACE):
                stop()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(STOPPED)

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


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Whatever is printed goes to stderr: compiled solvers write to stdout even when asked for silence."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
