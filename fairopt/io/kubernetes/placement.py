"""Where a pod may run: taints against tolerations, node selectors, required node affinity."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fairopt.io.json_text import Entry

__all__ = ["Placement", "Taint", "placement_of", "taints_of"]

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_COMPARISONS = ("Gt", "Lt")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", *_COMPARISONS)
_KEEPS_AWAY = ("NoSchedule", "NoExecute")  # PreferNoSchedule is a preference only


@dataclass(frozen=True)
class Taint:
    """What keeps pods away that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class _Toleration:
    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """An empty effect stands for all effects, an empty key for all keys."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator == "Exists":
            return True
        if self.operator in _COMPARISONS:
            return _compares(taint.value, self.operator, self.value)
        return self.value == taint.value


@dataclass(frozen=True)
class _Expression:
    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        if self.operator == "NotIn":  # true of those without the label too
            return value is None or value not in self.values
        if self.operator == "In":
            return value is not None and value in self.values
        return value is not None and _compares(value, self.operator, self.values[0])


def _compares(value: str, operator: str, bound: str) -> bool:
    """Whole numbers only; anything else is neither greater nor less."""
    if not (_WHOLE.fullmatch(value) and _WHOLE.fullmatch(bound)):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)


@dataclass(frozen=True)
class Placement:
    """The rules of one pod; pods with equal rules are equal here.

    Attributes
    ----------
    selector : frozenset of pairs
        Labels that a server must have.
    terms : frozenset of pairs of frozensets, or None
        Required affinity: expressions on labels and on the name that hold together, one term or another. None if
        nothing is required; without any term nothing fits.
    tolerations : frozenset
    """

    selector: frozenset[tuple[str, str]] = frozenset()
    terms: frozenset[tuple[frozenset[_Expression], frozenset[_Expression]]] | None = None
    tolerations: frozenset[_Toleration] = frozenset()

    def allows(self, name: str, labels: Mapping[str, str], taints: Collection[Taint]) -> bool:
        """Whether the pod may run on a server with this name, these labels and these taints."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        if not all(any(toleration.covers(taint) for toleration in self.tolerations) for taint in taints):
            return False
        return self.terms is None or any(
            all(e.holds(labels) for e in on_labels) and all(e.holds({"metadata.name": name}) for e in on_name)
            for on_labels, on_name in self.terms
        )

    @property
    def only_server(self) -> str | None:
        """The name of the one server that the affinity asks for, as DaemonSets write it, or None."""
        found = {
            expression.values[0]
            for _, on_name in self.terms or ()
            for expression in on_name
            if expression.operator == "In"
        }
        return found.pop() if len(found) == 1 else None


def taints_of(spec: Entry) -> tuple[Taint, ...]:
    """The taints of a node that keep pods away."""
    found = (
        Taint(taint["key"].text(), taint["value"].text(""), taint["effect"].text())
        for taint in spec["taints"].entries()
    )
    return tuple(taint for taint in found if taint.effect in _KEEPS_AWAY)


def placement_of(spec: Entry) -> Placement:
    """The rules in the ``spec`` of a pod."""
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return Placement(
        frozenset((key, value.text("")) for key, value in spec["nodeSelector"].fields()),
        _terms(required) if required else None,
        frozenset(_toleration(entry) for entry in spec["tolerations"].entries()),
    )


def _toleration(entry: Entry) -> _Toleration:
    operator = entry["operator"].text("") or "Equal"
    if operator not in ("Equal", "Exists", *_COMPARISONS):
        entry["operator"].refuse("give Equal or Exists")
    value = entry["value"].text("") if operator != "Exists" else ""
    return _Toleration(entry["key"].text(""), operator, value, entry["effect"].text(""))


def _terms(required: Entry) -> frozenset[tuple[frozenset[_Expression], frozenset[_Expression]]]:
    """The terms that ask for something: an empty one matches no server."""
    terms = (
        (
            frozenset(_expression(entry) for entry in term["matchExpressions"].entries()),
            frozenset(_on_name(entry) for entry in term["matchFields"].entries()),
        )
        for term in required["nodeSelectorTerms"].entries()
    )
    return frozenset((on_labels, on_name) for on_labels, on_name in terms if on_labels or on_name)


def _expression(entry: Entry) -> _Expression:
    operator = entry["operator"].text()
    if operator not in _OPERATORS:
        entry["operator"].refuse("give one of " + ", ".join(_OPERATORS))
    values = tuple(value.text() for value in entry["values"].entries())
    if operator in ("In", "NotIn") and not values:
        entry["values"].refuse("give at least one value")
    if operator in _COMPARISONS and (len(values) != 1 or not _WHOLE.fullmatch(values[0])):
        entry["values"].refuse("give one whole number as text, as ['4']")
    if operator in ("Exists", "DoesNotExist") and values:
        entry["values"].refuse(f"give no values with {operator}")
    return _Expression(entry["key"].text(), operator, tuple(sorted(set(values))))


def _on_name(entry: Entry) -> _Expression:
    expression = _expression(entry)
    if expression.key != "metadata.name":
        entry["key"].refuse("give metadata.name, the only field that can be asked for")
    if expression.operator not in ("In", "NotIn") or len(expression.values) != 1:
        entry.refuse("give the operator In or NotIn, and one value")
    return expression
