"""What a notion costs, what a change brings, and which notion fits what people prefer.

* `frontier`: sweeps over parameters of a family of policies: fairness, efficiency and the price of fairness.
* `sweep`: the points of a frontier, solved and measured. `price_of_fairness`: what that price can be at most.
* `sensitivity`: derivatives of an allocation by capacities, demands, weights and alpha; which resource to buy next.
  `derivatives` finds them by `active_set` (smooth objectives) and `leximin`, along `changes` of the data.
* `agreement`: whether the most efficient allocation is also the fairest, and measures of heterogeneity.
* `preferences`: which (beta, lam) rank given allocations as people did. `answers`: options and
  rankings, from files, and checked.
"""
