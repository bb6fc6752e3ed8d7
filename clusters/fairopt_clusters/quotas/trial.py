"""Settings tried before they are applied: what past weeks would have been under them, by the rule of Kueue."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt import Instance
from fairopt.errors import InvalidInstance
from fairopt.io import Notes
from fairopt.online import read_jobs
from fairopt.runtime import pandas
from fairopt_clusters.quotas.work import Work
from fairopt_clusters.read.kubernetes.kueue import read_kueue
from fairopt_clusters.read.queues.kai import seconds
from fairopt_clusters.read.queues.kueue import Submitted, submitted_in, ways_of
from fairopt_clusters.read.queues.tree import Part, Workload
from fairopt_clusters.schedulers.course import Course, Timed, course_of, entitlements

if TYPE_CHECKING:
    import pandas as pd

Raw = Mapping[str, Any]
_ENDINGS = (".json", ".yaml", ".yml", ".gz")
_OF_QUEUES = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor")
_HOUR = 3600.0


@dataclass(frozen=True)
class Trial:
    """What would have happened with the settings as they are, and with those proposed.

    Attributes
    ----------
    before, after : Course
        Of the resource that was short most.
    days : float
        How long.
    notes : tuple of str
        What was assumed.
    """

    before: Course
    after: Course
    days: float
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame by queue, with the columns of both courses.

        Returns
        -------
        pandas.DataFrame
            ``short`` is the part of what a queue asked for within its entitlement that it did not have at the time,
            ``wait`` the mean time in hours until workloads first ran, ``preempted`` how many were; each before and
            after.
        """
        rows = {}
        for name, one in self.before.queues.items():
            both = one, self.after.queues[name]
            parts = [of.short / of.owed if of.owed else 0.0 for of in both]
            waits = [of.mean_wait / _HOUR for of in both]
            rows[name] = [*parts, *waits, *(of.preempted for of in both)]
        columns = ["short before", "short after", "wait before", "wait after", "preempted before", "preempted after"]
        return pandas().DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis(index="queue")

    @property
    def sentences(self) -> list[str]:
        """What changes in all."""
        before, after = self.before, self.after
        kept = after.used / before.used if before.used else 1.0
        used, short = ([100 * getattr(one, name) for one in (before, after)] for name in ("used", "short"))
        out = [
            f"of {before.resource}, of what was asked for and there over {self.days:,.3g} days, {used[0]:.4g}% is used "
            f"with the settings as they are and {used[1]:.4g}% with those proposed",
            f"of what queues asked for within what they are owed, {short[0]:.3g}% is missing at the time with the "
            f"settings as they are and {short[1]:.3g}% with those proposed",
        ]
        lost = after.total("lost") / after.usable if after.usable else 0.0
        if number := int(after.total("preempted")):
            what = f", and {100 * lost:.3g}% of what was used is lost as they begin anew" * (lost > 0)
            out.append(f"{number:,} workloads are preempted with those proposed{what}")
        if kept < LEAST:
            out.insert(0, f"do not apply this: {100 * (1 - kept):.3g}% less is used than with the settings as they are")
        return out


LEAST = 0.995  # of what is used with the settings as they are


def tried(
    work: Work, changed: Mapping[tuple[str, str], Raw], past: str | os.PathLike[str], servers: Instance, resumes: bool
) -> Trial:
    """Replay the past, snapshots in a folder or a table of workloads, with settings as they are and as they change."""
    tree, after, place, notes = work.tree(), work.tree(changed), Path(past), Notes()
    if tree is None or after is None:
        raise InvalidInstance("the input has no ClusterQueues whose settings could be tried; leave out --replay")
    timed = _of_table(work, place, servers, notes) if place.suffix.lower() == ".csv" else _of_folder(work, place, notes)
    timed = [one for one in timed if one.workload.queue in tree.by_name]
    if not timed:
        raise notes.nothing_left(f"{place} has no workloads of these queues; give snapshots of past weeks, or a table")
    first = min(one.arrives for one in timed)
    until = max(one.arrives + one.lasts for one in timed)
    owed = entitlements(after)
    courses = [course_of([(first, of)], timed, until, entitled=owed, resumes=resumes) for of in (tree, after)]
    how = "goes on where it was" if resumes else "begins anew"
    notes.say(f"{len(timed):,} workloads, by Kueue's fair sharing; one that is preempted {how}")
    return Trial(courses[0], courses[1], (until - first) / (24 * _HOUR), tuple(notes.sentences()))


