"""What `method="auto"` takes and how fast, against the cone method with each solver, on the same policy and instance.

Both sides return certificates, and certified answers must agree. A solver that is refused on some users (no certified
answer, or none in time) is not tried on more, nor is one that would run out of time if its time grew in proportion to
the users: it grows faster. ECOS has no clock and may take longer than it is given. SCIPY is HiGHS by another door and
OSQP certified nothing of 1,000 users: name them in --solvers to see. More users than --cone-users go the way of auto
alone. Run: python benchmarks/speed.py [--instances plain] [--users 1000000]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import answered, arguments, median, show

import fairopt as fo
from fairopt.solve.form.solvers import installed

POLICIES = {
    "DRF": fo.DRF(),
    "2-DF": fo.KDF(2, short="positive"),
    "FDS 0.5": fo.FDS(0.5),
    "FDS 1": fo.FDS(1),
    "FDS 2": fo.FDS(2),
    "FDS 5": fo.FDS(5),
    "GFJ 2": fo.GFJ(2),
    "most tasks": fo.MostTasks(),
    "FDS 0.5 + 0.1 total": fo.Policy(fo.AlphaFair(0.5) + 0.1 * fo.Total()),
    "FDS beta 0.5, lam 2": fo.FDS(beta=0.5, lam=2),
}
INSTANCES = {"full": {"weights": True, "limits": True}, "plain": {"weights": False, "limits": False}}
LINEAR = (fo.Leximin, fo.Total)  # objectives that need no cones
LINEAR_ONLY = {"HIGHS", "SCIPY", "OSQP"}
PATIENCE = 0.5  # seconds; slower sides run once
NONE = ""
WANTED, AIM = 50, 200  # times faster than the fastest cone solver on 10,000 users


def by_solver(
    policy: fo.Policy, instance: fo.Instance, solver: str, limit: float
) -> fo.Allocation | fo.errors.NotCertified:
    """The cone method's answer, or why there is none: that is a finding, not an error."""
    try:
        return policy.allocate(instance, solver=solver, time_limit=limit)
    except fo.errors.NotCertified as refusal:
        return refusal


def apart(policy: fo.Policy, one: fo.Allocation, other: fo.Allocation) -> tuple[float, float]:
    """How far two answers are apart, relatively, and how far they may be.

    Leximin has one answer, so tasks are compared; of sums and of fairness with efficiency the objectives; otherwise
    power means of the shares, of which certificates bound the excess over each answer.
    """
    objective, weights = policy.objective, one.instance.weights
    if isinstance(objective, fo.Leximin):
        return float(np.max(abs(one.tasks - other.tasks) / np.maximum(one.tasks, other.tasks))), 1e-5
    if not isinstance(objective, (fo.AlphaFair, fo.Total)):
        return abs(one.objective - other.objective) / abs(other.objective), 1e-6
    power = 1.0 - (objective.alpha if isinstance(objective, fo.AlphaFair) else 0.0)
    logs = [np.log(a.shares / weights) if power == 0 else (a.shares / weights) ** power for a in (one, other)]
    means = [float(weights @ values / weights.sum()) for values in logs]
    difference = means[0] - means[1] if power == 0 else np.log(means[0] / means[1]) / power
    return float(abs(difference)), max(one.certificate.gap, other.certificate.gap) + 1e-12


