"""What follows from an answer for those who run the cluster.

The names for users, beside `Allocation.explain` and `Allocation.quotas`, which return them: `Explanation`, with a
`Binding` for each cause; `Quotas`, with a `Quota` for each team and resource, and their `QuotaChanges`, with a `Change`
for each.

The files:

* `explain`: what stops a user or team, by answers after small changes (`raised`).
* `explanation`: the result; `words`: its sentences.
* `quotas`: quotas of teams, and their difference from present ones. `whole_tasks`: answers in whole tasks.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
