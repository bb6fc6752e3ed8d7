"""Twelve weeks of a cluster with Kueue: with its settings as they are, with those that are written, and others.

192 GPUs on servers of 8, four queues that own a quarter each; which of them are busy is drawn anew each week. Workloads
arrive over the week and start whole; with gangs they are of up to six servers, which is what a queue owns. ``used`` is
what was used of what was asked for and there, without what was begun anew after preemption; ``short`` what queues did
not have at the time of what they asked for within their quarter; each with workloads that go on where they were, and
that begin anew (``anew``). ``longer`` is the part of the workloads that wait longer to run first than with the settings
as they are. Settings are written by ``fc.quotas`` from the workloads of a day: each of the first week, and the first of
the next three; by default, and with ``reclaim``. They have to be the same each time, so that a run each day and one a
week are the same course. Caps are written each week anew, for the first seeds.

Run: python benchmarks/quota_weeks.py [--seeds 20]
"""

from __future__ import annotations

import time
from typing import Any

import fairopt_clusters as fc
import numpy as np
from common import arguments, show
from fairopt_clusters.quotas.work import Work
from fairopt_clusters.read.documents import data_of_text
from fairopt_clusters.read.queues.tree import QueueTree, Workload
from fairopt_clusters.schedulers.course import Course, Timed, course_of, entitlements

import fairopt as fo

GPU, HOUR, QUEUES, SERVERS, WEEKS = "nvidia.com/gpu", 3600.0, "abcd", 24, 12
WEEK, DAY = 168 * HOUR, 24 * HOUR
CAPPED = 3  # seeds with caps
Object = dict[str, Any]


def workloads(seed: int, gangs: bool) -> list[Timed]:
    """Twelve weeks of workloads, in the order of their arrival."""
    rng, out = np.random.default_rng([seed, gangs]), list[tuple[float, str, int, float]]()
    for week in range(WEEKS):
        load = rng.uniform(0.6, 1.2)
        for queue, part in zip(QUEUES, rng.dirichlet([0.7] * len(QUEUES)).tolist(), strict=True):
            left = part * load * SERVERS * WEEK
            while left > 0:
                servers = int(rng.choice([1, 2, 4, 6])) if gangs else 1
                lasts = float(rng.lognormal(np.log((20 if gangs else 30) * HOUR), 0.6))
                at = (week + rng.random()) * WEEK
                if rng.random() > left / (servers * lasts):
                    break
                left -= servers * lasts
                out.append((at, queue, 8 * servers, lasts))
    return [Timed(Workload(q, {GPU: n}, 0, at, f"w{k}"), at, lasts) for k, (at, q, n, lasts) in enumerate(sorted(out))]


def cluster(reclaim: str) -> list[Object]:
    """Servers, and queues with a rule of preemption."""
    out: list[Object] = [
        {"kind": "Node", "metadata": {"name": f"n{k}"}, "status": {"allocatable": {GPU: "8"}}} for k in range(SERVERS)
    ]
    groups = [
        {"coveredResources": [GPU], "flavors": [{"name": "all", "resources": [{"name": GPU, "nominalQuota": "48"}]}]}
    ]
    out.append(of_kueue("ResourceFlavor", {"name": "all"}, {}))
    for name in QUEUES:
        spec = {"cohortName": "org", "namespaceSelector": {}, "resourceGroups": groups}
        out.append(of_kueue("ClusterQueue", {"name": name}, spec | {"preemption": {"reclaimWithinCohort": reclaim}}))
        out.append(of_kueue("LocalQueue", {"name": "main", "namespace": name}, {"clusterQueue": name}))
    return out


