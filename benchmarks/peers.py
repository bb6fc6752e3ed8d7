"""fairopt beside other ways to the same answers, in one process.

By hand: the model as a user of CVXPY would write it, in natural units, solved by CVXPY's default solver as it comes.
``cvxpy-leximin``: leximin as a CVXPY objective, by its methods for convex domains, on the dominant shares (DRF).
What a peer answers is made to fit, judged by the bottleneck condition that certifies leximin, written out here (right:
to 1e-6), and compared with fairopt's certified answer: nothing feasible may be better. A peer that is not installed is
skipped; one that would take longer than --time-limit by its last time is not run on more users.

Looked at and left out: fairpyx (items handed out by valuations, courses above all), resalloc (each job takes resources
in place of each other, not in proportion; not on PyPI), Soroush (approximate max-min; needs Gurobi and its licence).

Run: python benchmarks/peers.py [--users 5,10,20,50,100 --time-limit 600]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from common import answered, arguments, median, show

import fairopt as fo
from fairopt.allocation import feasibility

PEER, MODULE = "cvxpy-leximin", "cvxpy_leximin"
INSTANCES = {"no limits": False, "limits": True}
BY_HAND: dict[str, tuple[fo.Policy, Callable[[Any], Any]]] = {
    "max-min": (fo.Policy(fo.MaxMin()), cp.min),
    "alpha = 0.5": (fo.FDS(0.5), lambda s: cp.sum(cp.sqrt(s)) * 2),
    "alpha = 1": (fo.FDS(1), lambda s: cp.sum(cp.log(s))),
    "alpha = 2": (fo.FDS(2), lambda s: -cp.sum(cp.inv_pos(s))),
}


class Method(NamedTuple):
    """A way of the peer's to solve, its tolerances above and below a level, and how its time grows.

    Seconds grow as the users to the power ``growth``, by what was measured from 10 to 50 of them: n programs, each
    compiled anew, of n or n^2 conditions.
    """

    name: str
    above: float
    below: float
    growth: float


# Tolerances as they come (small users can gain 1% of their level from 0.1% of all others', so it may see no end),
# and as fine as made it answer for 50 users.
METHODS = {
    "outcomes": Method("ordered_outcomes", 1.01, 0.999, 3.0),
    "saturation": Method("saturation", 1.01, 0.999, 2.2),
    "saturation fine": Method("saturation", 1.0001, 1 - 1e-7, 2.2),
}


def dominant(instance: fo.Instance) -> np.ndarray:
    """Dominant share of a task of each user."""
    return (instance.demands / instance.capacities[0]).max(axis=1)


def conditions(instance: fo.Instance, tasks: cp.Variable) -> list[cp.Constraint]:
    """Capacities and task limits in natural units."""
    limited = np.flatnonzero(np.isfinite(instance.task_limits))
    held = [instance.demands.T @ tasks <= instance.capacities[0]]
    return [*held, tasks[limited] <= instance.task_limits[limited]] if len(limited) else held


def fitted(instance: fo.Instance, tasks: np.ndarray) -> np.ndarray:
    """Tasks cut to limits, then all scaled down to the capacities."""
    tasks = np.clip(tasks, 0.0, instance.task_limits)
    return tasks / max(1.0, float((tasks @ instance.demands / instance.capacities[0]).max()))


def bottleneck_gap(instance: fo.Instance, tasks: np.ndarray) -> float:
    """How far each user is from being at its limit, or from a full resource on which no user has a larger share.

    To 1e-6 a user is at its limit.
    """
    ratios = instance.demands / instance.capacities[0]
    shares = ratios.max(axis=1) * tasks
    top = np.where(ratios > 0, shares[:, None], 0.0).max(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.maximum(top / shares[:, None] - 1, 1 - tasks @ ratios)
    least = np.where(ratios > 0, excess, np.inf).min(axis=1)
    return float(np.max(least, where=tasks < instance.task_limits * (1 - 1e-6), initial=0.0))


def by_hand(instance: fo.Instance, objective: Callable[[Any], Any]) -> tuple[str, np.ndarray]:
    """The textbook model: what was solved with which word, and the tasks."""
    tasks = cp.Variable(instance.n_users, nonneg=True)
    problem = cp.Problem(cp.Maximize(objective(cp.multiply(dominant(instance), tasks))), conditions(instance, tasks))
    try:
        problem.solve()
    except cp.error.SolverError:
        return "solver error", np.zeros(instance.n_users)
    words = f"{problem.solver_stats.solver_name}: {problem.status}" if problem.solver_stats else str(problem.status)
    return words, np.zeros(instance.n_users) if tasks.value is None else np.asarray(tasks.value)


def by_peer(instance: fo.Instance, method: str) -> tuple[str, np.ndarray]:
    """Leximin by cvxpy-leximin; imported here, since it changes `cvxpy.Problem` for the whole process."""
    import cvxpy_leximin

    tasks = cp.Variable(instance.n_users, nonneg=True)
    shares = cp.multiply(dominant(instance), tasks)
    objective = cvxpy_leximin.Leximin([shares[j] for j in range(instance.n_users)])
    name, above, below, _ = METHODS[method]
    problem = cvxpy_leximin.Problem(
        objective, conditions(instance, tasks), upper_tolerance=above, lower_tolerance=below
    )
    try:
        problem.solve(method=name)
    except (cp.error.SolverError, ValueError) as error:  # what it raises where it cannot go on
        return type(error).__name__, np.zeros(instance.n_users)
    return str(problem.status), np.asarray(tasks.value)


def mean(shares: np.ndarray, objective: fo.Objective) -> float:
    """The power mean that an objective stands for: a number in units of shares."""
    if isinstance(objective, fo.MaxMin):
        return float(shares.min())
    assert isinstance(objective, fo.AlphaFair)
    if objective.alpha == 1:
        return float(np.exp(np.log(shares).mean()))
    return float((shares ** (1 - objective.alpha)).mean() ** (1 / (1 - objective.alpha)))


def against_hand(name: str, instance: fo.Instance, repeats: int, patience: float) -> dict[str, Any]:
    """The textbook model beside the certified answer; values after tasks are made to fit."""
    policy, objective = BY_HAND[name]
    sides = {"fairopt": partial(policy.allocate, instance), "by hand": partial(by_hand, instance, objective)}
    answers, seconds = answered(sides, repeats, patience)
    ours, (words, tasks) = answers["fairopt"], answers["by hand"]
    with np.errstate(divide="ignore"):
        value = mean(dominant(instance) * fitted(instance, tasks), policy.objective)
    short = 1 - value / mean(ours.shares, policy.objective)
    if short < -ours.certificate.gap - 1e-12:
        raise AssertionError(f"{name}, {instance!r}: by hand is better by {-short:.1e} than what is certified")
    return {
        "objective": name,
        "users": instance.n_users,
        "fairopt ms": 1e3 * median(seconds["fairopt"]),
        "by hand ms": 1e3 * median(seconds["by hand"]),
        "its word": words,
        "times faster": median(seconds["by hand"]) / median(seconds["fairopt"]),
        "our gap": ours.certificate.gap,
        "its violation": feasibility(instance, tasks[:, None]),
        "it falls short": short,
    }


def against_peer(method: str, kind: str, instance: fo.Instance, repeats: int, patience: float) -> dict[str, Any]:
    """One method of the peer beside DRF."""
    policy = fo.DRF()
    sides = {"fairopt": partial(policy.allocate, instance), PEER: partial(by_peer, instance, method)}
    answers, seconds = answered(sides, repeats, patience)
    ours, (words, tasks) = answers["fairopt"], answers[PEER]
    fit, violation = fitted(instance, tasks), feasibility(instance, tasks[:, None])
    gap = bottleneck_gap(instance, fit) if tasks.any() else np.inf
    apart = float(abs(fit / ours.tasks - 1).max())
    right = "no answer" if not tasks.any() else "yes" if max(gap, violation) <= 1e-6 else "no"
    ahead = np.sort(dominant(instance) * fit) / np.sort(ours.shares) - 1
    differs = ahead[abs(ahead) > 1e-12]  # beyond rounding, the first difference decides
    if len(differs) and differs[0] > 0:
        raise AssertionError(f"{instance!r}: {PEER} is better by {differs[0]:.1e} than what is certified")
    return {
        "method": method,
        "instance": kind,
        "users": instance.n_users,
        "fairopt ms": 1e3 * median(seconds["fairopt"]),
        "peer ms": 1e3 * median(seconds[PEER]),
        "times faster": median(seconds[PEER]) / median(seconds["fairopt"]),
        "its word": words,
        "our gap": ours.certificate.gap,
        "its gap": gap,
        "its violation": violation,
        "shares apart": apart,
        "right": right,
    }


def main() -> None:
    """By hand first: the peer changes CVXPY when it is imported."""
    options = arguments(
        str(__doc__),
        users=[5, 10, 20, 50, 100],
        hand_users=[100, 1000, 10_000],
        time_limit=15.0,
        repeats=5,
        patience=0.5,
        seed=1,
    )
    rows = []
    for n in options.hand_users:
        instance = fo.datasets.log_uniform(n, 4, zeros=0.1, seed=options.seed)
        rows += [against_hand(name, instance, options.repeats, options.patience) for name in BY_HAND]
    show("fairopt beside the textbook model in CVXPY, default solver", rows, "peers-by-hand")
    if find_spec(MODULE) is None:
        print(f"{PEER} is not installed, and skipped: pip install {PEER}")
        return
    rows = []
    for method, way in METHODS.items():
        for kind, limits in INSTANCES.items():
            took, last = 0.0, 1
            for n in sorted(options.users):
                if took * (n / last) ** way.growth > options.time_limit:
                    print(f"{PEER}, {method}, {kind}: {n} users would take more than {options.time_limit:g} s")
                    break
                instance = fo.datasets.log_uniform(n, 4, zeros=0.1, limits=limits, seed=options.seed)
                rows.append(against_peer(method, kind, instance, options.repeats, options.patience))
                took, last = 1e-3 * rows[-1]["peer ms"], n
    show(f"DRF: fairopt beside {PEER}", rows, "peers")


if __name__ == "__main__":
    main()
