"""An allocation as columns by user, by server, or by user and server."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, part_of_capacity, units_of
from fairopt.blocks.shares import DominantShare
from fairopt.errors import InvalidBlock, nearest
from fairopt.instance import Instance
from fairopt.io.tables import escaped
from fairopt.questions.by_team import team_sums
from fairopt.questions.held import HeldNow, held_now
from fairopt.report.tables import price_columns
from fairopt.runtime.arrays import Float
from fairopt.runtime.display import visible, with_all_digits
from fairopt.runtime.lazy import pandas

if TYPE_CHECKING:
    import pandas as pd


class FrameColumns(dict[str, Any]):
    """Columns by name; what a column is of, such as " (resource)", is appended to a name that is taken."""

    def add(self, name: str, values: Any, of: str = "resource") -> None:
        """Append a column."""
        while name in self:
            name += f" ({of})"
        self[name] = values

    def add_each(self, names: Sequence[str], values: Float) -> None:
        """Append a column per resource, the last axis of ``values``."""
        for i, name in enumerate(names):
            self.add(name, values[..., i])


def frame(allocation: Allocation, by: str) -> pd.DataFrame:
    """See `Allocation.to_frame`."""
    if by not in _VIEWS and by not in allocation.instance.teams:
        raise InvalidBlock(f"no table by {by!r}; {nearest(by, [*_VIEWS, *allocation.instance.teams])}")
    pd = pandas()
    columns = _VIEWS[by](allocation) if by in _VIEWS else by_team(allocation, by)
    index = ["user", "server"] if by == "placement" else next(iter(columns))
    return pd.DataFrame(dict(columns)).set_index(index)


def user_rows(allocation: Allocation) -> list[dict[str, Any]]:
    """One dict per user, with the columns of ``allocation.to_frame()``."""
    columns = by_user(allocation)
    lists = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def csv_text(rows: list[dict[str, Any]], names: Sequence[str] = ()) -> str:
    """Rows as CSV; without rows, the header ``names`` alone."""
    return csv_lines(rows[0] if rows else names, (row.values() for row in rows))


def csv_lines(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV, with cells escaped that a spreadsheet would run as formulas, and control characters as shown."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows(map(_cell, row) for row in (header, *rows))
    return file.getvalue()


def _cell(value: Any) -> Any:
    return escaped(visible(value)) if isinstance(value, str) else value


def by_user(allocation: Allocation) -> dict[str, Any]:
    """Columns with a row per user; see `Allocation.to_frame`."""
    instance, units = allocation.instance, units_of(allocation)
    about = {"user": instance.users, "weight": instance.own_weights, "task limit": instance.task_limits}
    if instance.guarantees.any():
        about["guarantee"] = instance.guarantees
    about |= {
        "tasks": allocation.tasks,
        **({} if allocation.exact_tasks is None else {"exact tasks": _exact_tasks(allocation.exact_tasks)}),
        "share": allocation.shares,
        "dominant share": allocation.share(DominantShare()),
    }
    held = held_now(allocation)
    out = FrameColumns({"user": instance.users, **_labelled(instance.teams, about | _tasks_held(held))})
    out.add_each(instance.resource_titles, units)
    if allocation.given_bundles is not None:
        needed = np.einsum("js,jsi->ji", allocation.tasks_by_server, instance.per_server_demands)
        out.add_each([f"{r} of tasks" for r in instance.resource_titles], needed)
    out.add_each([f"share of {r}" for r in instance.resources], part_of_capacity(units, instance.total_capacities))
    _add_units_held(out, instance, held)
    return out


DIGITS = 4_000  # of integers that Python reads and writes by default


def _exact_tasks(tasks: NDArray[np.object_]) -> list[Fraction] | list[str]:
    """Exact tasks of each user; as text if there are more digits than Python prints."""
    totals: list[Fraction] = tasks.sum(axis=1).tolist() if tasks.size else [Fraction(0)] * len(tasks)
    texts = [with_all_digits(x) for x in totals]
    return totals if max(map(len, texts), default=0) < DIGITS else texts


def _labelled(labels: Mapping[str, Any], about: Mapping[str, Any]) -> FrameColumns:
    """Columns of labels before the others, renamed where a name is already in use."""
    named = FrameColumns(about)
    for by, values in labels.items():
        named.add(by, values, "label")
    return FrameColumns({**{name: named[name] for name in named if name not in about}, **about})


def by_team(allocation: Allocation, by: str) -> dict[str, Any]:
    """Columns with a row per team under a label; see `Allocation.to_frame`."""
    instance, sums, held = allocation.instance, team_sums(allocation, by), held_now(allocation, by)
    about = {"users": [len(rows) for rows in sums.members], "weight": sums.weights, "dominant share": sums.dominant}
    if held is not None:
        about["tasks"] = held.fair[:, 0]
    out = _labelled({by: sums.names}, about | _tasks_held(held))
    out.add_each(instance.resource_titles, sums.units)
    out.add_each([f"share of {r}" for r in instance.resources], part_of_capacity(sums.units, instance.total_capacities))
    _add_units_held(out, instance, held)
    return out


def _tasks_held(found: HeldNow | None) -> dict[str, Any]:
    """Tasks that run now beside what is fair."""
    if found is None:
        return {}
    named = {"held": found.held, "difference": found.difference, "waiting": found.waiting}
    return {"state": found.states, **{name: values[:, 0] for name, values in named.items()}}


def _add_units_held(out: FrameColumns, instance: Instance, found: HeldNow | None) -> None:
    """Units that running tasks take beside what is fair."""
    if found is not None:
        for name in ("held", "difference", "waiting"):
            out.add_each([f"{r} {name}" for r in instance.resource_titles], getattr(found, name)[:, 1:])


def by_server(allocation: Allocation) -> dict[str, Any]:
    """Columns with a row per server row; see `Allocation.to_frame`."""
    instance, names = allocation.instance, allocation.instance.resources
    capacity = instance.capacities * instance.counts[:, None]
    out = FrameColumns({"server": instance.servers})
    if instance.server_types is not None:
        out.add("type", instance.server_types)
    out |= {"servers": instance.counts, "tasks": allocation.tasks_by_server.sum(axis=0)}
    out.add_each(instance.resource_titles, allocation.usage)
    if allocation.given_bundles is not None:
        out.add_each([f"{r} of tasks" for r in instance.resource_titles], allocation.task_usage)
    out.add_each([f"capacity of {r}" for r in instance.resource_titles], capacity)
    out.add_each([f"used {r}" for r in names], part_of_capacity(allocation.usage, capacity))
    for prices, titles in price_columns(allocation, names):
        out.add_each(titles, prices)
    return out


def by_placement(allocation: Allocation) -> dict[str, Any]:
    """Columns with a row per user and server row that it uses; see `Allocation.to_frame`."""
    instance, tasks, given = allocation.instance, allocation.tasks_by_server, allocation.given_bundles
    if allocation.placement is not None:
        instance, tasks = instance.individual(), allocation.placement
    users, servers = np.nonzero(tasks if given is None else (tasks > 0) | (given > 0).any(axis=2))
    out = FrameColumns(
        {
            "user": [instance.users[j] for j in users],
            "server": [instance.servers[s] for s in servers],
            "tasks": tasks[users, servers],
        }
    )
    demands = instance.demands[users] if instance.demands.ndim == 2 else instance.demands[users, servers]
    needed = demands * tasks[users, servers][:, None]
    out.add_each(instance.resource_titles, needed if given is None else given[users, servers])
    if given is not None:
        out.add_each([f"{r} of tasks" for r in instance.resource_titles], needed)
    return out


_VIEWS: dict[str, Callable[[Allocation], dict[str, Any]]] = {
    "user": by_user,
    "server": by_server,
    "placement": by_placement,
}
