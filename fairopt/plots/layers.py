"""Who has a colour of its own, and how the others are added up: the same in all panels of a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.shares import DominantShare
from fairopt.instance import Instance
from fairopt.plots.common import COLOURS, GREYS, HATCHES, colour, cut

__all__ = ["Layer", "by_largest", "layers", "patches"]

MOST = 10  # users with a colour of their own; the others share greys


@dataclass(frozen=True)
class Layer:
    """Some users together, how they look and what the legend says."""

    label: str
    users: NDArray[np.int64]
    colour: str
    hatch: str = ""


def by_largest(instance: Instance, allocations: Iterable[Allocation]) -> list[Layer]:
    """Layers with colours for those whose dominant share is the largest under any of the allocations."""
    shares = [a.share(DominantShare()) for a in allocations]
    return layers(instance, np.max(shares, axis=0) if shares else instance.cheapest_ratios.max(axis=1, initial=0.0))


def layers(instance: Instance, shares: NDArray[np.floating[Any]]) -> list[Layer]:
    """The users with the largest shares one by one, the others added up by the resource that they need most of."""
    n = instance.n_users
    most = n if n <= MOST + 1 else MOST  # one other would take as much room as its own name
    named = np.sort(np.argsort(-shares, kind="stable")[:most])
    out = [
        Layer(cut(instance.users[j]), np.array([j]), colour(k), HATCHES[k // len(COLOURS)])
        for k, j in enumerate(named.tolist())
    ]  # fmt: skip
    rest = np.setdiff1d(np.arange(n), named)
    if len(rest) == 0:
        return out
    if instance.n_resources > len(GREYS):
        return [*out, Layer(f"{len(rest):,} others", rest, GREYS[1])]
    dominant = instance.cheapest_ratios[rest].argmax(axis=1)
    for i, name in enumerate(instance.resources):
        group = rest[dominant == i]
        if len(group):
            others = "other" if len(group) == 1 else "others"
            out.append(Layer(f"{len(group):,} {others}, mostly {cut(name, 14)}", group, GREYS[i]))
    return out


def patches(parts: Sequence[Layer]) -> list[Any]:
    """Legend entries in the order of a stack, from the top down."""
    from matplotlib.patches import Patch

    made = [Patch(facecolor=x.colour, hatch=x.hatch, edgecolor="white", label=x.label) for x in parts]
    return made[::-1]
