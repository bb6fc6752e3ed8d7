"""The small data set that ships inside the package."""

import numpy as np
from scipy.optimize import linprog

from fairopt.datasets import demo


def most_tasks(instance, low=0.0):
    """Tasks by user when their number is largest and every user has at least a dominant share of ``low`` per weight."""
    n, s, m = instance.n_users, instance.n_servers, instance.n_resources
    usage = np.zeros((s * m, n * s))
    for k in range(s):
        usage[k * m : (k + 1) * m, k::s] = instance.demands.T
    capacity = (instance.capacities * instance.counts[:, None]).ravel()
    total = np.kron(np.eye(n), np.ones(s))
    limited = np.isfinite(instance.task_limits)
    answer = linprog(
        -np.ones(n * s),
        A_ub=np.vstack([usage, total[limited], -total]),
        b_ub=np.concatenate(
            [
                capacity,
                instance.task_limits[limited],
                -np.minimum(low * instance.weights / instance.dominant_shares, instance.task_limits),
            ]
        ),
        bounds=np.column_stack([np.zeros(n * s), np.where(instance.eligible.ravel(), np.inf, 0)]),
        method="highs",
    )
    return answer.x.reshape(n, s).sum(axis=1) if answer.status == 0 else None


def test_the_demo_has_everything_an_instance_can_have():
    cluster = demo()
    assert cluster.resources == ("cpu", "memory", "gpu", "bandwidth")
    assert cluster.units == ("core", "GiB", "", "Gbit/s")
    assert cluster.n_users == 10 and cluster.n_servers == 4 and cluster.counts.max() > 1
    assert np.ptp(cluster.weights) > 0
    assert np.isfinite(cluster.task_limits).any() and np.isinf(cluster.task_limits).any()
    free = cluster.replace(eligible=None)
    assert (cluster.eligible != free.eligible).any(axis=1).sum() >= 3


def test_every_user_of_the_demo_needs_three_resources_so_that_2_df_and_3_df_are_defined():
    assert ((demo().demands > 0).sum(axis=1) >= 3).all()


def test_the_demo_is_contended_so_that_fairness_costs_tasks():
    cluster = demo()
    most = most_tasks(cluster)
    assert (most < 0.01).sum() >= 3
    fair = most_tasks(cluster, low=0.12)
    assert fair is not None and fair.sum() < 0.9 * most.sum()
    assert most_tasks(cluster, low=0.13) is None


def test_each_call_of_the_demo_gives_an_equal_instance():
    assert demo() == demo()
