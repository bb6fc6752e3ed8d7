"""Quantities and numbers in files of queues; errors name the place, the value and the fix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.kubernetes.quantities import quantity

_GIB = 2**30
_CPU = {"cpu", "vcore", "vcores"}
_NAMES = dict.fromkeys(_CPU, "cpu") | {"memory-mb": "memory", "mem": "memory"}


def in_bytes(resource: str) -> bool:
    """Whether Kubernetes counts a resource in bytes, which are GiB here."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def amount(value: Any, resource: str, place: str) -> float:
    """A quantity of Kubernetes in cores, GiB or pieces."""
    try:
        found = quantity(value)
    except InvalidInstance as error:
        raise InvalidInstance(f"{place} is {shown(value)}; {error}") from None
    return float(found / _GIB if in_bytes(resource) else found)


def quantities(given: Any, place: str) -> dict[str, float]:
    """Quantities by resource, with the names that fairopt uses: ``vcore`` is ``cpu``."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInstance(f"{place} is {shown(given)}; give amounts by resource, as cpu: 8")
    named = [(usual(str(name)), value, f"{place}.{name}") for name, value in given.items()]
    return {name: amount(value, name, where) for name, value, where in named}


def usual(name: str) -> str:
    """The name that fairopt uses for a resource."""
    return _NAMES.get(name, name)


def number(value: Any, place: str, least: float = 0.0, fix: str = "") -> float:
    """A finite number of at least ``least``, given as a number or as text."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
            raise ValueError
        found = float(value)
    except (ValueError, OverflowError):
        found = math.nan
    if not least <= found < math.inf:
        raise InvalidInstance(f"{place} is {shown(value)}; {fix or f'give a number >= {least:g}'}")
    return found


def part_of(given: Any, *path: str) -> Any:
    """What a nested mapping holds at a path, None if it holds nothing there."""
    for key in path:
        given = given.get(key) if isinstance(given, Mapping) else None
    return given
