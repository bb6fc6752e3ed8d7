"""PS-DSF (Khamse-Ashari et al. 2017): by how much any user could still rise on any server, by data and tasks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.blocks.model import in_range
from fairopt.formulation.program import Float
from fairopt.instance import Instance

FULL = 1e-12  # of a capacity: the rounding of sums over users


class Gain(NamedTuple):
    """The user and the server of the largest possible rise, as a fraction of what the user has (see `largest_gain`)."""

    gain: float
    user: int
    server: int


def tasks_alone_on_one(instance: Instance) -> Float:
    """``gamma_js``: tasks that user j could run alone on a single server of row s, 0 where it may not run."""
    return instance.tasks_alone / instance.counts


def largest_gain(instance: Instance, tasks_by_server: Float) -> Gain:
    """The largest rise of any user on any server that takes only from users above its own level.

    Let ``v_ks = x_k / gamma_ks`` be the virtual share of user k on server s, and its level there ``v_ks / w_k``. To
    rise on a server by a fraction t of all it has, user j needs ``t d_ji x_j`` more of each resource i that it uses:
    from what is left over, and from users who run there and are above j, as long as they are, until ``1 + t = top_i /
    level_j``, with ``top_i`` the highest level of any user who runs on the server and uses i. So t is at most ``max(0,
    top_i / level_j - 1) + left_i / (d_ji x_j)``, the least of these over its resources, and at most ``T_j / x_j - 1``
    by its task limit. It is 0 for all users if and only if every user below its limit needs, on each server where it
    may run, a full resource whose users there are at its level or below: the bottleneck condition that defines PS-DSF.
    The gain is infinite for a user who has nothing and could have something. ``tasks_by_server`` has shape (n_users,
    n_servers).
    """
    part = np.flatnonzero(instance.task_limits > 0)
    if len(part) == 0:
        return Gain(0.0, 0, 0)
    tasks, demands = tasks_by_server[part], instance.per_server_demands[part]
    capacity = instance.capacities * instance.counts[:, None]
    left = np.maximum(capacity * (1.0 - FULL) - np.einsum("jsi,js->si", demands, tasks), 0.0)
    alone, total = tasks_alone_on_one(instance)[part], tasks.sum(axis=1)[:, None]
    with np.errstate(all="ignore"):
        level = total / alone / in_range(instance.weights)[part, None]
        gain: Float = np.broadcast_to(instance.task_limits[part, None] / total - 1.0, tasks.shape)
        for i in range(instance.n_resources):
            uses = demands[:, :, i] > 0
            top = np.where(uses & (tasks > 0), level, 0.0).max(axis=0)
            reach = np.maximum(top / level - 1.0, 0.0) + left[:, i] / (demands[:, :, i] * total)
            gain = np.where(uses, np.minimum(gain, reach), gain)
    gain = np.where(alone > 0, np.nan_to_num(np.maximum(gain, 0.0), nan=np.inf), 0.0)
    j, s = np.unravel_index(int(np.argmax(gain)), gain.shape)
    return Gain(float(gain[j, s]), int(part[j]), int(s))
