"""How far off an answer may be, judging by the gap that its certificate proves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import only_term
from fairopt.blocks.shares import Share
from fairopt.tolerances import GAP_TOLERANCE

__all__ = ["error_bound", "left_open"]

Float = NDArray[np.float64]

ROUNDING = 1e-9  # of tasks that were found by a finite number of operations: water-filling, closed forms, vertices
TWICE = 2.0  # bounds are rounded, and a proved gap holds to first order


def error_bound(answer: Allocation) -> Float:
    """By how much each user's tasks may be off, relative to them and at most 1, judging by the gap that was proved.

    Optima are flat: to be off by the part e_j of its tasks costs alpha-fairness ``alpha / 2 sum_j r_j e_j**2`` of its
    power mean, where ``r_j`` is user j's part of ``sum_j w_j (s_j / w_j)**(1 - alpha)``. So a gap of 1e-12 leaves about
    1e-6, and more for users who count for little: of small weight and, for large alpha, of large shares. For other
    objectives than alpha-fairness users count by their weights.
    """
    term = only_term(getattr(answer.policy, "objective", None))
    alpha, part = 1.0, answer.instance.weights / answer.instance.weights.sum()
    if term is not None and term.alpha:
        alpha, part = term.alpha, _parts(answer, term.share, term.alpha)
    with np.errstate(divide="ignore", over="ignore"):
        off = 2.0 * np.sqrt(max(_proved(answer), 0.0) / (min(alpha, 1.0) * part))
    return np.minimum(ROUNDING + np.nan_to_num(off, nan=1.0), 1.0)


def left_open(answer: Allocation) -> tuple[float, Float]:
    """What the certificate does not rule out: a part of each capacity that is left, and further tasks of each user.

    With the proved gap as a part of every user's tasks, as much of each capacity is left; no gap sees less than that.
    One of alpha-fairness, or of a total, sees users by their ``r_j`` as in `error_bound`: if user j could run the part
    e_j more while no other user loses, the power mean would be larger by about ``r_j e_j``, so e_j is at most the gap
    over ``r_j``. The tasks are 0 for other objectives, and no gap above the tolerance counts.
    """
    term, tasks = only_term(getattr(answer.policy, "objective", None)), answer.tasks
    proved, more = _proved(answer), np.zeros(answer.instance.n_users)
    gap = TWICE * min(proved, GAP_TOLERANCE) if proved > 0 else 0.0  # of NaN too
    if term is not None and term.alpha is not None:
        part = _parts(answer, term.share, term.alpha)
        np.divide(gap * tasks, part, out=more, where=(part > 0) & (tasks > 0))
    return gap, more


def _proved(answer: Allocation) -> float:
    """The gap that a solver left; 0 for whole tasks, whose gap is what they lose by being whole."""
    return 0.0 if answer.certificate.whole else answer.certificate.gap


def _parts(answer: Allocation, share: Share, alpha: float) -> Float:
    """Each user's part of the sum whose power is the mean that an alpha-fair objective has of shares."""
    shares = np.maximum(answer.share(share), np.finfo(float).tiny)
    logs = alpha * np.log(answer.instance.weights) + (1.0 - alpha) * np.log(shares)
    counts = np.exp(logs - logs.max(initial=-np.inf))
    return np.asarray(counts / counts.sum())
