"""Rates of the data along a change, and elasticities of share coefficients."""

from __future__ import annotations

from typing import NamedTuple

from fairopt.blocks.base import is_ours
from fairopt.blocks.shares import Share
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance
from fairopt.solve.form.program import Float

LATE = "the time limit was over"


class Change(NamedTuple):
    """Rates of the data: row capacities (S, m), demands (n, m), log c (n,), log w (n,), and alpha."""

    capacity: Float
    demand: Float
    log_c: Float
    log_w: Float
    alpha: float


def elasticities(share: Share, instance: Instance) -> tuple[Float, Float]:
    """`Share.elasticities`; `OutOfDomain` if they are not known, as for user-defined shares."""
    found = share.elasticities(instance) if is_ours(share) else None
    if found is None:
        raise OutOfDomain(
            f"it is not known how {share} changes with capacities and demands; use held=True for derivatives with "
            "fixed coefficients"
        )
    return found
