"""Many small instances of one shape, solved at the same time.

* `allocate_many`: the function, and the allocations that it returns.
* `waterfilling`, `alpha_fair`, `max_sum`: the methods of one pool, vectorised over the instances of a chunk.
"""
