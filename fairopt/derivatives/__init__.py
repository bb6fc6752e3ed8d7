"""Derivatives of an optimum: prices, tasks and levels by the numbers of the instance.

The names for users: `fairopt.sensitivity` returns a `Sensitivity`, with `Derivatives` by each kind of number; its
`purchases` are each a `Purchase`.

The files:

* `optimum`: a policy's program at its answer, and the conditions on optimal multipliers there.
* `multipliers`: the set of optimal multipliers, and the minimum of a linear function over it.
* `prices`: prices of the objective, of every level of a leximin (`level_prices`), and in units of shares.
  `level_rises`: the derivatives of levels by capacities.
* `sensitivity`: derivatives of tasks by capacities, demands, weights and alpha, by `active_set` (smooth objectives)
  and `leximin`; which resource to buy next.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
