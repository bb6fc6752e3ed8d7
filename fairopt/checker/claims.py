"""What a file states beside its evidence: its objective and prices, which must agree with those computed again.

Neither is part of a proof, so that logarithms and powers are computed in floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .bundles import Dominance, base_of
from .instance import Cluster
from .numbers import (
    GAP,
    HUGE,
    LEAST_FLOAT,
    ROUNDING,
    VIOLATION,
    ZERO,
    Fraction,
    Table,
    approximate_log,
    exact_sum,
    exp,
    number,
    numbers,
    power,
)
from .outcome import CannotCheck, Fault, short
from .policy import Block, alpha_of, as_list, is_levelled, is_linear
from .surplus import of_those_who_rise
from .teams import TeamNumbers


def stored_objective(data: Mapping[str, Any]) -> float | None:
    """The objective that a file states, if any."""
    stored = data.get("objective")
    if stored is None:
        return None
    if not isinstance(stored, (int, float)) or isinstance(stored, bool) or math.isnan(stored):
        raise Fault(f"objective is {short(repr(stored))}, not a number")
    return stored


def stated_prices(cluster: Cluster, data: Mapping[str, Any]) -> Table | None:
    """The prices that a file states, if any."""
    return None if data.get("prices") is None else numbers(data["prices"], "prices", cluster.servers, cluster.m)


def check_objective(cluster: Cluster, objective: Block, data: Mapping[str, Any]) -> None:
    """Refuse a stored objective that differs from the value at the tasks by more than rounding."""
    stored = stored_objective(data)
    if stored is None:
        return
    written = (data.get("evidence") or [{}])[0].get("written")
    if written is not None and written.objective:  # of further variables that are optimal to the tolerance of gaps
        value, size = written.value()
        if not math.isfinite(stored) or abs(Fraction(stored) - value) > GAP * size:
            raise Fault(f"objective is {stored:.12g} in the file, but {float(value):.12g} as written")
        return
    value = size = ZERO
    bundles = data.get("bundles") and numbers(data["bundles"], "bundles", cluster.n, cluster.servers, cluster.m)
    of_nobody = not cluster.active or of_those_who_rise(cluster, objective) is not objective
    for factor, term in () if of_nobody else objective.terms:
        cluster.clock.check()
        if factor:
            part, unit = objective_value(cluster, term, bundles or [])
            value, size = value + factor * part, size + factor * unit
    overflows = math.isinf(stored) and abs(value) > HUGE and (value > 0) == (stored > 0)
    if not overflows and (math.isinf(stored) or abs(Fraction(stored) - value) > VIOLATION * size + LEAST_FLOAT):
        raise Fault(f"objective is {stored:.12g} in the file, but {float(value):.12g} at its tasks")


def check_prices(cluster: Cluster, objective: Block, data: Mapping[str, Any]) -> str:
    """Refuse stored prices that differ from those of the evidence by more than rounding, or say why they are not
    compared.
    """
    entry, given = (data.get("evidence") or [{}])[0], stated_prices(cluster, data)
    if given is None:
        return ""
    if entry.get("kind") != "prices":
        return f"evidence of kind {entry.get('kind')!r} has no prices to compare with"
    if any(term.name == "FairnessEfficiency" for _, term in objective.terms):
        return "the evidence has the prices of an alpha-fair objective"
    unit, (_, first) = number(entry.get("unit", 1), "unit"), objective.terms[0]
    natural = power(unit, 1 - alpha_of(first)).low
    own = numbers(entry["prices"], "prices", cluster.servers, cluster.m)
    for s, row in enumerate(given):
        for i, p in enumerate(row):
            of_evidence = max(own[s][i], ZERO) * natural
            if abs(p - of_evidence) > VIOLATION * of_evidence + LEAST_FLOAT:
                where = f"{cluster.resources[i]!r} on server {s}"
                raise Fault(f"the price of {where} is {float(p):.12g}, but {float(of_evidence):.12g} in the evidence")
    return ""


def objective_value(cluster: Cluster, term: Block, bundles: list[Table]) -> tuple[Fraction, Fraction]:
    """The value of a one-term objective, about, and its change per relative error in tasks and logarithms."""
    if term.name == "WeightedLog":
        users, base = Dominance(cluster), base_of(term)
        logs = [
            (q * b, Fraction(approximate_log(bundles[j][s][i] / q)))
            for s, q in enumerate(cluster.counts)
            for i in range(cluster.m)
            for j, b in users.bases(base, s, i).items()
        ]
        return exact_sum(b * v for b, v in logs), exact_sum(b * (1 + abs(v)) for b, v in logs)
    if term.name == "FairnessEfficiency":
        return measure(cluster, term, cluster.shares(cluster.coefficients(term.share)[0]))
    compared = TeamNumbers(cluster, term.share, is_levelled(term))
    shares, weights = compared.values(), compared.weights
    alpha = alpha_of(term)
    if is_linear(term):
        value = exact_sum(shares.values())
        return value, value
    levels = {t: share / weights[t] for t, share in shares.items()}
    if alpha == 1:
        logs = [(weights[t], Fraction(approximate_log(z))) for t, z in levels.items()]
        return exact_sum(w * v for w, v in logs), exact_sum(w * (1 + abs(v)) for w, v in logs)
    if term.name == "AlphaFair":
        value = exp(log_of_powers(weights, levels, 1 - alpha)) / (1 - alpha) if any(levels.values()) else ZERO
        return value, abs(value) * (1 + abs(1 - alpha))
    if term.name not in ("MaxMin", "Leximin", "OrderedWeighted"):
        raise CannotCheck(f"the value of {term.text} has no formula here")
    v = [number(x, "a weight", 0) for x in as_list(term.given.get("weights", 1))]

    def by_size(level: Fraction) -> tuple[float, Fraction]:
        """Floats first, which are compared in a tenth of the time."""
        return float(level), level

    ordered = sorted(levels.values(), key=by_size) if len(v) > 1 else [min(levels.values(), key=by_size)]
    value = exact_sum(x * z for x, z in zip(v, ordered))
    above = max((b.high / weights[t] for t, b in compared.base.items()), default=ZERO)  # is rounded, then subtracted
    return value, value + exact_sum(v) * above * ROUNDING / VIOLATION


def measure(cluster: Cluster, term: Block, shares: Mapping[int, Fraction]) -> tuple[Fraction, Fraction]:
    """`objective_value` of ``sgn(1 - beta) (sum_j w_j (s_j / (w_j S))^(1 - beta))^(1 / beta) S^lam``."""
    beta, lam, total = number(term.given["beta"], "beta"), number(term.given["lam"], "lam"), exact_sum(shares.values())
    parts = {j: s / (cluster.weights[j] * total) for j, s in shares.items()}
    even = log_of_powers(dict(enumerate(cluster.weights)), parts, 1 - beta) / beta
    efficient = lam * Fraction(approximate_log(total))
    value = exp(even + efficient) * (1 if beta <= 1 else -1)
    return value, abs(value) * (1 + abs(even) + abs(efficient))


def log_of_powers(weights: Mapping[Any, Fraction], levels: Mapping[Any, Fraction], q: Fraction) -> Fraction:
    """The logarithm of ``sum_j w_j z_j^q`` for levels z, with ``0^0 = 1``, about."""
    if q < 0 and not all(levels.values()):
        raise Fault("a user has no share, so the objective is minus infinity")
    p, some = float(q), [t for t, z in levels.items() if z or not q]
    logs = [approximate_log(weights[t]) + (p * approximate_log(levels[t]) if p else 0.0) for t in some]
    most = max(logs)
    return Fraction(most + math.log(math.fsum(math.exp(v - most) for v in logs)))
