"""All kinds of work in one run: beside others' ways to the same answer, or the unit they are meant in.

Others are models by hand (ECOS, HiGHS, Clarabel), the price loop of rates.py, and as units a max-min price solve,
alpha-fairness alone, and one evaluation of all users' responses. ``apart`` is how far their objective is from ours; it
may not be better than what is certified. Seconds are of the processor, medians of three of quick calls; the exponent is
the growth since the size before. Memory is the most that a call holds, in multiples of its tasks by user and server.
Clusters of many servers have a table of their own, in seconds, also on one BLAS thread (clusters.py).

Run: python benchmarks/goals.py [--largest 1000000 --only leximin --memory 1000000]
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import cuts
import leximin
import numpy as np
import overhead
import rates
from common import arguments, median, show

import clusters
import fairopt as fo
from fairopt.proof import gate

SLOW = 6.0  # seconds after which another way is not asked for the next size
SIZES = (1_000, 10_000, 100_000, 1_000_000)
Way = Callable[[fo.Policy, fo.Instance], Any]  # a float is the value of its answer, others are units of time


class Case(NamedTuple):
    """Sizes, the question, the value of an answer, and other ways by name, each up to a number of users."""

    sizes: tuple[int, ...]
    question: Callable[[int], tuple[fo.Policy, fo.Instance]]
    others: dict[str, tuple[int, Way]]
    value: Callable[[fo.Allocation], float] = lambda a: a.objective


def of_rates(kind: str, n: int) -> tuple[fo.Policy, fo.Instance]:
    """Jobs on types of devices, under a budget of time."""
    types, objective, *_ = rates.PROBLEMS[kind]
    per_type, devices = rates.rates_of(n, types, 0)
    jobs = fo.Instance(np.ones((n, 1)), devices[:, None], task_limits=np.ones(n))
    return fo.Policy(objective(rates.Rate(rates.Numbers(per_type)))), jobs


def rates_by(kind: str, solve: Callable[..., Any], policy: fo.Policy, jobs: fo.Instance) -> float:
    """The value of another's answer, made to fit."""
    per_type, devices = policy.objective.share.held.values, jobs.capacities[:, 0]
    return rates.PROBLEMS[kind][2]((per_type * rates.fitted(devices, solve(per_type, devices))).sum(axis=1))


def cases() -> dict[str, Case]:
    """By name."""
    pool, of = partial(fo.datasets.log_uniform, n_resources=4, seed=1), fo.Policy
    price_solve = (10**6, lambda _, i: of(fo.MaxMin()).allocate(i).objective)
    out: dict[str, Case] = {}
    for kind, (_, _, value, others) in rates.PROBLEMS.items():
        ways = {name: (10**5, partial(rates_by, kind, solve)) for name, solve in others.items()}
        out[kind] = Case(SIZES, partial(of_rates, kind), ways, lambda a, value=value: value(a.shares))
    for limits, name in ((False, "leximin on servers"), (True, "leximin on servers, limits")):
        lowest, ways = lambda a: float((a.shares / a.instance.weights).min()), {"max-min prices": price_solve}
        drawn = partial(leximin.cluster, servers=27, limits=limits, seed=1)
        out[name] = Case((1_000, 5_000, 20_000, 100_000), lambda n, drawn=drawn: (fo.DRF(), drawn(n)), ways, lowest)
    for beta, lam in ((2.0, -1.0), (0.5, 0.5)):
        ways = {"FDS(2)": (10**6, lambda _, i: fo.FDS(2).allocate(i))}
        notion = fo.FDS(beta=beta, lam=lam)
        out[f"FDS({beta}, {lam})"] = Case(SIZES, lambda n, notion=notion: (notion, pool(n)), ways)
    ways = {
        "FDS(.5)": (10**6, lambda _, i: fo.FDS(0.5).allocate(i)),
        "Clarabel": (10_000, lambda policy, i: float(policy.problem(i).solve(solver="CLARABEL"))),
    }
    out["AlphaFair(.5) + Total"] = Case(SIZES, lambda n: (of(fo.AlphaFair(0.5) + 0.1 * fo.Total()), pool(n)), ways)
    for name, (policy_of, sizes, limits, part) in cuts.cases().items():
        ways = {"HiGHS": (200 * part, lambda policy, i: cuts.program(i, policy))}
        out[name] = Case(sizes, lambda n, p=policy_of, limits=limits: (p(n), cuts.pool(n, limits)), ways)
    for m in (4, 16):
        ways = {"evaluation": (10**6, lambda _, i: (i.demands @ i.demands[0]) ** -0.5 @ i.demands)}
        limited = partial(fo.datasets.log_uniform, n_resources=m, limits=True, seed=1)
        out[f"DRF, limits, {m} resources"] = Case(SIZES, lambda n, drawn=limited: (fo.DRF(), drawn(n)), ways)
    return out


