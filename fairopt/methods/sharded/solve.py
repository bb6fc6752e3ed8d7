"""Users in shards: the methods on one pool for users who are too many for one array, or on many computers.

Each round asks every shard the same question (loads at a level, or responses to prices) and adds up answers of
``m + m^2`` numbers. `workers` evaluates shards, `shards` reads them, `answer` is what comes back.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.constraints import MaxShare, MaxTasks, MinShare, MinTasks, Reserve
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin
from fairopt.blocks.shares import Share
from fairopt.errors import Infeasible, NotCertified, OutOfDomain
from fairopt.formulation.pool_users import Pool, bounds_fit
from fairopt.instance import Instance
from fairopt.labels import refuse_labels
from fairopt.methods.pool.alpha_fair import FINE, AlphaFairPool, Response, price_tries, unit_level
from fairopt.methods.pool.waterfilling import Event, Loads, Start, WaterfillingPool, find_events
from fairopt.methods.sharded.answer import ShardedAllocation, new_folder
from fairopt.methods.sharded.shards import ParquetShard, Shard, named_capacities, shards_of
from fairopt.methods.sharded.workers import Backend, DaskWorkers, InProcess, LoadedShard, ShardedProblem
from fairopt.progress import tell, within
from fairopt.proofs import gate
from fairopt.proofs.pool import Bottlenecks, PoolProof, Worth, combined, proof_on_pool

__all__ = ["ShardedAllocation", "allocate_sharded"]

Float = NDArray[np.floating[Any]]
log = logging.getLogger("fairopt")

SAMPLE = 50_000  # users, from all shards, that the first guess is made from
PLAIN = (MinTasks, MaxTasks, MinShare, MaxShare, Reserve)  # constraints that say the same of every user


class ShardedUsers:
    """The users of all shards together, as `WaterfillingUsers` and as `AlphaFairUsers`."""

    def __init__(self, backend: Backend, problem: ShardedProblem) -> None:
        self.backend, self.problem = backend, problem
        self.rounds = 0
        no_users = np.zeros((0, len(problem.resources)))
        self.program = problem.program(Instance(no_users, problem.capacities, resources=problem.resources))
        self.usable: Float = self.program.usable
        fair = self.program.alpha_fair
        self.alpha = None if fair is None else fair.alpha
        self.measure: type[Bottlenecks] | type[Worth] = Bottlenecks if fair is None else Worth
        if fair is not None and not (self.usable > 0).all():
            raise OutOfDomain("all of a resource is reserved, so who needs it gets nothing; leave some of it")
        opened = self.ask("opening")
        self.sizes = [n for n, _ in opened]
        self.n = sum(self.sizes)
        started = [start for _, start in opened if start is not None]
        self.started = Start.of_all(started) if started else None
        self.level = 1.0
        if fair is not None and self.started is not None:
            self.level = unit_level(self.started.rates, self.usable, self.started.first_limit, fair.alpha)

    def ask(self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """One round."""
        self.rounds += 1
        begun = time.perf_counter()
        with within(f"round {self.rounds}"):
            tell(name)
            answers = self.backend.ask(name, *arguments, each=each)
        log.info("round %d, %s: %.2f s", self.rounds, name, time.perf_counter() - begun)
        return answers

    def parts(self, name: str, *arguments: Any) -> list[Any]:
        """One round: the answers of shards where any user takes part."""
        return [part for part in self.ask(name, *arguments) if part is not None]

    def start(self) -> Start:
        """Load of the lower bounds, and rates, where any user takes part."""
        assert self.started is not None
        return self.started

    def guess(self) -> Sequence[float]:
        """Where the events of a sample are."""
        pool = self._pool_of_sample()
        found = find_events(WaterfillingPool(pool), pool.usable) if pool is not None else None
        return [event.level for event in found.events] if found else ()

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """What they take after events and at a level."""
        return Loads.of_all(self.parts("loads", tuple(events), level))

    def respond(self, log_prices: Float, alpha: float) -> Response:
        """What they want at prices."""
        return Response.of_all(self.parts("respond", self.level, log_prices, alpha))

    def sample(self) -> AlphaFairPool | None:
        """Some of the users, in this process."""
        pool = self._pool_of_sample()
        if pool is None or self.alpha is None:
            return None
        users = AlphaFairPool.with_samples(pool, self.alpha)
        users.set_level(self.level)
        return users

    def _pool_of_sample(self) -> Pool | None:
        parts = self.parts("sample", max(self.n // SAMPLE, 1))
        demands, weights, limits = (np.concatenate([part[k] for part in parts]) for k in range(3))
        problem = self.problem
        instance = Instance(
            demands, problem.capacities, weights=weights, task_limits=limits, resources=problem.resources
        )
        program = problem.program(instance)
        if program.empty or program.pool_share is None:
            return None
        program.usable = self.usable * (len(demands) / sum(part[3] for part in parts))
        return Pool(program, program.pool_share)

    def proof(self, answer: tuple[Any, ...], prices: Float) -> PoolProof:
        """One round: what is proved of the tasks that follow from events, or from level and prices."""
        found = combined(self.parts("judge", answer))
        return proof_on_pool(self.program, self.usable, self.n, found, prices, self.level)


def allocate_sharded(
    policy: Any,
    source: Any,
    *,
    capacities: Any,
    client: Any = None,
    out: str | Path | None = None,
) -> ShardedAllocation:
    """Share out one pool among users who are held in shards, exactly.

    Parameters
    ----------
    policy : Policy
        With `Leximin`, `MaxMin` or `AlphaFair` (above 0) of a share, and no constraints but bounds that are the same
        for every user (`MinTasks(0.1)`, `MaxShare(0.01)`, ...) and `Reserve`.
    source : ndarray, dask.array.Array, str, Path, or list of these
        Demands per task, users x resources: an array or memory map, a ``.npy`` file, a Parquet file (a column per
        resource; ``weight`` and ``task_limit`` where there are such; ``user`` is a label), a folder of either with
        its subfolders, or a Dask array. A shard is a row group, a block, an array of a list, or a million rows.
    capacities : array-like of shape (n_resources,) or dict by resource
        Units in the pool, positive; a dict for Parquet, since it says which columns to read.
    client : distributed.Client, optional
        Of a Dask cluster whose workers read and keep the shards (they must reach the files; arrays in memory are sent
        to them). Without one, shards are gone through one after the other in this process, in every round.
    out : str or Path, optional
        A new folder, in one that is there, for the tasks of each shard and a ``summary.json``; it appears when all is
        done, or not at all.

    Returns
    -------
    ShardedAllocation

    Raises
    ------
    InvalidInstance
        If a source or shard is wrong; names the shard, and the row (counted from 0 in its array or file).
    InvalidBlock
        If ``out`` or ``client`` cannot be used.
    OutOfDomain
        If users cannot be looked at in parts under this policy.
    Infeasible
        If the lower bounds do not fit.
    NotCertified
        If the answer cannot be proved right.
    SolverUnavailable
        If the cluster went away, or its workers lack something that the policy is made of.
    MissingExtra
        Without pyarrow or distributed, where they are needed.

    Notes
    -----
    Water-filling takes a round or a few for each resource that becomes full; prices take about four rounds after those
    of a sample. `fo.progress` hears of each. A worker that dies costs time, not the answer: its shards are read again
    elsewhere. On Linux, workers are three times as fast with ``MALLOC_MMAP_THRESHOLD_=16777216`` in the environment
    that they are started in. The shards must not change meanwhile, nor before `ShardedAllocation.tasks` reads them
    again.

    Examples
    --------
    >>> import fairopt as fo, numpy as np
    >>> demands = np.random.default_rng(0).uniform(1, 10, (1000, 3))
    >>> a = fo.allocate_sharded(fo.FDS(2), [demands[:600], demands[600:]], capacities=[50, 60, 70])
    >>> a.certificate.ok, a.sizes
    (True, (600, 400))
    """
    begun = time.perf_counter()
    _require_objective_by_row(policy)
    _require_constraints_by_row(policy)
    refuse_labels(source=source, capacities=capacities)
    values, names = named_capacities(capacities)
    shards = shards_of(source, names)
    resources = names or tuple(f"resource{i + 1}" for i in range(len(values)))
    problem = ShardedProblem(policy.objective, tuple(policy.constraints), values, resources)
    with new_folder(out) as folder, closing(_backend(shards, problem, client)) as backend:
        users = ShardedUsers(backend, problem)
        answer, proof = _solve_in_shards(users)
        certificate = gate.of_shards(proof, "water-filling" if users.alpha is None else "prices", begun)
        if not certificate.ok:
            raise NotCertified(
                f"no answer could be certified: gap {certificate.gap:.2g} (tolerance 1e-6), violation "
                f"{certificate.violation:.2g} (1e-9). Fix: solve a smaller part of the users in memory, where other "
                "routes can be tried"
            )
        load, prices = proof.found.feasible.load, proof.prices
        assert prices is not None
        written = () if folder is None else _write(users, answer, proof, shards, folder)
        result = ShardedAllocation(
            policy, resources, values, users.n, load * values, proof.value, prices / values, certificate,
            tuple(shard.name for shard in shards), tuple(users.sizes), users.rounds,
            tuple(Path(str(out)).resolve() / name for name in written),
            partial(_tasks_again, shards, problem, answer, proof.factor),
        )  # fmt: skip
        if folder is not None:
            (folder / "summary.json").write_text(json.dumps(result.summary(), indent=1), encoding="utf-8")
    return result


def _backend(shards: Sequence[Shard], problem: ShardedProblem, client: Any) -> Backend:
    return InProcess(shards, problem) if client is None else DaskWorkers(shards, problem, client)


def _tasks_again(
    shards: Sequence[Shard], problem: ShardedProblem, answer: tuple[Any, ...], factor: float, k: int
) -> Float:
    tasks: Float = LoadedShard(shards[k], problem).ask("tasks", answer, factor)[0]
    return tasks


def _solve_in_shards(users: ShardedUsers) -> tuple[tuple[Any, ...], PoolProof]:
    """Events, or level and prices, from which all tasks follow; and what is proved of these."""
    start, m = users.started, len(users.usable)
    if start is None:
        return (), PoolProof(1.0, users.measure.empty(m), 0.0, 0.0, np.zeros(m))
    if not bounds_fit(start.low, start.crossed, users.usable):
        raise Infeasible(
            "the lower bounds of all users together do not fit into the capacities; lower them, or give more capacity",
            ("the lower bounds", "the capacities"),
        )
    return _solve_waterfilling(users) if users.alpha is None else _solve_alpha_fair(users, users.alpha)


def _solve_waterfilling(users: ShardedUsers) -> tuple[tuple[Any, ...], PoolProof]:
    filled = find_events(users, users.usable)
    assert filled is not None
    return (filled.events,), users.proof((filled.events,), filled.prices)


def _solve_alpha_fair(users: ShardedUsers, alpha: float) -> tuple[tuple[Any, ...], PoolProof]:
    best: tuple[tuple[Any, ...], PoolProof] | None = None
    for log_prices in price_tries(users, alpha):
        answer = users.level, log_prices
        proof = users.proof(answer, log_prices)
        if best is None or proof.gap < best[1].gap:
            best = answer, proof
        if proof.gap <= FINE:
            break
    if best is None:
        raise NotCertified(
            f"no prices were found at alpha = {alpha:g}. Fix: solve in memory, where other routes can be tried, or "
            "choose an alpha from 0.1 to 20"
        )
    return best


def _require_objective_by_row(policy: Any) -> None:
    """`OutOfDomain` where users cannot be asked about the objective in parts."""
    objective = getattr(policy, "objective", None)
    if isinstance(objective, FairnessEfficiency):
        objective = objective.alpha_fair() or objective
    if not isinstance(objective, (Leximin, MaxMin)) and not (isinstance(objective, AlphaFair) and objective.alpha > 0):
        raise OutOfDomain(
            f"{policy!r} is not solved in shards; that takes a policy with Leximin, MaxMin or AlphaFair (alpha > 0) of "
            "one share. Use its .allocate in memory"
        )
    _require_by_row(objective.share)


def _require_by_row(share: Share) -> None:
    if not share.by_row:
        raise OutOfDomain(
            f"{share!r} may look at all users at once, so they cannot be in shards; if a user's coefficient "
            "depends on its own demands and the capacities alone, say `by_row = True` in the block"
        )


def _require_constraints_by_row(policy: Any) -> None:
    """`OutOfDomain` where users cannot be asked about the constraints in parts."""
    for constraint in policy.constraints:
        values = [getattr(constraint, f.name) for f in fields(constraint)]
        if type(constraint) not in PLAIN or not all(isinstance(v, (int, float, str, Share)) for v in values):
            raise OutOfDomain(
                f"{constraint!r} cannot be asked of users in shards; that takes MinTasks, MaxTasks, MinShare or "
                "MaxShare with one number for all, or Reserve. Give limits by user as a column task_limit"
            )
        for share in values:
            if isinstance(share, Share):
                _require_by_row(share)


def _write(
    users: ShardedUsers, answer: tuple[Any, ...], proof: PoolProof, shards: Sequence[Shard], folder: Path
) -> list[str]:
    """Write every shard's tasks; returns the names of the files."""
    kind = "parquet" if isinstance(shards[0], ParquetShard) else "npy"
    names = [f"tasks-{k:05d}.{kind}" for k in range(len(shards))]
    loads = users.ask("write", answer, proof.factor, each=[(str(folder / name),) for name in names])
    if not np.allclose(np.sum(loads, axis=0), proof.found.feasible.load, rtol=1e-9, atol=0.0):
        raise NotCertified("what was written is not what was certified: shards changed meanwhile; start again")
    return names
