"""Parts of GPUs that pods request by annotations of the KAI Scheduler: a fraction of one, or MiB of its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.kubernetes.kueue import Workload
from fairopt.io.kubernetes.objects import Node, Pod, PodSpec
from fairopt.io.kubernetes.quantities import quantity
from fairopt.io.notes import Notes

_GPU, _MEMORY_OF_GPU = "nvidia.com/gpu", "nvidia.com/gpu.memory"  # the label, in MiB, is of GPU Feature Discovery
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
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
    made = {}
    for name, workload in workloads.items():
        sets = []
        for of in workload.pod_sets:
            spec = _with_part(of.template.spec, of.template.annotations, workload.name, of.count, None, known, notes)
            template = of.template.model_copy(update={"spec": spec})
            sets.append(of if spec is of.template.spec else of.model_copy(update={"template": template}))
        made[name] = workload.model_copy(update={"pod_sets": sets})
    return out, made


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
    if not given.keys() & {_FRACTION, _MEMORY} or spec.request.get(_GPU):
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
    changed = spec.model_copy(update={"overhead": {**spec.overhead, _GPU: part}})
    changed.__dict__.pop("request", None)  # as cached
    return changed


def _number(value: object, what: str) -> Fraction:
    """A positive number, as text or not."""
    try:
        amount = quantity(value)
    except InvalidInstance:
        amount = Fraction(0)
    if not amount:
        raise InvalidInstance(f"{what} is {shown(value)}; give a number > 0")
    return amount
