"""Exact methods on one pool.

* `solve`: when each method applies, and its answer with evidence.
* `waterfilling`: leximin and max-min of any linear share, by raising levels until resources are full.
* `envy`: the same where no user may envy another.
* `alpha_fair`: alpha-fairness of any linear share, by Newton's method in the prices of resources.
* `max_sum`: the largest sum of any linear share, a linear program in the prices of resources.
* `interior`: sums of one concave function per user, by an interior point in tasks and prices.
* `ordered`: ordered weights of any linear share, by pieces of a convex function of the prices.

Water-filling and alpha-fairness use users through a protocol (`WaterfillingUsers`), which users in memory
(`WaterfillingPool`) and users in shards (`methods.sharded`) implement. `methods.batch` has the first three methods for
many small instances at once.
"""
