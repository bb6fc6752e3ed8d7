"""Users in shards: the exact routes on one pool when the users are too many for one array, or on many computers.

Each round asks every shard the same question (loads at a level, or responses to prices) and adds up answers of
``m + m^2`` numbers. `crew` holds the shards, `shards` reads them, `sharded_allocation` is the answer.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.constraints import Constraint, MaxShare, MaxTasks, MinShare, MinTasks, Reserve
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Objective
from fairopt.blocks.shares import Share
from fairopt.errors import Infeasible, NotCertified, OutOfDomain
from fairopt.formulation.pool_users import Pool
from fairopt.instance import Instance
from fairopt.labels import refuse_labels
from fairopt.methods.pool.alpha_fair import Responding, Response, price_tries, unit_level
from fairopt.methods.pool.waterfilling import Event, Filled, Filling, Loads, Start, fill
from fairopt.methods.sharded.answer import ShardedAllocation, new_folder
from fairopt.methods.sharded.shards import ParquetShard, Shard, named_capacities, shards_of
from fairopt.methods.sharded.workers import Crew, Held, OnDask, Question, Streaming
from fairopt.progress import tell, within
from fairopt.proofs import gate
from fairopt.proofs.pool import Bottlenecks, Feasibility, Worth, natural_prices

__all__ = ["ShardedAllocation", "allocate_sharded"]

Float = NDArray[np.floating[Any]]
log = logging.getLogger("fairopt")

SAMPLE = 50_000  # users, from all shards, that the first guess is made from
PLAIN = (MinTasks, MaxTasks, MinShare, MaxShare, Reserve)  # constraints that say the same of every user


class Everybody:
    """All shards together, as `fill` and `find_prices` ask them."""

    def __init__(self, crew: Crew, question: Question, progress: Callable[[int, str], None] | None) -> None:
        self.crew, self.question, self.progress = crew, question, progress
        self.rounds = 0
        self.usable: Float = np.ones(len(question.capacities))
        nobody = Instance(np.zeros((0, len(self.usable))), question.capacities, resources=question.resources)
        for constraint in question.constraints:
            usable = constraint.usable(nobody)
            self.usable = self.usable if usable is None else np.minimum(self.usable, usable)
        if question.alpha is not None and not (self.usable > 0).all():
            raise OutOfDomain("all of a resource is reserved, so who needs it gets nothing; leave some of it")
        opened = self.ask("opening")
        self.sizes = [n for n, _ in opened]
        self.n = sum(self.sizes)
        self.opened = [part for _, part in opened if part is not None]
        self.level = 1.0
        if question.alpha is not None and self.opened:
            rates = np.sum([rates for rates, _, _ in self.opened], axis=0)
            self.level = unit_level(rates, self.usable, min(p[1] for p in self.opened), question.alpha)

    def ask(self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """One round."""
        self.rounds += 1
        begun = time.perf_counter()
        with within(f"round {self.rounds}"):
            tell(name)
            answers = self.crew.ask(name, *arguments, each=each)
        log.info("round %d, %s: %.2f s", self.rounds, name, time.perf_counter() - begun)
        if self.progress is not None:
            self.progress(self.rounds, name)
        return answers

    def parts(self, name: str, *arguments: Any) -> list[Any]:
        """One round: the answers of shards where anybody takes part."""
        return [part for part in self.ask(name, *arguments) if part is not None]

    # -- as `fill` asks

    def start(self) -> Start:
        """Load of the lower bounds, and rates."""
        return Start.of_all(self.opened)

    def guess(self) -> Sequence[float]:
        """Where the events of a sample are."""
        pool = self._pool_of_sample()
        found = fill(Filling(pool), pool.usable) if pool is not None else None
        return [event.level for event in found.events] if found else ()

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """What they take after events and at a level."""
        return Loads.of_all(self.parts("loads", tuple(events), level))

    # -- as `find_prices` asks

    def respond(self, log_prices: Float, alpha: float) -> Response:
        """What they want at prices."""
        return Response.of_all(self.parts("respond", self.level, log_prices, alpha))

    def sample(self) -> Responding | None:
        """Some of the users, in this process."""
        pool = self._pool_of_sample()
        if pool is None or self.question.alpha is None:
            return None
        users = Responding.with_samples(pool, self.question.alpha)
        users.measure_in(self.level)
        return users

    def _pool_of_sample(self) -> Pool | None:
        parts = self.parts("sample", max(self.n // SAMPLE, 1))
        demands, weights, limits = (np.concatenate([part[k] for part in parts]) for k in range(3))
        question = self.question
        instance = Instance(
            demands, question.capacities, weights=weights, task_limits=limits, resources=question.resources
        )
        program = question.program(instance)
        if program.empty or program.pool_share is None:
            return None
        program.usable = self.usable * (len(demands) / sum(part[3] for part in parts))
        return Pool(program, program.pool_share)


def allocate_sharded(
    policy: Any,
    source: Any,
    *,
    capacities: Any,
    client: Any = None,
    out: str | Path | None = None,
    progress: Callable[[int, str], None] | None = None,
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
    progress : callable, optional
        Called after each round with its number and what was asked.

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
    of a sample. A worker that dies costs time, not the answer: its shards are read again elsewhere. On Linux, workers
    are three times as fast with ``MALLOC_MMAP_THRESHOLD_=16777216`` in the environment that they are started in. The
    shards must not change meanwhile, nor before `ShardedAllocation.tasks` reads them again.

    Examples
    --------
    >>> import fairopt as fo, numpy as np
    >>> demands = np.random.default_rng(0).uniform(1, 10, (1000, 3))
    >>> a = fo.allocate_sharded(fo.FDS(2), [demands[:600], demands[600:]], capacities=[50, 60, 70])
    >>> a.certificate.ok, a.sizes
    (True, (600, 400))
    """
    begun = time.perf_counter()
    objective, constraints = _objective(policy), _constraints(policy)
    refuse_labels(source=source, capacities=capacities)
    values, names = named_capacities(capacities)
    shards = shards_of(source, names)
    resources = names or tuple(f"resource{i + 1}" for i in range(len(values)))
    question = Question(objective, constraints, values, resources)
    with new_folder(out) as folder, closing(_crew(shards, question, client)) as crew:
        users = Everybody(crew, question, progress)
        found = _by_filling(users) if question.alpha is None else _by_prices(users, question.alpha)
        certificate = gate.of_shards(found.feasible, found.gap, found.method, begun)
        if not certificate.ok:
            raise NotCertified(
                f"no answer could be certified: gap {certificate.gap:.2g} (tolerance 1e-6), violation "
                f"{certificate.violation:.2g} (1e-9). Fix: solve a smaller part of the users in memory, where other "
                "routes can be tried"
            )
        value, prices = found.value, found.prices
        if isinstance(policy.objective, FairnessEfficiency):
            value, slope = policy.objective.of_alpha_fair(value)
            prices = prices * slope
        written = () if folder is None else _write(users, found, shards, folder)
        result = ShardedAllocation(
            policy, resources, values, users.n, found.feasible.load * values, value, prices / values, certificate,
            tuple(shard.name for shard in shards), tuple(users.sizes), users.rounds,
            tuple(Path(str(out)).resolve() / name for name in written),
            partial(_tasks_again, shards, question, found.answer, found.factor),
        )  # fmt: skip
        if folder is not None:
            (folder / "summary.json").write_text(json.dumps(result.summary(), indent=1), encoding="utf-8")
    return result


