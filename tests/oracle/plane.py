"""The best point of the (beta, lambda) measure of Joe-Wong et al. (2013) by a fine search of all directions.

For one pool of two or three users. Along a ray f(t s) = t^lam f(s), so that the best point of each direction lies on
the outer faces of the feasible set; these are cut into simplices, each is covered by a grid, and the grid is refined
about all of its local maxima. Inner points, which may be dominated, are on faces too if directions are.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter
from scipy.optimize import minimize
from scipy.spatial import ConvexHull

Float = NDArray[np.floating[Any]]
POINTS = {2: 2001, 3: 61}  # of a grid along each axis
STARTS = 40  # local maxima of the grids that are refined, the best ones
POLISHED = 3  # of these
NEAR = 0.05  # of the largest share: points that are one optimum
TIE = 2e-6  # of the logarithm: two certified answers may differ by as much


class Best(NamedTuple):
    """The largest ``sgn(1-beta) log|f|`` found, where, and whether points away from there are clearly worse."""

    value: float
    shares: Float
    unique: bool


def log_measure(shares: Float, beta: float, lam: float) -> Float:
    """``sgn(1-beta) log|f|``, which grows with f: ``l log S + sgn(1-beta)/beta log sum (s/S)^(1-beta)``."""
    sign = 1.0 if beta <= 1 else -1.0
    total = shares.sum(axis=-1)
    with np.errstate(divide="ignore"):
        even = np.log(((shares / total[..., None]) ** (1 - beta)).sum(axis=-1)) if beta != 1 else np.zeros(total.shape)
    return np.asarray(sign * lam * np.log(total) + sign / beta * even)


def has_optimum(beta: float, lam: float) -> bool:
    """Whether f is defined and largest somewhere: not if it grows as all shares shrink."""
    return beta != 0 and (lam > 0 if beta == 1 else lam >= 0 if beta < 1 else lam <= 0)


def best_of_plane(loads: Float, beta: float, lam: float) -> Best:
    """The best shares of ``loads @ shares <= 1``, loads of shape (n_resources, n_users), for two or three users.

    For lam = 0, where f depends on ratios only, the largest of the equal shares.
    """
    faces = outer_simplices(loads)
    n = loads.shape[1]
    axis = np.linspace(0.0, 1.0, POINTS[n])
    grid = np.stack(np.meshgrid(*[axis] * (n - 1), indexing="ij"), axis=-1)
    shares = np.stack([_point(face, grid) for face in faces])
    values = log_measure(shares, beta, lam)
    peaks = values >= maximum_filter(values, size=(1, *[3] * (n - 1)), mode="nearest")
    where = np.argwhere(peaks & (values > -np.inf))
    _, first = np.unique(shares[tuple(where.T)].round(9), axis=0, return_index=True)  # corners are many points
    where = where[first]
    where = where[np.argsort(-values[tuple(where.T)], kind="stable")][:STARTS]
    centre, step = axis[where[:, 1:]], axis[1]
    fine = np.linspace(-2.0, 2.0, 9)
    moves = np.stack(np.meshgrid(*[fine] * (n - 1), indexing="ij"), axis=-1).reshape(-1, n - 1)
    while step > 1e-6:
        tried = np.clip(centre[:, None] + step * moves, 0.0, 1.0)
        points = np.stack([_point(faces[f], t) for f, t in zip(where[:, 0], tried, strict=True)])
        found = log_measure(points, beta, lam)
        top, rows = found.argmax(axis=1), np.arange(len(found))
        centre, best, at, step = tried[rows, top], found[rows, top], points[rows, top], step / 2
    for k in np.argsort(-best, kind="stable")[:POLISHED]:  # by lines, for ridges that run across the axes
        corners = faces[where[k, 0]]
        polished = minimize(
            lambda x, corners=corners: -log_measure(_point(corners, x), beta, lam),
            centre[k],
            method="Powell",
            bounds=[(0, 1)] * (n - 1),
            options={"xtol": 1e-12, "ftol": 1e-15},
        )
        if -polished.fun > best[k]:
            best[k], at[k] = -polished.fun, _point(corners, np.asarray(polished.x))
    k = int(best.argmax())
    flat = np.concatenate([shares.reshape(-1, n), at])
    apart = np.abs(flat - at[k]).max(axis=1) > NEAR * at[k].max()
    others = np.concatenate([values.ravel(), best])[apart]
    if lam == 0:
        return Best(float(best[k]), np.full(n, 1.0 / loads.sum(axis=1).max()), False)
    return Best(float(best[k]), at[k], bool(others.max(initial=-np.inf) < best[k] - TIE))


def outer_simplices(loads: Float) -> Float:
    """Corners (k, n, n) of simplices that cover the faces of the feasible set where some resource is full."""
    n = loads.shape[1]
    rows, right = np.vstack([loads, -np.eye(n)]), np.append(np.ones(len(loads)), np.zeros(n))
    corners = []
    for chosen in map(list, combinations(range(len(rows)), n)):
        if abs(np.linalg.det(rows[chosen])) > 1e-12:
            corner = np.linalg.solve(rows[chosen], right[chosen])
            if (rows @ corner <= right + 1e-9).all():
                corners.append(np.maximum(corner, 0.0))
    points = np.unique(np.round(corners, 12), axis=0)
    hull = ConvexHull(points / points.max(axis=0))
    outer = hull.simplices[hull.equations[:, -1] < -1e-9]  # the others go through the origin
    return np.asarray([points[simplex] / (loads @ points[simplex].T).max(axis=0)[:, None] for simplex in outer])


def _point(corners: Float, at: Float) -> Float:
    """Points of a simplex by numbers in [0, 1], dense near its corners' sides: each moves toward the next corner."""
    dense = at**2 * (3 - 2 * at)
    point = np.broadcast_to(corners[-1], (*at.shape[:-1], len(corners)))
    for k in range(len(corners) - 2, -1, -1):
        point = corners[k] + dense[..., k : k + 1] * (point - corners[k])
    return point
