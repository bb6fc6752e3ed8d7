"""What people who run clusters do with fairopt: files of schedulers, quotas, reports, other schedulers on trial.

Three packages are also called: ``fc.read(path)``, ``fc.quotas(answer)`` and ``fc.report(answer)``. The packages:

* `callable`: how they are called.
* `read`: instances of Kubernetes, Kueue, KAI, Volcano, YuniKorn, YARN, Slurm and traces.
* `quotas`: what can be applied, from an answer. `report`: a page on a cluster; metrics for Prometheus (`prometheus`).
* `schedulers`: other schedulers' arithmetic as mechanisms. `policies`: Kueue's and Slurm's rules as policies.
* `commands`: ``quotas``, ``queues`` and ``report``, which ``fairopt`` finds by entry points.
"""

from fairopt.runtime import public_names

__version__ = "0.2.0"

__getattr__, __dir__ = public_names(__name__)
