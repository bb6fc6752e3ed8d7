"""Kubernetes: what ``kubectl get nodes -o json`` and ``kubectl get pods -A -o json`` give.

* `reader`: from both to the arguments of an instance.
* `nodes`, `pods`: servers and tasks. `placement`: taints, tolerations, node selectors and affinity.
* `quantities`: amounts as ``500m`` and ``64Gi``. `lists`: what all objects have in common.
"""

from fairopt.io.kubernetes.reader import read_kubernetes

__all__ = ["read_kubernetes"]
