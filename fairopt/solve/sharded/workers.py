"""Backends that evaluate shards: in this process, or by the workers of a Dask cluster."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.objectives import Objective
from fairopt.errors import FairoptError, InvalidBlock, SolverUnavailable, optional
from fairopt.instance import Instance
from fairopt.io.saving import write_whole
from fairopt.proof.pool_gaps import (
    AlphaFairSums,
    Bottlenecks,
    Corrections,
    alpha_fair_sums_of,
    bottlenecks_of,
    combined,
    corrections_of,
)
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import current
from fairopt.runtime.progress import tell
from fairopt.runtime.threads import one_thread
from fairopt.solve.form.pool_users import Chunk, Pool
from fairopt.solve.form.program import Program
from fairopt.solve.pool.alpha_fair import AlphaFairPool, Response
from fairopt.solve.pool.waterfilling import MOST_RESOURCES, Start, WaterfillingPool
from fairopt.solve.sharded.shards import BlockShard, FileRows, Shard

PATIENCE = 30.0  # seconds between checks of the time limit, and that there are workers
FINAL = ("judge", "corrections", "tasks", "write")  # methods of `LoadedShard` whose results are certified or returned


@dataclass(frozen=True)
class ShardedProblem:
    """What all shards have in common."""

    objective: Objective
    constraints: tuple[Constraint, ...]
    capacities: Float
    resources: tuple[str, ...]

    def program(self, instance: Instance) -> Program:
        """The program of objective and constraints on some users."""
        return Program(instance, self.objective, self.constraints)

    @property
    def reads_whole(self) -> bool:
        """Whether files are read into arrays in every round, as constraints, or leximin of many resources, need it."""
        by_set = self.objective.term.alpha is not None or len(self.resources) <= MOST_RESOURCES
        return bool(self.constraints) or not by_set


class LoadedShard:
    """A shard in memory. Its errors name the shard and the row."""

    def __init__(self, shard: Shard, problem: ShardedProblem) -> None:
        self.shard, self.problem = shard, problem
        self._read()

    def _read(self) -> None:
        self.users: WaterfillingPool | AlphaFairPool | None = None
        shard, problem = self.shard, self.problem
        with shard.named():
            instance, self._checksum = shard.instance(problem.capacities, problem.resources, problem.reads_whole)
            program = problem.program(instance)
            program.refuse_infinite_objective()
            arrays = [program.instance.demands, program.instance.weights, program.instance.task_limits]
            if not program.empty:
                assert program.pool_share is not None
                pool, alpha = Pool(program, program.pool_share), program.term.alpha
                self.users = WaterfillingPool(pool) if alpha is None else AlphaFairPool(pool, alpha)
                arrays.append(self.users.tasks)
        self.size = sum(array.nbytes for array in arrays if array.strides != (0,))
        self.program = program

    def __getstate__(self) -> dict[str, Any]:
        """What Dask moves to another worker: the next round there reads the rows again, and may raise then.

        An error while Dask receives a message would let the call wait for ever, and a round may be changing the users.
        """
        return {"shard": self.shard, "problem": self.problem, "size": self.size}

    def __sizeof__(self) -> int:
        return self.size

    @property
    def checksum(self) -> int | None:
        """The checksum of what was read; None for arrays that are not copied."""
        demands: Any = self.program.given.demands
        return demands.checksum if isinstance(demands, FileRows) else self._checksum

    @one_thread()
    def answer(self, name: str, *arguments: Any) -> tuple[int | None, Any]:
        """The checksum, and the result of a method below, or of the users; None if no user takes part."""
        if not hasattr(self, "program"):  # after a move
            self._read()
        own = getattr(self, f"_{name}", None)
        demands: Any = self.program.given.demands
        if isinstance(demands, FileRows):
            demands.compares = name in FINAL
        with self.shard.named():
            if own is not None:
                return self.checksum, own(*arguments)
            return self.checksum, None if self.users is None else getattr(self.users, name)(*arguments)

    def _opening(self) -> tuple[int, Start | None]:
        """The number of users, and what they report before any rises."""
        n, users = self.program.given.n_users, self.users
        if isinstance(users, AlphaFairPool):
            low, crossed = users.pool.least()
            return n, Start(low, users.rates, None, users.first_limit, users.pool.bounded, crossed)
        return n, None if users is None else users.start()

    def _respond(self, level: float, log_prices: Float, alpha: float) -> Response | None:
        if self.users is None:
            return None
        assert isinstance(self.users, AlphaFairPool)
        self.users.level = level
        return self.users.respond(log_prices, alpha)

    def _sample(self, every: int) -> tuple[Float, Float, Float, int] | None:
        """Demands, weights and limits of one user in so many, and the number of users who take part."""
        if self.users is None:
            return None
        instance = self.program.instance
        pick = slice(None, None, every)
        demands, weights, limits = instance.demands[pick], instance.weights[pick], instance.task_limits[pick]
        return np.array(demands), np.array(weights), np.array(limits), instance.n_users

    def _settled(self, answer: tuple[Any, ...], least: Float | None = None) -> tuple[Float, Any]:
        """Tasks of the users who take part, from events or from level and prices, and their measures, in one pass.

        With ``least`` the measures are the first-order corrections of Bound 4.3 for small holdings.
        """
        users = copy.copy(self.users)
        assert users is not None
        users.tasks = tasks = users.tasks.copy()
        measure: Callable[[Chunk, Float], Any]
        if isinstance(users, WaterfillingPool):
            (events,) = answer
            settle: Callable[[Chunk], None] = partial(users.settle, events=events)
            order = [event.resource for event in events]
            measure = partial(bottlenecks_of, order=order)
            if least is not None:
                measure = partial(corrections_of, order=order, least=least)
        else:
            users.level, log_prices = answer
            settle = users.settling(log_prices)
            measure = partial(alpha_fair_sums_of, log_prices=log_prices, alpha=users.alpha, level=users.level)

        def measured(chunk: Chunk) -> Any:
            settle(chunk)
            return measure(chunk, tasks[chunk.rows])

        return tasks, combined(users.pool.each(measured))

    def _judge(self, answer: tuple[Any, ...]) -> Bottlenecks | AlphaFairSums | None:
        return None if self.users is None else self._settled(answer)[1]

    def _corrections(self, answer: tuple[Any, ...], least: Float) -> Corrections | None:
        return None if self.users is None else self._settled(answer, least)[1]

    def _tasks(self, answer: tuple[Any, ...], factor: float) -> tuple[Float, Float]:
        """Tasks of all users, zero for those who take no part, and their loads."""
        out = np.zeros(self.program.given.n_users)
        if self.users is None:
            return out, np.zeros(len(self.problem.resources))
        tasks, found = self._settled(answer)
        out[slice(None) if self.program.all_take_part else self.program.active] = tasks * factor
        return out, found.feasible.load * factor

    def _write(self, answer: tuple[Any, ...], factor: float, path: str) -> Float:
        """Write the tasks to a file, and return their loads."""
        tasks, load = self._tasks(answer, factor)
        labels = self.shard.labels()
        try:
            if path.endswith(".parquet"):
                import pyarrow as pa
                import pyarrow.parquet as pq

                table = pa.table({"tasks": tasks} if labels is None else {"user": labels, "tasks": tasks})
                write_whole(Path(path), lambda file: pq.write_table(table, file))
            else:
                write_whole(Path(path), lambda file: np.save(file, tasks))
        except OSError as error:
            error.add_note("this process and all workers write there")
            raise
        return load


class InProcess:
    """Shards read one after the other in this process, in every round.

    Shards whose demands are views or in files are kept, with a number or two per user: 3 million users of a file take a
    half (DRF) to a third (alpha-fairness) of the time of loading them again. What must be read whole is loaded again.
    """

    def __init__(self, shards: Sequence[Shard], problem: ShardedProblem) -> None:
        self.shards, self.problem = shards, problem
        self.kept: dict[int, LoadedShard] = {}

    def ask(
        self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None
    ) -> list[tuple[int | None, Any]]:
        """Evaluate every shard, with the arguments that ``each`` adds by shard; one is in memory at a time."""
        answers = []
        for k, more in enumerate(each or [()] * len(self.shards)):
            tell(f"{name}, shards", k, len(self.shards))
            answers.append(self._loaded(k).answer(name, *arguments, *more))
        return answers

    def _loaded(self, k: int) -> LoadedShard:
        loaded = self.kept.get(k)
        if loaded is None:
            shard, problem = self.shards[k], self.problem
            loaded = LoadedShard(shard, problem)
            if not problem.constraints and not shard.copies(problem.reads_whole):
                self.kept[k] = loaded
        return loaded

    def close(self) -> None:
        """Forget the shards."""
        self.kept.clear()


class DaskWorkers:
    """Shards in the memory of Dask workers, as futures: Dask places them, and reads those of a lost worker again.

    For users that do not fit on one computer: of 100 million in Parquet, two workers on the same computer take two
    thirds of the time for alpha-fairness, whose rounds find the shards in memory, and 1.8 times as long for DRF, which
    reads them twice.
    """

    def __init__(self, shards: Sequence[Shard], problem: ShardedProblem, client: Any) -> None:
        distributed = optional("distributed", "distributed", "a Dask cluster")
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise InvalidBlock(
                f"client is {client!r}; give a distributed.Client that is not asynchronous, as Client(address), or None"
            )
        from distributed.protocol.pickle import dumps

        self.client: Any = client
        self.shards = shards
        self.loaded: list[Any] = []
        # as bytes: a message with a class that a worker cannot import would end the worker
        content = dumps(problem)  # type: ignore[no-untyped-call]
        with self._named_errors():
            self._require_workers()
            self.loaded.extend(self._load(shard, content) for shard in shards)

    def _load(self, shard: Shard, content: bytes) -> Any:
        """A shard on any worker; a block of a Dask array is computed near its data."""
        block = None
        if isinstance(shard, BlockShard):
            block, shard = self.client.compute(shard.demands), replace(shard, demands=None)
        return self.client.submit(_loaded, shard, block, content, pure=False)

    def ask(
        self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None
    ) -> list[tuple[int | None, Any]]:
        """Evaluate all shards in parallel, with the arguments that ``each`` adds by shard."""
        own = each or [()] * len(self.loaded)
        with self._named_errors():
            futures = [
                self.client.submit(LoadedShard.answer, loaded, name, *arguments, *more, pure=False)
                for loaded, more in zip(self.loaded, own, strict=True)
            ]
            try:
                return self._gathered(futures)
            finally:
                _release(futures)

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """The results of futures, within the time limit and as long as the cluster has workers."""
        import distributed

        of: Any = distributed

        async def results() -> list[Any]:
            await of.wait(futures)  # without it Dask logs errors of shards that it did not look at
            return list(await self.client.gather(futures))

        clock = current()
        while True:
            seconds = PATIENCE if clock is None or clock.left is None else min(PATIENCE, clock.left)
            try:
                return list(self.client.sync(results, callback_timeout=seconds))
            except TimeoutError:
                if any(future.status == "error" for future in futures):  # the TimeoutError is a shard's own
                    raise
            tell("shards", sum(future.done() for future in futures), len(futures))
            self._require_workers()

    def _require_workers(self) -> None:
        """Raise `SolverUnavailable` if the cluster has no workers, for which Dask would wait."""
        if not self.client.nthreads():
            raise SolverUnavailable(
                "the Dask cluster has no workers; start some, or leave out client to work in this process"
            )

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Explain errors of the cluster itself; those of shards pass."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            yield
        except Exception as error:
            stopped = self.client.status != "running" or isinstance(error, (CancelledError, KilledWorker))
            if isinstance(error, FairoptError) or not stopped:
                raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise SolverUnavailable(
                f"the Dask cluster stopped or lost its workers during the call ({reason}); start it again, give "
                "workers more memory or smaller shards, or leave out client to work in this process"
            ) from error

    def close(self) -> None:
        """Release the shards on the workers, even if a future is still referenced."""
        _release(self.loaded)


def _release(futures: Sequence[Any]) -> None:
    for future in futures:  # the traceback of an exception would keep them
        future.release()


def _loaded(shard: Shard, block: Any, content: bytes) -> LoadedShard:
    """A shard in a worker, with its block if it is one."""
    try:
        problem = pickle.loads(content)
    except (ImportError, AttributeError) as error:
        raise SolverUnavailable(
            f"a Dask worker cannot load the policy ({error}); install the same packages there as here, or send a "
            "module of your own with client.upload_file(path)"
        ) from error
    return LoadedShard(replace(shard, demands=block) if isinstance(shard, BlockShard) else shard, problem)
