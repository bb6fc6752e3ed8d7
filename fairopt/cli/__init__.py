"""The command ``fairopt``, the only package that prints.

* `application`: the Typer application, the module of each command, error messages and exit codes.
* `commands`: ``solve``, ``compare``, ``policies``, ``solvers`` and ``demo``; `audit`: ``audit`` and ``replay``.
* `buy`, `claims`, `convert`, `diff`, `frontier`, `library`, `plot`, `prefer`, `prove`, `queues`,
  `quotas`, `report`, `simulate`, `verify`, `what_if`, `why`: one command each.
* `inputs`: the argument INPUT and its options; `values`: parsing of ``0:10:41`` and ``web=2``.
* `progress`: output on both streams and the progress bar; `interrupts`: Ctrl-C.
* `streams`: missing characters, closed pipes and full disks.
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
        """The application with all commands; `main` imports only the one that runs."""
        if name != "app":
            raise AttributeError(f"module 'fairopt.cli' has no attribute {name!r}")
        from fairopt.cli.application import app, register

        register()
        return app
