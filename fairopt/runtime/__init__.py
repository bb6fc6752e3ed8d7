"""What runs beneath everything: progress, limits of time, subprocesses, imports on first use.

* `quiet_start`: Ctrl-C while the command imports packages.
* `lazy`: CVXPY, SciPy, public names and later modules, imported on first use.
* `clock`: limits of time. `progress`: callbacks for long computations, where limits are checked.
* `subprocesses`: solvers in subprocesses that can be stopped. `solver_process`: the program of such a subprocess.
"""
