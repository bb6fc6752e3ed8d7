"""Whether a workload could start: in which flavors, how far it borrows, whom it preempts; or what is missing.

Kueue tries the flavors of a queue in order, for each set of pods and group of resources, and compares them by what the
worst of their resources needs: nothing, workloads of others or of its own queue to go, or more than there can be. Where
``flavorFungibility`` lets it, it stops at a flavor for which it may preempt, or must borrow
(``pkg/scheduler/flavorassigner/flavorassigner.go``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from fairopt.io import unit_of
from fairopt.runtime import first_of, unit_shown
from fairopt_clusters.read.amounts import matching
from fairopt_clusters.read.queues.tree import Part, Workload
from fairopt_clusters.schedulers.cohorts import Amounts, Node, exact, exactly
from fairopt_clusters.schedulers.preemption import BORROW, NEVER, RECLAIM, policy

# From the worst to the best of what a resource of a flavor needs; with NOBODY all is owed, and no one may be preempted.
NO_FIT, NOBODY, OWN, OTHERS, FITS = range(5)
WHEN_BORROW, WHEN_PREEMPT, PREFERENCE = "whenCanBorrow", "whenCanPreempt", "preference"
NEXT, BORROWS_LAST = "TryNextFlavor", "PreemptionOverBorrowing"

Victims = Callable[[Workload, Sequence[Workload], Collection[str]], list[int]]
"""The rows of what runs that a workload preempts, so that it has some resources of which there is not enough."""


class Need(NamedTuple):
    """What it takes to use a resource of a flavor, and how many levels of cohorts lend it: 0 of its own quota."""

    kind: int
    level: int = 0


class Start(NamedTuple):
    """How a workload could start now: what it uses, what that takes at worst, and the rows that it preempts.

    It lacks what is ``needed``, leaves out so many pods ``fewer``, and would go on with the flavors of ``next``.
    """

    uses: Amounts
    need: Need
    victims: tuple[int, ...] = ()
    needed: frozenset[str] = frozenset()
    fewer: int = 0
    next: tuple[int, ...] = ()

    @property
    def now(self) -> bool:
        """Whether it starts without anybody going."""
        return self.need.kind == FITS


class WouldStart(NamedTuple):
    """Whether a workload would start if it came next: ``now``, ``preempting``, or it ``waits``, or ``never`` does.

    By flavor and resource, what it ``uses``, and what of this its queue ``borrows``; whom it ``preempts``; how many of
    its pods are left out; and, where it does not start, what is ``missing``, in words.
    """

    starts: str
    uses: Mapping[str, float] = MappingProxyType({})
    borrows: Mapping[str, float] = MappingProxyType({})
    preempts: tuple[str, ...] = ()
    fewer: int = 0
    missing: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What there is to say of it."""
        if self.missing:
            would = "can never start" if self.starts == "never" else "would wait"
            return f"{would}: {'; '.join(self.missing)}"
        flavors = dict.fromkeys(cell.rpartition(":")[0] for cell in self.uses if ":" in cell)
        words = "would start now" if self.starts == "now" else f"would start after preempting {first_of(self.preempts)}"
        words += f" in {' and '.join(flavors)}" * bool(flavors)
        words += f", without {self.fewer:,} of its pods" * bool(self.fewer)
        lent = [f"{amount:,.6g} {named(cell)}" for cell, amount in self.borrows.items()]
        return words + (f", borrowing {first_of(lent)}" if lent else "")


def start(
    nodes: Mapping[str, Node], incoming: Workload, runs: Sequence[Workload], victims: Victims, fair: bool = True
) -> Start:
    """How a workload could start beside what runs, which nodes use; as Kueue tries it, cycle after cycle.

    After a flavor at which it stops, and in which it preempts nobody, it goes on with the next one. Pods that a
    workload can do without are left out, as few as possible.
    """
    tried, seen = (0,) * len(parts_of(incoming)), set[tuple[int, ...]]()
    most, best = max((part.spare for part in incoming.parts), default=0), Start(incoming.uses, Need(NO_FIT))
    while tried not in seen:
        seen.add(tried)
        made, begin = dict[int, Start](), tried

        def works(fewer: int, made: dict[int, Start] = made, begin: tuple[int, ...] = begin) -> bool:
            parts = [_without(part, fewer, most) for part in parts_of(incoming)]
            found = _assigned(nodes, incoming, parts, begin, runs, victims, fair)
            if NO_FIT < found.need.kind < FITS:
                gone = victims(incoming._replace(uses=found.uses), runs, found.needed)
                found = found._replace(victims=tuple(gone))
            made[fewer] = found._replace(fewer=fewer)
            return found.now or bool(found.victims)

        fewer = 0 if works(0) or not most else bisect_left(range(most + 1), True, key=works)
        if fewer in made and (made[fewer].now or made[fewer].victims):
            return made[fewer]
        best = max(best, made[0], key=lambda one: one.need.kind)
        tried = made[0].next
    return best


