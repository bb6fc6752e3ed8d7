"""Exact methods on one pool of resources.

* `solve`: from a program to a point with its evidence, by each of the methods.
* `waterfilling`: leximin and max-min of any linear share.
* `alpha_fair`: alpha-fairness by Newton in the prices of resources, and how users in memory respond to prices.
* `max_sum`: the largest total, a linear program in prices, and what users in memory want at prices.
"""
