"""Commands that ``fairopt`` finds by entry points.

* `quotas`: ``fairopt quotas``, quotas of teams, and their difference from present ones.
* `queues`: ``fairopt queues``, what a scheduler gives its queues beside a certified answer.
* `report`: ``fairopt report``, one page on a cluster.
"""
