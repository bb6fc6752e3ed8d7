"""Quantities as Kubernetes writes them, ``500m``, ``2Gi`` or ``1e3``, read exactly."""

from __future__ import annotations

import difflib
import re
from fractions import Fraction
from functools import lru_cache

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import Entry

__all__ = ["quantity", "quantity_of"]

_SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 10**3), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}  # fmt: skip
_NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_LONGEST = 64  # characters; the longest that Kubernetes itself writes has 20
_LARGEST_EXPONENT = 30  # Kubernetes cuts quantities off at 2**63, and at a billionth
_LARGEST = Fraction(2**63 - 1)
_HUGE = ("9" * 30, "-" + "9" * 30)  # for whole numbers of more digits than are looked at


def quantity(value: object) -> Fraction:
    """A quantity in base units: cores, bytes, or pieces. Exact: Kubernetes rounds up to billionths, this does not.

    A number >= 0 with a suffix of n, u, m, k, M, G, T, P, E (powers of 1000), Ki, Mi, Gi, Ti, Pi, Ei (powers of 1024)
    or an exponent as e3 or E3. A float is read as the decimal number that it is written as.

    Examples
    --------
    >>> quantity("500m"), quantity("1E"), quantity("1E3"), quantity("2Gi")
    (Fraction(1, 2), Fraction(1000000000000000000, 1), Fraction(1000, 1), Fraction(2147483648, 1))
    """
    return quantity_of(Entry(value, "the quantity"))


def quantity_of(entry: Entry) -> Fraction:
    """`quantity` of a value in a document; nothing there is an error."""
    value = entry.value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        text = repr(value) if isinstance(value, float) or abs(value) < 10**_LONGEST else _HUGE[value < 0]
    elif isinstance(value, str):
        text = value
    else:
        entry.refuse("give a quantity, as '500m' or '2Gi'")
    try:
        return _read(text)
    except InvalidInstance as error:
        entry.refuse(str(error))


@lru_cache(maxsize=4096)
def _read(text: str) -> Fraction:
    """The quantity, or an error that holds the fix alone."""
    if len(text) > _LONGEST:
        raise InvalidInstance("give a shorter number, as '500m' or '2Gi'")
    parts = _NUMBER.fullmatch(text)
    if parts is None or not text.isascii():
        raise InvalidInstance(_fix(text))
    sign, digits, suffix = parts.groups()
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent:
        power = int(exponent[1])
        if abs(power) > _LARGEST_EXPONENT:
            raise InvalidInstance(f"give an exponent between -{_LARGEST_EXPONENT} and {_LARGEST_EXPONENT}")
        factor = Fraction(10) ** power
    elif suffix in _SUFFIXES:
        factor = _SUFFIXES[suffix]
    else:
        raise InvalidInstance(_fix(text))
    amount = Fraction(digits) * factor
    if sign == "-" and amount:
        raise InvalidInstance("give a quantity >= 0")
    if amount > _LARGEST:
        raise InvalidInstance("give at most 2**63 - 1, the largest quantity of Kubernetes")
    return amount


def _fix(text: str) -> str:
    """What to write instead."""
    if not text.strip():
        return "give a quantity, as '500m' or '2Gi'"
    closed = "".join(text.split())
    parts = _NUMBER.fullmatch(closed)
    if parts and not re.match("[eE][+-]?[0-9]", parts[3]):  # 1e3Gi could be meant as 1e3 or as 1000Gi
        number, suffix = closed[: parts.start(3)], parts[3]
        bare = suffix.removesuffix("B").removesuffix("b")
        known = {name.lower(): name for name in _SUFFIXES if name not in ("m", "E")}  # "mb" is meant as M, "e" as e3
        for name in (suffix, known.get(bare.lower()), bare):
            if name is not None and name in _SUFFIXES:
                return f"write {number}{name}"
        close = difflib.get_close_matches(suffix, _SUFFIXES, n=1)
        if close:
            return f"write {number}{close[0]}"
    return "give a number with a suffix of " + ", ".join(filter(None, _SUFFIXES)) + " or none, as 500m or 2Gi"
