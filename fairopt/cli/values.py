"""Parsing of typed values: ``0:10:41``, ``0.5,1,2`` and ``web=2``."""

from __future__ import annotations

import numpy as np

from fairopt.errors import InvalidBlock
from fairopt.policies.amounts import amount_of
from fairopt.policies.registry import parsed_value

VALUES = "FROM:TO:COUNT"  # metavar
MAX_NUMBERS = 10_000  # numbers in a range
SWITCHES = {"on": True, "true": True, "off": False, "false": False}


def typed_values(option: str, text: str, words: bool = False) -> list[bool | int | float | str]:
    """The values of ``0:10:41`` or ``0.5,1,2``; with ``words`` a list may also hold on, off and words.

    A range of whole numbers gives ints, and rounding errors around 0 become 0.
    """
    try:
        if ":" not in text:
            return [_value(word.strip(), words) for word in text.split(",")]
        first, last, count = text.split(":")
        start, stop, many = float(first), float(last), int(count)
        if not (np.isfinite([start, stop]).all() and 1 <= many <= MAX_NUMBERS):
            raise ValueError
    except ValueError:
        or_words = ", on, off and words" if words else ""
        raise InvalidBlock(
            f"{option} {text}: give from:to:count with 1 to {MAX_NUMBERS:,} numbers, such as 0:10:41, "
            f"or numbers{or_words} separated by commas, such as 0.5,1,2"
        ) from None
    values = np.linspace(start, stop, many)
    values[np.abs(values) < 1e-12 * np.abs(values).max()] = 0.0
    return [int(v) for v in values] if (values == np.round(values)).all() else values.tolist()


def _value(word: str, words: bool) -> bool | int | float | str:
    value = SWITCHES.get(word.lower(), parsed_value(word)) if words else parsed_value(word)
    if not word or (not words and isinstance(value, str)):
        raise ValueError
    return value


def labelled_number(option: str, text: str, label: str, example: str) -> tuple[str, float]:
    """The label and the number of ``web=2``."""
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        raise InvalidBlock(f"{option} {text!r}: give the {label} and a number, such as {example}") from None


def labelled_amount(option: str, text: str) -> tuple[str, float | dict[str, float]]:
    """The user and the tasks of ``web=10``, or the team and the units of ``vision=16gpu`` or ``vision=gpu:16``."""
    name, _, value = text.rpartition("=")
    resource, colon, number = value.rpartition(":")
    try:
        if colon:
            return name, {resource: float(number)}
        amount, unit = amount_of(value)
        return name, amount if unit is None else {unit: amount}
    except ValueError:
        fix = "give the tasks of a user, such as web=10, or units of a team, such as vision=16gpu"
        raise InvalidBlock(f"{option} {text!r}: {fix}") from None
