"""Allocations of whole tasks.

* `integer`: most tasks, max-min and leximin by mixed-integer programs. `rounding`: any divisible answer, rounded.
* `greedy`: one task after the other to the user with the smallest share after it.
"""
