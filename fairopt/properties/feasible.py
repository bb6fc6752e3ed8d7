"""Whether an allocation keeps capacities, limits and eligibility, with the first fault in words."""

from __future__ import annotations

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import InvalidInstance


def require_feasible(allocation: Allocation, tol: float) -> None:
    """`InvalidInstance` for an allocation that is infeasible by more than ``tol``."""
    instance, tasks = allocation.instance, np.asarray(allocation.tasks_by_server)
    if tasks.shape != (instance.n_users, instance.n_servers):
        wanted = instance.n_users, instance.n_servers
        raise InvalidInstance(f"tasks_by_server has shape {tasks.shape}; give {wanted}, a row per user")
    holds = None if allocation.given_bundles is None else np.asarray(allocation.given_bundles)
    if holds is not None and holds.shape != (*tasks.shape, instance.n_resources):
        raise InvalidInstance(f"bundles have shape {holds.shape}; give {(*tasks.shape, instance.n_resources)}")
    if not instance.n_users:
        return
    units = instance.own_slices[:, None]
    for wrong, fix in (
        (~np.isfinite(tasks), "give a finite number of tasks"),
        (tasks < -tol * units, "give 0 tasks or more"),
        (~instance.eligible & (np.abs(tasks) > tol * units), "it may not run there: give 0"),
    ):
        if wrong.any():
            j, s = np.argwhere(wrong)[0].tolist()
            raise InvalidInstance(
                f"user {instance.users[j]!r} has {tasks[j, s]} tasks on server {instance.servers[s]!r}; {fix}"
            )
    limits, total = instance.task_limits, tasks.sum(axis=1)
    over = np.flatnonzero(total > limits * (1.0 + tol))
    if len(over):
        j = int(over[0])
        raise InvalidInstance(f"user {instance.users[j]!r} runs {total[j]:.8g} tasks; its limit is {limits[j]:.8g}")
    if holds is not None and len(bad := np.argwhere(~np.isfinite(holds) | (holds < -tol * instance.capacities))):
        j, s, i = bad[0].tolist()
        raise InvalidInstance(
            f"user {instance.users[j]!r} holds {holds[j, s, i]} of {instance.resources[i]!r} on server "
            f"{instance.servers[s]!r}; give a finite number, 0 or more"
        )
    room = instance.capacities * instance.counts[:, None]
    for what, used in (("tasks use", allocation.task_usage), ("users hold", allocation.usage)):
        beyond = np.argwhere(used > room * (1.0 + tol))
        if len(beyond):
            s, i = beyond[0].tolist()
            raise InvalidInstance(
                f"{what} {used[s, i]:.8g} of {instance.resources[i]!r} on server {instance.servers[s]!r}, which has "
                f"{room[s, i]:.8g}; scale the allocation down first"
            )
