"""Published runs of whole tasks: Jiang and Wu (2021), sec. 6.3, and Ghodsi et al. (2011)."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import fairopt as fo

SHARE = fo.KDominantShare(2)
TYPES = fo.datasets.google_servers(50, types=4, cpu=16, memory=128)
KINDS = [f"type {k}" for k in range(1, 5)]
CLUSTER = fo.Instance(
    [], np.repeat(TYPES.capacities, TYPES.counts, axis=0), server_types=np.repeat(KINDS, TYPES.counts).tolist()
)
DEMANDS = np.array([[2.5, 3], [1, 15], [1, 10]])
JOBS = [
    fo.Job("job 1", DEMANDS[0], 30, tasks=450), fo.Job("job 2", DEMANDS[1], 20, tasks=150, arrival=40),
    fo.Job("job 3", DEMANDS[2], 80, tasks=80, arrival=50),
]  # fmt: skip
POOLS = TYPES.capacities * TYPES.counts[:, None]


def started(run: fo.Timeline, at: float) -> list[int]:
    return np.bincount(run.task_job[run.start == at], minlength=3).tolist()


def run_with(**options: str) -> fo.Timeline:
    return fo.simulate(CLUSTER, JOBS, scheduler=fo.Scheduler(CLUSTER, SHARE, **options))


@pytest.mark.parametrize("options", [{}, {"on_misfit": "stop"}, {"placement": "best-fit"}])
def test_sec_6_3_comes_out_up_to_60_s_with_each_server_by_itself(options: dict[str, str]) -> None:
    run = run_with(**options)
    assert (TYPES.counts.tolist(), started(run, 0), started(run, 30)) == ([27, 16, 4, 3], [159, 0, 0], [159, 0, 0])
    assert started(run, 40) == [0, 3, 0] and started(run, 50) == [0, 0, 0]
    assert {CLUSTER.server_types[s] for s in run.task_server[run.start == 40]} == {"type 4"}
    left = CLUSTER.capacities[:, 0].copy()
    running = (run.start <= 50) & (run.end > 50)
    np.subtract.at(left, run.task_server[running], DEMANDS[run.task_job[running], 0])
    assert left.max() == 0.5  # CPU, "at most"
    assert np.bincount(run.task_job[run.end <= 60], minlength=3).tolist() == [318, 3, 0]
    assert [started(run, at) for at in (60, 80, 90, 100)] == [[106, 53, 80], [0, 53, 0], [26, 41, 0], [0, 0, 0]]


def test_pools_do_not_give_159_tasks_at_the_start() -> None:
    run = run_with(placement="pooled")
    assert [started(run, at) for at in (0, 40, 60)] == [[168, 0, 0], [0, 3, 0], [108, 55, 80]]


def test_at_60_s_the_text_follows_whole_rounds_of_each_pool_and_job_3_has_two_tasks_left() -> None:
    divisible = fo.NaivePerServer(fo.KDF(2)).allocate(fo.Instance(DEMANDS, POOLS)).tasks_by_server
    once = np.array([4, 2, 3])
    rounds = [min(Fraction(c) / Fraction(u) for c, u in zip(pool, once @ DEMANDS, strict=True)) for pool in POOLS]
    np.testing.assert_allclose(divisible, once[:, None] * np.array(rounds, dtype=float), rtol=1e-9)
    starts = np.array([once * int(k) for k in rounds])
    assert starts.tolist() == [[56, 28, 42], [28, 14, 21], [8, 4, 6], [12, 6, 9]]  # printed for type 4: 56, 28, 42
    assert (POOLS[3] < [56, 28, 42] @ DEMANDS).all()
    assert ([450, 150, 80] - starts.sum(axis=0) - [318, 3, 0]).tolist() == [28, 95, 2]  # printed: 28, 95, 1


def test_what_the_text_starts_on_type_2_does_not_fit_on_its_servers() -> None:
    counts = np.array([*product(range(4), range(3), range(4))])  # most tasks of each job on 8 cores and 32 GB
    used = counts @ DEMANDS
    assert used[(used <= [8, 32]).all(axis=1), 1].max() == 31
    assert [28, 14, 21] @ DEMANDS[:, 1] == 504 > 31 * TYPES.counts[1] == 496


def test_ghodsi_et_al_start_b_first_if_ties_go_to_b() -> None:
    units = {"A": [1, 4], "B": [3, 1]}
    for users, order in (("AB", "ABABA"), ("BA", "BAABA")):
        run = fo.simulate([9, 18], [fo.Job(user, units[user], 1, tasks=10) for user in users])
        first = run.task_job[run.start == 0]
        assert "".join(users[job] for job in first) == order  # printed: BAABA
        np.testing.assert_allclose(run.shares([0]), [[2 / 3, 2 / 3]])
