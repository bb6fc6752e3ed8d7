"""What users report, what that is worth to them, and allocations of any merit."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from fairopt.allocation import Allocation
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.proofs import gate
from fairopt.properties.misreports.best import tasks_on
from fairopt.testing.instances import instances, whole

__all__ = ["allocation_of", "allocations", "misreports", "tasks_received"]

Float = NDArray[np.floating[Any]]


@st.composite
def misreports(
    draw: st.DrawFn, instance: Instance, user: str | int, boosting: bool = False, max_value: int = 8
) -> Instance:
    """The instance as one user misreports it: other demands per task, and all else as it is.

    Parameters
    ----------
    instance : Instance
        The truth.
    user : str or int
        Label or index of the user who lies.
    boosting : bool, default False
        Whether to ask for more only: no demand below the truth.
    max_value : int, default 8
        The largest demand reported (with ``boosting``, the largest addition).

    Returns
    -------
    SearchStrategy of Instance
        One demand changed, all scaled, or any demands; never the truth. `tasks_received` says what a lie is worth.

    Examples
    --------
    The number of tasks as a share invites lies: whoever asks for more per task gets more.

    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from fairopt.testing import misreports, tasks_received
    >>> truth, policy = fo.Instance([[1, 2], [1, 2]], [4, 4]), fo.Policy(fo.Leximin(fo.Tasks()))
    >>> lie = find(misreports(truth, "user1"), lambda i: tasks_received(policy.allocate(i), truth, 0) > 1.01)
    >>> lie.demands[0].tolist()
    [2.0, 4.0]
    """
    j = _user_index(instance, user)
    truth = instance.demands[j]
    usable = instance.total_capacities > 0  # demands of what is nowhere are refused
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
    rows = [_plain(reported if k == j else row) for k, row in enumerate(instance.demands)]
    rest = {name: value for name, value in _arguments(instance).items() if name != "demands"}
    try:
        lie: Instance = draw(st.builds(Instance, demands=st.just(rows), **{k: st.just(v) for k, v in rest.items()}))
    except InvalidInstance:  # what it says it needs stands on no server where it may run
        reject()
    return lie


def tasks_received(allocation: Allocation, truth: Instance, user: str | int) -> float:
    """How many tasks a user really runs on what it holds, whatever it reported.

    Parameters
    ----------
    allocation : Allocation
        Of what was reported.
    truth : Instance
        With the user's true demands and task limit.
    user : str or int
        Label or index.

    Returns
    -------
    float
        ``sum_s min_i bundle_jsi / d_jsi``, at most the user's task limit.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.testing import tasks_received
    >>> truth = fo.Instance([[1, 2], [2, 1]], [6, 6])
    >>> lie = truth.with_demands([[2, 2], [2, 1]])
    >>> tasks_received(fo.DRF().allocate(truth), truth, 0), tasks_received(fo.DRF().allocate(lie), truth, 0)
    (2.0, 1.5)
    """
    j = _user_index(truth, user)
    return tasks_on(allocation.bundles[j], truth, j)


def allocation_of(instance: Instance, tasks: ArrayLike) -> Allocation:
    """An allocation of given tasks, which nobody says is best: for tests of checks.

    Parameters
    ----------
    instance : Instance
        Users and servers.
    tasks : array-like of shape (n_users,) on one server, or (n_users, n_servers)
        Of any merit: what they exceed stands in ``certificate.violation``.

    Returns
    -------
    Allocation
        Its certificate has a gap of infinity, so it is not ``ok``.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.testing import allocation_of
    >>> allocation_of(fo.Instance([[1, 2]], [4, 4]), [3]).certificate.violation
    0.5
    """
    by_server = np.asarray(tasks, dtype=float).reshape(instance.eligible.shape)
    return gate.of_nothing(instance, by_server)


@st.composite
def allocations(draw: st.DrawFn, instance: Instance | None = None) -> Allocation:
    """Feasible allocations, good and bad: each user some part of each server, in eighths.

    Parameters
    ----------
    instance : Instance, optional
        Users and servers; drawn too, where none is given.

    Returns
    -------
    SearchStrategy of Allocation
        As `allocation_of` makes them.

    Examples
    --------
    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from fairopt.testing import allocations
    >>> find(allocations(fo.Instance([[1], [1]], [8])), lambda a: a.tasks[0] > a.tasks[1]).tasks
    array([1., 0.])
    """
    asked = draw(instances(weights=True, limits=True)) if instance is None else instance
    n, servers = asked.eligible.shape
    eighths = draw(st.lists(st.integers(0, 8), min_size=n * servers, max_size=n * servers))
    parts = np.reshape(eighths, (n, servers)) / 8.0
    parts /= np.maximum(parts.sum(axis=0), 1.0)
    needs, room = asked.per_server_demands, asked.capacities * asked.counts[:, None]
    alone = np.divide(room, needs, out=np.full(needs.shape, np.inf), where=needs > 0).min(axis=2)
    tasks = np.where(asked.eligible, parts * np.where(asked.eligible, alone, 0.0), 0.0)
    total = tasks.sum(axis=1)
    tasks *= np.minimum(1.0, np.divide(asked.task_limits, total, out=np.ones(n), where=total > 0))[:, None]
    listed = tasks[:, 0].tolist() if servers == 1 else tasks.tolist()
    made: Allocation = draw(st.builds(allocation_of, st.just(asked), st.just(listed)))
    return made


def _plain(values: Float) -> Any:
    """An array as lists of numbers as people write them."""
    return [_plain(v) for v in values] if np.ndim(values) else whole(float(values))


def _arguments(instance: Instance) -> dict[str, Any]:
    """What makes an instance again, without what is at its default."""
    n, servers = instance.eligible.shape
    capacities = _plain(instance.capacities)
    out = {"demands": _plain(instance.demands), "capacities": capacities[0] if servers == 1 else capacities}
    if (instance.weights != 1).any():
        out["weights"] = _plain(instance.weights)
    if np.isfinite(instance.task_limits).any():
        out["task_limits"] = [None if np.isinf(t) else whole(t) for t in instance.task_limits]
    if not instance.eligible.all():
        out["eligible"] = instance.eligible.tolist()
    if (instance.counts != 1).any():
        out["counts"] = instance.counts.tolist()
    labels = {"users": instance.users, "resources": instance.resources, "servers": instance.servers}
    plain = Instance(np.ones((n, len(instance.resources))), np.ones((servers, len(instance.resources))))
    return {**out, **{name: list(given) for name, given in labels.items() if given != getattr(plain, name)}}


def _changed(truth: Float, at: int, value: int, boosting: bool) -> Float:
    """One demand set to a value, or raised by it."""
    changed = truth.copy()
    changed.flat[at] = changed.flat[at] + value if boosting else value
    return changed


def _user_index(instance: Instance, user: str | int) -> int:
    """`Instance.user_index`, with an error that names the users, and True is not a user."""
    if not isinstance(user, bool):
        with contextlib.suppress(InvalidInstance):
            return instance.user_index(user)
    raise InvalidInstance(f"no user {user!r} among {', '.join(instance.users[:10])}; give a label or an index")
