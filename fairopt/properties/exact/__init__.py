"""Witnesses confirmed by an independent computation, mostly in fractions.

* `confirm`: whether a witness is confirmed. Shares and mechanisms are computed a second time here, on purpose.
* `pool`: answers on one pool in fractions, or to fifty digits.
* `margins`: by how much a property fails after all numerical errors are allowed for.
"""

