"""Which users have tasks that fit on no server, against a check of each pair of user and server."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings

import fairopt as fo
from fairopt.questions.fitting import too_large, why_too_large
from fairopt.testing import instances


def fits_somewhere(instance: fo.Instance, user: int) -> bool:
    return any(
        instance.eligible[user, s]
        and all(
            Fraction(float(d)) <= Fraction(float(c)) * (1 + Fraction(1, 10**9))
            for d, c in zip(instance.per_server_demands[user, s], instance.capacities[s], strict=True)
        )
        for s in range(instance.n_servers)
    )


@settings(max_examples=25, deadline=None)
@given(instance=instances((1, 4), (1, 3), (1, 4), placement=True, by_server=True, fractions=True))
def test_users_too_large_are_those_that_fit_on_none_of_their_servers(instance: fo.Instance) -> None:
    larger = instance.replace(demands=instance.demands * 3)
    for one in (instance, larger):
        assert too_large(one).tolist() == [j for j in range(one.n_users) if not fits_somewhere(one, j)]


def test_a_task_that_differs_from_the_capacity_by_rounding_fits() -> None:
    assert too_large(fo.Instance([[0.1 + 0.2], [0.3 + 1e-8]], [0.3])).tolist() == [1]


def test_the_sentence_says_what_is_asked_and_what_there_is() -> None:
    cluster = fo.Instance(
        [[1, 16, 0], [4, 0, 600], [8, 4, 0], [10, 6, 0]],
        [[64, 8, 512], [6, 0, 64], [8, 4, 64]],
        users=["ml", "web", "fits", "small"],
        resources=["cpu", "nvidia.com/gpu", "memory"],
        units={"memory": "GiB"},
        eligible={"small": ["server2", "server3"]},
    )
    users = too_large(cluster)
    assert [cluster.users[j] for j in users] == ["ml", "web", "small"]
    assert why_too_large(cluster, users) == (
        "no server can run a task of ml (16 gpu a task; the largest server has 8), web (600 GiB of memory a task; the "
        "largest server has 512), small (6 gpu a task; the largest server where it may run has 4)"
    )


def test_a_task_that_is_too_large_for_no_single_resource_says_so_and_many_users_are_counted() -> None:
    cluster = fo.Instance([[4, 4]] * 7, [[8, 1], [1, 8]])
    said = why_too_large(cluster, too_large(cluster))
    assert said.count("each server has too little of one resource or another") == 3
    assert said.endswith(" and 4 more users")
    assert np.array_equal(too_large(cluster.pooled()), [])
