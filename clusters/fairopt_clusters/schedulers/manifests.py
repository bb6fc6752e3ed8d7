"""Trees of queues as the files that their schedulers read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from fairopt.errors import InvalidInstance, nearest
from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers.base import deepest_first
from fairopt_clusters.schedulers.preemption import BORROW, MOST_PRIORITY, RECLAIM, WITHIN, most_priority

Part = dict[str, Any]
_KAI_UNITS = {"gpu": 1.0, "cpu": 1000.0, "memory": 2**30 / 1e6}  # of a piece, a core and a GiB
_NAMES = {"gpu": "nvidia.com/gpu"}
FLAVOR, KUEUE = "default", "kueue.x-k8s.io/v1beta2"


def manifest(tree: QueueTree, workloads: Sequence[Workload] = (), annotations: bool = False) -> str:
    """The queues as their scheduler's own file: objects for kubectl, ``queues.yaml``, or a dump for sacctmgr.

    What a file cannot say, the capacity and what queues ask for, stands in comments.

    Parameters
    ----------
    tree : QueueTree
        Queues of KAI, Kueue, Volcano, YuniKorn or Slurm, in amounts.
    workloads : sequence of (queue, amounts, priority, ...)
        Of Kueue: Jobs, to be created one after the other.
    annotations : bool, default False
        Write the levels of Volcano's queues as annotations, which hierarchical DRF reads, instead of parents.

    Returns
    -------
    str
        YAML; of Slurm, lines for ``sacctmgr load``.

    Raises
    ------
    InvalidInstance
        For queues of another scheduler.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> from fairopt_clusters import Queue, QueueTree
    >>> print(fc.schedulers.manifest(QueueTree("Slurm", (Queue("bio", weight=3, limit={"cpu": 8}),), {"cpu": 9})))
    # 9 cpu to divide
    Cluster - 'cluster':Fairshare=1:QOS='normal'
    Parent - 'root'
    Account - 'bio':Description='bio':Organization='bio':Fairshare=3:GrpTRES=cpu=8
    """
    if tree.scheduler not in (known := (*_WRITERS, "Slurm")):
        raise InvalidInstance(f"there is no file for queues of {tree.scheduler}; {nearest(tree.scheduler, known)}")
    lines = [f"# {_amounts(tree.capacity)} to divide"] if tree.capacity else []
    for queue in tree.leaves:
        asks = "all there is" if queue.request is None else _amounts(queue.request)
        lines += [f"# {queue.name} asks for {asks}"] * (queue.request is not None)
    if tree.scheduler == "Slurm":
        return "\n".join([*lines, *_slurm(tree)])
    objects = _WRITERS[tree.scheduler](tree)
    if annotations and tree.scheduler == "Volcano":
        objects = [_of_levels(tree, queue) for queue in tree.leaves]
    written = yaml.safe_dump_all([*objects, *_jobs(workloads)], sort_keys=False, default_flow_style=None, width=110)
    return "\n".join([*lines, str(written).rstrip("\n")])


def _of_kai(tree: QueueTree, queue: Queue) -> Part:
    """A Queue object; resources that the tree does not have are without limits."""
    spec: Part = {"parentQueue": queue.parent} if queue.parent else {}
    spec |= {} if queue.priority is None else {"priority": queue.priority}
    spec["resources"] = {}
    for name, unit in _KAI_UNITS.items():
        quota = queue.guarantee.get(name, 0.0) * unit if name in tree.total() else -1.0
        most = queue.limit.get(name, math.inf) * unit
        of = {"quota": quota, "limit": most if math.isfinite(most) else -1.0, "overQuotaWeight": queue.weight}
        spec["resources"][name] = {key: _number(value) for key, value in of.items()}
    return _object("scheduling.run.ai/v2", "Queue", queue.name, spec)


def _kueue(tree: QueueTree) -> list[Part]:
    """A flavor, cohorts and ClusterQueues, with reclaim within the cohort."""
    out = [_object(KUEUE, "ResourceFlavor", FLAVOR, None)]
    for queue in tree.queues:
        cohort = bool(tree.children[queue.name]) or queue.request == {}
        spec: Part = {"parentName" if cohort else "cohortName": queue.parent} if queue.parent else {}
        if not cohort:
            spec |= {"namespaceSelector": {}, "preemption": _rules(queue)}
        spec["fairSharing"] = {"weight": _text(queue.weight)}
        limits = {"nominalQuota": queue.guarantee, "lendingLimit": queue.lending, "borrowingLimit": queue.borrowing}
        names = [*queue.guarantee]
        rows = [
            {"name": _NAMES.get(name, name)}
            | {key: _quantity(of[name], name) for key, of in limits.items() if name in of}
            for name in names
        ]
        flavors = [{"name": FLAVOR, "resources": rows}]
        covered = [_NAMES.get(name, name) for name in names]
        spec |= {"resourceGroups": [{"coveredResources": covered, "flavors": flavors}]} if names else {}
        kind = "Cohort" if cohort else "ClusterQueue"
        out.append(_object(KUEUE, kind, queue.name, spec))
    return out


def _rules(queue: Queue) -> Part:
    """On whom a ClusterQueue may preempt."""
    notes = queue.notes
    rules: Part = {"reclaimWithinCohort": "Any"} | {key: notes[key] for key in (RECLAIM, WITHIN) if key in notes}
    if BORROW in notes:
        most = most_priority(queue.name, notes)
        rules[BORROW] = {"policy": notes[BORROW], **({} if most is None else {MOST_PRIORITY: most})}
    return rules


def _jobs(workloads: Sequence[Workload]) -> Iterator[Part]:
    """LocalQueues, priorities and Jobs of Kueue."""
    group = KUEUE.partition("/")[0]
    for name in dict.fromkeys(one.queue for one in workloads):
        yield _object(KUEUE, "LocalQueue", name, {"clusterQueue": name})
    for priority in dict.fromkeys(one.priority for one in workloads):
        yield {**_object(KUEUE, "WorkloadPriorityClass", f"priority-{priority}", None), "value": priority}
    for k, one in enumerate(workloads, 1):
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
        pod = {
            "restartPolicy": "Never",
            "containers": [{**container, "resources": {"requests": _quantities(one.uses)}}],
        }
        job = _object("batch/v1", "Job", f"workload-{k}", {"suspend": True, "template": {"spec": pod}})
        labels = {f"{group}/queue-name": one.queue, f"{group}/priority-class": f"priority-{one.priority}"}
        yield {**job, "metadata": {**job["metadata"], "labels": labels}}


def _of_levels(tree: QueueTree, queue: Queue) -> Part:
    """A Queue object of Volcano with its levels as annotations."""
    path = [*reversed(tree.above(queue.name)), queue.name]
    weights = [_text(tree.by_name[one].weight) for one in path]
    made = _of_volcano(replace(queue, parent=""))
    made["metadata"]["annotations"] = {
        "volcano.sh/hierarchy": "/".join(("root", *path)),
        "volcano.sh/hierarchy-weights": "/".join(("1", *weights)),
    }
    return made


def _of_volcano(queue: Queue) -> Part:
    """A Queue object of Volcano."""
    spec: Part = {"weight": _number(queue.weight), "reclaimable": True}
    spec |= {"parent": queue.parent} if queue.parent else {}
    spec |= {} if queue.priority is None else {"priority": queue.priority}
    owed = {"resource": _quantities(queue.reserved)} if queue.reserved else {}
    parts = {"capability": _quantities(queue.limit), "deserved": _quantities(queue.guarantee), "guarantee": owed}
    spec |= {key: of for key, of in parts.items() if of}
    return _object("scheduling.volcano.sh/v1beta1", "Queue", queue.name, spec)


def _yunikorn(tree: QueueTree) -> list[Part]:
    """The partition of ``queues.yaml``."""

    def below(name: str) -> list[Part]:
        return [_of_yunikorn(queue, below(queue.name)) for queue in tree.children[name]]

    root = {"name": "root", "submitacl": "*", "queues": below("")}
    return [{"partitions": [{"name": "default", "queues": [root]}]}]


def _of_yunikorn(queue: Queue, below: list[Part]) -> Part:
    """A queue, with those below it."""
    made: Part = {"name": queue.name.rpartition(".")[2]}
    made |= {} if queue.priority is None else {"properties": {"priority.offset": str(queue.priority)}}
    named = {"guaranteed": _quantities(queue.guarantee, "vcore"), "max": _quantities(queue.limit, "vcore")}
    resources = {key: of for key, of in named.items() if of}
    made |= {"resources": resources} if resources else {}
    return made | ({"parent": True, "queues": below} if below else {})


def _slurm(tree: QueueTree) -> list[str]:
    """Lines of a dump, parents first."""
    lines = ["Cluster - 'cluster':Fairshare=1:QOS='normal'"]
    for parent in ("", *(queue.name for queue in reversed(deepest_first(tree)))):
        lines += [f"Parent - '{parent or 'root'}'"] * bool(tree.children[parent])
        for one in tree.children[parent]:
            tres = ",".join(_tres(most, name) for name, most in one.limit.items())
            line = f"Account - '{one.name}':Description='{one.name}':Organization='{one.name}'"
            lines.append(f"{line}:Fairshare={_text(one.weight)}" + f":GrpTRES={tres}" * bool(tres))
    return lines


def _tres(amount: float, name: str) -> str:
    """An amount of a limit; memory in MiB, and what is neither CPU nor memory as a generic resource."""
    if name == "memory":
        return f"mem={_text(amount * 1024)}"
    return f"{name if name == 'cpu' else f'gres/{name}'}={_text(amount)}"


_WRITERS: dict[str, Callable[[QueueTree], list[Part]]] = {
    "KAI": lambda tree: [_of_kai(tree, queue) for queue in tree.queues],
    "Kueue": _kueue,
    "Volcano": lambda tree: [*map(_of_volcano, tree.queues)],
    "YuniKorn": _yunikorn,
}


def _object(version: str, kind: str, name: str, spec: Part | None) -> Part:
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
    return made if spec is None else {**made, "spec": spec}


def _quantities(amounts: Mapping[str, float], cpu: str = "cpu") -> Part:
    """Amounts as quantities of Kubernetes."""
    names = {**_NAMES, "cpu": cpu}
    return {names.get(name, name): _quantity(amount, name) for name, amount in amounts.items()}


def _quantity(amount: float, name: str) -> str:
    if name == "memory":
        return f"{_text(amount)}Gi" if amount == int(amount) else f"{_text(round(amount * 1024))}Mi"
    return _text(amount) if amount == int(amount) else f"{_text(round(amount * 1000))}m"


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _text(value: float) -> str:
    return f"{_number(value):g}"


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{value:g} {name}" for name, value in amounts.items()) or "nothing"
