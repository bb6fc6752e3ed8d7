"""Exact methods on one pool of resources.

* `solve`: from a program to a point with its evidence, by each of the methods.
* `waterfilling`: leximin and max-min of any linear share.
* `alpha_fair`: alpha-fairness by Newton in the prices of resources; `responses`: how users respond to prices.
* `max_sum`: the largest total, a linear program in prices; `totals`: what users want at prices.
"""
