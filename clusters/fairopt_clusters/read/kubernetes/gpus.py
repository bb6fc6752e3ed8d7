"""Parts of GPUs: profiles of MIG, GPUs shared by time-slicing or MPS, and parts that pods request.

Labels are those of NVIDIA's GPU Feature Discovery. With ``mig.strategy=mixed`` slices have names of their own, such as
``nvidia.com/mig-1g.10gb``, and so have GPUs that are renamed when shared; all others are ``nvidia.com/gpu``. Pods
request a part of a GPU, or MiB of its memory, by annotations of the KAI Scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io import About, Notes, quantity, shown
from fairopt.runtime import Bool, Float
from fairopt_clusters.read.kubernetes.kueue import Workload
from fairopt_clusters.read.kubernetes.objects import Node, Pod, PodSpec
from fairopt_clusters.read.slurm.devices import devices_of
from fairopt_clusters.read.slurm.fields import Amounts

GPU = "nvidia.com/gpu"
_PRODUCT, _STRATEGY, _REPLICAS = f"{GPU}.product", "nvidia.com/mig.strategy", f"{GPU}.replicas"
_CONFIG = "nvidia.com/mig.config"
_PROFILE = re.compile(r"MIG-(.+)$|^all-(.+)$")


def slice_of(node: Node) -> str:
    """What each ``nvidia.com/gpu`` of a server is a slice of: a profile of MIG, ``shared-8``; empty if it is whole.

    Examples
    --------
    >>> from fairopt_clusters.read.kubernetes.objects import Node
    >>> labels = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
    >>> slice_of(Node.model_validate({"metadata": {"name": "m", "labels": labels}}))
    '1g.10gb'
    """
    labels = node.labels
    replicas = labels.get(_REPLICAS, "1")
    shared = f"shared-{replicas}" if replicas.isdecimal() and int(replicas) > 1 else ""
    for text in (labels.get(_PRODUCT, ""), labels.get(_CONFIG, "")) if labels.get(_STRATEGY) == "single" else ():
        if match := _PROFILE.search(text.removesuffix("-SHARED")):
            profile = match[1] or match[2]
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
        gpus = Fraction(number)
        return Amounts({GPU: gpus}, {(GPU, kind): gpus} if kind else {})

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
        notes.say(About(f"one {GPU} counts as much as another, of whatever model: {listed}"))


# -- parts by annotations of the KAI Scheduler ----------------------------------------------------------------


_MEMORY_OF_GPU = f"{GPU}.memory"  # the label, in MiB, is of GPU Feature Discovery
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
PARTS = {_FRACTION, _MEMORY}  # annotations
_RESERVING = ("kai-resource-reservation", "runai-reservation")  # namespaces of pods that stand for GPUs in parts


def with_parts_of_gpus(
    pods: Sequence[Pod], workloads: Mapping[str, Workload], nodes: Sequence[Node], notes: Notes
) -> tuple[list[Pod], dict[str, Workload]]:
    """The pods, and templates in Workloads, of which those with an annotation request a part of ``nvidia.com/gpu``.

    Pods that reserve GPUs are left out. Memory is a part of the GPU of the pod's server, or of the smallest.
    """
    labels = {node.name: node.labels[_MEMORY_OF_GPU] for node in nodes if _MEMORY_OF_GPU in node.labels}
    known = {name: _number(text, f"the label {_MEMORY_OF_GPU} of server {name}") for name, text in labels.items()}
    out = []
    for pod in pods:
        if pod.namespace in _RESERVING:
            what = "{pod} of {namespace}, for GPUs that others share, {was} left out"
            notes.add(what, pod.name, namespace=pod.namespace)
        elif pod.finished:
            out.append(pod)
        else:
            spec = _with_part(pod.spec, pod.annotations, pod.name, 1, pod.server, known, notes)
            out.append(pod if spec is pod.spec else pod.model_copy(update={"spec": spec}))

    def changed(workload: Workload) -> Workload:
        return workload.with_specs(
            lambda of: _with_part(
                of.template.spec, of.template.annotations, workload.name, of.count, None, known, notes
            )
        )

    return out, {name: changed(workload) for name, workload in workloads.items()}


def _with_part(
    spec: PodSpec,
    given: Mapping[str, object],
    name: str,
    number: int,
    server: str | None,
    known: Mapping[str, Fraction],
    notes: Notes,
) -> PodSpec:
    """A spec with the part of a GPU that annotations request; ``known`` is the memory of GPUs by server."""
    if not given.keys() & PARTS or spec.request.get(GPU):
        return spec
    part = _number(given.get(_DEVICES, 1), f"the annotation {_DEVICES} of pod {name}")
    if _FRACTION in given:
        part *= _number(given[_FRACTION], f"the annotation {_FRACTION} of pod {name}")
    elif known:
        memory = known.get(server or "", min(known.values()))
        part *= _number(given[_MEMORY], f"the annotation {_MEMORY} of pod {name}") / memory
        unclear = server not in known and len({*known.values()}) > 1
        what = "{pod} with a part of a GPU's memory {counts} as on the smallest GPU"
        notes.add(what, *[name] * unclear, number=number * unclear)
    else:
        what = "{pod} with {annotation} {counts} as on a whole GPU: no server has the label {label}"
        notes.add(what, name, number=number, annotation=_MEMORY, label=_MEMORY_OF_GPU)
    what = "{pod} with a part of a GPU: the GPUs of a server are one amount, and a part may lie on two"
    notes.add(what, name, number=number)
    return spec.with_more({GPU: part})


def _number(value: object, what: str) -> Fraction:
    """A positive number, as text or not."""
    try:
        amount = quantity(value)
    except InvalidInstance:
        amount = Fraction(0)
    if not amount:
        raise InvalidInstance(f"{what} is {shown(value)}; give a number > 0")
    return amount
