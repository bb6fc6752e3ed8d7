"""Users in shards: the answer of policy.allocate in memory, in this process and on Dask, also after failures."""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.instances import log_uniform, pools

import fairopt as fo
from fairopt.runtime.clock import current
from fairopt.solve.form.pool_users import rows_in_a_chunk
from fairopt.solve.sharded import shards, workers
from fairopt.solve.sharded import solve as sharded

NAMES = ("cpu", "gpu", "memory")
POLICIES = {
    "DRF": fo.DRF(),
    "2-DF": fo.Policy(fo.Leximin(fo.KDominantShare(2, short="positive"))),
    "MaxMin": fo.Policy(fo.MaxMin()),
    "FDS 0.5": fo.FDS(0.5),
    "FDS 1": fo.FDS(1),
    "FDS 2": fo.FDS(2),
    "FDS 5": fo.FDS(5),
    "GFJ 2": fo.GFJ(2),
    "FDS beta 2": fo.FDS(beta=2, lam=-0.5),
}
BOUNDS = {
    "limits": [fo.MaxTasks(2.0)],
    "floors": [fo.MinTasks(1e-4)],
    "shares": [fo.MinShare(1e-5), fo.MaxShare(0.02)],
    "a reserve": [fo.Reserve(1, 0.25)],
    "all": [fo.MinTasks(1e-4), fo.MaxShare(0.01, fo.Tasks()), fo.Reserve(0, 0.5)],
}


def instance_of(n: int = 400, seed: int = 0, **more: Any) -> fo.Instance:
    """An instance with zeros, weights and limits, some of them 0."""
    one = log_uniform(np.random.default_rng(seed), n, 3, limits=0.4, decades=2)
    return one.replace(task_limits=np.where(np.arange(n) % 7 == 3, 0.0, one.task_limits), resources=NAMES, **more)


