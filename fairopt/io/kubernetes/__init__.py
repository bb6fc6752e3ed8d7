"""Kubernetes: output of ``kubectl get nodes -o json`` and ``kubectl get pods -A -o json``.

* `reader`: the arguments of an instance from both.
* `nodes`: servers. `pods`: tasks.
* `placement`: taints, tolerations, node selectors and affinity.
* `quantities`: amounts such as ``500m`` and ``64Gi``.
* `lists`: fields that all objects have in common.
"""

from fairopt.io.kubernetes.reader import read_kubernetes

__all__ = ["read_kubernetes"]
