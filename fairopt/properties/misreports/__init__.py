"""Profitable misreports of demands.

* `best`: the search for the most profitable misreport. `families`: the reports that it tries.
"""
