"""The exact region of tasks that two users can run together, computed without an optimisation problem."""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Float


def frontier(demands: Float, left: Float, limits: Float) -> Float:
    """Corners of the Pareto frontier of the tasks of two users, from the second user alone to the first user alone.

    Demands have shape (2, n_servers, n_resources) and are infinite on servers where a user may not run; ``left`` is the
    capacity available to the two users. Feasible points lie to the left of and below the frontier.

    On one server the region is a convex polygon. The region of all servers is the Minkowski sum of these polygons. Its
    frontier consists of the edges of the summands, sorted by slope.

    Examples
    --------
    >>> frontier(np.array([[[1.0]], [[2.0]]]), np.array([[4.0]]), np.array([np.inf, 1.0]))
    array([[0., 1.],
           [2., 1.],
           [4., 0.]])
    """
    parts = [_of_server(demands[:, s], left[s]) for s in range(len(left))]
    start = np.array([0.0, sum(p[0, 1] for p in parts)])
    steps = np.vstack([np.diff(p, axis=0) for p in parts] or [np.zeros((0, 2))])
    steps = steps[np.argsort(np.arctan2(steps[:, 1], steps[:, 0]), kind="stable")[::-1]]  # flat edges first
    return _cut_at(np.vstack([start, start + np.cumsum(steps, axis=0)]), limits)


def _of_server(demands: Float, left: Float) -> Float:
    """Corners of the frontier of one server, of shape (n_corners, 2)."""
    a, b = (_alone(d, left) for d in demands)
    if not (a > 0 and b > 0):
        return np.array([[0.0, b], [a, 0.0]])
    needed = (demands > 0).any(axis=0)
    (r_a, r_b), room = demands[:, needed], left[needed]
    # resource i is full on the line r_a x + r_b y = room; corners are intersections of two such lines
    crossing = r_a[:, None] * r_b[None, :] - r_a[None, :] * r_b[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        x = (room[:, None] * r_b[None, :] - room[None, :] * r_b[:, None]) / crossing
    x = np.unique(np.concatenate([[0.0, a], x[np.isfinite(x) & (x > 0) & (x < a)]]))
    uses = r_b > 0
    y = ((room[uses] - x[:, None] * r_a[uses]) / r_b[uses]).min(axis=1).clip(0.0, b)
    corners = np.column_stack([x, y])
    return corners if y[-1] == 0 else np.vstack([corners, [a, 0.0]])


def _alone(demand: Float, left: Float) -> float:
    """Tasks of one user that fit on one server without the other user."""
    needed = demand > 0
    return float((left[needed] / demand[needed]).min(initial=np.inf)) if np.isfinite(demand).all() else 0.0


def _cut_at(corners: Float, limits: Float) -> Float:
    """Restrict the frontier to the task limits."""
    x, y = corners.T
    right, top = min(float(limits[0]), float(x[-1])), min(float(limits[1]), float(y[0]))
    at_top, at_right = _reach(top, x, y), _reach(right, y[::-1], x[::-1])
    if at_top >= right:  # the task limits are feasible together
        return np.array([[0.0, top], [right, top], [right, 0.0]])
    inside = corners[(x > at_top) & (x < right) & (y < top) & (y > at_right)]
    ends = [[0.0, top], [at_top, top], *inside.tolist(), [right, at_right], [right, 0.0]]
    return np.array([p for k, p in enumerate(ends) if k == 0 or p != ends[k - 1]])


def _reach(level: float, x: Float, y: Float) -> float:
    """The largest x with y >= level on the frontier, along which y decreases."""
    k = int(np.flatnonzero(y >= level)[-1])
    if k == len(x) - 1:
        return float(x[-1])
    return float(x[k] + (x[k + 1] - x[k]) * (y[k] - level) / (y[k] - y[k + 1]))
