"""Where a pod may run: taints against tolerations, node selectors, required node affinity."""

# ruff: noqa: N815 - fields of pydantic models, under the names of Kubernetes

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from fairopt.errors import InvalidInstance
from fairopt.io import Part

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def _sign(value: str | None, bound: str) -> int:
    """1 if a value is greater than a bound, -1 if less, 0 if equal or if one is not a whole number."""
    if value is None or not (_WHOLE.fullmatch(value) and _WHOLE.fullmatch(bound)):
        return 0
    return (int(value) > int(bound)) - (int(value) < int(bound))


_OPERATORS: dict[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,  # true without the label too
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: _sign(value, values[0]) > 0,
    "Lt": lambda value, values: _sign(value, values[0]) < 0,
}


def _one_of(*names: str) -> AfterValidator:
    def known(name: str) -> str:
        if name not in names:
            raise InvalidInstance(f"give {'one of ' * (len(names) > 1)}{', '.join(filter(None, names))}")
        return name

    return AfterValidator(known)


class Taint(Part):
    """A taint of a server: it repels pods that do not tolerate it."""

    key: str
    value: str = ""
    effect: str

    @property
    def repels(self) -> bool:
        """Whether the taint is binding, not a preference."""
        return self.effect in ("NoSchedule", "NoExecute")


_NAME = "kubernetes.io/metadata.name"  # the label that Kubernetes gives to each namespace


class Toleration(Part):
    """What lets a pod onto servers with a taint."""

    key: str = ""
    operator: Annotated[str, _one_of("", "Equal", "Exists", "Gt", "Lt")] = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Whether it lets pods onto servers with a taint; an empty effect or key stands for all."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return _OPERATORS.get(self.operator, _OPERATORS["In"])(taint.value, [self.value])


class _Expression(Part):
    key: str
    operator: Annotated[str, _one_of(*_OPERATORS)]
    values: list[str] = Field(default_factory=list, validate_default=True)

    @field_validator("values")
    @classmethod
    def _fitting(cls, values: list[str], info: ValidationInfo) -> list[str]:
        operator = info.data.get("operator", "")
        if operator in ("In", "NotIn") and not values:
            raise InvalidInstance(f"give at least one value with {operator}")
        if operator in ("Gt", "Lt") and (len(values) != 1 or not _WHOLE.fullmatch(values[0])):
            raise InvalidInstance("give one whole number as text, as ['4']")
        if operator in ("Exists", "DoesNotExist") and values:
            raise InvalidInstance(f"give no values with {operator}")
        return values

    def holds(self, labels: Mapping[str, str]) -> bool:
        return _OPERATORS[self.operator](labels.get(self.key), self.values)

    def text(self, key: str) -> str:
        """The expression in the notation of kubectl, with its key or a part of it."""
        if self.operator in ("In", "NotIn") and len(self.values) == 1:
            return f"{key}{'!' * (self.operator == 'NotIn')}={self.values[0]}"
        if self.operator in ("Exists", "DoesNotExist"):
            return f"{'!' * (self.operator == 'DoesNotExist')}{key}"
        if self.operator in ("Gt", "Lt"):
            return f"{key}{'>' if self.operator == 'Gt' else '<'}{self.values[0]}"
        return f"{key} {self.operator.lower()} ({','.join(self.values)})"


class NamespaceSelector(Part):
    """Which namespaces an object is for, by their labels; without conditions all."""

    matchLabels: dict[str, str] = Field(default_factory=dict)
    matchExpressions: list[_Expression] = Field(default_factory=list)

    @property
    def other_labels(self) -> list[str]:
        """The labels that it asks for, but for the name."""
        return sorted({*self.matchLabels, *(one.key for one in self.matchExpressions)} - {_NAME})

    def excludes(self, namespace: str, given: Mapping[str, str] | None) -> bool:
        """Whether a namespace is out by its name and the labels given; by its name alone if these are not known."""
        labels = {**(given or {}), _NAME: namespace}
        equal = [
            labels.get(key) == value for key, value in self.matchLabels.items() if given is not None or key == _NAME
        ]
        others = [one.holds(labels) for one in self.matchExpressions if given is not None or one.key == _NAME]
        return not all([*equal, *others])


class _OnName(_Expression):
    key: Annotated[str, _one_of("metadata.name")]

    @model_validator(mode="after")
    def _one_name(self) -> _OnName:
        if self.operator not in ("In", "NotIn") or len(self.values) != 1:
            raise InvalidInstance("give the operator In or NotIn, and one value")
        return self


