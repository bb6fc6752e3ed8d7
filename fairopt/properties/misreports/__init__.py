"""Profitable misreports: what a user can gain by reporting false demands.

* `best`: `best_misreport` of one user, and of every user of many pools; the gain verified.
* `search`: the search: reports tried in batches, then a climb from the best.
* `families`: kinds of false reports.
"""

