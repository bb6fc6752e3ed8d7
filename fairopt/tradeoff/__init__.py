"""What a notion costs, and which notion fits what people prefer.

The names for users, beside `fairopt.frontier`, which returns a `Frontier`:

* `no_tradeoff` says in a `TradeoffReport` whether the most efficient allocation is also the fairest.
* `heterogeneity` measures the demands of an instance, as `Heterogeneity`.
* `preferences`: which points of the (beta, lam) plane rank allocations as people did.

The files:

* `frontier`: sweeps over parameters of a family of policies: fairness, efficiency and the price of fairness.
* `sweep`: the points of a frontier, solved and measured. `price_of_fairness`: what that price can be at most.
* `agreement`: whether the most efficient allocation is also the fairest, and measures of heterogeneity.
* `preferences`: which (beta, lam) rank given allocations as people did. `answers`: options and
  rankings, from files, and checked.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