def could_start(nodes: Mapping[str, Node], one: Workload) -> bool:
    """Whether a workload could start where nothing else runs; of nodes that use nothing."""
    return start(nodes, one, (), lambda *_: []).now


def missing(node: Node, incoming: Workload) -> tuple[bool, list[str]]:
    """Whether a workload could start if nothing else ran, and in words what it asks for beyond what is free or allowed.

    Of each part, in each of its flavors.
    """
    out, ever, before = dict[str, None](), True, dict[str, float]()
    for part in parts_of(incoming):
        could, least = False, dict[str, float]()
        for k in range(len(part.ways)):
            of_least = _without(part, part.spare, part.spare).ways[k]
            least = {cell: before.get(cell, 0) + amount for cell, amount in of_least.items()}
            could |= all(amount <= node.potential(cell) for cell, amount in least.items())
            for cell, amount in least.items():
                if amount > (free := max(0, node.available(cell))):
                    free, most = float(free), float(min(node.potential(cell), 1e60))
                    known = f"of which {free:,.6g} are free and" if free < most else "and"
                    out[f"asks for {float(amount):,.6g} {named(cell)}, {known} {node.name} may have {most:,.6g}"] = None
        before |= least if len(part.ways) == 1 else {}
        ever &= could
    return ever, [*out]


def lacking(one: Workload, has: Amounts) -> list[str]:
    """What a workload asks for beyond what its queue has alone, in words; what that does not name has no end."""
    uses = {name: amount for given, amount in one.uses.items() if (name := matching(given, has))}
    return missing(Node(one.queue, exact(has), is_queue=True), exactly(one._replace(uses=uses)))[1]


def named(cell: str) -> str:
    """A resource of a flavor in words, with its unit."""
    flavor, _, resource = cell.rpartition(":")
    return " ".join(filter(None, (unit_shown(unit_of(resource)), resource, f"of {flavor}" * bool(flavor))))


def parts_of(one: Workload) -> tuple[Part, ...]:
    """The parts of a workload: of one without any what it uses, in no other flavor."""
    return one.parts or (Part((one.uses,)),)


def least_of(one: Workload) -> int:
    """How many pods of a workload start together at least."""
    return sum(part.pods - part.spare for part in parts_of(one))


def least_use(one: Workload) -> dict[str, float]:
    """What the fewest pods with which a workload starts use, in the first flavors that they may have."""
    out = dict[str, float]()
    for part in parts_of(one):
        for cell, amount in _without(part, part.spare, part.spare).ways[0].items():
            out[cell] = out.get(cell, 0) + amount
    return out


def _without(part: Part, fewer: int, most: int) -> Part:
    """A part without some of the pods that it can do without, in proportion."""
    less = part.spare * fewer // most if most else 0
    if not less:
        return part
    kept = Fraction(part.pods - less, part.pods)
    return part._replace(ways=tuple({cell: amount * kept for cell, amount in way.items()} for way in part.ways))


