"""What quotas secure for teams: the units that their tasks take together, filled evenly within the quotas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]
Quotas = Sequence[tuple[Mask, Mapping[str, float]]]  # units by resource on the servers of each flavor
_FULL = 1e-12  # relative


def secured_units(
    quotas: Mapping[str, Quotas],
    members: Mapping[str, Collection[int]],
    demands: Float,
    limits: Float,
    able: Mask,
    resources: Sequence[str],
    capacities: Float,
) -> dict[str, dict[str, float]]:
    """Units by resource for each team with quotas; ``able`` (n_users, n_servers) says where a task fits.

    The members' dominant shares rise together from what smaller teams secure for them, until a quota of what they need
    is used up or their tasks run out. So the units are what tasks take together, which the most of each resource alone
    might not be. Users whose tasks fit nowhere secure nothing. Of teams with the same users the inner ones come first
    in ``quotas``.
    """
    total = capacities.sum(axis=0)
    shares = np.max(demands / np.where(total > 0, total, 1.0), axis=1, initial=0.0)
    tasks = np.zeros(len(demands))
    out: dict[str, dict[str, float]] = {}
    for team in sorted(quotas, key=lambda team: len(members[team])):
        named = [i for i, name in enumerate(resources) if any(name in units for _, units in quotas[team])]
        mine = [j for j in members[team] if able[j].any() and demands[j, named].any()]
        usable = {j: frozenset(f for f, (on, _) in enumerate(quotas[team]) if (able[j] & on).any()) for j in mine}
        rows, right = [], []
        for flavors in sorted(_unions({*usable.values()}), key=sorted):
            inside = np.array([usable[j] <= flavors for j in mine], dtype=np.bool_)
            for i in named:
                rows.append(np.where(inside, demands[mine, i], 0.0))
                right.append(sum(quotas[team][f][1].get(resources[i], 0.0) for f in flavors))
        if mine:
            tasks[mine] = _filled(tasks[mine], 1.0 / shares[mine], limits[mine], np.array(rows), np.array(right))
        units = tasks[list(members[team])] @ demands[list(members[team])]
        out[team] = {resources[i]: float(units[i]) for i in named if units[i] > 0}
    return out


def _unions(sets: Collection[frozenset[int]]) -> set[frozenset[int]]:
    """The sets, and all unions of those that overlap: what may run on some flavors, and on no others, is within them.

    Unions of sets that do not overlap say nothing more.
    """
    out, new = set[frozenset[int]](), {*sets}
    while new:
        out |= new
        new = {one | other for one in new for other in sets if one & other} - out
    return out


def _filled(start: Float, rates: Float, limits: Float, rows: Float, right: Float) -> Float:
    """Tasks that rise from a start at given rates until limits or rows, ``rows @ tasks <= right``, stop each."""
    tasks, right = start.copy(), np.maximum(right, rows @ start)
    while True:
        slack = right - rows @ tasks
        full = slack <= _FULL * np.maximum(right, 1.0)
        rising = (tasks < limits * (1 - _FULL)) & ~(rows[full] > 0).any(axis=0)
        if not rising.any():
            return tasks
        speed = np.where(rising, rates, 0.0)
        use = rows @ speed
        steps = [*(slack[use > 0] / use[use > 0]), *((limits - tasks)[rising] / rates[rising])]
        tasks = np.minimum(tasks + min(steps) * speed, limits)
