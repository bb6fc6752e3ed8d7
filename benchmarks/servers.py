"""Prices on several different servers against the cone method (CLARABEL) and, for max-min, HiGHS's interior point.

Both sides certify their answers; the objectives and the gaps are compared. The cone method takes a minute or two for
20,000 users, so it runs on fewer unless asked. The first table is about the price method alone, at sizes where nothing
else is at hand: its time in units of one evaluation of all users' responses to given prices, and the process's memory.

Run: python benchmarks/servers.py [--reference-users 20000 --reference-repeats 0] [--users 20000,100000]
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo
from fairopt.proof.gate import JudgedPoint
from fairopt.solve.cluster import alpha_fair
from fairopt.solve.dispatch import best
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings

SERVERS, RESOURCES = 27, 3
INTERIOR_POINT = {"HIGHS": {"highs_options": {"solver": "ipm", "run_crossover": "off"}}}
SIDES: list[tuple[fo.Objective, str]] = [
    (fo.AlphaFair(1), "CLARABEL"),
    (fo.AlphaFair(2), "CLARABEL"),
    (fo.MaxMin(), "HIGHS"),
]


def instance_of(n_users: int) -> fo.Instance:
    """Demands over two decades on servers that differ, 70% of the pairs eligible."""
    return fo.datasets.log_uniform(
        n_users, RESOURCES, n_servers=SERVERS, different_servers=True, ineligible=0.3, decades=2.0, seed=1
    )


def by_prices(instance: fo.Instance, objective: fo.Objective) -> JudgedPoint:
    """The method, with everything that a policy's call does before and after it left out on purpose but the proof."""
    program = Program(instance, objective, ())
    return best(program, alpha_fair.solve_alpha_fair_on_servers(program, Settings()))


def value_of(instance: fo.Instance, objective: fo.Objective, answer: JudgedPoint) -> float:
    """The objective in natural units."""
    program = Program(instance, objective, ())
    return objective.value(fo.blocks.model.Point(program.instance, program.pairs.table(answer.tasks)))


def response(instance: fo.Instance, alpha: float) -> Callable[[], Any]:
    """What no method of prices avoids: costs, a soft minimum over servers, levels and loads at given prices."""
    ratios = instance.demands / instance.dominant_shares[:, None]
    share = 1.0 / instance.capacities
    hardness = np.where(instance.eligible, 1.0, np.inf)
    prices = np.random.default_rng(0).uniform(0.5, 2.0, instance.capacities.shape) * share

    def run() -> np.ndarray:
        costs = (ratios @ prices.T) * hardness
        soft = costs**-50.0
        total = soft.sum(axis=1)
        least = total ** (-1 / 50.0)
        spent = soft / costs * (least ** (1 - 1 / alpha) / total)[:, None]
        return (ratios.T @ spent).T * share

    return run


def against_cones(n_users: int, repeats: int) -> list[dict[str, Any]]:
    """Both sides on one instance for every objective."""
    instance = instance_of(n_users)
    rows = []
    for objective, solver in SIDES:
        ours = partial(by_prices, instance, objective)
        theirs = partial(
            fo.Policy(objective).allocate, instance, solver=solver, solver_options=INTERIOR_POINT.get(solver)
        )
        answer, other = ours(), theirs()
        value = value_of(instance, objective, answer)
        apart = abs(value - other.objective) / max(abs(value), abs(other.objective))
        seconds = {"theirs": [other.certificate.seconds], "ours": []}
        if repeats:
            seconds = interleaved({"ours": ours, "theirs": theirs}, repeats)
        else:  # one run of the slow side is all there is time for
            seconds["ours"] = interleaved({"ours": ours}, 3)["ours"]
        rows.append(
            {
                "policy": repr(objective),
                "users": n_users,
                "prices s": median(seconds["ours"]),
                "solver": solver,
                "solver s": median(seconds["theirs"]),
                "times faster": median(seconds["theirs"]) / median(seconds["ours"]),
                "prices gap": answer.gap,
                "solver gap": other.certificate.gap,
                "values agree to": apart,
            }
        )
    return rows


def alone(n_users: int, repeats: int) -> list[dict[str, Any]]:
    """The price method in units of response evaluations."""
    instance = instance_of(n_users)
    rows = []
    for objective, _ in SIDES:
        alpha = objective.alpha if isinstance(objective, fo.AlphaFair) else 1.0
        answer = by_prices(instance, objective)
        sides = {"prices": partial(by_prices, instance, objective), "response": response(instance, alpha)}
        seconds = {side: median(measured) for side, measured in interleaved(sides, repeats).items()}
        per_unit = 1 if sys.platform == "darwin" else 1024
        rows.append(
            {
                "policy": repr(objective),
                "users": n_users,
                "seconds": seconds["prices"],
                "response s": seconds["response"],
                "responses": seconds["prices"] / seconds["response"],
                "gap": answer.gap,
                "violation": answer.violation,
                "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * per_unit / 1e9,
            }
        )
    return rows


def main() -> None:
    """Memory first: what the reference takes would hide it."""
    options = arguments(str(__doc__), users=[20_000, 100_000], reference_users=2000, repeats=3, reference_repeats=1)
    show(
        "Prices on several servers", [row for n in options.users for row in alone(n, options.repeats)], "servers_alone"
    )
    rows = against_cones(options.reference_users, options.reference_repeats)
    show("Prices on several servers against the cone method", rows, "servers")


if __name__ == "__main__":
    main()
