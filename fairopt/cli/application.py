"""The Typer application: the module of each command, error messages and exit codes."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar

import typer

from fairopt.cli.interrupts import INTERRUPTED, STOPPED, stoppable
from fairopt.cli.progress import complain
from fairopt.cli.streams import TOO_LARGE, message_of, streams
from fairopt.errors import FairoptError, InvalidInput, MissingExtra, SolverUnavailable, own_lines

__all__ = ["BAD_INPUT", "NOT_CERTIFIED", "app", "exit_code", "guarded", "register", "run"]

NOT_CERTIFIED, BAD_INPUT = 1, 2
TRACE_LINES = 5  # of the user's own files, shown with an error
EXIT_CODES = (
    "Exit codes: 0 if all answers are certified, 1 if some are not (infeasible, undefined, not certified), 2 for bad "
    "input or a file that cannot be written, 3 if memory runs out, 130 after Ctrl-C."
)
# "\b" on a line of its own tells typer to leave the lines of a paragraph as they are.
START = """Share a cluster fairly: compute, certify and compare allocations under any fairness notion.

\b
[bold]Examples[/]
  fairopt demo
  fairopt solve cluster/ --policy drf
  fairopt compare cluster/ -p drf -p 2df -p nash"""

# The module of each command, in the order of the help.
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
    "quotas": "quotas",
    "shards": "shards",
    "simulate": "simulate",
    "verify": "verify",
    "what-if": "what_if",
    "why": "why",
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
    """Turn errors and Ctrl-C into one line on stderr and an exit code.

    An error raised in the user's own code, such as a policy, is shown with the lines of that code.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (FairoptError, OSError, MemoryError) as error:
            complain(message_of(error))
            raise typer.Exit(exit_code(error)) from None
        except Exception as error:
            lines = own_lines(error)
            if not lines:  # a bug in fairopt: keep the traceback
                raise
            message = traceback.TracebackException.from_exception(error).format_exception_only()  # with its notes
            complain("; ".join(map(str.strip, message)))
            for line in lines[-TRACE_LINES:]:
                complain(line)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            complain(INTERRUPTED)
            raise typer.Exit(STOPPED) from None
        except SystemExit as error:
            complain(f"a policy called exit({error.code!r}); return an allocation or raise an error instead")
            raise typer.Exit(NOT_CERTIFIED) from None

    return run  # type: ignore[return-value]


def _version(given: bool) -> None:
    if given:
        from fairopt import __version__

        typer.echo(f"fairopt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def register(words: Sequence[str] = ()) -> None:
    """Import the module of the command that ``words`` begin with; all of them for help, none for ``--version``."""
    first = words[0] if words else ""
    if first == "--version":
        return
    for module in [COMMANDS[first]] if first in COMMANDS else dict.fromkeys(COMMANDS.values()):
        import_module(f"fairopt.cli.{module}")


def run() -> None:
    """Run the command line."""
    with streams(), stoppable(lambda: complain(INTERRUPTED)):
        register(sys.argv[1:])
        app(prog_name="fairopt")


def exit_code(error: Exception) -> int:
    """The exit code of an error."""
    if isinstance(error, MemoryError):
        return TOO_LARGE
    bad_input = isinstance(error, (InvalidInput, SolverUnavailable, MissingExtra, OSError))
    return BAD_INPUT if bad_input else NOT_CERTIFIED
