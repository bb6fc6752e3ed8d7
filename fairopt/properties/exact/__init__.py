"""Independent computations that confirm witnesses, mostly in fractions.

* `confirm`: verification of a counterexample. `pool`: answers on one pool, in fractions or to fifty digits.
* `cluster`: margins of one allocation on any number of servers.
"""
