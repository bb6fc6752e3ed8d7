"""Trials of preemption: small queues of Kueue in which workloads arrive, and who is preempted for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.cohorts import exact, nodes_of
from fairopt_clusters.schedulers.draws import Breach, Case, legal
from fairopt_clusters.schedulers.kueue import Kueue
from fairopt_clusters.schedulers.preemption import BORROW, LOWER, NEWER, WITHIN
from fairopt_clusters.schedulers.smallest import by_rules


def arrivals(rng: np.random.Generator, scheduler: Deployed, _without: tuple[str, ...]) -> Case:
    """Two or three queues of a cohort, with rules of preemption, and workloads in the order in which they arrive."""
    while True:
        rules = (BORROW, [LOWER]) if getattr(scheduler, "below_threshold", False) else (WITHIN, [LOWER, NEWER])
        queues = [
            Queue(name, "all", guarantee={"cpu": float(rng.integers(6))}, notes={rules[0]: str(rng.choice(rules[1]))})
            for name in "abc"[: rng.integers(2, 4)]
        ]
        names = [queue.name for queue in queues]
        workloads = [
            Workload(str(rng.choice(names)), {"cpu": float(rng.integers(1, 8))}, int(rng.integers(3)), float(k))
            for k in range(rng.integers(3, 6))
        ]
        case = Case(QueueTree("Kueue", (Queue("all", guarantee={"cpu": 0.0}), *queues)), tuple(workloads))
        if legal(scheduler, case):
            return case


def preemption_ends(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    """The circle of a case, if there is one; its margin is the part of the capacity that it preempts each time."""
    ring = scheduler.circle(case.tree, case.running) if isinstance(scheduler, Kueue) else []
    parts = list[str]()
    for cycle in ring:
        parts += [f"workload {j + 1} is admitted" for j in cycle.admitted]
        parts += [f"workload {j + 1} is preempted for workload {by + 1}" for j, by in cycle.preempted]
    if ring:
        part = _part(scheduler, case, [j for cycle in ring for j, _ in cycle.preempted])
        yield Breach(f"for ever, {', then '.join(parts)}", part)


def preemption_by_rules(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    """Whom the last workload preempts of the others that fit, if no order of these is one that the rules allow."""
    if not isinstance(scheduler, Kueue) or not case.running:
        return
    nodes = nodes_of(scheduler.checked(case.tree), exact)
    *others, last = [one._replace(uses=exact(one.uses)) for one in case.running]
    rows = list[int]()
    for j, one in enumerate(others):
        if nodes[one.queue].fits(one.uses):
            nodes[one.queue].add(one.uses)
            rows.append(j)
    running = [others[j] for j in rows]
    how = scheduler._start(nodes, last, running)
    gone = how.victims
    if gone and not by_rules(nodes, last, running, how.needed, scheduler.strategies, gone):
        nodes[last.queue].add(last.uses)
        shares = [f"{node.share().weighted:.4g} of {name!r}" for name, node in nodes.items() if not node.children]
        names = " and ".join(f"workload {rows[j] + 1}" for j in gone) + (" is" if len(gone) == 1 else " are")
        words = f"{names} preempted for workload {len(others) + 1}, which no rule allows by the shares with it"
        yield Breach(f"{words}, {', '.join(shares)}", _part(scheduler, case, [rows[j] for j in gone]))


def _part(scheduler: Deployed, case: Case, rows: Sequence[int]) -> float:
    """The largest part of all quotas that workloads use."""
    total = scheduler.checked(case.tree).total()
    return max(sum(case.running[j].uses.get(name, 0.0) for j in rows) / whole for name, whole in total.items())
