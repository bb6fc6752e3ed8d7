"""What the gains and losses of users, in tasks or in work, are relative to."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import NOISE

TRACE = 1e-9  # of its own slice: a user who runs less counts as running nothing


def own_units(slices: Float, tasks: Float) -> Float:
    """Each user's tasks, or those on its own slice if these are more; positive unless its limit is 0."""
    return np.maximum(tasks, slices)


def gain_units(slices: Float, tasks: Float) -> Float:
    """Each user's tasks, or those on its own slice if it runs nothing; positive unless its limit is 0."""
    return np.where(tasks > TRACE * slices, tasks, slices)


def first_largest(values: Float) -> Any:
    """The first index, along the last axis, of a value within rounding of the largest."""
    most = values.max(axis=-1, keepdims=True)
    return (values >= most * (1 - NOISE * np.sign(most))).argmax(axis=-1)


def quotient(of: Any, by: Any, otherwise: float = 0.0) -> Float:
    """``of / by``, or ``otherwise`` where ``by`` is not positive."""
    shape = np.broadcast_shapes(np.shape(of), np.shape(by))
    return np.divide(of, by, out=np.full(shape, otherwise), where=np.asarray(by) > 0)
