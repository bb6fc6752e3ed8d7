"""The lowest layer: progress, time limits, subprocesses, imports on first use.

* `quiet_start`: Ctrl-C while the command imports packages.
* `lazy`: CVXPY, SciPy, public names and later modules, imported on first use.
* `clock`: time limits. `progress`: callbacks for long computations, where limits are checked.
* `display`: numbers and names in text. `hostlists`: names of hosts, written briefly.
* `threads`: one BLAS thread while fairopt computes.
* `tolerances`: what counts as equal. `arrays`: types of arrays.
* `subprocesses`: solvers in subprocesses that can be killed. `solver_process`: the program of such a subprocess.
"""
