"""Kubernetes: output of ``kubectl get nodes -o json`` and ``kubectl get pods -A -o json``, and the objects of Kueue.

* `reader`: the arguments of an instance from all of them.
* `objects`: nodes, pods, and lists of objects. `placement`: taints, tolerations, node selectors and affinity.
* `kueue`: Workloads, ClusterQueues, LocalQueues, Cohorts and ResourceFlavors. `queues`: what they mean.
  `cohorts`: trees of cohorts as numbers.
* `manifests`: Jobs, Deployments and other objects with templates of pods, as Workloads.
  `additions`: what Kubernetes adds to pods when they are made, devices that they claim, and namespaces at their
  ResourceQuotas, whose further pods are in no list.
* `gpus`: slices that servers offer as ``nvidia.com/gpu``, and parts of GPUs by annotations of the KAI Scheduler.
* `capacity`: servers of a cluster without nodes. `transformations`: what Kueue makes of requests.
* `topology`: sets of pods that must lie together.
* `unread`: notes on objects and annotations of other schedulers.
"""
