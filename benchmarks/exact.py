"""Exact answers, against linear programs in fractions that share no code with fairopt, and their times.

2,000 small instances of the fuzzer's categories whose optimum is rational, and some of numbers that are no decimals:
capacities, limits and conditions must hold exactly; the value (every level of a leximin; every tier) must equal that of
the reference, and the tasks too where they are unique, which two programs over the optimal tasks decide. Then seconds
of the processor for 200 users on 20 servers, each of whom may run on a third of them.

Run: python benchmarks/exact.py [--draws 2000 --seed 1 --workers 2 --kinds pools,tiers --sizes 200x20]
"""

from __future__ import annotations

import random
import time
import traceback
import warnings
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from typing import Any

from common import arguments, show  # isort: skip
import fuzz_verdicts
import numpy as np
from fuzz_blocks import Draw
from fuzz_draws import CATEGORIES, drawn, one_of
from fuzz_verdicts import Question, total
from oracle import exact_cluster, exact_lp
from oracle.exact_lp import dot

import fairopt as fo

CHUNK = 10
SHOWN = 5  # failures, in full
FUZZED = ("pools", "servers", "guarantees", "teams", "ties", "zeros", "blocks", "flat", "tiers", "weights", "traces")
Row = list[Fraction]


def read(value: Any) -> Fraction:
    """A number as exact answers read it: a float as its shortest decimal, a block's Fraction as it was given."""
    if hasattr(value, "fraction"):
        return value.fraction
    return Fraction(repr(float(value))) if isinstance(value, (float, np.floating)) else Fraction(value)


class Decimals(Fraction):
    """`Fraction` that reads floats so, in the modules of the reference."""

    def __new__(cls, value: Any = 0, denominator: Any = None) -> Any:
        return Fraction(value, denominator) if denominator is not None else read(value)


fuzz_verdicts.Fraction = exact_cluster.Fraction = Decimals  # type: ignore[attr-defined, misc]


def is_linear(objective: Any) -> bool:
    """Whether the reference and exact answers have an objective."""
    name = type(objective).__name__
    if name == "Tiers":
        return all(map(is_linear, objective.tiers))
    if name not in ("Total", "MaxMin", "Leximin", "OrderedWeighted"):
        return False
    share = objective.share
    while type(share).__name__ in ("OfTeam", "Surplus"):
        share = share.share
    return type(share).__name__ != "PNormShare" or share.p in (0, 1, float("inf"))


LINEAR = {"MinTasks", "MaxTasks", "MinShare", "MaxShare", "Reserve", "EqualShares", "SharingIncentive", "EnvyFree"}


def is_asked(draw: Draw) -> bool:
    """Whether a draw is one of exact answers."""
    policy = draw.policy
    if draw.how != ("allocate",) or not isinstance(policy, fo.Policy) or not is_linear(policy.objective):
        return False
    for block in policy.constraints:
        of = getattr(block, "share", None)
        if type(block).__name__ not in LINEAR or (of is not None and not is_linear(fo.Total(of))):
            return False
    return all(type(b).__name__ not in ("Held", "Sliced") for b in (policy.objective,))


def fractions(rng: np.random.Generator) -> Draw:
    """Thirds and sevenths in all places, Fractions in parameters too."""
    n, servers, m = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, by_server=rng.random() < 0.2)

    def divided(values: Any) -> Any:
        if isinstance(values, list):
            return [divided(v) for v in values]
        return values if values is None else Fraction(values) / int(rng.integers(1, 8))

    for name in ("demands", "capacities", "weights", "task_limits"):
        if name in given:
            given[name] = divided(given[name])
    objective = one_of(
        rng, fo.Leximin(), fo.MaxMin(fo.Tasks()), fo.Total(), fo.OrderedWeighted((Fraction(3, 7), Fraction(1, 7)))
    )
    blocks = one_of(rng, [], [fo.MaxShare(Fraction(2, 7))], [fo.EnvyFree()], [fo.Reserve(0, Fraction(1, 3))])
    return Draw(given, fo.Policy(objective, blocks))


