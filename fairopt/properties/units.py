"""What users would run on their own slice of the servers, and the unit in which their gains and losses are told."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.instance import Instance

__all__ = ["own_slices", "own_units"]

Float = NDArray[np.floating[Any]]


def own_slices(instance: Instance) -> Float:
    """Tasks of each user on its own slice, ``w_j / sum w`` of every server where it may run, cut at its limit.

    Parameters
    ----------
    instance : Instance
        Weights are relative to everybody's (`Instance.total_weight`).

    Returns
    -------
    ndarray of shape (n_users,)
    """
    return np.minimum(instance.weights / instance.total_weight * instance.tasks_alone.sum(axis=1), instance.task_limits)


def own_units(instance: Instance, tasks: Float) -> Float:
    """What each user runs, or what its own slice would run if that is more: positive unless its limit is 0.

    Margins are relative to this, so that they have no unit, and a user without any task can be spoken of too.

    Parameters
    ----------
    instance : Instance
        The data.
    tasks : ndarray of shape (n_users,)
        What each runs.

    Returns
    -------
    ndarray of shape (n_users,)
    """
    return np.maximum(tasks, own_slices(instance))
