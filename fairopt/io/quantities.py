"""Quantities such as ``500m`` or ``2Gi``, as Kubernetes writes them, and capacities that are given by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown

_SUFFIXES = {
    **{suffix: Fraction(1000) ** k for k, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)},
    **{suffix: Fraction(1024) ** k for k, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_LONGEST = 64  # characters; the longest that Kubernetes itself writes has 20
_LARGEST_EXPONENT = 30  # Kubernetes caps quantities at 2**63, and at a billionth
_LARGEST = Fraction(2**63 - 1)
_GIB = 2**30


def quantity(value: object) -> Fraction:
    """A quantity of Kubernetes in base units (cores, bytes or pieces); the message of an error is only the fix.

    Exact, while Kubernetes rounds up to billionths. A float stands for its shortest decimal form.

    Parameters
    ----------
    value : str, int, float or Fraction
        Such as ``"500m"`` or ``"2Gi"``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.quantity("500m"), fo.io.quantity("2Ki")
    (Fraction(1, 2), Fraction(2048, 1))
    """
    if isinstance(value, str):
        return _read(value)
    if isinstance(value, Fraction):
        return _within(value, value < 0)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInstance("give a quantity, as '500m' or '2Gi'")
    return _within(Fraction(value), value < 0) if isinstance(value, int) else _read(repr(value))


@lru_cache(maxsize=4096)
def _read(text: str) -> Fraction:
    if len(text) > _LONGEST:
        raise InvalidInstance("give a shorter number, as '500m' or '2Gi'")
    parts = _NUMBER.fullmatch(text)
    if parts is None or not text.isascii():
        raise InvalidInstance(_fix(text))
    sign, digits, suffix = parts.groups()
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None and suffix not in _SUFFIXES:
        raise InvalidInstance(_fix(text))
    if exponent and abs(int(exponent[1])) > _LARGEST_EXPONENT:
        raise InvalidInstance(f"give an exponent between -{_LARGEST_EXPONENT} and {_LARGEST_EXPONENT}")
    amount = Fraction(digits) * (Fraction(10) ** int(exponent[1]) if exponent else _SUFFIXES[suffix])
    return _within(amount, negative=sign == "-" and amount > 0)


def _within(amount: Fraction, negative: bool) -> Fraction:
    if negative:
        raise InvalidInstance("give a quantity >= 0")
    if amount > _LARGEST:
        raise InvalidInstance("give at most 2**63 - 1, the largest quantity of Kubernetes")
    return amount


def _fix(text: str) -> str:
    """The fix for a wrong quantity."""
    closed = "".join(text.split())
    parts = _NUMBER.fullmatch(closed)
    if parts and not re.match("[eE][+-]?[0-9]", parts[3]):  # 1e3Gi could be meant as 1e3 or as 1000Gi
        number, suffix = closed[: parts.start(3)], parts[3]
        known = {name.lower(): name for name in _SUFFIXES if name not in ("m", "E")}  # "mb" is meant as M, "e" as e3
        name = suffix if suffix in _SUFFIXES else known.get(suffix.lower().removesuffix("b"))
        if name is not None:
            return f"write {number}{name}"
    return "give a number with a suffix of " + ", ".join(filter(None, _SUFFIXES)) + " or none, as '500m' or '2Gi'"


def quantity_at(value: object, place: str) -> Fraction:
    """The same; errors name the place, the value and the fix.

    Parameters
    ----------
    value : str, int, float or Fraction
        Such as ``"500m"`` or ``"2Gi"``.
    place : str
        Where it stands.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.quantity_at("2Gib", "n1.memory")
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: n1.memory is "2Gib"; write 2Gi
    """
    try:
        return quantity(value)
    except InvalidInstance as error:
        raise InvalidInstance(f"{place} is {shown(value)}; {error}") from None


def unit_of(resource: str) -> str:
    """The unit of a resource in instances: ``core``, ``GiB`` for memory and storage, or ``""`` for pieces.

    Parameters
    ----------
    resource : str
        Its name in Kubernetes.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.unit_of("cpu"), fo.io.unit_of("hugepages-2Mi"), fo.io.unit_of("nvidia.com/gpu")
    ('core', 'GiB', '')
    """
    memory = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return "core" if resource == "cpu" else "GiB" if memory else ""


def in_units(amount: Fraction, resource: str) -> float:
    """An exact amount in base units as a float in the resource's unit.

    Parameters
    ----------
    amount : Fraction
        Cores, bytes or pieces.
    resource : str
        The name of the resource.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.in_units(fo.io.quantity("512Mi"), "memory")
    0.5
    """
    return float(amount / _GIB if unit_of(resource) == "GiB" else amount)


def in_base_units(amount: Fraction, resource: str) -> Fraction:
    """An amount in the resource's unit in base units.

    Parameters
    ----------
    amount : Fraction
        Cores, GiB or pieces.
    resource : str
        The name of the resource.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fractions import Fraction
    >>> fo.io.in_base_units(Fraction(2), "memory") == fo.io.quantity("2Gi")
    True
    """
    return amount * _GIB if unit_of(resource) == "GiB" else amount


def capacity_of(amounts: Any) -> dict[str, Fraction]:
    """Amounts by resource in cores, GiB and pieces: a plain number is in these units, ``512Gi`` is a quantity.

    Parameters
    ----------
    amounts : mapping
        By name of the resource.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.capacity_of({"cpu": 64, "memory": "1Ti"})
    {'cpu': Fraction(64, 1), 'memory': Fraction(1024, 1)}
    """
    if not isinstance(amounts, Mapping) or not amounts:
        raise InvalidInstance(f"capacity is {shown(amounts)}; give amounts by resource, as {{'cpu': 64, 'gpu': 8}}")
    out = {}
    for name, value in amounts.items():
        amount = quantity_at(value, f"the capacity of {shown(name)}")
        if not amount:
            raise InvalidInstance(f"the capacity of {shown(name)} is {shown(value)}; give an amount above 0")
        plain = not isinstance(value, str) or value.strip()[-1:].isdigit()
        out[str(name)] = amount if plain else amount / in_base_units(Fraction(1), str(name))
    return out
