"""Slurm clusters with types of GPUs, slices, partitions and requests without a type, beside linear programs.

Each cluster is written as its commands print it, read by ``fo.read`` and shared by the default policy; accounts with
several kinds of jobs by leximin of their shares. The programs (`slurm_cluster` in `clusters/tests`) start from what was
drawn. Quotas are written as limits of Slurm and read back: of no type more than there is.

Run: python benchmarks/slurm.py [--clusters 100]
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import fairopt_clusters as fc
import numpy as np
from common import arguments, show
from fairopt_clusters.quotas.accounts import read_sacctmgr
from slurm_cluster import Drawn, documents, drawn, shares_of_accounts

import fairopt as fo
from fairopt.cli.commands import named

NEAR = 1e-6


def read(cluster: Drawn) -> fo.Instance:
    """The cluster as a folder of output of Slurm's commands gives it, with a user for each request."""
    with tempfile.TemporaryDirectory() as folder:
        for name, document in documents(cluster).items():
            (Path(folder) / f"{name}.json").write_text(json.dumps(document))
        return fo.read(folder, tasks="shapes")


def shared(instance: fo.Instance, several: bool) -> fo.Allocation:
    """The answer of the default policy, or the leximin of accounts' shares if these have several kinds of jobs."""
    by = instance.teams.outermost_first[0]
    return named(f"Leximin(OfTeam(DominantShare(), by={by!r}))" if several else None)(instance).allocate(instance)


def shares(answer: fo.Allocation) -> dict[str, float]:
    """The sums of dominant shares of accounts."""
    instance = answer.instance
    of_user = answer.tasks * fo.DominantShare().per_task(instance)
    teams = np.array(instance.teams["team"])
    return {team: float(of_user[teams == team].sum()) for team in instance.teams["team"]}


def apart(answer: fo.Allocation, cluster: Drawn) -> float:
    """The largest difference of an account's share from the program's, relative to the largest share."""
    found, right = shares(answer), shares_of_accounts(cluster)
    largest = max(*right.values(), 1e-12)
    return max(abs(found.get(account, 0.0) - share) / largest for account, share in right.items())


def over_limits(answer: fo.Allocation, cluster: Drawn) -> list[str]:
    """The types of GPUs of which the limits of accounts add up to more than there is."""
    rows = read_sacctmgr(fc.quotas(answer, "slurm", caps=True).text(), "limits")
    there = {
        kind: sum(one.gpus.get(kind, 0) for one in cluster.servers) for one in cluster.servers for kind in one.gpus
    }
    there[""] = sum(n for one in cluster.servers for n in one.gpus.values())
    given = {kind: sum(row.amount for row in rows if row.resource == "gpu" and row.flavor == kind) for kind in there}
    return [kind for kind in there if given[kind] > there[kind]]


def main() -> None:
    options = arguments(__doc__, clusters=100)
    rows = []
    for several in (False, True):
        begun, worst, wrong, over = time.perf_counter(), 0.0, [], []
        for seed in range(options.clusters):
            cluster = drawn(seed, 3 if several else 1)
            answer = shared(read(cluster), several)
            distance = apart(answer, cluster)
            worst = max(worst, distance)
            wrong += [seed] if distance > NEAR else []
            over += [seed] if over_limits(answer, cluster) else []
        row = {"jobs of an account": "up to 3 kinds" if several else "1 kind", "clusters": options.clusters}
        row |= {"largest distance": worst, "differ": len(wrong), "limits above what there is": len(over)}
        rows.append(row | {"seconds": round(time.perf_counter() - begun)})
        if wrong or over:
            print(f"differ: {wrong}; limits above what there is: {over}")
    show("Slurm clusters beside linear programs", rows, "slurm")


if __name__ == "__main__":
    main()
