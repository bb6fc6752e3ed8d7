"""Exact answers in fractions, proved in fractions, of policies whose optimum is rational.

* `reading`: a policy and an instance in rational numbers, as `verify` reads them
* `linear`: linear programs in rationals: bases, exact pivots, and the proof that a basis is optimal
* `modelling`: the tiers of a policy as such linear programs, and the evidence for `verify`
* `allocate`: `Policy.allocate(..., exact=True)`
"""