def of_kueue(kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def asked(work: list[Timed], begins: float) -> list[Object]:
    """The Workloads that arrive on a day."""
    out = list[Object]()
    for one in work:
        if begins <= one.arrives < begins + DAY:
            pods = {"containers": [{"resources": {"requests": {GPU: "8"}}}]}
            sets = [{"name": "main", "count": one.workload.uses[GPU] // 8, "template": {"spec": pods}}]
            metadata = {"name": one.workload.name, "namespace": one.workload.queue}
            out.append(of_kueue("Workload", metadata, {"queueName": "main", "podSets": sets}))
    return out


def written(
    objects: list[Object], work: list[Timed], caps: bool = False, reclaim: bool = False
) -> list[tuple[float, QueueTree]]:
    """The queues by the caps that are written each week, or by the settings, which no later day changes."""
    trees = list[tuple[float, QueueTree]]()
    days = [week * WEEK for week in range(WEEKS)] if caps else [*(k * DAY for k in range(7)), WEEK, 2 * WEEK, 3 * WEEK]
    for day in days:
        if not (jobs := asked(work, day)):
            continue
        now: Object = {"kind": "List", "items": [*objects, *jobs]}
        nodes = [one for one in objects if one["kind"] == "Node"]
        queues = [*(one for one in objects if one["kind"] != "Node"), *jobs]
        read = fc.read_kubernetes(listed(nodes), listed([]), kueue=listed(queues))
        made = fc.quotas(fo.HDRF().allocate(read), "kueue", queues=now, caps=caps, reclaim=reclaim)
        if trees and not caps:
            assert not made.changed, made.changed
        if made.changed or not trees:
            names = {
                (one["kind"], one["metadata"]["name"]): one for one in data_of_text(made.text(), "", "", True)["items"]
            }
            objects = [names.get((one["kind"], one["metadata"]["name"]), one) for one in objects]
            tree = Work.of({"kind": "List", "items": objects}).tree()
            assert tree is not None
            trees.append((day if trees else 0.0, tree))
    return trees


def listed(items: list[Object]) -> Object:
    return {"kind": "List", "items": items}


def numbers(course: Course, anew: Course) -> dict[str, Any]:
    """What is compared."""
    waits, again = (np.concatenate([of.waits for of in one.queues.values()]) / HOUR for one in (course, anew))
    return {
        "used": course.used,
        "short": course.short,
        "wait": float(waits.mean()),
        "95%": float(np.quantile(waits, 0.95)),
        "preempted": course.total("preempted"),
        "used anew": anew.used,
        "short anew": anew.short,
        "wait anew": float(again.mean()),
        "95% anew": float(np.quantile(again, 0.95)),
        "waits": (waits, again),
    }


def compared(one: dict[str, Any], first: dict[str, Any]) -> dict[str, float]:
    """What is used of what the scheduler uses with its settings as they are, and how many workloads wait longer."""
    of = {"of as they are": one["used"] / first["used"], "of as they are, anew": one["used anew"] / first["used anew"]}
    for name, mine, others in zip(("longer", "longer anew"), one["waits"], first["waits"], strict=True):
        of[name] = float(np.mean(mine > others + 0.01))
    return of


def main() -> None:
    options = arguments(__doc__, seeds=20)
    begun, rows = time.process_time(), list[dict[str, Any]]()
    for gangs in (False, True):
        found: dict[str, list[dict[str, Any]]] = {}
        for seed in range(options.seeds):
            work, objects = workloads(seed, gangs), cluster("Never")
            alone = Work.of({"kind": "List", "items": objects}).tree()
            assert alone is not None
            settings = {"as they are": [(0.0, alone)], "written": written(objects, work)}
            settings["with reclaim"] = written(objects, work, reclaim=True)
            if seed < CAPPED:
                settings["caps"] = written(objects, work, caps=True)
            owed = entitlements(alone)
            for name, trees in settings.items():
                both = [course_of(trees, work, WEEKS * WEEK, entitled=owed, resumes=one) for one in (True, False)]
                found.setdefault(name, []).append(numbers(both[0], both[1]))
        for name, of in found.items():
            beside = [compared(one, first) for one, first in zip(of, found["as they are"], strict=False)]
            each = [one | more for one, more in zip(of, beside, strict=True)]
            row: dict[str, Any] = {"gangs": gangs, "settings": name, "seeds": len(of)}
            row |= {key: round(float(np.mean([one[key] for one in each])), 4) for key in each[0] if key != "waits"}
            rows.append(row | {"least of as they are": round(min(one["of as they are"] for one in each), 4)})
    show("Twelve weeks of Kueue", rows, "quota_weeks")
    print(f"{time.process_time() - begun:.0f} s")


if __name__ == "__main__":
    main()