def _crew(shards: Sequence[Shard], question: Question, client: Any) -> Crew:
    return Streaming(shards, question) if client is None else OnDask(shards, question, client)


def _tasks_again(shards: Sequence[Shard], question: Question, answer: tuple[Any, ...], factor: float, k: int) -> Float:
    tasks: Float = Held(shards[k], question).ask("tasks", answer, factor)[0]
    return tasks


class _Found(NamedTuple):
    """From what everybody's tasks follow (up to a factor near 1), and what was found out about them."""

    answer: tuple[Any, ...]
    factor: float
    feasible: Feasibility
    gap: float
    value: float
    prices: Float  # per whole capacity
    method: str


def _by_filling(users: Everybody) -> _Found:
    m = len(users.usable)
    filled = fill(users, users.usable) if users.opened else Filled((), np.zeros(m))
    if filled is None:
        raise _do_not_fit()
    answer = (filled.events,)
    found = Bottlenecks.of_all(users.parts("judge", answer) or [Bottlenecks.of_nobody(m)])
    factor = found.feasible.factor(users.usable, users.n)
    if factor < 1:
        found = found.scaled(factor)
    gap = found.gap(users.usable)  # of leximin, and so of max-min
    return _Found(answer, factor, found.feasible, gap, found.lowest, filled.prices, "water-filling")


