"""PS-DSF (Khamse-Ashari et al. 2017): how far any user could still rise on any server (Proposition 5.9).

User j could rise on server s by what its bottleneck leaves: ``gain_js = min over needed i of (top_si / level_js - 1)+ +
left_si / (d_jsi x_j)``, with top_si the highest level among the users of resource i there, and left_si what is unused.
At a gap of 0 nobody can rise without lowering somebody whose level there is no higher. PS-DSF maximises nothing, so
that no bound is compared with a value: the gap is the largest gain of any user on any server, from the data and the
tasks alone. It is exact and needs no evidence.

Floats: 1e-12 of each capacity counts as used, or a user with a trace of tasks could double by rounding. A user without
tasks that could run some has an infinite gain. Divisions by 0 on the way are meant: what a user does not need, or where
it may not run, is masked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.instance import Instance
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import ROUNDING


class Gain(NamedTuple):
    """The largest possible rise, relative to the user's tasks, and its user and server (see `largest_gain`)."""

    gain: float
    user: int
    server: int


def tasks_alone_on_one(instance: Instance) -> Float:
    """``gamma_js``: tasks that user j could run alone on a single server of row s, 0 if it may not run there."""
    return instance.tasks_alone / instance.counts


def largest_gain(instance: Instance, tasks_by_server: Float) -> Gain:
    """The largest rise of any user on any server that takes only from users above its own level.

    Let ``v_ks = x_k / gamma_ks`` be the virtual share of user k on server s, and ``v_ks / w_k`` its level there. To
    rise on a server by the fraction t of its tasks, user j needs ``t d_ji x_j`` more of each resource i: from unused
    capacity, and from users who run there above j's level, until ``1 + t = top_i / level_j``, with ``top_i`` the
    highest level of a user who runs there and uses i. So t is at most ``max(0, top_i / level_j - 1) + left_i / (d_ji
    x_j)`` for each of its resources, and at most ``T_j / x_j - 1`` by its task limit. It is 0 for all users if and only
    if the allocation is PS-DSF. The gain is infinite for a user without tasks who could run some. ``tasks_by_server``
    has shape (n_users, n_servers).
    """
    part = np.flatnonzero(instance.task_limits > 0)
    if len(part) == 0:
        return Gain(0.0, 0, 0)
    tasks, demands = tasks_by_server[part], instance.per_server_demands[part]
    capacity = instance.capacities * instance.counts[:, None]
    left = np.maximum(capacity * (1.0 - ROUNDING) - np.einsum("jsi,js->si", demands, tasks), 0.0)
    alone, total = tasks_alone_on_one(instance)[part], tasks.sum(axis=1)[:, None]
    with np.errstate(all="ignore"):
        level = total / alone / instance.weights[part, None]  # v_js / w_j, infinite where the user may not run
        gain: Float = np.broadcast_to(instance.task_limits[part, None] / total - 1.0, tasks.shape)
        for i in range(instance.n_resources):
            uses = demands[:, :, i] > 0
            # only who runs here can be lowered here; its level is that of all its tasks
            top = np.where(uses & (tasks > 0), level, 0.0).max(axis=0)
            reach = np.maximum(top / level - 1.0, 0.0) + left[:, i] / (demands[:, :, i] * total)
            gain = np.where(uses, np.minimum(gain, reach), gain)
    gain = np.where(alone > 0, np.nan_to_num(np.maximum(gain, 0.0), nan=np.inf), 0.0)
    j, s = np.unravel_index(int(np.argmax(gain)), gain.shape)
    return Gain(float(gain[j, s]), int(part[j]), int(s))
