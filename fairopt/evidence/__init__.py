"""The kinds of evidence: how each bounds the gap, its numbers in files, and its entry for `verify`.

* `kinds`: the table of kinds, by their names in files.
* `pool`: bottlenecks, prices of alpha-fairness and of a total on one pool. `envy`: bottlenecks under envy-freeness.
* `user_prices`, `row_prices`: prices of sums of one function per user; `capacity_prices`: of ordered weights.
* `levels`: a dual solution for each level of leximin.
* `solved`: dual values of a cone program. `bundles`: the same over bundles, and divisions.
* `tangents`: lines along the sum of shares, for the (beta, lambda) plane.
* `fewer_rows`: evidence of a program with fewer constraints. `written`: cone programs rebuilt from blocks.
"""