def _by_prices(users: Everybody, alpha: float) -> _Found:
    m = len(users.usable)
    crossed = any(crossed for *_, (_, crossed) in users.opened)
    if crossed or (np.sum([low for *_, (low, _) in users.opened], axis=0) > users.usable * (1 + 1e-12)).any():
        raise _do_not_fit()

    best: _Found | None = None
    if not users.opened:
        return _Found((1.0, np.full(m, -np.inf)), 1.0, Worth.of_nobody(m).feasible, 0.0, 0.0, np.zeros(m), "prices")
    tries = price_tries(users, alpha)
    log_prices = next(tries, None)
    while log_prices is not None:
        found = _judged_prices(users, log_prices, alpha)
        best = found if best is None or found.gap < best.gap else best
        try:
            log_prices = tries.send(found.gap)
        except StopIteration:
            log_prices = None
    if best is None:
        raise NotCertified(
            f"no prices were found at alpha = {alpha:g}. Fix: solve in memory, where other routes can be tried, or "
            "choose an alpha from 0.1 to 20"
        )
    return best


def _judged_prices(users: Everybody, log_prices: Float, alpha: float) -> _Found:
    """What shards measure of what their users want at prices, put together."""
    found = Worth.of_all(users.parts("judge", (users.level, log_prices)))
    factor = found.feasible.factor(users.usable, users.n)
    if factor < 1:
        found = found.scaled(factor, alpha)
    with np.errstate(over="ignore"):
        gap = found.gap(float(np.exp(log_prices) @ users.usable), alpha)
    value, prices = found.natural(alpha, users.level), natural_prices(log_prices, alpha, users.level)
    return _Found((users.level, log_prices), factor, found.feasible, gap, value, prices, "prices")


def _do_not_fit() -> Infeasible:
    return Infeasible(
        "the lower bounds of all users together do not fit into the capacities; lower them, or give more capacity",
        ("the lower bounds", "the capacities"),
    )


def _objective(policy: Any) -> Objective:
    """The policy's objective, as one that users can be asked about in parts."""
    objective = getattr(policy, "objective", None)
    if isinstance(objective, FairnessEfficiency):
        objective = objective.alpha_fair() or objective
    if not isinstance(objective, (Leximin, MaxMin)) and not (isinstance(objective, AlphaFair) and objective.alpha > 0):
        raise OutOfDomain(
            f"{policy!r} is not solved in shards; that takes a policy with Leximin, MaxMin or AlphaFair (alpha > 0) of "
            "one share. Use its .allocate in memory"
        )
    _require_by_row(objective.share)
    return objective


def _require_by_row(share: Share) -> None:
    if not share.by_row:
        raise OutOfDomain(
            f"{share!r} may look at all users at once, so they cannot be in shards; if a user's coefficient "
            "depends on its own demands and the capacities alone, say `by_row = True` in the block"
        )


def _constraints(policy: Any) -> tuple[Constraint, ...]:
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
    return tuple(policy.constraints)


def _write(users: Everybody, found: _Found, shards: Sequence[Shard], folder: Path) -> list[str]:
    """Write every shard's tasks; returns the names of the files."""
    kind = "parquet" if isinstance(shards[0], ParquetShard) else "npy"
    names = [f"tasks-{k:05d}.{kind}" for k in range(len(shards))]
    loads = users.ask("write", found.answer, found.factor, each=[(str(folder / name),) for name in names])
    if not np.allclose(np.sum(loads, axis=0), found.feasible.load, rtol=1e-9, atol=0.0):
        raise NotCertified("what was written is not what was certified: shards changed meanwhile; start again")
    return names
