"""Whether the `conditions` of a block agree with what it computes, on drawn instances.

Proofs assume this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.base import is_ours
from fairopt.blocks.terms import Condition, ShareSymbols, Symbols, Term, conditions_of
from fairopt.errors import InvalidBlock, NoAnswer, NotCertified
from fairopt.instance import Instance
from fairopt.policy import Policy
from fairopt.properties.audit.random_instances import random_pools
from fairopt.properties.prove.statements import Builder, Kind, Question
from fairopt.runtime.arrays import Float, Rng
from fairopt.runtime.clock import Clock

DRAWN = 8  # pools of small integers
WIDE_SHARES, WIDE_ANSWERS = 64, 12  # pools of ratios over many decades, for user-defined blocks
DECADES = ((-3.0, 0.0), (-8.0, 1.0), (-15.0, 3.0))  # of ratios, in turn
ENDS = 0.1  # fraction of ratios at an end of the decades
TIED = 0.2  # fraction of ratios equal to those of the previous resource
USERS = (2, 3, 1, 4, 5)  # numbers of users, in turn, where any number is asked for
EXACT, NEAR, NEAR_WIDE = 1e-9, 1e-5, 1e-3  # tolerances of conditions: of shares, of answers, of answers on wide pools
WEIGHTS = (1.0, 3.0)  # factors of all weights, for user-defined blocks
OFF = (0.99, 1.01)  # factors of a coefficient with which conditions must not hold


def require_consistent(question: Question, clock: Clock) -> str | None:
    """The assumption of a proof on user-defined blocks, in words, or empty; None if the time was over.

    `InvalidBlock` if conditions of the share or the objective do not hold for what these compute, or nothing could be
    compared on the drawn pools: the notion is not defined, or no answer has unique prices.
    """
    share, objective = question.share, question.objective
    ours, priced = is_ours(objective), is_ours(objective)
    shares = answers = 0
    for k, instance in enumerate(_drawn(question)):
        try:
            c = share.coefficients(instance)
        except NoAnswer:
            continue
        for j in range(instance.n_users):
            if clock.late:
                return None
            _require_share(question, instance.ratios[j].tolist(), float(c[j]))
        shares += 1
        if k >= DRAWN + (0 if ours else WIDE_ANSWERS) or (c == 0).any():
            continue
        if clock.late:
            return None
        try:
            answer = Policy(objective).allocate(instance)
        except (NoAnswer, NotCertified):
            continue
        answers += 1
        priced |= _require_answer(question, answer, c, NEAR if k < DRAWN else NEAR_WIDE)
    for block, compared in ((share, shares), (objective, answers)):
        if not compared and not is_ours(block):
            raise InvalidBlock(f"{block} is defined on none of the drawn pools, so its conditions cannot be tested")
    if not priced:
        raise InvalidBlock(
            f"{objective}.conditions use prices, and none of its answers on {answers} drawn pools has unique prices, "
            "so they cannot be tested; state which users are stopped instead"
        )
    assumed = [] if is_ours(share) else [f"{share} states, compared with per_task on {shares} drawn pools"]
    assumed += [] if ours else [f"{objective} states, compared with its answers on {answers} drawn pools"]
    return " and ".join(f"for conditions as {words}" for words in assumed)


def _drawn(question: Question) -> Iterator[Instance]:
    """Pools of small integers and, for user-defined blocks, of wide ratios."""
    rng, n = np.random.default_rng(0), question.users or 3
    pools = random_pools(
        rng,
        "integers",
        (n, question.resources),
        DRAWN,
        positive=question.positive,
        weights=question.weights,
        limits=question.limits,
    )
    own = not (is_ours(question.objective) and is_ours(question.share))
    for k in range(DRAWN):
        instance = pools.instance(k)
        yield instance.replace(weights=WEIGHTS[k % 2] * instance.weights) if own else instance
    if own:
        for k in range(WIDE_ANSWERS if is_ours(question.share) else WIDE_SHARES):
            yield wide_pool(question, rng, k)


def wide_pool(kind: Kind, rng: Rng, k: int) -> Instance:
    """A pool of log-uniform ratios over many decades, with ties, ratios at the ends, and zeros where allowed."""
    n, m = kind.users or USERS[k % len(USERS)], kind.resources
    low, high = DECADES[k % len(DECADES)]
    ratios = 10.0 ** rng.uniform(low, high, (n, m))
    ratios = np.where(rng.random((n, m)) < ENDS, 10.0 ** rng.choice([low, high], (n, m)), ratios)
    tied = rng.random((n, m)) < TIED
    for i in range(1, m):
        ratios[:, i] = np.where(tied[:, i], ratios[:, i - 1], ratios[:, i])
    if not kind.positive:
        gone = rng.random((n, m)) < 0.3
        gone[np.arange(n), rng.integers(0, m, n)] = False
        ratios[gone] = 0.0
    capacities = 2.0 ** rng.integers(-10, 21, m)  # powers of two keep ties
    weights = WEIGHTS[k % 2] * (rng.integers(1, 5, n) if kind.weights else np.ones(n))
    limits = rng.choice([0.125, 0.5, np.inf], n) / ratios.max(axis=1) if kind.limits else None
    return Instance(ratios * capacities, capacities, weights=weights, task_limits=limits)


def _require_share(question: Question, ratios: list[float], c: float) -> None:
    """`InvalidBlock` unless the conditions hold for a coefficient and not for others near it."""
    share = question.share
    for factor in (1.0, *OFF) if c > 0 else (1.0,):
        symbols, names = Symbols(), [Term(f"ratio_{i}") for i in range(len(ratios))]
        stated = conditions_of(share, ShareSymbols(names, Term("coefficient"), symbols))
        assert stated is not None
        values = {str(name): v for name, v in zip(names, ratios, strict=True)} | {"coefficient": c * factor}
        sizes = _with_roots(symbols, values, values)
        if all(one.holds(values, EXACT, sizes) for one in (stated, *symbols.known)) != (factor == 1.0):
            what = "do not hold for" if factor == 1.0 else f"hold for {c * factor:g} as well as for"
            raise InvalidBlock(
                f"{share}.conditions {what} its coefficient {c:g} of a task that needs the parts "
                f"{', '.join(f'{v:g}' for v in ratios)} of the capacities; make them state what per_task computes"
            )


def _require_answer(question: Question, answer: Allocation, c: Float, within: float) -> bool:
    """`InvalidBlock` unless the conditions hold for an answer; whether all their symbols have values."""
    known, sizes, values = _outcome(question, answer, c)
    for one in known:
        if values.keys() >= set(one.symbols()) and not one.holds(values, within, sizes):
            parts = one.arguments if one.of == "and" else (one,)
            wrong = [p for p in parts if isinstance(p, Condition) and not p.holds(values, within, sizes)]
            raise InvalidBlock(
                f"{question.objective}.conditions do not hold for its answer on demands "
                f"{answer.instance.demands.tolist()}, capacities {answer.instance.capacities[0].tolist()} and weights "
                f"{answer.instance.weights.tolist()}, whose tasks per weight are "
                f"{(answer.tasks / answer.instance.weights).tolist()}: {(wrong or [one])[0]}; `tasks` and `level` of a "
                "user are per weight, and its tasks are user.tasks * user.weight"
            )
    return values.keys() >= set(known[-1].symbols())


def _outcome(
    question: Question, answer: Allocation, c: Float
) -> tuple[list[Condition], dict[str, float], dict[str, float]]:
    """Conditions of an answer, the objective's last, sizes of symbols, and their values, without prices not unique.

    The size of a symbol that may be zero is that of its whole: a capacity, tasks alone, or the sum of prices.
    """
    instance, b = answer.instance, Builder(replace(question, degree=None))
    users = range(instance.n_users)
    outcome = b.closed("", [b.user(str(k + 1), b.symbols.new(f"weight_{k + 1}")) for k in users])
    stated = conditions_of(question.objective, outcome)
    assert stated is not None
    b.add(stated)
    values, sizes = dict[str, float](), dict[str, float]()
    for k in users:
        weight, alone = float(instance.weights[k]), float(instance.tasks_alone[k, 0])
        limit = min(float(instance.task_limits[k]), 2.0 * alone)
        values |= {f"ratio_{k + 1}_{i + 1}": float(v) for i, v in enumerate(instance.ratios[k])}
        values |= {f"tasks_{k + 1}": float(answer.tasks[k]) / weight, f"limit_{k + 1}": limit / weight}
        values |= {f"weight_{k + 1}": weight, f"coefficient_{k + 1}": float(c[k])}
        sizes[f"tasks_{k + 1}"] = alone / weight
    room = 1.0 - instance.ratios.T @ answer.tasks
    values |= {f"slack_{i + 1}": max(float(v), 0.0) for i, v in enumerate(room)}
    sizes |= {f"slack_{i + 1}": 1.0 for i in range(len(room))}
    prices, left = answer.prices, answer.prices_left
    if prices is not None and left is not None and np.allclose(prices, left, rtol=1e-6, atol=0.0):
        whole = (prices[0] * instance.capacities[0]).tolist()
        values |= {f"price_{i + 1}": p for i, p in enumerate(whole)}
        sizes |= {f"price_{i + 1}": sum(whole) for i in range(len(whole))}
    return b.symbols.known, _with_roots(b.symbols, values, values | sizes), values


def _with_roots(symbols: Symbols, values: dict[str, float], sizes: dict[str, float]) -> dict[str, float]:
    """Add the values of roots, in the order of their definition; all sizes, with those of roots."""
    sizes = dict(sizes)
    for root, of, power in symbols.roots.values():
        if sizes.keys() >= set(of.symbols()):
            values[str(root)] = max(float(of.value(values)), 0.0) ** (1.0 / power)
            sizes[str(root)] = float(of.size(sizes)) ** (1.0 / power)
    return sizes


def seems_alike(question: Question) -> bool:
    """Whether larger capacities change the shares of all users by one factor, on a drawn pool."""
    rng = np.random.default_rng(0)
    instance = random_pools(rng, "integers", (4, question.resources), 1, positive=True).instance(0)
    grown = instance.with_capacities(instance.capacities * rng.uniform(1.0, 2.0, instance.capacities.shape))
    rates = question.share.coefficients(grown) / question.share.coefficients(instance)
    return bool(np.allclose(rates, rates[0], rtol=1e-9, atol=0.0))


def degree_of(question: Question) -> int | None:
    """The integer degree of homogeneity of a share in demands, on a drawn pool; None without one."""
    rng = np.random.default_rng(0)
    instance = random_pools(rng, "integers", (4, question.resources), 1, positive=True).instance(0)
    twice = instance.replace(demands=2.0 * instance.demands)
    before, after = question.share.coefficients(instance), question.share.coefficients(twice)
    if not (before > 0).all():
        return None
    grown = np.log2(after / before)
    degree = round(float(grown[0]))
    return degree if degree >= 0 and np.allclose(grown, degree, rtol=0.0, atol=1e-6) else None
