"""The methods of one pool, vectorised over the instances of a chunk: `waterfilling`, `alpha_fair` and `max_sum`."""
