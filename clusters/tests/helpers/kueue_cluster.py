"""Clusters with Kueue from a seed as kubectl prints them, and the fair answers of their queues by linear programs.

The programs are written from the cluster as drawn, with a variable for each kind of pod and flavor, and one for what
each queue and cohort takes of the cohort above. They share nothing with the reader, which sees the JSON only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from oracle.highs import minimise

GPU = "nvidia.com/gpu"
RESOURCES = ("cpu", GPU)
Cell = tuple[str, str]  # a flavor and a resource
Row = tuple[dict[Any, float], float]  # sum of coefficients times variables <= right


@dataclass
class Quota:
    """The numbers of a queue or a cohort for a flavor and a resource."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


@dataclass
class Kind:
    """Equal pods of a queue: what one takes, the only flavor that they ask for, and how many wait and run where.

    Of those admitted to a flavor, some may not be there yet (``absent``).
    """

    cpu: int
    gpus: int
    flavor: str | None
    waits: int
    runs: dict[str, int] = field(default_factory=dict)
    absent: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.waits + sum(self.runs.values())

    def takes(self, resource: str) -> int:
        """What a pod takes."""
        return self.cpu if resource == "cpu" else self.gpus


@dataclass
class Node:
    """A queue or a cohort."""

    name: str
    parent: str | None
    weight: int
    quotas: dict[Cell, Quota]
    kinds: list[Kind] = field(default_factory=list)
    is_queue: bool = False


@dataclass
class Drawn:
    """A cluster: of each flavor the number of servers, with their cores and GPUs; queues and cohorts by name.

    ``outside`` are cores and GPUs that a pod takes on the first server of a flavor, beside these: it is in no queue.
    """

    flavors: dict[str, tuple[int, int, int]]
    nodes: dict[str, Node]
    hidden: set[str]  # queues whose admitted Workloads are not in the dump
    outside: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def queues(self) -> list[Node]:
        """The queues."""
        return [one for one in self.nodes.values() if one.is_queue]

    def below(self, name: str) -> list[Node]:
        """What is right below a cohort."""
        return [one for one in self.nodes.values() if one.parent == name]

    def total(self, resource: str, flavors: Iterable[str]) -> float:
        """What the servers of some flavors have."""
        which = 1 if resource == "cpu" else 2
        return float(sum(of[0] * of[which] for name, of in self.flavors.items() if name in flavors))


