"""Allocations of whole tasks.

* `solve`: the choice of a method, and the certificate. `servers`: individual servers.
* `integer`: piecewise-linear objectives and leximin, by mixed-integer programs. `rounding`: rounded divisible answers.
* `greedy`: each task in turn to the user with the smallest share after it.

The names for packages that place whole tasks themselves: `WholeTasks` of a `Program`, `rounded`, `FROM_WHOLE` and
`decides_bundles`.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
