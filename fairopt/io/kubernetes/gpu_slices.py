"""Slices of GPUs that servers offer as ``nvidia.com/gpu``: profiles of MIG, and GPUs shared by time-slicing or MPS.

Labels are those of NVIDIA's GPU Feature Discovery. With ``mig.strategy=mixed`` slices have names of their own, such as
``nvidia.com/mig-1g.10gb``, and so have GPUs that are renamed when shared.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fractions import Fraction

import numpy as np

from fairopt.io.kubernetes.objects import Node
from fairopt.io.notes import Notes
from fairopt.io.slurm.devices import devices_of
from fairopt.io.slurm.fields import Amounts
from fairopt.runtime.arrays import Bool, Float

GPU = "nvidia.com/gpu"
_PRODUCT, _STRATEGY, _REPLICAS = f"{GPU}.product", "nvidia.com/mig.strategy", f"{GPU}.replicas"
_CONFIG = "nvidia.com/mig.config"
_PROFILE = re.compile(r"MIG-(.+)$|^all-(.+)$")


def slice_of(node: Node) -> str:
    """What each ``nvidia.com/gpu`` of a server is a slice of: a profile of MIG, ``shared-8``; empty if it is whole.

    Examples
    --------
    >>> from fairopt.io.kubernetes.objects import Node
    >>> labels = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
    >>> slice_of(Node.model_validate({"metadata": {"name": "m", "labels": labels}}))
    '1g.10gb'
    """
    labels = node.labels
    replicas = labels.get(_REPLICAS, "1")
    shared = f"shared-{replicas}" if replicas.isdecimal() and int(replicas) > 1 else ""
    for text in (labels.get(_PRODUCT, ""), labels.get(_CONFIG, "")) if labels.get(_STRATEGY) == "single" else ():
        if found := _PROFILE.search(text.removesuffix("-SHARED")):
            profile = found[1] or found[2]
            return "" if profile in ("disabled", "enabled") else profile
    return shared


def with_slices(
    servers: Sequence[Node],
    names: list[str],
    capacities: Float,
    tasks: Sequence[tuple[str, tuple[float, ...], Bool]],
    notes: Notes,
) -> tuple[list[str], Float, list[tuple[float, ...]]]:
    """The resources, capacities and requests in which slices of GPUs are resources of their own, as those of Slurm.

    ``tasks`` are given with their names, their requests and the servers where they may run.
    """
    kinds = [slice_of(server) for server in servers]
    requests = [request for _, request, _ in tasks]
    if GPU not in names or not any(kinds):
        return names, capacities, requests
    g = names.index(GPU)

    def amounts(number: float, kind: str = "") -> Amounts:
        found = Fraction(number)
        return Amounts({GPU: found}, {(GPU, kind): found} if kind else {})

    there = [amounts(float(number), kind) for number, kind in zip(capacities[:, g], kinds, strict=True)]
    asked = [(name, amounts(request[g]) if request[g] else Amounts(), where) for name, request, where in tasks]
    devices = devices_of(there, [], asked, notes, word="pod")
    labels = [f"{name}:{kind}" if kind else name for name, kind in devices.keys]
    of_servers = [[float(devices.of_server(one).get(key, 0)) for key in devices.keys] for one in there]
    columns = np.array(of_servers).reshape(len(there), len(labels))
    made = []
    for request, (_, one, where) in zip(requests, asked, strict=True):
        of_task = devices.of_task(one, where)
        made.append((*request[:g], *(float(of_task.get(key, 0)) for key in devices.keys), *request[g + 1 :]))
    return (
        [*names[:g], *labels, *names[g + 1 :]],
        np.hstack([capacities[:, :g], columns, capacities[:, g + 1 :]]),
        made,
    )


def note_models(servers: Sequence[Node], names: Sequence[str], flavors: Collection[str], notes: Notes) -> None:
    """Say if GPUs of several models, by label or else by flavor, count alike."""
    with_gpus = [server for server in servers if server.has.get(GPU) and GPU in names]
    labelled = {server.labels.get(_PRODUCT, "") for server in with_gpus if not slice_of(server)}
    models = labelled if labelled > {""} or len(labelled) > 1 else {*flavors}
    if with_gpus and len(models) > 1:
        listed = ", ".join(sorted(filter(None, models))[:5]) + (", ..." if len(models) > 5 else "")
        notes.say(f"one {GPU} counts as much as another, of whatever model: {listed}")
