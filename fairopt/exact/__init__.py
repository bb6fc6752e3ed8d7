"""Exact answers in fractions, proved in fractions, of policies whose optimum is rational; and bounds for the others.

The name for users is `ExactBounds`, what `Allocation.exact_bounds` returns.

* `reading`: a policy and an instance in rational numbers, by `proofs.rational`
* `linear`: linear programs in rationals: bases, exact pivots, and the proof that a basis is optimal
* `modelling`: the tiers of a policy as such linear programs, and their multipliers
* `mechanisms`: `HDRF` and policies that decide bundles
* `allocate`: `Policy.allocate(..., exact=True)`
* `bounds`: intervals for optimal values, also where they are irrational
* `programs`: a policy on an instance as a concave program. `concave`: such programs in high precision, with bounds
* `vipr`: the linear programs of an answer and their proofs, for checkers by others
* `flint`: python-flint, imported on first use
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