MAKERS = {name: CATEGORIES[name] for name in FUZZED} | {"fractions": fractions}


def draw_of(kind: str, seed: int, k: int) -> Draw:
    """The k-th draw of a kind that has an exact answer."""
    rng = np.random.default_rng([seed, *kind.encode(), k])
    while True:
        draw = MAKERS[kind](rng)
        if is_asked(draw):
            return draw


def wrong(draw: Draw, answer: fo.Allocation) -> tuple[str, bool]:
    """What is wrong with an exact answer, if anything, and whether its tasks are unique."""
    policy, tasks = draw.policy, answer.exact_tasks
    assert tasks is not None
    if not np.array_equal(tasks.astype(float), answer.tasks_by_server):
        return "the tasks in floats are not those in fractions", False
    question = Question.of(draw.given, policy.constraints, policy.objective)
    pairs = question.cluster.pairs
    at: Row = [*(tasks[j, s] for j, s in pairs), *([Fraction(1)] * question.lifted)]
    if sum(map(abs, tasks.ravel().tolist())) != sum(at[: len(pairs)]):
        return "tasks are negative, or where nobody may run", False
    rows, equal = list(question.all_rows), list(question.equal)
    if any(dot(row, at) > value for row, value in rows) or any(dot(row, at) != value for row, value in equal):
        return "a condition does not hold exactly", False
    for objective in getattr(policy.objective, "tiers", (policy.objective,)):
        forms = question.forms_of(objective)
        found, name = [dot(form, at) for form in forms], type(objective).__name__
        if name == "Leximin":
            best: Any = exact_lp.leximin(forms, rows, equal) if forms else []
            if best != found:
                return f"levels {list(map(str, found))}, not {list(map(str, best))}", False
            rows += [([-v for v in form], -z) for form, z in zip(forms, found, strict=True)]
        elif name == "Total":
            best = exact_lp.maximise(total(forms), rows, equal).value if forms else 0
            if best != sum(found):
                return f"total {sum(found)}, not {best}", False
            rows.append(([-v for v in total(forms)], -best))
        elif name == "MaxMin":
            best = exact_lp.smallest(forms, rows, equal) if forms else 0
            if forms and best != min(found):
                return f"least {min(found)}, not {best}", False
            rows += [([-v for v in form], -best) for form in forms]
        else:
            v = [read(w) for w in objective.weights] + [Fraction(0)] * len(forms)
            best = exact_lp.ordered(forms, v[: len(forms)], rows, equal) if forms else 0
            value = sum((a * b for a, b in zip(v, sorted(found), strict=False)), Fraction(0))
            if best != value:
                return f"ordered sum {value}, not {best}", False
            return "", False  # tasks with this value are no polytope of few rows, so that nothing follows
    toward = [Fraction(random.Random(k).randint(1, 10**6)) for k in range(len(at))]
    ends = [exact_lp.maximise([sign * t for t in toward], rows, equal) for sign in (1, -1)]
    unique = ends[0].value == -ends[1].value
    return ("unique tasks differ" if unique and list(ends[0].point) != at else ""), unique


def work(kind: str, seed: int, ks: list[int]) -> list[tuple[str, int, str, str, float]]:
    """Of some draws the outcome, what is wrong, and fairopt's seconds."""
    out = []
    warnings.simplefilter("ignore")
    for k in ks:
        draw, begun = draw_of(kind, seed, k), time.perf_counter()
        try:
            answer = draw.policy.allocate(fo.Instance(**draw.given), exact=True)
        except (fo.errors.Infeasible, fo.errors.OutOfDomain) as error:
            out.append((kind, k, type(error).__name__, str(error), time.perf_counter() - begun))
            continue
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__} in {where.filename.rpartition('/')[2]}:{where.lineno}: {error}"
            out.append((kind, k, "failed", text, time.perf_counter() - begun))
            continue
        seconds = time.perf_counter() - begun
        if answer.certificate.gap or answer.certificate.violation:
            out.append((kind, k, "wrong", f"{answer.certificate}", seconds))
            continue
        try:
            what, unique = wrong(draw, answer)
        except exact_lp.NoPoint:
            what, unique = "the reference finds no point", False
        out.append((kind, k, "wrong" if what else "unique" if unique else "equal", what, seconds))
    return out


