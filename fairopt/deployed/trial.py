"""Properties of deployed schedulers, each judged on a small tree of queues."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairopt.datasets import Queue, QueueTree
from fairopt.deployed.base import Deployed, request_of
from fairopt.deployed.beside import beside
from fairopt.deployed.circles import against_rules, arrivals, circles
from fairopt.deployed.draws import Case, drawn

Given = Mapping[str, Mapping[str, float]]
LEAST = 1e-3  # of a capacity; Volcano's rounds leave up to a ten-thousandth of a unit


class Breach(NamedTuple):
    """How a property fails: in words, with amounts and names, and by which part of the capacity."""

    sentence: str
    margin: float


@dataclass(frozen=True)
class Trial:
    """A property of schedulers: its name and meaning, and how one case breaks it.

    ``without`` are features of queues that cases do not have, and ``of`` the kinds of scheduler it is asked of, all
    but that of hierarchical DRF by default.
    """

    name: str
    meaning: str
    breaches: Callable[[Deployed, Case], Iterable[Breach]]
    without: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    draw: Callable[[np.random.Generator, Deployed, tuple[str, ...]], Case] | None = None

    def asked_of(self, kind: str) -> bool:
        """Whether it is asked of a kind of scheduler."""
        return kind in self.of if self.of else kind != "Volcano hdrf"

    def drawn(self, rng: np.random.Generator, scheduler: Deployed) -> Case:
        """A case."""
        return (self.draw or drawn)(rng, scheduler, self.without)

    def breach(self, scheduler: Deployed, case: Case) -> Breach | None:
        """The largest breach in a case, None if there is none."""
        found = [one for one in self.breaches(scheduler, case) if one.margin > LEAST]
        return max(found, key=lambda one: one.margin, default=None)


def gives(scheduler: Deployed, tree: QueueTree) -> Given:
    """What each queue is given, by name and resource."""
    return scheduler._divided(scheduler.checked(tree))


def amount(value: float, resource: str) -> str:
    """An amount in words."""
    return f"{value + 0.0:.4g} {resource}" if math.isfinite(value) else f"all {resource} there is"


def max_min_fair(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    """Against the certified answer."""
    total = scheduler.checked(case.tree).total()
    for row in beside(scheduler, case.tree)[0].to_dict("records"):
        name, gets, fair = row["resource"], row["gives"], row["fair"]
        sentence = f"queue {row['queue']!r} gets {amount(gets, name)}, where max-min fairness gives {fair:.4g}"
        yield Breach(sentence, abs(gets - fair) / total[name])


def feasible(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    """Against capacities, and what the queue above has."""
    tree = scheduler.checked(case.tree)
    given, total = gives(scheduler, case.tree), tree.total()
    for name in total:
        for above, below in tree.children.items():
            there = given[above][name] if above else total[name]
            part = sum(given[one.name][name] for one in below)
            whose = f"queue {above!r}, which has" if above else "a cluster of"
            words = f"queues {_listed(below)} get {amount(part, name)} of {whose} {amount(there, name)}"
            yield Breach(words, (part - there) / total[name] if below else 0.0)


def within_limits(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    """Against limits."""
    tree, given = scheduler.as_owed(scheduler.checked(case.tree)), gives(scheduler, case.tree)
    for name, whole in tree.total().items():
        for queue in tree.queues:
            gets, most = given[queue.name][name], queue.limit.get(name, math.inf)
            words = f"queue {queue.name!r} gets {amount(gets, name)}, beyond its limit of {amount(most, name)}"
            yield Breach(words, (gets - most) / whole)


def resource_monotone(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    """Against the same queues with one or two units more."""
    tree, total = case.tree, scheduler.checked(case.tree).total()
    before = useful(scheduler, tree)
    for name in total:
        for more in (1, 2):
            after = useful(scheduler, _grown(tree, name, more))
            for queue in tree.leaves:
                less, gets = after[queue.name][name], before[queue.name][name]
                words = f"when {amount(total[name], name)} become {total[name] + more:.4g}, queue {queue.name!r} falls"
                yield Breach(f"{words} from {amount(gets, name)} to {less:.4g}", (gets - less) / total[name])


def preemption_ends(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    """Against the cycles of Kueue, one after the other."""
    yield from (Breach(*one) for one in circles(scheduler, case))


def preemption_by_rules(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    """Against the rules, one workload at a time."""
    yield from (Breach(*one) for one in against_rules(scheduler, case))


def useful(scheduler: Deployed, tree: QueueTree, asks: Given | None = None) -> Given:
    """What each queue is given, as far as it asks for so much; it may in truth ask for something else."""
    given, asks = gives(scheduler, tree), asks or request_of(scheduler.checked(tree))
    return {
        queue.name: {
            name: min(gets, asks[queue.name][name], queue.limit.get(name, math.inf))
            for name, gets in given[queue.name].items()
        }
        for queue in tree.queues
    }


def _grown(tree: QueueTree, name: str, more: float) -> QueueTree:
    """The same queues with more of a resource; in Kueue the cohort at the top has it."""
    if tree.scheduler != "Kueue":
        return replace(tree, capacity={**tree.capacity, name: tree.capacity[name] + more})
    top = tree.children[""][0]
    quota = {**top.guarantee, name: top.guarantee.get(name, 0.0) + more}
    return replace(tree, queues=tuple(replace(one, guarantee=quota) if one is top else one for one in tree.queues))


def _listed(queues: Iterable[Queue]) -> str:
    return " and ".join(repr(queue.name) for queue in queues)


TRIALS = (  # in the order of reports
    Trial(
        "max-min-fair",
        "each queue gets what certified max-min fairness beyond guarantees gives it, by weight and level by level",
        max_min_fair,
        ("priority", "reserved", "lending"),
    ),
    Trial(
        "feasible",
        "together queues get no more than the capacity, and those below a queue no more than that queue",
        feasible,
    ),
    Trial("within-limits", "no queue gets more than its limit", within_limits, ("lending",)),
    Trial(
        "preemption-by-rules",
        "whom a workload preempts can be preempted one after the other, each as the rules of shares allow then",
        preemption_by_rules,
        of=("Kueue",),
        draw=arrivals,
    ),
    Trial(
        "preemption-ends",
        "workloads that arrive one by one, and never finish, do not preempt each other in a circle",
        preemption_ends,
        of=("Kueue",),
        draw=arrivals,
    ),
    Trial("resource-monotone", "when a capacity grows, no queue gets less", resource_monotone, ("priority",)),
)
