"""Where a pod may run: taints against tolerations, node selectors, required node affinity."""

# ruff: noqa: N815, RUF012 - fields of pydantic models, under the names of Kubernetes

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import Part

__all__ = ["HARD", "Placement", "Taint"]

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_COMPARISONS = ("Gt", "Lt")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", *_COMPARISONS)


class Taint(Part):
    """What keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str

    @property
    def keeps_away(self) -> bool:
        """Whether it is more than a preference."""
        return self.effect in ("NoSchedule", "NoExecute")


class _Toleration(Part):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    @field_validator("operator")
    @classmethod
    def _known(cls, operator: str) -> str:
        if operator not in ("", "Equal", "Exists", *_COMPARISONS):
            raise InvalidInstance("give Equal or Exists")
        return operator

    def covers(self, taint: Taint) -> bool:
        """An empty effect stands for all effects, an empty key for all keys."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator in _COMPARISONS:
            return _compares(taint.value, self.operator, self.value)
        return self.operator == "Exists" or self.value == taint.value


class _Expression(Part):
    key: str
    operator: str
    values: Annotated[list[str], Field(validate_default=True)] = []

    @field_validator("operator")
    @classmethod
    def _known(cls, operator: str) -> str:
        if operator not in _OPERATORS:
            raise InvalidInstance("give one of " + ", ".join(_OPERATORS))
        return operator

    @field_validator("values")
    @classmethod
    def _fitting(cls, values: list[str], info: ValidationInfo) -> list[str]:
        operator = info.data.get("operator", "")
        if operator in ("In", "NotIn") and not values:
            raise InvalidInstance(f"give at least one value with {operator}")
        if operator in _COMPARISONS and (len(values) != 1 or not _WHOLE.fullmatch(values[0])):
            raise InvalidInstance("give one whole number as text, as ['4']")
        if operator in ("Exists", "DoesNotExist") and values:
            raise InvalidInstance(f"give no values with {operator}")
        return values

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in ("NotIn", "DoesNotExist"):  # true of those without the label too
            return value is None or (self.operator == "NotIn" and value not in self.values)
        if value is None:
            return False
        if self.operator in _COMPARISONS:
            return _compares(value, self.operator, self.values[0])
        return self.operator == "Exists" or value in self.values


def _compares(value: str, operator: str, bound: str) -> bool:
    """Whole numbers only; anything else is neither greater nor less."""
    if not (_WHOLE.fullmatch(value) and _WHOLE.fullmatch(bound)):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)


def _metadata_name(key: str) -> str:
    if key != "metadata.name":
        raise InvalidInstance("give metadata.name, the only field that can be asked for")
    return key


class _OnName(_Expression):
    key: Annotated[str, AfterValidator(_metadata_name)]

    @model_validator(mode="after")
    def _one_name(self) -> _OnName:
        if self.operator not in ("In", "NotIn") or len(self.values) != 1:
            raise InvalidInstance("give the operator In or NotIn, and one value")
        return self


class _Term(Part):
    matchExpressions: list[_Expression] = []
    matchFields: list[_OnName] = []

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether all expressions hold; a term without any matches no server."""
        found = [e.holds(labels) for e in self.matchExpressions]
        found += [e.holds({"metadata.name": name}) for e in self.matchFields]
        return bool(found) and all(found)


class _Terms(Part):
    nodeSelectorTerms: list[_Term] = []


class _NodeAffinity(Part):
    required: Annotated[_Terms | None, Field(alias=HARD)] = None


class _Between(Part):  # affinity between pods, which is not modelled
    required: Annotated[object, Field(alias=HARD)] = None


class _Affinity(Part):
    nodeAffinity: _NodeAffinity = _NodeAffinity()
    podAffinity: _Between = _Between()
    podAntiAffinity: _Between = _Between()


class Placement(Part):
    """The rules in the ``spec`` of a pod."""

    nodeSelector: dict[str, str] = {}
    affinity: _Affinity = _Affinity()
    tolerations: list[_Toleration] = []

    @property
    def key(self) -> str:
        """Equal for pods with equal rules."""
        return repr((self.nodeSelector, self.affinity.nodeAffinity, self.tolerations))

    def allows(self, name: str, labels: Mapping[str, str], taints: Collection[Taint]) -> bool:
        """Whether the pod may run on a server with this name, these labels and these taints."""
        if any(labels.get(key) != value for key, value in self.nodeSelector.items()):
            return False
        if not all(any(t.covers(taint) for t in self.tolerations) for taint in taints if taint.keeps_away):
            return False
        required = self.affinity.nodeAffinity.required
        return required is None or any(term.holds(name, labels) for term in required.nodeSelectorTerms)

    @property
    def only_server(self) -> str | None:
        """The name of the one server that the affinity asks for, as DaemonSets write it, or None."""
        required = self.affinity.nodeAffinity.required
        terms = required.nodeSelectorTerms if required else []
        found = {e.values[0] for term in terms for e in term.matchFields if e.operator == "In"}
        return found.pop() if len(found) == 1 else None
