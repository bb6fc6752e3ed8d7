"""What follows from an answer for those who run the cluster.

The names for users, beside `Allocation.explain`, which returns it: `Explanation`, with a `Binding` for each cause.

The files:

* `explain`: what stops a user or team, by answers after small changes (`raised`).
* `explanation`: the result; `words`: its sentences.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
