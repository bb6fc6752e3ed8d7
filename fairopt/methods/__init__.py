"""How policies are solved, by kind of instance.

* `dispatch`: tier by tier, the first method that is exact for the policy on the instance and is certified.
* `settings`: solver, options and time limit of one call. `arrays`: types of arrays.
* `pool`: one pool. `cluster`: several servers. `bundles`: policies that decide bundles.
* `cone`: any convex policy, by CVXPY.
* `simplex`: a linear program in HiGHS that changes a little from solve to solve.
* `clean_levels`: what solvers leave of levels of leximin, taken out of prices and tasks.
* `many_rows`: conditions with very many rows, of which a program gets those that an answer breaks.
* `infeasible`: an irreducible set of constraints that conflict, and the message of `Infeasible`.
* `batch`: many small instances at once. `sharded`: more users than fit into one array.
* `whole`: whole tasks, each on one server.
* `prepared`: solving again when capacities, weights or limits change.
* `read`: answers of problems that users solved. `saved`: the certificate of a saved allocation, computed again.
* `portable`: evidence for `proofs.verify`.
* `supporting`: such evidence from the tasks alone, by linear programs.
"""
