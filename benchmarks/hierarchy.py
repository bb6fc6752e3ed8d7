"""Hierarchical DRF: time at size, of the answer and of its proof from a file; and random trees against slow versions.

Times are of the processor, the answer's with its proof. On servers a user is eligible on up to 2, 5 or 10 of 20 rows;
``rows`` are the inequalities on placements that were needed. Trees are filled again by recursion in fractions, on one
pool and on 3 servers, without and with ``floors`` of teams (``refused`` counts those that do not fit together, which
have to be), and on the pool in steps of a dominant share of 0.001; ``farthest`` is the largest relative distance of a
user's tasks, and for steps that of its dominant share. Properties are searched for failures on such trees; a lie of a
team is one that no member loses by.

Run: python benchmarks/hierarchy.py [--trees 1000] [--stepped 100] [--audited 100]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, show
from oracle.hierarchy import below_slice, drawn, filled, in_steps

import fairopt as fo
from fairopt.errors import Infeasible
from fairopt.properties.misreports.best import best_misreport

STEP = 1e-3


def kinds(
    n: int, teams: int, orgs: int, capacities: Any, seed: int, few: int | None = None, **more: Any
) -> fo.Instance:
    """Kinds of tasks of 4 resources, a third of them not needed, half with limits; each eligible on ``few`` servers."""
    rng = np.random.default_rng(seed)
    demands = np.where(rng.random((n, 4)) < 0.3, 0.0, rng.uniform(0.1, 8, (n, 4)))
    demands[~demands.any(axis=1), 0] = 1.0
    team, org = rng.integers(teams, size=n), rng.integers(orgs, size=teams)
    total = np.sum(capacities * more.get("counts", np.ones(len(capacities)))[:, None], axis=0)
    limits = np.where(rng.random(n) < 0.5, rng.uniform(0, total.mean() / n, n), np.inf)
    if few is not None:
        more["eligible"] = np.zeros((n, len(capacities)), dtype=bool)
        for j in range(n):
            more["eligible"][j, rng.choice(len(capacities), rng.integers(1, few + 1), replace=False)] = True
    labels = {"org": [f"org{org[t]}" for t in team], "team": [f"team{t}" for t in team]}
    return fo.Instance(demands, capacities, task_limits=limits, teams=labels, **more)


def cases() -> dict[str, fo.Instance]:
    """The instances that are timed."""
    rng = np.random.default_rng(0)
    rows, counts = rng.uniform(100, 2000, (20, 4)), rng.integers(1, 30, 20)
    out = {"pool": kinds(10_000, 500, 20, rng.uniform(1e4, 2e5, (1, 4)), 1)}
    for few in (2, 5, 10):
        out[f"20 rows of servers, up to {few} each"] = kinds(300, 40, 6, rows, few, few, counts=counts)
    return out


def timed() -> list[dict[str, Any]]:
    """The seconds of each instance."""
    out = []
    for name, instance in cases().items():
        start = time.process_time()
        answer = fo.HDRF(("org", "team")).allocate(instance)
        solved = time.process_time() - start
        with tempfile.TemporaryDirectory() as folder:
            file = answer.save(Path(folder) / "answer.json")
            start = time.process_time()
            proof = fo.verify(file)
            proved = time.process_time() - start
        assert proof.ok, proof
        (evidence,) = answer.evidence
        found = {"events": len(evidence["events"]), "rows": len(evidence.get("rows", ())), "gap": proof.gap}
        out.append({"case": name, "kinds": instance.n_users, "s": solved, "verify s": proved, **found})
    return out


def compared(trees: int, stepped: int) -> list[dict[str, Any]]:
    """How far answers are from the slow versions on random trees."""
    out = []
    for servers, floors in ((1, False), (3, False), (1, True), (3, True)):
        farthest, refused = 0.0, 0
        for seed in range(trees):
            instance, problem, policy = drawn(seed, servers, floors)
            if not problem.fits():
                try:
                    policy.allocate(instance)
                except Infeasible:
                    refused += 1
                    continue
                raise AssertionError(f"the guarantees of seed {seed} do not fit together")
            exact = np.array([float(x) for x in filled(problem)])
            tasks = policy.allocate(instance).tasks
            farthest = max(farthest, float((np.abs(tasks - exact) / np.maximum(exact, 1e-9)).max()))
        row = {"trees": trees, "servers": servers, "floors": floors, "refused": refused, "slow version": "fractions"}
        out.append(row | {"farthest": farthest})
    farthest = 0.0
    for seed in range(stepped):
        instance, problem, policy = drawn(seed)
        apart = np.abs(policy.allocate(instance).tasks - in_steps(problem, STEP)) * instance.dominant_shares.ravel()
        farthest = max(farthest, float(apart.max()))
    row = {"trees": stepped, "servers": 1, "floors": False, "refused": 0, "slow version": "small steps"}
    out.append(row | {"farthest": farthest})
    return out


def team_lie(policy: fo.HDRF, answer: fo.Allocation, rng: np.random.Generator, tries: int) -> float:
    """The least relative gain of a member that a team can give all of its members by false demands; 0 if none found."""
    instance, best = answer.instance, 0.0
    teams = [team for team in instance.teams.names.values() if len(team) > 1]
    for _ in range(tries if teams else 0):
        mine = teams[rng.integers(len(teams))]
        demands = instance.demands.copy()
        for j in mine:
            change = rng.choice([1.0, rng.uniform(0.5, 3)], size=demands.shape[1])
            demands[j] = demands[j] * change + rng.choice([0.0, 0.0, 0.0, 1.0], size=len(change)) * rng.random()
        lie = policy.allocate(instance.with_demands(demands))
        held = lie.tasks[mine, None] * demands[mine]
        needs = instance.demands[mine]
        runs = np.where(needs > 0, held / np.where(needs > 0, needs, 1.0), np.inf).min(axis=1)
        gains = np.minimum(runs, instance.task_limits[mine]) - answer.tasks[mine]
        size = np.maximum(answer.tasks[mine], 1e-3 * instance.tasks_alone.sum(axis=1)[mine])
        if (gains >= -1e-9 * size).all():
            best = max(best, float((gains / size).max()))
    return best


def audited(trees: int) -> list[dict[str, Any]]:
    """Properties on random trees: how often each fails, and the largest margin."""
    rng = np.random.default_rng(0)
    out = []
    for servers in (1, 3):
        found: dict[str, list[float]] = {"Pareto": [], "slice of every team and user": []}
        found |= {"lies of a member": [], "lies of a team": []}
        for seed in range(1, 3 * trees, 3):  # without guarantees
            instance, problem, policy = drawn(seed, servers)
            answer = policy.allocate(instance)
            found["Pareto"].append(fo.check(answer, ["pareto"])["pareto"].margin)
            found["slice of every team and user"].append(below_slice(problem, answer.tasks.tolist()))
            lie = best_misreport(policy, instance, int(rng.integers(instance.n_users)), seed=seed, budget=60)
            found["lies of a member"].append(0.0 if lie is None else lie.gain)
            found["lies of a team"].append(team_lie(policy, answer, rng, 60))
        for name, margins in found.items():
            fails = sum(margin > 1e-6 for margin in margins)
            row = {"property": name, "servers": servers, "trees": len(margins), "fails": fails}
            out.append(row | {"largest margin": float(max(margins))})
    return out


if __name__ == "__main__":
    given = arguments(__doc__ or "", trees=1000, stepped=100, audited=100)
    show("Hierarchical DRF at size", timed(), "hierarchy")
    show("Hierarchical DRF beside slow versions", compared(given.trees, given.stepped), "hierarchy_trees")
    show("Properties of hierarchical DRF", audited(given.audited), "hierarchy_properties")
