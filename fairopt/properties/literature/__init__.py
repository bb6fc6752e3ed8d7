"""What papers claim of fairness notions, with verdicts.

* `claim`: one claim with its verdict, and the papers. `claims`: all claims, and their tables.
* `sharing`: claims of DRF, CEEI, DRFH, k-DF, MLF-DRS and H-FFMRA.
* `tradeoff`: claims of FDS, GFJ and p-norm fairness.
"""

