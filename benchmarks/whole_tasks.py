"""Whole tasks: small instances against brute force in exact fractions, and the openb trace at half capacity.

First random instances of 1 to 4 users, 1 to 3 resources and 1 to 3 servers with zeros, limits, weights, counts and
placement: most tasks, max-min and leximin beside the best of all whole allocations. Then openb with both lists of pods,
every capacity halved: what rounding loses of the divisible optimum, and what mixed-integer programs of HiGHS find
within --seconds. Where a user's whole task fits on no halved server, the user is left out (counted in the table).

Run: python benchmarks/whole_tasks.py [--instances 10000] [--openb ../shared/data/openb] [--seconds 120]
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import fairopt_clusters as fc
import numpy as np
from common import arguments, show
from oracle import whole

import fairopt as fo

OPENB = Path(os.environ.get("FAIROPT_OPENB", Path(__file__).parents[1] / ".." / "shared" / "data" / "openb"))
EXACT = {"most tasks": fo.MostTasks(), "max-min": fo.Policy(fo.MaxMin()), "leximin (DRF)": fo.DRF()}
TWO_DOMINANT = fo.Policy(fo.Leximin(fo.KDominantShare(2, short="positive")), name="2-DF")
ON_TRACE = {"most tasks": fo.MostTasks(), "DRF": fo.DRF(), "2-DF": TWO_DOMINANT, "Nash": fo.NashWelfare()}
BY_PROGRAMS = ("most tasks", "DRF")


def value(name: str, instance: fo.Instance, answer: fo.Allocation) -> Any:
    """What a policy maximises, in fractions, at an answer."""
    tasks, shares = whole.of_answer(answer)
    levels = whole.levels(instance, shares)
    return {"most tasks": sum(tasks), "max-min": levels[0] if levels else 0, "leximin (DRF)": levels}[name]


def small(instances: int, seed: int) -> list[dict[str, Any]]:
    """Answers beside brute force."""
    rows = {name: {"policy": name, "instances": 0, "wrong": 0, "seconds": 0.0, "worst ms": 0.0} for name in EXACT}
    brute = 0.0
    for k in range(instances):
        instance = whole.small(np.random.default_rng([seed, k]), by_server=k % 10 == 9)
        begun = time.perf_counter()
        right = dict(zip(EXACT, whole.best(instance), strict=True))
        brute += time.perf_counter() - begun
        for name, policy in EXACT.items():
            begun = time.perf_counter()
            answer = policy.allocate(instance, integral=True)
            took, row = time.perf_counter() - begun, rows[name]
            good = answer.certificate.ok and whole.fits(answer) and value(name, instance, answer) == right[name]
            row["instances"] += 1
            row["wrong"] += not good
            row["seconds"] += took
            row["worst ms"] = max(row["worst ms"], 1e3 * took)
    return [
        *rows.values(),
        {"policy": "brute force of all", "instances": instances, "wrong": 0, "seconds": brute, "worst ms": 0.0},
    ]


def on_openb(folder: str, seconds: float) -> list[dict[str, Any]]:
    """Losses against the divisible optimum on the trace."""
    rows = []
    for pods in ("default", "gpuspec33"):
        instance = fc.read_openb(folder, pods=pods, capacity_scale=0.5)
        for name, policy in ON_TRACE.items():
            begun = time.perf_counter()
            divisible = policy.allocate(instance)
            first = time.perf_counter() - begun
            for how in ("rounded", True) if name in BY_PROGRAMS and seconds else ("rounded",):
                begun = time.perf_counter()
                answer = policy.allocate(instance, integral=how, time_limit=None if how == "rounded" else seconds)
                took, proof = time.perf_counter() - begun, answer.certificate
                losses = np.array(proof.gaps or (proof.gap,))
                rows.append(
                    {
                        "pods": pods,
                        "users": instance.n_users,
                        "policy": name,
                        "how": "rounded" if how == "rounded" else f"programs, {seconds:g} s",
                        "divisible tasks": float(divisible.tasks.sum()),
                        "divisible s": first,
                        "whole tasks": int(answer.tasks.sum()),
                        "loss %": 100 * proof.gap,
                        "of the smallest %": 100 * float(losses[0]),
                        "median of levels %": 100 * float(np.median(losses)),
                        "left out": int(((answer.tasks == 0) & (fitting(instance) < 1)).sum()),
                        "seconds": took,
                        "note": proof.note,
                    }
                )
                print(rows[-1], flush=True)
    return rows


def fitting(instance: fo.Instance) -> np.ndarray:
    """Tasks of each user that fit on some server by itself, a fraction where not one does."""
    return np.asarray((instance.tasks_alone / instance.counts).max(axis=1))


if __name__ == "__main__":
    options = arguments(str(__doc__), instances=10_000, seed=16, openb=str(OPENB), seconds=120.0)
    if options.instances:
        show("Whole tasks against brute force", small(options.instances, options.seed), "whole_tasks_small")
    if (Path(options.openb) / "openb_node_list_all_node.csv").is_file():
        found = on_openb(options.openb, options.seconds)
        show(
            "Whole tasks of openb at half capacity",
            [{k: v for k, v in r.items() if k != "note"} for r in found],
            "whole_tasks_openb",
        )
    else:
        print(f"no openb trace in {options.openb}: skipped; say where it is by --openb FOLDER")
