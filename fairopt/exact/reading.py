"""A policy and an instance in rational numbers, as `fairopt.proofs.verify` reads them from a file.

Numbers are the shortest decimals that print them (0.1 is 1/10), or the `fractions.Fraction` that was given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairopt.display import label
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance, entries_of
from fairopt.proofs import verify

__all__ = ["DECIMALS", "FRACTIONS", "Exactly", "exactly", "given_fractions"]

DECIMALS = "numbers read as the shortest decimals that print them"
FRACTIONS = "numbers read as the Fractions given, others as the shortest decimals that print them"


class Exactly(NamedTuple):
    """A policy on an instance in rational numbers.

    ``cluster`` holds the instance, with tasks of 0 and no constraint imposed; ``policy`` is the parsed policy or
    mechanism; ``reading`` says how numbers were read.
    """

    cluster: verify.Cluster
    policy: verify.Block
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
    return {name: {repr(key): verify.written(value) for key, value in of.items()} for name, of in found.items()}


def exactly(policy: Any, instance: Instance) -> Exactly:
    """A policy on an instance in rational numbers; `OutOfDomain` if blocks are not fairopt's."""
    text, given = repr(policy), given_fractions(instance)
    entries: dict[str, Any] = {key: _plain(value) for key, value in entries_of(instance).items()}
    for name in verify.NUMBERS:
        if entries.get(name) is not None:
            entries[name] = verify.in_fractions(entries[name], given.get(name, {}))
    tasks = [[0] * instance.n_servers for _ in range(instance.n_users)]
    try:
        block = verify.block(text, exactly=True)
        cluster = verify.Cluster({"instance": entries, "tasks_by_server": tasks})
    except verify.CannotCheck as error:
        raise OutOfDomain(f"{label(policy)} has no exact answer: {error}") from error
    except verify.Fault as error:
        raise OutOfDomain(f"{instance!r} cannot be read in fractions: {error}") from error
    return Exactly(cluster, block, FRACTIONS if instance._fractions or "Fraction(" in text else DECIMALS)


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
