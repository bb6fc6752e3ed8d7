"""Derivatives of an optimum: prices, tasks and levels by the numbers of the instance.

The names for users: `fairopt.sensitivity` returns a `Sensitivity`, with `Derivatives` by each kind of number; its
`purchases` are each a `Purchase`.

The files:

* `optimum`: a policy's program at its answer, and the conditions on optimal multipliers there.
* `multipliers`: all multipliers that satisfy these conditions, and the least of a linear function over them.
* `prices`: prices of the objective, of every level of a leximin, and in units of shares: what one more unit of a
  capacity is worth, and what one unit less costs. `level_rises`: by how much each level rises with each capacity.
* `sensitivity`: derivatives of tasks by capacities, demands, weights and alpha; which resource to buy next. `analysis`
  finds them by `active_set` (smooth objectives) and `leximin`, along `changes` of the data.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
