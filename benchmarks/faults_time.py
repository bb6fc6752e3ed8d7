"""Time limits: each call ends within a second and a tenth of its limit after it, and says that it was reached.

It prints what each call takes beyond its limits, 0 if it ends before:
python benchmarks/faults_time.py [--before CHECKOUT --only WORD --limits 0.5,1,10]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from common import arguments, show

LIMITS = (0.5, 1.0)
LATE, PART = 1.0, 0.1  # seconds after the limit, and part of it
PATIENCE = 40.0  # seconds for a call beyond its limit, and what it needs; those that go on are stopped
PROGRAM = """
import sys, time
import cvxpy as cp  # by the first call with a limit, which does not count that
import numpy as np
import fairopt as fo
I = fo.datasets.log_uniform
MIXTURES = np.random.default_rng(1).random((2_000, 2_000))
def theil(m):
    mean = cp.sum(m.tasks) / m.tasks.size
    return mean - 0.5 * cp.sum(cp.rel_entr(m.tasks, mean * np.ones(m.tasks.size))) / m.tasks.size
def call(limit):
    SETUP
    begun, used = time.perf_counter(), time.process_time()
    try:
        a = CALL
        ok = getattr(getattr(a, "certificate", None), "ok", None)
        words = {True: "certified", False: "not certified, handed out", None: "returned"}[ok]
    except fo.FairoptError as error:
        best = getattr(error, "best", None)
        tasks = getattr(best, "tasks", None)
        kept = "nothing kept" if tasks is None else f"kept {tasks.sum():.4g} tasks"
        words = f"{type(error).__name__} ({kept}): {error}"
    print(time.perf_counter() - begun, f"{words} ({time.process_time() - used:.1f} s of CPU here)", sep="|", flush=True)
