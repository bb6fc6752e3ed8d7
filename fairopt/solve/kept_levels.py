"""What later tiers, and improvements of an answer, keep of what was reached: values of objectives, and shares."""

from __future__ import annotations

import numpy as np

from fairopt.blocks.algebra import Kept, KeptLevel, KeptShares
from fairopt.blocks.base import ByUser
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import AlphaFair, Objective
from fairopt.blocks.shares import Share

TIER_LOSS = 1e-7  # relative loss of an earlier tier's value that later tiers may cause


def keep_level(objective: Objective, point: Point) -> Constraint:
    """The constraint that keeps the value of a tier at a point in later tiers."""
    term = objective.term
    if term.is_order or term.is_curved:  # numbers are unique, and these rows linear
        return keep_shares(point, term.share, TIER_LOSS)
    if term.measure is not None and term.alpha is not None:
        objective = term.factor * AlphaFair(term.alpha, term.share)
    elif term.kind.in_logs:
        return Kept(objective, float(np.log(objective.value(point))) - TIER_LOSS * term.measure.emphasis)
    value = objective.value(point)
    return KeptLevel(objective, value - TIER_LOSS * objective.drop(point))


def keep_shares(point: Point, share: Share, loss: float) -> KeptShares:
    """The constraint that every user or team keeps its share less a relative loss."""
    held = np.maximum(point.share(share) * (1 - loss), 0.0)
    return KeptShares(ByUser(dict(zip(share._names(point.instance), held.tolist(), strict=True))), share)
