"""The kinds of evidence: how each bounds the gap, and its entry in files, which the checker reads too.

* `kinds`: the table of kinds, by their names in files.
* `pool`: bottlenecks on one pool, with or without envy-freeness, and prices of alpha-fairness and of totals, in passes.
* `prices`: prices and multipliers of any program with a majorant, or of one function per user.
* `levels`: a dual solution for each level of leximin.
* `exact_levels`: an exact point of leximin on servers and its prices, as fractions.
* `number_levels`: the same for leximin of teams, or of what is above a base.
* `solved`: dual values of a cone program. `bundles`: the same over bundles, and divisions.
* `supporting`: multipliers from the tasks alone, where a solver's prove less.
* `tangents`: lines along the sum of shares, for the (beta, lambda) plane.
* `above`: that of a surplus on one pool, from the plain program above the base.
* `earlier_tiers`: how far earlier tiers may move a later one, by its evidence.
* `fewer_rows`: evidence of a program with fewer constraints. `written`: cone programs rebuilt from blocks.
"""
