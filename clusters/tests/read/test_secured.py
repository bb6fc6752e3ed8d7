"""What quotas secure: units that tasks take together within them, and that no more tasks fit beside."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from fairopt_clusters.read import secured as module
from fairopt_clusters.read.secured import Entitlement, Limit, Owed, Users
from fairopt_clusters.read.secured import secured as secured_by
from hypothesis import given, settings
from hypothesis import strategies as st

ON = np.array([True])


def secured(demands, limits, units, able=None, flavors=None):
    """Of one team on servers of 100 units each, with quotas on all of them unless there are ``flavors``."""
    demands = np.array(demands, dtype=float)
    able = np.ones((len(demands), 1), dtype=bool) if able is None else np.array(able, dtype=bool)
    quotas = [(np.ones(able.shape[1], dtype=bool), units)] if flavors is None else flavors
    members = range(len(demands))
    capacities = np.full((able.shape[1], demands.shape[1]), 100.0)
    names = ["cpu", "gpu"][: demands.shape[1]]
    given = [Entitlement(name, amount, {"t": on}) for on, of in quotas for name, amount in of.items()]
    users = Users(demands, np.array(limits, float), able, {"t": members}, names, capacities)
    tasks, _, part, _ = secured_by(Owed({"t": given}), users)
    assert part == 1
    used = dict(zip(names, (tasks @ demands).tolist(), strict=True))
    return {name: used[name] for name in {one.resource for one in given} if used[name]}


def test_tasks_of_one_kind_fill_the_quota_that_they_use_up_first():
    assert secured([[2, 1]], [50], {"cpu": 20, "gpu": 4}) == {"cpu": 8, "gpu": 4}
    assert secured([[2, 1]], [3], {"cpu": 20, "gpu": 4}) == {"cpu": 6, "gpu": 3}
    assert secured([[2, 1]], [50], {"gpu": 4}) == {"gpu": 4}
    assert secured([[2, 0]], [50], {"gpu": 4}) == secured([[2, 1]], [50], {"cpu": 8, "gpu": 0}) == {}


def test_kinds_rise_at_equal_dominant_shares_until_a_quota_of_theirs_is_used_up():
    # dominant shares 0.02 and 0.4 a task: 20 tasks of the first for one of the second; with 10 and 1/2 the gpus are
    # used up, and 70 cpu would be left
    assert secured([[1, 2], [40, 0]], [50, 50], {"cpu": 100, "gpu": 20}) == pytest.approx({"cpu": 100, "gpu": 20})
    assert secured([[1, 2], [40, 0]], [50, 50], {"cpu": 15, "gpu": 20}) == pytest.approx({"cpu": 15, "gpu": 10})


def test_a_flavor_secures_for_those_who_may_run_on_its_servers():
    first, second = np.array([True, False]), np.array([False, True])
    flavors = [(first, {"gpu": 8.0}), (second, {"gpu": 4.0})]
    assert secured([[0, 1]], [50], {}, [[True, False]], flavors) == {"gpu": 8}
    assert secured([[0, 1]], [50], {}, [[True, True]], flavors) == {"gpu": 12}
    assert secured([[0, 1], [1, 1]], [50, 50], {}, [[False, True], [True, True]], flavors) == {"gpu": 12}
    assert secured([[0, 1], [0, 1]], [50, 1], {}, [[False, True], [True, True]], flavors) == {"gpu": 5}
    assert secured([[0, 1]], [50], {}, [[False, False]], flavors) == {}


def test_flavors_that_two_kinds_can_use_are_not_secured_twice():
    """Each kind alone, and all together, could have 9: but the first two have 6 on their three flavors."""
    able = [[True, True, False, False], [False, True, True, False], [False, False, False, True]]
    flavors = [(np.arange(4) == k, {"gpu": units}) for k, units in enumerate([2.0, 2.0, 2.0, 6.0])]
    assert secured([[0, 1]] * 3, [50, 50, 1], {}, able, flavors) == {"gpu": 7}


@pytest.mark.parametrize("limit", [np.inf, 1e4])
def test_users_without_a_task_limit_are_secured_what_those_with_a_high_one_are(limit):
    first = np.array([True, False])
    flavors = [(first, {"cpu": 6.0, "gpu": 5.0}), (~first, {"cpu": 5.0, "gpu": 3.0})]
    units = secured([[1, 2], [2, 1]], [limit, 50], {}, [[True, True], [True, False]], flavors)
    assert units == pytest.approx({"cpu": 7.5, "gpu": 7.5})  # 2.5 tasks each, when 1 + 2 * 2.5 use up 6 cpu


def test_a_team_around_others_secures_what_they_do_and_more():
    """From 4 and 1 on they rise together, up to a limit of 6 of the first and to the 2 tasks of the second."""
    users = Users(
        np.array([[1.0], [1.0]]),
        np.array([50.0, 2.0]),
        np.ones((2, 1), bool),
        {"a": [0], "b": [1]},
        ["cpu"],
        np.array([[100.0]]),
    )
    of_team = {"a": [Entitlement("cpu", 4.0, {"a": ON})], "b": [Entitlement("cpu", 1.0, {"b": ON})]}
    outer = {"all": (["a", "b"], [Entitlement("cpu", 10.0, {"a": ON, "b": ON})])}
    tasks, floors, *_ = secured_by(Owed(of_team, outer), users)
    assert tasks.tolist() == [4, 1] and floors == {"all": {"cpu": pytest.approx(10)}}
    limit = Limit("a", "cpu", 6.0, {"a": (True,)})
    assert secured_by(Owed(of_team, outer, [limit]), users)[1] == {"all": {"cpu": pytest.approx(6 + 2)}}


def test_what_does_not_fit_on_the_servers_together_is_secured_in_part():
    demands, able, on = np.array([[3.0, 0.0], [1.0, 1.0]]), np.ones((2, 2), bool), np.array([True, True])
    users = Users(
        demands, np.array([9.0, 9.0]), able, {"a": [0], "b": [1]}, ["cpu", "gpu"], np.array([[4.0, 4], [4, 0]])
    )
    owed = Owed(
        {
            "a": [Entitlement("cpu", 6.0, {"a": on})],
            "b": [Entitlement("cpu", 4.0, {"b": on}), Entitlement("gpu", 4.0, {"b": on})],
        }
    )
    tasks, _, part, _ = secured_by(owed, users)
    assert part == pytest.approx(0.8) and tasks == pytest.approx([1.6, 3.2])


numbers = st.integers(0, 6)


@settings(max_examples=80, deadline=None)
@given(
    demands=st.lists(st.tuples(numbers, numbers).filter(any), min_size=1, max_size=4),
    limit=st.integers(1, 9),
    cpu=st.integers(0, 40),
    gpu=st.integers(0, 40),
)
def test_what_is_secured_is_within_the_quotas_and_leaves_no_room(demands, limit, cpu, gpu):
    limits = [limit] * len(demands)
    units = secured(demands, limits, {"cpu": cpu, "gpu": gpu})
    held = np.array([units.get("cpu", 0.0), units.get("gpu", 0.0)])
    assert (held <= np.array([cpu, gpu]) * (1 + 1e-9)).all()
    asked = limit * np.sum(demands, axis=0)
    used_up = held >= np.array([cpu, gpu]) * (1 - 1e-9)
    if (held < asked * (1 - 1e-9)).any():  # then each user whose tasks are left needs a resource that is used up
        assert used_up.any()


def test_what_stays_on_closed_servers_counts_for_a_team_without_quotas_within_limits():
    """Three of the tasks of a and two of b stay on the second server; limits let a have 1.5 and all together 3."""
    demands, able = np.ones((2, 1)), np.ones((2, 2), dtype=bool)
    users = Users(demands, np.full(2, 9.0), able, {"a": [0], "b": [1]}, ["gpu"], np.array([[4.0], [5.0]]))
    of = {"a": (True, True), "b": (True, True)}
    limits = [Limit("of a", "gpu", 1.5, {"a": (True, True)}), Limit("of all", "gpu", 3.0, of)]
    owing = {"a": [], "b": []}
    assert secured_by(Owed(owing), users, np.array([3.0, 2.0]))[0].tolist() == [3, 2]
    assert secured_by(Owed(owing, limits=limits), users, np.array([3.0, 2.0]))[0] == pytest.approx([1.5, 1.5])


def crowd(seed, n=60, n_servers=12):
    """A team with kinds of pods that are all different, on servers that are, with quotas on three flavors of them."""
    draw = np.random.default_rng(seed)
    demands, limits = draw.uniform(0.1, 2.0, (n, 2)), draw.integers(1, 9, n).astype(float)
    capacities = draw.uniform(2.0, 12.0, (n_servers, 2))
    able = np.array([(one <= capacities).all(axis=1) for one in demands])
    flavors = [np.arange(n_servers) % 3 == k for k in range(3)]
    quotas = [Entitlement(name, float(draw.uniform(5.0, 40.0)), {"t": on}) for on in flavors for name in ("cpu", "gpu")]
    return Owed({"t": quotas}), Users(demands, limits, able, {"t": range(n)}, ["cpu", "gpu"], capacities)


def test_many_limits_at_once_are_as_one_after_the_other(monkeypatch):
    reached = list[float]()
    for seed in range(6):
        given = crowd(seed)
        monkeypatch.setattr(module, "FEW", 4)
        found = secured_by(*given)
        monkeypatch.setattr(module, "FEW", np.inf)
        other = secured_by(*given)
        assert found.tasks == pytest.approx(other.tasks, rel=1e-9) and found.part == pytest.approx(other.part)
        reached += (found.tasks / found.part / given[1].limits).tolist()
    assert sum(of > 1 - 1e-9 for of in reached) > 20 and sum(of < 0.5 for of in reached) > 20


def test_what_is_placed_without_a_program_fits_by_it(monkeypatch):
    placed, said = module._placed, list[bool]()
    monkeypatch.setattr(module, "_placed", lambda *of: said.append(placed(*of)) or False)
    for seed, quota in ((seed, quota) for seed in range(4) for quota in (0.2, 0.4, 0.6, 3.0)):
        owed, users = crowd(seed)
        part = secured_by(
            Owed({"t": [replace(one, amount=one.amount * quota) for one in owed.of_team["t"]]}), users
        ).part
        assert part == 1 or not said[-1], (seed, quota)
    assert 4 <= sum(said) < len(said)


def test_programs_take_memory_by_nonzero_numbers():
    """An array of 150 users by their 22,500 places takes 27 MB, and there were several."""
    owed, users = crowd(0, 150, 150)
    users = replace(users, able=np.ones_like(users.able), demands=users.demands / 10)
    tracemalloc.start()
    try:
        secured_by(owed, replace(users, capacities=users.capacities / 10))
        assert tracemalloc.get_traced_memory()[1] < 25e6
    finally:
        tracemalloc.stop()
