"""Kubernetes: output of ``kubectl get nodes -o json`` and ``kubectl get pods -A -o json``.

* `reader`: the arguments of an instance from both.
* `objects`: nodes and pods. `placement`: taints, tolerations, node selectors and affinity.
* `quantities`: amounts such as ``500m`` and ``64Gi``.
"""

from fairopt.io.kubernetes.reader import read_kubernetes

__all__ = ["read_kubernetes"]
