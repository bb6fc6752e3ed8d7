"""Shards that change while they are read or before tasks are asked for, and workers that stop, die or are not there."""

from __future__ import annotations

from faults import Bench, Ended, Fault

WAITS = 90  # seconds; a call that waits longer waits for good

# `at` does something once, before the round of a question; what the call says or gives is printed
START = """
import contextlib, os, signal, sys, threading, time
import numpy as np, fairopt as fo
users = np.random.default_rng(0).uniform(1, 10, (40_000, 4))
np.save("a.npy", users)
def parquet(demands, path="t.parquet"):
    import pyarrow as pa, pyarrow.parquet as pq
    pq.write_table(pa.table(dict(zip("abcd", np.asarray(demands).T))), path, row_group_size=10_000)
def at(question, act):
    done = []
    def listen(what, *_):
        if what.endswith(": " + question) and not done:
            done.append(1)
            act()
    return fo.progress(listen)
def ask(policy=fo.FDS(2), source="a.npy", **more):
    return fo.allocate_sharded(policy, source, capacities=dict(zip("abcd", (9e3, 8e3, 7e3, 6e3))), **more)
def told(call):
    try:
        found = call()
    except fo.FairoptError as error:
        print("error:", error)
    else:
        print("given", getattr(found, "certificate", ""))
"""
CLUSTER = """
import distributed, dask
if __name__ == "__main__":
    dask.config.set({"logging.distributed": "critical", "distributed.scheduler.worker-ttl": "10 s"})
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=None)
    cluster = distributed.LocalCluster(**options)
    client = distributed.Client(cluster)
    pids = list(client.run(os.getpid).values())
    def send(what, count=2):
        for pid in pids[:count]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)
    def end(said=""):
        print(said, flush=True)
        send(signal.SIGKILL)
        os._exit(0)
    timer = threading.Timer(WAITS, end, ["waits without end"])
    timer.daemon = True
    timer.start()
"""


def _program(text: str, *, cluster: bool = False) -> str:
    if not cluster:
        return START + text
    body = "\n".join(f"    {line}" for line in text.strip().splitlines())
    return f"{START}WAITS = {WAITS}\n{CLUSTER}{body}\n    end()\n"


def _refused(done: Ended, *words: str) -> str:
    """Whether the program was told an error that has one of the words."""
    said = done.out.strip()
    if done.code == 0 and said.startswith("error:") and any(word in said for word in words):
        return ""
    return f"{done}" if done.code != 0 else said[:120]


def _changes(how: str, at: str = "judge", policy: str = "fo.FDS(2)", source: str = '"a.npy"') -> Fault:
    text = f"def act():\n    {how}\nparquet(users)\nwith at('{at}', act):\n    told(lambda: ask({policy}, {source}))"

    def fault(bench: Bench) -> str:
        return _refused(bench.code(_program(text)), "changed", "cannot be read")

    return fault


def _later(how: str, source: str = '"a.npy"') -> Fault:
    text = f"parquet(users)\na = ask(source={source})\na.tasks(0)\n{how}\ntold(lambda: a.tasks(0))"

    def fault(bench: Bench) -> str:
        return _refused(bench.code(_program(text)), "changed", "cannot be read")

    return fault


def _cluster(text: str, *words: str) -> Fault:
    """On a cluster: an error that has one of the words, or an answer where none are given."""

    def fault(bench: Bench) -> str:
        done = bench.code(_program(text, cluster=True))
        if words:
            return _refused(done, *words)
        held = done.code == 0 and done.out.startswith("given certified")
        return "" if held else f"{done}" if done.code else done.out.strip()[:120]

    return fault


def _time_limit(bench: Bench) -> str:
    many = "source = [np.broadcast_to(users, (50, *users.shape)).reshape(-1, 4)] * 20"
    done = bench.code(
        _program(
            f"{many}\nbegun = time.perf_counter()\ntold(lambda: ask(source=source, time_limit=1))\n"
            "assert time.perf_counter() - begun < 2"
        )
    )
    return _refused(done, "time limit")


ELSEWHERE = "np.save('b.npy', users[::-1]); os.replace('b.npy', 'a.npy')"
IN_PLACE = (
    "s = os.stat('a.npy'); np.load('a.npy', mmap_mode='r+')[:] = users[::-1]; "
    "os.utime('a.npy', ns=(s.st_atime_ns, s.st_mtime_ns))"
)
SPREAD = "parts = [users[k::4] for k in range(4)]"
TOLD = "told(lambda: ask(source={source}, client=client))"
EMPTY = "cluster.scale(0)\nwhile client.nthreads(): time.sleep(0.1)\n"


def _signal(at: str, signal: str = "SIGSTOP", count: int = 1, source: str = "parts") -> str:
    when = f"with at('{at}', lambda: send(signal.{signal}, {count})):\n    "
    return f"{SPREAD}\nparquet(users)\n{when}{TOLD.format(source=source)}"


FAULTS: dict[str, Fault] = {
    "a .npy file is cut short, FDS": _changes("os.truncate('a.npy', 4096)"),
    "a .npy file is cut short, DRF": _changes("os.truncate('a.npy', 4096)", policy="fo.DRF()"),
    "a .npy file is cut short under bounds": _changes(
        "os.truncate('a.npy', 4096)", policy="fo.Policy(fo.AlphaFair(2), [fo.MaxTasks(9.0)])"
    ),
    "a .npy file becomes another": _changes(ELSEWHERE),
    "a .npy file becomes another, DRF": _changes(ELSEWHERE, policy="fo.DRF()"),
    "a .npy file becomes another early": _changes(ELSEWHERE, at="respond"),
    "a .npy file has other numbers, of the same size and time": _changes(IN_PLACE),
    "a .npy file is written again as it is": _changes("np.save('a.npy', users)"),
    "a Parquet file becomes another": _changes("parquet(2 * users)", source='"t.parquet"'),
    "a Parquet file has its rows reversed": _changes("parquet(users[::-1])", source='"t.parquet"'),
    "a Parquet file has fewer groups": _changes("parquet(users[:9])", source='"t.parquet"'),
    "tasks of a .npy file that became another": _later(ELSEWHERE),
    "tasks of a .npy file that was cut short": _later("os.truncate('a.npy', 4096)"),
    "tasks of a Parquet file that became another": _later("parquet(2 * users)", '"t.parquet"'),
    "tasks of an array that became another": _later("users[:] = users[::-1].copy()", "users"),
    "a time limit of 1 s on 40 million users": _time_limit,
    "a worker is killed": _cluster(_signal("judge", "SIGKILL")),
    "a worker is stopped before the call": _cluster(f"send(signal.SIGSTOP, 1)\n{_signal('nothing')}"),
    "a worker is stopped in a round": _cluster(_signal("respond")),
    "a worker is stopped in the last round": _cluster(_signal("judge")),
    "a worker is stopped, shards of Parquet": _cluster(_signal("judge", source='"t.parquet"')),
    "all workers are stopped, a time limit": _cluster(
        _signal("judge", count=2, source="parts, time_limit=10"), "time limit"
    ),
    "a cluster without workers from the start": _cluster(
        f"{EMPTY}{SPREAD}\n{TOLD.format(source='parts')}", "no workers"
    ),
}
