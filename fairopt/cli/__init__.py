"""The command ``fairopt``: the one room that prints.

* `commands`: the application, and ``solve``, ``compare``, ``policies``, ``solvers`` and ``demo``.
* `plot`, `convert`, `shards`, `audit` (with ``replay``), `claims`: the other commands.
* `inputs`: INPUT and its options. `progress`: what is shown while something runs, and how Ctrl-C ends it.
"""

from fairopt.cli import audit, claims, convert, plot, shards
from fairopt.cli.commands import app, main

__all__ = ["app", "audit", "claims", "convert", "main", "plot", "shards"]
