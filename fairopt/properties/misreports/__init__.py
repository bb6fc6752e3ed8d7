"""Profitable lies: what a user could gain by reporting other demands than its own.

* `best`: the best misreport of one user. `search`: reports tried in batches, then a climb from the best.
* `families`: kinds of false reports, for many users at once.
"""