def _assigned(
    nodes: Mapping[str, Node],
    incoming: Workload,
    parts: Sequence[Part],
    tried: Sequence[int],
    runs: Sequence[Workload],
    victims: Victims,
    fair: bool,
) -> Start:
    """What a workload would use if flavors are tried from some on."""
    node, uses, worst = nodes[incoming.queue], dict[str, float](), Need(FITS)
    needed, ends = set[str](), list[int]()
    borrows_last = node.rules.get(PREFERENCE) == BORROWS_LAST
    for part, begin in zip(parts, tried, strict=True):
        best, best_of, end = Need(NO_FIT), dict[str, Need](), len(part.ways)
        chosen: Amounts = {}
        # In an only flavor there is no choice, and whom all resources together preempt is asked afterwards; to ask of
        # each by itself too took twice the time of a replay. Without fair sharing the order needs the level then.
        simulates = victims if len(part.ways) > 1 or not (fair and runs) else None
        for k in range(begin, len(part.ways)):
            of = {
                cell: _need(nodes, incoming, cell, uses.get(cell, 0) + amount, runs, simulates, fair)
                for cell, amount in part.ways[k].items()
            }
            need = min(of.values(), key=lambda one: _rank(one, borrows_last), default=Need(FITS))
            stops = _stops(node, need)
            if stops or _rank(need, borrows_last) > _rank(best, borrows_last):
                best, best_of, chosen = need, of, part.ways[k]
            if stops:
                end = k + 1
                break
        if best.kind == NO_FIT:
            return Start(incoming.uses, best, next=(0,) * len(parts))
        for cell, amount in chosen.items():
            uses[cell] = uses.get(cell, 0) + amount
        needed |= {cell for cell, one in best_of.items() if one.kind < FITS}
        both = [worst, *best_of.values()]
        worst = Need(min(one.kind for one in both), max(one.level for one in both))
        ends.append(end if end < len(part.ways) else 0)
    return Start(uses, worst, needed=frozenset(needed), next=tuple(ends))


def _need(
    nodes: Mapping[str, Node],
    incoming: Workload,
    cell: str,
    amount: float,
    runs: Sequence[Workload],
    victims: Victims | None,
    fair: bool,
) -> Need:
    """What it takes that a workload uses an amount of a resource of a flavor; without ``victims`` not from whom."""
    node = nodes[incoming.queue]
    if amount > node.potential(cell):
        return Need(NO_FIT)
    level, below_root = level_of(node, cell, amount)
    if amount <= max(0, node.available(cell)):
        return Need(FITS, level)
    borrows = policy(node, BORROW) != NEVER or (fair and policy(node, RECLAIM) != NEVER)
    if amount > node.own(cell) and not below_root and not borrows:
        return Need(NO_FIT, level)
    if victims is None:
        return Need(OWN, level)
    return _with_others_gone(nodes, incoming._replace(uses={cell: amount}), runs, victims)


def _with_others_gone(
    nodes: Mapping[str, Node], incoming: Workload, runs: Sequence[Workload], victims: Victims
) -> Need:
    """What it takes to use an amount of one resource of a flavor, of which there is not enough."""
    node, ((cell, amount),) = nodes[incoming.queue], incoming.uses.items()
    gone = victims(incoming, runs, {cell})
    if not gone:
        return Need(NOBODY, level_of(node, cell, amount)[0])
    for sign in (-1, 1):
        if sign == 1:
            level, _ = level_of(node, cell, amount)
        for j in gone:
            nodes[runs[j].queue].add(runs[j].uses, sign)
    return Need(OWN if any(runs[j].queue == node.name for j in gone) else OTHERS, level)


def level_of(node: Node, cell: str, amount: float) -> tuple[int, bool]:
    """How high the lowest cohort is that has so much, and whether there is one above it; 0 for its own quota."""
    if node.parent is None or node.used.get(cell, 0) + amount <= node.own(cell):
        return 0, node.parent is not None
    left = amount - max(0, node.local(cell) - node.used.get(cell, 0))
    for cohort in node.above():
        if cohort.used.get(cell, 0) + left <= cohort.quota.get(cell, 0):
            return cohort.height, cohort.parent is not None
        left -= max(0, cohort.local(cell) - cohort.used.get(cell, 0))
    return node.root.height, False


def _rank(need: Need, borrows_last: bool) -> tuple[int, ...]:
    """What flavors are compared by: the best is the largest."""
    if need.kind == NO_FIT:
        return (0,)
    both = (-need.level, need.kind) if borrows_last else (need.kind, -need.level)
    return (1, int(need.kind != NOBODY), *both)


def _stops(node: Node, need: Need) -> bool:
    """Whether no further flavor is tried."""
    if need.kind <= NOBODY or (need.kind < FITS and node.rules.get(WHEN_PREEMPT, NEXT) == NEXT):
        return False
    return not need.level or node.rules.get(WHEN_BORROW) != NEXT
