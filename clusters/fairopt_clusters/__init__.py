"""What people who run clusters do with fairopt: files of schedulers, quotas, reports, other schedulers on trial.

`quotas_of`, `cluster_report` and `prometheus` say what follows from answers; other names are in these packages:

* `read`: instances of Kubernetes, Kueue, KAI, Volcano, YuniKorn, YARN, Slurm and traces.
* `quotas`: what can be applied, from an answer. `report`: a page on a cluster; metrics for Prometheus.
* `schedulers`: other schedulers' arithmetic as mechanisms. `policies`: Kueue's and Slurm's rules as policies.
* `commands`: ``quotas``, ``queues`` and ``report``, which ``fairopt`` finds by entry points.
"""

from fairopt.runtime import public_names

__version__ = "0.2.0"

__getattr__, __dir__ = public_names(__name__)
