"""Waiting: for the time limit of a call, and for a Dask cluster whose workers may be missing, die or stop.

A worker that is stopped keeps its connection, and Dask takes minutes to notice: it is found by asking it something.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fairopt.errors import FairoptError, NotCertified, SolverUnavailable
from fairopt.runtime.clock import checked

PATIENCE = 30.0  # seconds between checks whether the cluster has workers, and whether they answer
SILENCE = 5.0  # seconds in which a worker answers; it takes a millisecond, whatever the worker computes
CHECKS = 12  # that find a shard with silent workers, until the call is given up; Dask drops these after 5 minutes


class Deadline:
    """When a call has to end; it is checked between shards. ``during`` is the work at hand."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.during = checked(seconds), "the start"
        self.end = None if seconds is None else time.perf_counter() + seconds

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.end is not None and time.perf_counter() >= self.end

    def most(self, seconds: float) -> float:
        """So many seconds, or those that are left."""
        return seconds if self.end is None else min(seconds, max(self.end - time.perf_counter(), 0.0))

    def check(self, done: int, of: int) -> None:
        """Raise `NotCertified` if the time is up, after so many shards of a round."""
        if self.over:
            raise NotCertified(
                f"the time limit of {self.seconds:g} s was reached in {self.during}, after {done} of {of} shards, "
                "before there was an answer. Fix: give it more time_limit, or a client with more workers"
            )


@contextmanager
def named_errors(client: Any) -> Iterator[None]:
    """Let errors of shards pass, and explain those of the cluster itself."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except FairoptError:
        raise
    except KilledWorker as error:
        raise SolverUnavailable(
            f"a shard ended one Dask worker after the other ({error}); most likely it does not fit into a "
            "worker's memory: give workers more, or smaller shards"
        ) from error
    except Exception as error:
        if client.status == "running" and not isinstance(error, CancelledError):
            raise
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        raise SolverUnavailable(
            f"the Dask cluster stopped during the call ({told}), and there is no answer; start it again, or leave "
            "client out to work in this process"
        ) from error


def gathered(
    client: Any, futures: list[Any], deadline: Deadline, again: Callable[[list[str], list[str]], bool] | None = None
) -> list[Any]:
    """The results of futures, as long as the cluster has workers that answer.

    ``again`` is called with the addresses of workers that do not answer and of those that do: it asks the latter for
    what the former have, and says whether that was anything.
    """
    import distributed

    of: Any = distributed

    async def results() -> list[Any]:
        await of.wait(futures)
        return list(await client.gather(futures))

    silent: list[str] = []
    left = CHECKS
    while left:
        try:
            return list(client.sync(results, callback_timeout=deadline.most(PATIENCE)))
        except TimeoutError:
            if any(future.status == "error" for future in futures):  # a shard's own
                raise
        deadline.check(sum(future.done() for future in futures), len(futures))
        live, silent = answering(client)
        if not live and not silent:
            break
        if silent and (again is None or not live or again(silent, live)):
            left -= 1
    raise nobody(silent)


def answering(client: Any, function: Callable[..., Any] = int, *arguments: Any) -> tuple[list[str], list[str]]:
    """The workers that run a function now, and those that do not: stopped ones keep their connection."""
    live: list[str] = []
    workers = list(client.nthreads())

    async def one(address: str) -> None:
        try:
            await asyncio.wait_for(client.run(function, *arguments, workers=[address]), SILENCE)
        except (TimeoutError, OSError):
            return
        live.append(address)

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, workers))

    client.sync(all_of_them)
    return live, [address for address in workers if address not in live]


def nobody(silent: Sequence[str]) -> SolverUnavailable:
    """The error of a cluster in which nobody works."""
    told = f"workers that do not answer ({', '.join(silent)})" if silent else "no workers (any more)"
    return SolverUnavailable(
        f"the Dask cluster has {told}, and there is no answer; start some, or leave client out to work in this process"
    )
