"""What users wait for, the resource that leads, and what limits leave idle though users wait for it.

Of a resource on the servers R of its limits, with capacity C there and U units in use, C - U are idle. A limit that
binds, and whose users want more, leaves them idle. It states its reasons (`Limit.reasons`) by amounts a_1 >= a_2 >=
...: of what there is, all beyond a_1 is idle for the first, max(C - a_1, 0); beyond a_2 for the second, and so on;
what is left of C - U is for the last. So the parts add up to what is idle, whichever limits bind.

What no task could use in any case, such as GPUs of a server without a free core, counts too: it is what quotas leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairopt.allocation import Allocation
from fairopt.instance.labels import whole_name
from fairopt.instance.limits import Limit
from fairopt.questions.explanation import figure, listed
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.display import of_units
from fairopt.runtime.tolerances import SAME_TASKS

NAMED = 3  # limits in one reason
TASKS = "tasks"  # leads where no resource does


def waited_for(allocation: Allocation) -> Float:
    """The units of each resource that users ask for and do not get, infinite without a task limit.

    Those whose task limit is 0, such as tasks that fit on no server, ask for nothing.
    """
    instance = allocation.instance
    demands = np.where(instance.eligible[:, :, None], instance.per_server_demands, np.inf).min(axis=1)
    tasks = np.where(allocation.wanting_more, instance.task_limits - allocation.tasks, 0.0)[:, None]
    asked = (demands > 0) & np.isfinite(demands) & (tasks > 0)
    waiting: Float = np.multiply(tasks, demands, out=np.zeros(demands.shape), where=asked).sum(axis=0)
    return waiting


def leading(allocation: Allocation, chosen: str | None = None) -> str | None:
    """The resource that leads: the one that is chosen, else GPUs that users wait for; None for the number of tasks."""
    names, there = allocation.instance.resources, allocation.instance.total_capacities > 0
    if chosen is not None:
        return None if chosen == TASKS else names[allocation.instance.resource_index(whole_name(chosen, names))]
    waiting = waited_for(allocation)
    gpus = [i for i, name in enumerate(names) if _counts_gpus(name) and waiting[i] > 0 and there[i]]
    # a resource of one type of GPUs, as gpu:a100, counts some of those of gpu
    return min(((":" in names[i], -waiting[i], names[i]) for i in gpus), default=(False, 0.0, None))[2]


def _counts_gpus(resource: str) -> bool:
    """Whether a resource counts GPUs, of all types or of one."""
    return resource.partition(":")[0].rpartition("/")[2].lower() in ("gpu", "gpus")


@dataclass(frozen=True)
class Idle:
    """Units of a resource that limits leave idle, of how many, for how many users wait, and units by reason."""

    resource: str
    units: float
    there: float
    waits: float
    parts: dict[str, float]


@dataclass
class _Group:
    """Limits on a resource of the same servers, which divide what is idle there among the same reasons."""

    resource: int
    on: Bool
    limits: list[Limit] = field(default_factory=list)
    binding: list[Limit] = field(default_factory=list)

    def takes(self, limit: Limit, resource: int, on: Bool) -> bool:
        """Whether a limit, on some servers, is one of them."""
        same = self.resource == resource and _by_amount(self.limits[0]) == _by_amount(limit)
        return same and bool((self.on & on).any())


def _by_amount(limit: Limit) -> list[tuple[str, float]]:
    return [one for one in limit.reasons if np.isfinite(one[1])]


def idle_by_limits(allocation: Allocation) -> list[Idle]:
    """What limits that state their reasons leave idle of each resource that users wait for.

    Examples
    --------
    >>> import fairopt as fo
    >>> limit = {"name": "quota", "resource": "gpu", "amount": 6, "of": ["a"], "reasons": [("in nobody's quota", 6)]}
    >>> pool = fo.Instance([[1]], [8], users=["a"], resources=["gpu"], limits=[limit])
    >>> idle_by_limits(fo.DRF().allocate(pool))[0].parts
    {"in nobody's quota": 2.0}
    """
    instance, out = allocation.instance, list[Idle]()
    there = instance.capacities * instance.counts[:, None]
    members = {user: j for j, user in enumerate(instance.users)} | dict(instance.teams.names)
    groups: list[_Group] = []
    for limit in instance.limits:
        if not limit.reasons:
            continue
        users, counted = limit.counted(members, instance.n_servers)
        i = instance.resource_index(limit.resource)
        on: Bool = np.asarray(counted.any(axis=0))
        group = next((one for one in groups if one.takes(limit, i, on)), None)
        if group is None:
            groups.append(group := _Group(i, on))
        group.on |= on
        group.limits.append(limit)
        group.binding += [limit] * _binds(allocation, limit, users, counted, i)
    waits, found = waited_for(allocation), dict[int, dict[str, float]]()
    for one in groups:
        if one.binding and waits[one.resource] > 0:
            room, used = (float(of[one.on, one.resource].sum()) for of in (there, allocation.usage))
            of_resource = found.setdefault(one.resource, {})
            for reason, units in _parts(one.binding, room, used).items():
                of_resource[reason] = of_resource.get(reason, 0.0) + units
    for i, parts in found.items():
        total, every = sum(parts.values()), float(there[:, i].sum())
        if total > SAME_TASKS * every:
            out.append(Idle(instance.resources[i], total, every, float(waits[i]), parts))
    return out


def _binds(allocation: Allocation, limit: Limit, users: Indices, counted: Bool, i: int) -> bool:
    """Whether a limit is reached, and some of its users, who need the resource, want more."""
    demands = allocation.instance.per_server_demands[users][:, :, i]
    used = float((allocation.tasks_by_server[users] * demands * counted).sum())
    wants = allocation.wanting_more[users] & (demands * counted > 0).any(axis=1)
    return used >= limit.amount * (1 - SAME_TASKS) and bool(wants.any())


def _parts(binding: Sequence[Limit], there: float, used: float) -> dict[str, float]:
    """What is idle by reason, the widest first."""
    idle, out = there - used, dict[str, float]()
    for reason, amount in _by_amount(binding[0]):
        out[reason] = max(min(there - amount, idle) - sum(out.values()), 0.0)
    last = [reason for one in binding for reason, amount in one.reasons if not np.isfinite(amount)]
    rest = idle - sum(out.values())
    if last and rest > SAME_TASKS * there:
        out[listed(dict.fromkeys(last), NAMED)] = rest
    return {reason: units for reason, units in out.items() if units > SAME_TASKS * there}


def idle_sentence(allocation: Allocation) -> str:
    """What limits leave idle of the resource that leads, else of the one of which most is; empty if nothing is."""
    found, lead = idle_by_limits(allocation), leading(allocation)
    if not found:
        return ""
    one = min(found, key=lambda one: (one.resource != lead, -one.units / one.there))
    instance = allocation.instance
    title = of_units(instance.resources, instance.units)[instance.resource_index(one.resource)]
    parts = ", ".join(f"{figure(units)} {reason}" for reason, units in one.parts.items())
    wanted = f"{figure(one.waits)} are waited for" if np.isfinite(one.waits) else "more are waited for"
    return f"{figure(one.units)} of {figure(one.there)} {title} idle though {wanted}: {parts}"
