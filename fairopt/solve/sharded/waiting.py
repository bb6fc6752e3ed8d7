"""Results of Dask clusters whose workers may be missing or die.

What a dead worker had is computed again by Dask, and so is that of a worker without a sign of life for the scheduler's
``worker-ttl``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairopt.errors import FairoptError, SolverUnavailable
from fairopt.runtime.clock import check, current

PATIENCE = 30.0  # seconds between checks of the time limit, and that there are workers


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


def gathered(client: Any, futures: list[Any]) -> list[Any]:
    """The results of futures, as long as the cluster has workers."""
    import distributed

    of: Any = distributed

    async def results() -> list[Any]:
        await of.wait(futures)
        return list(await client.gather(futures))

    clock = current()
    while True:
        seconds = None if clock is None else clock.left
        try:
            return list(client.sync(results, callback_timeout=PATIENCE if seconds is None else min(PATIENCE, seconds)))
        except TimeoutError:
            if any(future.status == "error" for future in futures):  # the TimeoutError is a shard's own
                raise
        check("shards", sum(future.done() for future in futures), len(futures))
        if not client.nthreads():
            raise SolverUnavailable(
                "the Dask cluster has no workers; start some, or leave out client to work in this process"
            )
