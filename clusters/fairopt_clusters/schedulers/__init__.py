"""The arithmetic of other schedulers, written from their formulas: what a cluster gives, not what is fair.

Each has ``divide(tree)``, a table by queue and resource, and ``allocate(instance)``, whose certificate shows
feasibility only. Each names the file and the commit that its formulas are from.

* `base`: what they have in common: checks of a tree, a tree of an instance, the tasks that a division pays for.
* `filling`: division level by level, and water-filling of one resource among the queues of a level.
* `kai`: KAI's division. `yunikorn`: YuniKorn's fair share. `volcano`: three plugins of Volcano.
* `hdrf`: hierarchical DRF as one of them computes it.
* `slurm`: Slurm's factors, and what Fair Tree steers to.
* `kueue`: Kueue's dominant resource share, and whom it preempts. `cohorts`: what nodes of its tree have, lend and use.
* `start`: whether a workload could start, in which flavors. `whole`: what is fair where workloads start whole.
* `in_order`: what queues ask for of flavors in order. `classical`: whom Kueue preempts without fair sharing.
* `preemption`: its rules of preemption, and the search for whom to preempt. `smallest`: the fewest that would do.
* `course`: workloads over time under Kueue.
* `replay`: its cycles of admission and preemption one after the other.
* `comparison`: what a scheduler gives beside a certified answer. `manifests`: queues as files of their schedulers.
* `trial`: properties of schedulers. `draws`: small trees of queues, and smaller ones. `search`: their audit.
* `arrivals`: properties of Kueue's preemption, on workloads that arrive one by one.
"""

from fairopt.runtime import public_names

__getattr__, __dir__ = public_names(__name__)
