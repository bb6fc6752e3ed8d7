"""What follows from an answer for those who run the cluster.

The names for users, beside `Allocation.quotas`, which returns it: `Quotas`, with a `Quota` for each team and resource,
and their `QuotaChanges`, with a `Change` for each.

The files:

* `quotas`: quotas of teams, and their difference from present ones. `whole_tasks`: answers in whole tasks.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
