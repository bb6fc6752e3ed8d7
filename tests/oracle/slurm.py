"""Slurm's formulas by recursion, from its manual, in fractions; and a slow replay by them.

The tree is a dict of nodes: name -> (parent, shares, usage), shares None where those of the parent count; usage of a
node is what it used itself. A replay recomputes usage from all that ran, with 40 digits.
"""

from __future__ import annotations

import random
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import cache
from typing import Any

import fairopt as fo
from oracle.simulator import Cluster, Started

getcontext().prec = 40
Tree = dict[str, tuple[str, Any, Any]]
INFINITE = "inf"


def children(tree: Tree, name: str) -> list[str]:
    """Those who compete below a node: children of accounts with the shares of their parent in place of these."""
    out = list[str]()
    for child, (parent, shares, _) in tree.items():
        if parent == name:
            inner = any(p == child for p, _, _ in tree.values())
            out += children(tree, child) if shares is None and inner else [child]
    return out


def used(tree: Tree, name: str) -> Any:
    return tree[name][2] + sum(used(tree, child) for child, (parent, _, _) in tree.items() if parent == name)


def used_below(tree: Tree, name: str) -> Any:
    """What all that is below a node used, with it; "" is the root."""
    return used(tree, name) if name else sum(used(tree, child) for child, (p, _, _) in tree.items() if not p)


def level(tree: Tree, name: str, above: str) -> Any:
    """Level FS: shares over usage, each as a part of those of siblings; ``INFINITE`` or a number."""
    shares = tree[name][1]
    if shares is None:
        return INFINITE
    if not shares:
        return 0
    mine, whole = used(tree, name), used_below(tree, above)
    return Fraction(shares, sum(tree[k][1] or 0 for k in children(tree, above))) * whole / mine if mine else INFINITE


def fair_tree(tree: Tree) -> dict[str, Fraction]:
    """The factor of each user: ranks of a walk through the tree, the largest level first, ties merged."""
    leaves = [name for name in tree if not children(tree, name) and not any(p == name for p, _, _ in tree.values())]
    out, state = dict[str, Fraction](), {"rank": len(leaves), "left": len(leaves)}

    def walk(group: list[tuple[str, str]], tied: bool) -> None:
        levels = {name: level(tree, name, above) for name, above in group}
        values = sorted({v for v in levels.values() if v != INFINITE}, reverse=True)
        for value in ([INFINITE] if INFINITE in levels.values() else []) + values:
            users = [name for name, _ in group if levels[name] == value and name in leaves]
            for name in users:
                if not tied:
                    state["rank"] = state["left"]
                out[name] = Fraction(state["rank"], len(leaves))
                state["left"] -= 1
                tied = True
            below = [
                (k, name)
                for name, _ in group
                if levels[name] == value and name not in leaves
                for k in children(tree, name)
            ]
            if below:
                walk(below, tied)
            tied = False

    walk([(name, "") for name in children(tree, "")], False)
    return out


def classic(tree: Tree) -> dict[str, tuple[Fraction, Fraction]]:
    """The effective usage and the normalised shares of each node."""
    out: dict[str, tuple[Any, Any]] = {}
    total = used_below(tree, "")

    def walk(above: str) -> None:
        below = children(tree, above)
        whole = sum(tree[name][1] or 0 for name in below)
        for name in below:
            shares, norm = tree[name][1], out[above][1] if above else Fraction(1)
            if shares is None:
                out[name] = out[above] if above else (Fraction(1), Fraction(1))
            else:
                part = Fraction(shares, whole) if whole else Fraction(0)
                usage = Fraction(used(tree, name)) / Fraction(total) if total else Fraction(0)
                if above:
                    usage += (out[above][0] - usage) * (part if whole else 1)
                out[name] = usage, part * norm
            walk(name)

    walk("")
    return out


@cache
def kept(ago: Decimal, half_life: float) -> Decimal:
    """The part of usage that counts after a time."""
    return (-(Decimal(2).ln()) * ago / Decimal(half_life)).exp()


def classic_factor(usage: Fraction, shares: Fraction, damping: float = 1.0) -> float:
    return 2.0 ** -float(usage / shares / Fraction(damping)) if shares else 0.0


