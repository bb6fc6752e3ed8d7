"""The servers of Google's cluster as Jiang and Wu (2021) print them, whose sections and tables are cited here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.instances.random import LARGEST, require
from fairopt.runtime.arrays import Float


class GoogleServers(NamedTuple):
    """Types of servers as arguments of `Instance`; made by `google_servers`.

    Attributes
    ----------
    capacities : ndarray of shape (n_types, 2)
        CPU and memory of one server of each type.
    counts : ndarray of int of shape (n_types,)
        Number of servers of each type.
    servers : tuple of str
        Labels, ``type0`` to ``type9``.
    resources : tuple of str
        ``cpu`` and ``memory``.

    Examples
    --------
    >>> import fairopt as fo
    >>> kinds = fo.datasets.google_servers(types=2)
    >>> fo.Instance([[0.1, 0.2]], **kinds._asdict())
    Instance(1 user x 2 resources on 10595 servers in 2 rows)
    """

    capacities: Float
    counts: NDArray[np.int64]
    servers: tuple[str, ...]
    resources: tuple[str, str]


_GOOGLE = (  # Table 4: cpu and memory relative to the largest server, and number
    (0.50, 0.50, 6732),
    (0.50, 0.25, 3863),
    (0.50, 0.75, 1001),
    (1.00, 1.00, 795),
    (0.25, 0.25, 726),
    (0.50, 0.12, 52),
    (0.50, 0.03, 5),
    (0.50, 0.97, 5),
    (1.00, 0.50, 3),
    (0.50, 0.06, 1),
)


def google_servers(
    n_servers: int | None = None, *, types: int = 10, cpu: float = 1.0, memory: float = 1.0
) -> GoogleServers:
    """The mix of servers in Google's trace of 2011, from Table 4 of Jiang and Wu (2021).

    Parameters
    ----------
    n_servers : int, optional
        Number of servers, divided among the types in proportion (largest remainders); types without servers are left
        out. Default: the printed counts.
    types : int, default 10
        Number of types, the most frequent first.
    cpu, memory : float, default 1.0
        Capacity of the largest server; the table gives fractions of it.

    Returns
    -------
    GoogleServers

    Raises
    ------
    InvalidInstance
        If a parameter is out of its range.

    Notes
    -----
    Type 4 has 726 servers here: the paper prints 126, which contradicts its column of ratios (0.0551 is 726 / 13183).
    Google's trace does have 126 servers of this type, 1% of them.

    Examples
    --------
    Section 6.3 uses 50 servers of the first four types, the largest with 16 cores and 128 GB:

    >>> import fairopt as fo
    >>> fo.datasets.google_servers(50, types=4, cpu=16, memory=128).counts
    array([27, 16,  4,  3])
    """
    require(types, "types", 1, len(_GOOGLE), whole=True)
    require(cpu, "cpu", 1 / LARGEST, LARGEST)
    require(memory, "memory", 1 / LARGEST, LARGEST)
    table = np.array(_GOOGLE[:types])
    counts = table[:, 2].astype(np.int64)
    if n_servers is not None:
        require(n_servers, "n_servers", 1, whole=True)
        exact = counts * (n_servers / counts.sum())
        counts = np.floor(exact).astype(np.int64)
        most_missing = np.argsort(counts - exact, kind="stable")
        counts[most_missing[: n_servers - counts.sum()]] += 1
    kept = counts > 0
    return GoogleServers(
        (table[:, :2] * [cpu, memory])[kept],
        counts[kept],
        tuple(f"type{k}" for k in np.flatnonzero(kept)),
        ("cpu", "memory"),
    )
