"""One pool with its users in shards: too many for one array, or on several computers."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairopt.blocks.algebra import only_term
from fairopt.blocks.constraints import MaxShare, MaxTasks, MinShare, MinTasks, Reserve
from fairopt.blocks.shares import Share
from fairopt.certificate import Certificate
from fairopt.errors import InvalidBlock, NotCertified, OutOfDomain, within_memory
from fairopt.instance.labels import refuse_labels
from fairopt.io.saving import unwritable, write_whole
from fairopt.proof import gate
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.display import label
from fairopt.solve.sharded.shards import ParquetShard, Shard, named_capacities, shards_of, with_servers
from fairopt.solve.sharded.solve import (
    Judged,
    ShardedUsers,
    require_as_before,
    solve_in_shards,
    tasks_again,
)
from fairopt.solve.sharded.workers import DaskWorkers, InProcess, ShardedProblem

SLACK = 1e-6  # a resource with more slack, and a price below this part of the largest, has the price 0
PLAIN = (MinTasks, MaxTasks, MinShare, MaxShare, Reserve)  # constraints that can be the same for every user


@dataclass(frozen=True, eq=False, repr=False)
class ShardedAllocation:
    """The allocation of users in shards. Tasks are computed or read shard by shard.

    Attributes
    ----------
    policy : Policy
        The policy that was solved.
    resources : tuple of str
        Names of the resources.
    capacities : ndarray of shape (n_resources,)
        Units in the pool.
    n_users : int
        Number of users in all shards.
    usage : ndarray of shape (n_resources,)
        Units in use.
    objective : float
        Value of the objective in natural units (of the first level, for `Leximin`).
    prices : ndarray of shape (n_resources,)
        Dual values of the method, per natural unit of usable capacity. Where dual values are unique they are the
        derivatives of the objective, treating share coefficients as constants; elsewhere they lie between the one-sided
        derivatives, which `Allocation.prices` has. Water-filling has zeros where limits decide.
    certificate : Certificate
        Computed from sums over all shards.
    shards : tuple of str
        Names of the shards, in the order of users.
    sizes : tuple of int
        Users in each shard.
    rounds : int
        Number of passes over all shards.
    files : tuple of Path
        The file of tasks of each shard; empty without ``out``.

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
        """Unused units, shape (n_resources,)."""
        return np.maximum(self.capacities - self.usage, 0.0)

    def tasks(self, shard: int) -> Float:
        """Tasks of the users of one shard, computed from events or prices, or read from its file.

        Parameters
        ----------
        shard : int
            The index of the shard, from 0.

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
        """Everything but the tasks, as plain lists, numbers and strings."""
        parts = zip(self.shards, self.sizes, self.files or [None] * len(self.shards), strict=True)
        return {
            "policy": repr(self.policy),
            "users": self.n_users,
            "objective": self.objective,
            "resources": list(self.resources),
            "capacities": self.capacities.tolist(),
            "usage": self.usage.tolist(),
            "prices": self.prices.tolist(),
            "gap": self.certificate.gap,
            "violation": self.certificate.violation,
            "method": self.certificate.method,
            "seconds": self.certificate.seconds,
            "rounds": self.rounds,
            "shards": [{"shard": name, "users": n, "file": file and file.name} for name, n, file in parts],
        }

    def __repr__(self) -> str:
        name = label(self.policy)
        count = len(self.shards)
        return (
            f"<ShardedAllocation by {name} of {self.n_users:,} users x {len(self.resources)} resources in {count} "
            f"shard{'s' * (count != 1)}: {self.certificate}, {self.rounds} rounds>"
        )


@within_memory("one of the shards", "make shards smaller, several files instead of one, or take more memory")
def allocate_sharded(
    policy: Any,
    source: Any,
    *,
    capacities: Any = None,
    client: Any = None,
    out: str | Path | None = None,
    time_limit: float | None = None,
) -> ShardedAllocation:
    """Solve a policy on one pool whose users are in shards, exactly.

    Parameters
    ----------
    policy : Policy
        With `Leximin`, `MaxMin` or `AlphaFair` (alpha > 0) of a share, and no constraints but `Reserve` and bounds that
        are the same for every user (`MinTasks(0.1)`, `MaxShare(0.01)`, ...).
    source : ndarray, dask.array.Array, str, Path, or list of these
        Demands per task, users x resources: an array or memory map, a ``.npy`` file, a Parquet file (a column per
        resource, and optionally ``weight``, ``task_limit`` and the label ``user``), a folder of either with its
        subfolders, a folder with ``users.parquet`` and ``servers.parquet`` (or ``.csv``), or a Dask array. A shard is a
        row group, a block, an array of a list, or a million rows.
    capacities : array-like of shape (n_resources,) or dict by resource, optional
        Units in the pool, positive. Tables need a dict with every resource column. Default: the total of the servers in
        the folder.
    client : distributed.Client, optional
        Client of a Dask cluster whose workers read and keep the shards. They must have access to files; arrays and
        memory maps are sent to them. By default this process reads the shards one by one in every round.
    out : str or Path, optional
        A new folder, inside one that exists, for the tasks of each shard and a ``summary.json``. It appears when
        everything is written, or not at all.
    time_limit : float, optional
        Seconds for the call, checked between shards, or between rounds on a cluster.

    Returns
    -------
    ShardedAllocation

    Raises
    ------
    InvalidInstance
        If a source or shard is invalid; names the shard, and the row counted from 0 in its array or file.
    InvalidBlock
        If ``out``, ``client`` or ``time_limit`` is invalid.
    OSError
        If ``out`` cannot be written.
    OutOfDomain
        If the policy does not treat each user by its own row.
    Infeasible
        If the lower bounds do not fit into the capacities.
    NotCertified
        If the answer cannot be certified, a shard changed or the time limit was reached; says which.
    SolverUnavailable
        If the cluster stopped or has no workers, or workers lack a module of the policy.
    MissingExtra
        If pyarrow or distributed is needed and not installed.

    Notes
    -----
    Water-filling takes one or a few rounds for each resource that becomes full; prices take about four rounds after
    those of a sample. `fo.progress` reports each round. If a worker is lost, Dask lets another one read its shards. On
    Linux, workers are three times as fast with ``MALLOC_MMAP_THRESHOLD_=16777216`` in their environment.

    The shards must not change during the call, nor before `ShardedAllocation.tasks` reads them again: `NotCertified` if
    they do. Checksums compare every reading of files and Dask blocks with the first one; for arrays and memory maps,
    `tasks` compares the units in use. Files are read and not mapped, since truncating a mapped file kills the process.

    Examples
    --------
    >>> import fairopt as fo, numpy as np
    >>> demands = np.random.default_rng(0).uniform(1, 10, (1000, 3))
    >>> a = fo.allocate_sharded(fo.FDS(2), [demands[:600], demands[600:]], capacities=[50, 60, 70])
    >>> a.certificate.ok, a.sizes
    (True, (600, 400))
    """
    clock = Clock(time_limit, grace=False)
    return clock.run(partial(_solved, policy, source, capacities, client, out, clock))


def _solved(
    policy: Any, source: Any, capacities: Any, client: Any, out: str | Path | None, clock: Clock
) -> ShardedAllocation:
    """The certified allocation."""
    _require_by_row(policy)
    refuse_labels(source=source, capacities=capacities)
    source, capacities = with_servers(source, capacities)
    values, names = named_capacities(capacities)
    shards = shards_of(source, names)
    resources = names or tuple(f"resource{i + 1}" for i in range(len(values)))
    problem = ShardedProblem(policy.objective, tuple(policy.constraints), values, resources)
    with (
        new_folder(out) as folder,
        closing(InProcess(shards, problem) if client is None else DaskWorkers(shards, problem, client)) as backend,
    ):
        users = ShardedUsers(backend, problem)
        judged = solve_in_shards(users)
        proof = judged.proof
        certificate = gate.of_shards(proof, "water-filling" if users.alpha is None else "prices", clock.begun)
        if not certificate.ok:
            fix = "solve a smaller part of the users in memory, where other methods can be tried"
            raise NotCertified(
                f"no answer could be certified: gap {certificate.gap:.2g} (tolerance 1e-6), violation "
                f"{certificate.violation:.2g} (1e-9). Fix: {'give it more time_limit' if clock.late else fix}"
            )
        load, prices = proof.found.feasible.load, proof.prices
        assert prices is not None
        prices = np.where((load < 1 - SLACK) & (prices <= SLACK * prices.max(initial=0.0)), 0.0, prices)
        written = () if folder is None else _write(users, judged, shards, folder)
        result = ShardedAllocation(
            policy,
            resources,
            values,
            users.n,
            load * values,
            proof.value,
            prices / values,
            certificate,
            tuple(shard.name for shard in shards),
            tuple(users.sizes),
            users.rounds,
            tuple(Path(str(out)).resolve() / name for name in written),
            partial(tasks_again, shards, problem, judged, users.checksums),
        )
        if folder is not None:
            write_whole(folder / "summary.json", json.dumps(result.summary(), indent=1))
    return result


@contextmanager
def new_folder(out: str | Path | None) -> Iterator[Path | None]:
    """A new folder that is renamed to ``out`` at the end, and removed if anything fails.

    Raises `InvalidBlock` if ``out`` exists, and `OSError` if the folder cannot be made.
    """
    if out is None:
        yield None
        return
    folder = Path(out).resolve()
    unfinished = folder.with_name(folder.name + ".partial")
    for path in (folder, unfinished):
        if path.exists():
            raise InvalidBlock(f"{str(path)!r} exists already; give a new folder for the tasks, or remove it")
    try:
        unfinished.mkdir()
    except OSError as error:
        fix = "give a new folder in one that exists"
        raise unwritable(folder, error.errno or errno.EIO, fix, error.strerror or str(error)) from error
    try:
        yield unfinished
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _require_by_row(policy: Any) -> None:
    """Raise `OutOfDomain` unless objective and constraints treat each user by its own row."""
    term = only_term(getattr(policy, "objective", None))
    if term is None or not (term.is_smallest or term.is_curved):
        raise OutOfDomain(
            f"{policy} cannot be solved in shards, which takes a policy with Leximin, MaxMin or AlphaFair (alpha > 0) "
            "of one share; use policy.allocate in memory"
        )
    shares: list[Share] = [term.share]
    for constraint in policy.constraints:
        values = [getattr(constraint, f.name) for f in fields(constraint)]
        if type(constraint) not in PLAIN or not all(isinstance(v, (int, float, str, Share)) for v in values):
            raise OutOfDomain(
                f"{constraint} cannot be used with users in shards, which take MinTasks, MaxTasks, MinShare or "
                "MaxShare with one number for all, or Reserve; give limits by user as a column task_limit"
            )
        shares += [value for value in values if isinstance(value, Share)]
    for share in shares:
        if not share.by_row:
            raise OutOfDomain(
                f"{share} may depend on all users at once, so they cannot be in shards; if a user's coefficient "
                "depends only on its own demands and the capacities, set `by_row = True` in the block"
            )


def _write(users: ShardedUsers, judged: Judged, shards: Sequence[Shard], folder: Path) -> list[str]:
    """Write the tasks of every shard, and return the names of the files."""
    kind, factor = "parquet" if isinstance(shards[0], ParquetShard) else "npy", judged.proof.factor
    names = [f"tasks-{k:05d}.{kind}" for k in range(len(shards))]
    written = users.ask("write", judged.answer, factor, each=[(str(folder / name),) for name in names])
    for unfinished in {path for path in folder.iterdir() if path.name not in names}:  # of workers that died or stopped
        unfinished.unlink()
    for k, (shard, load) in enumerate(zip(shards, written, strict=True)):
        require_as_before(shard, judged.has(k, load))
    return names
