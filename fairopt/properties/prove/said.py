"""Whether what a block says of itself in `conditions` is what it computes, at drawn instances.

A proof rests on what blocks say, so that a block that says something else than it does would make false theorems.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.base import is_ours
from fairopt.blocks.symbols import ShareSymbols, Symbols
from fairopt.blocks.terms import Condition, Term
from fairopt.errors import InvalidBlock, NoAnswer
from fairopt.instance import Instance
from fairopt.policy import Policy
from fairopt.properties.audit.random_instances import random_pools
from fairopt.properties.prove.statements import Builder, Question

__all__ = ["degree_of", "require_said", "seems_alike"]

Float = NDArray[np.float64]

DRAWN = 8  # pools
EXACT, NEAR = 1e-9, 1e-5  # how far off conditions may be, for shares and for answers
WEIGHTS = (1.0, 3.0)  # times all weights, for blocks of one's own
OFF = (0.99, 1.01)  # times a coefficient: then conditions may not hold


def require_said(question: Question) -> None:
    """`InvalidBlock` where conditions of the share or the objective do not hold for what these compute.

    Also where an objective of one's own speaks of prices, and no answer on any pool has prices to compare with.
    """
    compared = is_ours(question.objective)
    for instance in _drawn(question):
        try:
            c = question.share.coefficients(instance)
            answer = Policy(question.objective).allocate(instance)
        except NoAnswer:  # not every notion is defined on every instance
            continue
        for j in range(instance.n_users):
            _require_share(question, instance.ratios[j].tolist(), float(c[j]))
        if (c == 0).any():
            continue
        known, values = _outcome(question, answer, c)
        compared |= values.keys() >= set(known[-1].symbols())
        wrong = [one for one in known if values.keys() >= set(one.symbols()) and not one.holds(values, NEAR)]
        if wrong:
            raise InvalidBlock(
                f"{question.objective!r}.conditions do not hold for its answer {answer.tasks.tolist()} with demands "
                f"{instance.demands.tolist()} and capacities {instance.capacities[0].tolist()}: {wrong[0]}"
            )
    if not compared:
        raise InvalidBlock(
            f"{question.objective!r}.conditions speak of prices, and none of its answers on {DRAWN} drawn pools has "
            "prices of which no others are as good: they cannot be compared; say which users are stopped instead"
        )


def _drawn(question: Question) -> list[Instance]:
    rng, n = np.random.default_rng(0), question.users or 3
    pools = random_pools(
        rng, "integers", (n, question.resources), DRAWN, positive=question.positive, weights=question.weights,
        limits=question.limits,
    )  # fmt: skip
    drawn = [pools.instance(b) for b in range(len(pools))]
    if is_ours(question.objective) and is_ours(question.share):
        return drawn
    return [one.replace(weights=WEIGHTS[k % 2] * one.weights) for k, one in enumerate(drawn)]


def _require_share(question: Question, ratios: list[float], c: float) -> None:
    """`InvalidBlock` unless conditions hold for a coefficient, and not for others."""
    share = question.share
    for factor in (1.0, *OFF) if c > 0 else (1.0,):
        symbols, names = Symbols(), [Term(f"ratio_{i}") for i in range(len(ratios))]
        said = share.conditions(ShareSymbols(names, Term("coefficient"), symbols))
        assert said is not None
        values = {str(name): v for name, v in zip(names, ratios, strict=True)} | {"coefficient": c * factor}
        _with_roots(symbols, values)
        if all(one.holds(values, EXACT) for one in (said, *symbols.known)) != (factor == 1.0):
            what = "do not hold for" if factor == 1.0 else f"hold for {c * factor:g} as well as for"
            raise InvalidBlock(
                f"{share!r}.conditions {what} its coefficient {c:g} of a task that needs the parts "
                f"{', '.join(f'{v:g}' for v in ratios)} of the capacities; make them say what per_task computes"
            )


def _outcome(question: Question, answer: Allocation, c: Float) -> tuple[list[Condition], dict[str, float]]:
    """Conditions of an answer, the objective's last, and the numbers of symbols in it, but for prices not unique."""
    instance, b = answer.instance, Builder(replace(question, degree=None))
    users = range(instance.n_users)
    outcome = b.closed("", [b.user(str(k + 1), b.symbols.new(f"weight_{k + 1}")) for k in users])
    said = question.objective.conditions(outcome)
    assert said is not None
    b.add(said)
    values: dict[str, float] = {}
    for k in users:
        weight = float(instance.weights[k])
        limit = min(float(instance.task_limits[k]), 2.0 * float(instance.tasks_alone[k, 0]))
        values |= {f"ratio_{k + 1}_{i + 1}": float(v) for i, v in enumerate(instance.ratios[k])}
        values |= {f"tasks_{k + 1}": float(answer.tasks[k]) / weight, f"limit_{k + 1}": limit / weight}
        values |= {f"weight_{k + 1}": weight, f"coefficient_{k + 1}": float(c[k])}
    room = 1.0 - instance.ratios.T @ answer.tasks
    values |= {f"slack_{i + 1}": max(float(v), 0.0) for i, v in enumerate(room)}
    prices, left = answer.prices, answer.prices_left
    if prices is not None and left is not None and np.allclose(prices, left, rtol=1e-6, atol=0.0):
        values |= {f"price_{i + 1}": float(p) for i, p in enumerate(prices[0] * instance.capacities[0])}
    _with_roots(b.symbols, values)
    return b.symbols.known, values


def _with_roots(symbols: Symbols, values: dict[str, float]) -> None:
    """Add the numbers of roots, in the order in which they were asked for."""
    for root, of, power in symbols.roots.values():
        values[str(root)] = max(float(of.value(values)), 0.0) ** (1.0 / power)


def seems_alike(question: Question) -> bool:
    """Whether a change of capacities seems to change the shares of all users by one factor."""
    rng = np.random.default_rng(0)
    instance = random_pools(rng, "integers", (4, question.resources), 1, positive=True).instance(0)
    grown = instance.with_capacities(instance.capacities * rng.uniform(1.0, 2.0, instance.capacities.shape))
    rates = question.share.coefficients(grown) / question.share.coefficients(instance)
    return bool(np.allclose(rates, rates[0], rtol=1e-9, atol=0.0))


def degree_of(question: Question) -> int | None:
    """The whole number d for which a share of demands times t seems to be t^d times as large; None if there is none."""
    rng = np.random.default_rng(0)
    instance = random_pools(rng, "integers", (4, question.resources), 1, positive=True).instance(0)
    twice = instance.replace(demands=2.0 * instance.demands)
    before, after = question.share.coefficients(instance), question.share.coefficients(twice)
    if not (before > 0).all():
        return None
    grown = np.log2(after / before)
    degree = round(float(grown[0]))
    return degree if degree >= 0 and np.allclose(grown, degree, rtol=0.0, atol=1e-6) else None