def judged(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds of a call and of the gate within it, medians where it is quick, and what it gives."""
    spent: list[tuple[float, float]] = []
    judge, of_gate = gate.judge, 0.0

    def timed(*given: Any) -> Any:
        nonlocal of_gate
        begun, before = time.process_time(), of_gate
        found = judge(*given)
        of_gate = before + time.process_time() - begun  # with those of its parts
        return found

    gate.judge = timed
    try:
        while not spent or (len(spent) < 3 and spent[0][0] < 1.0):
            of_gate, begun = 0.0, time.process_time()
            found = run()
            spent.append((time.process_time() - begun, of_gate))
    finally:
        gate.judge = judge
    return median([s for s, _ in spent]), median([g for _, g in spent]), found


def table(name: str, case: Case, largest: int) -> list[dict[str, Any]]:
    """A row for each size and other way."""
    rows, last, slow = list[dict[str, Any]](), (0.5, np.nan), set[str]()
    for n in (size for size in case.sizes if size <= largest):
        policy, instance = case.question(n)
        seconds, of_gate, answer = judged(partial(policy.allocate, instance))
        grows, ours = float(np.log(seconds / last[1]) / np.log(n / last[0])), case.value(answer)
        last = n, seconds
        for other in [one for one, (most, _) in case.others.items() if n <= most and one not in slow] or ["-"]:
            theirs = apart = np.nan
            if other != "-":
                theirs, _, found = judged(partial(case.others[other][1], policy, instance))
                apart = (found - ours) / abs(ours) if isinstance(found, float) else np.nan
                assert not apart > 1e-6, f"{name}, {n}: {other} is better by {apart:.1e}"
                slow |= {other} if theirs > SLOW else set()
            row = {"work": name, "users": n, "fairopt s": seconds, "gate s": of_gate, "exponent": grows}
            row |= {"gap": answer.certificate.gap, "beside": other, "s": theirs, "times": theirs / seconds}
            rows.append(row | {"apart": -apart})
    return rows


def memory(n: int) -> dict[str, Any]:
    """The most that calls hold beside the instance."""
    instance = leximin.cluster(n, 27, False, 1)
    row: dict[str, Any] = {"users": n, "servers": 27}
    for name, policy in {"MaxMin": fo.Policy(fo.MaxMin()), "FDS 2": fo.FDS(2)}.items():
        tracemalloc.start()
        held = policy.allocate(instance).tasks_by_server.nbytes
        row[name] = tracemalloc.get_traced_memory()[1] / held
        tracemalloc.stop()
    return row


def main() -> None:
    """Print the tables."""
    options = arguments(str(__doc__), largest=1_000_000, only="", memory=1_000_000, repeats=3)
    chosen = {name: case for name, case in cases().items() if options.only in name}
    show("Work beside others", [row for one in chosen for row in table(one, chosen[one], options.largest)], "goals")
    if options.only:
        return
    show("Clusters beside CVXPY by hand", clusters.rows(clusters.SIZES, "", options.repeats), "goals-clusters")
    show("CPU seconds of processes (medians)", overhead.first_second(options.repeats), "goals-first")
    show("Calls of two users", overhead.small_calls(options.repeats), "goals-small")
    if options.memory:
        show("Memory of a call, in its tasks by server", [memory(options.memory)], "goals-memory")


if __name__ == "__main__":
    main()
