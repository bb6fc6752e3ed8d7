"""Sums over classes of identical servers and over types of server, and fractions of their capacity in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, part_of_capacity
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float

MAX_TYPES = 20  # types shown in pictures and tables


def sum_by(groups: NDArray[np.int64], by_row: Float) -> Float:
    """Sums over the server rows of each group (numbered without gaps), shape (n_groups, ...)."""
    out = np.zeros((int(groups.max()) + 1, *by_row.shape[1:]))
    np.add.at(out, groups, by_row)
    return out


def capacity_of(instance: Instance, groups: NDArray[np.int64]) -> Float:
    """Total capacity of each group, shape (n_groups, n_resources)."""
    return sum_by(groups, instance.capacities * instance.counts[:, None])


def part_of(instance: Instance, groups: NDArray[np.int64], units: Float) -> Float:
    """Units by server row, such as `Allocation.usage`, over the capacity of each group; NaN for capacity 0."""
    return part_of_capacity(sum_by(groups, units), capacity_of(instance, groups))


@dataclass(frozen=True, eq=False)
class ByType:
    """Sums over the servers of each type.

    ``servers`` are numbers of servers, and ``tasks`` by policy those of all users, of shape (n_types,). ``used`` and
    ``held``, by policy, are the fractions of the type's capacity that tasks use and that users hold, of shape (n_types,
    n_resources), NaN for capacity 0. ``bundles`` are the policies that decide bundles.
    """

    names: tuple[str, ...]
    servers: NDArray[np.int64]
    resources: tuple[str, ...]
    tasks: dict[str, Float]
    used: dict[str, Float]
    held: dict[str, Float]
    bundles: frozenset[str]

    def rows(self) -> list[dict[str, Any]]:
        """One dict per policy and type, see `Comparison.by_server_type`."""

        def by_resource(parts: Float) -> dict[str, float | None]:
            return {r: None if np.isnan(x) else x for r, x in zip(self.resources, parts.tolist(), strict=True)}

        return [
            {
                "policy": policy,
                "server_type": name,
                "servers": int(self.servers[t]),
                "tasks": float(tasks[t]),
                "utilisation": by_resource(self.held[policy][t]),
                "utilisation_of_tasks": by_resource(self.used[policy][t]),
            }
            for policy, tasks in self.tasks.items()
            for t, name in enumerate(self.names)
        ]

    def flat(self, policy: str) -> dict[str, float | None]:
        """The numbers of one policy by name, for tables with one row per policy."""
        out: dict[str, float | None] = {}
        for t, name in enumerate(self.names):
            known = policy in self.tasks
            out[f"tasks on {name}"] = float(self.tasks[policy][t]) if known else None
            for words, parts in (("used", self.held), ("used by tasks", self.used)):
                for i, resource in enumerate(self.resources):
                    part = float(parts[policy][t, i]) if known else np.nan
                    out[f"{words} {resource} on {name}"] = None if np.isnan(part) else part
        return out

    def most(self) -> list[int]:
        """Indices of the `MAX_TYPES` types with the most servers, in order."""
        return sorted(np.argsort(-self.servers, kind="stable")[:MAX_TYPES].tolist())


def several_types(instance: Instance) -> bool:
    """Whether an instance has more than one type of server."""
    return len(set(instance.server_types or ())) > 1


def by_type(instance: Instance, allocations: Mapping[str, Allocation]) -> ByType:
    """Sums over the servers of each type, in order of appearance; without types all servers have one type."""
    types = instance.server_types or ("all servers",) * instance.n_servers
    position = {name: t for t, name in enumerate(dict.fromkeys(types))}
    of_row = np.array([position[name] for name in types])
    return ByType(
        names=tuple(position),
        resources=instance.resources,
        servers=sum_by(of_row, instance.counts.astype(float)).astype(np.int64),
        tasks={name: sum_by(of_row, a.tasks_by_server.sum(axis=0)) for name, a in allocations.items()},
        used={name: part_of(instance, of_row, a.task_usage) for name, a in allocations.items()},
        held={name: part_of(instance, of_row, a.usage) for name, a in allocations.items()},
        bundles=frozenset(name for name, a in allocations.items() if a.given_bundles is not None),
    )
