"""How long `allocate` takes, here and in another checkout in turn, so that a drifting machine is fair to both.

DRF, FDS(1) and FDS(2) on one pool of a million users x 4, and small instances: 2, 10 and 100 users on a pool and on
five servers, under DRF, FDS(1), MostTasks, HFFMRA and KDF(2). Each turn is a process of its own, with ``PYTHONPATH``
at the checkout; a turn's number is the median of its calls. Ratios are this checkout's time over the other's: of the
medians over turns, and of the least. ``cpu`` is what all threads worked, which says more on a busy machine.

Run: python benchmarks/two_checkouts.py [--against PATH --rounds 10 --large 1000000]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import arguments, median, show

HERE = Path(__file__).parent
SECONDS = 0.4  # of calls for a median, if they are short
LEAST, MOST = 5, 200  # calls


def measure(large: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds of each call by its name, on the wall's clock and on the processors'."""
    import fairopt as fo

    small = {
        "DRF": fo.DRF(),
        "FDS(1)": fo.FDS(1),
        "MostTasks": fo.MostTasks(),
        "HFFMRA": fo.HFFMRA(),
        "KDF": fo.KDF(2),
    }
    calls = []
    for n in (2, 10, 100):
        for where, options in {"pool": {}, "5 servers": {"n_servers": 5, "different_servers": True}}.items():
            instance = fo.datasets.log_uniform(n, 4, min_positive=2, seed=1, **options)
            calls += [(f"{name}, {n} users, {where}", policy, instance) for name, policy in small.items()]
    instance = fo.datasets.log_uniform(large, 4, seed=1)
    big = {"DRF": fo.DRF(), "FDS(1)": fo.FDS(1), "FDS(2)": fo.FDS(2)}
    calls += [(f"{name}, {large:,} x 4", policy, instance) for name, policy in big.items()]
    return {name: _medians(policy, instance) for name, policy, instance in calls}


def _medians(policy: Any, instance: Any) -> tuple[float, float]:
    """Milliseconds of a call; the first, which also warms up, says how many there are time for."""
    start = time.perf_counter()
    policy.allocate(instance)
    calls = min(max(int(SECONDS / (time.perf_counter() - start)), LEAST), MOST)
    wall, worked = [], []
    for _ in range(calls):
        start, before = time.perf_counter(), time.process_time()
        policy.allocate(instance)
        worked.append(1e3 * (time.process_time() - before))
        wall.append(1e3 * (time.perf_counter() - start))
    return median(wall), median(worked)


def run(against: str, rounds: int, large: int) -> None:
    """Print and write milliseconds by call, and beside another checkout the ratios of this one to it.

    Parameters
    ----------
    against : str
        Path of another checkout; empty for none.
    rounds : int
        Turns of each.
    large : int
        Users of the large pool.
    """
    sides = {"here": str(HERE.parent)} | ({"there": str(Path(against).resolve())} if against else {})
    turns: dict[str, list[dict[str, tuple[float, float]]]] = {side: [] for side in sides}
    for k in range(rounds):
        for side in list(sides) if k % 2 == 0 else reversed(sides):
            turns[side].append(_turn(sides[side], large))
    rows = []
    for name in turns["here"][0]:
        row: dict[str, Any] = {"call": name}
        for k, clock in enumerate(("ms", "cpu ms")):
            ms = {side: [turn[name][k] for turn in measured] for side, measured in turns.items()}
            row[clock] = median(ms["here"])
            if against:
                row[f"{clock} there"] = median(ms["there"])
                row[f"{clock}: ratio"] = row[clock] / row[f"{clock} there"]
                row[f"{clock}: of the least"] = min(ms["here"]) / min(ms["there"])
        rows.append(row)
    show(f"allocate in {sides}, {rounds} turns", rows, "two_checkouts")


def _turn(checkout: str, large: int) -> dict[str, tuple[float, float]]:
    """One process's measurements."""
    code = f"import json, fairopt, two_checkouts as t; print(json.dumps([fairopt.__file__, t.measure({large})]))"
    environment = os.environ | {"PYTHONPATH": checkout}
    # from this folder, which Python looks in first, and which holds no fairopt
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{checkout}: {done.stderr}")
    where, measured = json.loads(done.stdout.splitlines()[-1])  # older checkouts print HiGHS's banner first
    if not Path(where).is_relative_to(checkout):
        raise RuntimeError(f"{checkout} holds no fairopt: {where} was measured")
    return measured


if __name__ == "__main__":
    options = arguments(str(__doc__), against="", rounds=10, large=1_000_000)
    run(options.against, options.rounds, options.large)
