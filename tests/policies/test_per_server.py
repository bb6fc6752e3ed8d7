"""Each server to itself: the sum of what the policy gives on each, cut at limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracle import fractions_waterfill as exact
from oracle.instances import cluster, clusters

import fairopt as fo
from fairopt.allocation import feasibility
from fairopt.errors import NotCertified
from fairopt.policies import bottleneck
from fairopt.policies.bottleneck import BottleneckFairness
from fairopt.policies.per_server import NaivePerServer
from fairopt.policies.psdsf import PSDSF
from fairopt.runtime.clock import Clock
from fairopt.scale import many as batch

POLICIES = {"DRF": fo.DRF(), "FDS(2)": fo.FDS(2), "most tasks": fo.MostTasks()}


def exactly(instance: fo.Instance) -> np.ndarray:
    """DRF on each single server in fractions, times its count, cut at the limits."""
    tasks = np.zeros((instance.n_users, instance.n_servers))
    for s in range(instance.n_servers):
        users = np.flatnonzero(instance.eligible[:, s] & (instance.task_limits > 0))
        demands, room = instance.per_server_demands[users, s].tolist(), instance.capacities[s].tolist()
        if len(users):
            worth = exact.dominant(demands, room)
            found = exact.leximin(demands, room, worth, instance.weights[users].tolist())
            assert found is not None
            tasks[users, s] = [float(x * int(instance.counts[s])) for x in found]
    total = tasks.sum(axis=1)
    return tasks * np.minimum(1.0, instance.task_limits / np.where(total > 0, total, 1.0))[:, None]


def test_the_example_of_hamzeh_et_al() -> None:
    a = NaivePerServer(fo.DRF()).allocate(fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]]))
    np.testing.assert_allclose(a.tasks, [3 + 20 / 9, 2 + 25 / 18], rtol=1e-12)
    assert (a.certificate.method, a.policy.name) == ("per server, water-filling", "DRF per server")


@given(clusters())
def test_naive_drf_is_exact(instance: fo.Instance) -> None:
    a = NaivePerServer(fo.DRF()).allocate(instance)
    np.testing.assert_allclose(a.tasks_by_server, exactly(instance), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", POLICIES)
@given(instance=clusters())
def test_everything_fits_on_each_server(name: str, instance: fo.Instance) -> None:
    a = NaivePerServer(POLICIES[name]).allocate(instance)
    assert a.certificate.ok and a.certificate.violation == feasibility(instance, a.tasks_by_server)
    assert (a.usage <= instance.capacities * instance.counts[:, None] * (1 + 1e-9)).all()
    assert (a.tasks <= instance.task_limits * (1 + 1e-12)).all()
    assert not a.tasks_by_server[~instance.eligible].any()


@given(clusters(), st.sampled_from([fo.FDS(2), fo.FDS(0.5), fo.KDF(1), fo.GFJ(1)]))
def test_in_step_and_one_by_one_are_the_same(instance: fo.Instance, policy: fo.Policy) -> None:
    a = NaivePerServer(policy).allocate(instance)
    b = NaivePerServer(fo.Policy(policy.objective, [fo.MinTasks(0)])).allocate(instance)
    np.testing.assert_allclose(b.tasks_by_server, a.tasks_by_server, rtol=1e-4, atol=1e-6)


def test_on_one_pool_it_is_the_policy() -> None:
    pool = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], weights=[1, 2])
    for policy in POLICIES.values():
        np.testing.assert_allclose(
            NaivePerServer(policy).allocate(pool).tasks, policy.allocate(pool).tasks, rtol=1e-6, atol=1e-9
        )


def test_a_limit_is_cut_at_the_sum_on_all_servers_alike() -> None:
    instance = fo.Instance([[1], [1]], [[4], [8]], task_limits=[3, None])
    a = NaivePerServer(fo.DRF()).allocate(instance)
    np.testing.assert_allclose(a.tasks_by_server, [[1, 2], [2, 4]])  # 2 and 4 cut by half; no user gets what is freed


def test_users_of_limit_0_are_left_out_everywhere() -> None:
    a = NaivePerServer(fo.DRF()).allocate(fo.Instance([[1], [1]], [[4], [8]], task_limits=[0, None]))
    np.testing.assert_allclose(a.tasks, [0, 12])


def test_weights_hold_on_each_server() -> None:
    a = NaivePerServer(fo.DRF()).allocate(fo.Instance([[1], [1]], [[4], [8]], weights=[1, 3]))
    np.testing.assert_allclose(a.tasks_by_server, [[1, 2], [3, 6]])


@dataclass(frozen=True, repr=False)
class Own(fo.Share):
    """The dominant share, as a share of one's own."""

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return instance.dominant_shares


