"""Kueue's resource transformations: what pods request beside their requests, such as a credit for each core.

They stand in Kueue's Configuration, alone or in the ConfigMap of its manager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import About, Notes, documents_of_yaml, quantity_at, shown
from fairopt_clusters.read.amounts import part_of
from fairopt_clusters.read.kubernetes.kueue import Workload
from fairopt_clusters.read.kubernetes.objects import Node, Pod, PodSpec

_GROUP, _FILE = "config.kueue.x-k8s.io", "controller_manager_config.yaml"
Amounts = Mapping[str, Fraction]


@dataclass(frozen=True)
class Transformation:
    """Outputs for each unit of an input, times what is requested of another resource if there is one."""

    input: str
    outputs: Amounts
    by: str = ""

    def of(self, amounts: Amounts) -> dict[str, Fraction]:
        """The outputs for some amounts."""
        given = amounts.get(self.input, Fraction(0)) * (amounts.get(self.by, Fraction(1)) if self.by else 1)
        return {name: given * amount for name, amount in self.outputs.items() if given * amount}


def transformations_in(objects: Iterable[tuple[Mapping[str, Any], str]], notes: Notes) -> list[Transformation]:
    """The transformations among objects given with their places, of those that retain their input."""
    out = list[Transformation]()
    for data, place in configurations_in(objects):
        for k, one in enumerate(part_of(data, "resources", "transformations") or ()):
            where = f"{place}: resources.transformations[{k}]"
            if part_of(one, "strategy") == "Replace":
                notes.say(f"the transformation that replaces {shown(one.get('input'))} is not read")
                continue
            out.append(_read(one, where))
    return out


def configurations_in(objects: Iterable[tuple[Mapping[str, Any], str]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The configurations of Kueue among objects given with their places, also as text in a ConfigMap."""
    for item, place in objects:
        text = part_of(item, "data", _FILE) if item.get("kind") == "ConfigMap" else None
        documents = [one.data for one in documents_of_yaml(text, f"{place}.data")] if isinstance(text, str) else [item]
        for data in documents:
            if str(part_of(data, "apiVersion") or "").startswith(f"{_GROUP}/"):
                yield data, place


def _read(given: Any, place: str) -> Transformation:
    name, outputs = part_of(given, "input"), part_of(given, "outputs")
    if not isinstance(name, str) or not isinstance(outputs, Mapping):
        raise InvalidInstance(f"{place} is {shown(given)}; give an input, as cpu, and outputs, as cpu_credits: 1")
    amounts = {str(key): quantity_at(value, f"{place}.outputs.{key}") for key, value in outputs.items()}
    return Transformation(name, amounts, str(part_of(given, "multiplyBy") or ""))


def with_outputs(
    found: list[Transformation], pods: list[Pod], workloads: Mapping[str, Workload], servers: list[Node], notes: Notes
) -> tuple[list[Pod], dict[str, Workload], list[Node]]:
    """Pods and sets of pods that request outputs too, and servers that have as much of them as of their inputs."""
    if not found:
        return pods, dict(workloads), servers
    made = {name: one.with_specs(lambda of: _with(of.template.spec, found)) for name, one in workloads.items()}
    have = [one.model_copy(update={"allocatable": {**one.has, **_sum(one.has, found)}}) for one in servers]
    names = ", ".join(dict.fromkeys(name for one in found for name in one.outputs))
    what = f"by Kueue's transformations pods request {names} too, and servers have as much as of what it is made of"
    notes.say(About(what))
    return [pod.model_copy(update={"spec": _with(pod.spec, found)}) for pod in pods], made, have


def _with(spec: PodSpec, found: list[Transformation]) -> PodSpec:
    outputs = _sum(spec.request, found)
    return spec.with_more(outputs) if outputs else spec


def _sum(amounts: Amounts, found: list[Transformation]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for one in found:
        for name, amount in one.of(amounts).items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total
