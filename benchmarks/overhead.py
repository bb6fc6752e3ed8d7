"""What is spent beside the work: the first second of a process, calls of two users, and the cone method beyond CVXPY.

First the CPU seconds of whole processes: imports, the command, and the first answers. Then what a call of two users
takes. Then the same notions of one's own on many instances by `allocate_many`, beside a loop with CVXPY's parameters,
which compiles once and proves nothing. Then the cone method against the same model written by hand in CVXPY, with the
same solver and tolerances: both sides build, compile and solve; fairopt also repairs the answer and proves it. Run:
python benchmarks/overhead.py [--users 1000 --repeats 5 --many 500], without the cone method by --users 0
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo
from fairopt.solve.form.solvers import TIGHT

SMALL = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
FIRST = f"import fairopt as fo; fo.{{}}.allocate(fo.Instance({SMALL.demands.tolist()}, {[200] * 3}{{}}))"
PROCESSES = {
    "python": ["-c", ""],
    "import numpy": ["-c", "import numpy"],
    "import cvxpy": ["-c", "import cvxpy"],
    "import fairopt": ["-c", "import fairopt"],
    "the first DRF": ["-c", FIRST.format("DRF()", "")],
    "the first FDS(2)": ["-c", FIRST.format("FDS(2)", "")],
    "the first by CVXPY": ["-c", FIRST.format("Policy(fo.AlphaFair(2), [fo.EnvyFree()])", "")],
    "fairopt --version": ["-m", "fairopt", "--version"],
    "fairopt solve, tables": ["-m", "fairopt", "solve", "tables"],
    "fairopt solve, JSON": ["-m", "fairopt", "solve", "small.json"],
}


def first_second(repeats: int) -> list[dict[str, Any]]:
    """The CPU seconds of whole processes, those that Python itself takes among them."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tables", "small.json"):
            fo.datasets.write(SMALL, Path(folder, name))
        env = {**os.environ, "PYTHONPATH": str(Path(fo.__file__).parents[1])}
        for name, words in PROCESSES.items():
            measured = []
            for _ in range(repeats + 1):  # the first writes compiled modules
                before = os.times()
                subprocess.run([sys.executable, *words], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
                after = os.times()
                spent = after.children_user + after.children_system - before.children_user - before.children_system
                measured.append(spent)
            rows.append({"process": name, "CPU seconds": median(measured[1:]), "least": min(measured[1:])})
    return rows


def small_calls(repeats: int) -> list[dict[str, Any]]:
    """What a call of two users takes, without the making of the instance."""
    policies = {"DRF": fo.DRF(), "FDS 2": fo.FDS(2), "Nash": fo.NashWelfare(), "most tasks": fo.MostTasks()}

    rows = []
    for name, policy in policies.items():
        measured = []
        for _ in range(repeats):
            before = time.process_time()
            for _ in range(100):
                policy.allocate(SMALL)
            measured.append(10 * (time.process_time() - before))
        rows.append({"policy": name, "CPU milliseconds": median(measured), "least": min(measured)})
    return rows


OWN: dict[str, Callable[[Any], Any]] = {
    "soft minimum": lambda s: -cp.log_sum_exp(-10 * s),
    "roots and the smallest": lambda s: cp.sum(cp.sqrt(s)) + cp.min(s),
    "logarithms and the largest": lambda s: cp.sum(cp.log(s)) - cp.max(s),
    "sum and spread": lambda s: cp.sum(s) - cp.norm(s - cp.sum(s) / s.size),
    "sum of squares": lambda s: cp.sum(s) - cp.sum_squares(s),
}


def own_notions(size: int, repeats: int) -> list[dict[str, Any]]:
    """Notions of one's own on many instances of 5, 20 and 80 users, and the same by a loop with parameters."""
    rows, rng = [], np.random.default_rng(1)
    for name, function in OWN.items():
        for n in (5, 20, 80):
            demands = np.exp(rng.uniform(-1.5, 1.5, (size, n, 3)))
            capacities = np.exp(rng.uniform(-0.5, 0.5, (size, 3))) * n
            ratios, shares = cp.Parameter((3, n), nonneg=True), cp.Variable(n, nonneg=True)
            problem = cp.Problem(cp.Maximize(function(shares)), [ratios @ shares <= 1])

            def loop(demands: Any = demands, capacities: Any = capacities, problem: Any = problem) -> None:
                for need, has in zip(demands, capacities, strict=True):
                    ratio = need / has
                    problem.parameters()[0].value = (ratio / ratio.max(axis=1)[:, None]).T
                    problem.solve(solver="CLARABEL")

            policy = fo.Policy(lambda model, function=function: function(model.share(fo.DominantShare())))
            ours = partial(fo.allocate_many, policy, demands, capacities)
            found = ours()
            seconds = {
                side: median(times)
                for side, times in interleaved({"ours": ours, "loop": loop}, repeats, time.process_time).items()
            }
            rows.append(
                {
                    "notion": name,
                    "users": n,
                    "ms each": 1e3 * seconds["ours"] / size,
                    "loop ms": 1e3 * seconds["loop"] / size,
                    "ratio": seconds["ours"] / seconds["loop"],
                    "certified": float(found.ok.mean()),
                    "one by one": int(found.one_by_one.sum()),
                }
            )
    return rows


def by_hand(instance: fo.Instance, alpha: float, solver: str) -> Callable[[], Any]:
    """The model as an expert on solvers would write it: variables near 1, relative capacities, the good form."""

    def run() -> np.ndarray:
        capacities = instance.capacities[0]
        ratios = instance.demands / capacities
        mu = ratios.max(axis=1)
        level = 1.0 / (ratios / mu[:, None]).sum(axis=0).max()
        unit = level / mu
        x = cp.Variable(instance.n_users, nonneg=True)
        if alpha == 0:
            objective = cp.sum(cp.multiply(mu * unit / level, x)) / instance.n_users
        elif alpha == 1:
            objective = cp.sum(cp.log(x))
        else:
            objective = cp.log_sum_exp((1 - alpha) * cp.log(x)) / (1 - alpha)
        problem = cp.Problem(cp.Maximize(objective), [(ratios.T * unit) @ x <= 1])
        problem.solve(solver=solver, ignore_dpp=True, **TIGHT[solver])
        return np.asarray(x.value) * unit

    return run


def main() -> None:
    """Print the four tables."""
    options = arguments(str(__doc__), users=[1000, 10_000], repeats=3, seeds=5, many=200)
    show("CPU seconds of processes (medians)", first_second(options.repeats), "overhead_first")
    show("Calls of two users", small_calls(options.repeats), "overhead_small")
    show(
        f"Notions of one's own on {options.many:,} instances",
        own_notions(options.many, options.repeats),
        "overhead_own",
    )
    if any(options.users):
        cones(options)


def cones(options: argparse.Namespace) -> None:
    """Time both sides in turn on several instances, and check that the answers agree.

    Interior-point solvers take twice as many steps on data that differ in the last bit, so one instance says little.
    """
    rows = []
    for n in options.users:
        for alpha, solver in [(0, "HIGHS"), (0, "CLARABEL"), (1, "CLARABEL"), (2, "CLARABEL"), (5, "CLARABEL")]:
            objective = fo.Total() if alpha == 0 else fo.AlphaFair(alpha)
            seconds: dict[str, list[float]] = {"fairopt": [], "by hand": []}
            gaps, differences = [], []
            for seed in range(1, options.seeds + 1):
                instance = fo.datasets.log_uniform(n, 4, zeros=0.1, seed=seed)
                hand = by_hand(instance, alpha, solver)
                ours = partial(fo.Policy(objective).allocate, instance, solver=solver)
                answer, tasks = ours(), hand()
                gaps.append(answer.certificate.gap)
                differences.append(float(abs(answer.shares.sum() / (instance.dominant_shares @ tasks) - 1)))
                for side, measured in interleaved({"fairopt": ours, "by hand": hand}, options.repeats).items():
                    seconds[side].append(median(measured))
            ratios = [a / b for a, b in zip(seconds["fairopt"], seconds["by hand"], strict=True)]
            rows.append(
                {
                    "policy": repr(objective),
                    "solver": solver,
                    "users": n,
                    "fairopt s": median(seconds["fairopt"]),
                    "by hand s": median(seconds["by hand"]),
                    "ratio": median(ratios),
                    "least": min(ratios),
                    "most": max(ratios),
                    "worst gap": max(gaps),
                    "sums agree to": max(differences),
                }
            )
    show("The cone method against the same model by hand (medians over instances)", rows, "overhead")


if __name__ == "__main__":
    main()