def test_a_share_of_ones_own_is_asked_of_one_server_of_a_row() -> None:
    row = fo.Instance([[1, 2], [2, 1]], [[6, 6]], counts=[10])
    share = Own()
    a = NaivePerServer(fo.Policy(fo.MaxMin(share), [fo.MaxShare(0.3, share)])).allocate(row)
    np.testing.assert_allclose(a.tasks, [9, 9])  # on one server 0.9 tasks of 1/3 of it each: a share of 0.3


@pytest.mark.parametrize("seed", range(5))
def test_a_row_of_q_servers_is_q_servers(seed: int) -> None:
    instance = cluster(np.random.default_rng(seed), 5, 3, 2, by_server=seed % 2 == 1)
    rows = np.repeat(np.arange(3), instance.counts)
    single = instance.replace(
        demands=instance.demands if instance.demands.ndim == 2 else instance.demands[:, rows],
        capacities=instance.capacities[rows],
        eligible=instance.eligible[:, rows],
        counts=None,
        servers=None,
    )
    a, b = (NaivePerServer(fo.FDS(2)).allocate(i) for i in (instance, single))
    for s in range(3):
        np.testing.assert_allclose(b.tasks_by_server[:, rows == s].sum(axis=1), a.tasks_by_server[:, s], rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_users_and_servers_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = cluster(rng, 6, 4, 3)
    users, servers = rng.permutation(6), rng.permutation(4)
    other = instance.select_users(users)
    other = other.replace(
        capacities=other.capacities[servers], eligible=other.eligible[:, servers], counts=other.counts[servers]
    )
    a, b = (NaivePerServer(fo.DRF()).allocate(i) for i in (instance, other))
    np.testing.assert_allclose(b.tasks_by_server, a.tasks_by_server[users][:, servers], rtol=1e-10, atol=1e-13)


def test_identical_servers_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def watched(policy: Any, servers: Any, clock: Any) -> Any:
        seen.append(len(servers))
        return batch.allocate_together(policy, servers, clock)

    monkeypatch.setattr("fairopt.policies.per_server.allocate_together", watched)
    a = NaivePerServer(fo.DRF()).allocate(fo.Instance([[1, 2], [2, 1]], [[6, 6], [4, 2], [6, 6], [6, 6]]))
    assert seen == [2]
    assert (a.tasks_by_server[:, 0] == a.tasks_by_server[:, 3]).all()


def test_an_error_names_the_server_and_the_user() -> None:
    instance = fo.Instance(
        [[1, 1], [1, 0]],
        [[4, 4], [2, 2]],
        eligible=[[True, True], [False, True]],
        users=["a", "b"],
        servers=["big", "small"],
    )
    with pytest.raises(fo.errors.OutOfDomain, match="on server 'small' alone: user 'b' has a zero"):
        NaivePerServer(fo.KDF(2)).allocate(instance)


def test_a_conflict_names_the_server_and_keeps_what_conflicts() -> None:
    instance = fo.Instance([[1]], [[4], [2]], servers=["big", "small"])
    with pytest.raises(fo.errors.Infeasible, match="on server 'small' alone") as caught:
        NaivePerServer(fo.Policy(fo.Leximin(), [fo.MinTasks(3)])).allocate(instance)
    assert caught.value.conflict


def test_numbers_by_user_reach_each_server() -> None:
    demands, capacities = [[1, 2], [2, 1], [1, 1]], [[8, 8], [4, 9]]
    eligible = [[True, True], [True, False], [True, True]]
    labels = ["user3", "user1", "user2"]  # those of a batch would be user1, user2, user3
    instance = fo.Instance(demands, capacities, eligible=eligible, users=labels)
    by_label = fo.KDF(2, rank_weights={"user3": (2, 1), "user1": (1, 1), "user2": (1, 3)})
    by_place = fo.KDF(2, rank_weights=[(2, 1), (1, 1), (1, 3)])
    a, b = (NaivePerServer(p).allocate(instance) for p in (by_label, by_place))
    np.testing.assert_allclose(a.tasks_by_server, b.tasks_by_server, rtol=1e-9)
    floors = fo.Policy(fo.MostTasks().objective, [fo.MinTasks({"user3": 1})])
    assert (NaivePerServer(floors).allocate(instance).tasks_by_server[0] >= 1 - 1e-9).all()


@pytest.mark.fast_methods  # six digits of what bottleneck fairness checks
def test_any_mechanism_will_do() -> None:
    instance = fo.Instance([[0, 1], [1, 1]], [[4, 6], [8, 12]])
    np.testing.assert_allclose(NaivePerServer(BottleneckFairness()).allocate(instance).tasks, [9, 9], rtol=1e-8)
    same = NaivePerServer(PSDSF()).allocate(instance).tasks_by_server
    np.testing.assert_allclose(same, NaivePerServer(fo.DRF()).allocate(instance).tasks_by_server, rtol=1e-9)


def test_what_a_mechanism_refuses_on_a_server_is_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bottleneck, "NashWelfare", fo.DRF)  # certified, and leaves a complaint on both servers
    with pytest.raises(NotCertified, match="on server 'server1' alone: the allocation found is not bottleneck-fair"):
        NaivePerServer(BottleneckFairness()).allocate(fo.Instance([[0, 1], [1, 1]], [[4, 6], [8, 12]]))


