"""How exact answers read numbers: those of `Instance.in_fractions`, and what files and certificates say of them."""

from __future__ import annotations

from typing import Any

from fairopt.exact.rationals import written
from fairopt.instance import Instance

DECIMALS = "numbers read as the shortest decimals that print them"
FRACTIONS = "numbers read as the Fractions given, others as the shortest decimals that print them"


def reading_of(policy: Any, instance: Instance) -> str:
    """How the numbers of a policy and an instance are read."""
    return FRACTIONS if instance.in_fractions.given_as_fractions or "Fraction(" in repr(policy) else DECIMALS


def given_fractions(instance: Instance) -> dict[str, dict[str, str]]:
    """What floats of an instance are read as where it is not the shortest decimal: by argument, and by their repr."""
    exact = instance.in_fractions
    return {
        name: {repr(key): written(exact.number(name, key)) for key in of}
        for name, of in instance.derived.exact_numbers().items()
    }
