"""The command ``fairopt``, the only package that prints, and what commands of other packages are made of.

The names for commands, which are found by entry points of the group ``fairopt.commands``:

* `command` registers one. `reading` gives it INPUT, a `Source`, and `Solving` the options of solvers, by default
  `USUAL`. Annotations of further options: `OnePolicy` and `Constraints`, which `asked` reads, `TimeLimit`, `Verbose`,
  `AsJson`; texts of help: `WHAT_POLICY`, `DEFAULT`. `labelled_number` reads ``web=2``.
* `working`: long work, with progress and Ctrl-C. `say`, `say_notes`, `complain`, `console_for`, `show_json` and
  `written` print.
* Exit codes: `exit_code` of an error, `FAILED_CHECK`, and after Ctrl-C `STOPPED`, with the message `INTERRUPTED`.

The files:

* `application`: the Typer application, the module of each command, error messages and exit codes.
* `commands`: ``solve``, ``compare``, ``policies``, ``solvers`` and ``demo``; `audit`: ``audit`` and ``replay``.
* `buy`, `claims`, `convert`, `diff`, `frontier`, `library`, `plot`, `prefer`, `prove`, `simulate`, `verify`, `what_if`,
  `why`: one command each.
* `inputs`: the argument INPUT and its options; `values`: parsing of ``0:10:41`` and ``web=2``.
* `progress`: output on both streams and the progress bar; `interrupts`: Ctrl-C.
* `streams`: missing characters, closed pipes and full disks.
"""

import gc
from typing import Any

from fairopt.cli.interrupts import handled
from fairopt.runtime.lazy import public_names

_public, __dir__ = public_names(__name__)


def main() -> None:
    """Run the command line."""
    with handled():
        gc.disable()  # until commands are imported, which takes 15% less without
        from fairopt.cli.application import run

        run()


def __getattr__(name: str) -> Any:
    """A public name; ``app`` with all commands, of which `main` imports only the one that runs."""
    if name == "app":
        from fairopt.cli.application import app, register

        register()
        return app
    return _public(name)
