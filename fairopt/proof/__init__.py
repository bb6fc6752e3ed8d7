"""Proofs of answers from the data as given, the final point and evidence; a solver's status is not evidence.

The files:

* `gate`: makes points feasible, measures them, and is the only maker of certificates.
* `proposal`: proposals of methods, and the interface of evidence; `evidence`: its kinds.
* `feasibility`: repair of points, violations of constraints, and constraints as multipliers see them.
* `gradients`: gradients of CVXPY's expressions.
* `bound`: users' largest gains at given costs, for all bounds by weak duality.
* `least_squares`: minimum-norm solutions of equations, within the time limit.
* `ranges`: ranges of variables that linear rows and cones imply. `polish`: dual points made exact.
* `exact_filling`: leximin on small pools in fractions, where rounding decides levels.
* `pool_gaps`: bottlenecks and dual bounds on one pool, in passes.
* `envy_levels`: bottlenecks under envy-freeness.
* `level_bounds`: leximin on several servers and under further constraints.
* `number_level_bounds`: leximin of teams, or of what is above a base. `inside_teams`: the split of totals inside teams;
  `determined`: what follows from these totals by prices.
* `dual`: multipliers of a program, in natural units. `lagrangian`: the bound by these; `number_lagrangian`: of teams,
  or of what is above a base. `conic`: the bound of cone programs.
* `certify`: certificates of any CVXPY problem (`fairopt.certify`). `stated`: the problem as it is asked; `completed`:
  what CVXPY added to it, from its values and dual values; `proof_file`: its proof as a file.
* `written_rows`: whether what was written for a solver is the problem itself. `dual_bound`: the gap by a bound.
* `slopes`: the unit of gaps of objectives with variables of their own.
* `plane_bound`: the (beta, lambda) plane, by lines along the sum of shares.
* `read_problem`: answers of CVXPY problems that the user solved (`Policy.certify`).
* `filling_states`: hierarchical DRF, from the levels at its events.
* `many_pool_gaps`: answers of many instances at once. `many_cone_gaps`: those of user-defined objectives, with their
  values at many points (`many_values`). `server_rises`: PS-DSF.
* `whole_tasks`: whole tasks placed one by one. `or_zero`: tasks that are 0 or at least so many, by branch and bound.
* `entries`: names of rows in files. `as_written`: what files hold of users' blocks, as rows and cone programs.
"""
