"""Profitable lies: what a user could gain by reporting other demands than its own.

* `best`: the best misreport of one user, or of every user of many pools.
* `search`: reports tried in batches, then a climb from the best.
* `families`: kinds of false reports, for many users at once.
"""
