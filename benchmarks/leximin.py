"""Leximin on several servers: all levels in units of one max-min linear program, and beside cvxpy-leximin.

The unit is the plain max-min model, min over users of share per weight under capacities, eligibility and task limits,
solved by HiGHS as it comes: handed over as matrices (highspy), and written in CVXPY. With task limits that program is
easy, since the smallest limit holds the level, so it is also solved without them; a leximin with limits has to go
beyond both. ``by programs`` is the general method. Answers are compared; the levels of one are those of the other.

``--growth-users``: CPU seconds of all levels and the gate's part at growing sizes, and the exponent since the size
before. With ``--rows-users`` as many users at most are also solved with a row for every group, to compare levels.

``--verify-users``: answers of DRFH, saved and verified, with and without limits, for seeds 1 to ``--verify-seeds``: how
many are proved, the largest gap that the checker proves, and quantiles of its CPU seconds.

``cvxpy-leximin``: leximin as a CVXPY objective, on dominant shares, tolerances as they come. What it answers is made to
fit and compared with the certified answer: in the order of leximin it may not be better. It is skipped where it is not
installed; a size that would take longer than --time-limit by its last time is not run.

Run: python benchmarks/leximin.py [--users 1000 --growth-users 1000,5000,20000 --verify-users 1000,2000,3000
     --peer-users 5,10,20,50 --time-limit 60]
"""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cvxpy as cp
import fairopt_clusters as fc
import highspy
import numpy as np
import scipy.sparse as sp
from common import answered, arguments, median, show

import fairopt as fo
from fairopt.proof import gate
from fairopt.runtime.threads import one_thread
from fairopt.solve.cluster import leximin
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings

PEER, MODULE = "cvxpy-leximin", "cvxpy_leximin"
GROWTH = 3.0  # of its seconds in users, from 10 to 50


def cluster(n_users: int, servers: int, limits: bool, seed: int) -> fo.Instance:
    """Demands over two decades, 3 resources, servers that differ, 70% of the pairs eligible."""
    return fo.datasets.log_uniform(
        n_users, 3, n_servers=servers, different_servers=True, ineligible=0.3, limits=limits, decades=2.0, seed=seed
    )


def without_limits(instance: fo.Instance) -> fo.Instance:
    """The same users, who want all they can get."""
    return instance.with_task_limits(np.full(instance.n_users, np.inf))


def plain(instance: fo.Instance) -> highspy.HighsLp:
    """Max-min of dominant shares as matrices: tasks by pair, and the level; rows divided by capacities."""
    user, server = np.nonzero(instance.eligible)
    n, pairs = instance.n_users, np.arange(len(user))
    demands, capacities = instance.demands[user], (instance.capacities * instance.counts[:, None])[server]
    loads = np.divide(demands, capacities, out=np.zeros(demands.shape), where=demands > 0)
    rows = server[:, None] * instance.n_resources + np.arange(instance.n_resources)
    shape = (instance.n_servers * instance.n_resources, len(user))
    capacity = sp.csr_array((loads.ravel(), (rows.ravel(), np.repeat(pairs, instance.n_resources))), shape=shape)
    per_task = (instance.dominant_shares / instance.weights)[user]
    shares = sp.csr_array((per_task, (user, pairs)), shape=(n, len(user)))
    limited = np.flatnonzero(np.isfinite(instance.task_limits))
    totals = sp.csr_array((np.ones(len(user)), (user, pairs)), shape=(n, len(user)))[limited]
    matrix = sp.block_array([[capacity, None], [shares, -np.ones((n, 1))], [totals, None]], format="csc")
    matrix.eliminate_zeros()
    model, inf = highspy.HighsLp(), np.inf
    model.num_row_, model.num_col_ = matrix.shape
    model.col_cost_ = np.append(np.zeros(len(user)), -1.0)
    model.col_lower_, model.col_upper_ = np.zeros(len(user) + 1), np.full(len(user) + 1, inf)
    model.row_lower_ = np.concatenate([np.full(shape[0], -inf), np.zeros(n), np.full(len(limited), -inf)])
    model.row_upper_ = np.concatenate([np.ones(shape[0]), np.full(n, inf), instance.task_limits[limited]])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    return model