def table(path: Path, instance: fo.Instance, groups: int = 90, **more: Any) -> Path:
    """An instance as a Parquet file with row groups of a given size."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(instance.resources, instance.demands.T, strict=True))
    limits = [None if np.isinf(limit) else limit for limit in instance.task_limits.tolist()]
    about = {"user": [f"u{j}" for j in range(instance.n_users)], "weight": instance.weights, "task_limit": limits}
    pq.write_table(pa.table({**about, **columns, **more}), path, row_group_size=groups)
    return path


def capacities_of(instance: fo.Instance) -> dict[str, float]:
    return dict(zip(instance.resources, instance.capacities[0].tolist(), strict=True))


@contextmanager
def at_rounds(callback: Callable[[int, str], object]) -> Iterator[None]:
    """Call a function with the number and the question of each round, before it starts."""

    def listen(what: str, *_: Any) -> None:
        told = re.fullmatch(r"round (\d+): (\w+)", what)
        if told:
            callback(int(told[1]), told[2])

    with fo.progress(listen):
        yield


def all_tasks(a: fo.scale.ShardedAllocation) -> np.ndarray:
    """Tasks of all users."""
    return np.concatenate([a.tasks(k) for k in range(len(a.shards))])


def assert_same(a: fo.scale.ShardedAllocation, b: fo.Allocation, rtol: float = 1e-9) -> None:
    """Require the answer found in memory."""
    assert a.certificate.ok and a.certificate.gap <= 1e-9
    assert a.objective == pytest.approx(b.objective, rel=rtol)
    capacities = b.instance.capacities[0]
    np.testing.assert_allclose(a.usage / capacities, b.usage[0] / capacities, rtol=rtol, atol=1e-12)
    assert (a.usage <= capacities).all()
    assert b.evidence_prices is not None
    worth = b.evidence_prices[0] * capacities
    np.testing.assert_allclose(a.prices * capacities, worth, rtol=rtol, atol=1e-9 * worth.max())
    np.testing.assert_allclose(all_tasks(a), b.tasks, rtol=rtol, atol=1e-10 * b.tasks.max(initial=0.0))


@pytest.mark.parametrize("name", POLICIES)
def test_shards_get_what_they_get_in_memory(name: str, tmp_path: Path) -> None:
    instance = instance_of()
    source = table(tmp_path / "t.parquet", instance)
    a = fo.allocate_sharded(POLICIES[name], source, capacities=capacities_of(instance))
    assert len(a.shards) == 5 and a.n_users == 400
    assert_same(a, POLICIES[name].allocate(instance))


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("objective", [fo.Leximin(), fo.AlphaFair(0.5), fo.AlphaFair(2, fo.Tasks())], ids=repr)
def test_bounds_that_are_the_same_for_all_hold(bound: str, objective: fo.Objective) -> None:
    demands = instance_of().demands
    capacities = [30.0, 20.0, 25.0]
    policy = fo.Policy(objective, BOUNDS[bound])
    a = fo.allocate_sharded(policy, [demands[:150], demands[150:150], demands[150:]], capacities=capacities)
    assert_same(a, policy.allocate(fo.Instance(demands, capacities)))


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(2), fo.FDS(0.5)], ids=repr)
def test_float32_is_added_up_as_float64(policy: fo.Policy) -> None:
    demands = instance_of().demands.astype(np.float32)
    a = fo.allocate_sharded(policy, [demands[:7], demands[7:]], capacities=[30, 20, 25])
    assert_same(a, policy.allocate(fo.Instance(demands, [30, 20, 25])))


@pytest.mark.parametrize(
    "policy", [fo.DRF(), fo.FDS(0.5), fo.FDS(3), fo.Policy(fo.MaxMin()), fo.FDS(beta=2, lam=-0.5)], ids=repr
)
def test_no_user_of_a_shard_or_of_all_takes_part(policy: fo.Policy, tmp_path: Path) -> None:
    instance = instance_of(200)
    limits = np.where(np.arange(200) < 50, 0.0, np.inf)
    idle = instance.with_task_limits(limits)
    a = fo.allocate_sharded(policy, table(tmp_path / "t.parquet", idle, 50), capacities=capacities_of(idle))
    assert_same(a, policy.allocate(idle))
    assert not a.tasks(0).any()
    idle = instance.with_task_limits(0.0)
    b = fo.allocate_sharded(policy, table(tmp_path / "u.parquet", idle, 50), capacities=capacities_of(idle))
    assert b.certificate.ok and not b.usage.any() and not all_tasks(b).any() and not b.prices.any()
    c = fo.allocate_sharded(policy, [np.zeros((0, 3))], capacities=[1, 1, 1])
    assert c.n_users == 0 and c.certificate.ok and c.sizes == (0,)


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(2)], ids=repr)
def test_everybody_at_its_limit_leaves_capacity_free(policy: fo.Policy, tmp_path: Path) -> None:
    instance = fo.Instance(np.ones((6, 3)), [100, 100, 100], task_limits=[1, 2, 3, 4, 5, 6], resources=NAMES)
    a = fo.allocate_sharded(policy, table(tmp_path / "t.parquet", instance, 2), capacities=capacities_of(instance))
    np.testing.assert_allclose(all_tasks(a), [1, 2, 3, 4, 5, 6], rtol=1e-12)
    np.testing.assert_allclose(a.leftover, 79)


@settings(max_examples=8)
@given(pools(limits=False), st.lists(st.integers(0, 6), max_size=4), st.sampled_from(list(POLICIES.values())))
def test_any_cut_of_the_users_gives_the_answer_of_one_shard(
    instance: fo.Instance, cuts: list[int], policy: fo.Policy
) -> None:
    demands, capacities = instance.demands, instance.capacities[0]
    try:
        whole = fo.allocate_sharded(policy, demands, capacities=capacities)
    except fo.errors.OutOfDomain:
        return  # 2-DF on one resource
    ends = [0, *sorted(min(c, len(demands)) for c in cuts), len(demands)]
    parts = [demands[a:b] for a, b in itertools.pairwise(ends)]
    a = fo.allocate_sharded(policy, parts, capacities=capacities)
    assert a.sizes == tuple(len(part) for part in parts)
    np.testing.assert_allclose(all_tasks(a), all_tasks(whole), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a.prices, whole.prices, rtol=1e-8, atol=1e-9 * whole.prices.max())


def test_a_sample_of_many_users_gives_the_first_guess(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    instance = instance_of(6000)
    source = table(tmp_path / "t.parquet", instance, 1000)
    for policy, most in [(fo.FDS(2), 8), (fo.FDS(0.5), 8), (fo.DRF(), 16)]:
        monkeypatch.setattr(sharded, "SAMPLE", 50_000)
        one = fo.allocate_sharded(policy, source, capacities=capacities_of(instance))
        monkeypatch.setattr(sharded, "SAMPLE", 600)
        a = fo.allocate_sharded(policy, source, capacities=capacities_of(instance))
        np.testing.assert_allclose(all_tasks(a), all_tasks(one), rtol=1e-10, atol=1e-12)
        assert a.rounds <= most


def test_views_are_looked_at_once_and_tables_in_every_round(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    instance = instance_of().with_task_limits(None).with_weights(None)
    table(tmp_path / "t.parquet", instance, 100)
    read: list[str] = []
    for kind in (shards.ArrayShard, shards.ParquetShard):
        old = kind.read
        monkeypatch.setattr(kind, "read", lambda self, old=old: (read.append(self.name), old(self))[1])
    fo.allocate_sharded(fo.FDS(2), np.array_split(instance.demands, 4), capacities=capacities_of(instance))
    assert len(read) == 4
    read.clear()
    a = fo.allocate_sharded(fo.FDS(2), tmp_path / "t.parquet", capacities=capacities_of(instance))
    assert len(read) == 4 * a.rounds


def test_a_moved_shard_is_read_again_when_it_is_asked(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", instance_of(30_000).demands)
    question = workers.ShardedProblem(fo.AlphaFair(2), (), np.array([30.0, 20, 25]), NAMES)
    held = workers.LoadedShard(shards.shards_of(tmp_path / "a.npy", None)[0], question)
    rows: Any = held.program.given.demands
    assert len(rows[: rows_in_a_chunk(3)]) < 30_000  # a round has begun, and the file is open
    sent = pickle.dumps(held)
    rows[rows_in_a_chunk(3) :]
    moved, late = pickle.loads(sent), pickle.loads(sent)
    assert len(sent) < 2000 and sys.getsizeof(moved) >= 30_000 * 4 * 8  # what Dask takes its memory to be
    (_, one), (_, other) = (h.answer("respond", 1.0, np.zeros(3), 2.0) for h in (held, moved))
    np.testing.assert_allclose(one.load, other.load, rtol=30_000 * np.finfo(float).eps)
    (tmp_path / "a.npy").unlink()
    with pytest.raises(fo.errors.InvalidInstance, match=r"a\.npy.* cannot be read"):
        late.answer("respond", 1.0, np.zeros(3), 2.0)


def test_progress_tells_every_round() -> None:
    told: list[tuple[int, str]] = []
    with at_rounds(lambda k, what: told.append((k, what))):
        a = fo.allocate_sharded(fo.FDS(2), instance_of().demands, capacities=[30, 20, 25])
    assert [k for k, _ in told] == list(range(1, a.rounds + 1))
    assert told[0][1] == "opening" and told[-1][1] == "judge"


def test_an_answer_can_be_pickled(tmp_path: Path) -> None:
    demands = instance_of().demands
    a = fo.allocate_sharded(fo.FDS(2), [demands[:9], demands[9:]], capacities=[30, 20, 25])
    b = pickle.loads(pickle.dumps(a))
    assert repr(b) == repr(a)
    np.testing.assert_array_equal(b.tasks(-1), b.tasks(1))
    np.testing.assert_allclose(b.tasks(1), a.tasks(1), rtol=1e-12)
    with pytest.raises(IndexError):
        a.tasks(2)


# -- the folder


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(2)], ids=repr)
def test_the_folder_holds_the_tasks_of_each_shard(policy: fo.Policy, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    instance = instance_of()
    source, units = table(tmp_path / "t.parquet", instance), capacities_of(instance)
    a = fo.allocate_sharded(policy, source, capacities=units)
    b = fo.allocate_sharded(policy, source, capacities=units, out=tmp_path / "out")
    assert [path.name for path in b.files] == [f"tasks-{k:05d}.parquet" for k in range(5)]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["summary.json", *(p.name for p in b.files)]
    for k, path in enumerate(b.files):
        np.testing.assert_allclose(b.tasks(k), a.tasks(k), rtol=1e-10)
        written = pq.read_table(path)
        assert written["user"].to_pylist() == [f"u{j}" for j in range(90 * k, min(90 * k + 90, 400))]
        assert written["tasks"].to_pylist() == b.tasks(k).tolist()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["users"] == 400 and summary["usage"] == b.usage.tolist()
    assert summary["prices"] == b.prices.tolist()
    assert [s["users"] for s in summary["shards"]] == [90, 90, 90, 90, 40]
    assert [s["file"] for s in summary["shards"]] == [path.name for path in b.files]
    assert b.rounds == a.rounds + 1 == summary["rounds"]


def test_what_a_worker_left_unfinished_is_not_in_the_folder(tmp_path: Path) -> None:
    with at_rounds(lambda k, what: (tmp_path / "out.partial" / "tasks-0.part").touch()):
        a = fo.allocate_sharded(fo.DRF(), instance_of().demands, capacities=[30, 20, 25], out=tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "out", tmp_path / "out" / "summary.json", *a.files]


def test_a_file_of_many_resources_gives_the_answer_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    demands = rng.uniform(0.1, 1, (3000, 8)) * (rng.random((3000, 8)) < 0.5) + np.eye(8)[0]
    np.save(tmp_path / "users.npy", demands)
    answer = fo.allocate_sharded(fo.DRF(), tmp_path / "users.npy", capacities=np.arange(1, 9) * 100)
    tasks = fo.DRF().allocate(fo.Instance(demands, np.arange(1, 9) * 100)).tasks
    assert answer.tasks(0) == pytest.approx(tasks)


def test_arrays_are_written_as_npy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demands = instance_of().demands
    monkeypatch.chdir(tmp_path)
    a = fo.allocate_sharded(fo.DRF(), [demands[:9], demands[:0], demands[9:]], capacities=[30, 20, 25], out="out")
    monkeypatch.chdir("/")
    assert [np.load(path).tolist() for path in a.files] == [a.tasks(k).tolist() for k in range(3)]
    np.testing.assert_allclose(all_tasks(a), fo.DRF().allocate(fo.Instance(demands, [30, 20, 25])).tasks, rtol=1e-12)


def test_a_folder_that_is_there_is_refused_before_any_work(tmp_path: Path) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("work was done")

    demands = instance_of().demands
    (tmp_path / "there").mkdir()
    (tmp_path / "broken.partial").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("there", "broken", "file", "file/out", "nowhere/out"):
        kind = OSError if "/" in name else fo.errors.InvalidBlock
        with pytest.raises(kind, match=r"there|broken|file|nowhere"), fo.progress(never):
            fo.allocate_sharded(fo.DRF(), demands, capacities=[1, 1, 1], out=tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.partial", "file", "there"]


@pytest.mark.parametrize("at", ["opening", "judge", "write"])
def test_ctrl_c_leaves_nothing_behind(at: str, tmp_path: Path) -> None:
    def stop(what: str, done: int | None, total: int | None) -> None:
        if at in what and done == 1:
            raise KeyboardInterrupt

    halves = np.array_split(instance_of().demands, 2)
    with pytest.raises(KeyboardInterrupt), fo.progress(stop):
        fo.allocate_sharded(fo.FDS(2), halves, capacities=[30, 20, 25], out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_leaves_nothing_behind(tmp_path: Path) -> None:
    def spoil(k: int, what: str) -> None:
        if what == "write":
            (tmp_path / "out.partial").rmdir()

    with pytest.raises(FileNotFoundError, match=r"out\.partial"), at_rounds(spoil):
        fo.allocate_sharded(fo.DRF(), instance_of().demands, capacities=[30, 20, 25], out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_shards_that_change_meanwhile_are_not_written_as_if_certified(tmp_path: Path) -> None:
    instance = instance_of()
    source = table(tmp_path / "t.parquet", instance)

    def change(k: int, what: str) -> None:
        if what == "write":
            table(source, instance.with_demands(instance.demands * 1.01))

    with pytest.raises(fo.errors.NotCertified, match="changed"), at_rounds(change):
        fo.allocate_sharded(fo.DRF(), source, capacities=capacities_of(instance), out=tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


TRUNCATED = """
import os, numpy as np, fairopt as fo
np.save("a.npy", np.random.default_rng(0).uniform(1, 10, (50_000, 4)))

