"""Slurm clusters from a seed as their commands print them, and their fair answers by linear programs.

The programs are written from the cluster as drawn, with a variable for each kind of job, server and type of GPU. They
share nothing with the reader, which sees the JSON only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Float = NDArray[np.float64]
WHOLE, SLICES = ("a100", "h100", "t4"), ("1g.10gb", "3g.40gb")
_SAME = 1e-9


@dataclass
class Server:
    """A node: cores, GiB of memory, GPUs by type, its partition."""

    name: str
    cpus: int
    memory: int
    gpus: dict[str, int]
    partition: str


@dataclass
class Kind:
    """Equal tasks of an account: ``gpus`` each of a type, ``""`` for any."""

    account: str
    cpus: int
    memory: int
    gpus: int
    type: str
    partition: str
    waiting: int
    running: list[str] = field(default_factory=list)  # names of servers
    servers: int = 1  # of a waiting job


@dataclass
class Drawn:
    """A cluster: servers, kinds of jobs, and fairshares: of accounts or, with ``parents``, of one parent above each."""

    servers: list[Server]
    kinds: list[Kind]
    shares: dict[str, int]
    parents: bool = False


def drawn(seed: int, kinds: int = 1) -> Drawn:
    """One to three partitions with mixed servers, two to five accounts with up to ``kinds`` kinds of jobs each."""
    rng = np.random.default_rng(seed)
    servers = [Server("plain", 64, 256, {"a100": 4}, "p0")]
    partitions = [f"p{k}" for k in range(rng.integers(1, 4))]
    for s in range(rng.integers(1, 5)):
        gpus = {str(kind): int(rng.integers(1, 9)) for kind in rng.choice(WHOLE, rng.integers(0, 3), replace=False)}
        if rng.random() < 0.4:
            gpus |= {str(kind): 7 for kind in rng.choice(SLICES, rng.integers(1, 3), replace=False)}
        cpus, memory = int(rng.choice([16, 32, 64])), int(rng.choice([64, 128, 256]))
        servers.append(Server(f"s{s}", cpus, memory, gpus, str(rng.choice(partitions))))
    made = []
    accounts = [f"acc{k}" for k in range(rng.integers(2, 6))]
    for account in accounts:
        for _ in range(rng.integers(1, kinds + 1)):
            place = servers[rng.integers(len(servers))]
            there = sorted({kind for one in servers if one.partition == place.partition for kind in one.gpus})
            gpus = int(rng.integers(1, 3)) if there and rng.random() < 0.8 else 0
            of_type = str(rng.choice(there)) if gpus and rng.random() < 0.5 else ""
            cpus, memory = int(rng.integers(1, 9)), int(rng.integers(1, 33))
            one = Kind(account, cpus, memory, gpus, of_type, place.partition, int(rng.integers(1, 25)))
            if not any((one.account, one.gpus, one.type, one.partition) == _key(other) for other in made):
                made.append(one)
    left = {server.name: [server.cpus, server.memory, dict(server.gpus)] for server in servers}
    for kind in made:
        for server in servers:
            if rng.random() < 0.4 and _starts(kind, server, left[server.name]):
                kind.running.append(server.name)
        fitting = sum(may_use(kind, server) for server in servers)
        if fitting > 1 and kind.waiting % 2 == 0 and rng.random() < 0.5:
            kind.servers = 2
    return Drawn(servers, made, {account: int(rng.integers(1, 4)) for account in accounts}, bool(rng.random() < 0.3))


def _key(kind: Kind) -> tuple[str, int, str, str]:
    return kind.account, kind.gpus, kind.type, kind.partition


def _starts(kind: Kind, server: Server, left: list[Any]) -> bool:
    """Whether a task starts on what is left of a server, which it then takes."""
    types = [one for one, n in left[2].items() if n >= kind.gpus and kind.type in ("", one)]
    if server.partition != kind.partition or left[0] < kind.cpus or left[1] < kind.memory or (kind.gpus and not types):
        return False
    left[0] -= kind.cpus
    left[1] -= kind.memory
    if kind.gpus:
        left[2][types[0]] -= kind.gpus
    return True


def documents(cluster: Drawn) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The output of ``scontrol show node``, ``squeue`` and ``sacctmgr show associations``, all with ``--json``."""
    nodes = [
        {
            "name": one.name,
            "cpus": one.cpus,
            "real_memory": 1024 * one.memory,
            "gres": ",".join(f"gpu:{kind}:{n}" for kind, n in one.gpus.items()),
            "state": ["MIXED"],
            "partitions": [one.partition],
        }
        for one in cluster.servers
    ]
    jobs: list[dict[str, Any]] = []
    for kind in cluster.kinds:
        gres = f",gres/gpu={{}}{'' if not kind.type else f',gres/gpu:{kind.type}={{}}'}" if kind.gpus else ""

        def job(servers: int, kind: Kind = kind, gres: str = gres, **fields: Any) -> None:
            n = servers
            request = f"cpu={n * kind.cpus},mem={n * kind.memory}G,node={n}" + gres.format(n * kind.gpus, n * kind.gpus)
            number = {"set": True, "infinite": False, "number": n}
            of = {"job_id": len(jobs) + 1, "account": kind.account, "partition": kind.partition, "node_count": number}
            jobs.append(of | {"tres_req_str": request} | fields)

        tasks = {"array_task_string": f"1-{kind.waiting // kind.servers}"}
        job(kind.servers, job_state=["PENDING"], **tasks)
        for name in kind.running:
            job(1, job_state=["RUNNING"], nodes=name)
    top = [f"above-{a}" if cluster.parents else a for a in cluster.shares]
    shares = zip(top, cluster.shares.values(), strict=True)
    accounts = [{"account": a, "parent_account": "root", "shares_raw": n} for a, n in shares]
    for k, (a, above) in enumerate(zip(cluster.shares, top, strict=True)):
        accounts += [{"account": a, "parent_account": above, "shares_raw": 1 + k}] if cluster.parents else []
    return {"nodes": {"nodes": nodes}, "jobs": {"jobs": jobs}, "associations": {"associations": accounts}}


