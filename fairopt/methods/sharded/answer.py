"""What comes back when users are in shards, and the folder it is written to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.certificate import Certificate
from fairopt.errors import InvalidBlock

__all__ = ["ShardedAllocation"]

Float = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class ShardedAllocation:
    """The answer when users are in shards: everything but the tasks, which stay where the shards are.

    Attributes
    ----------
    policy : Policy
        Who answered.
    resources : tuple of str
        Their names.
    capacities : ndarray of shape (n_resources,)
        Units.
    n_users : int
        In all shards together.
    usage : ndarray of shape (n_resources,)
        Units in use.
    objective : float
        In natural units (of its first level, for `Leximin`).
    prices : ndarray of shape (n_resources,)
        Dual values that the method found, per natural unit of what can be used. Where they are unique they are the
        derivative of the objective with the shares' coefficients held; elsewhere they lie between those of one unit
        more and one less, which `Allocation.prices` tells apart. Water-filling may have none where limits decide.
    certificate : Certificate
        The evidence, added up over shards.
    shards : tuple of str
        Their names, in the order of users.
    sizes : tuple of int
        Users in each.
    rounds : int
        How often every shard was asked.
    files : tuple of Path
        Where the tasks of each shard were written; empty without ``out``.

    Examples
    --------
    >>> import fairopt as fo, numpy as np
    >>> parts = [np.array([[40.0, 8, 8]]), np.array([[8.0, 5, 1]])]
    >>> a = fo.allocate_sharded(fo.DRF(), parts, capacities=[200, 200, 200])
    >>> a.usage
    array([200. ,  82.5,  32.5])
    >>> a.tasks(1)
    array([12.5])
    """

    policy: Any
    resources: tuple[str, ...]
    capacities: Float
    n_users: int
    usage: Float
    objective: float
    prices: Float
    certificate: Certificate
    shards: tuple[str, ...]
    sizes: tuple[int, ...]
    rounds: int
    files: tuple[Path, ...]
    _again: Callable[[int], Float]

    @property
    def leftover(self) -> Float:
        """Units left over, shape (n_resources,)."""
        return np.maximum(self.capacities - self.usage, 0.0)

    def tasks(self, shard: int) -> Float:
        """Tasks of the users of one shard: worked out again from the events or prices, or read from its file.

        Parameters
        ----------
        shard : int
            Which, from 0.

        Returns
        -------
        ndarray of shape (n_users of the shard,)
        """
        k = range(len(self.shards))[shard]
        if not self.files:
            return self._again(k)
        if self.files[k].suffix == ".npy":
            return np.load(self.files[k])
        import pyarrow.parquet as pq

        return pq.read_table(self.files[k], columns=["tasks"])["tasks"].to_numpy()

    def summary(self) -> dict[str, Any]:
        """All but the tasks, as plain lists, numbers and strings."""
        parts = zip(self.shards, self.sizes, self.files or [None] * len(self.shards), strict=True)
        return {
            "policy": repr(self.policy), "users": self.n_users, "objective": self.objective,
            "resources": list(self.resources), "capacities": self.capacities.tolist(),
            "usage": self.usage.tolist(), "prices": self.prices.tolist(),
            "gap": self.certificate.gap, "violation": self.certificate.violation,
            "method": self.certificate.method, "seconds": self.certificate.seconds, "rounds": self.rounds,
            "shards": [{"shard": name, "users": n, "file": file and file.name} for name, n, file in parts],
        }  # fmt: skip

    def __repr__(self) -> str:
        name = getattr(self.policy, "name", None) or repr(self.policy)
        count = len(self.shards)
        return (
            f"<ShardedAllocation by {name} of {self.n_users:,} users x {len(self.resources)} resources in {count} "
            f"shard{'s' * (count != 1)}: {self.certificate}, {self.rounds} rounds>"
        )


@contextmanager
def new_folder(out: str | Path | None) -> Iterator[Path | None]:
    """A folder to write to, which gets its name when all is done, and is removed if anything goes wrong.

    `InvalidBlock`, before anything is worked out, if it cannot be made: nothing of that name may be there.
    """
    if out is None:
        yield None
        return
    folder = Path(out).resolve()
    partial = folder.with_name(folder.name + ".partial")
    for there in (folder, partial):
        if there.exists():
            raise InvalidBlock(f"{str(there)!r} exists already; give a new folder for the tasks, or remove it")
    try:
        partial.mkdir()
    except OSError as error:
        raise InvalidBlock(
            f"{str(folder)!r} cannot be made ({error}); give a new folder inside one that is there"
        ) from error
    try:
        yield partial
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
