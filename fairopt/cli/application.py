"""The application: what all commands share, and which modules have the commands that are asked for."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar

import typer

from fairopt.cli.interrupts import LAST_WORDS, STOPPED, stoppable
from fairopt.cli.progress import complain
from fairopt.cli.streams import TOO_LARGE, streams, told
from fairopt.errors import FairoptError, InvalidInput, MissingExtra, SolverUnavailable, own_lines

__all__ = ["BAD_INPUT", "NOT_CERTIFIED", "app", "exit_code", "guarded", "register", "run"]

NOT_CERTIFIED, BAD_INPUT = 1, 2
MOST = 5  # lines of a file of the user's that are shown of an error
EXIT_CODES = (
    "Exit code: 0 for certified answers only, 1 where there is none (not certified, infeasible, undefined), "
    "2 for bad input and for files that cannot be written, 3 where memory is too small, 130 when stopped by Ctrl-C."
)
# "\b" on a line of its own tells typer to leave the lines of a paragraph as they are.
START = """Fair shares of a cluster: certified allocations under any fairness notion, and comparisons of notions.

\b
[bold]Examples[/]
  fairopt demo
  fairopt solve cluster/ --policy drf
  fairopt compare cluster/ -p drf -p 2df -p nash"""

# The module that registers each command; all of them in the order of the help.
COMMANDS = {
    **dict.fromkeys(("solve", "compare", "policies", "solvers", "demo"), "commands"),
    "audit": "audit",
    "replay": "audit",
    "buy": "buy",
    "claims": "claims",
    "convert": "convert",
    "frontier": "frontier",
    "plot": "plot",
    "prefer": "prefer",
    "prove": "prove",
    "shards": "shards",
    "simulate": "simulate",
    "verify": "verify",
}
app = typer.Typer(
    name="fairopt",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
    help=START,
)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def guarded(command: _Command) -> _Command:
    """Show errors of fairopt and Ctrl-C as one line on stderr and an exit code, without a traceback.

    An error in a file of the user's, as of a policy, is shown with the lines of that file.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (FairoptError, OSError, MemoryError) as error:
            complain(told(error))
            raise typer.Exit(exit_code(error)) from None
        except Exception as error:
            lines = own_lines(error)
            if not lines:  # of fairopt, which should see the whole of it
                raise
            words = traceback.TracebackException.from_exception(error).format_exception_only()  # with its notes
            complain("; ".join(map(str.strip, words)))
            for line in lines[-MOST:]:
                complain(line)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            complain(LAST_WORDS)
            raise typer.Exit(STOPPED) from None
        except SystemExit as error:
            complain(f"a policy, or what it calls, exits (code {error.code!r}); it must answer, or raise an error")
            raise typer.Exit(NOT_CERTIFIED) from None

    return run  # type: ignore[return-value]


def _version(asked: bool) -> None:
    if asked:
        from fairopt import __version__

        typer.echo(f"fairopt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def register(words: Sequence[str] = ()) -> None:
    """Import what a command line needs: the module of its command, none for the version, else all, as for help."""
    first = words[0] if words else ""
    asked = [COMMANDS[first]] if first in COMMANDS else [] if first == "--version" else dict.fromkeys(COMMANDS.values())
    for module in asked:
        import_module(f"fairopt.cli.{module}")


def run() -> None:
    """Run the command line."""
    with streams(), stoppable(lambda: complain(LAST_WORDS)):
        register(sys.argv[1:])
        app(prog_name="fairopt")


def exit_code(error: Exception) -> int:
    """Exit code of an error: too large, bad input, or no answer."""
    if isinstance(error, MemoryError):
        return TOO_LARGE
    bad_input = isinstance(error, (InvalidInput, SolverUnavailable, MissingExtra, OSError))
    return BAD_INPUT if bad_input else NOT_CERTIFIED
