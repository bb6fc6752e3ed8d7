"""Allocations of whole tasks.

* `solve`: the choice of a method, and the certificate. `servers`: individual servers.
* `integer`: piecewise-linear objectives and leximin, by mixed-integer programs. `rounding`: rounded divisible answers.
* `greedy`: each task in turn to the user with the smallest share after it.
"""