def drawn_tree(seed: int, usage: bool = True) -> Tree:
    """A random tree of accounts with users, small shares and usage, so that levels tie."""
    r, tree = random.Random(seed), Tree()
    amounts = [0, 0, 1, 2, 3, 6, 12] if usage else [0]
    accounts = [f"a{k}" for k in range(r.randint(1, 6))]
    for k, name in enumerate(accounts):
        parent = r.choice(["", *accounts[:k]])
        tree[name] = parent, r.choice([0, 1, 1, 2, 3, None]), r.choice([0, 0, 1]) if usage else 0
    for account in accounts:
        has_others = any(parent == account for parent, _, _ in tree.values())
        for k in range(r.randint(0 if has_others else 1, 3)):
            tree[f"{account}/u{k}"] = account, r.choice([0, 1, 1, 1, 4, None]), r.choice(amounts)
    return tree


def accounts_of(tree: Tree) -> list[fo.online.Account]:
    """The same for the package, whose usage has that of all below in it."""
    return [
        fo.online.Account(name, parent, shares, float(used(tree, name))) for name, (parent, shares, _) in tree.items()
    ]


# -- a replay -----------------------------------------------------------------------------------------------------


class SlurmCluster(Cluster):
    """EASY in the order of priorities, recomputed from all that ran whenever somebody asks."""

    def __init__(
        self, capacities: list[list[Any]], jobs: list[fo.Job], tree: Tree, rules: fo.online.SlurmRules
    ) -> None:
        super().__init__(capacities, jobs, {})
        self.tree, self.rules = tree, rules
        self.known: tuple[Any, dict[str, Any]] = (None, {})

    def tree_now(self) -> Tree:
        half, now = self.rules.priority.half_life, Decimal(self.now.numerator) / self.now.denominator

        def of(name: str, past: Any) -> Any:
            total = Decimal(past) * (kept(now - Decimal(int(self.jobs[self.order[0]].arrival)), half) if half else 1)
            for task in self.started:
                job = self.jobs[task.job]
                if job.user == name:
                    start, end = (Decimal(x.numerator) / x.denominator for x in (task.start, task.start + job.duration))
                    end, bill = min(end, now), Decimal(int(job.demands[0]))
                    lasted = (
                        (kept(now - end, half) - kept(now - start, half)) * Decimal(half) / Decimal(2).ln()
                        if half
                        else end - start
                    )
                    total += bill * lasted
            return rounded(total)

        return {name: (parent, shares, of(name, past)) for name, (parent, shares, past) in self.tree.items()}

    def factors(self) -> dict[str, Any]:
        """The factors of users, which do not change within a moment."""
        if self.known[0] != self.now:
            tree, priority = self.tree_now(), self.rules.priority
            if priority.formula == "fair-tree":
                found: dict[str, Any] = {name: Fraction(rank) for name, rank in fair_tree(tree).items()}
            else:
                found = {name: classic_factor(*one, priority.damping) for name, one in classic(tree).items()}
            self.known = self.now, found
        return self.known[1]

    def waiting(self) -> list[int]:
        factors, weights, jobs = self.factors(), self.rules.priority, self.jobs
        cores, best = (
            sum(row[0] for row in self.capacities),
            max((p.factor for p in self.rules.partitions.values()), default=1),
        )

        def priority(k: int) -> float:
            job, size = jobs[k], jobs[k].tasks if jobs[k].gang else 1
            z = (Fraction(size, len(self.capacities)) + size * Fraction(job.demands[0]) / cores) / 2
            z = min(Fraction(1), z)
            age = min(Fraction(1), (self.now - job.arrival) / Fraction(weights.max_age))
            partition = self.rules.partitions[job.labels["partition"]]
            terms = weights.fairshare * Fraction(factors[job.user]) + Fraction(weights.age) * age
            terms += Fraction(weights.size) * z + Fraction(weights.partition) * Fraction(partition.factor) / Fraction(
                best
            )
            return round(float(terms), 9)

        def place(k: int) -> Any:
            return -self.rules.partitions[jobs[k].labels["partition"]].tier, -priority(k), self.order.index(k)

        return sorted((k for k in super().waiting() if not self.held(k)), key=place)

    def held(self, k: int) -> bool:
        """Whether a limit holds a job back."""
        for limit in self.rules.limits:
            if self.counts(limit, k):
                running = [t.job for t in self.running() if self.counts(limit, t.job)]
                if limit.by_user:
                    running = [j for j in running if self.jobs[j].user == self.jobs[k].user]
                size = self.jobs[k].tasks if self.jobs[k].gang else 1
                cores = sum(self.demands[j][0] for j in running) + size * self.demands[k][0]
                gangs = {j for j in running if self.jobs[j].gang}
                number = len(gangs) + sum(not self.jobs[j].gang for j in running) + 1
                if cores > limit.most.get("cpu", cores) or number > limit.most.get("jobs", number):
                    return True
        return False

    def counts(self, limit: fo.online.RunningLimit, k: int) -> bool:
        name, above = self.jobs[k].user, {f"partition={self.jobs[k].labels['partition']}"}
        while name:
            above.add(name)
            name = self.tree[name][0]
        return limit.of in above


