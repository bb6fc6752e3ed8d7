"""Prices as derivatives: what one more unit of a capacity is worth, and what one unit less costs.

* `prices`: prices of the objective, of every level of a leximin, and in units of shares.
* `level_rises`: by how much each level of a leximin rises with each capacity.
* `optimum`: a policy's program at its answer, and the conditions on optimal multipliers there.
* `multipliers`: all multipliers that satisfy these conditions, and the least of a linear function over them.
"""
