"""GPUs by type: how many of each type teams use on servers that may have several."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairopt import Instance
from fairopt.runtime import Float
from fairopt_clusters.quotas.accounts import tres_name
from fairopt_clusters.read.slurm.devices import ANY, UNNAMED, is_slice

_GPU, _NONE = "gres/gpu", "no GPU"
_NUMBERED = re.compile(r"(.+):(\d+)")
_NOTHING = 1e-9  # units


@dataclass(frozen=True, eq=False)
class GpuTypes:
    """The GPUs of servers by type, and the resources of an instance that count them.

    ``whole`` and ``anything`` are the indices of what counts whole GPUs and devices of any type, None without such a
    resource; ``typed`` those of types. ``there`` has the number of each type, by server.
    """

    resource: str
    whole: int | None
    anything: int | None
    typed: Mapping[str, int]
    there: Sequence[Mapping[str, float]]

    @property
    def are_resources(self) -> bool:
        """Whether several resources count GPUs."""
        return self.anything is not None or bool(self.typed)

    @property
    def types(self) -> list[str]:
        """The types that some server has."""
        return sorted({kind for of_server in self.there for kind in of_server})

    def total(self, kind: str) -> float:
        """The number of GPUs of a type."""
        return sum(of_server.get(kind, 0.0) for of_server in self.there)

    def used(self, units: Float) -> tuple[dict[str, Float], bool]:
        """The GPUs of each type in units by team, server and resource, and whether some types are a choice.

        Requests without a type on servers with several are counted as the type with the most left there.
        """
        out = {kind: np.zeros(len(units)) for kind in self.types}
        chosen = False
        for s, has in enumerate(self.there):
            if not has:
                continue
            of_kinds = {kind: units[:, s, self.typed[kind]] for kind in has if kind in self.typed}
            if len(has) == 1:
                kind, devices = next(iter(has)), self.devices(units[:, s])
                out[kind] += devices
                continue
            left = {kind: n - of_kinds[kind].sum() if kind in of_kinds else n for kind, n in has.items()}
            for kind, amounts in of_kinds.items():
                out[kind] += amounts
            of_whole = sum((of_kinds[kind] for kind in of_kinds if not is_slice(kind)), np.zeros(len(units)))
            of_slices = sum((of_kinds[kind] for kind in of_kinds if is_slice(kind)), np.zeros(len(units)))
            whole = np.zeros(len(units)) if self.whole is None else units[:, s, self.whole]
            beyond = self.devices(units[:, s]) - whole - of_slices
            for amounts, kinds in ((whole - of_whole, [kind for kind in has if not is_slice(kind)]), (beyond, [*has])):
                for t in np.flatnonzero(amounts > _NOTHING).tolist():
                    chosen |= len(kinds) > 1
                    amount = float(amounts[t])
                    for kind in sorted(kinds, key=lambda kind: -left[kind]):
                        part = min(amount, max(left[kind], 0.0))
                        out[kind][t] += part
                        left[kind] -= part
                        amount -= part
        return out, chosen

    @property
    def resources(self) -> set[str]:
        """The names of the resources that count GPUs."""
        kinds = ["", *([ANY] if self.anything is not None else []), *self.typed]
        return {f"{self.resource}:{kind}".rstrip(":") for kind in kinds}

    @property
    def counted(self) -> tuple[int, ...]:
        """The indices of the resources whose sum are the GPUs and slices."""
        if self.anything is not None:
            return (self.anything,)
        slices = [i for kind, i in self.typed.items() if is_slice(kind)]
        return (*slices, *([] if self.whole is None else [self.whole]))

    def devices(self, units: Float) -> Float:
        """The GPUs and slices in units whose last axis is that of resources."""
        made: Float = units[..., list(self.counted)].sum(axis=-1)
        return made


def gpu_types(servers: Instance) -> GpuTypes | None:
    """The types of GPUs of individual servers, none if numbers are not known; None if one resource has one type."""
    names = [name for name in servers.resources if tres_name(name.partition(":")[0]) == _GPU]
    bases = {name.partition(":")[0] for name in names}
    if len(bases) != 1:
        return None
    base = bases.pop()
    index = {name.partition(":")[2]: servers.resource_index(name) for name in names}
    whole, anything = index.pop("", None), index.pop(ANY, None)
    of_types = GpuTypes(base, whole, anything, index, ())
    devices = of_types.devices(servers.capacities)
    there = list[Mapping[str, float]]()
    types = servers.server_types or [""] * servers.n_servers
    for name, number in zip(types, devices.tolist(), strict=True):
        parts = [part for part in map(_NUMBERED.fullmatch, name.split("|")) if part]
        if number <= 0:
            there.append({})
        elif name and "|" not in name and name != _NONE:
            there.append({name: number})
        elif len(parts) == name.count("|") + 1:
            there.append({part[1]: float(part[2]) for part in parts})
        else:  # servers that were merged
            there = []
            break
    of_types = GpuTypes(base, whole, anything, index, there)
    return of_types if len(of_types.types) > 1 or len(names) > 1 else None


def is_tres(kind: str) -> bool:
    """Whether a type of GPU can be part of a name of a resource of Slurm."""
    return kind != UNNAMED and re.fullmatch(r"[\w.+-]+", kind) is not None
