"""Blocks and an instance prepared for solving: what methods and proofs read.

* `program`: active users, merged servers, combined bounds (`Program`); the same in CVXPY (`ConeModel`).
* `program_rows`: capacities and linear constraints as rows, by block and name.
* `equilibration`: units of unknowns, rows and cones, for what users write. `recentring`: of parts of curved cones, at a
  rough answer.
* `above`: one pool above a base, as a plain program. `rising`: who can rise above the base of a surplus.
* `bundle_program`: programs whose unknowns are bundles. `division`: those with a closed form (MLF-DRS, FFMRA, H-FFMRA).
* `pool_users`: passes over the users of one pool, in chunks that fit the cache.
* `demands_at_prices`: costs at prices and loads of users of several servers, in chunks of users.
* `units_on_servers`: tasks or levels near 1 on several servers.
* `many_instances`: many instances of one shape as arrays. `repeated`: a user's objective written once for all of them.
* `no_whole_task`: users for whom no whole task fits. `or_zero`: which tasks are 0, and which at least so many.
* `digests`: whether two expressions or problems are the same.
* `problem`: a policy as a `cvxpy.Problem` in natural units.
* `solvers`: CVXPY's solvers: availability, settings, and the order in which they are tried.
* `compiled`: problems in cone form, written here or by CVXPY's chain, and the points that a solver leaves.
* `structured`: variables that are matrices of a kind, by their free entries.
* `aggregates`: affine aggregates that are used many times, as variables.
* `affine`: affine expressions as entries of a matrix.
* `highs`: HiGHS without its banner, and usable in forked processes.
* `simplex`: linear programs in HiGHS, warm-started.
"""
