"""Methods of one pool for the instances of a chunk: `waterfilling`, `alpha_fair` and `max_sum`, which are vectorised
over them, and `cones`, user-defined objectives one after the other.
"""
