"""What the literature claims of fairness notions, and whether it is so.

* `claim`: one claim, what we found, and the instance that shows it. `claims`: all of them.
* `sharing`: of DRF, CEEI, DRFH, k-DF, MLF-DRS and H-FFMRA. `tradeoff`: of FDS, GFJ and p-norm fairness.
"""
