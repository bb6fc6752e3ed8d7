"""The general method: any convex policy, by CVXPY.

* `solve`: one objective as one program, by solvers in turn until one is certified.
* `vertex`: a vertex of a small linear program in fractions, where no solver's point is certified.
* `nothing`: constraints that no tasks but 0 satisfy.
* `leximin`: leximin under any constraints, as a sequence of programs.
* `levels`: the program of one level, by CVXPY or kept in HiGHS.
* `single_point`: levels above one at which a curved condition leaves a single point.
* `parametric`: `FairnessEfficiency` outside its concave part, by a search along the sum of shares.
* `orders`: ordered weights by programs in which the order of users is fixed.
* `interior`: sums of curves after other tiers, by an interior point that resolves what these leave.
* `newton`: Newton's method for user-defined objectives with slopes beyond what solvers resolve.
* `unbounded`: whether an objective grows without bound, and the message of `Unbounded`.
"""
