"""``fairopt shards``: allocate one pool to more users than fit into memory."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import WHAT_POLICY, AsJson
from fairopt.cli.progress import console_for, show_json, working, written
from fairopt.errors import InvalidBlock, InvalidInstance, SolverUnavailable, optional
from fairopt.policies.registry import named_policy
from fairopt.policy import label
from fairopt.runtime import subprocesses
from fairopt.scale.sharded import allocate_sharded

SHARDS = """Allocate one pool to more users than fit into memory, read from tables or .npy files.

A table of users has one column per resource and optionally weight, task_limit and user; give the capacities by \
--capacity. A folder with users.parquet and servers.parquet (or .csv) holds the capacities too. Without workers only \
one shard is in memory at a time.

\b
[bold]Examples[/]
  fairopt shards users/ -c cpu=64000 -c gpu=800 --policy drf
  fairopt shards cluster/ --policy drf
  fairopt shards demands.npy -c 64000 -c 800 --policy fds:alpha=2 --out tasks/
  fairopt shards users/ -c cpu=64000 -c gpu=800 --workers 4 --memory 3GB
  fairopt shards users/ -c cpu=64000 -c gpu=800 --scheduler tcp://10.0.0.1:8786"""


@app.command(no_args_is_help=True, help=SHARDS)
@guarded
def shards(
    source: Annotated[
        str,
        typer.Argument(
            show_default=False,
            metavar="SOURCE",
            help="A Parquet file or folder, a .npy file or a folder of these, or "
            "a folder with tables of users and servers.",
        ),
    ],
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            "--capacity",
            "-c",
            help="Capacity of a resource: NAME=UNITS, or UNITS if SOURCE has no names; repeatable. "
            "Default: from the table of servers.",
        ),
    ] = None,
    policy: Annotated[str, typer.Option("--policy", "-p", help=WHAT_POLICY)] = "drf",
    out: Annotated[Path | None, typer.Option(help="New folder for the tasks, inside an existing one.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Number of local Dask workers to start.")] = 0,
    memory: Annotated[str, typer.Option(help="Memory of each worker, such as 3GB.")] = "auto",
    scheduler: Annotated[str | None, typer.Option(help="Address of a running Dask cluster.")] = None,
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="Time limit.")] = None,
    as_json: AsJson = False,
) -> None:
    """Allocate one pool to users in shards."""
    mechanism, units = named_policy(policy), _units(capacity)
    with working(f"{label(mechanism)} on {source}"), _cluster(workers, memory, scheduler) as client:
        found = allocate_sharded(mechanism, source, capacities=units, client=client, out=out, time_limit=time_limit)
    if as_json:
        show_json("fairopt.shards/1", found.summary())
        return
    console = console_for()
    console.print(f"{found!r}", markup=False, soft_wrap=True)
    rows = zip(found.resources, found.capacities, found.usage, found.prices, strict=True)
    for name, whole, used, price in rows:
        console.print(
            f"  {name}: {used:,.6g} of {whole:,.6g} in use ({100 * used / whole:.1f}%), price {price:.4g}", markup=False
        )
    if out is not None:
        written(out)


def _units(given: list[str] | None) -> Any:
    """Capacities as a dict by name, a list if they have no names, or None."""
    if not given:
        return None
    pairs = [text.rpartition("=") for text in given]
    try:
        numbers = [float(value) for _, _, value in pairs]
    except ValueError as error:
        raise InvalidInstance(f"--capacity {error}; give cpu=64 or 64") from error
    names = [name for name, _, _ in pairs]
    if not any(names):
        return numbers
    if not all(names) or len(set(names)) < len(names):
        raise InvalidInstance(f"--capacity {' '.join(given)}: name all resources, each once, as in cpu=64, or none")
    return dict(zip(names, numbers, strict=True))


@contextlib.contextmanager
def _cluster(workers: int, memory: str, scheduler: str | None) -> Iterator[Any]:
    """A Dask client, or None."""
    if not workers and scheduler is None:
        yield None
        return
    if workers and scheduler is not None:
        raise InvalidBlock(
            "--workers and --scheduler are both given, but a running cluster has its own workers; leave one out"
        )
    config, on_dask = (
        optional(name, "distributed", "--workers and --scheduler", package="distributed")
        for name in ("dask.config", "distributed")
    )
    with contextlib.ExitStack() as stack:
        try:
            if scheduler is not None:
                client = stack.enter_context(on_dask.Client(scheduler))
            else:
                # with Dask's default, which returns memory to the system at once, rounds took three times as long
                kept = {"distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**24}
                stack.enter_context(config.set(kept | {"distributed.scheduler.worker-ttl": "30 s"}))
                limits = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": memory}
                with subprocesses.without_sigint(), warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Port .* is already in use")  # Dask takes another
                    cluster = stack.enter_context(on_dask.LocalCluster(dashboard_address=None, **limits))
                client = stack.enter_context(on_dask.Client(cluster))
        except ValueError as error:
            raise InvalidBlock(f"--memory {memory!r}: {error}; give a size such as 3GB, or leave it out") from error
        except OSError as error:
            where = "local workers" if scheduler is None else f"the cluster at {scheduler}"
            raise SolverUnavailable(
                f"cannot connect to {where} ({error}); check that it is running, or leave the option out"
            ) from error
        yield client