class _Term(Part):
    matchExpressions: list[_Expression] = Field(default_factory=list)
    matchFields: list[_OnName] = Field(default_factory=list)

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether all expressions hold; a term without any matches no server."""
        expressions = [*self.matchExpressions, *self.matchFields]
        return bool(expressions) and all(expression.holds(labels) for expression in expressions)


class _Terms(Part):
    nodeSelectorTerms: list[_Term] = Field(default_factory=list)


class _NodeAffinity(Part):
    required: Annotated[_Terms | None, Field(validation_alias=HARD)] = None


class _Affinity(Part):
    nodeAffinity: _NodeAffinity = Field(default_factory=_NodeAffinity)
    podAffinity: dict[str, Any] = Field(default_factory=dict)
    podAntiAffinity: dict[str, Any] = Field(default_factory=dict)


class Placement(Part):
    """The placement rules in the ``spec`` of a pod; without required affinity terms every server fits."""

    nodeSelector: dict[str, str] = Field(default_factory=dict)
    affinity: _Affinity = Field(default_factory=_Affinity)
    tolerations: list[Toleration] = Field(default_factory=list)

    @cached_property
    def key(self) -> str:
        """A text that is equal for pods with equal rules."""
        return repr((self.nodeSelector, self.affinity.nodeAffinity, self.tolerations))

    def placed_as(self, other: Placement) -> Self:
        """The same with the rules of another."""
        return self._with(nodeSelector=other.nodeSelector, affinity=other.affinity, tolerations=other.tolerations)

    def tolerating(self, keys: Sequence[str]) -> Self:
        """The same with tolerations of taints NoSchedule with some keys."""
        more = [Toleration(key=key, operator="Exists", effect="NoSchedule") for key in keys]
        return self._with(tolerations=[*self.tolerations, *more]) if more else self

    def tolerates(self, taints: Collection[Taint], more: Sequence[Toleration] = ()) -> bool:
        """Whether it has tolerations for all taints that bind, with ``more`` tolerations beside its own."""
        return all(any(t.covers(taint) for t in (*self.tolerations, *more)) for taint in taints if taint.repels)

    def anywhere(self) -> Self:
        """The same without rules on labels and names of servers."""
        affinity = self.affinity.model_copy(update={"nodeAffinity": _NodeAffinity()})
        return self._with(nodeSelector={}, affinity=affinity)

    def without_labels(self, labels: Collection[str]) -> Self:
        """The same without some labels in the node selector."""
        kept = {key: value for key, value in self.nodeSelector.items() if key not in labels}
        return self._with(nodeSelector=kept)

    def _with(self, **changes: Any) -> Self:
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_construct(**fields | changes)

    @property
    def texts(self) -> tuple[str, str]:
        """The rules that restrict the pod, and all rules with whole keys, as text."""
        return self._text(lambda key: key.rpartition("/")[2]), ",".join(
            filter(None, [self._text(str), *(f"tolerates {t.key}={t.value}:{t.effect}" for t in self.tolerations)])
        )

    def _text(self, shown: Callable[[str], str]) -> str:
        """The node selector and the required affinity, with keys as they are to be shown."""
        selected = [f"{shown(key)}={value}" for key, value in sorted(self.nodeSelector.items())]
        required = self.affinity.nodeAffinity.required or _Terms()
        terms = [
            [e.text(shown(e.key)) for e in (*t.matchExpressions, *t.matchFields)] for t in required.nodeSelectorTerms
        ]
        return ",".join([*selected, *filter(None, ["|".join(map(",".join, terms))])])

    def allows(
        self, name: str, labels: Mapping[str, str], taints: Collection[Taint], more: Sequence[Toleration] = ()
    ) -> bool:
        """Whether the pod may run on a server with this name, these labels and these taints.

        ``more`` are tolerations that are added to its own.
        """
        if any(labels.get(key) != value for key, value in self.nodeSelector.items()):
            return False
        if not self.tolerates(taints, more):
            return False
        required = self.affinity.nodeAffinity.required
        marks = {**labels, "metadata.name": name}
        return required is None or any(term.holds(marks) for term in required.nodeSelectorTerms)

    def may_have(self, labels: Mapping[str, str]) -> bool:
        """Whether it may have a flavor with some labels of servers: of its rules those count that are on these."""
        required = self.affinity.nodeAffinity.required or _Terms()
        terms = [[one for one in term.matchExpressions if one.key in labels] for term in required.nodeSelectorTerms]
        selected = all(labels.get(key, value) == value for key, value in self.nodeSelector.items())
        return selected and (not terms or any(all(one.holds(labels) for one in term) for term in terms))

    @property
    def only_server(self) -> str | None:
        """The single server that the affinity names, as DaemonSets write it, or None."""
        required = self.affinity.nodeAffinity.required or _Terms()
        hosts = {e.values[0] for term in required.nodeSelectorTerms for e in term.matchFields if e.operator == "In"}
        return hosts.pop() if len(hosts) == 1 else None
