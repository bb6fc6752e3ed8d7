"""Exact methods on several servers that differ.

* `leximin`: leximin of a linear share, level by level.
* `level_program`: the linear program of a level (HiGHS), which is changed from level to level.
* `exact_levels`: its programs in integers of 512 bits, for where floating point is not enough.
* `alpha_fair`: alpha-fairness and max-min by prices per server and resource.
* `responses`: prices of few capacities for many users whose shares differ by server, by what they hold at them.
* `floors`: lower bounds of users in the interior point.
* `interior_point`: the primal-dual Newton method for these prices, and its linear systems.
* `psdsf`: PS-DSF: servers are filled in turn until no user could gain on any.
"""