def drawn(seed: int, owning: bool = False, most: int = 6) -> Drawn:
    """A cluster of two to so many queues: quotas are whole numbers, at most what the servers of their flavor have.

    ``owning`` ones have two or three flavors and a tree of two levels, all of whose cohorts own quotas.
    """
    rng = np.random.default_rng([seed, 2] if owning else seed)
    flavors = {
        f"f{k}": (int(rng.integers(1, 4)), int(rng.integers(4, 9)) * 4, int(rng.integers(2, 9)))
        for k in range(rng.integers(2 if owning else 1, 4))
    }
    nodes: dict[str, Node] = {}
    for r in range(1 if owning else rng.integers(1, 3)):
        nodes[f"root{r}"] = Node(f"root{r}", None, 1, {})
        for k in range(2 if owning else rng.integers(0, 3)):
            name = f"mid{r}{k}"
            nodes[name] = Node(name, f"root{r}", int(rng.integers(1, 4)), {})
    places: list[str | None] = [*nodes, *nodes, None]
    for k in range(rng.integers(2, most + 1)):
        parent = f"mid0{k}" if owning and k < 2 else places[rng.integers(len(places))]
        nodes[f"q{k}"] = Node(f"q{k}", parent, int(rng.integers(1, 4)), {}, is_queue=True)
    kept = {one.parent for one in nodes.values() if one.is_queue}
    kept |= {nodes[name].parent for name in kept if name is not None}
    nodes = {name: one for name, one in nodes.items() if one.is_queue or name in kept}
    for flavor, (servers, cpus, gpus) in flavors.items():
        holders = [one for one in nodes.values() if one.is_queue or rng.random() < (1.0 if owning else 0.4)]
        for resource, there in (("cpu", servers * cpus), (GPU, servers * gpus)):
            part = 1.0 if resource == "cpu" else rng.choice([1.0, 0.8])
            ends = np.sort(rng.integers(0, int(there * part) + 1, size=len(holders) - 1))
            amounts = np.diff([0, *ends, int(there * part)])
            for one, amount in zip(holders, amounts.tolist(), strict=True):
                quota = Quota(int(amount) if rng.random() < 0.85 else 0)
                if one.parent is not None and rng.random() < 0.3:
                    quota.borrowing = int(rng.integers(0, 6)) * (4 if resource == "cpu" else 1)
                if one.parent is not None and rng.random() < 0.3:
                    quota.lending = int(rng.integers(0, int(amount) + 1))
                one.quotas[flavor, resource] = quota
    names, hidden = list(flavors), set[str]()
    for one in nodes.values():
        if not one.is_queue or rng.random() < 0.2:
            continue
        for wanted in [None, *names][: rng.integers(1, 3)]:
            kind = Kind(int(rng.integers(1, 5)), int(rng.integers(1, 3)), wanted, int(rng.integers(1, 25)))
            for flavor in names if wanted is None else [wanted]:
                if rng.random() < 0.3:
                    kind.runs[flavor] = int(rng.integers(1, 3))
            one.kinds.append(kind)
        if len(one.kinds) == 1 and rng.random() < 0.3:
            hidden.add(one.name)
    rng = np.random.default_rng([seed, 1])
    outside = {name: (int(rng.integers(1, 9)), int(rng.integers(0, 5))) for name in flavors if rng.random() < 0.5}
    for one in nodes.values():
        for kind in one.kinds if one.name not in hidden else ():
            kind.absent = {flavor: int(rng.integers(0, count + 1)) for flavor, count in kind.runs.items()}
    return Drawn(flavors, nodes, hidden, outside)


