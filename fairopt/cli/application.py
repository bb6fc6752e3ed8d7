"""The Typer application: the module of each command, error messages and exit codes."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info

from fairopt.cli.interrupts import INTERRUPTED, STOPPED, stoppable
from fairopt.cli.progress import complain, nothing_shown, show_error
from fairopt.cli.streams import TOO_LARGE, message_of, streams
from fairopt.errors import FairoptError, InvalidBlock, InvalidInput, MissingExtra, SolverUnavailable, own_lines
from fairopt.runtime import extensions

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NOT_CERTIFIED, BAD_INPUT, FAILED_CHECK = 1, 2, 4
AS_JSON = "fairopt.json"  # key of the context: whether --json is given
TRACE_LINES = 5  # of the user's own files, shown with an error
EXIT_CODES = (
    "Exit codes: 0 if all answers are certified, 1 if some are not (infeasible, undefined, not certified), 2 for bad "
    "input or a file that cannot be written, 3 if memory runs out, 4 if a check that was asked for fails, such as "
    "solve --fail-if-below, 130 after Ctrl-C. With --json an error is JSON on stdout too, unless the answer was "
    "printed before: {format: fairopt.error/1, error, message, exit_code}."
)
# "\b" on a line of its own tells typer to leave the lines of a paragraph as they are.
START = """Share a cluster fairly: compute, certify and compare allocations under any fairness notion.

\b
[bold]Examples[/]
  fairopt demo
  fairopt solve cluster/ --policy drf
  fairopt compare cluster/ -p drf -p 2df -p nash"""

# The module of each command, in the order of the help. Those of other packages, after these, are entry points: modules
# that register a command of that name, or functions.
COMMANDS = {
    **dict.fromkeys(("solve", "compare", "policies", "solvers", "demo"), "commands"),
    "audit": "audit",
    "replay": "audit",
    "buy": "buy",
    "certify": "certify",
    "claims": "claims",
    "convert": "convert",
    "diff": "diff",
    "frontier": "frontier",
    "library": "library",
    "plot": "plot",
    "prefer": "prefer",
    "prove": "prove",
    "simulate": "simulate",
    "verify": "verify",
    "what-if": "what_if",
    "why": "why",
}


class Commands(TyperGroup):
    """The commands; with ``--json`` errors in options and arguments are JSON on stdout too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether ``--json`` is among the arguments."""
        nothing_shown()
        ctx.meta[AS_JSON] = "--json" in args
        with self._shown(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with self._shown(ctx):
            return super().invoke(ctx)

    @contextmanager
    def _shown(self, ctx: Any) -> Iterator[None]:
        """Show errors that `guarded` does not handle."""
        try:
            yield
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if ctx.meta[AS_JSON]:
                of_usage = getattr(error, "format_message", None)  # of click's exceptions, or of typer's
                text = f"{type(error).__name__}: {error}" if of_usage is None else of_usage()
                show_error(error, [text], getattr(error, "exit_code", NOT_CERTIFIED))
            raise


app = typer.Typer(
    name="fairopt",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
    help=START,
)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def guarded(command: _Command) -> _Command:
    """Turn errors and Ctrl-C into one line on stderr and an exit code; with ``--json`` also into JSON on stdout.

    An error raised in the user's own code, such as a policy, is shown with the lines of that code.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        def failed(error: BaseException, code: int, *lines: str) -> typer.Exit:
            for line in lines:
                complain(line)
            if options.get("as_json"):
                show_error(error, lines, code)
            return typer.Exit(code)

        try:
            return command(*arguments, **options)
        except (typer.Exit, typer.Abort):  # also of commands that are installed elsewhere, as in a checkout
            raise
        except (FairoptError, OSError, MemoryError) as error:
            raise failed(error, exit_code(error), message_of(error)) from None
        except Exception as error:
            own = own_lines(error)
            if not own:  # a bug in fairopt: keep the traceback
                raise
            message = traceback.TracebackException.from_exception(error).format_exception_only()  # with its notes
            raise failed(error, BAD_INPUT, "; ".join(map(str.strip, message)), *own[-TRACE_LINES:]) from None
        except KeyboardInterrupt as error:
            raise failed(error, STOPPED, INTERRUPTED) from None
        except SystemExit as error:
            line = f"a policy called exit({error.code!r}); return an allocation or raise an error instead"
            raise failed(error, NOT_CERTIFIED, line) from None

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


