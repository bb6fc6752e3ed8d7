"""Quotas of teams as text, and read back: CSV, ResourceQuotas of Kubernetes, ClusterQueues of Kueue, limits of Slurm.

* `quota`: one quota, its smallest unit, and names of resources.
* `csv_table`, `resource_quotas`, `cluster_queues`, `accounts`: the writer and the reader of each format.
* `namespaces`: pods of servers, which ResourceQuotas count, and the LocalQueues of teams.
* `objects`: lists of objects of Kubernetes as YAML. `present`: the reader for any of these files.
* `gangs`: what of an input starts whole or not at all, which quotas must have room for.
"""

from fairopt.io.quotas.quota import Quota

__all__ = ["Quota"]
