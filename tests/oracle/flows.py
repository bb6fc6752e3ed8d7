"""Max-min flows of demands over several paths, by a linear program for each level and for each demand."""

from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
from scipy.optimize import linprog


def levels_by_programs(graph: Any, demands: list[tuple[Any, ...]], paths: int) -> dict[str, float]:
    """Weighted max-min flows of demands, by a linear program for each level and one for each demand that may rise.

    Paths are found by a search of all simple paths, and links are told apart by their ends.
    """
    both = (lambda a, b: (a, b)) if graph.is_directed() else (lambda a, b: tuple(sorted((a, b))))
    room = {both(a, b): data["capacity"] for a, b, data in graph.edges(data=True)}
    number = {link: k for k, link in enumerate(room)}
    columns: list[tuple[int, list[int]]] = []
    for t, (source, target, *_) in enumerate(demands):
        routes = list(nx.shortest_simple_paths(graph, source, target))[:paths]
        columns += [(t, [number[both(a, b)] for a, b in pairwise(r)]) for r in routes]
    n, m = len(columns), len(demands)
    use = np.zeros((len(room), n))
    total = np.zeros((m, n))
    for j, (t, links) in enumerate(columns):
        use[links, j], total[t, j] = 1, 1
    weight = np.array([d[3] for d in demands])
    volume = np.array([d[2] for d in demands])
    capped = np.flatnonzero(np.isfinite(volume))
    above = np.vstack([use, total[capped]])
    right = np.concatenate([[*room.values()], volume[capped]])
    fixed: dict[int, float] = {}

    def best(goal: np.ndarray, level: float | None) -> float:
        """Maximise the level of all that are not fixed (``level`` None), or a sum above it."""
        free = level is None
        rows = [np.append(-total[t], weight[t] if free else 0.0) for t in range(m) if t not in fixed]
        least = [0.0 if free else -level * weight[t] * (1 - 1e-9) for t in range(m) if t not in fixed]
        rows += [np.append(-total[t], 0.0) for t in fixed]
        least += [-fixed[t] * (1 - 1e-9) for t in fixed]
        table = np.vstack([np.column_stack([above, np.zeros(len(right))]), *[row[None] for row in rows]])
        found = linprog(-goal, table, np.concatenate([right, least]), method="highs")
        assert found.success
        return -found.fun

    while len(fixed) < m:
        level = best(np.append(np.zeros(n), 1.0), None)
        stuck = []
        for t in set(range(m)) - {*fixed}:
            reached = weight[t] * level
            if best(np.append(total[t], 0.0), level) <= reached * (1 + 1e-7) + 1e-9:
                stuck.append(t)
        assert stuck
        fixed |= {t: level * float(weight[t]) for t in stuck}
    return {f"{d[0]}->{d[1]}": fixed[t] for t, d in enumerate(demands)}
