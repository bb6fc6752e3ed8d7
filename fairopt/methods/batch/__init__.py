"""Many small instances of one shape, solved at the same time.

* `waterfilling`, `alpha_fair`, `max_sum`: the methods of one pool, vectorised over the instances of a chunk.
"""
