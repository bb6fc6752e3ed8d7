"""Formulas by which deployed schedulers remember past use, as functions of numbers; `docs/memory.md` compares them."""

from __future__ import annotations

import math

from fairopt.errors import InvalidBlock

LEAST_PRIORITY = 0.5  # of HTCondor: the real priority of a user who runs nothing


def decayed(past: float, use: float, elapsed: float, half_life: float) -> float:
    """The average of use after a time with constant use, where use a half-life ago counts half."""
    if not 0 < half_life < math.inf:
        raise InvalidBlock(f"half_life is {half_life!r}; give a finite time > 0, or None")
    if not elapsed >= 0:
        raise InvalidBlock(f"the time since the last use is {elapsed!r}; time never goes back")
    return use + (past - use) * 2.0 ** (-elapsed / half_life)


def kai_weight(weight: float, usage: float, k: float) -> float:
    """KAI's weight over quota: from a part of all weights, lowered by the past part of the cluster."""
    return max(0.0, weight + k * (weight - usage))


def afs_penalty(request: float, sampling: float, half_life: float) -> float:
    """What Kueue counts of an admission at once: the average after one sampling interval."""
    return decayed(0.0, request, sampling, half_life)
