"""Users' objectives by their terms in built-in blocks, for the checker and exact answers, which know only these."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any

from fairopt.blocks.algebra import AtLeast, Objective, Sum, Tiers
from fairopt.blocks.base import as_float, is_ours
from fairopt.blocks.normal_form import Linear, Order, Power, Ranked, Term
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, OrderedWeighted, Total


def in_built_in(policy: Any) -> Any:
    """A policy whose users' objectives by `terms` are sums of built-in ones, where these have the same values.

    Others stay: those of users' own kinds and by expressions, and a multiple of an order, whose value no block has.
    The policy itself if it has no such objective.
    """
    if not isinstance(getattr(policy, "objective", None), Objective):
        return policy
    objective, constraints = _objective(policy.objective), tuple(map(_constraint, policy.constraints))
    if (objective, constraints) == (policy.objective, policy.constraints):
        return policy
    made = copy(policy)
    made.objective, made.constraints = objective, constraints
    return made


def _constraint(given: Any) -> Any:
    """A constraint, with the objective that it bounds in built-in blocks."""
    return replace(given, objective=_objective(given.objective)) if isinstance(given, AtLeast) else given


def _objective(given: Objective) -> Objective:
    """An objective in built-in blocks."""
    if isinstance(given, Tiers):
        return Tiers(tuple(map(_objective, given.tiers)))
    if all(is_ours(one) for _, one in given.summands()):
        return given
    parts = tuple(part for factor, one in given.summands() for part in _parts(factor, one))
    return parts[0][1] if len(parts) == 1 and parts[0][0] == 1 else Sum(parts)


def _parts(factor: float, given: Objective) -> Iterator[tuple[float, Objective]]:
    """A multiple of an objective as multiples of built-in ones."""
    blocks = [] if is_ours(given) or type(given).expression is not Objective.expression else given.terms()
    made = [(as_float(term.factor), _block(term)) for term in blocks]
    if not made or any(block is None for _, block in made):
        yield factor, given
        return
    yield from ((own if factor == 1 else factor * own, block) for own, block in made if block is not None)


def _block(term: Term) -> Objective | None:
    """The built-in objective of a term without its factor; None if there is none."""
    kind: Any = term.kind
    if type(kind) is Linear:
        return Total(term.share)
    if type(kind) is Power:
        return AlphaFair(kind.alpha, term.share)
    if type(kind) is Order:
        return Leximin(term.share) if term.factor == 1 else None
    if type(kind) is Ranked:
        return MaxMin(term.share) if kind.ranks == (1.0,) else OrderedWeighted(kind.ranks, term.share)
    return None
