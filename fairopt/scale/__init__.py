"""Many instances at once, or more users than fit into one array.

The names for users, beside `fairopt.allocate_many` and `fairopt.allocate_sharded`: their results `Allocations` and
`ShardedAllocation`, and `Prepared`, which `fairopt.Policy.prepare` returns.
"""

from fairopt.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
