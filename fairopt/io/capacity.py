"""Capacities that are given instead of servers, as ``cpu=64`` and ``memory=512Gi``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.kubernetes.quantities import quantity
from fairopt.io.queues.amounts import in_bytes
from fairopt.io.quotas.quota import matching

NAME = "capacity"  # of the server that has it
_GIB = 2**30


def capacity_of(given: Any) -> dict[str, Fraction]:
    """Amounts by resource in cores, GiB and pieces: a plain number is in these units, ``512Gi`` is a quantity.

    Examples
    --------
    >>> capacity_of({"cpu": 64, "memory": "1Ti"})
    {'cpu': Fraction(64, 1), 'memory': Fraction(1024, 1)}
    """
    if not isinstance(given, Mapping) or not given:
        raise InvalidInstance(f"capacity is {shown(given)}; give amounts by resource, as {{'cpu': 64, 'gpu': 8}}")
    out = {}
    for name, value in given.items():
        try:
            amount = quantity(value)
        except InvalidInstance as error:
            raise InvalidInstance(f"the capacity of {shown(name)} is {shown(value)}; {error}") from None
        plain = not isinstance(value, str) or value.strip()[-1:].isdigit()
        out[str(name)] = amount / _GIB if in_bytes(str(name)) and not plain else amount
        if not amount:
            raise InvalidInstance(f"the capacity of {shown(name)} is {shown(value)}; give an amount above 0")
    return out


def by_requested(capacity: Mapping[str, Fraction], requested: Iterable[str]) -> dict[str, Fraction]:
    """The same by the names that tasks request: ``gpu`` is ``nvidia.com/gpu`` where that is the only such name."""
    names = [*requested]
    return {matching(name, names) or name: amount for name, amount in capacity.items()}
