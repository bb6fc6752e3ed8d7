"""What can be applied, from an answer: quotas of teams for Kubernetes, Kueue and Slurm.

Called with an answer, the package makes `Quotas`, with a `Quota` for each team and resource. `Quotas.diff` compares
them with present ones: `QuotaChanges`, with a `Change` for each.

The files:

* `owed`: of an answer and a format, which quotas are made, of what is owed or of a moment. `whole_tasks`: the answer in
  whole tasks; `handed_out`: what is left after rounding; `teams`: both in units, by team.
* `amounts`: the table, and new ClusterQueues; `bounded`: limits of Kubernetes and Slurm; `of_queues`: settings of the
  ClusterQueues of the input, and limits on what they borrow; `changes`: beside present quotas.
* `work`: what is in these ClusterQueues, and what Kueue gives it; `trial`: past weeks under other settings; `gangs`:
  jobs that start whole or not at all; `gpu_types`: GPUs by type.
* `quota`: one quota, and the table in CSV; `team_quotas`: those of all teams, and their changes; `tables`: both on a
  screen and in JSON.
* `cluster_queues`: for Kueue. `resource_quotas`: for Kubernetes; `objects`: its lists in YAML; `namespaces`: what is in
  them. `accounts`, `shares`: for Slurm.
* `present`: quotas that a cluster has now.
"""

from fairopt.runtime import public_names
from fairopt_clusters.callable import callable_room

__getattr__, __dir__ = public_names(__name__)
callable_room(__name__, "fairopt_clusters.quotas.owed:quotas")
