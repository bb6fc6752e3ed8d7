"""What papers claim of fairness notions, with verdicts.

* `claims`: one claim, the papers, all claims, and their tables. `claims.csv` and `cases.csv` hold the claims, and the
  instances that decide them.
"""
