"""What a notion costs, and which notion fits what people prefer.

* `frontier`: sweeps over parameters of a family of policies: fairness, efficiency and the price of fairness.
* `sweep`: the points of a frontier, solved and measured. `price_of_fairness`: what that price can be at most.
* `agreement`: whether the most efficient allocation is also the fairest, and measures of heterogeneity.
* `preferences`: which (beta, lam) rank given allocations as people did. `answers`: options and
  rankings, from files, and checked.
"""
