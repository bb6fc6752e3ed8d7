"""Published runs of whole tasks beside those of tests/test_papers.py: Jiang and Wu (2021) and Ghodsi et al. (2011)."""

from collections import Counter

import numpy as np

import fairopt as fo

TYPES = fo.datasets.google_servers(50, types=4, cpu=16, memory=128)
CLUSTER = fo.Instance([], np.repeat(TYPES.capacities, TYPES.counts, axis=0))
JOBS = [
    fo.Job("job 1", [2.5, 3], 30, tasks=450),
    fo.Job("job 2", [1, 15], 20, tasks=150, arrival=40),
    fo.Job("job 3", [1, 10], 80, tasks=80, arrival=50),
]


def starts(**options: str) -> Counter[tuple[float, int]]:
    run = fo.simulate(CLUSTER, JOBS, scheduler=fo.Scheduler(CLUSTER, fo.KDominantShare(2), **options))
    return Counter(zip(run.start.tolist(), run.task_job.tolist(), strict=True))


def test_the_run_of_sec_6_3_does_not_depend_on_misfits() -> None:
    found = starts(on_misfit="stop")
    assert found == starts()
    assert (found[0, 0], found[40, 1], found[60, 2]) == (159, 3, 80)


def test_best_fit_changes_the_run_of_sec_6_3_only_from_where_a_task_of_job_1_fits_on_no_server() -> None:
    first, best = starts(), starts(placement="best-fit")
    assert first - best == {(60, 0): 1, (90, 0): 1, (90, 1): 1}
    assert best - first == {(60, 1): 1, (80, 0): 2}


def test_ghodsi_et_al_start_b_first_if_ties_go_to_b() -> None:
    units = {"A": [1, 4], "B": [3, 1]}
    for users, order in (("AB", "ABABA"), ("BA", "BAABA")):
        run = fo.simulate([9, 18], [fo.Job(user, units[user], 1, tasks=10) for user in users])
        first = run.task_job[run.start == 0]
        assert "".join(users[job] for job in first) == order  # printed: BAABA
        np.testing.assert_allclose(run.shares([0]), [[2 / 3, 2 / 3]])
