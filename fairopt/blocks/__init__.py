"""The language of fairness notions: shares, objectives, constraints, and what these see of an instance.

* `base`: what every block is. `shares`: what one task of each user is worth.
* `algebra`: sums, multiples and tiers of objectives, and objectives at a level as constraints.
* `objectives`: those that ship. `efficiency`: the (beta, lambda) plane. `constraints`: conditions on tasks.
* `bundles`: bases and constraints of policies that decide bundles.
* `model`: tasks, shares and weights, as CVXPY expressions and as numbers. `bundle_model`: bundles as well.
* `majorant`: functions above an objective, which bounds can maximise exactly. `sorting`: sorting as linear conditions.
"""
