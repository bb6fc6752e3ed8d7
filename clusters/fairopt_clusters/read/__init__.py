"""Files of clusters as instances: what `fairopt.read` finds by entry points, and functions for each kind.

* `kinds`: how inputs are recognised, and their options; `instances`: the functions `fairopt_clusters.read_kubernetes`,
  ``read_slurm``, ``read_queues`` and so on.
* `kubernetes`: output of ``kubectl`` and manifests. `slurm`: output of ``scontrol``, ``squeue`` and ``sacct``.
* `queues`: queues of other schedulers as trees and as teams.
* `clusterdata`, `openb`: traces of production clusters; `openb_jobs`: the second as jobs for simulations.
* `gavel`: throughputs of jobs by type of device. `swf`: traces in the Standard Workload Format.
* `documents`: documents of JSON and YAML, and the objects of Kubernetes in them; `snapshot`: those of KAI.
* `amounts`: amounts by resource in files.
* `work`: tasks of owners (namespaces, accounts) to users. `secured`: what quotas secure for them.
"""

from fairopt_clusters.callable import callable_room

callable_room(__name__, "fairopt.datasets:read")
