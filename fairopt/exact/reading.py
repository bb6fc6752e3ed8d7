"""A policy and an instance in rational numbers, as `fairopt.proofs.rational` reads them from a file.

Numbers are the shortest decimals that print them (0.1 is 1/10), or the `fractions.Fraction` that was given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairopt.display import label
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance, entries_of
from fairopt.proofs import rational

__all__ = ["DECIMALS", "FRACTIONS", "Exactly", "exactly", "given_fractions"]

DECIMALS = "numbers read as the shortest decimals that print them"
FRACTIONS = "numbers read as the Fractions given, others as the shortest decimals that print them"


class Exactly(NamedTuple):
    """A policy on an instance in rational numbers.

    ``cluster`` holds the instance, with tasks of 0 and no constraint imposed; ``policy`` is the parsed policy or
    mechanism; ``reading`` says how numbers were read.
    """

    cluster: rational.Cluster
    policy: rational.Block
    reading: str


def given_fractions(instance: Instance) -> dict[str, dict[str, str]]:
    """The Fractions that were given to an instance: by argument, and by the repr of their float.

    `OutOfDomain` if two of one argument have the same float.
    """
    found = instance._exact_numbers()
    for name, of in found.items():
        for key, value in of.items():
            if value is None:
                raise OutOfDomain(
                    f"{name} hold two different Fractions that are both {key!r} as floats; give one of them"
                )
    return {name: {repr(key): rational.written(value) for key, value in of.items()} for name, of in found.items()}


def exactly(policy: Any, instance: Instance) -> Exactly:
    """A policy on an instance in rational numbers; `OutOfDomain` if blocks are not fairopt's."""
    text, given = repr(policy), given_fractions(instance)
    entries: dict[str, Any] = {key: _plain(value) for key, value in entries_of(instance).items()}
    for name in rational.NUMBERS:
        if entries.get(name) is not None:
            entries[name] = rational.in_fractions(entries[name], given.get(name, {}))
    tasks = [[0] * instance.n_servers for _ in range(instance.n_users)]
    try:
        block = rational.block(text, exactly=True)
        cluster = rational.Cluster({"instance": entries, "tasks_by_server": tasks})
    except rational.CannotCheck as error:
        raise OutOfDomain(f"{label(policy)} has no exact answer: {error}") from error
    except rational.Fault as error:
        raise OutOfDomain(f"{instance!r} cannot be read in fractions: {error}") from error
    return Exactly(cluster, block, FRACTIONS if instance._fractions or "Fraction(" in text else DECIMALS)


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
