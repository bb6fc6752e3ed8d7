"""The general method: any convex policy, by CVXPY.

* `solve`: one objective as one program.
* `leximin`: leximin under any constraints, as a sequence of programs.
* `parametric`: the part of the (beta, lambda) plane that is not concave, as a search along one parameter.
* `newton`: Newton's method for users' objectives that vary by more orders of magnitude than solvers resolve.
* `chain`: solvers tried in the order of `formulation.solvers` until an answer is certified.
* `unbounded`: whether an objective grows without bound, and the text of `Unbounded`.
"""
