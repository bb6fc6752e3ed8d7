"""Twelve weeks of a cluster with Slurm: with its fairshares as they are, with those that are written, and with caps.

768 cores on 24 servers, and four accounts in two parents, of which one account is promised two fifths of the cores:
``bio/a``, ``bio/b`` (1 and 1 of 50 shares), ``eng/c``, ``eng/d`` (2 and 1 of 50). Which of them are busy is drawn anew
each week; jobs of 1 to 64 cores (gangs of up to two servers) arrive over the week, and are replayed by Slurm's rules,
with a half-life of a week and EASY backfilling. Fairshares are written each Monday by ``fc.quotas`` from what arrived
that day, applied, and read again; limits (``--caps``) too, of each week by itself. ``used`` is the part of what Slurm
alone uses within the weeks; ``promised`` that of what was promised or asked for, if less, that the account used.

Run: python benchmarks/slurm_weeks.py [--seeds 10]
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import fairopt_clusters as fc
import numpy as np
from common import arguments, show

import fairopt as fo

HOUR, WEEKS, SERVERS, CORES = 3600.0, 12, 24, 32
WEEK = 168 * HOUR
PARENTS = {"a": "bio", "b": "bio", "c": "eng", "d": "eng"}
SHARES = {"bio": 50, "eng": 50, "a": 1, "b": 1, "c": 2, "d": 1}
PROMISED = 0.4 * SERVERS * CORES  # of a
Limits = dict[str, float]


def drawn(seed: int) -> list[list[fo.Job]]:
    """The jobs of each week."""
    rng, out = np.random.default_rng(seed), list[list[fo.Job]]()
    for week in range(WEEKS):
        load, jobs = rng.uniform(0.7, 1.3), list[fo.Job]()
        for account, part in zip(PARENTS, rng.dirichlet([0.7] * 4).tolist(), strict=True):
            left = part * load * SERVERS * CORES * WEEK
            while left > 0:
                cores, lasts = int(rng.choice([1, 4, 16, 32, 64])), float(rng.lognormal(np.log(4 * HOUR), 0.8))
                left -= cores * lasts
                at, tasks = (week + rng.random()) * WEEK, max(1, cores // CORES)
                more = {"team": account, "gang": tasks > 1, "limit": lasts * float(rng.uniform(1, 3))}
                jobs.append(fo.Job(f"{account}/u", [min(cores, CORES)], lasts, tasks=tasks, arrival=at, **more))
        out.append(sorted(jobs, key=lambda job: job.arrival))
    return out


def replayed(jobs: list[fo.Job], shares: dict[str, int], limits: Limits | None = None) -> Any:
    """The jobs by Slurm's rules."""
    accounts = [fo.online.Account(name, PARENTS.get(name, ""), float(n)) for name, n in shares.items()]
    most = [fo.online.RunningLimit(of, {"cpu": cores}) for of, cores in (limits or {}).items()]
    rules = fo.online.SlurmRules(accounts, fo.online.Priority(half_life=WEEK), limits=most)
    capacities = np.full((SERVERS, 1), float(CORES))
    return fo.simulate(capacities, jobs, scheduler=fo.online.SlurmScheduler(capacities, rules, resources=["cpu"]))


def used(run: Any, until: float, account: str = "") -> float:
    """Core-seconds of an account, or of all, until a time."""
    cores = np.array([job.demands[0] * job.user.startswith(account) for job in run.jobs])[run.task_job]
    return float(cores @ np.maximum(np.minimum(run.end, until) - run.start, 0.0))


def written(jobs: list[fo.Job], shares: dict[str, int], caps: bool) -> str:
    """The script of a Monday, from the jobs that arrived on it."""
    entries = [
        {"account": name, "parent_account": PARENTS.get(name, "root"), "shares_raw": n} for name, n in shares.items()
    ]
    asked = [f"cpu={job.tasks * job.demands[0]:g},node={job.tasks}" for job in jobs]
    waiting = [
        {"job_id": k, "account": job.team, "job_state": ["PENDING"], "tres_req_str": tres}
        for k, (job, tres) in enumerate(zip(jobs, asked, strict=True))
    ]
    nodes = [{"name": f"n{k}", "cpus": CORES, "real_memory": 1024} for k in range(SERVERS)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, of in (("associations", entries), ("nodes", nodes), ("jobs", waiting)):
            (folder / f"{name}.json").write_text(json.dumps({name: of}))
        (folder / "contracts.csv").write_text(f"account,resource,promised\na,cpu,{PROMISED}\n")
        now, full = fo.read(folder), fo.read(folder, full_demand=True)
        answer = fo.HDRF(by=now.teams.outermost_first).allocate(now)
        return str(fc.quotas(answer, "slurm", queues=folder, full_demand=full, caps=caps).text())


def course(seed: int) -> dict[str, Any]:
    """One draw: parts of what Slurm alone uses, and of what was promised, and how often fairshares changed."""
    weeks, shares, changes = drawn(seed), dict(SHARES), 0
    caps = used_in_weeks = 0.0
    for week, jobs in enumerate(weeks):
        first = [job for job in jobs if job.arrival < week * WEEK + 24 * HOUR] or jobs[:1]
        found = re.findall(r"name=(\w+) set Fairshare=(\d+)", written(first, shares, caps=False))
        shares, changes = shares | {name: int(n) for name, n in found}, changes + bool(found)
        limits = re.findall(r"name=(\w+) set GrpTRES=cpu=(\d+)", written(first, shares, caps=True))
        end = (week + 1) * WEEK
        used_in_weeks += used(replayed(jobs, SHARES), end)
        caps += used(replayed(jobs, SHARES, {name: float(n) for name, n in limits}), end)
    all_jobs, until = [job for jobs in weeks for job in jobs], WEEKS * WEEK
    alone, then = replayed(all_jobs, SHARES), replayed(all_jobs, shares)
    asked = sum(job.demands[0] * job.tasks * job.duration for job in all_jobs if job.team == "a")
    owed = min(asked, PROMISED * until)
    return {
        "seed": seed,
        "used": round(used(then, until) / used(alone, until), 5),
        "with caps": round(caps / used_in_weeks, 4),
        "promised, alone": round(min(used(alone, until, "a") / owed, 1), 4),
        "promised, written": round(min(used(then, until, "a") / owed, 1), 4),
        "Mondays with changes": changes,
    }


def main() -> None:
    options = arguments(__doc__, seeds=10)
    begun = time.process_time()
    rows = [course(seed) for seed in range(options.seeds)]
    show("Twelve weeks of Slurm", rows, "slurm_weeks")
    print(f"least used: {min(row['used'] for row in rows)}; {time.process_time() - begun:.0f} s")


if __name__ == "__main__":
    main()
