"""Weighted water-filling of three queues, by an SMT solver: what a division by weight has for all numbers."""

from typing import Any

import fairopt_clusters as fc
import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree

z3: Any = pytest.importorskip("z3")
WEIGHTS = (1, 2, 3)


def filled(requests: list[Any], capacity: Any, name: str) -> tuple[list[Any], Any]:
    """What queues get, and the conditions that say so: all at one level by weight, up to requests."""
    level, gets = z3.Real(f"level {name}"), [z3.Real(f"gets {name} {j}") for j in range(len(requests))]
    whole = z3.Sum(requests)
    rules = [z3.And(g == z3.If(r <= w * level, r, w * level)) for g, r, w in zip(gets, requests, WEIGHTS, strict=True)]
    total = z3.Sum(gets) == z3.If(whole <= capacity, whole, capacity)
    return gets, z3.And(level >= 0, total, *rules)


def proved(claim: Any, *given: Any) -> bool:
    """Whether no numbers break a claim."""
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.add(*given, z3.Not(claim))
    return bool(solver.check() == z3.unsat)


requests, capacity = [z3.Real(f"r{j}") for j in range(3)], z3.Real("capacity")
fine = z3.And(capacity > 0, *(r >= 0 for r in requests))
gets, rules = filled(requests, capacity, "before")


@pytest.mark.parametrize("j", range(3))
def test_no_report_is_of_more_use(j: int) -> None:
    lie = z3.Real("lie")
    lied, lied_rules = filled([lie if k == j else r for k, r in enumerate(requests)], capacity, "after")
    use = z3.If(lied[j] <= requests[j], lied[j], requests[j])
    assert proved(use <= gets[j], fine, lie >= 0, rules, lied_rules)
    assert not proved(use < gets[j], fine, lie >= 0, rules, lied_rules)


def test_nobody_gets_less_of_more() -> None:
    more = z3.Real("more")
    grown, grown_rules = filled(requests, capacity + more, "after")
    assert proved(z3.And(*(b >= a for a, b in zip(gets, grown, strict=True))), fine, more >= 0, rules, grown_rules)


def test_nobody_gets_less_when_another_asks_for_less() -> None:
    less = z3.Real("less")
    asked = [less, *requests[1:]]
    after, after_rules = filled(asked, capacity, "after")
    claim = z3.And(*(b >= a for a, b in zip(gets[1:], after[1:], strict=True)))
    assert proved(claim, fine, less >= 0, less <= requests[0], rules, after_rules)


@pytest.mark.parametrize("scheduler", [fc.schedulers.Slurm(), fc.schedulers.Volcano(), fc.schedulers.Kueue()])
def test_that_is_what_schedulers_divide(scheduler: Any) -> None:
    """The conditions hold of the divisions, which are in floats."""
    asked = [4.0, 1.0, 9.0]
    kueue = scheduler.scheduler == "Kueue"
    queues = [
        Queue(name, "all" if kueue else "", w, {"cpu": 0.0} if kueue else {}, request={"cpu": r})
        for name, w, r in zip("abc", WEIGHTS, asked, strict=True)
    ]
    top = [Queue("all", guarantee={"cpu": 8.0})] if kueue else []
    table = scheduler.divide(QueueTree(scheduler.scheduler, (*top, *queues), {"cpu": 8.0}))["cpu"]
    assert table[["a", "b", "c"]].tolist() == pytest.approx([1.75, 1, 5.25], abs=1e-3)  # 7 left of 8, by 1 and 3
