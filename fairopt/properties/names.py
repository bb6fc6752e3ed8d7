"""The properties by name: what they are called, what each says, and the short forms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar, TypeVar

from fairopt.errors import InvalidBlock, nearest

__all__ = ["ALIASES", "OF_ALLOCATIONS", "PROPERTIES", "ByProperty", "canonical", "given_labels", "property_name"]

T = TypeVar("T")

# What each says, in the order in which reports list them.
MEANING = {
    "pareto": "no feasible allocation gives everyone at least as many tasks and someone more",
    "sharing-incentive": "nobody would run more tasks on its own slice of every server",
    "envy-free": "nobody would run more tasks on what another holds, at its own weight",
    "strategy-proof": "nobody runs more tasks by reporting other demands",
    "strategy-proof-boosting": "nobody runs more tasks by reporting larger demands",
    "bottleneck": "everyone has all it asked for, or its entitlement of some full resource",
    "population-monotone": "when a user leaves, nobody else runs fewer tasks",
    "resource-monotone": "when a capacity grows, nobody runs fewer tasks",
}
PROPERTIES = tuple(MEANING)
OF_ALLOCATIONS = ("pareto", "sharing-incentive", "envy-free", "bottleneck")  # the others are about a mechanism
ALIASES = {
    "pe": "pareto", "si": "sharing-incentive", "ef": "envy-free", "sp": "strategy-proof",
    "sp-boosting": "strategy-proof-boosting", "bf": "bottleneck", "pm": "population-monotone",
    "rm": "resource-monotone",
    "pareto-efficiency": "pareto", "pareto-efficient": "pareto", "envy-freeness": "envy-free",
    "strategy-proofness": "strategy-proof", "bottleneck-fairness": "bottleneck", "bottleneck-fair": "bottleneck",
    "population-monotonicity": "population-monotone", "resource-monotonicity": "resource-monotone",
}  # fmt: skip


def canonical(text: object) -> str | None:
    """The canonical name of a property given by name or short form, or None if there is no such property."""
    if not isinstance(text, str):
        return None
    name = "-".join(text.strip().lower().replace("_", " ").replace("-", " ").split())
    name = ALIASES.get(name, name)
    return name if name in MEANING else None


def property_name(text: object) -> str:
    """The canonical name of a property.

    Parameters
    ----------
    text : str
        A name of `PROPERTIES` or a short form, as ``"pe"``, ``"si"``, ``"ef"``, ``"sp"``; capitals, spaces and
        underscores do not matter.

    Returns
    -------
    str

    Raises
    ------
    InvalidBlock
        If there is no such property; the message holds the nearest names.

    Examples
    --------
    >>> from fairopt.properties.names import property_name
    >>> property_name("PE"), property_name("envy_free"), property_name("sp-boosting")
    ('pareto', 'envy-free', 'strategy-proof-boosting')
    """
    name = canonical(text)
    if name is None:
        raise InvalidBlock(f"no property {text!r}; {nearest(text, (*PROPERTIES, *ALIASES))}")
    return name


def given_labels(labels: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """Labels of an instance's users, resources or servers, or none where they are those that an instance makes up.

    Examples
    --------
    >>> given_labels(("cpu", "memory"), "resource"), given_labels(("resource1", "resource2"), "resource")
    (('cpu', 'memory'), ())
    """
    made_up = tuple(f"{kind}{k + 1}" for k in range(len(labels)))
    return () if labels == made_up or (kind == "server" and labels == ("pool",)) else labels


class ByProperty(Mapping[str, T]):
    """A mapping whose keys are properties, by any of their names."""

    _done: ClassVar[str] = "looked at"  # what was done with the properties, for messages

    @abstractmethod
    def _entries(self) -> dict[str, T]:
        """What there is, by canonical name, in order."""

    @cached_property
    def _by_name(self) -> dict[str, T]:
        return self._entries()

    def __getitem__(self, name: str) -> T:
        known = property_name(name)
        if known not in self._by_name:
            raise KeyError(f"{known} was not {self._done}; this report has {', '.join(self._by_name) or 'nothing'}")
        return self._by_name[known]

    def __contains__(self, name: object) -> bool:
        return canonical(name) in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)
