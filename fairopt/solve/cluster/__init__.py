"""Exact methods on several different servers.

* `leximin`: leximin level by level, and in fractions where floating point is not enough, with `level_program`, the
  linear program of a level in HiGHS.
* `alpha_fair`: alpha-fairness, max-min, and sums of one concave function per user, by prices per server row and
  resource.
* `totals`: the largest sum of shares, server by server.
* `ordered`: ordered weights, by an interior point in prices and users' weights.
* `fixed_sum`: the most even shares of a fixed sum.
* `interior_point`: the primal-dual interior point of these, with `utilities`, marginal utilities of levels,
  `lower_bounds` on levels, and `few_servers`, its steps on few of many servers of each user.
* `psdsf`: PS-DSF, by filling servers in turn. `hierarchy`: HDRF, by rows of placements that stop users, and
  `filling`, the filling of its tree from event to event.
* `exact_hierarchy`: HDRF in rationals.
"""