def command(name: str | None = None, *, help: str, no_args_is_help: bool = True) -> Callable[[_Command], _Command]:
    """Register a function as a command of ``fairopt``, with errors and Ctrl-C handled by `guarded`.

    Parameters
    ----------
    name : str, optional
        Default: that of the function.
    help : str
        The text of ``--help``, of which the first line is in the list of commands.
    no_args_is_help : bool, default True
        Whether the command without arguments prints its help.

    Examples
    --------
    >>> from fairopt.cli import command, say
    >>> @command(help="Say hello.", no_args_is_help=False)  # doctest: +SKIP
    ... def hello(name: str = "world") -> None:
    ...     say(f"hello, {name}")
    """
    return lambda function: app.command(name, no_args_is_help=no_args_is_help, help=help)(guarded(function))


def register(words: Sequence[str] = ()) -> None:
    """Import the module of the command that ``words`` begin with; all of them for help, none for ``--version``."""
    first = words[0] if words else ""
    if first == "--version":
        return
    if first in COMMANDS:
        import_module(f"fairopt.cli.{COMMANDS[first]}")
        return
    others = {name: point for name, point in extensions.points(extensions.COMMANDS).items() if name not in COMMANDS}
    if first not in others:
        for module in dict.fromkeys(COMMANDS.values()):
            import_module(f"fairopt.cli.{module}")
    for name in [first] if first in others else others:
        _register_other(name, others[name])
    for name in extensions.OF_CLUSTERS[extensions.COMMANDS]:
        if name not in others and name not in _registered():
            _register_failing(name, extensions.missing(f"'fairopt {name}'"))


def _register_other(name: str, point: EntryPoint) -> None:
    """Register a command of another package; in place of one that breaks, a command that says what broke."""
    if name in _registered():
        return
    before = [*app.registered_commands]
    try:
        loaded = point.load()
        if name not in _registered():
            if not callable(loaded):
                raise TypeError(f"it registers no command {name!r}, and is no function")
            command(name, help=inspect.getdoc(loaded) or f"From {point.value}.")(loaded)
        for one in app.registered_commands[len(before) :]:  # parameters that Typer cannot take would stop all commands
            if not getattr(one.callback, "__module__", "").startswith("fairopt.cli."):
                get_command_from_info(one, pretty_exceptions_short=True, rich_markup_mode=app.rich_markup_mode)
    except (Exception, SystemExit) as error:  # of somebody else's code
        app.registered_commands[:] = before
        broken = f"cannot be loaded from {point.value}: {type(error).__name__}: {error}"
        _register_failing(name, InvalidBlock(f"'fairopt {name}' {broken}"), f"Broken: {broken}")


def _registered() -> list[str | None]:
    """The names of the commands so far."""
    return [one.name or getattr(one.callback, "__name__", None) for one in app.registered_commands]


def _register_failing(name: str, error: FairoptError, help: str = "") -> None:
    """Register a command that takes any arguments and raises an error; without help the list of commands hides it."""

    def fails(
        arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
        as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
    ) -> None:
        raise error

    anything = {"ignore_unknown_options": True}
    app.command(name, help=help or str(error), hidden=not help, context_settings=anything)(guarded(fails))


def run() -> None:
    """Run the command line."""
    with streams(), stoppable(lambda: complain(INTERRUPTED)):
        try:
            register(sys.argv[1:])
        finally:
            gc.freeze()  # what is imported stays
            gc.set_threshold(10_000)  # not 700: of 20,000 jobs of Slurm a fifth of the time
            gc.enable()
        app(prog_name="fairopt")


def exit_code(error: Exception) -> int:
    """The exit code of an error."""
    if isinstance(error, MemoryError):
        return TOO_LARGE
    bad_input = isinstance(error, (InvalidInput, SolverUnavailable, MissingExtra, OSError))
    return BAD_INPUT if bad_input else NOT_CERTIFIED
