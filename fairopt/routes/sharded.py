"""Users in shards: the exact routes on one pool when the users are too many for one array, or on many computers.

Each round asks every shard the same question (loads at a level, or responses to prices) and adds up answers of
``m + m^2`` numbers. Shards keep no state but what they were read from, so a shard that is lost is read again elsewhere.
"""

from __future__ import annotations

import copy
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Certificate
from fairopt.blocks.constraints import Constraint, MaxShare, MaxTasks, MinShare, MinTasks, Reserve
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Objective
from fairopt.blocks.shares import Share
from fairopt.errors import Infeasible, InvalidBlock, NotCertified, OutOfDomain, SolverUnavailable
from fairopt.instance import Instance
from fairopt.routes.chunks import Pool
from fairopt.routes.evidence import Bottlenecks, Feasibility, Worth
from fairopt.routes.prices import Responding, Response, find_prices, unit_level
from fairopt.routes.program import Program
from fairopt.routes.shards import ParquetShard, Shard, named_capacities, shards_of
from fairopt.routes.waterfill import Event, Filled, Filling, Loads, Start, fill

__all__ = ["ShardedAllocation", "allocate_sharded"]

Float = NDArray[np.floating[Any]]
log = logging.getLogger("fairopt")

SAMPLE = 50_000  # users, from all shards, that the first guess is made from
PLAIN = (MinTasks, MaxTasks, MinShare, MaxShare, Reserve)  # constraints that say the same of every user


@dataclass(frozen=True)
class Question:
    """What every shard needs to know before it is asked anything."""

    objective: Objective
    constraints: tuple[Constraint, ...]
    capacities: Float
    resources: tuple[str, ...]

    @property
    def alpha(self) -> float | None:
        """None for water-filling."""
        return self.objective.alpha if isinstance(self.objective, AlphaFair) else None

    def program(self, instance: Instance) -> Program:
        """Objective and constraints on some users."""
        return Program(instance, self.objective, self.constraints)