# -- the programs ---------------------------------------------------------------------------------------------


def may_use(kind: Kind, server: Server) -> bool:
    """Whether tasks may run on a server."""
    types = server.gpus if kind.type == "" else {kind.type} & server.gpus.keys()
    return kind.partition == server.partition and (not kind.gpus or bool(types))


def share_of_task(kind: Kind, cluster: Drawn) -> float:
    """The dominant share of a task: of cores, of memory and of the devices that it may be given.

    These are all whole GPUs, whatever their type, or all slices of a type; for a request without a type that may be
    given several of these, all devices.
    """
    of_class = dict[str, int]()
    for server in cluster.servers:
        for name, n in server.gpus.items():
            of_class[_class(name)] = of_class.get(_class(name), 0) + n
    mine = {_class(name) for one in cluster.servers if may_use(kind, one) for name in one.gpus}
    mine = {_class(kind.type)} if kind.type else mine
    devices = of_class[mine.pop()] if len(mine) == 1 else sum(of_class.values())
    parts = [kind.cpus / sum(s.cpus for s in cluster.servers), kind.memory / sum(s.memory for s in cluster.servers)]
    return max(*parts, kind.gpus / devices if kind.gpus else 0.0)


def _class(name: str) -> str:
    return name if name in SLICES else ""


def shares_of_accounts(cluster: Drawn) -> dict[str, float]:
    """The sums of dominant shares of accounts, at their leximin per fairshare: level by level."""
    columns = [
        (k, s, name)
        for k, kind in enumerate(cluster.kinds)
        for s, server in enumerate(cluster.servers)
        if may_use(kind, server)
        for name in (server.gpus if kind.gpus else {"": 0})
        if not kind.gpus or kind.type in ("", name)
    ]  # tasks of a kind on a server with GPUs of one type
    rows, right = list[Float](), list[float]()

    def limit(coefficients: Iterable[float], most: float) -> None:
        rows.append(np.array([*coefficients], dtype=float))
        right.append(float(most))

    for s, server in enumerate(cluster.servers):
        limit((cluster.kinds[k].cpus * (on == s) for k, on, _ in columns), server.cpus)
        limit((cluster.kinds[k].memory * (on == s) for k, on, _ in columns), server.memory)
        for name, n in server.gpus.items():
            limit((cluster.kinds[k].gpus * (on == s and of == name) for k, on, of in columns), n)
    for k, kind in enumerate(cluster.kinds):
        limit((float(of == k) for of, _, _ in columns), kind.waiting + len(kind.running))
    accounts = sorted({kind.account for kind in cluster.kinds})
    forms = np.array(
        [
            [
                (cluster.kinds[k].account == a) * share_of_task(cluster.kinds[k], cluster) / cluster.shares[a]
                for k, _, _ in columns
            ]
            for a in accounts
        ]
    )
    levels: dict[int, float] = {}
    while len(levels) < len(accounts):
        rising = [a for a in range(len(accounts)) if a not in levels]
        level = _largest_level(forms, levels, rising, np.array(rows), np.array(right))
        floors = levels | {a: level for a in rising}
        stuck = [a for a in rising if _most(forms, floors, a, np.array(rows), np.array(right)) <= level + _SAME]
        levels |= dict.fromkeys(stuck or rising, level)
    return {account: levels[a] * cluster.shares[account] for a, account in enumerate(accounts)}


def _largest_level(forms: Float, levels: dict[int, float], rising: list[int], rows: Float, right: Float) -> float:
    """The largest level of the accounts that still rise."""
    n = forms.shape[1]
    at_least = [np.append(-forms[a], 0.0) for a in levels] + [np.append(-forms[a], 1.0) for a in rising]
    bounds = [-(level - _SAME / 100) for level in levels.values()] + [0.0] * len(rising)
    matrix = np.vstack([np.column_stack([rows, np.zeros(len(rows))]), *at_least])
    found = linprog(np.append(np.zeros(n), -1.0), matrix, np.append(right, bounds), method="highs")
    assert found.status == 0, found.message
    return -float(found.fun)


def _most(forms: Float, floors: dict[int, float], account: int, rows: Float, right: Float) -> float:
    """The most that one account can have while all others keep their levels."""
    others = [a for a in floors if a != account]
    matrix = np.vstack([rows, *(-forms[a] for a in others)])
    bounds = np.append(right, [-(floors[a] - _SAME / 100) for a in others])
    found = linprog(-forms[account], matrix, bounds, method="highs")
    assert found.status == 0, found.message
    return -float(found.fun)
