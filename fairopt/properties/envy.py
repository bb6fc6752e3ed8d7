"""The envy matrix: which user would run more on what another holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.constraints import tasks_of_each, tasks_on_bundles
from fairopt.properties.units import own_units, quotient

__all__ = ["Envy", "at_own_weights", "envy", "tasks_on_others", "up_to_one_of_theirs", "up_to_one_own", "whole"]

Float = NDArray[np.float64]

WHOLE = 5_000  # users up to whom the matrix is kept: 200 MB
BLOCK = 262_144  # pairs looked at in a row
ROUNDING = 1e-9  # relative: so much below a whole number of tasks is that number


@dataclass(frozen=True, eq=False)
class Envy:
    """Which user envies which, and by how much."""

    users: tuple[str, ...]  # labels of the rows and columns
    # How much more user j would run on what k holds, at its own weight, relative to what j runs (or to what its own
    # slice would run, if that is more): positive where j envies k, at least -1, and 0 on the diagonal; (n_users,
    # n_users), or None for more than 5,000 users.
    matrix: Float | None
    envier: str | None  # the pair with the largest entry off the diagonal; None with fewer than two users
    envied: str | None
    would_run: float  # tasks of the envier on what the envied holds, and on its own
    runs: float
    largest: Float  # largest entry of each row off the diagonal, -1 without another user, (n_users,)
    whom: NDArray[np.intp]  # index of the user it is for, -1 without another user, (n_users,)

    def pairs(self, tol: float = 1e-6) -> list[tuple[str, str, float]]:
        """Users who envy by more than ``tol``, whom they envy most, and by how much, the largest envy first."""
        order = np.argsort(-self.largest, kind="stable")
        enviers = (j for j in order.tolist() if self.largest[j] > tol)
        return [(self.users[j], self.users[self.whom[j]], float(self.largest[j])) for j in enviers]


def envy(allocation: Allocation, wanted: Callable[[Allocation, NDArray[np.intp]], Float] | None = None) -> Envy:
    """Compare what every user runs with what it would run on each other user's bundle.

    Bundles are those that the policy decides; otherwise tasks times demands. ``wanted`` may count otherwise than
    `tasks_on_others` does.
    """
    wanted = wanted or tasks_on_others
    instance, n = allocation.instance, allocation.instance.n_users
    tasks = allocation.tasks
    unit = own_units(instance, tasks)
    matrix = np.zeros((n, n)) if n <= WHOLE else None
    largest, whom, would = np.full(n, -1.0), np.full(n, -1, dtype=np.intp), np.zeros(n)
    step = max(1, BLOCK // max(n, 1))
    for first in range(0, n if n > 1 else 0, step):
        rows = np.arange(first, min(first + step, n))
        runs = wanted(allocation, rows)
        relative = quotient(runs - tasks[rows, None], unit[rows, None])
        relative[rows - first, rows] = -np.inf
        whom[rows] = relative.argmax(axis=1)
        largest[rows], would[rows] = relative[rows - first, whom[rows]], runs[rows - first, whom[rows]]
        if matrix is not None:
            relative[rows - first, rows] = 0.0
            matrix[rows] = relative
    if n < 2:
        return Envy(instance.users, matrix, None, None, 0.0, 0.0, largest, whom)
    j = int(largest.argmax())
    pair = instance.users[j], instance.users[int(whom[j])]
    return Envy(instance.users, matrix, *pair, float(would[j]), float(tasks[j]), largest, whom)


def tasks_on_others(allocation: Allocation, users: NDArray[np.intp]) -> Float:
    """Tasks that some users would run on what each user holds, per weight, cut at their limits: (k, n_users).

    ``min(T_j, (w_j / w_k) sum_s min_i b_ksi / d_jsi)`` over the servers where j may run.
    """
    instance = allocation.instance
    demands, eligible = instance.demands[users], instance.eligible[users]
    if allocation.given_bundles is None:
        runs = tasks_on_bundles(instance, users, allocation.tasks_by_server)
        return np.minimum(runs, instance.task_limits[users, None], out=runs)
    runs = np.zeros((len(users), instance.n_users))
    bundles = allocation.bundles
    for s in range(instance.n_servers):
        mine = demands if demands.ndim == 2 else demands[:, s]
        runs += np.where(eligible[:, s, None], tasks_of_each(mine, bundles[:, s]), 0.0)
    return at_own_weights(runs, instance.weights[users], instance.weights, instance.task_limits[users])


def up_to_one_of_theirs(allocation: Allocation, users: NDArray[np.intp]) -> Float:
    """Whole tasks that some users could run on what each user holds less one task, cut at their limits: (k, n_users).

    The task is taken away from the server where that costs most; a row of identical servers counts as one.
    """
    return _whole_on_others(allocation, users, less_one=True)


def up_to_one_own(allocation: Allocation, users: NDArray[np.intp]) -> Float:
    """Whole tasks less one that some users could run on what each user holds, cut at their limits: (k, n_users)."""
    return np.maximum(_whole_on_others(allocation, users, less_one=False) - 1.0, 0.0)


def whole(tasks: Float) -> Float:
    """The whole tasks among some, up to rounding."""
    return np.floor(tasks * (1.0 + ROUNDING))


def _whole_on_others(allocation: Allocation, users: NDArray[np.intp], less_one: bool) -> Float:
    instance, bundles = allocation.instance, allocation.bundles
    demands, per_task = instance.per_server_demands, instance.weights[users, None] / instance.weights
    runs = np.zeros((len(users), instance.n_users))
    cost = np.zeros(runs.shape)
    for s in range(instance.n_servers):
        mine, may_run = demands[users, s], instance.eligible[users, s, None]
        here = np.where(may_run, whole(per_task * tasks_of_each(mine, bundles[:, s])), 0.0)
        runs += here
        if less_one:
            rest = np.maximum(bundles[:, s] - demands[:, s], 0.0)
            np.maximum(cost, here - np.where(may_run, whole(per_task * tasks_of_each(mine, rest)), 0.0), out=cost)
    return np.minimum(runs - cost, whole(instance.task_limits[users, None]))


def at_own_weights(runs: Float, weights: Float, of_others: Float, limits: Float) -> Float:
    """Tasks on others' bundles as envy compares them, (..., users, others): per weight, and cut at users' limits."""
    runs *= weights[..., :, None] / of_others[..., None, :]
    return np.minimum(runs, limits[..., :, None])
