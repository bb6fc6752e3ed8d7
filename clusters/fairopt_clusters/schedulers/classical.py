"""Whom Kueue preempts without fair sharing: by priority, and by who is nearer to the quota that is used.

A queue has an advantage over another one if a cohort that it is in, and the other one is not, has quota for what it
asks for: then it preempts whatever ``borrowWithinCohort`` says. Who goes is asked in order, first those over whom there
is an advantage, then others, then its own; by priority, the latest first (``pkg/scheduler/preemption/classical``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.schedulers.cohorts import Amounts, Node
from fairopt_clusters.schedulers.preemption import (
    BORROW,
    NEVER,
    RECLAIM,
    WITHIN,
    most_priority,
    permits,
    policy,
    put_back,
    turns,
)


class _Candidate(NamedTuple):
    """What may go: its row, the first cohort above both queues, and whether the preemptor may borrow for it."""

    row: int
    common: Node | None
    while_borrowing: bool


def victims(
    nodes: Mapping[str, Node], incoming: Workload, workloads: Sequence[Workload], needed: Collection[str]
) -> list[int]:
    """The rows of workloads that are preempted for a workload which lacks what is ``needed``, or none."""
    preemptor, request = nodes[incoming.queue], incoming.uses
    ahead, others = _of_others(nodes, incoming, workloads, needed)
    rule = policy(preemptor, WITHIN)
    own = [
        _Candidate(j, None, True) for j, one in _that_use(workloads, preemptor, needed) if permits(rule, incoming, one)
    ]
    rank = {j: place for place, j in enumerate(turns(workloads, incoming.queue))}
    order = [one for of in (ahead, others, own) for one in sorted(of, key=lambda one: rank[one.row])]
    forbidden = policy(preemptor, BORROW) == NEVER
    below = all(preemptor.used.get(cell, 0) < preemptor.own(cell) for cell in needed)
    if not (ahead or others) or (forbidden and not below):
        tries: tuple[bool, ...] = (True,)
    else:
        tries = (False, True) if forbidden and not ahead else (True, False)
    for borrows in tries:

        def fits(borrows: bool = borrows) -> bool:
            within = all(
                preemptor.used.get(cell, 0) + amount <= preemptor.own(cell) for cell, amount in request.items()
            )
            return (borrows or within) and preemptor.fits(request)

        taken, done = list[int](), False
        for one in order:
            node = nodes[workloads[one.row].queue]
            if node is not preemptor and not (
                (one.while_borrowing or not borrows)
                and all(_exceeds(each, needed) for each in _below(node, one.common))
            ):
                continue
            node.add(workloads[one.row].uses, -1)
            taken.append(one.row)
            if done := fits():
                put_back(nodes, workloads, taken, fits)
                break
        for j in taken:
            nodes[workloads[j].queue].add(workloads[j].uses)
        if done:
            return taken
    return []


def _of_others(
    nodes: Mapping[str, Node], incoming: Workload, workloads: Sequence[Workload], needed: Collection[str]
) -> tuple[list[_Candidate], list[_Candidate]]:
    """What may go of other queues: what there is an advantage over, and the rest."""
    preemptor, below = nodes[incoming.queue], nodes[incoming.queue]
    rule, out = policy(preemptor, RECLAIM), (list[_Candidate](), list[_Candidate]())
    if rule == NEVER:
        return out
    threshold = incoming.priority
    if (most := most_priority(preemptor.name, preemptor.rules)) is not None:
        threshold = min(threshold, most + 1)
    ahead, left = _has(preemptor, incoming.uses)
    for cohort in preemptor.above():
        for node in _exceeding(cohort, below, needed):
            for j, one in _that_use(workloads, node, needed) if node is not preemptor else ():
                if permits(rule, incoming, one):
                    low = policy(preemptor, BORROW) != NEVER and one.priority < threshold
                    out[not ahead].append(_Candidate(j, cohort, ahead or low))
        fits, left = _has(cohort, left)
        ahead, below = ahead or fits, cohort
    return out


def _has(node: Node, request: Amounts) -> tuple[bool, dict[str, float]]:
    """Whether a node has quota for a request beside what is used, and what of it is asked of the cohort above."""
    fits = all(node.used.get(cell, 0) + amount <= node.quota.get(cell, 0) for cell, amount in request.items())
    kept = {cell: max(0, node.local(cell) - node.used.get(cell, 0)) for cell in request}
    return fits, {cell: max(0, amount - kept[cell]) for cell, amount in request.items()}


def _exceeds(node: Node, needed: Collection[str]) -> bool:
    """Whether a node uses more than its quota of something that is needed."""
    return any(node.used.get(cell, 0) > node.quota.get(cell, 0) for cell in needed)


def _exceeding(cohort: Node, but: Node, needed: Collection[str]) -> Iterator[Node]:
    """The queues below a cohort that use more than their quota, as all nodes between do; none below ``but``."""
    for child in cohort.children:
        if child is not but and _exceeds(child, needed):
            yield from _exceeding(child, but, needed) if child.children else (child,)


def _below(node: Node, cohort: Node | None) -> list[Node]:
    """A node and those above it, up to a cohort."""
    path = node.above(itself=True)
    return path[: path.index(cohort)] if cohort in path else path


def _that_use(workloads: Sequence[Workload], node: Node, needed: Collection[str]) -> Iterator[tuple[int, Workload]]:
    """The workloads of a queue that use some of what is needed, with their rows."""
    for j, one in enumerate(workloads):
        if one.queue == node.name and any(one.uses.get(cell, 0) > 0 for cell in needed):
            yield j, one
