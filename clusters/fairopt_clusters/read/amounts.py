"""Names and amounts in files of clusters: quantities by resource, such as ``500m`` or ``2Gi``, and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, PlainValidator

from fairopt.errors import InvalidInstance
from fairopt.io import in_units, quantity, quantity_at, shown

_NAMES = {"vcore": "cpu", "vcores": "cpu", "memory-mb": "memory", "mem": "memory"}
_MOST = 2.0**63  # the largest quantity of Kubernetes, and more than any cluster has
NAME = "capacity"  # of the server that has a given one
Quantity = Annotated[Fraction, PlainValidator(quantity)]


def _printable(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise InvalidInstance("give a name of printable characters")
    return name.strip()


Name = Annotated[str, AfterValidator(_printable)]


def quantities(given: Any, place: str) -> dict[str, float]:
    """Quantities by resource, with the names that fairopt uses: ``vcore`` is ``cpu``."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInstance(f"{place} is {shown(given)}; give amounts by resource, as cpu: 8")
    named = [(usual(str(name)), quantity_at(value, f"{place}.{name}")) for name, value in given.items()]
    return {name: in_units(amount, name) for name, amount in named}


def matching(name: str, known: Iterable[str]) -> str | None:
    """The one of some names of resources that is meant: the name, or the only one with the same last part.

    Two different domains are two resources.

    Examples
    --------
    >>> matching("gpu", ["cpu", "nvidia.com/gpu"]), matching("gpu", ["amd.com/gpu", "nvidia.com/gpu"])
    ('nvidia.com/gpu', None)
    >>> matching("amd.com/gpu", ["cpu", "nvidia.com/gpu"])
    """
    names = [*known]
    if name in names:
        return name
    domain, _, last = name.rpartition("/")
    parts = [(one, *one.rpartition("/")[::2]) for one in names]
    alike = [one for one, other, end in parts if end == last and not ("." in domain and "." in other)]
    return alike[0] if len(alike) == 1 else None


def usual(name: str) -> str:
    """The name that fairopt uses for a resource."""
    return _NAMES.get(name, name)


def number(value: Any, place: str, least: float = 0.0, fix: str = "") -> float:
    """A number from ``least`` to 2**63, given as a number or as text."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
            raise ValueError
        amount = float(value)
    except (ValueError, OverflowError):
        amount = math.nan
    if not least <= amount <= _MOST:
        fix = f"give at most {_MOST:g}" if _MOST < amount < math.inf else fix or f"give a number >= {least:g}"
        raise InvalidInstance(f"{place} is {shown(value)}; {fix}")
    return amount


def part_of(given: Any, *path: str) -> Any:
    """What a nested mapping holds at a path, None if it holds nothing there."""
    for key in path:
        given = given.get(key) if isinstance(given, Mapping) else None
    return given


def by_requested(capacity: Mapping[str, Fraction], requested: Iterable[str]) -> dict[str, Fraction]:
    """The same by the names that tasks request: ``gpu`` is ``nvidia.com/gpu`` where that is the only such name."""
    names = [*requested]
    return {matching(name, names) or name: amount for name, amount in capacity.items()}
