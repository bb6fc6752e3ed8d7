"""The units in which gains and losses of users are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.instance import Instance

__all__ = ["TRACE", "gain_units", "own_units", "quotient"]

Float = NDArray[np.float64]

TRACE = 1e-9  # of its own slice: a user of less runs nothing, since solvers leave traces to users who should run none


def own_units(instance: Instance, tasks: Float) -> Float:
    """What each user runs, or what its own slice would run if that is more: positive unless its limit is 0.

    Margins are relative to this, so that they have no unit, and are finite for users without tasks.
    """
    return np.maximum(tasks, instance.own_slices)


def gain_units(instance: Instance, tasks: Float) -> Float:
    """What each user runs, or what its own slice would run where it runs nothing: positive unless its limit is 0.

    What a user could gain is relative to this, so that 1 is twice what it runs, however little that is.
    """
    slices = instance.own_slices
    return np.where(tasks > TRACE * slices, tasks, slices)


def quotient(of: Any, by: Any, otherwise: float = 0.0) -> Float:
    """``of / by``; ``otherwise`` where ``by`` is not positive."""
    shape = np.broadcast_shapes(np.shape(of), np.shape(by))
    return np.divide(of, by, out=np.full(shape, otherwise), where=np.asarray(by) > 0)
