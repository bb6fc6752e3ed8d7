"""Bounds in units of resources, such as ``MaxShare("vision=16gpu")``, as fractions of a cluster's capacities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairopt.blocks.constraints import Constraint, MaxShare, MaxTasks, MinShare, MinTasks, Reserve
from fairopt.blocks.shares import ResourceShare, Share
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance

OF_RESOURCE: dict[Any, Any] = {MinShare: MinShare, MaxShare: MaxShare, MinTasks: MinShare, MaxTasks: MaxShare}
_AMOUNT = re.compile(r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*", re.DOTALL)


def amount_of(text: str) -> tuple[float, str | None]:
    """The number and the resource of ``16gpu``, or the number of ``0.2``; ``ValueError`` for other text."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number, nor units of a resource")
    return float(match[1]), match[2] or None


@dataclass(frozen=True)
class Amounts:
    """A bound whose amounts are text, before the cluster is known.

    The ``kind`` is `MinShare`, `MaxShare`, `MinTasks`, `MaxTasks` or `Reserve`; ``given`` is ``16gpu``, ``vision=16gpu,
    web=0.2``, or a dict of such amounts and numbers by user or team. Plain numbers bound the ``share``.
    """

    kind: Any
    given: Any
    share: Share | None = None

    @classmethod
    def meant(cls, kind: Any, arguments: list[Any]) -> bool:
        """Whether the parameters of a block hold amounts as text."""
        first = arguments[0] if arguments else None
        if kind is Reserve:
            return isinstance(first, str) and len(arguments) == 1 and _AMOUNT.fullmatch(first) is not None
        some = first.values() if isinstance(first, Mapping) else [first]
        return kind in OF_RESOURCE and any(isinstance(one, str) for one in some)

    def __str__(self) -> str:
        return f"{self.kind.__name__}({self.given!r})"

    def __post_init__(self) -> None:
        """Read the amounts, so that errors come before a cluster is read."""
        self._read()

    def on(self, instance: Instance) -> tuple[Constraint, ...]:
        """The constraints on a cluster: one for plain numbers, and one for each resource."""
        numbers: dict[str | None, float] = {}
        units: dict[str, dict[str | None, float]] = {}
        for name, (amount, resource) in self._read().items():
            if resource is None:
                numbers[name] = amount
            else:
                i = instance.resource_index(resource)
                total = float(instance.total_capacities[i])
                if not total > 0 or (self.kind is Reserve and amount > total):
                    raise InvalidBlock(f"{self}: the cluster has only {total:g} {instance.resources[i]}; give less")
                units.setdefault(instance.resources[i], {})[name] = amount / total
        if self.kind is Reserve:
            return tuple(Reserve(resource, of[None]) for resource, of in units.items())
        shares = () if self.share is None else (self.share,)
        plain = (self.kind(_by_name(numbers), *shares),) if numbers else ()
        kind = OF_RESOURCE[self.kind]
        return plain + tuple(kind(_by_name(of), ResourceShare(resource)) for resource, of in units.items())

    def _read(self) -> dict[str | None, tuple[float, str | None]]:
        """Each amount by name; None stands for all."""
        if isinstance(self.given, Mapping):
            pairs = [(name, str(amount)) for name, amount in self.given.items()]
        else:
            words = [word.rpartition("=") for word in self.given.split(",")]
            pairs = [(name.strip() if equals else None, amount) for name, equals, amount in words]
        try:
            out = {name: amount_of(amount) for name, amount in pairs}
        except ValueError as error:
            raise InvalidBlock(
                f"{self}: {error}; write a number or units, such as 0.2 or 16gpu, after a name and = unless it is for "
                "all, as in 'vision=16gpu, web=0.2'"
            ) from None
        if len(out) < len(pairs) or (None in out and len(out) > 1):
            raise InvalidBlock(f"{self}: name each user or team once, or give one amount for all")
        if self.share is not None and any(resource for _, resource in out.values()):
            raise InvalidBlock(f"{self}: units of a resource are a share of it; leave out {self.share}")
        if self.kind is Reserve and (None not in out or out[None][1] is None):
            raise InvalidBlock(f"{self}: give Reserve('gpu', 0.2) or Reserve('16gpu')")
        return out


def _by_name(amounts: dict[str | None, float]) -> Any:
    """The parameter of a block: one number for all, or a dict by name."""
    return amounts.get(None, amounts)
