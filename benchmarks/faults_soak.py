"""Mixed calls in one process for as long as is asked: the same bits each time they are asked again, and no more memory.

Calls are drawn at random from `CALLS`, each with the seed of one of a few instances. What a call gave first is kept as
a hash of its bits. Memory is the resident set after a collection; it is flat if the median of the last quarter is at
most `GROWTH` above that of the second quarter: the first is for warming up.
"""

from __future__ import annotations

from faults import Bench, Fault

GROWTH = 8  # MB; the allocator of the C library keeps pieces of that size

SOAK = """
import gc, hashlib, io, random, statistics, sys, tempfile, time, warnings
from pathlib import Path
import numpy as np, fairopt as fo

SECONDS, GROWTH, FOLDER = float(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])

def users(seed, n=300, m=3):
    draw = np.random.default_rng(seed)
    demands = draw.uniform(1, 10, (n, m)) * (draw.random((n, m)) > 0.1)
    demands[:, 0] += 0.5
    return demands

def pool(seed, n=300):
    demands, limits = users(seed, n), np.random.default_rng(seed).uniform(0.1, 2, n)
    return fo.Instance(demands, demands.sum(axis=0) / 3, task_limits=limits)

def cluster(seed, n=12, servers=4):
    draw = np.random.default_rng(seed)
    demands, capacities = draw.uniform(1, 5, (n, 3)), draw.uniform(20, 60, (servers, 3))
    return fo.Instance(demands, capacities, eligible=draw.random((n, servers)) > 0.2)

def bits(*arrays):
    return b"".join(a.tobytes() if isinstance(a, np.ndarray) else repr(a).encode() for a in arrays)

def of(a):
    return bits(a.tasks, a.objective, a.certificate.gap, a.certificate.violation)

def saved(seed):
    path = FOLDER / f"{seed}.json"
    fo.FDS(2).allocate(pool(seed, 40)).save(path)
    return of(fo.Allocation.load(path)) + bits(fo.verify(path).ok)

def prepared(seed):
    ready = fo.FDS(1).prepare(pool(seed, 50))
    return b"".join(of(ready.allocate(capacities=[c, 90, 80])) for c in (100, 70))

def prepared_cone(seed):
    ready = fo.Policy(fo.MostTasks().objective, [fo.SharingIncentive()]).prepare(pool(seed, 12))
    return b"".join(of(ready.allocate(capacities=[c, 9, 8])) for c in (10, 7))

def scheduled(seed):
    draw = random.Random(seed)
    scheduler = fo.Scheduler([[8, 64], [8, 32]])
    told = []
    for k in range(60):
        demand = [draw.randint(1, 4), draw.randint(1, 30)]
        scheduler.submit(f"u{draw.randrange(5)}", demand, tasks=draw.randint(1, 4), at=k)
        started = list(iter(lambda: scheduler.next_task(at=k), None))
        told += [(t.user, t.server) for t in started]
        for task in started[::2]:
            scheduler.finish(task, at=k + 0.5)
    return bits(told)

def batch(seed):
    demands = np.random.default_rng(seed).integers(1, 6, (200, 3, 3))
    many = fo.allocate_many(fo.KDF(2), demands, [5, 5, 5])
    return bits(many.tasks, many.ok)

def shards(seed):
    path = FOLDER / f"{seed}.npy"
    np.save(path, users(seed, 20_000))
    a = fo.allocate_sharded(fo.FDS(2), path, capacities=[9e3, 8e3, 7e3])
    return bits(a.tasks(0), a.usage, a.prices)

def refused(seed):
    try:
        fo.Policy(fo.Leximin(), [fo.MinTasks(10.0 + seed)]).allocate(pool(seed, 20).with_task_limits(None))
    except fo.errors.Infeasible as error:
        return bits(str(error))

def compared(seed):
    result = fo.compare(["drf", "tsf", fo.FDS(1)], cluster(seed))
    return b"".join(of(a) for a in result.allocations.values()) if hasattr(result, "allocations") else bits(str(result))

CALLS = {
    "DRF": lambda s: of(fo.DRF().allocate(pool(s))),
    "FDS": lambda s: of(fo.FDS(0.5).allocate(pool(s))) + of(fo.FDS(3).allocate(pool(s))),
    "many users": lambda s: of(fo.FDS(2).allocate(pool(s, 50_000))),
    "most tasks": lambda s: of(fo.MostTasks().allocate(pool(s))),
    "DRFH": lambda s: of(fo.DRF().allocate(cluster(s))),
    "TSF": lambda s: of(fo.TSF().allocate(cluster(s))),
    "prices on servers": lambda s: of(fo.FDS(2).allocate(cluster(s))),
    "most tasks on servers": lambda s: of(fo.MostTasks().allocate(cluster(s))),
    "Clarabel": lambda s: of(fo.FDS(1).allocate(pool(s, 20), method="cone")),
    "SCS": lambda s: of(fo.NashWelfare().allocate(pool(s, 8), solver="SCS")),
    "sum of objectives": lambda s: of(fo.Policy(fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks())).allocate(pool(s, 12))),
    "envy-free": lambda s: of(fo.Policy(fo.Total(), [fo.EnvyFree()]).allocate(pool(s, 8))),
    "whole tasks": lambda s: of(fo.DRF().allocate(cluster(s), integral=True)),
    "bundles": lambda s: of(fo.MLFDRS().allocate(cluster(s))),
    "saved and verified": saved, "prepared": prepared, "prepared by cone": prepared_cone, "scheduler": scheduled,
    "batch": batch, "shards": shards, "refused": refused, "compared": compared,
}

def rss():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

draw, first, count, sizes, failed = random.Random(0), {}, 0, [], {}
end = time.monotonic() + SECONDS
names = list(CALLS)
while time.monotonic() < end:
    for name in draw.sample(names, len(names)):
        seed = draw.randrange(3)
        try:
            found = hashlib.sha256(CALLS[name](seed)).hexdigest()
        except fo.FairoptError as error:  # as an answer: the same again
            found = f"{type(error).__name__} {error}".split(" in ")[0]
            failed[name] = found[:70]
        if first.setdefault((name, seed), found) != found:
            print("FAULT", name, "gives other bits for seed", seed)
            sys.exit()
        count += 1
    sizes.append((time.monotonic(), rss()))
begun = end - SECONDS
quarter = [[size for at, size in sizes if k <= 4 * (at - begun) / SECONDS < k + 1] for k in (1, 3)]
before, after = (statistics.median(q or [s for _, s in sizes]) for q in quarter)
told = f"{count} calls of {len(first)} kinds, MB {sizes[0][1]:.0f} first, {before:.1f} and {after:.1f}; refused:"
print(told, failed, file=sys.stderr)
if after > before + GROWTH:
    print("FAULT memory grows from", round(before), "to", round(after), "MB in", count, "calls")
print("soaked")
"""


def _soak(bench: Bench) -> str:
    done = bench.code(SOAK, str(bench.seconds), str(GROWTH), str(bench.folder), patience=2 * bench.seconds + 300)
    if done.code != 0 or "soaked" not in done.out:
        return done.out.strip() or str(done)
    print(done.err.strip())
    return "; ".join(line.removeprefix("FAULT ") for line in done.out.splitlines() if line.startswith("FAULT"))


FAULTS: dict[str, Fault] = {"mixed calls, bits and memory": _soak}
