"""Exact methods on one pool.

* `solve`: when each method applies, and its answer with evidence.
* `waterfilling`: leximin and max-min of any linear share, by raising levels until resources are full.
* `alpha_fair`: alpha-fairness of any linear share, by Newton's method in the prices of resources.
* `max_sum`: the largest sum of any linear share, a linear program in the prices of resources.

Each of the last three has a protocol of what it asks of all users together (`WaterfillingUsers`), and users in memory
that implement it (`WaterfillingPool`); users in shards are in `methods.sharded`. `methods.batch` has the same three
methods for many small instances at once.
"""
