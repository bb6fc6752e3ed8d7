"""Many instances, and users too many for one array: `allocate_many`, `allocate_sharded` and their results.

* `many`: `allocate_many`, which returns `Allocations`.
* `sharded`: `allocate_sharded`, which returns a `ShardedAllocation`.

The methods are in `fairopt.methods.batch` and `fairopt.methods.sharded`.
"""

from fairopt.scale.many import Allocations, allocate_many
from fairopt.scale.sharded import ShardedAllocation, allocate_sharded

__all__ = ["Allocations", "ShardedAllocation", "allocate_many", "allocate_sharded"]
