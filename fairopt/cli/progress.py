"""Output: lines on stdout, messages and progress on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairopt.cli.interrupts import INTERRUPTED, pressed, stoppable
from fairopt.runtime.display import sentence
from fairopt.runtime.progress import Listener, progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

ERROR = "fairopt.error/1"
BAR = 20  # characters: leaves room for text on 80 columns


def console_for(stderr: bool = False) -> Console:
    """A Rich console on the current stdout or stderr."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def say(text: str, style: str = "") -> None:
    """Print text on stdout, wrapped to the terminal."""
    console_for().print(text, markup=False, style=style)


def written(*paths: object) -> None:
    """Report on stdout, on one line, which files were written, unless the command has printed JSON."""
    made = [str(path) for path in paths if path is not None]
    if made and not _json_shown.is_set():
        console_for().print(f"written: {', '.join(made)}", markup=False, soft_wrap=True)


_json_shown = threading.Event()  # by the current command


def nothing_shown() -> None:
    """Start a command, which prints at most one JSON document on stdout."""
    _json_shown.clear()


def show_json(kind: str, data: Mapping[str, Any]) -> None:
    """Print data as JSON on stdout; its key ``format`` is the kind, such as ``fairopt.answer/1``."""
    import typer

    from fairopt.report.files import as_json

    _json_shown.set()
    typer.echo(as_json({"format": kind, **data}))


def show_error(error: BaseException, lines: Sequence[str], code: int) -> None:
    """Print an error as JSON on stdout, unless the command has printed JSON before."""
    if not _json_shown.is_set():
        name = type(error).__name__
        message = "; ".join(map(sentence, lines)).removeprefix(f"{name}: ")
        show_json(ERROR, {"error": name, "message": message, "exit_code": code})


def complain(line: str) -> None:
    """Print one unwrapped line on stderr."""
    console_for(stderr=True).print(sentence(line), markup=False, soft_wrap=True, style="red")


@contextlib.contextmanager
def working(what: str, verbose: bool = False, on_interrupt: Callable[[], None] | None = None) -> Iterator[None]:
    """Run long work: show progress on a terminal, send stdout to stderr, and react to Ctrl-C within a second.

    Progress is not shown with ``verbose``, where solvers print. ``on_interrupt`` is called when Ctrl-C has to end the
    process during compiled code.
    """
    console = console_for(stderr=True)
    display = None if verbose or not console.is_terminal else _display(console)

    def stop() -> None:
        if display is not None:
            display.stop()
        redirected.close()
        if on_interrupt is None:
            complain(INTERRUPTED)
        else:
            on_interrupt()

    with contextlib.ExitStack() as redirected:  # closed here or by `stop`
        redirected.enter_context(_stdout_to_stderr())
        before = pressed()
        shown = contextlib.nullcontext() if display is None else progress(_listener(display, what))
        with stoppable(stop), display or contextlib.nullcontext(), shown:
            yield
            if on_interrupt is None and pressed() and not before:  # a policy caught the exception
                raise KeyboardInterrupt


def _display(console: Console) -> Progress:
    """A line with a description, a bar and a clock."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    return Progress(SpinnerColumn(), text, BarColumn(BAR), TimeElapsedColumn(), console=console, transient=True)


def _listener(display: Progress, what: str) -> Listener:
    """A listener that shows progress in the display."""
    task = display.add_task(sentence(what), total=None)

    def listen(now: str, done: int | None, total: int | None) -> None:
        count = "" if done is None else f", {done:,}" if total is None else f", {done:,} of {total:,}"
        display.tasks[0].total = total  # `update(total=None)` would keep the old total
        display.update(task, description=sentence(f"{what}: {now}{count}"), completed=done or 0)

    return listen


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send stdout to stderr, since compiled solvers may print on stdout."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
