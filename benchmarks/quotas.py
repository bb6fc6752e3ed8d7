"""Quotas written, read back, and judged against the certified answer, on random clusters with teams and types.

For each cluster, policy and format: what is read back differs by less than the smallest unit from the units of the
whole tasks, or of Kubernetes and Slurm is at least as much, for what the tasks request; sums are within capacities (of
Kubernetes with room for one more task of each team); GPUs are whole. The whole tasks of a policy are those of
``integral="rounded"``, solved again here; those of a mechanism are its divisible ones rounded down or up, unless the
notes name the user. What is left is handed out, until nobody's task fits. Sums are of fractions, by loops that share no
code with the package.

Run: python benchmarks/quotas.py [--clusters 300]
"""

from __future__ import annotations

import itertools
import tempfile
import time
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any

import fairopt_clusters as fc
import numpy as np
from common import arguments, show
from fairopt_clusters.quotas.present import read_quotas

import fairopt as fo

POLICIES: dict[str, Any] = {"hdrf": fo.HDRF(), "drf": fo.DRF(), "most-tasks": fo.MostTasks(), "nash": fo.NashWelfare()}
ENDINGS = {"csv": "csv", "kubernetes": "yaml", "kueue": "yaml", "slurm": "sh"}
BOUNDING = ("kubernetes", "slurm")  # with what is left over
RESOURCES = ("cpu", "memory", "gpu")
NEAR = Fraction(1, 10**6)  # of the smallest unit: floats that differ by less are equal


def cluster(seed: int) -> fo.Instance:
    """Some teams with one to three kinds of tasks each, on servers of two or three types, some without GPUs."""
    rng = np.random.default_rng(seed)
    types = ["a100", "t4", "cpu-only"][: rng.integers(2, 4)]
    rows = [(rng.choice([16, 32, 64]), rng.choice([64, 128, 256]), 0 if t == "cpu-only" else 4) for t in types]
    counts = rng.integers(1, 4, len(types))
    teams, users, demands, limits = [], [], [], []
    for team in [f"team{k}" for k in range(rng.integers(2, 5))]:
        for kind in range(rng.integers(1, 4)):
            gpus = int(rng.choice([0, 1, 2, 4]))
            teams.append(team)
            users.append(f"{team}/{kind}")
            demands.append((rng.integers(1, 12000) / 1000, rng.integers(1, 30 * 1024) / 1024, gpus))
            limits.append(None if rng.random() < 0.4 else int(rng.integers(1, 12)))
    held = rng.integers(0, 2, (len(users), len(types)))
    return fo.Instance(
        demands,
        rows,
        counts=counts,
        users=users,
        resources=RESOURCES,
        servers=[f"{t}-[1-{n}]" if n > 1 else f"{t}-1" for t, n in zip(types, counts.tolist(), strict=True)],
        server_types=types,
        units={"cpu": "core", "memory": "GiB"},
        teams={"team": teams},
        task_limits=limits,
        held=held if rng.random() < 0.5 else None,
    )


def units(instance: fo.Instance, tasks: Any) -> dict[tuple[str, str], Fraction]:
    """Units of each team and resource, for tasks by user."""
    out: dict[tuple[str, str], Fraction] = {}
    for user, (team, count) in enumerate(zip(instance.teams["team"], tasks, strict=True)):
        for i, resource in enumerate(RESOURCES):
            key = (str(team), resource)
            out[key] = out.get(key, Fraction(0)) + Fraction(float(count)) * Fraction(float(instance.demands[user, i]))
    return out


def judged(instance: fo.Instance, policy: Any, folder: Path) -> tuple[list[str], float]:
    """What is wrong with the quotas of a policy in each format, and the part of the tasks that is lost."""
    answer = policy.allocate(instance)
    quotas = fc.quotas(answer, caps=True)
    whole = quotas._source.whole
    tasks, wrong = whole.placement.sum(axis=1), left_idle(whole.servers, whole.placement)
    if isinstance(policy, fo.Policy):
        fewer = (tasks < policy.allocate(instance, integral="rounded").tasks).tolist()
        wrong += [f"{user} has fewer tasks" for user in itertools.compress(instance.users, fewer)]
    else:
        wrong += not_rounded(answer, tasks, quotas.notes)
    expected = units(instance, tasks)
    for format, ending in ENDINGS.items():
        file = folder / f"quotas.{ending}"
        file.write_text(quotas.text(format))
        found, of = read_quotas(file)
        wrong += [f"{format}: {problem}" for problem in problems(instance, found, of, format, expected)]
    return wrong, 1 - float(tasks.sum() / answer.tasks.sum())