def compare(name: str, instance: fo.Instance, solvers: list[str], repeats: int, limit: float) -> list[dict[str, Any]]:
    """A row for each solver, or one without where there is none to ask."""
    policy = POLICIES[name]
    sides: dict[str, Callable[[], Any]] = {"auto": partial(policy.allocate, instance)}
    sides |= {solver: partial(by_solver, policy, instance, solver, limit) for solver in solvers}
    answers, seconds = answered(sides, repeats, PATIENCE)
    auto, ms = answers["auto"], {side: 1e3 * median(measured) for side, measured in seconds.items()}
    certificate = auto.certificate
    row = {
        "users": instance.n_users,
        "policy": name,
        "auto ms": ms["auto"],
        "auto gap": certificate.gap,
        "auto took": certificate.method + (f" ({certificate.solver})" if certificate.solver else ""),
    }
    rows = []
    for solver in solvers:
        answer = answers[solver]
        if isinstance(answer, fo.errors.NotCertified):
            verdict = "refused, no time" if 1e-3 * ms[solver] >= limit else "refused"
            rows.append(
                row
                | {
                    "solver": solver,
                    "solver ms": verdict,
                    "times faster": NONE,
                    "agree to": NONE,
                    "solver gap": answer.best.certificate.gap,
                }
            )
            continue
        difference, allowed = apart(policy, auto, answer)
        if difference > allowed:
            raise AssertionError(f"{name}, {instance!r}: auto and {solver} are {difference:.1e} apart ({allowed:.1e})")
        rows.append(
            row
            | {
                "solver": solver,
                "solver ms": ms[solver],
                "times faster": ms[solver] / ms["auto"],
                "agree to": difference,
                "solver gap": answer.certificate.gap,
            }
        )
    columns = ("solver", "solver ms", "times faster", "agree to", "solver gap")
    return rows or [row | dict.fromkeys(columns, NONE)]


def still_able(rows: list[dict[str, Any]], limit: float, name: str, n: int, solver: str) -> bool:
    """Whether a solver that was asked about fewer users may be asked about n."""
    return all(
        row["times faster"] != NONE and 1e-3 * row["solver ms"] * n / row["users"] <= limit
        for row in rows
        if (row["policy"], row["solver"]) == (name, solver)
    )


def fastest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By policy and number of users, the fastest solver whose answer was certified."""
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        key = (row["policy"], row["users"])
        if row["times faster"] != NONE and (key not in best or row["solver ms"] < best[key]["solver ms"]):
            best[key] = row
    kept = ("policy", "users", "auto took", "auto ms", "solver", "solver ms", "times faster")
    return [{column: row[column] for column in kept} for row in best.values()]


def main() -> None:
    """Print all rows, then those of the fastest solvers, then the least ratio on most users."""
    options = arguments(
        str(__doc__),
        users=[100, 1000, 10_000],
        cone_users=10_000,
        policies=list(POLICIES),
        instances=["full"],
        solvers=["CLARABEL", "ECOS", "HIGHS", "SCS"],
        resources=4,
        repeats=5,
        time_limit=10.0,
        seed=1,
    )
    limit = options.time_limit
    for kind in options.instances:
        rows: list[dict[str, Any]] = []
        for n in sorted(options.users):
            instance = fo.datasets.log_uniform(n, options.resources, zeros=0.1, seed=options.seed, **INSTANCES[kind])
            for name in options.policies:
                fit = installed() if isinstance(POLICIES[name].objective, LINEAR) else set(installed()) - LINEAR_ONLY
                solvers = [s for s in options.solvers if s in fit and still_able(rows, limit, name, n, s)]
                rows += compare(name, instance, solvers if n <= options.cone_users else [], options.repeats, limit)
        show(f"auto against the cone method ({kind} instances)", rows, f"speed-{kind}")
        best = fastest(rows)
        if best:
            show(f"auto against the fastest certified solver ({kind} instances)", best, f"speed-{kind}-fastest")
            most = [row for row in best if row["users"] == max(row["users"] for row in best)]
            least = min(most, key=lambda row: row["times faster"])
            none = set(options.policies) - {row["policy"] for row in most}
            print(
                f"{least['users']} users: {least['times faster']:.3g} times faster or more (least: {least['policy']}); "
                f"wanted on 10,000: {WANTED}, aim {AIM}. No solver in {limit:g} s: {sorted(none) or 'never'}"
            )


if __name__ == "__main__":
    main()
