"""Quotas of teams as text, and read back: CSV, ResourceQuotas of Kubernetes, ClusterQueues of Kueue, limits of Slurm.

* `quota`: one quota, its smallest unit, names of resources, and the CSV table.
* `resource_quotas`, `cluster_queues`, `accounts`: the writer and the reader of each format.
* `objects`: lists of objects of Kubernetes as YAML. `present`: the reader for any of these files.
* `gangs`: what of an input starts whole or not at all. `namespaces`: what is in namespaces.
"""

from fairopt.io.quotas.quota import Quota

__all__ = ["Quota"]
