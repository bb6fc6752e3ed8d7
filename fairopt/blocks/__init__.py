"""Shares, objectives and constraints: the language in which fairness notions are written.

Users find these names at the top of `fairopt`; `Marginal`, `InlineObjective` and `InlineConstraint` are here. The
files:

* `base`: the base class of blocks, frozen dataclasses whose repr can be pasted back.
* `inline`: functions in place of blocks.
* `shares`: coefficients of users' shares, such as the dominant share. `roots`: norms between fractions.
* `numbers`: what objectives compare, of users or of teams. `teams`: shares of teams, and what is above a base.
* `guarantees`: guarantees and limits of an instance as constraints.
* `normal_form`: objectives as sums of terms; each kind of term has its value, expression, bound and derivatives.
* `built_in`: users' objectives by such terms in built-in blocks, for the checker and exact answers.
* `form`: terms on an instance as numbers: concave functions of each user's share, and sorted shares.
* `algebra`: the base class of objectives; sums, multiples, tiers, and objectives bounded from below.
  `written_values`: constants and rounding of users' expressions.
* `objectives`: totals, alpha-fairness, max-min, leximin, ordered weights.
* `efficiency`: the objective of the (beta, lambda) plane.
* `rows`: linear constraints as sparse rows, and the largest value of a linear function under these.
  `table_rows`: the same rows for CVXPY.
* `constraints`: sharing incentive, envy-freeness, bounds, reserves.
* `bundles`: objectives and constraints on bundles (MLF-DRS, H-FFMRA).
* `ideal`: the share of what a user could have when every other user is at its base.
* `own`: variables that blocks add, by name.
* `model`: tasks, shares and weights as blocks see them. `bundle_model`: the same with bundles.
* `marginal`: marginal utilities of tasks, for objectives that are sums over users.
* `powers`: Box-Cox powers, logarithms of sums, and the measure of the (beta, lambda) plane for given shares.
* `ranked`: the best levels for ordered weights at given costs.
* `terms`: polynomials, conditions on them, and optimality conditions of blocks in these, for `prove`.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
