"""Properties of deployed schedulers, each judged on a small tree of queues."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers.arrivals import arrivals, preemption_by_rules, preemption_ends
from fairopt_clusters.schedulers.base import Deployed, Given, deepest_first, request_of, usable_of
from fairopt_clusters.schedulers.comparison import beside, owed_of, weight_of
from fairopt_clusters.schedulers.draws import AMOUNTS, FRACTIONS, Breach, Case, drawn, kind_of, legal, reads

Breaches = Callable[[Deployed, Case], Iterable[Breach]]
LEAST = 1e-3  # of a capacity; Volcano's rounds leave up to a ten-thousandth of a unit
HDRF = "Volcano hdrf"
OF_TASKS = 0.15  # where whole tasks are placed, several of which may make a difference


@dataclass(frozen=True)
class Trial:
    """A property of schedulers: its name and meaning, and how one case breaks it.

    ``without`` are features of queues that cases do not have, and ``of`` the kinds of scheduler it is asked of, all
    but that of hierarchical DRF by default.
    """

    name: str
    meaning: str
    breaches: Breaches
    without: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    hdrf: bool = False
    draw: Callable[[np.random.Generator, Deployed, tuple[str, ...]], Case] | None = None

    def asked_of(self, kind: str) -> bool:
        """Whether it is asked of a kind of scheduler."""
        return kind in self.of if self.of else self.hdrf or kind != HDRF

    def drawn(self, rng: np.random.Generator, scheduler: Deployed) -> Case:
        """A case."""
        return (self.draw or drawn)(rng, scheduler, self.without)

    def breach(self, scheduler: Deployed, case: Case) -> Breach | None:
        """The largest breach in a case, None if there is none."""
        least = LEAST if kind_of(scheduler) != HDRF else OF_TASKS
        breaches = [one for one in self.breaches(scheduler, case) if one.margin > least]
        return max(breaches, key=lambda one: one.margin, default=None)


TRIALS = list[Trial]()  # in the order of reports


def trial(meaning: str, **options: Any) -> Callable[[Breaches], Breaches]:
    """Make a function a trial under its own name, at the end of reports."""

    def add(breaches: Breaches) -> Breaches:
        TRIALS.append(Trial(breaches.__name__.strip("_").replace("_", "-"), meaning, breaches, **options))
        return breaches

    return add


def gives(scheduler: Deployed, tree: QueueTree) -> Given:
    """What each queue is given, by name and resource."""
    return scheduler._divided(scheduler.checked(tree))


def amount(value: float, resource: str) -> str:
    """An amount in words."""
    return f"{value + 0.0:.4g} {resource}" if math.isfinite(value) else f"all {resource} there is"


@trial(
    "each queue gets what certified max-min fairness beyond guarantees gives it, by weight and level by level",
    without=("priority", "reserved", "lending"),
)
def _max_min_fair(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    total = scheduler.checked(case.tree).total()
    for row in beside(scheduler, case.tree)[0].to_dict("records"):
        name, gets, fair = row["resource"], row["gives"], row["fair"]
        sentence = f"queue {row['queue']!r} gets {amount(gets, name)}, where max-min fairness gives {fair:.4g}"
        yield Breach(sentence, abs(gets - fair) / total[name])


@trial("together queues get no more than the capacity, and those below a queue no more than that queue")
def _feasible(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree = scheduler.checked(case.tree)
    given, total = gives(scheduler, case.tree), tree.total()
    for name in total:
        for above, below in tree.children.items():
            if not below:
                continue
            there, part = given[above][name] if above else total[name], sum(given[one.name][name] for one in below)
            whose = f"queue {above!r}, which has" if above else "a cluster of"
            words = f"{_listed(below)} {amount(part, name)} of {whose} {amount(there, name)}"
            yield Breach(words, (part - there) / total[name])


@trial("no queue gets more than its limit", without=("lending",))
def _within_limits(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree, given = scheduler.as_owed(scheduler.checked(case.tree)), gives(scheduler, case.tree)
    for name, whole in tree.total().items():
        for queue in tree.queues:
            gets, most = given[queue.name][name], queue.limit.get(name, math.inf)
            words = f"queue {queue.name!r} gets {amount(gets, name)}, beyond its limit of {amount(most, name)}"
            yield Breach(words, (gets - most) / whole)


@trial(
    "no queue gets more than it asks for, or less while some is left that it may have", without=("lending", "reserved")
)
def _non_wasteful(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree = scheduler.as_owed(scheduler.checked(case.tree))
    given, asks = gives(scheduler, case.tree), request_of(tree)
    for name, whole in tree.total().items():
        left = {"": whole - sum(given[one.name][name] for one in tree.leaves)}
        for queue in reversed(deepest_first(tree)):
            gets, asked = given[queue.name][name], asks[queue.name][name]
            left[queue.name] = min(left[queue.parent], queue.limit.get(name, math.inf) - gets)
            if tree.children[queue.name]:
                continue
            words = f"queue {queue.name!r} asks for {amount(asked, name)} and gets {gets:.4g}"
            yield Breach(words, (gets - asked) / whole)
            yield Breach(f"{words}, and {left['']:.4g} are left", min(asked - gets, left[queue.name]) / whole)


@trial(
    "each queue gets the least of its guarantee, request and limit, where these amounts fit together",
    without=("lending",),
)
def _keeps_guarantees(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree = scheduler.as_owed(scheduler.checked(case.tree))
    both = [replace(one, guarantee=_larger(one.guarantee, one.reserved)) for one in tree.queues]
    tree, given, usable = replace(tree, queues=tuple(both)), gives(scheduler, case.tree), usable_of(tree)
    for name, whole in tree.total().items():
        owed = {one.name: owed_of(tree, one.name, name, usable) for one in tree.queues}
        needs = dict[str, float]()
        for one in deepest_first(tree):
            needs[one.name] = max(owed[one.name], sum(needs[child.name] for child in tree.children[one.name]))
        fits = all(needs[one.name] <= one.limit.get(name, math.inf) for one in tree.queues)
        if not fits or sum(needs[one.name] for one in tree.children[""]) > whole:
            continue
        for one in tree.queues:
            gets = given[one.name][name]
            words = f"queue {one.name!r} is guaranteed {amount(owed[one.name], name)}, for which it asks, and gets"
            yield Breach(f"{words} {gets:.4g}", (owed[one.name] - gets) / whole)


@trial("no queue gets more than it is owed while a sibling of higher priority asks for more", of=("KAI", "YuniKorn"))
def _keeps_priorities(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree, given = scheduler.checked(case.tree), gives(scheduler, case.tree)
    asks = request_of(tree)
    for high, low in permutations(tree.leaves, 2):
        if high.parent != low.parent or (high.priority or 0) <= (low.priority or 0):
            continue
        for name, whole in tree.total().items():
            gets, less = given[low.name][name], given[high.name][name]
            unmet = min(asks[high.name][name], high.limit.get(name, math.inf)) - less
            words = f"queue {low.name!r} gets {amount(gets, name)}, and {high.name!r} of higher priority {less:.4g}"
            yield Breach(words, min(gets - low.guarantee.get(name, 0.0), unmet) / whole)


@trial(
    "without guarantees and priorities, each queue gets the least of its request, its limit and its part of the "
    "capacity by weight, level by level",
    without=("guarantee", "reserved", "priority", "lending", "borrowing"),
    hdrf=True,  # of one resource
)
def _sharing_incentive(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree = scheduler.checked(case.tree)
    given, asks, total = gives(scheduler, case.tree), request_of(tree), tree.total()
    for name, whole in total.items() if kind_of(scheduler) != HDRF or len(total) == 1 else ():
        slices = {"": whole}
        for queue in reversed(deepest_first(tree)):
            weights = sum(weight_of(one, name) for one in tree.children[queue.parent])
            part = slices[queue.parent] * (weight_of(queue, name) / weights if weights else 0.0)
            slices[queue.name] = min(part, queue.limit.get(name, math.inf))
        for queue in tree.leaves:
            gets, own = given[queue.name][name], min(slices[queue.name], asks[queue.name][name])
            words = f"queue {queue.name!r} gets {amount(gets, name)}, and could use {own:.4g} of its slice"
            yield Breach(words, (own - gets) / whole)


@trial("no queue gets more that it can use, at most its true request, by asking for another amount")
def _strategy_proof(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree, total = case.tree, scheduler.checked(case.tree).total()
    asks, truth = request_of(scheduler.checked(tree)), useful(scheduler, tree)
    lies = FRACTIONS if "fractions" in reads(scheduler) else (0.5,)
    for queue in tree.leaves:
        for name, whole in total.items():
            asked = asks[queue.name]
            for lie in (*lies, *map(float, range(int(whole) + 2))):
                lied = replace(queue, request={**asked, name: lie})
                got, before = useful(scheduler, _with(tree, queue, lied), asks)[queue.name], truth[queue.name]
                worse = any(got[other] < before[other] - LEAST * total[other] for other in total)
                words = f"queue {queue.name!r}, who needs {amount(asked[name], name)}, gets {before[name]:.4g}, and"
                words += f" {got[name]:.4g} of use to it when it asks for {lie:g}"
                yield Breach(words, 0.0 if worse else (got[name] - before[name]) / whole)


@trial("no queue gets more as two queues that have half of its weight, guarantee, limit and request each")
def _split_proof(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree, total = case.tree, scheduler.checked(case.tree).total()
    before = useful(scheduler, tree)
    for queue in tree.leaves:
        halved: dict[str, Any] = {
            key: {name: value / 2 for name, value in of.items()}
            for key in (*AMOUNTS, "request")
            if (of := getattr(queue, key)) is not None
        }
        if "weight" in reads(scheduler):
            halved |= {"weight": queue.weight / 2, "weights": {name: of / 2 for name, of in queue.weights.items()}}
        both = [replace(queue, name=f"{queue.name}{k}", **halved) for k in (1, 2)]
        changed = _with(tree, queue, *both)
        if not legal(scheduler, Case(changed)):
            continue
        after = useful(scheduler, changed)
        for name, whole in total.items():
            gets, would = before[queue.name][name], sum(after[one.name][name] for one in both)
            words = f"queue {queue.name!r} gets {amount(gets, name)}, and {would:.4g} as two halves of it"
            yield Breach(words, (would - gets) / whole)


@trial(
    "no two siblings that ask for all there is get more as one queue with the sums of their weights and guarantees",
    without=("limit", "lending", "borrowing"),
)
def _merge_proof(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    tree, total = case.tree, scheduler.checked(case.tree).total()
    before = useful(scheduler, tree)
    for one, other in combinations(tree.leaves, 2):
        alike = (one.parent, one.priority, None) == (other.parent, other.priority, one.request or other.request)
        if not alike or any(getattr(one, key).keys() != getattr(other, key).keys() for key in AMOUNTS):
            continue
        sums: dict[str, Any] = {key: _sum(getattr(one, key), getattr(other, key)) for key in AMOUNTS}
        merged = replace(one, weight=one.weight + other.weight, weights=_sum(one.weights, other.weights), **sums)
        changed = _with(_with(tree, one, merged), other)
        if not legal(scheduler, Case(changed)):
            continue
        after = useful(scheduler, changed)
        for name, whole in total.items():
            gets, would = before[one.name][name] + before[other.name][name], after[one.name][name]
            words = f"{_listed((one, other))} {amount(gets, name)} together, and {would:.4g} as one queue"
            yield Breach(words, (would - gets) / whole)


@trial("when a capacity grows, no queue gets less", without=("priority",), hdrf=True)
def _resource_monotone(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    total = scheduler.checked(case.tree).total()
    for name in total:
        for more in (1, 2):
            what = f"{amount(total[name], name)} become {total[name] + more:.4g}"
            yield from _falls(scheduler, case.tree, _grown(case.tree, name, more), what)


@trial("when a queue asks for nothing any more, no other gets less", without=("priority",), hdrf=True)
def _population_monotone(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    for queue in case.tree.leaves:
        silent = replace(queue, request=dict.fromkeys(scheduler.checked(case.tree).total(), 0.0))
        what = f"queue {queue.name!r} asks for nothing any more"
        yield from _falls(scheduler, case.tree, _with(case.tree, queue, silent), what, queue.name)


def _falls(scheduler: Deployed, tree: QueueTree, changed: QueueTree, what: str, but: str = "") -> Iterator[Breach]:
    """Breaches where a change leaves a queue less."""
    before, after = useful(scheduler, tree), useful(scheduler, changed)
    for name, whole in scheduler.checked(tree).total().items():
        for queue in tree.leaves:
            gets, less = before[queue.name][name], after[queue.name][name]
            words = f"when {what}, queue {queue.name!r} falls from {amount(gets, name)} to {less:.4g}"
            yield Breach(words, 0.0 if queue.name == but else (gets - less) / whole)


@trial("siblings that are the same but for their names get the same")
def _equal_treatment(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    given, total = gives(scheduler, case.tree), scheduler.checked(case.tree).total()
    for one, other in combinations(case.tree.leaves, 2):
        if replace(one, name=other.name) != other:
            continue
        for name, whole in total.items():
            gets, would = given[one.name][name], given[other.name][name]
            words = f"alike, {_listed((one, other))} {amount(gets, name)} and {would:.4g}"
            yield Breach(words, abs(gets - would) / whole)


@trial("what queues get does not depend on the order in which they are listed", hdrf=True)
def _order_independent(scheduler: Deployed, case: Case) -> Iterator[Breach]:
    queues, given = case.tree.queues, gives(scheduler, case.tree)
    swapped = [(*queues[:k], queues[k + 1], queues[k], *queues[k + 2 :]) for k in range(len(queues) - 1)]
    for order in (queues[::-1], *swapped):
        other = gives(scheduler, replace(case.tree, queues=order))
        for name, whole in scheduler.checked(case.tree).total().items():
            for queue in case.tree.leaves:
                gets, would = given[queue.name][name], other[queue.name][name]
                words = f"queue {queue.name!r} gets {amount(gets, name)}, and {would:.4g} if queues are listed as"
                yield Breach(f"{words} {', '.join(one.name for one in order)}", abs(gets - would) / whole)


trial(
    "whom a workload preempts can be preempted one after the other, each as the rules of shares allow then",
    of=("Kueue",),
    draw=arrivals,
)(preemption_by_rules)
trial(
    "workloads that arrive one by one, and never finish, do not preempt each other in a circle",
    of=("Kueue",),
    draw=arrivals,
)(preemption_ends)


def useful(scheduler: Deployed, tree: QueueTree, asks: Given | None = None) -> Given:
    """What each queue is given, as far as it may and in truth wants to use so much."""
    given, asks = gives(scheduler, tree), asks or request_of(scheduler.checked(tree))
    return {
        queue.name: {
            name: min(gets, asks[queue.name][name], queue.limit.get(name, math.inf))
            for name, gets in given[queue.name].items()
        }
        for queue in tree.queues
    }


def _grown(tree: QueueTree, name: str, more: float) -> QueueTree:
    """The same queues with more of a resource; in Kueue the first cohort at the top has it."""
    if tree.scheduler != "Kueue":
        return replace(tree, capacity={**tree.capacity, name: tree.capacity[name] + more})
    top = tree.children[""][0]
    return _with(tree, top, replace(top, guarantee=_sum(top.guarantee, {name: more})))


def _with(tree: QueueTree, queue: Queue, *others: Queue) -> QueueTree:
    """The tree with other queues in the place of one."""
    k = next(k for k, one in enumerate(tree.queues) if one.name == queue.name)
    return replace(tree, queues=(*tree.queues[:k], *others, *tree.queues[k + 1 :]))


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}


def _larger(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}


def _listed(queues: Iterable[Queue]) -> str:
    """Queues, who get something."""
    *others, last = (repr(queue.name) for queue in queues)
    return f"queues {', '.join(others)} and {last} get" if others else f"queue {last} gets"
