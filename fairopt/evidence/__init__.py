"""The kinds of evidence: what proves an answer, with its bound, its numbers in files and its entry for `verify`.

* `kinds`: the table of kinds, by the name that files have.
* `pool`: bottlenecks, prices of alpha-fairness and of a total on one pool. `pulled`: bottlenecks without envy.
* `user_prices`, `row_prices`: prices of sums of one function per user; `capacity_prices`: of ordered weights.
* `levels`: the prices that hold the users of each level of leximin.
* `solved`: what a solver left of a cone program. `bundles`: the same over bundles, and divisions.
* `tangents`: lines along the sum of shares, for the (beta, lambda) plane.
* `fewer_rows`: evidence of a program with fewer conditions. `written`: cone programs without expressions.
"""
