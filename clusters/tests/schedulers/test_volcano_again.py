"""Volcano's plugin ``proportion`` once more, in fractions, as ``proportion.go`` at ed72c7c8 has it.

Another reading, which shares nothing with `schedulers.Volcano`; witnesses of trials are judged by it too.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import Volcano
from fairopt_clusters.schedulers.draws import drawn

LEAST = {"cpu": Fraction(1, 10_000), "memory": Fraction(1, 10 * 2**30)}  # 0.1 of a thousandth, and of a byte
MUCH = Fraction(10**9)


def deserved(tree: QueueTree) -> dict[str, dict[str, Fraction]]:
    """What each queue deserves, by resource."""
    names, queues = [*tree.capacity], tree.queues
    total = {name: Fraction(tree.capacity[name]) for name in names}
    guarantee = {q.name: {n: Fraction(q.reserved.get(n, 0.0)) for n in names} for q in queues}
    request = {q.name: {n: MUCH if q.request is None else Fraction(q.request.get(n, 0)) for n in names} for q in queues}
    guaranteed = {n: sum(of[n] for of in guarantee.values()) for n in names}
    real = {
        q.name: {n: max(total[n] - guaranteed[n], Fraction(0)) + guarantee[q.name][n] for n in names} for q in queues
    }
    for queue in queues:
        for name, most in queue.limit.items():
            real[queue.name][name] = min(real[queue.name][name], Fraction(most))
    remaining, met = dict(total), set[str]()
    out = {queue.name: dict.fromkeys(names, Fraction(0)) for queue in queues}
    while weights := sum(int(queue.weight) for queue in queues if queue.name not in met):
        old_remaining, change = dict(remaining), dict.fromkeys(names, Fraction(0))
        for queue in queues:
            if queue.name in met:
                continue
            old, mine = out[queue.name], dict[str, Fraction]()
            for name in names:
                amount = old[name] + old_remaining[name] * int(queue.weight) / weights
                amount = min(amount, real[queue.name][name], request[queue.name][name])
                mine[name] = max(amount, guarantee[queue.name][name])
                change[name] += mine[name] - old[name]
            out[queue.name] = mine
            if mine == old or all(request[queue.name][name] <= mine[name] for name in names):
                met.add(queue.name)
        remaining = {name: max(remaining[name] - change[name], Fraction(0)) for name in names}
        if all(remaining[name] < LEAST[name] for name in names) or remaining == old_remaining:
            break
    return out


def same(tree: QueueTree) -> None:
    """Assert that both readings divide alike."""
    table, again = Volcano().divide(tree), deserved(tree)
    for name in tree.capacity:
        expected = {queue: float(of[name]) for queue, of in again.items()}
        assert table[name].to_dict() == pytest.approx(expected, abs=1e-6), tree


def test_both_readings_divide_alike() -> None:
    rng = np.random.default_rng(8)
    for _ in range(400):
        same(drawn(rng, Volcano()).tree)


def test_witnesses_of_trials() -> None:
    kept = json.loads((Path(__file__).parents[3] / "benchmarks" / "trial.json").read_text())["findings"]
    rows = [row for row in kept if row["refuted"] and row["scheduler"] == "volcano"]
    assert {row["property"] for row in rows} >= {"feasible", "split-proof"}
    for row in rows:
        tree = QueueTree("Volcano", tuple(Queue(**one) for one in row["tree"]["queues"]), row["tree"]["capacity"])
        same(tree)
        if row["property"] == "feasible":
            assert sum(of["cpu"] for of in deserved(tree).values()) == Fraction(7, 3) > tree.capacity["cpu"]
