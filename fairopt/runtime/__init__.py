"""The lowest layer: progress, time limits, subprocesses, imports on first use.

* `quiet_start`: Ctrl-C while the command imports packages.
* `lazy`: CVXPY, SciPy, public names and later modules, imported on first use.
* `clock`: time limits. `progress`: callbacks for long computations, where limits are checked.
* `display`: numbers and names in text. `hostlists`: names of hosts, written briefly.
* `threads`: one BLAS thread while fairopt computes.
* `tolerances`: what counts as equal. `ranges`: which numbers are taken. `arrays`: types of arrays.
* `subprocesses`: solvers in subprocesses that can be killed. `solver_process`: the program of such a subprocess.
* `extensions`: what other distributions bring by entry points.

The names for packages that extend fairopt are those of ``__init__.pyi``.
"""

from fairopt.runtime import quiet_start  # noqa: F401  # Ctrl-C during all other imports

# isort: split
from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