def _of_table(work: Work, place: Path, servers: Instance, notes: Notes) -> list[Timed]:
    """The jobs of a table as workloads that start whole; users, or else their teams, are queues."""
    trace = read_jobs(place, servers)
    for note in trace.notes:
        notes.say(note)
    known = {} if (tree := work.tree()) is None else tree.by_name
    out, found = (
        list[Timed](),
        read_kueue([({"kind": "List", "items": [one for one, _ in work.objects]}, "")], mixed=True),
    )
    for k, job in enumerate(trace.jobs):
        queue = job.user if job.user in known or job.team is None else job.team
        if queue not in known:
            notes.add("{job} of no queue {was} left out", str(job.user))
            continue
        given: Any = job.demands
        demands = dict(given) if isinstance(given, Mapping) else dict(zip(servers.resources, given, strict=True))
        needs = {name: float(amount) * job.tasks for name, amount in demands.items() if amount}
        ways = tuple(ways_of(needs, found, queue))
        if not ways:
            notes.add("{job} that no flavor of its queue covers {was} left out", f"{queue} {k + 1}")
            continue
        arrives = float(job.arrival)
        one = Workload(queue, ways[0], 0, arrives, str(k + 1), (Part(ways),))
        out.append(Timed(one, arrives, float(job.duration)))
    return out


def _of_folder(work: Work, place: Path, notes: Notes) -> list[Timed]:
    """What snapshots in a folder had, each a file or a folder as of the input."""
    if not place.is_dir():
        raise InvalidInstance(f"{place} is no folder of snapshots, and no .csv of workloads; give one of these")
    seen, last, ended, ends = dict[tuple[str, float], Submitted](), dict[tuple[str, float], int](), {}, list[float]()
    given = [(one, at) for one, at in work.objects if one.get("kind") in _OF_QUEUES]
    for k, path in enumerate(sorted(one for one in place.iterdir() if one.is_dir() or one.suffix in _ENDINGS)):
        items = [one for one, _ in Work.objects_of(path)]
        there = {(one.get("kind"), str(one.get("metadata"))) for one in items}
        items += [one for one, _ in given if (one.get("kind"), str(one.get("metadata"))) not in there]
        ends.append(max(_times(items), default=0.0))
        document = {"kind": "List", "items": items}
        for one in submitted_in(document, str(path)).submitted:
            if one.created is not None:
                key = one.workload.name, one.created
                seen[key], last[key] = one, k
        for name, workload in read_kueue([(document, str(path))], mixed=True).workloads.items():
            created = seconds(workload.metadata.get("creationTimestamp"))
            over = [seconds(one.lastTransitionTime) for one in workload.conditions if one.type == "Finished"]
            if workload.finished and created is not None and over and over[0] is not None:
                ended[name, created] = over[0]
    for key in ended.keys() - seen.keys():
        notes.add("{workload} of which snapshots have the end alone {was} left out", key[0])
    lasts = {}
    for key, one in seen.items():
        gone = ends[last[key] + 1] if last[key] + 1 < len(ends) else None
        end = ended.get(key, gone)
        if one.started is not None and end is not None and end > one.started:
            lasts[key] = end - one.started
    usual = statistics.median(lasts.values()) if lasts else None
    out, until = list[Timed](), max(ends, default=0.0)
    for key, one in seen.items():
        assumed = max(usual or 0.0, until - (one.started if one.started is not None else until))
        if key not in lasts:
            notes.add("{workload} of which no end is known {counts} as long as half of the others are", key[0])
        if (length := lasts.get(key, assumed)) > 0 and math.isfinite(length):
            out.append(Timed(one.workload, key[1], length))
    return sorted(out, key=lambda one: one.arrives)


def _times(items: Sequence[Raw]) -> Iterator[float]:
    """When objects were made, and their conditions changed."""
    for one in items:
        conditions = (one.get("status") or {}).get("conditions") or ()
        given = [(one.get("metadata") or {}).get("creationTimestamp")]
        given += [of.get("lastTransitionTime") for of in conditions if isinstance(of, Mapping)]
        yield from (time for text in given if (time := seconds(text)) is not None)
