"""KAI's division once more, in fractions, function by function as its source has it, against `schedulers.KAI`.

Another reading of ``resource_division.go`` at 72de64fc, which shares nothing with the first; witnesses of trials are
judged by it too.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import KAI
from fairopt_clusters.schedulers.draws import drawn

UNLIMITED = Fraction(-1)


def exact(value: float) -> Fraction:
    """A number of a tree, or the mark of no limit."""
    return UNLIMITED if math.isinf(value) else Fraction(value).limit_denominator(1000)


@dataclass(eq=False)
class Share:
    """``ResourceShare``, with a name and a priority."""

    uid: str
    priority: int
    deserved: Fraction
    max_allowed: Fraction
    over_quota_weight: Fraction
    request: Fraction
    fair_share: Fraction = Fraction(0)

    @property
    def requestable(self) -> Fraction:
        """``GetRequestableShare``."""
        return self.request if self.max_allowed == UNLIMITED else min(self.request, self.max_allowed)

    @property
    def satisfied(self) -> bool:
        """``isQueueSatisfied``."""
        return self.request <= self.fair_share or (
            self.max_allowed != UNLIMITED and self.max_allowed <= self.fair_share
        )


def set_resource_share(total: Fraction, queues: list[Share]) -> bool:
    """``setResourceShare`` and ``setDeservedResource``; whether equal fractions were told apart."""
    remaining = total
    for queue in queues:
        amount = min(total if queue.deserved == UNLIMITED else queue.deserved, queue.requestable)
        queue.fair_share += amount
        remaining -= amount
    return remaining > 0 and divide_over_quota(remaining, queues)


def divide_over_quota(remaining: Fraction, queues: list[Share]) -> bool:
    """``divideOverQuotaResource`` and ``divideRemainingResource``."""
    priorities, rest = sorted({queue.priority for queue in queues}, reverse=True), dict[int, dict[Share, Fraction]]()
    for priority in priorities:
        of = [queue for queue in queues if queue.priority == priority]
        remaining, rest[priority] = up_to_fair_share(remaining, of)
    for priority in priorities:
        if remaining <= 0:
            break
        tied = False
        heap = sorted(rest[priority], key=lambda queue: (-rest[priority][queue], queue.uid))
        while remaining != 0 and heap:
            give, first = min(Fraction(1), remaining), heap.pop(0)
            first.fair_share += give
            remaining -= give
            tied = bool(heap) and rest[priority][first] == rest[priority][heap[0]]
        if tied and remaining == 0:
            return True
    return False


def up_to_fair_share(total: Fraction, queues: list[Share]) -> tuple[Fraction, dict[Share, Fraction]]:
    """``divideUpToFairShare`` and ``getResourceToGiveInCurrentRound``, with k = 0."""
    remaining_requested = dict[Share, Fraction]()
    while True:
        another_round, to_give = False, total
        weights = sum(q.over_quota_weight for q in queues if q.requestable > q.fair_share)
        if weights == 0:
            break
        for queue in queues:
            if total == 0:
                break
            if queue.satisfied or queue.over_quota_weight == 0:
                continue
            requested = max(queue.requestable - queue.fair_share, Fraction(0))
            fair_share = to_give * queue.over_quota_weight / weights
            if requested <= fair_share:
                give = requested
                remaining_requested.pop(queue, None)
            else:
                give = Fraction(math.floor(fair_share))
                if fair_share > give:
                    remaining_requested[queue] = fair_share - give
            queue.fair_share += give
            total -= give
            another_round = another_round or (give != 0 and requested < fair_share)
        if not another_round or total == 0:
            break
    return total, remaining_requested


def divided(tree: QueueTree, resource: str) -> tuple[dict[str, Fraction], bool]:
    """All levels, the highest first, and whether there were ties; inner queues ask for what those below ask for."""

    def asks(queue: Queue) -> Fraction:
        below = tree.children[queue.name]
        if below:
            return sum(map(asks, below), Fraction(0))
        return Fraction(10**9) if queue.request is None else exact(queue.request.get(resource, 0.0))

    unit = Fraction(1, 1000) if resource == "cpu" else Fraction(1)  # cores are in thousandths there
    found, waiting, tied = dict[str, Fraction](), [("", exact(tree.capacity[resource]) / unit)], False
    while waiting:
        above, amount = waiting.pop()
        shares = [
            Share(
                one.name,
                one.priority or 0,
                exact(one.guarantee.get(resource, 0.0)) / unit,
                exact(one.limit[resource]) / unit if resource in one.limit else UNLIMITED,
                exact(one.weight),
                asks(one) / unit,
            )
            for one in tree.children[above]
        ]
        tied |= set_resource_share(amount, shares)
        for share in shares:
            found[share.uid] = share.fair_share * unit
            waiting += [(share.uid, share.fair_share)] * bool(tree.children[share.uid])
    return found, tied


def same(tree: QueueTree, ties: bool) -> int:
    """Assert that both readings divide alike, of resources without ties unless asked; the number of these."""
    table, compared = KAI().divide(tree), 0
    for resource in tree.capacity:
        found, tied = divided(tree, resource)
        if ties or not tied:
            again = {name: float(amount) for name, amount in found.items()}
            assert table[resource].to_dict() == pytest.approx(again, abs=1e-6), tree
            compared += 1
    return compared


def test_both_readings_divide_alike() -> None:
    """But where fractions are equal, which KAI, in floats, decides by their last digits."""
    rng = np.random.default_rng(12)
    assert sum(same(drawn(rng, KAI()).tree, ties=False) for _ in range(600)) > 400


def test_witnesses_of_trials() -> None:
    kept = json.loads((Path(__file__).parents[3] / "benchmarks" / "trial.json").read_text())["findings"]
    trees = [row["tree"] for row in kept if row["refuted"] and row["scheduler"] == "kai"]
    assert len(trees) >= 10
    for tree in trees:
        same(QueueTree("KAI", tuple(Queue(**one) for one in tree["queues"]), tree["capacity"]), ties=True)
