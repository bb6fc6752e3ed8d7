"""The audit of a deployed scheduler: drawn queues, the smallest that break a property, and their report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from fairopt.errors import InvalidBlock
from fairopt.properties import AuditReport, Evidence, Finding, require_whole, spelled, texts
from fairopt.runtime import begin
from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.draws import AMOUNTS, Breach, Case, features_of, kind_of, legal, shrunk, size_of
from fairopt_clusters.schedulers.trial import TRIALS, Trial

FAILING, SHRUNK = 16, 4  # cases that fail before the search ends, and the smallest of these, which are shrunk


@dataclass(frozen=True)
class TreeWitness(Evidence):
    """Queues on which a scheduler breaks a property.

    Attributes
    ----------
    tree : QueueTree
        The smallest that was found.
    running : tuple of Workload
        What runs in them, where the property is one of preemption.
    sentence : str
        The breach in words.
    margin : float
        How far it fails, as a part of the capacity.
    verified : str
        How it was verified.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> fc.schedulers.KAI().audit("split-proof")["split-proof"].witness.tree.scheduler
    'KAI'
    """

    tree: QueueTree
    running: tuple[Workload, ...]
    sentence: str
    margin: float
    verified: str

    @property
    def where(self) -> str:
        """All numbers in one line."""
        return described(Case(self.tree, self.running))


@dataclass(frozen=True, eq=False, repr=False)
class TrialReport(AuditReport):
    """Findings on a deployed scheduler by property; their witnesses are trees of queues."""

    def _name_of(self, text: str) -> str:
        return trial_name(text)

    def __contains__(self, name: object) -> bool:
        return spelled(name) in self._by_name

    def save(self, path: str | Path) -> Path:
        """Raise `InvalidBlock`: a saved audit is one of instances."""
        raise InvalidBlock("audits of deployed schedulers are not saved for replay; write to_dict() as JSON")


def audit_scheduler(
    scheduler: Deployed,
    properties: str | Iterable[str] | None,
    instances: Iterable[QueueTree] | None,
    *,
    max_examples: int,
    seed: int,
    found: Callable[[Finding], None] | None = None,
    time_limit: float | None = None,
) -> TrialReport:
    """See `Deployed.audit`."""
    require_whole(max_examples, "max_examples")
    require_whole(seed, "seed", 0)
    if isinstance(instances, QueueTree) or not isinstance(instances, Iterable | None):
        raise InvalidBlock(f"instances is {instances!r}; give a list of QueueTree objects")
    given = None if instances is None else [*instances]
    for tree in given or ():
        scheduler.checked(tree)
    if given == []:
        raise InvalidBlock("instances is empty; give some, or leave it out to have queues drawn")
    mine = trials_of(scheduler)
    names = list(dict.fromkeys(trial_name(name, [*mine]) for name in texts(properties, "properties", mine)))
    if not names:
        raise InvalidBlock("no properties to audit; give some, or leave them out for all")
    clock, findings, stopped = begin(time_limit), list[Finding](), False
    try:
        for k, name in enumerate(names):
            until = None if clock.left is None else time.monotonic() + clock.left / (len(names) - k)
            findings.append(_searched(scheduler, mine[name], given, max_examples, seed, until))
            if found is not None:
                found(findings[-1])
    except KeyboardInterrupt:
        stopped = True
    return TrialReport(scheduler.name, scheduler, tuple(findings), (), seed, stopped)


def trials_of(scheduler: Deployed) -> dict[str, Trial]:
    """The properties that are asked of a scheduler, by name."""
    return {one.name: one for one in TRIALS if one.asked_of(kind_of(scheduler))}


def trial_name(text: object, mine: Sequence[str] | None = None) -> str:
    """The name of a property of schedulers, or of those that are asked of one."""
    names = [one.name for one in TRIALS] if mine is None else mine
    known = spelled(text)
    if known not in names:
        raise InvalidBlock(f"no property {text!r} of this scheduler; it has {', '.join(names)}")
    return known


def _searched(
    scheduler: Deployed, trial: Trial, given: list[QueueTree] | None, examples: int, seed: int, until: float | None
) -> Finding:
    """The finding of one property; given trees with what it leaves out are skipped."""
    fitting = given and [tree for tree in given if features_of(tree).isdisjoint(trial.without)]
    skipped = len(given or ()) - len(fitting or ())
    rng, begun = np.random.default_rng(seed), time.perf_counter()
    failing, tried = list[Case](), 0

    def late() -> bool:
        return until is not None and time.monotonic() > until

    def fails(case: Case) -> bool:
        return not late() and legal(scheduler, case) and trial.breach(scheduler, case) is not None

    enough, number = (FAILING, examples) if fitting is None else (1, len(fitting))
    while tried < number and len(failing) < enough and not late():
        case = trial.drawn(rng, scheduler) if fitting is None else Case(fitting[tried])
        tried += 1
        if trial.breach(scheduler, case) is not None:
            failing.append(case)
    if given is None:
        failing = [shrunk(case, fails) for case in sorted(failing, key=size_of)[:SHRUNK]]
    witness = None
    for case in sorted(failing, key=size_of)[:1]:
        if (breach := _confirmed(scheduler, trial, case)) is not None:
            witness = TreeWitness(*case, *breach, "divided again from a tree built anew")
    searched = f"{tried:,} given trees" if given is not None else "drawn queues"
    seconds = time.perf_counter() - begun
    early = late() and tried < number and witness is None
    return Finding(trial.name, witness is not None, tried, skipped, cast(Any, witness), searched, seconds, late=early)


def _confirmed(scheduler: Deployed, trial: Trial, case: Case) -> Breach | None:
    """The breach once more, of a tree built anew."""
    queues = tuple(replace(one, place="") for one in case.tree.queues)
    tree = QueueTree(case.tree.scheduler, queues, dict(case.tree.capacity))
    return trial.breach(scheduler, Case(tree, case.running))


def described(case: Case) -> str:
    """All numbers of a case in one line."""
    words = [", ".join(f"{value:g} {name}" for name, value in case.tree.capacity.items())]
    for queue in case.tree.queues:
        words.append(f"{queue.name!r}" + (f" below {queue.parent!r}" if queue.parent else "") + _features(queue))
    words += [
        f"workload {j} of {one.queue!r} ({_amounts(one.uses)}{f', priority {one.priority}' * bool(one.priority)})"
        for j, one in enumerate(case.running, 1)
    ]
    return "; ".join(filter(None, words))


def _features(queue: Queue) -> str:
    """What there is to say of a queue."""
    words = [f"weight {queue.weight:g}"] * (queue.weight != 1)
    words += [f"priority {queue.priority}"] * (queue.priority is not None)
    words += [f"{key} {_amounts(getattr(queue, key))}" for key in AMOUNTS if getattr(queue, key)]
    words += [f"{key} {text}" for key, text in queue.notes.items()]
    words += [] if queue.request is None else [f"asks for {_amounts(queue.request)}"]
    return f" ({', '.join(words)})" if words else ""


def _amounts(amounts: Any) -> str:
    return " and ".join(f"{value:g} {name}" for name, value in amounts.items()) or "nothing"
