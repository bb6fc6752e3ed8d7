"""Claims of papers about fairness notions, with verdicts.

* `claims`: the claims and their tables, read from `claims.csv` and `cases.csv`.
"""
