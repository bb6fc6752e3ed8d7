"""Short names of rows of servers, all different, and what each row is of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairopt.instance import Instance
from fairopt.runtime.display import of_units, visible, width
from fairopt.runtime.hostlists import names_of

LONG = 24  # characters: longer labels are those of many servers
NO_GPU = "no GPU"  # a type that says nothing of a server
CAPACITIES = 2  # named where servers have no types


def server_names(instance: Instance) -> list[str]:
    """A name of each row of servers: its label or, if that is long, the first server's, without a common domain."""
    labels = instance.servers
    cut = [(names_of(label) or [label])[0] if width(visible(label)) > LONG else label for label in labels]
    bare = [
        name if label == name and width(name) <= LONG else name.partition(".")[0]
        for name, label in zip(cut, labels, strict=True)
    ]
    return next(names for names in (bare, cut, [*labels]) if len({*names}) == len(names) and all(names))


def server_kinds(instance: Instance) -> list[str]:
    """What the servers of each row are: their type or, without types, capacities in which rows differ."""
    types: Sequence[str] = instance.server_types or [""] * instance.n_servers
    capacities = instance.capacities
    differ = np.flatnonzero(np.ptp(capacities, axis=0) > 0).tolist()
    rarest_first = sorted(differ, key=lambda i: int((capacities[:, i] > 0).sum()))
    titles = of_units(instance.resources, instance.units)
    out = []
    for s, kind in enumerate(types):
        has = [i for i in rarest_first if capacities[s, i] > 0][:CAPACITIES]
        amounts = ", ".join(f"{capacities[s, i]:,.6g} {titles[i]}" for i in has)
        out.append(kind if kind not in ("", NO_GPU) else amounts or kind)
    return out


def with_counts(instance: Instance, names: Sequence[str]) -> list[str]:
    """Names of rows of servers with the number of servers, such as ``a100-[01-09] x 9``."""
    return [name + (f" x {count:,}" if count > 1 else "") for name, count in zip(names, instance.counts, strict=True)]
