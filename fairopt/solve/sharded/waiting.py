"""Dask clusters whose workers may be missing, die or stop.

A stopped worker keeps its connection, and Dask takes minutes to notice; here, workers that run no function count as
stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fairopt.errors import FairoptError, SolverUnavailable
from fairopt.runtime.clock import check, current

PATIENCE = 30.0  # seconds between checks of the workers
SILENCE = 5.0  # seconds in which a worker has to respond; it takes a millisecond, whatever the worker computes
CHECKS = 12  # that find shards on silent workers before the call fails; Dask drops such workers after 5 minutes


@contextmanager
def named_errors(client: Any) -> Iterator[None]:
    """Explain errors of the cluster itself; those of shards pass."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except FairoptError:
        raise
    except KilledWorker as error:
        raise SolverUnavailable(
            f"a shard killed one Dask worker after the other ({error}), probably because it does not fit into a "
            "worker's memory; give workers more memory, or smaller shards"
        ) from error
    except Exception as error:
        if client.status == "running" and not isinstance(error, CancelledError):
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise SolverUnavailable(
            f"the Dask cluster stopped during the call ({reason}); start it again, or leave out client to work in this "
            "process"
        ) from error


def gathered(client: Any, futures: list[Any], again: Callable[[list[str], list[str]], bool] | None = None) -> list[Any]:
    """The results of futures, as long as the cluster has workers that respond.

    ``again`` is called with the addresses of silent and of live workers. It moves the futures of the former to the
    latter, and returns whether there were any.
    """
    import distributed

    of: Any = distributed

    async def results() -> list[Any]:
        await of.wait(futures)
        return list(await client.gather(futures))

    silent: list[str] = []
    left, clock = CHECKS, current()
    while left:
        seconds = None if clock is None else clock.left
        try:
            return list(client.sync(results, callback_timeout=PATIENCE if seconds is None else min(PATIENCE, seconds)))
        except TimeoutError:
            if any(future.status == "error" for future in futures):  # the TimeoutError is a shard's own
                raise
        check("shards", sum(future.done() for future in futures), len(futures))
        live, silent = answering(client)
        if not live and not silent:
            break
        if silent and (again is None or not live or again(silent, live)):
            left -= 1
    raise nobody(silent)


def answering(client: Any, function: Callable[..., Any] = int, *arguments: Any) -> tuple[list[str], list[str]]:
    """The addresses of workers that run a function now, and of those that do not."""
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
    """The error of a cluster without live workers."""
    has = f"only workers that do not respond ({', '.join(silent)})" if silent else "no workers"
    return SolverUnavailable(f"the Dask cluster has {has}; start some, or leave out client to work in this process")
