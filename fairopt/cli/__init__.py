"""The command ``fairopt``, the only package that prints.

* `application`: what all commands share: the application, errors as lines and exit codes, where each command is.
* `commands`: ``solve``, ``compare``, ``policies``, ``solvers`` and ``demo``.
* `buy`, `claims`, `convert`, `frontier`, `plot`, `prefer`, `shards`, `simulate`, `verify`: the commands of these names.
* `audit`: ``audit`` and ``replay``.
* `inputs`: the argument INPUT and its options.
* `values`: numbers typed for a parameter. `progress`: the progress bar, and what Ctrl-C does.
* `streams`: stdout and stderr that take every text, and errors of output and memory.
"""

from fairopt.cli.application import app, main

__all__ = ["app", "main"]
