"""New quotas beside present ones and what teams hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime import first_of
from fairopt_clusters.quotas.cluster_queues import flavor_name
from fairopt_clusters.quotas.gpu_types import GpuTypes
from fairopt_clusters.quotas.quota import Quota, same_unit
from fairopt_clusters.quotas.team_quotas import ABOVE, Change, QuotaChanges
from fairopt_clusters.quotas.teams import Teams
from fairopt_clusters.read.amounts import matching

HeldOn = Callable[[Quota], NDArray[np.bool_] | None]


def changes_of(
    teams: Teams,
    gpus: GpuTypes | None,
    rows: Sequence[Quota],
    present: Sequence[Quota],
    held_on: HeldOn,
    names_others: bool = True,
    owed_alone: bool = False,
) -> QuotaChanges:
    """New quotas beside present ones and what is held.

    ``held_on`` are the servers that count for a flavor. Notes name present quotas without new ones if ``names_others``.
    With ``owed_alone`` what is owed is compared, and not what may be used.
    """
    by_name = {one.name: one for one in teams.counted(gpus)}
    of_kinds = {} if gpus is None or teams.held is None else gpus.used(teams.held)[0]

    def held_of(row: Quota) -> float | None:
        """What tasks of a team that run now take of what a quota is for; None if it is not known."""
        if row.team not in teams.names or row.resource not in by_name:
            return None
        t, one = teams.names.index(row.team), by_name[row.resource]
        if not row.flavor:
            return None if teams.held_in_all is None else float(one.of(teams.held_in_all[t]))
        if one.gpus is not None:
            return float(of_kinds[row.flavor][t]) if row.flavor in of_kinds else None
        mask = None if teams.held is None else held_on(row)
        return None if mask is None or teams.held is None else float(one.of(teams.held[t, mask]).sum())

    known, notes = _present(teams, rows, present, owed_alone)
    made = [
        Change(row.team, row.resource, row.flavor, row.unit, known.get(row.key), row.most, held_of(row), row.owed)
        for row in rows
    ]
    over = [
        f"{one.team} holds {one.held:,.6g} {one.words}, more than its new quota of {one.new:,.6g}"
        for one in made
        if one.is_over
    ]
    return QuotaChanges(tuple(made), (*over, *_beyond(teams), *(notes if names_others else ())))


def _present(
    teams: Teams, rows: Sequence[Quota], present: Sequence[Quota], owed_alone: bool
) -> tuple[dict[tuple[str, str, str], float], list[str]]:
    """Present amounts by the keys of new quotas, in their units, and notes on the others.

    Flavors are summed for a new quota of all servers together.
    """
    new, by_resource = {row.key: row for row in rows}, {row.resource: None for row in rows}
    written = {(row.team, row.resource, row.flavor.lower()): row.flavor for row in rows}
    out: dict[tuple[str, str, str], float] = {}
    other_teams, other = dict[str, None](), dict[str, None]()
    whole = {(one.team, one.resource) for one in present if not one.flavor}
    for one in present:
        if one.team not in teams.names and not any(row.team == one.team for row in rows):
            other_teams[one.team] = None
            continue
        resource = matching(one.resource, by_resource)
        names = (one.flavor.lower(), *([flavor_name("")] if not one.flavor else []))
        flavors = (written.get((one.team, resource or "", name)) for name in names)
        flavor = next((name for name in flavors if name is not None), one.flavor)
        key = (one.team, resource or "", flavor)
        if resource is not None and key not in new and (one.team, one.resource) not in whole:
            key = (one.team, resource, "")
        if key not in new:
            other[one.resource + (f" of {one.flavor}" if one.flavor else "")] = None
            continue
        now = replace(one, amount=one.owed) if owed_alone and one.owed is not None else one
        out[key] = out.get(key, 0.0) + same_unit(now, new[key].unit)
    notes = []
    if other_teams:
        notes.append(f"quotas of others than these {teams.by or 'user'}s stay as they are: {first_of(other_teams)}")
    if other:
        notes.append(f"present quotas without new ones stay as they are: {first_of(other)}")
    return out, notes


def _beyond(teams: Teams) -> list[str]:
    """The teams that hold more than there is."""
    if teams.held_in_all is None:
        return ["what teams hold now is not known: the input does not say where tasks run"]
    total = teams.servers.total_capacities
    return [
        f"{team} holds {teams.held_in_all[t, i]:,.6g} {resource}, but there is {total[i]:,.6g}: check the input"
        for t, team in enumerate(teams.names)
        for i, resource in enumerate(teams.servers.resources)
        if resource in teams.resources and teams.held_in_all[t, i] > total[i] * ABOVE
    ]
