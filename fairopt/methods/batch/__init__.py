"""Many small instances of one shape at once, in step.

* `allocate_many`: the function, and the allocations it gives.
* `waterfilling`, `alpha_fair`, `max_sum`: the methods of one pool, over all instances of a chunk.
"""
