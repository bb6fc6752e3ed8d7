"""Fairness against efficiency, and preferences between them.

The names for users, beside `fairopt.frontier`, which returns a `Frontier`:

* `no_tradeoff` tests whether the most efficient allocation is also the fairest, and returns a `TradeoffReport`.
* `heterogeneity` measures how much the demands of users differ, as `Heterogeneity`.
* `preferences`: the parameters (beta, lam) that reproduce rankings from a survey.

The files:

* `frontier`: sweeps over parameters of a family of policies. `sweep`: the points of a frontier, solved and measured.
* `price_of_fairness`: bounds on the price of fairness. `agreement`: `no_tradeoff` and `heterogeneity`.
* `preferences`: surveys. `answers`: their options and rankings, checked, and read from files.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