def sized(n: int, servers: int, kind: str, seed: int = 1) -> fo.Instance:
    """Users of log-uniform demands, or of small integers, of whom each may run on a third of the servers."""
    rng, m = np.random.default_rng(seed), 3
    if kind == "log-uniform":
        demands = np.exp(rng.uniform(np.log(0.1), np.log(100), (n, m)))
        capacities = np.exp(rng.uniform(np.log(10), np.log(1000), (servers, m)))
    else:
        demands = rng.integers(0, 9, (n, m)).astype(float)
        capacities = rng.integers(50, 200, (servers, m)).astype(float)
    demands[:, 1:] *= rng.random((n, m - 1)) < 0.8
    demands[:, 0] = np.maximum(demands[:, 0], 0.1 if kind == "log-uniform" else 1)
    eligible = rng.random((n, servers)) < 1 / 3
    eligible[np.arange(n), rng.integers(0, servers, n)] = True
    return fo.Instance(demands, capacities, eligible=eligible)


def times(sizes: list[str]) -> list[dict[str, Any]]:
    """Seconds of each notion, with the digits of the longest denominator."""
    rows = []
    notions = {"max-min": fo.Policy(fo.MaxMin()), "leximin": fo.DRF(), "total": fo.MostTasks()}
    for size in sizes:
        n, servers = map(int, size.split("x"))
        for kind in ("small integers", "log-uniform"):
            instance = sized(n, servers, kind)
            for name, policy in notions.items():
                begun = time.process_time()  # whatever else the machine does; all is one thread
                answer = policy.allocate(instance, exact=True)
                seconds = time.process_time() - begun
                digits = max(int(x.denominator.bit_length() * 0.30103) + 1 for x in answer.exact_tasks.ravel())
                levels = len(answer.exact_proof["proof"][0].get("levels", ())) or 1
                rows.append(
                    {"users x servers": size, "numbers": kind, "notion": name, "levels": levels}
                    | {"digits": digits, "seconds": seconds, "gap": answer.certificate.gap}
                )
    return rows


def main() -> None:
    """Both tables."""
    options = arguments(__doc__, draws=2000, seed=1, workers=2, kinds=[*MAKERS], sizes="200x20")
    per = -(-options.draws // len(options.kinds))
    counts, spent, failures = defaultdict(Counter), defaultdict(list), []
    if options.draws:
        with ProcessPoolExecutor(options.workers) as pool:
            parts = [
                (kind, list(range(k, min(k + CHUNK, per)))) for kind in options.kinds for k in range(0, per, CHUNK)
            ]
            for found in pool.map(work, *zip(*((kind, options.seed, ks) for kind, ks in parts), strict=True)):
                for kind, k, word, text, seconds in found:
                    counts[kind][word] += 1
                    spent[kind].append(seconds)
                    if word in ("wrong", "failed"):
                        failures.append((kind, k, word, text))
        words = ("equal", "unique", "Infeasible", "OutOfDomain", "wrong", "failed")
        rows = [
            {"kind": kind, "tried": counts[kind].total()}
            | {word: counts[kind][word] for word in words}
            | {"ms": 1e3 * float(np.median(spent[kind]))}
            for kind in options.kinds
        ]
        every = sum(counts.values(), Counter())
        rows.append({"kind": "all", "tried": every.total()} | {word: every[word] for word in words})
        show("Exact answers against fractions", rows, "exact")
        for kind, k, word, text in failures[:SHOWN]:
            draw = draw_of(kind, options.seed, k)
            print(f"{kind} {k}, {word}: {text}\n{draw.policy!r}\n{draw.given}\n")
    if options.sizes:
        show("Seconds of exact answers", times(options.sizes.split(",")), "exact_times")


if __name__ == "__main__":
    main()
