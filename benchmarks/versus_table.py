"""Fixed cases for versus.py --table: paths of demands over links, and notions that were slow or refused once.

``paths``       496 demands of four paths each over a random network of 197 nodes and 245 links, about as sparse as the
                networks of carriers in the Internet Topology Zoo. A user is a path, a resource a link that some path
                takes, a team a demand; a task is a unit of flow. Max-min, Nash welfare and leximin of demands.
``many-paths``  Leximin of 2,480 demands.
``pairs``       ``tasks[a] <= 2 tasks[b]`` for all ordered pairs of users, as rows.
``teams``       Shares of teams, a tenth as many as users, on three servers with limits.
``limit``       289 users and 83,232 such rows, within ``time_limit=30``.

``--graph FILE`` reads nodes and edges of a GML file, such as Cogentco.gml of the Internet Topology Zoo, instead.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import show
from scipy.sparse.csgraph import minimum_spanning_tree
from versus_draws import Numbers, alpha_fair, bounds, leximin, ordered
from versus_hand import Condition, Goal, Plain, Question

import fairopt as fo
from fairopt.blocks.rows import Rows

NODES, LINKS = 197, 245
SHOWN = ("kind", "users", "seconds", "wall", "hand", "by", "ratio", "word", "method", "why")
Graph = list[dict[int, int]]  # by node: the link to each neighbour


@dataclass(frozen=True, repr=False)
class AtMostTimes(fo.Constraint):
    """Nobody runs more than a multiple of another's tasks: a row for each ordered pair of users."""

    factor: float

    def rows(self, pairs):
        above, below = np.nonzero(~np.eye(pairs.instance.n_users, dtype=bool))
        return {"pairs": Rows(pairs.totals[above] - self.factor * pairs.totals[below])}


def at_most_times(factor: float, plain: Plain) -> Condition:
    """The same for both; by hand in tasks of an equal part of each server."""

    def rows() -> tuple[Any, Any]:
        above, below = np.nonzero(~np.eye(plain.n, dtype=bool))
        size = sp.diags_array(1 / np.maximum(plain.slices[above], factor * plain.slices[below]))
        return sp.csr_array(size @ (plain.totals[above] - factor * plain.totals[below])), np.zeros(len(above))

    return Condition("pairs", AtMostTimes(factor), lazy=rows)


# -- paths of demands over links ---------------------------------------------------------------------------------------


def random_graph(seed: int) -> Graph:
    """Points in the unit square, joined by a shortest tree and the shortest further links."""
    rng = np.random.default_rng(seed)
    at = rng.random((NODES, 2))
    far = np.linalg.norm(at[:, None] - at[None], axis=2)
    tree = minimum_spanning_tree(far).tocoo()
    links = {(min(a, b), max(a, b)) for a, b in zip(tree.row.tolist(), tree.col.tolist(), strict=True)}
    for a, b in zip(*map(np.ndarray.tolist, np.unravel_index(np.argsort(far, axis=None), far.shape)), strict=True):
        if len(links) == LINKS:
            break
        if a < b:
            links.add((a, b))
    return joined(NODES, sorted(links))


def read_gml(path: Path) -> Graph:
    """Nodes and edges of a GML file; parallel edges are one."""
    text = path.read_text(encoding="utf-8", errors="replace")
    names = re.findall(r"node\s*\[\s*id\s+(-?\d+)", text)
    place = {name: k for k, name in enumerate(names)}
    edges = re.findall(r"edge\s*\[\s*source\s+(-?\d+)\s+target\s+(-?\d+)", text)
    return joined(len(names), sorted({(min(a, b), max(a, b)) for s, t in edges if (a := place[s]) != (b := place[t])}))


def joined(nodes: int, links: list[tuple[int, int]]) -> Graph:
    """Links by node."""
    graph: Graph = [{} for _ in range(nodes)]
    for k, (a, b) in enumerate(links):
        graph[a][b] = graph[b][a] = k
    return graph


def shortest(graph: Graph, source: int, target: int, without: set[int], closed: set[int]) -> list[int] | None:
    """A path of fewest links, without some links and nodes."""
    before, front = {source: source}, [source]
    while front and target not in before:
        after = []
        for node in front:
            for other, link in graph[node].items():
                if other not in before and other not in closed and link not in without:
                    before[other] = node
                    after.append(other)
        front = after
    if target not in before:
        return None
    path = [target]
    while path[-1] != source:
        path.append(before[path[-1]])
    return path[::-1]