class Held:
    """A shard that has been read, and answers questions.

    Parameters
    ----------
    shard : Shard
        Which.
    question : Question
        What will be asked.
    """

    def __init__(self, shard: Shard, question: Question) -> None:
        self.shard, self.question = shard, question
        self.program = question.program(shard.instance(question.capacities, question.resources))
        self.n = self.program.given.n_users
        self.users: Filling | Responding | None = None
        if not self.program.empty:
            assert self.program.pool_share is not None
            pool = Pool(self.program, self.program.pool_share)
            self.users = Filling(pool) if question.alpha is None else Responding(pool, question.alpha)

    def ask(self, name: str, *arguments: Any) -> Any:
        """The answer of one of the methods below, or of the users; None where nobody takes part."""
        own = getattr(self, f"_{name}", None)
        if own is not None:
            return own(*arguments)
        return None if self.users is None else getattr(self.users, name)(*arguments)

    def _opening(self) -> Any:
        """How many users, whose, how many weights, and how they begin."""
        opened: Any = None
        if isinstance(self.users, Filling):
            opened = self.users.start()
        elif self.users is not None:
            opened = self.users.rates, self.users.first_limit, self.users.pool.least()
        return self.n, opened

    def _respond(self, level: float, log_prices: Float, alpha: float) -> Response | None:
        if self.users is None:
            return None
        assert isinstance(self.users, Responding)
        self.users.level = level
        return self.users.respond(log_prices, alpha)

    def _surplus(self, level: float, log_prices: Float, alpha: float) -> float | None:
        if self.users is None:
            return None
        assert isinstance(self.users, Responding)
        self.users.level = level
        return self.users.surplus(log_prices, alpha)

    def _sample(self, every: int) -> tuple[Float, Float, Float] | None:
        """Every so many of the users: demands, weights, limits."""
        if self.users is None:
            return None
        instance = self.program.instance
        pick = slice(None, None, every)
        return tuple(np.array(x[pick]) for x in (instance.demands, instance.weights, instance.task_limits))  # type: ignore[return-value]

    def _settled(self, answer: tuple[Any, ...]) -> tuple[Float, Any]:
        """Tasks of those who take part, and the evidence, from the events or from level and prices."""
        users = copy.copy(self.users)
        assert users is not None
        users.tasks = users.tasks.copy()
        if isinstance(users, Filling):
            found: Any = users.judged(*answer)
        else:
            users.level, log_prices = answer
            found = users.judged(log_prices)
        return users.tasks, found

    def _judge(self, answer: tuple[Any, ...]) -> Bottlenecks | Worth | None:
        return None if self.users is None else self._settled(answer)[1]

    def _tasks(self, answer: tuple[Any, ...], factor: float) -> Float:
        """Tasks of all users of the shard, those who take no part included."""
        out = np.zeros(self.n)
        if self.users is not None:
            out[self.program.active] = self._settled(answer)[0] * factor
        return out

    def _write(self, answer: tuple[Any, ...], factor: float, path: str) -> float:
        """Write the tasks to a file; returns their sum."""
        tasks = self._tasks(answer, factor)
        if path.endswith(".parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq

            columns: dict[str, Any] = {"tasks": tasks}
            labels = self.shard.read().labels
            if labels is not None:
                columns = {"user": labels, **columns}
            pq.write_table(pa.table(columns), path)
        else:
            np.save(path, tasks)
        return float(tasks.sum())


class Crew(Protocol):
    """Whoever holds the shards."""

    def ask(self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Ask every shard the same (and in ``each`` something of its own), in the order of shards."""


class Streaming:
    """Shards read one after the other in this process, and again in every round."""

    def __init__(self, shards: Sequence[Shard], question: Question) -> None:
        self.shards, self.question = shards, question

    def ask(self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """One shard in memory at a time."""
        own = each or [()] * len(self.shards)
        return [
            Held(shard, self.question).ask(name, *arguments, *more)
            for shard, more in zip(self.shards, own, strict=True)
        ]


class OnDask:
    """Shards held by the workers of a Dask cluster, and read again by another where a worker is lost."""

    def __init__(self, shards: Sequence[Shard], question: Question, client: Any) -> None:
        self.client = client
        with self._working():
            self.held = [client.submit(Held, shard, question, pure=False) for shard in shards]

    def ask(self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """All at once."""
        own = each or [()] * len(self.held)
        with self._working():
            futures = [
                self.client.submit(Held.ask, held, name, *arguments, *more, pure=False)
                for held, more in zip(self.held, own, strict=True)
            ]
            return list(self.client.gather(futures))

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Errors of shards pass; what the cluster itself raises gets a name."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        try:
            yield
        except KilledWorker as error:
            raise SolverUnavailable(
                f"a shard brought down one Dask worker after the other ({error}); most likely it does not fit into a "
                "worker's memory: give workers more, or smaller shards"
            ) from error
        except (OSError, FutureCancelledError, TimeoutError, RuntimeError) as error:
            raise SolverUnavailable(
                f"the Dask cluster went away in the middle ({type(error).__name__}: {error}), and there is no answer; "
                "start it again, or leave client out to work in this process"
            ) from error


class Everybody:
    """All shards together, as `fill` and `find_prices` ask them."""

    def __init__(self, crew: Crew, question: Question, progress: Callable[[int, str], None] | None) -> None:
        self.crew, self.question, self.progress = crew, question, progress
        self.rounds = 0
        opened = self.ask("opening")
        self.sizes = [n for n, _ in opened]
        self.n = sum(self.sizes)
        self.opened = [part for _, part in opened if part is not None]
        self.usable: Float = np.ones(len(question.capacities))
        nobody = Instance(np.zeros((0, len(self.usable))), question.capacities, resources=question.resources)
        for constraint in question.constraints:
            usable = constraint.usable(nobody)
            self.usable = self.usable if usable is None else np.minimum(self.usable, usable)
        self.level = 1.0
        if question.alpha is not None and self.opened:
            rates = np.sum([rates for rates, _, _ in self.opened], axis=0)
            self.level = unit_level(rates, self.usable, min(p[1] for p in self.opened), question.alpha)

    def ask(self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """One round."""
        self.rounds += 1
        begun = time.perf_counter()
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

    def surplus(self, log_prices: Float, alpha: float) -> float:
        """Sum of what each gains at its best."""
        return float(np.sum(self.parts("surplus", self.level, log_prices, alpha)))

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
        pool = Pool(program, program.pool_share)
        pool.usable = self.usable * (len(demands) / self.n)
        return pool


@dataclass(frozen=True, eq=False, repr=False)
class ShardedAllocation:
    """Who runs how much, when the users are in shards: everything but the tasks, which stay where the shards are.

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
        Derivative of the objective per natural unit of capacity.
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
    files: tuple[Path, ...] = ()
    _again: Callable[[int], Float] = field(default=lambda shard: np.zeros(0))

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
        if self.files and self.files[k].suffix == ".npy":
            return np.load(self.files[k])
        return self._again(k)

    def __repr__(self) -> str:
        name = getattr(self.policy, "name", None) or repr(self.policy)
        count = len(self.shards)
        return (
            f"<ShardedAllocation by {name} of {self.n_users:,} users x {len(self.resources)} resources in {count} "
            f"shard{'s' * (count != 1)}: {self.certificate}, {self.rounds} rounds>"
        )


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
        Demands per task, users x resources: an array or memory map, a ``.npy`` file, a Parquet file or folder (a
        column per resource; ``weight`` and ``task_limit`` where there are such; ``user`` is a label) or a Dask array.
        A shard is a row group, a block, or a million rows.
    capacities : array-like of shape (n_resources,) or dict by resource
        Units in the pool, positive; a dict for Parquet, since it says which columns to read.
    client : distributed.Client, optional
        Of a Dask cluster whose workers read and keep the shards (they must reach the files). Without one, shards are
        read one after the other in this process, in every round.
    out : str or Path, optional
        A new folder for the tasks of each shard and a ``summary.json``; it appears when all is done, or not at all.
    progress : callable, optional
        Called after each round with its number and what was asked.

    Returns
    -------
    ShardedAllocation

    Raises
    ------
    InvalidInstance
        If a source or shard is wrong; names the shard, and the row (counted from 0).
    OutOfDomain
        If users cannot be looked at in parts under this policy.
    Infeasible
        If the lower bounds do not fit.
    NotCertified
        If the answer cannot be proved right.
    SolverUnavailable
        If the cluster went away.
    MissingExtra
        Without pyarrow, where it is needed.

    Notes
    -----
    Water-filling takes a round or a few for each resource that becomes full; prices take about four rounds after those
    of a sample. A worker that dies costs time, not the answer: its shards are read again elsewhere.

    Examples
    --------
    >>> import fairopt as fo, numpy as np
    >>> demands = np.random.default_rng(0).uniform(1, 10, (1000, 3))
    >>> a = fo.allocate_sharded(fo.FDS(2), [demands[:600], demands[600:]], capacities=[50, 60, 70])
    >>> a.certificate.ok, a.sizes
    (True, (600, 400))
    """
    begun = time.perf_counter()
    values, names = named_capacities(capacities)
    objective = _objective(policy)
    shards = shards_of(source, names)
    resources = names or tuple(f"resource{i + 1}" for i in range(len(values)))
    question = Question(objective, _constraints(policy), values, resources)
    if out is not None:
        _new(out)
    crew: Crew = Streaming(shards, question) if client is None else OnDask(shards, question, client)
    users = Everybody(crew, question, progress)
    found = _by_filling(users, objective) if question.alpha is None else _by_prices(users, question.alpha)
    factor = found.evidence.feasible.factor(users.usable, users.n)
    evidence = found.evidence if factor == 1 else found.scaled(factor)
    feasible: Feasibility = evidence.feasible
    gap, value, whole = found.measure(evidence)
    certificate = Certificate(
        gap=gap, violation=feasible.violation, method=found.method, seconds=time.perf_counter() - begun,
        block_violation=feasible.short,
    )  # fmt: skip
    if not certificate.ok:
        raise NotCertified(
            f"no answer could be certified: gap {gap:.2g} (tolerance 1e-6), violation {feasible.violation:.2g} (1e-9). "
            "Fix: solve a smaller part of the users in memory, where other routes can be tried"
        )
    if isinstance(policy.objective, FairnessEfficiency):
        value, slope = policy.objective.of_alpha_fair(value)
        whole = whole * slope

    def again(k: int) -> Float:
        return Held(shards[k], question).ask("tasks", found.answer, factor)

    result = ShardedAllocation(
        policy, resources, values, users.n, feasible.load * values, value, whole / values, certificate,
        tuple(shard.name for shard in shards), tuple(users.sizes), users.rounds, (), again,
    )  # fmt: skip
    if out is None:
        return result
    return _written(result, users, (found.answer, factor), Path(out), parquet=isinstance(shards[0], ParquetShard))


@dataclass(frozen=True)
class _Found:
    """From what everybody's tasks follow, and what was found out about them."""

    answer: tuple[Any, ...]
    evidence: Bottlenecks | Worth
    method: str
    measure: Callable[[Any], tuple[float, float, Float]]  # evidence to gap, value and prices per whole capacity
    scaled: Callable[[float], Bottlenecks | Worth]


def _by_filling(users: Everybody, objective: Objective) -> _Found:
    filled = fill(users, users.usable) if users.opened else Filled(0.0, (), np.zeros(len(users.usable)))
    if filled is None:
        raise _do_not_fit()
    answer = (filled.events,)
    evidence = Bottlenecks.of_all(users.parts("judge", answer) or [Bottlenecks.of_nobody(len(users.usable))])

    def measure(found: Bottlenecks) -> tuple[float, float, Float]:
        if isinstance(objective, MaxMin):
            gap = max(filled.first_level / max(found.lowest, 1e-300) - 1.0, 0.0)
        else:
            gap = found.gap(users.usable)
        return gap, found.lowest, filled.prices

    return _Found(answer, evidence, "water-filling", measure, evidence.scaled)


def _by_prices(users: Everybody, alpha: float) -> _Found:
    m = len(users.usable)
    if (
        any(crossed for *_, (_, crossed) in users.opened)
        or (np.sum([least for *_, (least, _) in users.opened], axis=0) > users.usable * (1 + 1e-12)).any()
    ):
        raise _do_not_fit()
    log_prices = find_prices(users, alpha) if users.opened else np.full(m, -np.inf)
    if log_prices is None:
        raise NotCertified(
            f"no prices were found at alpha = {alpha:g}. Fix: solve in memory, where other routes can be tried, or "
            "choose an alpha from 0.1 to 20"
        )
    answer = (users.level, log_prices)
    evidence = Worth.of_all(users.parts("judge", answer) or [Worth.of_nobody(m)])

    def measure(found: Worth) -> tuple[float, float, Float]:
        value, unit = found.natural(alpha, users.level)
        with np.errstate(over="ignore"):
            charged = np.exp(log_prices)
        return found.gap(float(charged @ users.usable), alpha), value, charged * unit

    return _Found(answer, evidence, "prices", measure, lambda factor: evidence.scaled(factor, alpha))


def _do_not_fit() -> Infeasible:
    return Infeasible(
        "the lower bounds of all users together do not fit into the capacities; lower them, or give more capacity",
        ("the lower bounds", "the capacities"),
    )


def _objective(policy: Any) -> Objective:
    """The policy's objective, as one that users can be asked about in parts."""
    objective = policy.objective
    if isinstance(objective, FairnessEfficiency):
        objective = objective.alpha_fair() or objective
    shared = isinstance(objective, (Leximin, MaxMin)) or (isinstance(objective, AlphaFair) and objective.alpha > 0)
    if not shared:
        raise OutOfDomain(
            f"{objective!r} is not solved in shards; that takes Leximin, MaxMin or AlphaFair with alpha > 0 of one "
            "share. Use policy.allocate in memory"
        )
    if not objective.share.by_row:
        raise OutOfDomain(
            f"{objective.share!r} may look at all users at once, so they cannot be in shards; if a user's coefficient "
            "depends on its own demands and the capacities alone, say `by_row = True` in the block"
        )
    return objective


def _constraints(policy: Any) -> tuple[Constraint, ...]:
    for constraint in policy.constraints:
        values = [getattr(constraint, f.name) for f in fields(constraint)]
        if type(constraint) not in PLAIN or not all(isinstance(v, (int, float, str, Share)) for v in values):
            raise OutOfDomain(
                f"{constraint!r} cannot be asked of users in shards; that takes MinTasks, MaxTasks, MinShare or "
                "MaxShare with one number for all, or Reserve. Give limits by user as a column task_limit"
            )
    return tuple(policy.constraints)


def _written(
    result: ShardedAllocation, users: Everybody, answer: tuple[Any, ...], folder: Path, parquet: bool
) -> ShardedAllocation:
    """Write every shard's tasks beside the folder, which gets its name when all is there."""
    partial = folder.with_name(folder.name + ".partial")
    names = [f"tasks-{k:05d}.{'parquet' if parquet else 'npy'}" for k in range(len(result.shards))]
    try:
        partial.mkdir(parents=True)
        users.ask("write", *answer, each=[(str((partial / name).resolve()),) for name in names])
        summary = {
            "policy": repr(result.policy), "users": result.n_users, "objective": result.objective,
            "resources": list(result.resources), "capacities": result.capacities.tolist(),
            "usage": result.usage.tolist(), "prices": result.prices.tolist(),
            "gap": result.certificate.gap, "violation": result.certificate.violation,
            "method": result.certificate.method, "seconds": result.certificate.seconds,
            "shards": [{"shard": s, "users": n, "file": f}
                       for s, n, f in zip(result.shards, result.sizes, names, strict=True)],
        }  # fmt: skip
        (partial / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return replace(result, files=tuple(folder / name for name in names), rounds=users.rounds)


def _new(out: str | Path) -> None:
    """Refuse a folder that is there already, before anything is worked out."""
    folder = Path(out)
    for there in (folder, folder.with_name(folder.name + ".partial")):
        if there.exists():
            raise InvalidBlock(f"{str(there)!r} exists already; give a new folder for the tasks, or remove it")
