"""What follows from an answer for those who run the cluster.

The names for users, beside `Allocation.explain`, `Allocation.quotas` and `fairopt.what_if`, which return them:
`Explanation`, with a `Binding` for each cause; `Quotas`, with a `Quota` for each team and resource, and their
`QuotaChanges`, with a `Change` for each; `WhatIf`; and `diff`, what changed between two answers, a `Diff`.

The files:

* `team_sums`, `server_sums`: answers summed by team and by server. `server_names`: rows of servers in sentences.
* `held`: what runs now beside what a policy gives.
* `explain`: what stops a user or team (`explained_answer`), by answers after small changes (`raised`).
* `explanation`: the result; `words`: its sentences.
* `quotas` makes quotas of teams, `team_quotas` holds them and their difference from present ones.
  `whole_tasks`: answers in whole tasks; `handed_out`: what is left after rounding; `bounded`: what limits of
  Kubernetes and Slurm bound. `gpu_types`: GPUs by type, for limits of Slurm.
* `fitting`: tasks that fit on no server.
* `what_if`: the answers before and after a change, and who gains and loses; `changed`: the changed instance.
  `differences`: the same of two answers, and because of what.
* `purchases`: what more of each resource and one more of each server bring, by solving again. `new_servers`: servers of
  types that the cluster has not.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