def by_matrices(model: highspy.HighsLp) -> float:
    """The max-min level by HiGHS, as it comes."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    solver.run()
    return -float(solver.getInfo().objective_function_value)


def by_cvxpy(instance: fo.Instance) -> float:
    """The same through CVXPY."""
    return float(fo.Policy(fo.MaxMin()).problem(instance).solve(solver="HIGHS"))


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """The largest relative difference."""
    return float(abs(a / b - 1.0).max())


def in_programs(name: str, policy: fo.Policy, instance: fo.Instance, repeats: int, slow: bool) -> dict[str, Any]:
    """All levels beside one program."""
    free = without_limits(instance)
    sides = {
        "all": partial(policy.allocate, instance),
        "lp": partial(by_matrices, plain(instance)),
        "free": partial(by_matrices, plain(free)),
        "cvxpy": partial(by_cvxpy, free),
    }
    if slow:
        sides["programs"] = partial(policy.allocate, instance, method="cone")
    answers, seconds = answered(sides, repeats, patience=30.0)
    took = {side: median(measured) for side, measured in seconds.items()}
    ours = answers["all"]
    if ours.certificate.method != "levels":
        raise RuntimeError(f"{instance!r} was solved by {ours.certificate.method}")
    if isinstance(policy.objective, fo.Leximin) and policy.objective.share == fo.DominantShare():
        differs = apart((ours.shares / instance.weights).min(), np.array(answers["lp"]))
        if differs > 1e-6:
            raise AssertionError(f"{instance!r}: the first level is {differs:.1e} off")
    unit = min(took["free"], took["cvxpy"])
    row = {
        "instance": name,
        "users": instance.n_users,
        "levels": len(ours.certificate.gaps),
        "programs": ours.certificate.tried[-1].status,
        "gap": ours.certificate.gap,
        "all levels s": took["all"],
        "one LP s": took["free"],
        "by CVXPY s": took["cvxpy"],
        "with limits s": took["lp"],
        "LPs": took["all"] / unit,
        "LPs with limits": took["all"] / took["lp"],
    }
    if slow:
        row["by programs s"] = took["programs"]
        row["apart"] = apart(ours.shares, answers["programs"].shares)
    return row


@one_thread()
def levels_of(instance: fo.Instance) -> tuple[np.ndarray, float, float, gate.JudgedPoint]:
    """Levels per user, CPU seconds of method and gate together, those of the gate, and the answer."""
    begun = time.process_time()
    program = Program(instance, fo.Leximin(), ())
    method = leximin.solve_leximin_on_servers(program, Settings())
    proposal = next(method)
    found = time.process_time()
    answer = gate.judge(program, proposal)
    ended = time.process_time()
    levels = program.expand(answer.tasks).sum(axis=1) * instance.dominant_shares / instance.weights
    return levels, ended - begun, ended - found, answer


def growing(sizes: list[int], servers: int, rows_users: int, repeats: int, seed: int) -> list[dict[str, Any]]:
    """All levels of DRFH at growing numbers of users."""
    rows, few = [], leximin.choosing_at_first
    for limits in (False, True):
        before: tuple[int, float] | None = None
        for n in sorted(sizes):
            instance = cluster(n, servers, limits, seed)
            runs = [levels_of(instance) for _ in range(repeats)]
            levels, _, _, answer = runs[0]
            seconds, by_gate = (median([run[k] for run in runs]) for k in (1, 2))
            growth = np.log(seconds / before[1]) / np.log(n / before[0]) if before else np.nan
            row = {
                "limits": limits,
                "users": n,
                "levels": len(answer.gaps),
                "programs": answer.tried[-1].status,
                "gap": answer.gap,
                "all levels s": seconds,
                "gate s": by_gate,
                "growth": growth,
            }
            if n <= rows_users:
                leximin.choosing_at_first = lambda n_groups, *_: n_groups
                other, row["rows for all s"], *_ = levels_of(instance)
                leximin.choosing_at_first = few
                row["apart"] = apart(levels, other)
            rows.append(row)
            before = (n, seconds)
    return rows


def verified(sizes: list[int], servers: int, seeds: int) -> list[dict[str, Any]]:
    """What `fo.verify` says of saved answers, and its CPU seconds."""
    rows = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "answer.json"
        for n in sizes:
            for limits in (False, True):
                proved, gaps, seconds = 0, [], []
                for seed in range(1, seeds + 1):
                    fo.DRF().allocate(cluster(n, servers, limits, seed)).save(path)
                    begun = time.process_time()
                    found = fo.verify(path)
                    seconds.append(time.process_time() - begun)
                    gaps.append(np.inf if found.gap is None else found.gap)
                    proved += found.ok
                quantiles = np.quantile(seconds, (0.5, 0.9, 1.0))
                row = {"users": n, "limits": limits, "answers": seeds, "proved": proved, "largest gap": max(gaps)}
                rows.append(row | dict(zip(("median s", "90% s", "most s"), map(float, quantiles), strict=True)))
    return rows


def by_peer(instance: fo.Instance) -> np.ndarray:
    """Tasks by cvxpy-leximin, made to fit; imported here, since it changes `cvxpy.Problem` for the whole process."""
    import cvxpy_leximin

    tasks = cp.Variable(instance.eligible.shape, nonneg=True)
    total, limits = cp.sum(tasks, axis=1), instance.task_limits
    capacity = instance.capacities * instance.counts[:, None]
    limited = np.flatnonzero(np.isfinite(limits))
    held = [instance.demands.T @ tasks <= capacity.T, cp.multiply(tasks, ~instance.eligible) == 0]
    if len(limited):
        held.append(total[limited] <= limits[limited])
    shares = cp.multiply(instance.dominant_shares / instance.weights, total)
    objective = cvxpy_leximin.Leximin([shares[j] for j in range(instance.n_users)])
    try:
        cvxpy_leximin.Problem(objective, held).solve(method="saturation")
    except (cp.error.SolverError, ValueError):  # what it raises where it cannot go on
        return np.zeros(instance.n_users)
    found = np.clip(tasks.value, 0.0, None) * instance.eligible
    found *= np.minimum(1.0, limits / np.maximum(found.sum(axis=1), 1e-300))[:, None]
    over = np.maximum((instance.demands.T @ found / capacity.T).max(axis=0), 1.0)
    return np.asarray((found / over).sum(axis=1))


def against_peer(instance: fo.Instance, repeats: int) -> dict[str, Any]:
    """DRFH by both, in the order of leximin."""
    policy = fo.DRF()
    sides = {"fairopt": partial(policy.allocate, instance), PEER: partial(by_peer, instance)}
    answers, seconds = answered(sides, repeats, patience=0.5)
    ours = answers["fairopt"]
    shares = instance.dominant_shares * answers[PEER]
    ahead = np.sort(shares / instance.weights) / np.sort(ours.shares / instance.weights) - 1
    differs = ahead[abs(ahead) > 1e-9]  # beyond rounding, the first difference decides
    if len(differs) and differs[0] > 0:
        raise AssertionError(f"{instance!r}: {PEER} is better by {differs[0]:.1e} than what is certified")
    return {
        "users": instance.n_users,
        "servers": instance.n_servers,
        "fairopt ms": 1e3 * median(seconds["fairopt"]),
        "peer ms": 1e3 * median(seconds[PEER]),
        "times faster": median(seconds[PEER]) / median(seconds["fairopt"]),
        "our gap": ours.certificate.gap,
        "shares apart": apart(shares, ours.shares) if shares.any() else np.inf,
    }


def main() -> None:
    """The peer comes last: it changes CVXPY when it is imported."""
    options = arguments(
        str(__doc__),
        users=[1000],
        servers=27,
        peer_users=[5, 10, 20, 50],
        peer_servers=5,
        time_limit=60.0,
        repeats=3,
        seed=1,
        openb="",
        growth_users=[1000, 5000, 20000],
        rows_users=5000,
        verify_users=[1000, 2000, 3000],
        verify_servers=9,
        verify_seeds=34,
    )
    rows = []
    for n in options.users:
        for limits in (False, True):
            instance = cluster(n, options.servers, limits, options.seed)
            name = "limits" if limits else "no limits"
            rows.append(in_programs(f"DRFH, {name}", fo.DRF(), instance, options.repeats, slow=n <= 1000))
            rows.append(in_programs(f"TSF, {name}", fo.TSF(), instance, options.repeats, slow=n <= 1000))
    if options.openb:
        trace = fc.read_openb(options.openb, pods="gpuspec33", capacity_scale=0.5).merged()
        rows.append(in_programs("DRFH, openb gpuspec33 at half", fo.DRF(), trace, options.repeats, slow=True))
    show("All levels of leximin in units of one max-min program", rows, "leximin")
    rows = growing(options.growth_users, options.servers, options.rows_users, options.repeats, options.seed)
    show("All levels of DRFH at growing numbers of users, CPU seconds", rows, "leximin-growth")
    rows = verified(options.verify_users, options.verify_servers, options.verify_seeds)
    show("Saved answers of DRFH, verified, CPU seconds", rows, "leximin-verified")
    if find_spec(MODULE) is None:
        print(f"{PEER} is not installed, and skipped: pip install {PEER}")
        return
    rows, took, last = [], 0.0, 1
    for n in sorted(options.peer_users):
        if took * (n / last) ** GROWTH > options.time_limit:
            print(f"{PEER}: {n} users would take more than {options.time_limit:g} s")
            break
        rows.append(against_peer(cluster(n, options.peer_servers, True, options.seed), options.repeats))
        took, last = 1e-3 * rows[-1]["peer ms"], n
    show(f"DRFH: fairopt beside {PEER}", rows, "leximin-peer")


if __name__ == "__main__":
    main()
