"""The lowest layer: progress, time limits, subprocesses, imports on first use.

* `quiet_start`: Ctrl-C while the command imports packages.
* `lazy`: CVXPY, SciPy, public names and later modules, imported on first use.
* `clock`: time limits. `progress`: callbacks for long computations, where limits are checked.
* `display`: numbers and names in text. `hostlists`: names of hosts, written briefly.
* `threads`: one BLAS thread while fairopt computes.
* `tolerances`: what counts as equal. `arrays`: types of arrays.
* `subprocesses`: solvers in subprocesses that can be killed. `solver_process`: the program of such a subprocess.
* `extensions`: what other distributions add.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """A public name. What finds it is imported now, since `quiet_start` comes before all else."""
    from fairopt.runtime.lazy import public_names

    return public_names(__name__)[0](name)


def __dir__() -> list[str]:
    """The public names."""
    from fairopt.runtime.lazy import public_names

    return public_names(__name__)[1]()
