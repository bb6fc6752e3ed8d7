"""Exact methods on several servers that differ.

* `leximin`: leximin of a linear share, level by level.
* `level_program`: the linear program of a level (HiGHS), which is changed from level to level.
* `exact_levels`: its programs in integers of 512 bits, for where floating point is not enough.
* `alpha_fair`: alpha-fairness and max-min by prices per server and resource.
* `responses`: prices of few capacities for many users whose shares differ by server, by what they hold at them.
* `floors`: lower bounds of users in the interior point.
* `sums`: sums of one concave function per user by the same steps.
* `fixed_sum`: the most even shares of a fixed sum, for the search along that sum.
* `worths`: what a level is worth, a power or a function of each user's own.
* `interior_point`: the primal-dual Newton method for these prices, and its linear systems.
* `psdsf`: PS-DSF: servers are filled in turn until no user could gain on any.
"""
