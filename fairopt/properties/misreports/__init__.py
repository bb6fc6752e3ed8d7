"""Profitable misreports: what a user gains by reporting false demands.

* `best`: the best misreport of one user, or of every user of many pools, verified; the search for it.
* `families`: kinds of false reports.
"""
