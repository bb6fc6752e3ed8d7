"""Shares, objectives and constraints: the language in which fairness notions are written.

The names for users are at the top of `fairopt`, and `Marginal`, which an objective of one's own may return from
`by_user`.

The files:

* `base`: what every block is: a frozen dataclass whose repr can be pasted back.
* `shares`: what one task of a user is worth, as its dominant share.
* `normal_form`: what objectives say, as data: terms, each of a kind that knows all about itself.
* `form`: the same of an instance, as numbers: concave functions of each user's share, sorted shares.
* `algebra`: sums, multiples and tiers of objectives, and objectives at a level as constraints.
* `objectives`: totals, alpha-fairness, max-min, leximin, ordered weights.
* `efficiency`: the objective of the (beta, lambda) plane.
* `rows`: linear conditions as data, from which all that is done with them follows.
* `constraints`: conditions on tasks, as sharing incentive, envy-freeness, bounds and reserves.
* `bundles`: objectives and constraints on bundles: the bases of MLF-DRS (each user's weight for each resource), GAR.
* `measure`: the same measure of given shares, in logarithms, wherever it exists.
* `model`: tasks, shares and weights as blocks see them, as CVXPY expressions and as numbers.
* `bundle_model`: the same with bundles.
* `marginal`: the derivatives of an objective by the tasks of each user, where it adds up one function for each.
* `powers`: Box-Cox powers, and logarithms of sums.
* `ranked`: ordered weights against costs: the best levels within bounds, and the weights that prove them best.
* `terms`: polynomials and conditions on them. `symbols`: what blocks say by them of themselves, for proofs.
* `sorting`: sorting as linear conditions, for ordered weights.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
