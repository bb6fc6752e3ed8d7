"""The demands of Jiang and Wu (2021); sections and tables cited here are of that paper."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.instances.random import LARGEST, require

Float = NDArray[np.float64]

REQUEST_TYPES: tuple[tuple[int, int, int], ...] = (
    (25, 25, 25),
    (25, 25, 5),
    (25, 25, 1),
    (25, 5, 5),
    (25, 5, 1),
    (5, 5, 5),
    (5, 5, 1),
    (5, 1, 1),
)
"""The eight request types of section 6.2, as multiples of x for bandwidth, memory and CPU."""

_COMBINATIONS = {"I": ("heavy", "heavy"), "II": ("heavy", "light"), "III": ("light", "light")}


def jiang_wu_demands(capacity: int = 3, start: int = 0, stop: int | None = None) -> Float:
    """The demands of the first scenario of Jiang and Wu (2021): three users, three resources, all integer requests.

    Parameters
    ----------
    capacity : int, default 3
        C: each resource has C units, and each user requests 1 to C of them. The paper uses 3 and 5.
    start, stop : int, optional
        A range of the combinations. Default: all C^9 (1,953,125 for C = 5, 141 MB).

    Returns
    -------
    ndarray of shape (stop - start, 3, 3)
        Units per task: combinations x users x resources; the last request changes fastest. All capacities are C.

    Raises
    ------
    InvalidInstance
        If the capacity is not an integer >= 1, or the range is invalid.

    Notes
    -----
    Source: section 6.1 and Table 1. The text has 3^C requests and 3^(3C) combinations, but the 3^9 and 5^9 experiments
    are C^3 and C^9.

    Examples
    --------
    >>> import fairopt as fo
    >>> demands = jiang_wu_demands(3)
    >>> demands.shape
    (19683, 3, 3)
    >>> fo.Instance(demands[1], [3, 3, 3])
    Instance(3 users x 3 resources on 1 server)
    """
    require(capacity, "capacity", 1, whole=True)
    c = int(capacity)
    last = c**9 if stop is None else stop
    if not 0 <= start <= last <= c**9:
        raise InvalidInstance(f"start and stop are {start} and {last}; give 0 <= start <= stop <= {c**9}")
    number = np.arange(start, last, dtype=np.int64)
    out = np.empty((number.size, 9))
    for k in range(8, -1, -1):
        number, digit = np.divmod(number, c)
        out[:, k] = digit + 1
    return out.reshape(-1, 3, 3)


def heavy_light_demands(
    combination: str = "II",
    *,
    types: Sequence[Sequence[float]] = REQUEST_TYPES,
    repeats: int = 10,
    variance: float = 0.0,
    seed: int = 0,
) -> Float:
    """The demands of the second scenario of Jiang and Wu (2021): two users with heavy or light requests.

    Parameters
    ----------
    combination : {"I", "II", "III"}, default "II"
        User 1 and user 2 are heavy and heavy, heavy and light, or light and light (Table 2).
    types : sequence of sequences of 3 numbers, default `REQUEST_TYPES`
        Requests as multiples of x. Table 3 requires nine types for user 2: these and ``(1, 1, 1)``.
    repeats : int, default 10
        Experiments for each pair of types.
    variance : float, default 0.0
        Variance of x, which is normal with mean 8 for heavy and 1 for light requests, conditional on being positive;
        the paper prints ``N(8, 0)`` and ``N(1, 0)``.
    seed : int, default 0
        Seed.

    Returns
    -------
    ndarray of shape (n_types, n_types, repeats, 2, 3)
        Units per task: type of user 1 x type of user 2 x experiment x user x resource. Every capacity is 1000.

    Raises
    ------
    InvalidInstance
        If a parameter is out of its range.

    Notes
    -----
    Source: section 6.2, Tables 2 and 3. As there, an experiment draws one x for heavy and one for light requests.

    Examples
    --------
    >>> import fairopt as fo
    >>> demands = heavy_light_demands("II")
    >>> demands.shape
    (8, 8, 10, 2, 3)
    >>> demands[3, 7, 0]
    array([[200.,  40.,  40.],
           [  5.,   1.,   1.]])
    """
    if combination not in _COMBINATIONS:
        raise InvalidInstance(f"no combination {combination!r}; {nearest(combination, _COMBINATIONS)}")
    require(repeats, "repeats", 1, whole=True)
    require(variance, "variance", 0, LARGEST)
    levels = np.array(types, dtype=np.float64)
    if levels.ndim != 2 or levels.shape[1] != 3:
        raise InvalidInstance(
            f"types have shape {levels.shape}; give 3 multiples of x for each, such as {REQUEST_TYPES[1]}"
        )
    n = len(levels)
    rng = np.random.default_rng(seed)
    x = {
        kind: _positive_normal(rng, mean, variance, (n, n, repeats)) for kind, mean in (("heavy", 8.0), ("light", 1.0))
    }
    first, second = (x[kind][..., None] for kind in _COMBINATIONS[combination])
    return np.stack([levels[:, None, None, :] * first, levels[None, :, None, :] * second], axis=3)


def _positive_normal(rng: np.random.Generator, mean: float, variance: float, shape: tuple[int, ...]) -> Float:
    out = rng.normal(mean, math.sqrt(variance), shape)
    while (bad := out <= 0).any():
        out[bad] = rng.normal(mean, math.sqrt(variance), int(bad.sum()))
    return out
