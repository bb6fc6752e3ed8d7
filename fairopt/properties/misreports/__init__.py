"""Profitable misreports of demands, of a user or of a team.

* `best`: the search for the most profitable misreport. `families`: the reports that it tries. `teams`: the
  search for lies of a team.
"""
