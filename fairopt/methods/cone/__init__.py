"""The general method: any convex policy, through CVXPY.

* `solve`: one objective, by one solver after the other until an answer is certified.
* `leximin`: leximin under any constraints, as a sequence of programs.
* `parametric`: the part of the (beta, lambda) plane that takes a search along a parameter.
* `newton`: objectives of one's own that vary by more orders of magnitude than cone solvers hold.
* `chain`: one solver after the other, and one program by one solver.
* `infeasible`: which constraints conflict. `unbounded`: whether an objective grows without end.
"""
