"""H-FFMRA in closed form, in units of one evaluation of ``demands.sum()`` on the same array, and beside cone solvers.

The whole call is timed (making the instance is taken off): bundles, the tasks in them, prices and the certificate. The
first call also pays for fresh memory (29 MB of answers at the default size), which a median of several leaves out.
Answers of the solvers are compared with the closed form's on a smaller instance.

Run: python benchmarks/bundles.py [--users 400 --servers 3000] [--small 20]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from common import answered, arguments, interleaved, median, show

import fairopt as fo
from fairopt.solve.form import solvers


def instance_of(n_users: int, n_servers: int, heavy: float, seed: int = 1) -> fo.Instance:
    """Two resources, demands by server; ``heavy`` is the mean request as a part of the fair share."""
    rng = np.random.default_rng(seed)
    capacities = rng.uniform(500, 1500, (n_servers, 2)) * [1, 2]
    fair = capacities / n_users
    return fo.Instance(rng.uniform(0.1, 1.9, (n_users, n_servers, 2)) * fair * heavy, capacities)


def in_evaluations(n_users: int, n_servers: int, repeats: int) -> list[dict[str, Any]]:
    """The closed form against one pass over the demands."""
    rows = []
    for name, heavy in (
        ("requests of half the fair share", 0.5),
        ("of 20 fair shares", 20.0),
        ("of 1.05: requests are limits", 1.05),
    ):
        instance = instance_of(n_users, n_servers, heavy)
        again = {"demands": instance.demands, "capacities": instance.capacities}  # a new one: nothing is remembered
        policy = fo.HFFMRA()
        answer = policy.allocate(instance)
        sides = {
            "ours": lambda a=again, p=policy: p.allocate(fo.Instance(**a)),
            "new": partial(fo.Instance, **again),
            "sum": instance.demands.sum,
        }
        seconds = {side: median(measured) for side, measured in interleaved(sides, repeats).items()}
        ours = seconds["ours"] - seconds["new"]
        rows.append(
            {
                "instance": name,
                "users x servers": f"{n_users} x {n_servers}",
                "milliseconds": 1e3 * ours,
                "sum ms": 1e3 * seconds["sum"],
                "evaluations": ours / seconds["sum"],
                "gap": answer.certificate.gap,
                "violation": answer.certificate.violation,
            }
        )
    return rows


def beside_solvers(n_users: int, repeats: int) -> list[dict[str, Any]]:
    """The closed form and every cone solver on one instance."""
    instance, policy = instance_of(n_users, n_users, 0.8), fo.HFFMRA()
    sides = {"closed": partial(policy.allocate, instance)}
    sides |= {name: partial(policy.allocate, instance, solver=name) for name in solvers.chain(False)}
    answers, seconds = answered(sides, repeats)
    exact = answers["closed"]
    return [
        {
            "method": name,
            "users x servers": f"{n_users} x {n_users}",
            "seconds": median(seconds[name]),
            "times slower": median(seconds[name]) / median(seconds["closed"]),
            "gap": answer.certificate.gap,
            "bundles agree to": float(np.abs(answer.bundles / exact.bundles - 1).max()),
        }
        for name, answer in answers.items()
    ]


def main() -> None:
    """Both tables."""
    options = arguments(str(__doc__), users=400, servers=3000, small=20, repeats=9)
    show("H-FFMRA in closed form", in_evaluations(options.users, options.servers, options.repeats), "bundles")
    show("H-FFMRA beside cone solvers", beside_solvers(options.small, 3), "bundles_solvers")


if __name__ == "__main__":
    main()
