"""The units in which gains and losses of users are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.instance import Instance

__all__ = ["TRACE", "first_largest", "gain_units", "own_units", "quotient"]

Float = NDArray[np.float64]

TIED = 1e-9  # relatively: numbers that are equal in exact arithmetic differ in their last digits, by processor
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


def first_largest(values: Float) -> Any:
    """The first index, along the last axis, of the numbers that are the largest but for rounding."""
    most = values.max(axis=-1, keepdims=True)
    return (values >= most * (1 - TIED * np.sign(most))).argmax(axis=-1)


def quotient(of: Any, by: Any, otherwise: float = 0.0) -> Float:
    """``of / by``; ``otherwise`` where ``by`` is not positive."""
    shape = np.broadcast_shapes(np.shape(of), np.shape(by))
    return np.divide(of, by, out=np.full(shape, otherwise), where=np.asarray(by) > 0)
