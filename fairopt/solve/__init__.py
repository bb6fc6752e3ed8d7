"""How policies are solved, by kind of instance.

* `form`: a policy and an instance as a program.
* `dispatch`: tier by tier, the first method that is exact for the program and certified; what later tiers keep.
* `table`: the methods, in order, and what is done to an answer afterwards. `register` adds one of a user's own.
* `leftover`: what a solver left unused. `dominated`: a note on answers that others dominate.
* `not_certified`: why nothing was certified.
* `settings`: solver, options and time limit of one call.
* `pool`: one pool. `cluster`: several servers. `bundles`: policies that decide bundles.
* `numbers`: leximin of teams, or of what is above a base.
* `cone`: any convex policy, by CVXPY.
* `as_saved`: certificates of solvers' answers by the numbers that files hold.
* `levels_in_fractions`: leximin of users by exact programs, where rounding decides.
* `clean_levels`: prices and tasks of leximin without solvers' noise.
* `many_rows`: constraint generation for constraints with very many rows.
* `infeasible`: an irreducible set of conflicting constraints, and the message of `Infeasible`.
  `unfit_guarantees`: by how much guarantees do not fit. `fitted_guarantees`: those that do.
* `batch`: many small instances at once. `sharded`: more users than fit into one array.
* `whole`: whole tasks, each on one server. `or_zero`: tasks that are 0 or at least so many.
* `prepared`: solving again when capacities, weights or limits change.
* `solved_problem`: answers of problems that users solved. `judged_again`: recomputed certificates of saved allocations.
"""
