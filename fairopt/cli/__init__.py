"""The command ``fairopt``, the only package that prints.

* `application`: what all commands share: the application, errors as lines and exit codes, where each command is.
* `commands`: ``solve``, ``compare``, ``policies``, ``solvers`` and ``demo``.
* `buy`, `claims`, `convert`, `frontier`, `plot`, `prefer`, `prove`, `shards`, `simulate`, `verify`: the commands
  of these names.
* `audit`: ``audit`` and ``replay``.
* `inputs`: the argument INPUT and its options.
* `values`: numbers typed for a parameter. `progress`: the progress bar. `interrupts`: Ctrl-C.
* `streams`: stdout and stderr that take every text, and errors of output and memory.
"""

from typing import TYPE_CHECKING, Any

from fairopt.cli.interrupts import handled

if TYPE_CHECKING:
    from fairopt.cli.application import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line."""
    with handled():
        from fairopt.cli.application import run

        run()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The application with all commands; `main` imports only the one that is asked for."""
        if name != "app":
            raise AttributeError(f"module 'fairopt.cli' has no attribute {name!r}")
        from fairopt.cli.application import app, register

        register()
        return app
