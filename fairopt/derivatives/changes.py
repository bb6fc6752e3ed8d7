"""Rates of the data along a change, and by how much coefficients of shares change with demands and capacities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.shares import (
    DominantShare,
    KDominantShare,
    PNormShare,
    ResourceShare,
    Share,
    StandAloneShare,
    Tasks,
)
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance

__all__ = ["LATE", "Change", "elasticities"]

Float = NDArray[np.float64]
LATE = "the time limit was over"
TIE = 1e-12  # relative difference of ratios that count as equal


class Change(NamedTuple):
    """Rates of the data: row capacities (S, m), demands (n, m), log c (n,), log w (n,), and alpha."""

    capacity: Float
    demand: Float
    log_c: Float
    log_w: Float
    alpha: float


def elasticities(share: Share, instance: Instance) -> tuple[Float, Float]:
    """Derivatives of log c by the logarithm of demands on each server row, growing and shrinking.

    Each is of shape (n_users, n_servers, n_resources). Those by capacities are their negatives, with growing and
    shrinking exchanged, since shares are of ratios. `OutOfDomain` for shares of the user's own.
    """
    row, g = instance.capacities * instance.counts[:, None], instance.ratios
    if type(share) is StandAloneShare:  # c = 1 / sum_s min_i C_si / d_i
        with np.errstate(divide="ignore"):
            each = np.where(instance.demands[:, None, :] > 0, row / instance.demands[:, None, :], np.inf)
        alone = each.min(axis=2, keepdims=True)
        least = each <= alone * (1 + TIE)
        only = least & (least.sum(axis=2, keepdims=True) == 1)
        part = alone / alone.sum(axis=1, keepdims=True)
        return part * least, part * only
    up: Float = np.zeros(g.shape)
    down = up
    if type(share) is PNormShare and 0 < share.p < np.inf:
        up = down = (g / share.coefficients(instance)[:, None]) ** share.p
    elif type(share) is ResourceShare:
        up[:, instance.resource_index(share.resource)] = 1.0
    elif type(share) in (DominantShare, KDominantShare) or (type(share) is PNormShare and share.p):
        k = share.k if isinstance(share, KDominantShare) else 1
        last = np.sort(g, axis=1)[:, -k][:, None]  # the k-th largest
        above, level = g > last * (1 + TIE), np.abs(g - last) <= TIE * last
        room = k - above.sum(axis=1, keepdims=True)
        up = ((above | level) & (g > 0)).astype(np.float64)
        down = up * (above | (level.sum(axis=1, keepdims=True) <= room))
    elif type(share) not in (Tasks, PNormShare):
        raise OutOfDomain(
            f"by how much {share} changes with capacities and demands is not known; give held=True for derivatives "
            "with its coefficients held"
        )
    total = instance.total_capacities
    part = np.divide(row, total, out=np.zeros_like(row), where=total > 0)
    return up[:, None, :] * part, down[:, None, :] * part