def test_a_solver_is_passed_on() -> None:
    instance = fo.Instance([[1, 4], [3, 1]], [[9, 18], [3, 7]])
    a = NaivePerServer(fo.FDS(1)).allocate(instance, solver="CLARABEL", time_limit=60)
    assert a.certificate.solver == "CLARABEL" and a.certificate.method == "per server, cone"
    np.testing.assert_allclose(a.tasks, NaivePerServer(fo.FDS(1)).allocate(instance).tasks, rtol=1e-3)


def test_a_server_without_a_proof_is_named_with_the_best_found() -> None:
    class Doubtful:
        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            best = fo.DRF().allocate(instance)
            if instance.servers[0] != "small":
                return best
            doubtful = fo.Allocation(instance, self, best.tasks_by_server, fo.Certificate(0.5, 0.0, "guess"), 0.0)
            raise fo.errors.NotCertified("cannot say", best=doubtful)

    instance = fo.Instance([[1]], [[4], [2]], servers=["big", "small"])
    with pytest.raises(fo.errors.NotCertified, match=r"of server 'small' could be certified: gap 0\.5") as caught:
        NaivePerServer(Doubtful()).allocate(instance)
    assert caught.value.best.tasks == pytest.approx([6], rel=1e-15)


def test_time_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "late", True)
    rng = np.random.default_rng(0)
    instance = fo.Instance(rng.uniform(0.1, 1, (50, 2)), rng.uniform(5, 50, (40, 2)))
    with pytest.raises(fo.errors.NotCertified, match="of server 'server1' could be certified"):
        NaivePerServer(fo.FDS(2)).allocate(instance, time_limit=60)


@pytest.mark.parametrize("n", [0, 2])
def test_nobody_to_serve_is_certified(n: int) -> None:
    a = NaivePerServer(fo.FDS(2)).allocate(fo.Instance(np.ones((n, 2)), [[1, 1], [2, 3]], task_limits=0))
    assert a.certificate.ok and a.certificate.method == "empty" and not a.tasks.any()


def test_a_server_where_nobody_may_run_stays_empty() -> None:
    a = NaivePerServer(fo.DRF()).allocate(fo.Instance([[1]], [[1], [2]], eligible=[[False, True]]))
    np.testing.assert_allclose(a.tasks_by_server, [[0, 2]], rtol=1e-15)
    b = NaivePerServer(fo.Policy(fo.Leximin(), [fo.MinTasks(0)])).allocate(a.instance)
    np.testing.assert_allclose(b.tasks_by_server, [[0, 2]], rtol=1e-15)


def test_sharing_incentive_on_each_server_gives_it_on_the_whole() -> None:
    instance = cluster(np.random.default_rng(4), 5, 3, 3).with_task_limits(None)
    a = NaivePerServer(fo.Policy(fo.AlphaFair(0.3), [fo.SharingIncentive()])).allocate(instance)
    entitled = instance.weights / instance.weights.sum() * instance.tasks_alone.sum(axis=1)
    assert (a.tasks >= entitled * (1 - 1e-6)).all()


@pytest.mark.parametrize("wrong", ["drf", fo.Policy, None])
def test_what_is_no_policy_is_refused(wrong: Any) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="give a policy"):
        NaivePerServer(wrong)


def test_it_can_be_pasted_and_compared() -> None:
    made = NaivePerServer(fo.FDS(2))
    assert eval(repr(made), {name: getattr(fo, name) for name in fo.__all__}) == made
    assert len({made, NaivePerServer(fo.FDS(2)), NaivePerServer(fo.DRF())}) == 2


@pytest.mark.parametrize("policy", [fo.Policy(fo.Leximin(fo.OfTeam())), fo.HDRF(), fo.DRF()], ids=str)
def test_teams_and_their_weights_are_those_of_each_server(policy: fo.Policy) -> None:
    demands, teams = [[1, 2], [2, 1], [2, 2], [1, 1]], {"team": ["t", "t", "u", "v"]}
    both = fo.Instance(demands, [[4, 5], [6, 9]], teams=teams, weights={"t": 2})
    alone = [fo.Instance(demands, c, teams=teams, weights={"t": 2}) for c in ([4, 5], [6, 9])]
    tasks = fo.NaivePerServer(policy).allocate(both).tasks_by_server
    assert_allclose(tasks.T, [policy.allocate(one).tasks for one in alone], rtol=1e-6, atol=1e-9)
