"""Parts of GPUs that pods request by annotations of the KAI Scheduler: a fraction of one, or MiB of its memory."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.kubernetes.objects import Node, Pod
from fairopt.io.kubernetes.quantities import quantity
from fairopt.io.notes import Notes

_GPU, _MEMORY_OF_GPU = "nvidia.com/gpu", "nvidia.com/gpu.memory"  # the label, in MiB, is of GPU Feature Discovery
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_RESERVING = ("kai-resource-reservation", "runai-reservation")  # namespaces of pods that stand for GPUs in parts


def with_parts_of_gpus(pods: Sequence[Pod], nodes: Sequence[Node], notes: Notes) -> list[Pod]:
    """The pods, of which those with an annotation request a part of ``nvidia.com/gpu``; without pods that reserve GPUs.

    Memory is a part of the GPU of the pod's server, or of the smallest that there is.
    """
    labels = {node.name: node.labels[_MEMORY_OF_GPU] for node in nodes if _MEMORY_OF_GPU in node.labels}
    known = {name: _number(text, f"the label {_MEMORY_OF_GPU} of server {name}") for name, text in labels.items()}
    out = []
    for pod in pods:
        if pod.namespace in _RESERVING:
            notes.add(
                "{pod} of {namespace}, for GPUs that others share, {was} left out", pod.name, namespace=pod.namespace
            )
            continue
        given = pod.annotations
        if pod.finished or not given.keys() & {_FRACTION, _MEMORY} or pod.spec.request.get(_GPU):
            out.append(pod)
            continue
        part = _number(given.get(_DEVICES, 1), f"the annotation {_DEVICES} of pod {pod.name}")
        if _FRACTION in given:
            part *= _number(given[_FRACTION], f"the annotation {_FRACTION} of pod {pod.name}")
        elif known:
            memory = known.get(pod.server or "", min(known.values()))
            part *= _number(given[_MEMORY], f"the annotation {_MEMORY} of pod {pod.name}") / memory
            unclear = pod.server not in known and len({*known.values()}) > 1
            notes.add("{pod} with a part of a GPU's memory {counts} as on the smallest GPU", *[pod.name] * unclear)
        else:
            what = "{pod} with {annotation} {counts} as on a whole GPU: no server has the label {label}"
            notes.add(what, pod.name, annotation=_MEMORY, label=_MEMORY_OF_GPU)
        notes.add(
            "{pod} with a part of a GPU: the GPUs of a server are one amount, and a part may lie on two", pod.name
        )
        spec = pod.spec.model_copy(update={"overhead": {**pod.spec.overhead, _GPU: part}})
        spec.__dict__.pop("request")  # as cached
        out.append(pod.model_copy(update={"spec": spec}))
    return out


def _number(value: object, what: str) -> Fraction:
    """A positive number, as text or not."""
    try:
        amount = quantity(value)
    except InvalidInstance:
        amount = Fraction(0)
    if not amount:
        raise InvalidInstance(f"{what} is {shown(value)}; give a number > 0")
    return amount