def lenders(seed: int, number: int = 12) -> Drawn:
    """A cohort of queues that each keep a part of their quotas for themselves, and may not be able to use it."""
    rng, nodes = np.random.default_rng(seed), {"root": Node("root", None, 1, {})}
    for k in range(number):
        cpus, gpus = int(rng.integers(4, 30)), int(rng.integers(0, 6))
        of_cpu = Quota(cpus, None, int(rng.integers(0, cpus // 2 + 1)))
        of_gpu = Quota(gpus, None, int(rng.integers(0, gpus + 1)) if rng.random() < 0.5 else None)
        queue = Node(
            f"q{k}", "root", int(rng.integers(1, 4)), {("f", "cpu"): of_cpu, ("f", GPU): of_gpu}, is_queue=True
        )
        for _ in range(rng.integers(1, 3)):
            kind = Kind(int(rng.integers(1, 6)), int(rng.integers(0, 3)), None, int(rng.integers(1, 12)))
            queue.kinds.append(kind)
        nodes[queue.name] = queue
    cpus, gpus = (sum(q.quotas["f", r].nominal for q in nodes.values() if q.is_queue) for r in RESOURCES)
    return Drawn({"f": (1, cpus, max(gpus, 1))}, nodes, set())


# -- as kubectl prints it ---------------------------------------------------------------------------------------


def objects(cluster: Drawn) -> list[dict[str, Any]]:
    """The objects of the cluster."""
    out = []
    for flavor, (servers, cpus, gpus) in cluster.flavors.items():
        for k in range(servers):
            more = cluster.outside.get(flavor, (0, 0)) if k == 0 else (0, 0)
            has = {"cpu": str(cpus + more[0]), GPU: str(gpus + more[1])}
            metadata = {"name": f"{flavor}-{k}", "labels": {"kind": flavor}}
            out.append({"kind": "Node", "metadata": metadata, "status": {"allocatable": has}})
        spec: dict[str, Any] = {"nodeLabels": {"kind": flavor}}
        out.append(_kueue("ResourceFlavor", {"name": flavor}, spec))
        if flavor in cluster.outside:
            requests = dict(zip(RESOURCES, map(str, cluster.outside[flavor]), strict=True))
            of_pod = {"containers": [{"resources": {"requests": requests}}], "nodeName": f"{flavor}-0"}
            metadata = {"namespace": "of-q0", "name": f"beside-{flavor}"}
            out.append({"kind": "Pod", "metadata": metadata, "spec": of_pod, "status": {"phase": "Running"}})
    for one in cluster.nodes.values():
        spec = {"resourceGroups": _groups(one), "fairSharing": {"weight": str(one.weight)}}
        if one.parent is not None:
            spec["cohortName" if one.is_queue else "parentName"] = one.parent
        spec |= {"namespaceSelector": {}} if one.is_queue else {}
        out.append(_kueue("ClusterQueue" if one.is_queue else "Cohort", {"name": one.name}, spec))
        if one.is_queue:
            local = {"namespace": f"of-{one.name}", "name": "main"}
            out.append(_kueue("LocalQueue", local, {"clusterQueue": one.name}))
            out += _jobs(one, cluster)
    return out


def _kueue(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def _groups(one: Node) -> list[dict[str, Any]]:
    flavors = list(dict.fromkeys(flavor for flavor, _ in one.quotas))
    listed = []
    for flavor in flavors:
        resources = []
        for resource in RESOURCES:
            quota = one.quotas[flavor, resource]
            limits = {"borrowingLimit": quota.borrowing, "lendingLimit": quota.lending}
            given = {name: str(value) for name, value in limits.items() if value is not None}
            resources.append({"name": resource, "nominalQuota": str(quota.nominal), **given})
        listed.append({"name": flavor, "resources": resources})
    return [{"coveredResources": list(RESOURCES), "flavors": listed}] if listed else []


def _jobs(queue: Node, cluster: Drawn) -> list[dict[str, Any]]:
    """Workloads that wait, and admitted ones with their pods, to which Kueue has added the labels of their flavor."""
    out: list[dict[str, Any]] = []
    space = f"of-{queue.name}"
    for k, kind in enumerate(queue.kinds):
        asked = {} if kind.flavor is None else {"nodeSelector": {"kind": kind.flavor}}
        spec = {"containers": [{"resources": {"requests": {"cpu": str(kind.cpu), GPU: str(kind.gpus)}}}], **asked}

        def workload(name: str, count: int, **status: Any) -> dict[str, Any]:
            sets = [{"name": "main", "count": count, "template": {"spec": spec}}]  # noqa: B023
            made = _kueue("Workload", {"namespace": space, "name": name}, {"queueName": "main", "podSets": sets})
            return made | {"status": status}

        out.append(workload(f"waits-{k}", kind.waits))
        for flavor, count in kind.runs.items():
            name = f"runs-{k}-{flavor}"
            if queue.name not in cluster.hidden:
                held = {"name": "main", "flavors": dict.fromkeys(RESOURCES, flavor)}
                admission = {"clusterQueue": queue.name, "podSetAssignments": [held]}
                out.append(workload(name, count, admission=admission))
            for p in range(count - kind.absent.get(flavor, 0)):
                metadata = {
                    "namespace": space,
                    "name": f"{name}-{p}",
                    "labels": {"kueue.x-k8s.io/queue-name": "main"},
                    "annotations": {"kueue.x-k8s.io/workload": name},
                }
                pod = {**spec, "nodeSelector": {"kind": flavor}, "nodeName": f"{flavor}-0"}
                out.append({"kind": "Pod", "metadata": metadata, "spec": pod, "status": {"phase": "Running"}})
    return out


# -- the programs -----------------------------------------------------------------------------------------------


def nearly(amount: float) -> float:
    """A lower bound that what was found to be an amount meets in spite of rounding."""
    return amount * (1 - 1e-10) - 1e-12


class Program:
    """Rows over named variables, all at least 0."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, row: Mapping[Any, float], right: float) -> None:
        """Add ``row <= right``."""
        if row:
            self.rows.append((dict(row), right))

    def best(self, gain: Mapping[Any, float], more: Iterable[Row] = ()) -> tuple[float, dict[Any, float]]:
        """The largest gain, and the variables at it."""
        rows = [*self.rows, *more]
        place: dict[Any, int] = {}
        for row in [gain, *(row for row, _ in rows)]:
            for name in row:
                place.setdefault(name, len(place))
        cost, table = np.zeros(len(place)), np.zeros((len(rows), len(place)))
        for name, value in gain.items():
            cost[place[name]] -= value
        for k, (row, _) in enumerate(rows):
            for name, value in row.items():
                table[k, place[name]] += value
        right = np.array([bound for _, bound in rows])
        free = np.zeros(len(place)), np.full(len(place), np.inf)
        tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        for slack in (0.0, 1e-10, 1e-9, 1e-8, 1e-7):  # where rounding leaves nothing
            most = right + slack * np.maximum(1, np.abs(right))
            if found := minimise(cost, table, np.full(len(rows), -np.inf), most, free, **tight):
                break
        assert found is not None
        return -found.value, {name: float(found.point[k]) for name, k in place.items()}


Numbers = Mapping[Any, tuple[Mapping[Any, float], float, float]]  # by name: a row, a base, and how fast it rises


def risen(program: Program, numbers: Numbers) -> dict[Any, float]:
    """The levels of numbers that rise together from their bases, each until nothing can raise it."""
    levels: dict[Any, float] = {}

    def kept(level: float, but: Any = None) -> list[Row]:
        out = []
        for name, (row, base, speed) in numbers.items():
            at = levels.get(name, level)
            if name != but:
                out.append(({k: -v for k, v in row.items()}, -nearly(base + at * speed)))
        return out

    while len(levels) < len(numbers):
        rising = [name for name in numbers if name not in levels]
        rows = kept(0.0)
        for name in rising:
            row, base, speed = numbers[name]
            rows.append(({k: -v for k, v in row.items()} | {"level": speed}, -nearly(base)))
        level = program.best({"level": 1.0}, rows)[0]
        stopped = []
        for name in rising:
            row, base, speed = numbers[name]
            most = program.best(row, kept(level, but=name))[0]
            if most <= base + level * speed + 1e-7 * max(abs(base) + level * speed, 1e-2):  # HiGHS leaves 1e-10
                stopped.append(name)
        assert stopped, "all can rise above the level to which all can rise"
        levels |= dict.fromkeys(stopped, level)
    return levels


def _where(queue: Node, kind: Kind, cluster: Drawn) -> list[str]:
    """The flavors on which pods may run."""
    with_quota = [f for f in cluster.flavors if (f, "cpu") in queue.quotas]
    return [f for f in with_quota if kind.flavor in (None, f)]


class Answer:
    """The programs of a cluster: ``base`` are the tasks owed to kinds, ``floors`` the units owed to cohorts.

    ``alone`` are the rows of servers, limits and cohorts without what is owed. ``left_to_others`` is what queues beside
    a cohort may use of a flavor, as the cohort needs what it owns there.
    """

    def __init__(self, cluster: Drawn) -> None:
        self.cluster = cluster
        self.kinds = [(q, k, kind) for q in cluster.queues for k, kind in enumerate(q.kinds)]
        self.program, self.takes = Program(), dict[tuple[str, Cell], dict[Any, float]]()
        for flavor, (servers, cpus, gpus) in cluster.flavors.items():
            for resource, there in (("cpu", servers * cpus), (GPU, servers * gpus)):
                self.program.add(self.use([q.name for q in cluster.queues], flavor, resource), there)
                for one in cluster.nodes.values():
                    if one.parent is None:
                        self._tree((flavor, resource), one.name)
        for q, k, kind in self.kinds:
            self.program.add(self.tasks(q.name, k), kind.count)
        self.alone = Program()
        self.alone.rows = [*self.program.rows]
        everyone = [q.name for q in cluster.queues]
        self.used = [f for f in cluster.flavors if self.program.best(self.use(everyone, f, "cpu"))[0] > 1e-7]
        self.share = {
            (q.name, k): max(kind.takes(r) / cluster.total(r, self.used) for r in RESOURCES)
            for q, k, kind in self.kinds
        }
        self.base = self._owed_to_queues()
        for name, tasks in self.base.items():
            self.program.add({v: -1.0 for v in self.tasks(*name)}, -nearly(tasks))
        self.worth: dict[str, float] = {}
        self.floors = list[tuple[list[str], str, float]]()
        self.left_to_others = list[tuple[list[str], Cell, float]]()
        self._owed_to_cohorts()

    def tasks(self, queue: str, k: int) -> dict[Any, float]:
        """The tasks of a kind as a row."""
        one = self.cluster.nodes[queue]
        return {(queue, k, f): 1.0 for f in _where(one, one.kinds[k], self.cluster)}

    def use(self, queues: Sequence[str], flavor: str, resource: str) -> dict[Any, float]:
        """What queues use of a resource of a flavor as a row."""
        return {
            (q.name, k, flavor): float(kind.takes(resource))
            for q, k, kind in self.kinds
            if q.name in queues and flavor in _where(q, kind, self.cluster)
        }

    def shares(self, queues: Sequence[str]) -> dict[Any, float]:
        """The dominant share of queues as a row."""
        return {v: self.share[q.name, k] for q, k, _ in self.kinds if q.name in queues for v in self.tasks(q.name, k)}

    def inside(self, name: str) -> list[str]:
        """The queues in a queue or a cohort."""
        one = self.cluster.nodes[name]
        return [name] if one.is_queue else [q for child in self.cluster.below(name) for q in self.inside(child.name)]

    def subtree(self, name: str, cell: Cell) -> float:
        """The quota of a cohort with what is lent to it."""
        one = self.cluster.nodes[name]
        own = one.quotas[cell].nominal if cell in one.quotas else 0
        return own + sum(self.subtree(c.name, cell) - self.guaranteed(c, cell) for c in self.cluster.below(name))

    def guaranteed(self, one: Node, cell: Cell) -> float:
        """What a child keeps from its cohort."""
        quota = one.quotas.get(cell)
        return 0.0 if quota is None or quota.lending is None else max(0.0, self.subtree(one.name, cell) - quota.lending)

    def _lends(self, cell: Cell, name: str) -> bool:
        """Whether some lending limit is in the tree of a cohort."""
        nodes, root = self.cluster.nodes.values(), self._root(name)
        mine = [one for one in nodes if self._root(one.name) == root and cell in one.quotas]
        return any(one.quotas[cell].lending is not None for one in mine)

    def _root(self, name: str) -> str:
        """The outermost cohort above a queue or a cohort, or itself."""
        above = self.cluster.nodes[name].parent
        return name if above is None else self._root(above)

    def _tree(self, cell: Cell, name: str) -> None:
        """What counts against a cohort is what its children take of it: what they use, or beyond what they keep."""
        one = self.cluster.nodes[name]
        for child in self.cluster.below(name):
            self._tree(cell, child.name)
        usage = self.use([name], *cell) if one.is_queue else self.taken(name, cell)
        quota, keeps = one.quotas.get(cell), self.guaranteed(one, cell)
        if one.parent is None:
            self.program.add(usage, self.subtree(name, cell))
        elif quota is not None and quota.borrowing is not None:
            self.program.add(usage, self.subtree(name, cell) + quota.borrowing)
        if keeps:
            self.program.add(usage | {("takes", name, *cell): -1.0}, keeps)
        self.takes[name, cell] = {("takes", name, *cell): 1.0} if keeps else usage

    def taken(self, cohort: str, cell: Cell) -> dict[Any, float]:
        """What counts against a cohort, as a row."""
        return {v: x for child in self.cluster.below(cohort) for v, x in self.takes[child.name, cell].items()}

    def _owed_to_queues(self) -> dict[tuple[str, int], float]:
        """The tasks of each queue that rise together within its nominal quotas."""
        out = {}
        for q in self.cluster.queues:
            program = Program()
            for cell, quota in q.quotas.items():
                program.add(self.use([q.name], *cell), quota.nominal)
            for k, kind in enumerate(q.kinds):
                program.add(self.tasks(q.name, k), kind.count)
            mine = {
                k: (self.tasks(q.name, k), 0.0, 1.0 / self.share[q.name, k])
                for k in range(len(q.kinds))
                if self.tasks(q.name, k)
            }
            for k, level in risen(program, mine).items():
                out[q.name, k] = level / self.share[q.name, k]
        return out

    def _owed_to_cohorts(self) -> None:
        """The units that tasks of a cohort within a cohort use as they rise on within its quotas, and their worth."""
        at = dict(self.base)
        found = [one for one in self.cluster.nodes.values() if not one.is_queue and one.parent is not None]
        for one in found:
            queues = [q for q in self.inside(one.name) if self.cluster.nodes[q].kinds]
            if not queues:
                continue
            program = Program()
            program.rows = list(self.program.rows)
            for cell in {c for q in queues for c in self.cluster.nodes[q].quotas}:
                program.add(self.taken(one.name, cell), self.subtree(one.name, cell))
            fixed = {name: (self.tasks(*name), x, 0.0) for name, x in at.items() if name[0] not in queues}
            rise = {
                name: (self.tasks(*name), x, self.cluster.nodes[name[0]].weight / self.share[name])
                for name, x in at.items()
                if name[0] in queues
            }
            for row, x, _ in fixed.values():
                program.add({v: -1.0 for v in row}, -nearly(x))
            at |= {name: at[name] + level * rise[name][2] for name, level in risen(program, rise).items()}
            floor = {
                r: sum(at[q, k] * self.cluster.nodes[q].kinds[k].takes(r) for q, k in at if q in queues)
                for r in RESOURCES
            }
            alone = Program()
            for q in queues:
                for k, kind in enumerate(self.cluster.nodes[q].kinds):
                    alone.add(self.tasks(q, k), kind.count)
            within = program
            for name, x in at.items():
                within.add({v: -1.0 for v in self.tasks(*name)}, -nearly(x) + 1e-9)
            for cell in {c for q in queues for c in self.cluster.nodes[q].quotas}:
                if self.subtree(one.name, cell) and not self._lends(cell, one.name):
                    row = self.use(queues, *cell)
                    least = -within.best({v: -x for v, x in row.items()})[0] if row else 0.0
                    if least > 1e-6:  # what they need of a flavor at the least is left to them there
                        beside = [q for q in self.inside(self._root(one.name)) if q not in self.inside(one.name)]
                        there = self.subtree(self._root(one.name), cell)
                        self.left_to_others.append((beside, cell, there - least))
                        self.program.add(self.use(beside, *cell), there - least + 1e-7)
            self.floors += [(queues, r, units) for r, units in floor.items() if units > 0]
            for r, units in floor.items():
                row = {}
                for f in self.cluster.flavors:
                    row |= self.use(queues, f, r)
                for program in (alone, self.program):
                    program.add({v: -x for v, x in row.items()}, -nearly(units))
            self.worth[one.name] = -alone.best({v: -x for v, x in self.shares(queues).items()})[0]

    def of_queues(self) -> dict[str, float]:
        """The dominant share of each queue: surpluses are level from the outermost branches in."""
        below = {name: [c.name for c in self.cluster.below(name)] for name in self.cluster.nodes}
        trees = [one for one in self.cluster.nodes.values() if one.parent is None]  # share nothing
        below[""] = [one.name for one in trees if one.is_queue]
        out: dict[str, float] = {}
        level = ["", *(one.name for one in trees if not one.is_queue)]
        while level:
            numbers, inner = {}, []
            for above in level:
                for name in below[above]:
                    queues = [q for q in self.inside(name) if self.cluster.nodes[q].kinds]
                    row = self.shares(queues)
                    if row and self.program.best(row)[0] < 1e-9:  # Kueue can never admit their pods
                        continue
                    if not row:
                        continue
                    base = sum(self.base[q, k] * self.share[q, k] for q, k in self.base if q in queues)
                    base = max(base, self.worth.get(name, 0.0))
                    numbers[name] = row, base, float(self.cluster.nodes[name].weight)
                    inner += [] if self.cluster.nodes[name].is_queue else [name]
            if len(numbers) == 1 and inner:  # compared with none
                numbers = {}
            for name, at in risen(self.program, numbers).items():
                row, base, weight = numbers[name]
                held = base + at * weight
                self.program.add({v: -x for v, x in row.items()}, -nearly(held))
                if self.cluster.nodes[name].is_queue:
                    out[name] = held
            level = inner
        return out
