"""Queues of other schedulers as teams in levels: one data class, whatever file they come from.

* `tree`: `QueueTree`, and its checks. `teams`: what it means for tasks: labels, weights, what is owed, limits.
* `reader`: the tree in a file, known by what it holds.
* `kubernetes_objects`: the trees in lists of objects, and the queue of each pod.
* `pods`: what queues have, ask for and use, by nodes and pods.
* `kai`, `volcano`: Queue objects. `kueue`: ClusterQueues, Cohorts and Workloads.
  `cohorts`: what nodes of their trees have.
* `yunikorn`: ``queues.yaml``, alone or in its ConfigMap.
* `yarn`: ``fair-scheduler.xml``, ``capacity-scheduler.xml``. Accounts of Slurm are in `read.slurm.accounts`.
"""
