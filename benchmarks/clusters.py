"""Clusters of many servers beside the same model by hand in plain CVXPY: default threads, one thread, busy machines.

Every other pair of user and server is eligible, demands of 3 resources are over two decades, and servers differ. By
hand is a variable by eligible pair, sparse rows near 1 (versus_hand.py), and CVXPY with Clarabel and, where the program
is linear, HiGHS, as they come. DRF by hand is a program for each level, after which users with a positive multiplier
are kept at theirs; it ends where none is clear, or after `ENOUGH` seconds. Max-min is the first of these.

Seconds are medians of sides in turn, those of calls, instance read and model not yet written. ``1 thread`` is fairopt
with BLAS limited to one thread; ``times`` is by hand, the faster solver, over fairopt. ``apart`` is how far values by
hand, of DRF the lowest level, are below the certified one; none may be better by over 1e-6. With ``--busy`` all is
measured again beside as many processes that do nothing but compute.

Run: python benchmarks/clusters.py [--sizes 200x50,1000x100 --only FDS --repeats 5 --busy 2]
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from common import answered, arguments, median, on_one_thread, show
from versus_hand import Plain

import fairopt as fo

ENOUGH = 60.0
KEPT, CLEAR = 1e-8, 1e-6  # of a level, which later ones may lose; of the multipliers, which sum to 1
SIZES = ("200x50", "400x50", "200x200", "1000x100")
Side = Callable[[], Any]
# By name: the policy; by hand the form of shares, or tasks, per weight near 1, and the solvers; the value of shares.
CASES: dict[str, tuple[fo.Policy, Callable[[Any], Any], tuple[str, ...], Callable[[Any], float]]] = {
    "DRF": (fo.DRF(), cp.min, ("CLARABEL", "HIGHS"), np.min),
    "max-min": (fo.Policy(fo.MaxMin()), cp.min, ("CLARABEL", "HIGHS"), np.min),
    "FDS 2": (fo.FDS(2), lambda s: -cp.sum(cp.inv_pos(s)), ("CLARABEL",), lambda s: -np.sum(1 / s)),
    "Nash": (fo.NashWelfare(), lambda s: cp.sum(cp.log(s)), ("CLARABEL",), lambda s: np.exp(np.mean(np.log(s)))),
    "most tasks": (fo.MostTasks(), cp.sum, ("CLARABEL", "HIGHS"), np.sum),
}


def cluster(size: str) -> fo.Instance:
    """An instance of so many users x servers."""
    n, servers = map(int, size.split("x"))
    return fo.datasets.log_uniform(
        n, 3, n_servers=servers, different_servers=True, ineligible=0.5, decades=2.0, zeros=0.1, seed=1
    )


def coefficients(instance: fo.Instance, name: str) -> Any:
    """What is levelled or summed, by task of each user."""
    return np.ones(instance.n_users) if name == "most tasks" else instance.dominant_shares


def by_hand(instance: fo.Instance, name: str, solver: str) -> float:
    """The value of the answer, scaled down to what fits."""
    _, form, _, value = CASES[name]
    none = np.full(instance.n_users, np.inf)
    plain = Plain(instance.demands, instance.capacities, instance.weights, none, instance.eligible, np.zeros(len(none)))
    y = cp.Variable(len(plain.user), nonneg=True)
    (table, right), c = plain.rows, coefficients(instance, name)
    shares = plain.sums(plain.user, plain.n, plain.unit * c[plain.user])
    size = float(np.median(shares @ np.ones(len(plain.user))))
    rows = (table * plain.unit).tocsr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "DRF":
            by_levels(y, shares / size, [rows @ y <= right], solver)
        else:
            cp.Problem(cp.Maximize(form((shares / size) @ y)), [rows @ y <= right]).solve(solver=solver)
    if y.value is None:
        return np.nan
    tasks = np.maximum(y.value, 0.0)
    return float(value(shares @ tasks / max(float((rows @ tasks).max()), 1.0)))


def by_levels(y: cp.Variable, shares: Any, fits: list[Any], solver: str) -> None:
    """All levels of shares, one program after another."""
    end, levels = time.perf_counter() + ENOUGH, np.full(shares.shape[0], np.nan)
    while (free := np.isnan(levels)).any() and time.perf_counter() < end:
        level = cp.Variable()
        rising, kept = shares[free] @ y >= level, shares[~free] @ y >= levels[~free] * (1 - KEPT)
        cp.Problem(cp.Maximize(level), [*fits, rising, *[kept] * (not free.all())]).solve(solver=solver)
        if level.value is None or not (clear := rising.dual_value > CLEAR).any():
            return
        levels[np.flatnonzero(free)[clear]] = level.value


def row(size: str, name: str, repeats: int, where: str) -> dict[str, Any]:
    """One case, all sides in turn."""
    policy, _, solvers, value = CASES[name]
    instance = cluster(size)
    solve = partial(policy.allocate, instance)
    sides: dict[str, Side] = {"fairopt": solve, "1 thread": on_one_thread(solve)}
    sides |= {solver: partial(by_hand, instance, name, solver) for solver in solvers}
    policy.allocate(instance)  # imports
    answers, seconds = answered(sides, repeats, patience=5.0)
    ours = float(value(coefficients(instance, name) * answers["fairopt"].tasks))
    apart = {solver: (ours - answers[solver]) / abs(ours) for solver in solvers}
    assert not min(apart.values()) < -1e-6, f"{name}, {size}: by hand is better by {-min(apart.values()):.1e}"
    taken = {side: median(seconds[side]) for side in sides}
    least = min(taken[solver] for solver in solvers)
    return {
        "cluster": size,
        "notion": name,
        "machine": where,
        "fairopt s": taken["fairopt"],
        "1 thread s": taken["1 thread"],
        "over 1 thread": taken["fairopt"] / taken["1 thread"],
        "Clarabel s": taken["CLARABEL"],
        "HiGHS s": taken.get("HIGHS", np.nan),
        "times": least / taken["fairopt"],
        "apart": max(apart.values(), key=abs),
        "method": answers["fairopt"].certificate.method,
    }


def rows(sizes: Sequence[str], only: str, repeats: int, where: str = "as it is") -> list[dict[str, Any]]:
    """Of all cases."""
    return [row(size, name, repeats, where) for size in sizes for name in CASES if only in name]


def _compute() -> None:
    while True:
        time.perf_counter()


@contextmanager
def busy(number: int) -> Iterator[None]:
    """As many processes that compute beside the block."""
    processes = [multiprocessing.Process(target=_compute, daemon=True) for _ in range(number)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def main() -> None:
    """Print the table."""
    options = arguments(str(__doc__), sizes=list(SIZES), only="", repeats=5, busy=2)
    found = rows(options.sizes, options.only, options.repeats)
    with busy(options.busy):
        if options.busy:
            found += rows(options.sizes, options.only, options.repeats, f"{options.busy} busy processes")
    show("Clusters of many servers beside CVXPY by hand", found, "clusters")


if __name__ == "__main__":
    main()
