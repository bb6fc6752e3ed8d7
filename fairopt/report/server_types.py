"""What runs on each type of server (as each model of GPU), and what of it is in use: as data, and as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.report.parts import part_of, sum_by
from fairopt.report.tables import MOST, NAME, Column, Table, numbers, percents, shortened

__all__ = ["PLACEMENT", "ByType", "by_type", "several_types"]

Float = NDArray[np.floating[Any]]

ONE_TYPE = "all servers"  # where an instance names no types
PLACEMENT = (
    "Users who may run on several types can often be placed otherwise with as many tasks for everybody; shown is the "
    "placement found."
)
ROOM = 12  # characters of a type's name above a column of numbers


@dataclass(frozen=True, eq=False)
class ByType:
    """Sums over the servers of each type; made by `by_type`.

    Attributes
    ----------
    names : tuple of str
        The types.
    servers : ndarray of int of shape (n_types,)
        Number of servers of each, counts included.
    resources : tuple of str
        The resources.
    tasks : dict of ndarray of shape (n_types,) by policy
        Tasks of all users that run there.
    used, held : dict of ndarray of shape (n_types, n_resources) by policy
        The part of the type's capacity that tasks use, and that users hold; NaN where it has none.
    bundles : frozenset of str
        The policies that decide bundles, so that what is held and what tasks use may differ.
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
                "policy": policy, "server_type": name, "servers": int(self.servers[t]), "tasks": float(tasks[t]),
                "utilisation": by_resource(self.held[policy][t]),
                "utilisation_of_tasks": by_resource(self.used[policy][t]),
            }
            for policy, tasks in self.tasks.items() for t, name in enumerate(self.names)
        ]  # fmt: skip

    def flat(self, policy: str) -> dict[str, float | None]:
        """The numbers of one policy with a name each, as tables with a line per policy want them."""
        out: dict[str, float | None] = {}
        for t, name in enumerate(self.names):
            known = policy in self.tasks
            out[f"tasks on {name}"] = float(self.tasks[policy][t]) if known else None
            for words, parts in (("used", self.held), ("used by tasks", self.used)):
                for i, resource in enumerate(self.resources):
                    part = float(parts[policy][t, i]) if known else np.nan
                    out[f"{words} {resource} on {name}"] = None if np.isnan(part) else part
        return out

    def most(self, limit: int = MOST) -> list[int]:
        """The types with the most servers, in their order: all of them, if there are no more than the limit."""
        return sorted(np.argsort(-self.servers, kind="stable")[:limit].tolist())

    def tables(self, whole_names: bool = False) -> list[Table]:
        """Policies down, types across: one table of tasks, and one of each resource."""
        shown = self.most()

        def labels(names: Sequence[str], most: int) -> list[str]:
            return list(names) if whole_names else shortened(names, most)

        def table(title: str, rows: list[str], columns: list[list[str]]) -> Table:
            headers = labels([self.names[t] for t in shown], ROOM)
            group = [Column(h, cells) for h, cells in zip(headers, columns, strict=True)]
            return Table(title, Column("policy", rows, right=False), [group])

        policies = list(self.tasks)
        cut = dict(zip(policies, labels(policies, NAME), strict=True))
        counts = ", ".join(f"{self.names[t]} x {self.servers[t]:,}" for t in shown)
        fewer = f" ({len(shown)} largest of {len(self.names)})" if len(shown) < len(self.names) else ""
        out = [table(f"Tasks on each type of server{fewer}: {counts}", [cut[p] for p in policies],
                     [numbers([self.tasks[p][t] for p in policies]) for t in shown])]  # fmt: skip
        lines: list[tuple[str, Float]] = []
        for p in policies:
            lines.append((cut[p], self.used[p]))
            if p in self.bundles:
                lines.append(("  held", self.held[p]))
        for i, resource in enumerate(self.resources):
            title = f"{resource}: the part in use by tasks" + (", and the part held" if self.bundles else "")
            cells = [percents(parts[t, i] for _, parts in lines) for t in shown]
            out.append(table(title, [name for name, _ in lines], cells))
        return out


def several_types(instance: Instance) -> bool:
    """Whether a report by type of server says more than one of all servers together."""
    return len(set(instance.server_types or ())) > 1


def by_type(instance: Instance, allocations: Mapping[str, Allocation]) -> ByType:
    """Add up over the servers of each type.

    Parameters
    ----------
    instance : Instance
        Types in the order in which they appear; without any, all servers are of one type.
    allocations : mapping of str to Allocation
        On this instance, by policy.

    Returns
    -------
    ByType
    """
    types = instance.server_types or (ONE_TYPE,) * instance.n_servers
    position = {name: t for t, name in enumerate(dict.fromkeys(types))}
    of_row = np.array([position[name] for name in types])
    return ByType(
        names=tuple(position), resources=instance.resources,
        servers=sum_by(of_row, instance.counts.astype(float)).astype(np.int64),
        tasks={name: sum_by(of_row, a.tasks_by_server.sum(axis=0)) for name, a in allocations.items()},
        used={name: part_of(instance, of_row, a.task_usage) for name, a in allocations.items()},
        held={name: part_of(instance, of_row, a.usage) for name, a in allocations.items()},
        bundles=frozenset(name for name, a in allocations.items() if a.given_bundles is not None),
    )  # fmt: skip