def cut(what, done, total):
    if "judge" in what and os.path.exists("a.npy"):
        os.truncate("a.npy", 4096)

try:
    with fo.progress(cut):
        fo.allocate_sharded(fo.DRF(), "a.npy", capacities=[9, 9, 9, 9])
except fo.errors.NotCertified as error:
    print(error)
"""


def test_a_file_that_is_cut_short_is_an_error_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    done = forked.run("-c", TRUNCATED, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("shard 'a.npy': it changed during the call")


def write_again(path: Path, array: np.ndarray) -> None:
    """Other numbers in the same file, of the same size and time."""
    about = path.stat()
    with path.open("r+b") as file:
        file.seek(-array.nbytes, 2)
        file.write(np.ascontiguousarray(array).tobytes())
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(2)], ids=repr)
@pytest.mark.parametrize("how", ["in place", "another file", "Parquet"])
def test_shards_that_change_before_they_are_judged_are_noticed(policy: fo.Policy, how: str, tmp_path: Path) -> None:
    instance, path = instance_of().with_task_limits(None).with_weights(None), tmp_path / "a.npy"
    other = instance.demands[::-1]
    np.save(path, instance.demands)
    if how == "Parquet":
        path = table(tmp_path / "t.parquet", instance)

    def change(k: int, what: str) -> None:
        if what == "judge" and how == "in place":
            write_again(path, other)
        elif what == "judge" and how == "another file":
            np.save(tmp_path / "b.npy", instance.demands)
            (tmp_path / "b.npy").rename(path)
        elif what == "judge":
            table(path, instance.with_demands(other))

    with pytest.raises(fo.errors.NotCertified, match=r"shard '.*(npy|group 0).*' *: it changed"), at_rounds(change):
        fo.allocate_sharded(policy, path, capacities=capacities_of(instance))


def test_tasks_of_a_shard_that_changed_later_are_refused(tmp_path: Path) -> None:
    demands = instance_of().demands.copy()
    np.save(tmp_path / "a.npy", demands)
    for source in (tmp_path / "a.npy", demands):
        a = fo.allocate_sharded(fo.FDS(2), source, capacities=[30, 20, 25])
        assert len(a.tasks(0)) == 400
        np.save(tmp_path / "a.npy", 1.01 * demands)
        demands[7, demands[7].argmax()] *= 1.01
        with pytest.raises(fo.errors.NotCertified, match="changed"):
            a.tasks(0)


@pytest.mark.parametrize("at", ["opening", "respond", "judge", "write"])
def test_the_time_limit_is_checked_between_shards(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = np.array_split(instance_of().demands, 2)

    def ask(what: str, done: int | None, total: int | None) -> None:
        clock = current()
        assert clock is not None
        if f"{at}, shards" in what:
            clock.hard = -np.inf

    with fo.progress(ask), pytest.raises(fo.errors.NotCertified, match=rf"limit of 60 s, .* {at}, shards, 1 of 2"):
        fo.allocate_sharded(fo.FDS(2), halves, capacities=[30, 20, 25], out=tmp_path / "out", time_limit=60)
    assert not list(tmp_path.iterdir())


def test_a_time_limit_that_is_none_is_refused_and_one_of_nothing_ends_at_once() -> None:
    for limit in (0, -1, "1"):
        with pytest.raises(fo.errors.InvalidBlock, match="time_limit"):
            fo.allocate_sharded(fo.DRF(), np.ones((2, 2)), capacities=[1, 1], time_limit=limit)  # type: ignore[arg-type]
    with pytest.raises(fo.errors.NotCertified, match="ended at: opening"):
        fo.allocate_sharded(fo.DRF(), np.ones((2, 2)), capacities=[1, 1], time_limit=1e-9)
    assert fo.allocate_sharded(fo.DRF(), np.ones((2, 2)), capacities=[1, 1], time_limit=60).certificate.ok


# -- what cannot be asked of shards


@dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    """As a user would write it, without `by_row`."""

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return instance.ratios.mean(axis=-1)


@dataclass(frozen=True, repr=False)
class MeanShareByRow(MeanShare):
    """The same, for shards."""

    by_row = True


@pytest.mark.parametrize(
    "policy",
    [
        fo.MostTasks(),
        fo.Policy(fo.AlphaFair(0)),
        fo.FDS(beta=2, lam=-1),
        fo.Policy(fo.OrderedWeighted([2, 1])),
        fo.Policy(fo.Leximin(), [fo.EnvyFree()]),
        fo.Policy(fo.Leximin(), [fo.SharingIncentive()]),
        fo.Policy(fo.Leximin(), [fo.MinTasks([1, 2])]),
        fo.Policy(fo.Leximin(), [fo.MaxTasks({"user1": 2})]),
        fo.Policy(fo.Leximin(MeanShare())),
        fo.Policy(fo.AlphaFair(2, MeanShare())),
        fo.Policy(fo.Leximin(), [fo.MinShare(0.1, MeanShare())]),
        fo.Policy(fo.Leximin(fo.KDominantShare(2, rank_weights={"user1": (1, 2, 1)}))),
        fo.Policy(fo.Leximin().then(fo.Total())),
        fo.Policy(fo.AlphaFair(1) + fo.Total()),
        "drf",
        None,
    ],
    ids=repr,
)
def test_policies_that_need_everybody_at_once_are_refused(policy: Any) -> None:
    with pytest.raises(fo.errors.OutOfDomain, match=r"in memory|by_row|task_limit"):
        fo.allocate_sharded(policy, instance_of().demands, capacities=[30, 20, 25])


def test_a_share_of_ones_own_works_by_row() -> None:
    demands = instance_of().demands
    policy = fo.Policy(fo.Leximin(MeanShareByRow()))
    a = fo.allocate_sharded(policy, [demands[:99], demands[99:]], capacities=[30, 20, 25])
    assert_same(a, policy.allocate(fo.Instance(demands, [30, 20, 25])))


def test_a_notion_undefined_for_a_user_names_the_shard_and_the_row() -> None:
    parts = [np.ones((4, 3)), np.array([[1.0, 1, 1], [1, 0, 0]])]
    with pytest.raises(fo.errors.OutOfDomain, match=r"shard 'array 1'.*row 1"):
        fo.allocate_sharded(fo.KDF(2), parts, capacities=[1, 1, 1])
    with pytest.raises(fo.errors.OutOfDomain):
        fo.allocate_sharded(fo.KDF(4), parts, capacities=[1, 1, 1])


def test_lower_bounds_that_do_not_fit_are_infeasible(tmp_path: Path) -> None:
    for objective in (fo.Leximin(), fo.AlphaFair(2)):
        with pytest.raises(fo.errors.Infeasible, match="do not fit"):
            policy = fo.Policy(objective, [fo.MinTasks(1.0)])
            fo.allocate_sharded(policy, [np.ones((5, 3)), np.ones((6, 3))], capacities=[10, 10, 11])
        crossed = fo.Policy(objective, [fo.MinTasks(2.0), fo.MaxTasks(1.0)])
        with pytest.raises(fo.errors.Infeasible):
            fo.allocate_sharded(crossed, np.ones((1, 3)), capacities=[10, 10, 11])
        idle = fo.Instance(np.ones((4, 3)), [9, 9, 9], task_limits=[1, 1, 1, 0], resources=NAMES)
        with pytest.raises(fo.errors.Infeasible, match=r"row group 1.*row 3"):
            fo.allocate_sharded(
                fo.Policy(objective, [fo.MinTasks(0.1)]),
                table(tmp_path / "t.parquet", idle, 2),
                capacities=capacities_of(idle),
            )


@pytest.mark.parametrize("policy", [fo.FDS(2), fo.NashWelfare(), fo.DRF()], ids=lambda p: p.name)
def test_prices_of_resources_with_units_left_over_are_zero(policy: fo.Policy) -> None:
    parts = [np.random.default_rng(k).uniform(1, 10, (500, 3)) for k in range(2)]
    a = fo.allocate_sharded(policy, parts, capacities={"cpu": 900, "memory": 800, "gpu": 7000})
    assert a.leftover[2] > 1000 and a.prices[2] == 0 == a.summary()["prices"][2] and a.prices.max() > 0


def test_a_resource_that_is_all_reserved_is_refused_for_prices() -> None:
    policy = fo.Policy(fo.AlphaFair(2), [fo.Reserve(0, 1.0)])
    with pytest.raises(fo.errors.OutOfDomain, match="reserved"):
        fo.allocate_sharded(policy, np.ones((4, 3)), capacities=[1, 1, 1])


def test_blocks_that_name_what_is_not_there_are_refused_before_a_shard_is_read() -> None:
    broken = np.full((3, 3), np.nan)
    with pytest.raises(fo.FairoptError, match="'tpu'"):
        fo.allocate_sharded(fo.Policy(fo.Leximin(), [fo.Reserve("tpu", 0.1)]), broken, capacities=[1, 1, 1])


# -- a cluster


@contextmanager
def cluster_of(workers: int, processes: bool) -> Iterator[tuple[Any, Any]]:
    """A local Dask cluster and its client."""
    distributed = pytest.importorskip("distributed", reason="the extra fairopt[distributed] is not installed")
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": processes, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield cluster, client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    forked.ready()
    with cluster_of(2, processes=True) as (_, client):
        yield client


def nothing_held(client: Any) -> bool:
    """Whether the client releases all it holds, within a moment."""
    for _ in range(200):
        if not client.futures:
            return True
        time.sleep(0.05)
    return False


def kill_workers(client: Any, most: int = 2) -> None:
    for pid in list(client.run(os.getpid).values())[:most]:
        os.kill(pid, 9)


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(2)], ids=repr)
def test_a_cluster_and_one_process_agree_to_the_last_digit(client: Any, policy: fo.Policy, tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    instance = instance_of()
    plain = instance.with_task_limits(None).with_weights(None)
    np.save(tmp_path / "a.npy", plain.demands)
    units = capacities_of(instance)
    sources: dict[str, tuple[Any, fo.Instance]] = {
        "Parquet": (table(tmp_path / "t.parquet", instance), instance),
        "arrays": (np.array_split(plain.demands, 3), plain),
        "a file": (tmp_path / "a.npy", plain),
        "a memory map": (np.load(tmp_path / "a.npy", mmap_mode="r"), plain),
        "a Dask array": (da.from_array(plain.demands, chunks=(90, 3)), plain),
        "one on the cluster": (da.from_array(plain.demands, chunks=(90, 3)).persist(), plain),
    }
    for name, (source, right) in sources.items():
        one = fo.allocate_sharded(policy, source, capacities=units)
        a = fo.allocate_sharded(policy, source, capacities=units, client=client, out=tmp_path / f"out of {name}")
        np.testing.assert_allclose(a.prices, one.prices, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(all_tasks(a), all_tasks(one), rtol=1e-12, atol=0, err_msg=name)
        assert_same(a, policy.allocate(right))


def test_nothing_stays_on_the_cluster(client: Any) -> None:
    demands = instance_of().demands
    gc.collect()  # what tests before this one left in cycles
    most: list[int] = []
    with at_rounds(lambda k, what: most.append(len(client.futures))):
        a = fo.allocate_sharded(fo.FDS(2), np.array_split(demands, 5), capacities=[30, 20, 25], client=client)
    assert len(most) == a.rounds > 2 and max(most) <= 10  # the shards, and at most the last round's results
    assert nothing_held(client)
    assert len(a.tasks(4)) == 80
    with pytest.raises(fo.errors.InvalidInstance) as caught:
        fo.allocate_sharded(fo.FDS(2), [demands, -demands], capacities=[30, 20, 25], client=client)
    assert nothing_held(client) and caught.value  # though the error is still at hand


@pytest.mark.parametrize("at", ["respond", "judge"])
def test_a_worker_that_is_killed_costs_no_more_than_time(client: Any, at: str, tmp_path: Path) -> None:
    instance = instance_of()
    source, units = table(tmp_path / "t.parquet", instance), capacities_of(instance)
    killed: list[int] = []

    def kill(k: int, what: str) -> None:
        if what == at and not killed:
            kill_workers(client, 1)
            killed.append(k)

    with at_rounds(kill):
        a = fo.allocate_sharded(fo.FDS(2), source, capacities=units, client=client, out=tmp_path / "out")
    assert killed
    b = fo.allocate_sharded(fo.FDS(2), source, capacities=units)
    np.testing.assert_allclose(a.prices, b.prices, rtol=1e-12)
    np.testing.assert_allclose(all_tasks(a), all_tasks(b), rtol=1e-12)


def test_a_time_limit_ends_a_wait_for_workers() -> None:
    with cluster_of(1, processes=False) as (_, client):
        busy = []

        def occupy(k: int, what: str) -> None:
            if what == "judge":
                busy.append(client.submit(time.sleep, 5))

        with pytest.raises(fo.errors.NotCertified, match="time limit"), at_rounds(occupy):
            fo.allocate_sharded(fo.DRF(), instance_of().demands, capacities=[30, 20, 25], client=client, time_limit=2)


def test_errors_of_shards_arrive_as_they_are(client: Any, tmp_path: Path) -> None:
    demands = instance_of().demands
    bad = demands.copy()
    bad[7, 1] = np.nan
    units = [30, 20, 25]
    with pytest.raises(fo.errors.InvalidInstance, match=r"shard 'array 1'.*row 7 .*nan"):
        fo.allocate_sharded(fo.DRF(), [demands, bad], capacities=units, client=client)
    with pytest.raises(fo.errors.OutOfDomain, match=r"shard 'array 0'.*row 0"):
        fo.allocate_sharded(fo.KDF(2), [np.eye(3)], capacities=units, client=client)
    with pytest.raises(fo.errors.Infeasible) as caught:
        fo.allocate_sharded(fo.Policy(fo.Leximin(), [fo.MinTasks(9.0)]), [demands], capacities=units, client=client)
    assert caught.value.conflict
    for name, error in [("MissingExtra", fo.errors.MissingExtra), ("RuntimeError", RuntimeError)]:
        raises = partial(client.submit, raising, name)
        with pytest.raises(error, match="by a worker"), at_rounds(lambda k, what, raises=raises: raises().result()):
            fo.allocate_sharded(fo.DRF(), [demands], capacities=units, client=client)
    source = table(tmp_path / "t.parquet", instance_of())
    source.write_bytes(source.read_bytes()[:3000] + b"PAR1")
    with pytest.raises(fo.errors.InvalidInstance, match=r"t.parquet"):
        fo.allocate_sharded(fo.DRF(), source, capacities=capacities_of(instance_of()), client=client)


def test_a_file_that_vanishes_is_an_error_of_its_shard(client: Any, tmp_path: Path) -> None:
    instance = instance_of()
    source = table(tmp_path / "t.parquet", instance)
    for some in (None, client):
        table(source, instance)

        def vanish(k: int, what: str, some: Any = some) -> None:
            if what != "opening" and source.exists():
                source.unlink()
                if some is not None:
                    kill_workers(some)  # so that it has to be read again

        with (
            pytest.raises(fo.errors.InvalidInstance, match=r"shard 't.parquet, row group .*cannot be read"),
            at_rounds(vanish),
        ):
            fo.allocate_sharded(fo.DRF(), source, capacities=capacities_of(instance), client=some, out=tmp_path / "out")
        assert not list(tmp_path.iterdir())


def test_a_share_of_ones_own_goes_to_the_workers(client: Any, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "own_share_for_shards.py"
    path.write_text(
        "import fairopt as fo\nfrom dataclasses import dataclass\n"
        "@dataclass(frozen=True, repr=False)\nclass Mean(fo.Share):\n    by_row = True\n"
        "    def per_task(self, instance):\n        return instance.ratios.mean(axis=-1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own = importlib.import_module("own_share_for_shards")
    demands = instance_of().demands
    policy = fo.Policy(fo.AlphaFair(2, own.Mean()))
    with pytest.raises(fo.errors.SolverUnavailable, match=r"cannot load .*own_share_for_shards.*upload_file"):
        fo.allocate_sharded(policy, demands, capacities=[30, 20, 25], client=client)
    client.upload_file(str(path))
    a = fo.allocate_sharded(policy, [demands[:99], demands[99:]], capacities=[30, 20, 25], client=client)
    assert_same(a, policy.allocate(fo.Instance(demands, [30, 20, 25])))


def test_what_is_no_client_is_refused() -> None:
    pytest.importorskip("distributed")
    for wrong in ("tcp://127.0.0.1:8786", 7):
        with pytest.raises(fo.errors.InvalidBlock, match=r"distributed\.Client"):
            fo.allocate_sharded(fo.DRF(), np.ones((2, 2)), capacities=[1, 1], client=wrong)


def test_without_distributed_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(fo.errors.MissingExtra, match=r"pip install 'fairopt\[distributed\]'"):
        fo.allocate_sharded(fo.DRF(), np.ones((2, 2)), capacities=[1, 1], client=object())


def close_all(client: Any, cluster: Any) -> None:
    cluster.close()


def stop_workers(client: Any, cluster: Any) -> None:
    cluster.scale(0)


@pytest.mark.parametrize("end", [close_all, stop_workers])
def test_a_cluster_that_goes_away_is_said_and_leaves_nothing(
    end: Callable[[Any, Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    with cluster_of(1, processes=False) as (cluster, client):

        def stop(k: int, what: str) -> None:
            if what == "respond":
                end(client, cluster)

        with pytest.raises(fo.errors.SolverUnavailable, match="cluster"), at_rounds(stop):
            fo.allocate_sharded(
                fo.FDS(2), [instance_of().demands], capacities=[30, 20, 25], client=client, out=tmp_path / "out"
            )
        assert not list(tmp_path.iterdir())


def raising(name: str) -> None:
    if name == "MissingExtra":
        raise fo.errors.MissingExtra("pyarrow", "parquet", "by a worker")
    raise RuntimeError("by a worker")
