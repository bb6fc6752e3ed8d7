"""Exact answers in fractions, proved in fractions, of policies whose optimum is rational; and bounds for the others.

The name for users is `ExactBounds`, what `Allocation.exact_bounds` returns.

* `rationals`: the numbers, python-flint's where it is installed, else Python's; python-flint itself for intervals
* `cluster`: an instance in rationals; what objectives compare. `tiers`: objectives and constraints
* `linear`: linear programs in rationals: bases, exact pivots, and the proof that a basis is optimal
* `modelling`: the tiers of a policy as such linear programs, and their multipliers. For methods,
  ``leximin_of(program, clock) -> (tasks by user and server, evidence of each level)`` is the leximin of users of a
  `Program` under linear rows, from the floats as they are, without python-flint too; it raises `OutOfDomain` for shares
  without exact coefficients, and `_NoPoint` of `linear` if the bounds conflict
* `proof`: the proof of exact tasks from these multipliers
* `bundles`: policies that decide bundles. `pool`: leximin on one pool in many digits
* `allocate`: `Policy.allocate(..., exact=True)`, and how certificates and files say that numbers were read
* `bounds`: intervals for optimal values, also where they are irrational, by concave programs. `interval`: one of them
* `vipr`: the linear programs of an answer and their proofs, for checkers by others, in LP text and VIPR's format
* `concave`: concave programs in high precision, with bounds
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