def not_rounded(answer: fo.Allocation, tasks: Any, notes: tuple[str, ...]) -> list[str]:
    """Users whose whole tasks are neither of the two next to their divisible ones, and whom no note names."""
    out, more = [], any(note.startswith("what is left goes to") for note in notes)
    for user, fair, whole in zip(answer.instance.users, answer.tasks.tolist(), tasks.tolist(), strict=True):
        named = any(user in note for note in notes)
        if (whole > ceil(fair - 1e-6) and not more) or (whole < floor(fair + 1e-6) and not named):
            out.append(f"{user} has {whole:g} whole tasks of {fair:g}")
    return out


def left_idle(servers: fo.Instance, placement: Any) -> list[str]:
    """Users who wait though one more task of theirs fits on a server."""
    out = []
    demands = [[Fraction(float(x)) for x in row] for row in servers.demands]
    for s, name in enumerate(servers.servers):
        run = [int(x) for x in placement[:, s]]
        used = [sum(n * row[i] for n, row in zip(run, demands, strict=True)) for i in range(servers.n_resources)]
        free = [Fraction(float(c)) - u for c, u in zip(servers.capacities[s], used, strict=True)]
        for j, row in enumerate(demands):
            waits = placement[j].sum() < servers.task_limits[j] and servers.eligible[j, s]
            if waits and all(x <= y for x, y in zip(row, free, strict=True)):
                out.append(f"{servers.users[j]} waits though {name} has room")
    return out


def problems(
    instance: fo.Instance,
    found: list[fc.quotas.Quota],
    of: str,
    format: str,
    expected: dict[tuple[str, str], Fraction],
) -> list[str]:
    """What is wrong with quotas that were read."""
    out = [] if of == format else [f"read as {of}"]
    steps = {"cpu": Fraction(1) if format == "slurm" else Fraction(1, 1000), "memory": Fraction(1, 1024), "gpu": 1}
    total, parts, sums = dict[Any, Fraction](), dict[Any, int](), dict[Any, Fraction]()
    for quota in found:
        resource = quota.resource.rpartition("/")[2]
        amount, step = Fraction(quota.amount), Fraction(steps[resource])
        steps_of = Fraction(round(amount / step))
        if abs(amount / step - steps_of) > NEAR:
            out.append(f"{quota} is no multiple of {step}")
        sums[resource, quota.flavor] = sums.get((resource, quota.flavor), Fraction(0)) + steps_of * step
        if format == "slurm" and quota.flavor:
            continue  # its sum has a quota too
        key = (quota.team, resource)
        total[key] = total.get(key, Fraction(0)) + steps_of * step
        parts[key] = parts.get(key, 0) + 1
    for key, amount in expected.items():
        more = total.get(key, Fraction(0)) - amount
        if key not in total:
            if amount or format not in BOUNDING:
                out.append(f"no quota of {key}")
        elif (more < 0 or format not in BOUNDING) and abs(more) >= steps[key[1]] * (parts[key] + NEAR):
            out.append(f"{key} is {float(total[key])}, but whole tasks use {float(amount)}")
    for (resource, flavor), amount in sums.items():
        i = RESOURCES.index(resource)
        room = sum(
            Fraction(float(instance.capacities[s, i])) * int(instance.counts[s])
            for s, name in enumerate(instance.server_types or ())
            if flavor in ("", name)
        )
        if format == "kubernetes":  # room for one more task of each team all of whose tasks have a place
            of_teams = {team: [] for team in instance.teams["team"]}
            for team, row in zip(instance.teams["team"], instance.demands, strict=True):
                of_teams[team].append(Fraction(float(row[i])) + steps[resource])
            room += sum(max(each) for each in of_teams.values())
        if amount > room:
            out.append(f"quotas of {resource} of {flavor or 'all'} add up to {float(amount)}, more than {float(room)}")
    return out


def main() -> None:
    given = arguments(__doc__ or "", clusters=300)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, policy in POLICIES.items():
            begun, wrong, lost = time.perf_counter(), list[str](), []
            for seed in range(given.clusters):
                found, part = judged(cluster(seed), policy, Path(folder))
                wrong += [f"cluster {seed}: {problem}" for problem in found]
                lost.append(part)
            for problem in wrong[:20]:
                print(name, problem)
            seconds = time.perf_counter() - begun
            row = {"policy": name, "clusters": given.clusters, "formats": len(ENDINGS), "wrong": len(wrong)}
            rows.append(row | {"tasks lost": float(np.mean(lost)), "at most": float(np.max(lost)), "seconds": seconds})
    show("Quotas read back", rows, "quotas")


if __name__ == "__main__":
    main()
