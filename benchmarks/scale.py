"""Users in shards: time and memory as they become more, from a memory map, and from Parquet on Dask workers.

Memory is what a process of its own holds beyond mapped files (RssAnon of /proc/self/status, so Linux only), the largest
of samples every 5 ms; the interpreter with all its modules is part of it, and is given beside it. Of workers it is the
largest resident set so far (VmHWM). Run: python benchmarks/scale.py, or for the one big run
python benchmarks/scale.py --parts parquet --users 100000000 --dtype float32
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, interleaved, median, show

import fairopt as fo

POLICIES = {"DRF": fo.DRF(), "FDS(2)": fo.FDS(2)}
NAMES = ("cpu", "memory", "disk", "network")
PIECE = 2_000_000  # users that are made, and written as a row group, at a time

# Dask starts workers with MALLOC_TRIM_THRESHOLD_, which also keeps the C library from learning that arrays of 128 kB
# come again and again: each goes back to the system and comes page by page. A pass over 8e6 users took 0.38 s on two
# workers, and with this 0.12 s.
KEEP_MEMORY = {"distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**24}


def pieces(n: int, dtype: str) -> Iterator[np.ndarray]:
    """Demands of n users over two decades, one in ten zero."""
    for k, first in enumerate(range(0, n, PIECE)):
        rng = np.random.default_rng([7, k])
        rows = min(PIECE, n - first)
        demands = 10.0 ** rng.uniform(0, 2, size=(rows, len(NAMES)))
        demands[:, 1:] *= rng.random((rows, len(NAMES) - 1)) >= 0.1
        yield demands.astype(dtype)


def capacities(n: int) -> dict[str, float]:
    return {name: 3.0 * n * (k + 1) for k, name in enumerate(NAMES)}


def megabytes(field: str) -> float:
    """A field of /proc/self/status."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(text.split(f"{field}:")[1].split()[0]) / 1024


def peak() -> float:
    """Of a worker; a function of this file would have to be sent to it."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(text.split("VmHWM:")[1].split()[0]) / 1024


def memory(path: str, policy: str) -> tuple[float, float]:
    """MB before and at most, of a solve from a memory map in this (new) process."""
    demands = np.load(path, mmap_mode="r")
    before, samples, done = megabytes("RssAnon"), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            samples.append(megabytes("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    fo.allocate_sharded(POLICIES[policy], demands, capacities=capacities(len(demands)))
    done.set()
    watcher.join()
    return before, max(samples)


def from_memory_maps(sizes: list[int], repeats: int, folder: Path) -> None:
    """Time of all sizes in turn in this process, and memory of each in another."""
    for n in sizes:
        whole = np.lib.format.open_memmap(folder / f"{n}.npy", "w+", np.float64, (n, len(NAMES)))
        for k, demands in enumerate(pieces(n, "float64")):
            whole[k * PIECE : k * PIECE + len(demands)] = demands
    rows = []
    for name, policy in POLICIES.items():

        def solve(n: int, policy: fo.Policy = policy) -> fo.scale.ShardedAllocation:
            return fo.allocate_sharded(policy, np.load(folder / f"{n}.npy", mmap_mode="r"), capacities=capacities(n))

        seconds = interleaved({str(n): partial(solve, n) for n in sizes}, repeats)
        for n in sizes:
            a, taken = solve(n), median(seconds[str(n)])
            with multiprocessing.get_context("spawn").Pool(1) as child:
                before, most = child.apply(memory, (str(folder / f"{n}.npy"), name))
            growth = taken / n / (median(seconds[str(sizes[0])]) / sizes[0])
            rows.append(
                {
                    "policy": name,
                    "users": n,
                    "seconds": taken,
                    "per user against the first": growth,
                    "rounds": a.rounds,
                    "gap": a.certificate.gap,
                    "violation": a.certificate.violation,
                    "MB at most": most,
                    "MB before": before,
                }
            )
    show("Users in a memory map, one process", rows, "scale_memory_map")


@contextmanager
def workers(count: int, memory: str) -> Iterator[Any]:
    """A client of a local cluster; None for no workers."""
    if count == 0:
        yield None
        return
    import dask
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "memory_limit": memory, "dashboard_address": ":0"}
    with dask.config.set(KEEP_MEMORY), LocalCluster(count, **options) as cluster, Client(cluster) as client:
        yield client


def from_parquet(n: int, dtype: str, memory: str, folder: Path) -> None:
    """One process against one and two workers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "users.parquet"
    schema = pa.schema([(name, pa.type_for_alias(dtype)) for name in NAMES])
    start = time.perf_counter()
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for demands in pieces(n, dtype):
            writer.write_table(pa.table(list(demands.T), schema=schema), row_group_size=PIECE)
    print(
        f"{n:,} users written in {time.perf_counter() - start:.0f} s: {path.stat().st_size / 2**30:.2f} GB", flush=True
    )
    rows: list[dict[str, Any]] = []
    for name, policy in POLICIES.items():
        prices: Any = None
        for count in (0, 1, 2):
            with workers(count, memory) as client:
                fo.allocate_sharded(policy, np.ones((count or 1, 2)), capacities=[1, 1], client=client)  # imports
                start = time.perf_counter()
                a = fo.allocate_sharded(policy, path, capacities=capacities(n), client=client)
                seconds = time.perf_counter() - start
                largest = peak() if client is None else max(client.run(peak).values())
            prices = a.prices if prices is None else prices
            rows.append(
                {
                    "policy": name,
                    "users": n,
                    "dtype": dtype,
                    "workers": count,
                    "seconds": seconds,
                    "rounds": a.rounds,
                    "gap": a.certificate.gap,
                    "violation": a.certificate.violation,
                    "MB of the largest": largest,
                    "prices differ by": float(np.max(np.abs(a.prices - prices)) / np.max(prices)),
                }
            )
            print(rows[-1], flush=True)
    show(f"Users in Parquet, on Dask workers of {memory} each (0: this process)", rows, f"scale_parquet_{n}")


def main() -> None:
    """The parts that are asked for, in a temporary folder that is removed."""
    options = arguments(
        str(__doc__),
        parts=["map", "parquet"],
        sizes=[100_000, 1_000_000, 10_000_000],
        repeats=3,
        users=3_000_000,
        dtype="float64",
        memory="3GB",
    )
    with tempfile.TemporaryDirectory() as folder:
        if "map" in options.parts:
            from_memory_maps(options.sizes, options.repeats, Path(folder))
        if "parquet" in options.parts:
            from_parquet(options.users, options.dtype, options.memory, Path(folder))


if __name__ == "__main__":
    main()
