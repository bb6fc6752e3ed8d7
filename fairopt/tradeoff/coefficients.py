"""By how much coefficients of shares change with demands and capacities, from either side."""

from __future__ import annotations

from typing import Any, NamedTuple

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

__all__ = ["Elasticities", "elasticities"]

Float = NDArray[np.floating[Any]]
TIE = 1e-12  # relative difference of ratios that count as equal


class Elasticities(NamedTuple):
    """Derivatives of log c_j by the logarithms of the user's own demands, and by those of capacities.

    ``demand`` (n_users, n_resources) and ``capacity`` (n_users, n_servers, n_resources; of a server row in total) are
    for growing numbers, ``demand_left`` and ``capacity_left`` for shrinking ones.
    """

    demand: Float
    demand_left: Float
    capacity: Float
    capacity_left: Float


def elasticities(share: Share, instance: Instance, held: bool = False) -> Elasticities:
    """Elasticities of a share; all zero where coefficients are ``held``.

    Raises `OutOfDomain` for shares of the user's own, whose derivatives are not known.
    """
    n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
    row = instance.capacities * instance.counts[:, None]
    if held or type(share) is Tasks:
        zero, by_row = np.zeros((n, m)), np.zeros((n, servers, m))
        return Elasticities(zero, zero, by_row, by_row)
    if type(share) is StandAloneShare:  # c = 1 / sum_s min_i C_si / d_i
        with np.errstate(divide="ignore"):
            each = np.where(instance.demands[:, None, :] > 0, row / instance.demands[:, None, :], np.inf)
        alone = each.min(axis=2)
        part = (alone / alone.sum(axis=1, keepdims=True))[:, :, None]
        least = each <= alone[:, :, None] * (1 + TIE)
        only = least & (least.sum(axis=2, keepdims=True) == 1)
        less, more = part * least, part * only
        return Elasticities(less.sum(axis=1), more.sum(axis=1), -more, -less)
    up, down = _of_ratios(share, instance)
    total = instance.total_capacities
    part = np.divide(row, total, out=np.zeros_like(row), where=total > 0)
    return Elasticities(up, down, -down[:, None, :] * part, -up[:, None, :] * part)


def _of_ratios(share: Share, instance: Instance) -> tuple[Float, Float]:
    """Elasticities by ratios of demands to capacities, growing and shrinking, (n_users, n_resources) each."""
    g = instance.ratios
    if type(share) is PNormShare and 0 < share.p < np.inf:
        smooth = (g / share.coefficients(instance)[:, None]) ** share.p
        return smooth, smooth
    if type(share) is PNormShare and share.p == 0:
        return np.zeros(g.shape), np.zeros(g.shape)
    if type(share) is ResourceShare:
        chosen = np.zeros(g.shape)
        chosen[:, instance.resource_index(share.resource)] = 1.0
        return chosen, chosen
    if type(share) not in (DominantShare, KDominantShare, PNormShare):
        raise OutOfDomain(
            f"by how much {share!r} changes with capacities and demands is not known; give held=True for derivatives "
            "with its coefficients held"
        )
    k = share.k if isinstance(share, KDominantShare) else 1
    last = np.sort(g, axis=1)[:, -k][:, None]  # the k-th largest
    above, level = g > last * (1 + TIE), np.abs(g - last) <= TIE * last
    places = k - above.sum(axis=1, keepdims=True)
    up = (above | level) & (g > 0)
    down = (above | (level & (level.sum(axis=1, keepdims=True) <= places))) & (g > 0)
    return up.astype(float), down.astype(float)
