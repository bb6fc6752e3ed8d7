"""The region of tasks that two users can run together, with the points of policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.instance import Instance
from fairopt.plots.common import colour, cut, plain
from fairopt.plots.panels import Picture, Two, two_of
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import GAP_TOLERANCE

# dashes show both of two coinciding lines
STROKES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (4, 1.2, 1.2, 1.2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SAME = 1e-4  # relative to the region: closer points share a marker
BEYOND = 1.7  # largest axis limits relative to the region, to show where lines meet the axes


class Region(Picture):
    """Lines of full resources, the region between them, and a point for each allocation.

    As in Fig. 2 (bottom) of Joe-Wong et al. (2013). On each line the total capacity of a resource is exhausted. The
    shaded region is exact and respects task limits. On several servers it can be smaller than the lines suggest, since
    a task cannot be split between servers. With more than two users, the others keep what they hold in the allocation
    (for an Instance: nothing). There are no lines if demands differ by server.
    """

    what = "what two users can run"
    size = (2.9, 2.7)

    def __init__(self, instance: Instance, allocations: Mapping[str, Allocation], users: Two = None) -> None:
        self.instance = instance
        self.two = list(two_of(instance.users, users, "users"))
        self.found = dict(allocations)
        self.together = instance.n_users == 2  # otherwise what the other users hold depends on the policy
        capacity = instance.capacities * instance.counts[:, None]
        demands = np.where(instance.eligible[self.two, :, None], instance.per_server_demands[self.two], np.inf)
        shown = list(self.found.values())[: 1 if self.together else None]
        remaining = [np.maximum(capacity - self._by_others(a), 0.0) for a in shown] or [capacity]
        self._edges = [frontier(demands, left, instance.task_limits[self.two]) for left in remaining]
        self._keys = [id(a) for a in shown]
        reach = np.max([edge.max(axis=0) for edge in self._edges], axis=0)
        self.reach = np.where(reach > 0, reach, 1.0)
        self._lines = [self._full_lines(left) for left in remaining]
        meets = np.array([ends.max(axis=0) for lines in self._lines for _, ends in lines] or [self.reach])
        self.view = 1.04 * np.where(meets <= BEYOND * self.reach, meets, 0.0).max(axis=0).clip(self.reach)

    def draw(self, ax: Any, allocation: Allocation | None) -> None:
        """Draw the region, its lines, and the points."""
        k = 0 if allocation is None or self.together else self._keys.index(id(allocation))
        edge = self._edges[k]
        corners = np.vstack([[0.0, 0.0], edge])
        ax.fill(*corners.T, facecolor="#DCE9F2", edgecolor="none", zorder=0.5)
        ax.plot(*edge.T, color="#7F9DB5", linewidth=0.8, zorder=1)
        for i, ends in self._lines[k]:
            ax.plot(*ends.T, **_stroke(i), zorder=2)
        limits = self.instance.task_limits[self.two]
        for limit, line, most in zip(limits.tolist(), (ax.axvline, ax.axhline), self.view.tolist(), strict=True):
            if limit <= most:
                line(limit, color="#8C8C8C", linewidth=1.0, linestyle=(0, (1, 1)), zorder=1.5)
        if allocation is None or self.together:
            for n, (_, point) in enumerate(self._points()):
                ax.plot(*point, **_mark(n), markersize=7, markeredgecolor="white", zorder=4, clip_on=False)
        else:
            ax.plot(*allocation.tasks[self.two], MARKERS[0], color="black", markersize=6, zorder=4, clip_on=False)
        ax.set_xlim(0, self.view[0])
        ax.set_ylim(0, self.view[1])
        names = [cut(self.instance.users[j], 30) for j in self.two]
        ax.set_xlabel(f"tasks of {names[0]}")
        ax.set_ylabel(f"tasks of {names[1]}")
        plain(ax)

    def handles(self) -> list[Any]:
        """Resources, the region, limits and points."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        several = self.instance.n_servers > 1
        words, full = ("possible on these servers", "full everywhere") if several else ("possible", "full")
        made: list[Any] = [Patch(facecolor="#DCE9F2", edgecolor="#7F9DB5", label=words)]
        for i, _ in self._lines[0]:
            seen = [self._in_view(ends) for lines in self._lines for k, ends in lines if k == i]
            where = "" if all(seen) else ":\nin some panels further out" if any(seen) else ":\nfurther out"
            words = f"{cut(self.instance.resources[i], 16)} {full}{where}"
            made.append(Line2D([], [], **_stroke(i), label=words))
        if (self.instance.task_limits[self.two] <= self.view).any():
            made.append(Line2D([], [], color="#8C8C8C", linestyle=(0, (1, 1)), label="task limit"))
        if self.together or not self.found:
            for n, (names, point) in enumerate(self._points()):
                at = ", ".join(f"{x:.4g}" for x in np.where(point > GAP_TOLERANCE * self.reach, point, 0.0))
                words = "\n= ".join(map(cut, names)) + f"\n({at})"
                made.append(Line2D([], [], **_mark(n), markersize=6, label=words))
        else:
            made.append(Line2D([], [], marker="o", color="black", linestyle="", label="the allocation"))
        return made

    def _points(self) -> list[tuple[list[str], Float]]:
        """Points of allocations, each with the names of its policies."""
        out: list[tuple[list[str], Float]] = []
        for name, allocation in self.found.items():
            point = allocation.tasks[self.two]
            near = next((names for names, other in out if (abs(point - other) <= SAME * self.reach).all()), None)
            if near is None:
                out.append(([name], point))
            else:
                near.append(name)
        return out

    def _in_view(self, ends: Float) -> bool:
        """Whether a line is visible within the axis limits."""
        from matplotlib.path import Path
        from matplotlib.transforms import Bbox

        return bool(Path(ends).intersects_bbox(Bbox([[0.0, 0.0], self.view]), filled=False))

    def _full_lines(self, left: Float) -> list[tuple[int, Float]]:
        """Each resource with the ends of the line on which its total capacity is exhausted."""
        if self.instance.demands.ndim == 3:  # demands depend on the server, so there is no single line
            return []
        usable = self.instance.eligible[self.two].any(axis=0)
        room = left[usable].sum(axis=0)
        far, out = 2 * np.maximum(self.reach, 1.0), []
        for i, (a, b) in enumerate(self.instance.demands[self.two].T.tolist()):
            if a > 0 or b > 0:
                start = [0.0, room[i] / b] if b > 0 else [room[i] / a, far[1]]
                out.append((i, np.array([start, [room[i] / a, 0.0] if a > 0 else [far[0], room[i] / b]])))
        return out

    def _by_others(self, allocation: Allocation) -> Float:
        """Units that the other users hold on each server row."""
        if allocation.given_bundles is not None:
            own = allocation.given_bundles[self.two].sum(axis=0)
        else:
            tasks = allocation.tasks_by_server[self.two][:, :, None]
            own = (self.instance.per_server_demands[self.two] * tasks).sum(axis=0)
        return np.zeros_like(own) if self.instance.n_users == 2 else np.maximum(allocation.usage - own, 0.0)


def _stroke(i: int) -> dict[str, Any]:
    """The line of the i-th resource."""
    return {"color": colour(i), "linestyle": STROKES[i % len(STROKES)], "linewidth": 1.6}


def _mark(n: int) -> dict[str, Any]:
    """The marker of the n-th point."""
    return {"marker": MARKERS[n % len(MARKERS)], "color": colour(n + 5), "linestyle": ""}


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