def rounded(value: Decimal) -> Fraction:
    """To 12 digits, so that what is equal ties."""
    return Fraction(+value.normalize().quantize(Decimal(1).scaleb(value.adjusted() - 12))) if value else Fraction(0)


def replayed(cluster: SlurmCluster) -> list[Started]:
    """All tasks in order of their start."""
    times = {Fraction(job.arrival) for job in cluster.jobs}
    while times:
        cluster.now = min(times)
        times.remove(cluster.now)
        while (found := cluster.easy()) is not None:
            for s in found[1]:
                cluster.started.append(Started(cluster.now, found[0], s))
                times.add(cluster.now + Fraction(cluster.jobs[found[0]].duration))
    return cluster.started


def drawn_replay(seed: int, n_jobs: int = 30) -> tuple[list[list[int]], list[fo.Job], Tree, fo.online.SlurmRules]:
    """Servers with cores and memory, 30 jobs of users in a tree, and rules."""
    r, o = random.Random(f"replay {seed}"), fo.online
    tree = drawn_tree(seed, usage=r.random() < 0.5)
    users = [name for name in tree if "/" in name]
    capacities = [[r.choice([2, 4, 6]), r.choice([4, 8])] for _ in range(r.choice([1, 1, 2, 3]))]
    jobs = []
    for _ in range(n_jobs):
        user, gang, home = r.choice(users), r.random() < 0.3, r.randrange(len(capacities))
        demands = [r.choice([1, 1, 2, capacities[home][0]]), r.choice([0, 1, 2])]
        demands[0] = min(demands[0], capacities[home][0])
        mask = [s == home or r.random() < 0.6 for s in range(len(capacities))] if r.random() < 0.3 else None
        places = [s for s in range(len(capacities)) if mask is None or mask[s]]
        fit = sum(min(capacities[s][i] // d for i, d in enumerate(demands) if d) for s in places)
        duration = r.randint(1, 9)
        limit = r.choice([duration, duration + r.choice([1, 4, 9]), float("inf")])
        labels = {"partition": r.choice(["p", "q"])}
        jobs.append(
            fo.Job(
                user, demands, duration, tasks=r.randint(1, min(fit, 4)) if gang else 1, arrival=r.randint(0, 12),
                eligible=mask, gang=gang, limit=limit, team=tree[user][0], labels=labels,
            )
        )  # fmt: skip
    priority = o.Priority(
        fairshare=1000, age=r.choice([0, 300]), size=r.choice([0, 200]), partition=r.choice([0, 100]),
        max_age=r.choice([5, 50]), half_life=r.choice([None, 4.0, 40.0]), billing={"cpu": 1},
        formula=r.choice(["fair-tree", "fair-tree", "classic"]), damping=r.choice([1.0, 3.0]),
    )  # fmt: skip
    partitions = {"p": o.Partition(factor=r.choice([1, 2]), tier=r.choice([1, 1, 2])), "q": o.Partition()}
    limits = []
    if r.random() < 0.4:
        whom = r.choice([r.choice([name for name in tree]), "partition=p"])
        most = r.choice([{"cpu": max(row[0] for row in capacities)}, {"jobs": 2}])
        limits.append(o.RunningLimit(whom, most, by_user=r.random() < 0.5))
    return capacities, jobs, tree, o.SlurmRules(accounts_of(tree), priority, partitions, limits=limits)
