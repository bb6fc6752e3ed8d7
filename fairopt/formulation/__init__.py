"""Blocks and an instance made ready to solve: what methods and proofs both read.

* `program`: who takes part, servers merged, bounds gathered; `ConeModel`, the same in CVXPY.
* `bundle_program`: the same where bundles are decided. `division`: what has a closed form among these, and that form.
* `pool_users`: passes over the users of one pool, in chunks that fit the cache.
* `demands_at_prices`: what users of several servers take at prices, in chunks of users.
* `batch`: many instances of one shape as arrays.
* `problem`: a policy as a CVXPY problem in natural units.
* `solvers`: the solvers behind CVXPY: which are installed, what to ask of each, and the order to try them in.
"""
