"""Blocks and an instance made ready to solve: what methods and proofs both read.

* `program`: users who take part, servers merged, bounds gathered (`Program`); the same in CVXPY (`ConeModel`).
* `rows`: linear conditions of blocks as rows in a program's pairs, by block and name.
* `bundle_program`: programs whose unknowns are bundles.
* `division`: bundle programs with a closed form (MLF-DRS, FFMRA, H-FFMRA), and that form.
* `pool_users`: passes over the users of one pool, in chunks that fit the cache.
* `demands_at_prices`: costs at prices and loads of users of several servers, in chunks of users.
* `batch`: many instances of one shape as arrays.
* `whole`: users of whom not one whole task fits.
* `problem`: a policy as a `cvxpy.Problem` in natural units.
* `solvers`: CVXPY's solvers: which are installed, their settings, and the order in which they are tried.
* `highs`: HiGHS without its banner, and usable in forked processes.
"""
