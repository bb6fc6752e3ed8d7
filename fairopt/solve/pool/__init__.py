"""Exact methods on one pool.

* `waterfilling`: leximin and max-min, by water-filling.
* `envy`: the same under envy-freeness.
* `alpha_fair`: alpha-fairness, by Newton's method in prices.
* `max_sum`: the largest sum of shares, a linear program in prices.
* `interior`: sums of one concave function per user, by an interior point in tasks and prices.
* `ordered`: ordered weights, by cutting planes in prices.

`waterfilling` and `alpha_fair` know users by a protocol, for users in memory and in shards (`solve.sharded`).
"""
