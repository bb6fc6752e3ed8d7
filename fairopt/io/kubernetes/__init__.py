"""Kubernetes: an instance from what ``kubectl get nodes -o json`` and ``kubectl get pods -A -o json`` give."""

from fairopt.io.kubernetes.reader import kubernetes

__all__ = ["kubernetes"]