def simple_paths(graph: Graph, source: int, target: int, most: int) -> Iterator[list[int]]:
    """The shortest simple paths as nodes, in order of their links (Yen 1971)."""
    first = shortest(graph, source, target, set(), set())
    found, waiting = list[list[int]](), [first] if first else []
    while waiting and len(found) < most:
        path = min(waiting, key=lambda p: (len(p), p))
        waiting.remove(path)
        found.append(path)
        yield path
        for k in range(len(path) - 1):
            root = path[: k + 1]
            without = {graph[p[k]][p[k + 1]] for p in found if p[: k + 1] == root}
            rest = shortest(graph, path[k], target, without, set(root[:-1]))
            if rest and (new := root[:-1] + rest) not in waiting and new not in found:
                waiting.append(new)


def over_links(graph: Graph, demands: int, seed: int, paths: int = 4) -> tuple[dict[str, Any], Plain, list[int]]:
    """Demands between random nodes: arguments of an instance, the same as arrays, and the demand of each path."""
    rng = np.random.default_rng(seed)
    ends = [rng.choice(len(graph), 2, replace=False).tolist() for _ in range(demands)]
    of_demand, rows = list[int](), list[list[int]]()
    for k, (source, target) in enumerate(ends):
        for path in simple_paths(graph, source, target, paths):
            of_demand.append(k)
            rows.append([graph[a][b] for a, b in pairwise(path)])
    capacity = rng.choice([1.0, 2.5, 10.0], sum(map(len, graph)) // 2)
    table = np.zeros((len(rows), len(capacity)))
    for place, links in zip(table, rows, strict=True):
        place[links] = 1.0
    used = table.any(axis=0)
    table, capacity, n = table[:, used], capacity[used], len(rows)
    plain = Plain(table, capacity[None, :], np.ones(n), np.full(n, np.inf), np.ones((n, 1), dtype=bool), np.zeros(n))
    given = {"demands": table, "capacities": capacity, "teams": {"team": [f"demand{k}" for k in of_demand]}}
    return given, plain, of_demand


def paths_question(graph: Graph, demands: int, goal: str, seed: int = 1) -> Question:
    """A notion of demands."""
    given, plain, of_demand = over_links(graph, demands, seed)
    table = plain.sums(np.unique(of_demand, return_inverse=True)[1], len(set(of_demand)), np.ones(plain.n))
    weights = np.ones(table.shape[0])
    of = Numbers(fo.OfTeam(fo.Tasks()), table, weights, float(np.median(table @ plain.at)))
    goals = {
        "least": lambda: ordered((1.0,), of, "least", fo.MaxMin(of.share)),
        "Nash": lambda: alpha_fair(1, of),
        "leximin": lambda: leximin(of),
    }
    return Question(f"{goal} of {demands} demands in paths | - | teams | pool", given, plain, goals[goal]())


# -- others ------------------------------------------------------------------------------------------------------------


def of_instance(instance: fo.Instance, teams: int = 0) -> tuple[dict[str, Any], Plain]:
    """An instance as arguments and arrays, with random teams."""
    plain = Plain(
        instance.demands,
        instance.capacities,
        instance.weights,
        instance.task_limits,
        np.array(instance.eligible),
        np.zeros(instance.n_users),
    )
    given = {
        "demands": instance.demands,
        "capacities": instance.capacities,
        "weights": instance.weights,
        "task_limits": instance.task_limits,
        "eligible": instance.eligible,
    }
    if teams:
        place = np.random.default_rng(1).integers(0, teams, instance.n_users)
        given["teams"] = {"team": [f"team{t}" for t in place.tolist()]}
    return given, plain


def numbers_of(given: dict[str, Any], plain: Plain) -> Numbers:
    """Dominant shares of users, or of teams where there are any."""
    c = plain.per_pair(np.asarray(fo.DominantShare().per_task(fo.Instance(**given))))
    if "teams" in given:
        names, place = np.unique(given["teams"]["team"], return_inverse=True)
        table, weights, share = plain.sums(place[plain.user], len(names), c), np.ones(len(names)), fo.OfTeam()
    else:
        table, weights, share = plain.sums(plain.user, plain.n, c), plain.weights, fo.DominantShare()
    return Numbers(share, table, weights, float(np.median(table @ plain.at / weights)))


def asked(kind: str, instance: fo.Instance, teams: int, goal: Any, *conditions: Any) -> Question:
    """A question of an instance."""
    given, plain = of_instance(instance, teams)
    made: Goal = goal(numbers_of(given, plain))
    return Question(kind, given, plain, made, [condition(plain) for condition in conditions])


def incentive(plain: Plain) -> Condition:
    """Sharing incentive."""
    return Condition("incentive", fo.SharingIncentive(), bounds(plain, plain.slices, None))


def log_normal(n: int, seed: int = 1) -> fo.Instance:
    """A pool of two resources, log-normal demands, and limits for half of the users."""
    rng = np.random.default_rng(seed)
    demands = rng.lognormal(size=(n, 2))
    limits = np.where(rng.random(n) < 0.5, rng.lognormal(size=n), np.inf)
    return fo.Instance(demands, [0.5 * n, 0.5 * n], task_limits=limits)


def cases(graph: Graph) -> Iterator[tuple[str, str, float, Any]]:
    """Group, name, time limit (0 for none) and what makes the question."""
    for goal in ("least", "Nash", "leximin"):
        yield "paths", f"{goal}, 496 demands in paths", 60.0, lambda goal=goal: paths_question(graph, 496, goal)
    yield "many-paths", "leximin, 2,480 demands in paths", 120.0, lambda: paths_question(graph, 2480, "leximin")
    twice, v = partial(at_most_times, 2.0), (3.0, 2.0, 1.0)
    for n in (60, 70, 80, 100):
        kind = f"alpha 1 | all pairs | users | pool of {n}"
        pool = fo.datasets.log_uniform(n, 3, seed=1)
        yield "pairs", kind, 60.0, lambda kind=kind, pool=pool: asked(kind, pool, 0, partial(alpha_fair, 1), twice)
    on_servers = {n: fo.datasets.log_uniform(n, 3, n_servers=3, limits=True, seed=1) for n in (271, 123, 213)}
    yield (
        "teams",
        "ordered | incentive | 27 teams",
        60.0,
        lambda: asked(
            "ordered | incentive | teams | servers",
            on_servers[271],
            27,
            lambda of: ordered(v, of, "ordered", fo.OrderedWeighted(v, of.share)),
            incentive,
        ),
    )
    yield (
        "teams",
        "alpha 0.5 | incentive | 12 teams",
        60.0,
        lambda: asked(
            "alpha 0.5 | incentive | teams | servers", on_servers[123], 12, partial(alpha_fair, 0.5), incentive
        ),
    )
    yield (
        "teams",
        "alpha 0.5 | pairs, factor 10 | 21 teams",
        60.0,
        lambda: asked(
            "alpha 0.5 | all pairs | teams | servers",
            on_servers[213],
            21,
            partial(alpha_fair, 0.5),
            partial(at_most_times, 10.0),
        ),
    )
    yield (
        "limit",
        "alpha 2 | pairs, factor 2 | 289 users",
        30.0,
        lambda: asked("alpha 2 | all pairs | users | pool", log_normal(289), 0, partial(alpha_fair, 2), twice),
    )


def table(given: argparse.Namespace) -> None:
    """Print the cases, all or those of the groups in ``--cases``."""
    from versus import Worker

    wanted = given.cases.split(",") if given.cases else ["paths", "pairs", "teams", "limit"]
    names = [(k, name, limit) for k, (group, name, limit, _) in enumerate(cases([])) if group in wanted]
    rows, worker = [], Worker(10, 3000, 0.0, 2.0, given.graph)
    for k, name, limit in names:
        row = worker.ask(-1, k, 4 * limit + 60)
        row |= {"kind": name, "seed": -1, "draw": k}
        rows.append({key: row.get(key, "") for key in SHOWN})
        print(*rows[-1].values(), *row.get("hands", []), *row.get("tries", []), sep=" | ", file=sys.stderr, flush=True)
    worker.stop()
    show("fairopt beside CVXPY by hand: fixed cases, CPU seconds", rows, "versus-table")


def case(k: int, graph: str) -> tuple[Question, float]:
    """The k-th case, and its time limit."""
    found = read_gml(Path(graph)) if graph else random_graph(1)
    _, _, limit, make = list(cases(found))[k]
    return make(), limit
