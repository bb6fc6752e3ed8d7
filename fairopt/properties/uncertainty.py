"""How far off tasks may be, given the gap of a certificate."""

from __future__ import annotations

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import only_term
from fairopt.blocks.shares import Share
from fairopt.properties.units import quotient
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE

SAFETY = 2.0  # bounds are rounded, and hold to first order


def error_bound(answer: Allocation) -> Float:
    """Bounds on the relative error of each user's tasks, at most 1, from the certified gap.

    A relative error e_j of the tasks lowers the power mean of alpha-fairness by ``alpha / 2 sum_j r_j e_j**2``, where
    ``r_j`` is user j's part of ``sum_j w_j (s_j / w_j)**(1 - alpha)``: a gap of 1e-12 leaves about 1e-6. Other
    objectives count users by their weights.
    """
    term = only_term(getattr(answer.policy, "objective", None))
    alpha, part = 1.0, answer.instance.weights / answer.instance.weights.sum()
    if term is not None and term.alpha and term.share._is_plain:
        alpha, part = term.alpha, _parts(answer, term.share, term.alpha)
    with np.errstate(divide="ignore", over="ignore"):
        off = 2.0 * np.sqrt(max(_proved(answer), 0.0) / (min(alpha, 1.0) * part))
    return np.minimum(NOISE + np.nan_to_num(off, nan=1.0), 1.0)


def left_open(answer: Allocation, share: Share | None = None) -> tuple[float, Float]:
    """What a certified gap does not rule out: leftover capacity as a part of it, and a part of each user's tasks.

    A user who could run the part e_j more while no other user loses would raise the power mean of an alpha-fair
    objective, or a total, by about ``r_j e_j`` (see `error_bound`), so e_j is at most the gap over ``r_j``. It is 0 for
    other objectives, and for gains in another ``share`` than the objective's. Gaps above the tolerance of certificates
    count as that tolerance.
    """
    term = only_term(getattr(answer.policy, "objective", None))
    proved, more = _proved(answer), np.zeros(answer.instance.n_users)
    gap = SAFETY * min(proved, GAP_TOLERANCE) if proved > 0 else 0.0  # also if it is NaN
    if term is not None and term.alpha is not None and term.share._is_plain and share in (None, term.share):
        more = quotient(gap, _parts(answer, term.share, term.alpha))
    return gap, more


def _proved(answer: Allocation) -> float:
    """The certified gap, or 0 for whole tasks, where the gap is the loss from rounding."""
    return 0.0 if answer.certificate.whole else answer.certificate.gap


def _parts(answer: Allocation, share: Share, alpha: float) -> Float:
    """Each user's part ``r_j`` of the sum in the power mean of an alpha-fair objective."""
    shares = np.maximum(answer.share(share), np.finfo(float).tiny)
    logs = alpha * np.log(answer.instance.weights) + (1.0 - alpha) * np.log(shares)
    counts = np.exp(logs - logs.max(initial=-np.inf))
    return np.asarray(counts / counts.sum())
