"""Assigns colours to the largest users and groups the others, identically in all panels of a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.shares import DominantShare
from fairopt.instance import Instance
from fairopt.plots.common import COLOURS, GREYS, HATCHES, colour, escaped
from fairopt.questions.by_team import team_sums
from fairopt.runtime.arrays import Float, Ints
from fairopt.runtime.display import shortened, shorter

COLOURED_USERS = 10  # users with a colour each; the others are grey


@dataclass(frozen=True)
class Layer:
    """A group of users with its colour, hatch and legend entry."""

    name: str
    users: Ints
    colour: str
    hatch: str = ""

    @property
    def label(self) -> str:
        """The name in the legend."""
        return escaped(self.name)

    @property
    def style(self) -> dict[str, Any]:
        """The look of its bars and areas."""
        return {"facecolor": self.colour, "hatch": self.hatch, "edgecolor": "white", "label": self.label}


def by_size(users: Sequence[str], size: Float, most: int = COLOURED_USERS) -> list[Layer]:
    """A coloured layer for each of the ``most`` largest users, in the order of users, and one for all others."""
    n = len(users)
    most = n if n <= most + 1 else most  # a group of one would need a legend entry as well
    named = np.sort(np.argsort(-size, kind="stable")[:most])
    names = shortened([users[j] for j in named], 26)
    out = [
        Layer(name, np.array([j]), colour(k), HATCHES[k // len(COLOURS)])
        for k, (name, j) in enumerate(zip(names, named.tolist(), strict=True))
    ]
    rest = np.setdiff1d(np.arange(n), named)
    return [*out, Layer(f"{len(rest):,} others", rest, GREYS[1])] if len(rest) else out


def by_largest(instance: Instance, allocations: Iterable[Allocation]) -> list[Layer]:
    """A coloured layer for each user with one of the largest dominant shares under any of the allocations.

    The other users are grouped by dominant resource.
    """
    shares = [a.share(DominantShare()) for a in allocations]
    largest = np.max(shares, axis=0) if shares else instance.derived.cheapest_ratios.max(axis=1, initial=0.0)
    out = by_size(instance.users, largest)
    if len(out) == instance.n_users or instance.n_resources > len(GREYS):
        return out
    rest = out.pop().users
    dominant = instance.derived.cheapest_ratios[rest].argmax(axis=1)
    for i in np.unique(dominant).tolist():
        group = rest[dominant == i]
        others = "other" if len(group) == 1 else "others"
        out.append(Layer(f"{len(group):,} {others}, mostly {shorter(instance.resources[i], 14)}", group, GREYS[i]))
    return out


def by_team(allocations: Sequence[Allocation], by: str) -> list[Layer]:
    """A coloured layer for each team with one of the largest dominant shares under any of the allocations."""
    sums = [team_sums(a, by, alone=True) for a in allocations]
    names, members = sums[0].names, sums[0].members
    layers = by_size(names, np.max([found.dominant for found in sums], axis=0))
    return [replace(layer, users=np.concatenate([members[t] for t in layer.users.tolist()])) for layer in layers]
