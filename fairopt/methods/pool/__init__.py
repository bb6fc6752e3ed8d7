"""Exact methods on one pool of resources.

* `solve`: from a program to a point with its evidence, by each of the methods.
* `waterfilling`: leximin and max-min of any linear share, by raising levels.
* `alpha_fair`: alpha-fairness of any linear share, by Newton in the prices of resources.
* `max_sum`: the largest total of any linear share, a linear program in the prices of resources.

The last three say what they ask of users (`WaterfillingUsers`, ...), and how users in memory answer
(`WaterfillingPool`, ...); those in shards are in `methods.sharded`.
"""
