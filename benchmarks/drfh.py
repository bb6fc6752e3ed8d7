"""Max-min DRFH on many servers: HiGHS's default on the model as DRFH's paper writes it, beside fairopt, in one run.

First the openb trace, 151 request shapes on 1,523 servers of 27 kinds: the plain model has a row for every server,
fairopt merges those alike by itself. Then users on servers that all differ, where nothing merges: the method by prices,
and HiGHS's interior point and PDLP as ``solver_options`` ask for them, judged by fairopt's certificate. The loads of
every single server are worked out from the demands and capacities as read. A run of the plain model that reaches
--seconds is written down as such: what fairopt is faster by is then at least the ratio shown.

Run: python benchmarks/drfh.py [--openb ../shared/data/openb] [--users 200 --servers 2000] [--seconds 300]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import fairopt_clusters as fc
import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo

OPENB = Path(__file__).parents[1] / ".." / "shared" / "data" / "openb"
APART = 1e-6  # by which two optima may differ: what a certificate allows
OVERLOAD = 1e-6  # what HiGHS may overload a server by on the plain model; fairopt may by 1e-9
WAYS: dict[str, dict[str, Any]] = {
    "HiGHS interior point": {"solver": "ipm", "run_crossover": "off"},
    "HiGHS PDLP": {"solver": "pdlp"},
}


@dataclass(frozen=True)
class Outcome:
    """What one side found: its word for it, the level, and tasks by user and server."""

    status: str
    level: float
    tasks: np.ndarray


def plain(instance: fo.Instance, seconds: float) -> Outcome:
    """DRFH as written by Wang, Li and Liang: variables are dominant shares held by user and server, none merged."""
    shares = instance.dominant_shares
    held = cp.Variable((instance.n_users, instance.n_servers), nonneg=True)
    level = cp.Variable()
    normalised = instance.ratios / shares[:, None]
    within = held.T @ normalised <= instance.capacities / instance.total_capacities
    problem = cp.Problem(cp.Maximize(level), [within, cp.sum(held, axis=1) == level])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the time is up
        problem.solve(solver="HIGHS", time_limit=seconds)
    found = held.value is not None and level.value is not None
    tasks = held.value / shares[:, None] if found else np.zeros(held.shape)
    return Outcome(str(problem.status), float(level.value) if found else np.nan, tasks)


def ours(policy: fo.Policy, instance: fo.Instance, **how: Any) -> Outcome:
    """What fairopt answers, or could not certify."""
    try:
        allocation = policy.allocate(instance, **how)
    except fo.errors.NotCertified as error:
        gap = error.best.certificate.gap if error.best is not None else np.nan
        return Outcome(f"not certified, gap {gap:.1e}", np.nan, np.zeros((instance.n_users, instance.n_servers)))
    return Outcome(str(allocation.certificate), float(allocation.shares.min()), allocation.tasks_by_server)


def worst_load(instance: fo.Instance, tasks: np.ndarray) -> float:
    """The largest load of any server's resource, as a fraction of its capacity, on the data as given."""
    loads = tasks.T @ instance.demands
    per_capacity = np.divide(loads, instance.capacities, out=np.zeros_like(loads), where=instance.capacities > 0)
    return float(np.where(instance.capacities > 0, per_capacity, np.where(loads > 0, np.inf, 0.0)).max())


def compared(case: str, instance: fo.Instance, sides: dict[str, Callable[[], Outcome]], repeats: int) -> list[Any]:
    """One row for each side, the first being fairopt's own and the second the plain model."""
    found: dict[str, tuple[Outcome, float]] = {}
    for side, run in sides.items():
        start = time.perf_counter()
        outcome = run()
        seconds = time.perf_counter() - start
        if seconds < 5.0:  # what takes longer is run once
            seconds = median(interleaved({side: run}, repeats)[side])
        found[side] = outcome, seconds
    (best, unit), *others = found.values()
    rows = []
    for side, (outcome, seconds) in found.items():
        load = worst_load(instance, outcome.tasks)
        apart = abs(outcome.level / best.level - 1.0)
        fairopts = outcome.status.startswith("certified")
        if fairopts or outcome.status == "optimal":
            assert apart <= APART, f"{case}, {side}: {outcome.level!r} is not fairopt's {best.level!r}"
            assert load <= 1.0 + (1e-9 if fairopts else OVERLOAD), f"{case}, {side}: a load of {load!r}"
        rows.append(
            {
                "case": case,
                "side": side,
                "seconds": seconds,
                "times fairopt's": seconds / unit,
                "level": outcome.level,
                "levels apart": apart,
                "worst load": f"{load:.10f}",
                "outcome": outcome.status,
            }
        )
    assert best.status.startswith("certified") and others
    return rows


def on_openb(folder: str, seconds: float, repeats: int) -> list[Any]:
    """All request shapes of the trace without limits, so that all users want more than there is."""
    instance = fc.read_openb(folder, backlog=True)
    alone = np.all((instance.demands[:, None, :] <= 0) | (instance.capacities > 0), axis=2)
    assert (instance.eligible == alone).all(), "capacities of zero say who may run where; the plain model relies on it"
    sides = {
        "fairopt, merged by itself": lambda: ours(fo.Policy(fo.MaxMin()), instance),
        "plain model, HiGHS default": lambda: plain(instance, seconds),
        "fairopt, merged, HiGHS": lambda: ours(fo.Policy(fo.MaxMin()), instance, solver="HIGHS"),
        "fairopt, leximin (all levels)": lambda: ours(fo.DRF(), instance),
    }
    return compared(f"openb, {instance.n_users} x {instance.n_servers}", instance, sides, repeats)


def on_different_servers(users: int, servers: int, resources: int, seconds: float, repeats: int) -> list[Any]:
    """Demands over two decades, capacities over one, all users eligible everywhere."""
    instance = fo.datasets.log_uniform(users, resources, n_servers=servers, different_servers=True, decades=2.0, seed=1)
    assert instance.merged().n_servers == servers
    policy = fo.Policy(fo.MaxMin())
    sides = {
        "fairopt": lambda: ours(policy, instance),
        "plain model, HiGHS default": lambda: plain(instance, seconds),
    }
    for name, options in WAYS.items():
        sides[f"fairopt, {name}"] = lambda options=options: ours(
            policy, instance, solver="HIGHS", solver_options=options, time_limit=seconds
        )
    return compared(f"different, {users} x {servers} x {resources}", instance, sides, repeats)


def main() -> None:
    """Print both tables; fail where two answers differ, or a server is loaded beyond its capacity."""
    options = arguments(str(__doc__), openb=str(OPENB), users=200, servers=2000, resources=2, seconds=300.0, repeats=3)
    if (Path(options.openb) / "openb_node_list_all_node.csv").is_file():
        show("Max-min DRFH on openb", on_openb(options.openb, options.seconds, options.repeats), "drfh_openb")
    else:
        print(f"no openb trace in {options.openb}: skipped; say where it is by --openb FOLDER")
    rows = on_different_servers(options.users, options.servers, options.resources, options.seconds, options.repeats)
    show("Max-min DRFH on servers that all differ", rows, "drfh_different")


if __name__ == "__main__":
    main()
