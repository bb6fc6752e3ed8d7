"""Allocations of whole tasks.

* `solve`: which way applies, and what the gate says of the answer. `servers`: individual servers.
* `integer`: piecewise linear objectives and leximin, by mixed-integer programs. `rounding`: divisible answers, rounded.
* `greedy`: one task after the other to the user with the smallest share after it.
"""
