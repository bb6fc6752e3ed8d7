"""Strategies of misreports and allocations; tasks under misreports."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from fairopt.allocation import Allocation
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.properties.misreports.best import lying_instance, tasks_on
from fairopt.properties.units import quotient
from fairopt.runtime.arrays import Float
from fairopt.testing.instances import instances, whole


@st.composite
def misreports(
    draw: st.DrawFn, instance: Instance, user: str | int, boosting: bool = False, max_value: int = 8
) -> Instance:
    """The instance with misreported demands of one user: one changed, all scaled, or all drawn.

    `tasks_received` computes what the user gains.

    Parameters
    ----------
    instance : Instance
        The truth.
    user : str or int
        Label or index of the user who lies.
    boosting : bool, default False
        Whether all reported demands are at least the true ones.
    max_value : int, default 8
        The largest demand reported (with ``boosting``, the largest addition).

    Examples
    --------
    Levelling tasks rewards lies: a user who reports larger demands receives more.

    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from fairopt.testing import misreports, tasks_received
    >>> truth, policy = fo.Instance([[1, 2], [1, 2]], [4, 4]), fo.Policy(fo.Leximin(fo.Tasks()))
    >>> lie = find(misreports(truth, "user1"), lambda i: tasks_received(policy.allocate(i), truth, 0) > 1.01)
    >>> lie.demands[0].tolist()
    [2.0, 4.0]
    """
    j = instance.user_index(user)
    truth = instance.demands[j]
    usable = instance.total_capacities > 0  # a resource without capacity cannot be demanded
    shape = truth.shape
    small = st.integers(0, max_value)
    one = st.tuples(st.integers(0, truth.size - 1), small).map(lambda change: _changed(truth, *change, boosting))
    factors = [2.0, 3.0, 1.5] if boosting else [0.5, 2.0, 3.0, 0.25, 1.5]
    scaled = st.sampled_from(factors).map(lambda factor: truth * factor)
    many = st.lists(small, min_size=truth.size, max_size=truth.size).map(lambda v: np.reshape(v, shape))
    other = many.map(lambda v: truth + v) if boosting else many
    reported = draw(st.one_of(one, scaled, other).map(lambda v: v * usable))
    if (reported == truth).all() or not reported.any(axis=-1).all():
        reject()
    try:
        arguments = _arguments(lying_instance(instance, j, reported))
    except InvalidInstance:  # the reported demands fit on no server where the user may run
        reject()
    lie: Instance = draw(st.builds(Instance, **{name: st.just(value) for name, value in arguments.items()}))
    return lie


def tasks_received(allocation: Allocation, truth: Instance, user: str | int) -> float:
    """Tasks that a user runs on its bundle by true demands: ``sum_s min_i bundle_jsi / d_jsi``, up to its limit.

    Parameters
    ----------
    allocation : Allocation
        The answer to the reported demands.
    truth : Instance
        With the user's true demands and task limit.
    user : str or int
        Label or index.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.testing import tasks_received
    >>> truth = fo.Instance([[1, 2], [2, 1]], [6, 6])
    >>> lie = truth.with_demands([[2, 2], [2, 1]])
    >>> tasks_received(fo.DRF().allocate(truth), truth, 0), tasks_received(fo.DRF().allocate(lie), truth, 0)
    (2.0, 1.5)
    """
    j = truth.user_index(user)
    return tasks_on(allocation.bundles[j], truth, j)


def allocation_of(instance: Instance, tasks: ArrayLike) -> Allocation:
    """An allocation of given tasks, feasible or not, for tests of checks; its certificate has an infinite gap.

    Parameters
    ----------
    instance : Instance
        Users and servers.
    tasks : array-like of shape (n_users,) on one server, or (n_users, n_servers)
        Any tasks.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.testing import allocation_of
    >>> allocation_of(fo.Instance([[1, 2]], [4, 4]), [3]).certificate.violation
    0.5
    """
    return gate.of_nothing(instance, np.asarray(tasks, dtype=float).reshape(instance.eligible.shape))


@st.composite
def allocations(draw: st.DrawFn, instance: Instance | None = None) -> Allocation:
    """Feasible allocations, each user with some eighths of each server, made by `allocation_of`.

    Parameters
    ----------
    instance : Instance, optional
        Users and servers; drawn if not given.

    Examples
    --------
    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from fairopt.testing import allocations
    >>> find(allocations(fo.Instance([[1], [1]], [8])), lambda a: a.tasks[0] > a.tasks[1]).tasks
    array([1., 0.])
    """
    chosen = draw(instances(weights=True, limits=True)) if instance is None else instance
    n, servers = chosen.eligible.shape
    eighths = draw(st.lists(st.integers(0, 8), min_size=n * servers, max_size=n * servers))
    parts = np.reshape(eighths, (n, servers)) / 8.0
    parts /= np.maximum(parts.sum(axis=0), 1.0)
    needs, room = chosen.per_server_demands, chosen.capacities * chosen.counts[:, None]
    alone = quotient(room, needs, np.inf).min(axis=2)
    tasks = np.where(chosen.eligible, parts * np.where(chosen.eligible, alone, 0.0), 0.0)
    tasks *= np.minimum(1.0, quotient(chosen.task_limits, tasks.sum(axis=1), 1.0))[:, None]
    listed = tasks[:, 0].tolist() if servers == 1 else tasks.tolist()
    made: Allocation = draw(st.builds(allocation_of, st.just(chosen), st.just(listed)))
    return made


def _arguments(instance: Instance) -> dict[str, Any]:
    """The arguments of an instance that are not defaults, with whole numbers as integers."""
    out = json.loads(json.dumps(instance.to_dict()), parse_float=lambda text: whole(float(text)))
    for name in [name for name in out if name not in ("demands", "capacities")]:
        rest = {key: value for key, value in out.items() if key != name}
        out = rest if Instance(**rest) == instance else out
    return dict(out)


def _changed(truth: Float, at: int, value: int, boosting: bool) -> Float:
    """One demand set to a value, or raised by it."""
    changed = truth.copy()
    changed.flat[at] = changed.flat[at] + value if boosting else value
    return changed
