"""Pareto efficiency of certified answers: none may be accused by noise, and every user who is cut short must be found.

Certified answers of notions that grow with every share, on pools and clusters, by the fast routes and by solvers. Then
one user of each runs half of what it ran, under the same certificate; "tiny" is a user of a millionth of the weight.
Users who run less than a hundredth of their own slice are not cut, since that may be noise itself. Run:
python benchmarks/efficiency.py --answers 2000
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import numpy as np
from common import arguments, show

import fairopt as fo
from fairopt.solve.form.solvers import installed

POLICIES = {
    "DRF": fo.DRF(),
    "2-DF": fo.KDF(2),
    "most tasks": fo.MostTasks(),
    "FDS 0.5": fo.FDS(0.5),
    "FDS 1": fo.FDS(1),
    "FDS 2": fo.FDS(2),
    "FDS 5": fo.FDS(5),
}
SOLVERS = [None, *(s for s in ("CLARABEL", "SCS", "ECOS") if s in installed())]


def efficient(answer: fo.Allocation) -> bool:
    """Whether it is, as far as `check` sees."""
    return bool(fo.check(answer, "pareto")["pareto"].holds)


def main() -> None:
    """Print a row for every policy, number of servers and kind of weights."""
    options = arguments(str(__doc__), answers=2000, seed=0)
    rng = np.random.default_rng(options.seed)
    count: dict[tuple[str, str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    answers = 0
    while answers < options.answers:
        n, servers = int(rng.choice([3, 10, 20, 100])), int(rng.choice([1, 1, 2, 4]))
        instance = fo.datasets.log_uniform(
            n,
            3,
            decades=float(rng.choice([2, 4])),
            weights=True,
            limits=bool(rng.random() < 0.5),
            n_servers=servers,
            different_servers=True,
            ineligible=0.3 if servers > 1 else 0.0,
            seed=int(rng.integers(2**32)),
        )
        tiny, solver = bool(rng.random() < 0.3), rng.choice(SOLVERS) if n <= 20 else None
        user = int(rng.integers(n))
        if tiny:
            instance = instance.with_weights(np.where(np.arange(n) == user, 1e-6, instance.weights))
        for name, policy in POLICIES.items():
            here = count[name, "pool" if servers == 1 else "servers", "tiny" if tiny else "usual"]
            try:
                answer: Any = policy.allocate(instance, solver=solver, time_limit=20)
            except fo.FairoptError:
                here["refused"] += 1
                continue
            answers += 1
            here["answers"] += 1
            here["accused"] += not efficient(answer)
            if answer.tasks[user] > 0.01 * instance.own_slices[user]:
                cut = answer.tasks_by_server * np.where(np.arange(n) == user, 0.5, 1.0)[:, None]
                found = not efficient(dataclasses.replace(answer, tasks_by_server=cut))
                here["found" if found else "missed"] += 1
    rows = [
        {
            "policy": name,
            "where": where,
            "weights": weights,
            **{key: tally[key] for key in ("answers", "refused", "accused", "found", "missed")},
        }
        for (name, where, weights), tally in sorted(count.items())
    ]
    show("Certified answers accused, and users cut by half found", rows, "efficiency")


if __name__ == "__main__":
    main()
