"""What each user was served over time: by window, with Jain's index among those who wait."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairopt.errors import InvalidBlock
from fairopt.metrics import jain
from fairopt.online.promises import service_gap, service_per_weight, who
from fairopt.online.timeline import Timeline
from fairopt.runtime.arrays import Bool, Float, Indices

WINDOWS = 20  # where no length is given
MOST_WINDOWS = 100_000  # of a run: more are a mistake in the unit of time


@dataclass(frozen=True, eq=False)
class Service:
    """What users were served, by window.

    Attributes
    ----------
    users : tuple of str
        Labels of the columns.
    edges : ndarray of shape (n_windows + 1,)
        Where windows begin and end.
    served : ndarray of shape (n_windows, n_users)
        Cost per weight of the tasks that started in each window.
    active : ndarray of bool of shape (n_windows, n_users)
        Who waits at the beginning and at the end of the window; users who want less than they could have are not
        served unfairly.
    jain : ndarray of shape (n_windows,)
        Jain's index of ``served`` among the active users; NaN where no two are active.
    gap, bound : float
        `service_gap`: the largest difference of service of two users while both wait, and the bound of VTC.

    Examples
    --------
    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1], 1, tasks=9), fo.Job("B", [1], 1, tasks=4, arrival=4)]
    >>> fo.online.service(fo.simulate([1], jobs)).total
    {'A': 9.0, 'B': 4.0}
    """

    users: tuple[str, ...]
    edges: Float
    served: Float
    active: Bool
    jain: Float
    gap: float
    bound: float

    @property
    def total(self) -> dict[str, float]:
        """Service of each user over the run."""
        return dict(zip(self.users, self.served.sum(axis=0).tolist(), strict=True))


def service(run: Timeline, cost: Mapping[str, float] | None = None, window: float | None = None) -> Service:
    """What users were served over time.

    Parameters
    ----------
    run : Timeline
        A replay.
    cost : dict of float by resource, optional
        What counts as service, such as ``{"input": 1, "output": 2}``. Default: the share of the timeline.
    window : float, optional
        The length of a window, in the unit of the jobs. Default: a twentieth of the run.

    Returns
    -------
    Service

    Raises
    ------
    InvalidBlock
        If the window is not a positive number, or so short that there are more than 100,000.
    InvalidInstance
        If ``cost`` names no resource of the run.

    Examples
    --------
    A has the slot to itself until B comes:

    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1], 1, tasks=9), fo.Job("B", [1], 1, tasks=4, arrival=4)]
    >>> found = fo.online.service(fo.simulate([1], jobs), window=4)
    >>> found.served, found.jain
    (array([[4., 0.],
           [2., 2.],
           [2., 2.],
           [1., 0.]]), array([nan,  1., nan, nan]))
    """
    check_window(window)
    begun, ended = run.span
    length = (ended - begun) / WINDOWS if window is None else window
    if window is not None and not length * MOST_WINDOWS >= ended - begun:
        raise InvalidBlock(f"window is {window!r}, and the run lasts {ended - begun:.6g}; give a longer one")
    n = max(1, math.ceil((ended - begun) / length)) if length else 1
    edges: Float = begun + length * np.arange(n + 1, dtype=float)
    users, _, weights = who(run)
    # Where a start is, to the left of its right end: rounding of the division must not move it past the last window.
    at = np.clip(np.searchsorted(edges, run.start, side="right") - 1, 0, n - 1)
    costs = np.bincount(at * len(weights) + users, service_per_weight(run, cost), n * len(weights))
    served = np.asarray(costs.reshape(n, len(weights)), dtype=float)
    waits = _waiting(run, edges, users)
    active = waits[:-1] & waits[1:]
    index = [jain(row[here]) if here.sum() > 1 else np.nan for row, here in zip(served, active, strict=True)]
    return Service(run.users, edges, served, active, np.array(index), *service_gap(run, cost))


def check_window(window: float | None) -> None:
    """Raise `InvalidBlock` for a window that is not a positive number."""
    if window is None:
        return
    if not isinstance(window, (int, float)) or isinstance(window, bool) or not 0 < window < math.inf:
        raise InvalidBlock(f"window is {window!r}; give a finite time > 0, in the unit of the jobs")


def _waiting(run: Timeline, edges: Float, users: Indices) -> Bool:
    """Who has a task that has arrived and not started, at each edge."""
    late = np.flatnonzero(run.unstarted)  # jobs with tasks that never start
    of = np.concatenate([users, run.table.user_of_kind[run.table.kind[late]]])
    begun = np.concatenate([run.table.arrival[run.task_job], run.table.arrival[late]])
    ended = np.concatenate([run.start, np.full(len(late), np.inf)])
    left = np.zeros((len(edges) + 1, len(run.users)), dtype=int)
    np.add.at(left, (np.searchsorted(edges, begun), of), 1)  # waits at the first edge that is not before its arrival
    np.add.at(left, (np.searchsorted(edges, ended), of), -1)
    return np.asarray(left.cumsum(axis=0)[:-1] > 0)
