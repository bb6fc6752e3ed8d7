"""Many instances at once, or more users than fit into one array.

The names for users, beside `fairopt.allocate_many` and `fairopt.allocate_sharded`: their results `Allocations` and
`ShardedAllocation`, and `Prepared`, which `fairopt.Policy.prepare` returns.

The files:

* `many`: `allocate_many`, which returns `Allocations`; `own_notions`: user-defined objectives in it.
* `sharded`: `allocate_sharded`, which returns a `ShardedAllocation`.

The methods are in `fairopt.solve.batch` and `fairopt.solve.sharded`.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
