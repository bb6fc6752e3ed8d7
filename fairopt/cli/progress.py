"""Progress of long work on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fairopt.cli.interrupts import LAST_WORDS, pressed, stoppable
from fairopt.display import sentence
from fairopt.runtime.progress import Listener, progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["complain", "console_for", "working"]

BAR = 20  # characters, with room for a sentence beside it on 80 columns


def console_for(stderr: bool = False) -> Console:
    """A console on the present stdout or stderr."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def complain(line: str) -> None:
    """Print one line on stderr, not wrapped."""
    console_for(stderr=True).print(sentence(line), markup=False, soft_wrap=True, style="red")


@contextlib.contextmanager
def working(what: str, verbose: bool = False, last_words: Callable[[], None] | None = None) -> Iterator[None]:
    """Run long work with progress on a terminal, stdout only for results, and Ctrl-C that works within a second.

    Shown are the reports of `fairopt.progress`, a bar where the total is known, and a clock; not with ``verbose``,
    since solvers print. ``last_words`` is called when Ctrl-C ends the process in the middle of compiled code.
    """
    console = console_for(stderr=True)
    display = None if verbose or not console.is_terminal else _display(console)

    def stop() -> None:
        if display is not None:
            display.stop()
        aside.close()
        if last_words is None:
            complain(LAST_WORDS)
        else:
            last_words()

    with contextlib.ExitStack() as aside:  # closed here or by `stop`
        aside.enter_context(_stdout_to_stderr())
        before = pressed()
        heard = contextlib.nullcontext() if display is None else progress(_shown(display, what))
        with stoppable(stop), display or contextlib.nullcontext(), heard:
            yield
            if last_words is None and pressed() and not before:  # a policy dropped it
                raise KeyboardInterrupt


def _display(console: Console) -> Progress:
    """A line with what is at work, a bar and a clock."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    return Progress(SpinnerColumn(), text, BarColumn(BAR), TimeElapsedColumn(), console=console, transient=True)


def _shown(display: Progress, what: str) -> Listener:
    """A listener that shows progress on one line."""
    task = display.add_task(sentence(what), total=None)

    def hear(now: str, done: int | None, total: int | None) -> None:
        count = "" if done is None else f", {done:,}" if total is None else f", {done:,} of {total:,}"
        display.tasks[0].total = total  # for `update`, None means "as before"
        display.update(task, description=sentence(f"{what}: {now}{count}"), completed=done or 0)

    return hear


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send stdout to stderr: compiled solvers write to stdout even when they should not."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