call(float(sys.argv[1]))
"""
WIDE = "I(50_000, 4, n_servers=27, different_servers=True, seed=1)"
SPREAD = "I(20_000, 4, n_servers=5, different_servers=True, seed=1)"
# What is asked for, on which instance, and how.
ALLOCATIONS = {
    "most tasks, HIGHS, 50,000 x 27": ("fo.MostTasks()", WIDE, "solver='HIGHS'"),
    "most tasks, PDLP, 50,000 x 27": ("fo.MostTasks()", WIDE, "solver='HIGHS', solver_options={'solver': 'pdlp'}"),
    "most tasks, SCIPY, 50,000 x 27": ("fo.MostTasks()", WIDE, "solver='SCIPY'"),
    "most tasks, OSQP, 20,000 x 5": ("fo.MostTasks()", SPREAD, "solver='OSQP'"),
    "levels, 50,000 x 27": ("fo.DRF()", WIDE, ""),
    "prices, 200,000 x 27": ("fo.FDS(2)", WIDE.replace("50_000", "200_000"), ""),
    "FDS by cone, 30,000": ("fo.FDS(2)", "I(30_000, seed=1)", "method='cone'"),
    "FDS, ECOS, 20,000 x 5": ("fo.FDS(1)", SPREAD, "solver='ECOS'"),
    "FDS, SCS, 20,000 x 5": ("fo.FDS(1)", SPREAD, "solver='SCS'"),
    "GAR, 20,000 x 5": ("fo.HFFMRA()", SPREAD, "method='cone'"),
    "EnvyFree, 380": ("fo.Policy(fo.AlphaFair(1), [fo.EnvyFree()])", "I(380, seed=1)", ""),
    "DRF by cone, 2,000 x 5": ("fo.DRF()", SPREAD.replace("20_000", "2_000"), "method='cone'"),
    "search of sums, 2,000 x 5": ("fo.FDS(beta=2, lam=-3)", SPREAD.replace("20_000", "2_000"), ""),
    "bottlenecks, 20,000": ("fo.BottleneckFairness()", "I(20_000, seed=1)", ""),
    "water-filling, 20,000,000": ("fo.DRF()", "I(20_000_000, seed=1)", ""),
    "prices on one pool, 10,000,000": ("fo.FDS(0.5)", "I(10_000_000, seed=1)", ""),
    "linear on one pool, 20,000,000": ("fo.MostTasks()", "I(20_000_000, seed=1)", ""),
    "per server, 50,000 x 27": ("fo.NaivePerServer(fo.FDS(2))", WIDE, ""),
    "per server, CLARABEL, 50,000 x 27": ("fo.NaivePerServer(fo.FDS(2))", WIDE, "solver='CLARABEL'"),
    "PS-DSF, 50,000 x 27": ("fo.PSDSF()", WIDE, ""),
    "PS-DSF, 5,000 x 200": ("fo.PSDSF()", "I(5_000, n_servers=200, different_servers=True, seed=1)", ""),
    "whole tasks, 300 x 60": ("fo.DRF()", "I(300, n_servers=60, different_servers=True, seed=1)", "integral=True"),
    "whole tasks, 50,000 x 27": ("fo.DRF()", WIDE, "integral=True"),
    "whole tasks, rounded, 50,000 x 27": ("fo.DRF()", WIDE, "integral='rounded'"),
    "conflict, 5,000 x 5": (
        "fo.Policy(fo.AlphaFair(1), [fo.SharingIncentive(), fo.MaxShare(1e-6)])",
        SPREAD.replace("20_000", "5_000"),
        "",
    ),
    "own objective, 20,000": ("fo.Policy(fo.OrderedWeighted((3, 2, 1)))", "I(20_000, seed=1)", ""),
    "ordered weights, 2,000 x 20": (
        "fo.Policy(fo.OrderedWeighted(range(2_000, 0, -1)))",
        "I(2_000, n_servers=20, different_servers=True, seed=1)",
        "",
    ),
    "ordered weights, 1,000,000": ("fo.Policy(fo.OrderedWeighted(range(1_000_000, 0, -1)))", "I(1_000_000, 8)", ""),
    # the mean is repeated for every user, so that the compiled program has as many entries as pairs of users
    "Theil of one's own, 1,000": ("fo.Policy(theil)", "I(1_000, seed=1)", ""),
    "Theil of one's own, 3,000": ("fo.Policy(theil)", "I(3_000, seed=1)", ""),
    "Theil of one's own, 10,000": ("fo.Policy(theil)", "I(10_000, seed=1)", ""),
    "Theil of one's own, 3,000, ECOS": ("fo.Policy(theil)", "I(3_000, seed=1)", "solver='ECOS'"),
    "Theil of one's own, 3,000, SCS": ("fo.Policy(theil)", "I(3_000, seed=1)", "solver='SCS'"),
    "above the mean, 3,000": (
        "fo.Policy(fo.AlphaFair(1), [lambda m: m.tasks >= 0.1 * cp.sum(m.tasks) / 3_000 * np.ones(3_000)])",
        "I(3_000, seed=1)",
        "",
    ),
    "most tasks above the mean, 3,000": (
        "fo.Policy(fo.Total(), [lambda m: m.tasks >= 0.1 * cp.sum(m.tasks) / 3_000 * np.ones(3_000)])",
        "I(3_000, seed=1)",
        "",
    ),
    "leximin above the mean, 1,000": (
        "fo.Policy(fo.Leximin(), [lambda m: m.tasks >= 0.1 * cp.sum(m.tasks) / 1_000 * np.ones(1_000)])",
        "I(1_000, seed=1)",
        "",
    ),
    "squares of mixtures, 2,000": (
        "fo.Policy(lambda m: cp.sum(m.tasks) - cp.sum_squares(MIXTURES @ m.tasks))",
        "I(2_000, seed=1)",
        "",
    ),
    "an atom for each user, 3,000": (
        "fo.Policy(lambda m: sum(cp.log(m.tasks[j]) for j in range(3_000)))",
        "I(3_000, seed=1)",
        "",
    ),
    "norm of one's own, 20,000 x 5": ("fo.Policy(lambda m: cp.sum(cp.sqrt(m.tasks)) - cp.norm(m.tasks))", SPREAD, ""),
    "geometric mean, 2,000": ("fo.Policy(lambda m: cp.geo_mean(m.tasks))", "I(2_000, seed=1)", ""),
    "least eigenvalue, 100": ("fo.Policy(lambda m: cp.lambda_min(cp.diag(m.tasks)))", "I(100, seed=1)", ""),
    "leximin with rows, 1,000 x 20": (
        "fo.Policy(fo.Leximin(), [fo.SharingIncentive(), lambda m: cp.sum(m.tasks[:500]) >= cp.sum(m.tasks[500:])])",
        "I(1_000, n_servers=20, different_servers=True, seed=1)",
        "",
    ),
    "leximin, EnvyFree, 300 x 5": (
        "fo.Policy(fo.Leximin(), [fo.EnvyFree()])",
        "I(300, n_servers=5, different_servers=True, seed=1)",
        "",
    ),
    "HDRF, 3,000": (
        "fo.HDRF(by='org')",
        "fo.Instance(np.random.default_rng(1).uniform(1, 9, (3_000, 4)), [9e3] * 4, "
        "teams={'org': [str(j % 900) for j in range(3_000)]})",
        "",
    ),
    "exact, 200 x 9": ("fo.DRF()", "I(200, n_servers=9, different_servers=True, seed=1)", "exact=True"),
    "exact, 3,000": ("fo.MostTasks()", "I(3_000, 8, seed=1)", "exact=True"),
    "prepared, 20,000 x 5": ("fo.FDS(1).prepare(instance)", SPREAD, "kept"),
}
# Other calls: what they need, which does not count, and the call.
OTHERS = {
    "audit of FDS": ("", "fo.audit(fo.FDS(2), max_examples=100_000, time_limit=limit)"),
    "audit of PS-DSF on servers": ("", "fo.audit(fo.PSDSF(), servers=3, max_examples=100_000, time_limit=limit)"),
    "prove": ("", "fo.prove(fo.KDF(2), 'envy-free', resources=3, time_limit=limit)"),
    "frontier": (
        "instance = I(2_000, 4, n_servers=5, different_servers=True, seed=1)",
        "fo.frontier('fds', instance, {'alpha': np.linspace(0.1, 4, 200)}, time_limit=limit)",
    ),
    "compare": (
        f"instance = {SPREAD}",
        "fo.compare([fo.DRF(), fo.FDS(2), fo.PSDSF(), fo.MostTasks(), fo.HFFMRA()], instance, time_limit=limit / 5)",
    ),
    "sensitivity": (
        f"a = fo.FDS(2).allocate({SPREAD.replace('20_000', '2_000')})",
        "fo.sensitivity(a, time_limit=limit)",
    ),
    "check": (
        "a = fo.FDS(2).allocate(I(20_000, 4, n_servers=5, different_servers=True, seed=1))",
        "fo.check(a, time_limit=limit)",
    ),
    "simulate": (
        "jobs = [fo.Job(f'u{k % 50}', [1, 2, 1], arrival=k / 10, duration=50, tasks=3) for k in range(30_000)]",
        "fo.simulate(np.full((50, 3), 30.0), jobs, time_limit=limit)",
    ),
    "allocate_many": (
        "demands = np.random.default_rng(1).uniform(1, 9, (100_000, 30, 3))",
        "fo.allocate_many(fo.FDS(2), demands, np.full(3, 100.0), time_limit=limit)",
    ),
    "allocate_sharded": (
        "np.save('users.npy', np.random.default_rng(1).uniform(1, 9, (5_000_000, 3)))",
        "fo.allocate_sharded(fo.FDS(2), 'users.npy', capacities=[9e6, 9e6, 9e6], time_limit=limit)",
    ),
    "best_misreport": (
        "instance = I(30, 4, n_servers=3, different_servers=True, seed=1)",
        "fo.properties.best_misreport(fo.FDS(2), instance, 0, time_limit=limit)",
    ),
    "verify": (
        "fo.FDS(2).allocate(I(20_000, 4, n_servers=5, different_servers=True, seed=1)).save('answer.json')",
        "fo.verify('answer.json', time_limit=limit)",
    ),
    "verify leximin on servers": (
        "fo.DRF().allocate(I(1_000, 4, n_servers=9, different_servers=True, seed=1)).save('answer.json')",
        "fo.verify('answer.json', time_limit=limit)",
    ),
    "exact bounds": (
        "a = fo.FDS(2).allocate(I(3_000, 4, seed=1))",
        "a.exact_bounds(time_limit=limit)",
    ),
    "read": (
        "fo.datasets.write(I(300_000, 4, seed=1), 'large.json')",
        "fo.read('large.json', time_limit=limit)",
    ),
    "resource_monotone": (
        f"instance = {SPREAD}",
        "fo.properties.resource_monotone(fo.FDS(2), instance, time_limit=limit)",
    ),
}
CASES = (*ALLOCATIONS, *OTHERS)


def calls(name: str, checkout: Path, limits: Sequence[float]) -> dict[float, tuple[float, str]]:
    """Seconds of the call with each limit, and its words; each in a process, with fairopt of a checkout."""
    if name in OTHERS:
        setup, call = OTHERS[name]
    else:
        policy, instance, further = ALLOCATIONS[name]
        setup = f"instance = {instance}; policy = {policy}"
        call = f"policy.allocate({'' if further == 'kept' else 'instance, ' + further + ', '}time_limit=limit)"
    text = PROGRAM.replace("SETUP", setup or "pass").replace("CALL", call.replace(", , ", ", "))
    out, environment = {}, os.environ | {"PYTHONPATH": str(checkout)}
    for limit in limits:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", text, str(limit)]
            try:
                ended = subprocess.run(
                    command, cwd=folder, env=environment, text=True, capture_output=True, timeout=PATIENCE + limit
                )
            except subprocess.TimeoutExpired:
                out[limit] = time.perf_counter() - begun, "was stopped"
                continue
        seconds, _, words = ended.stdout.partition("|")
        last = (ended.stderr.strip().splitlines() or [f"exit {ended.returncode}"])[-1]
        out[limit] = float(seconds or time.perf_counter() - begun), words.strip() or last
    return out


def main() -> None:
    """Print and write what each call takes beyond its limits."""
    asked = arguments(str(__doc__), before="", only="", limits=list(LIMITS))
    sides = ({"before ": Path(asked.before).resolve()} if asked.before else {}) | {"": Path(__file__).parents[1]}
    rows = []
    for name in (n for n in CASES if asked.only in n):
        row: dict[str, object] = {"call": name}
        for side, checkout in sides.items():
            ends = calls(name, checkout, asked.limits)
            row |= {f"{side}over {limit:g} s": max(seconds - limit, 0.0) for limit, (seconds, _) in ends.items()}
            row[f"{side}ends"] = ends[asked.limits[-1]][1][:300]
        over = [row[f"over {limit:g} s"] <= LATE + PART * limit for limit in asked.limits]
        row["verdict"] = "in time" if all(over) else "late"
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    show("Seconds beyond the time limit", rows, "faults_time")


if __name__ == "__main__":
    main()
