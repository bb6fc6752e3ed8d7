"""Leximin on several servers by one program changed from level to level: against the oracle, and its guarantees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle.brute_leximin import NoPoint, Polytope, leximin
from oracle.chains import chain
from oracle.exact_cluster import Cluster
from oracle.exact_lp import leximin as fractions_leximin
from oracle.instances import cluster, clusters, log_uniform

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof import level_bounds as proofs_of_levels
from fairopt.proof.evidence.levels import LevelDuals
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.proposal import Proposal
from fairopt.runtime.clock import Clock, Late
from fairopt.solve import levels_in_fractions
from fairopt.solve.cluster import level_program
from fairopt.solve.cluster import leximin as server_leximin
from fairopt.solve.cluster.level_program import LevelOptimum, LevelProgram
from fairopt.solve.cluster.leximin import solve_leximin_on_servers
from fairopt.solve.dispatch import best
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings
from fairopt.solve.table import TABLE

SHARES = [fo.DominantShare(), fo.StandAloneShare(), fo.Tasks()]


def judged(filling: server_leximin._LevelsOnServers) -> JudgedPoint:
    """The answer of the gate to the present tasks."""
    evidence = LevelDuals(filling.holdings(), prices=filling.prices)
    return gate.judge(filling.program, Proposal("levels", filling.tasks(), evidence))


def levels_apply(program: Program) -> bool:
    return any(method.name == "levels" and method.applies(program, Settings()) for method in TABLE)


def answered(
    instance: fo.Instance, share: fo.Share, *constraints: fo.Constraint, merge: bool = True
) -> tuple[JudgedPoint, np.ndarray]:
    """The answer, and each user's share per weight."""
    program = Program(instance, fo.Leximin(share), constraints, merge=merge)
    assert levels_apply(program), "'levels' does not apply"
    answer = best(program, solve_leximin_on_servers(program, Settings()))
    tasks = program.expand(answer.tasks).sum(axis=1)
    return answer, share.coefficients(instance) * tasks / instance.weights


def programs(answer: JudgedPoint) -> int:
    return int(answer.tried[-1].status.split("(")[1].split()[0])


def brute(instance: fo.Instance, share: fo.Share, polytope: Polytope | None = None) -> np.ndarray:
    return leximin(polytope or Polytope.of(instance), share.coefficients(instance), instance.weights)


def assert_same(found: np.ndarray, right: np.ndarray, tolerance: float = 1e-6) -> None:
    assert np.max(np.abs(found - right) / np.maximum(right, 0.01 * right.max()), initial=0.0) <= tolerance


def several(instance: fo.Instance) -> fo.Instance:
    """The instance, if it has servers that differ."""
    assume(instance.merged().n_servers > 1)
    return instance


# -- right answers ---------------------------------------------------------------------------------------------


@given(clusters())
@settings(max_examples=10)
def test_agrees_with_one_program_per_user(instance: fo.Instance) -> None:
    several(instance)
    for share in SHARES:
        if share.coefficients(instance).ndim == 1:
            answer, levels = answered(instance, share)
            assert answer.ok and answer.violation <= 1e-12
            assert_same(levels, brute(instance, share))


@given(clusters(max_users=4), st.sampled_from([0.25, 0.5, 1.0]))
@settings(max_examples=8)
def test_under_lower_bounds_it_agrees_or_finds_none_as_the_oracle(instance: fo.Instance, part: float) -> None:
    several(instance)
    share = fo.Tasks()
    low = part * instance.tasks_alone.sum(axis=1) / instance.n_users
    low = np.minimum(np.round(low, 2), instance.task_limits)
    polytope = Polytope.of(instance)
    for j, v in enumerate(low):
        polytope.at_most(-polytope.user(j), -v)
    answer, levels = answered(instance, share, fo.MinTasks(low))
    try:
        right = brute(instance, share, polytope)
    except NoPoint:
        assert not answer.ok
    else:
        assert answer.ok
        assert_same(levels, right)


@given(clusters(max_users=4))
@settings(max_examples=8)
def test_agrees_with_the_general_route_under_sharing_incentive(instance: fo.Instance) -> None:
    several(instance)
    policy = fo.Policy(fo.Leximin(fo.StandAloneShare()), [fo.SharingIncentive()])
    a, b = policy.allocate(instance), policy.allocate(instance, method="cone")
    assert a.certificate.method == "levels"
    assert_same(a.shares, b.shares)


@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_the_general_route_on_larger_clusters(seed: int) -> None:
    instance = log_uniform(np.random.default_rng(seed), 60, 3, servers=6, limits=0.4, decades=3)
    for policy in (fo.DRF(), fo.TSF()):
        a, b = policy.allocate(instance), policy.allocate(instance, method="cone")
        assert (a.certificate.method, b.certificate.method) == ("levels", "cone")
        assert_same(a.shares, b.shares)


def test_worked_example_of_drfh_and_tsf() -> None:
    instance = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]])
    for policy, level in ((fo.DRF(), 5 / 7), (fo.TSF(), 5 / 6)):
        a = policy.allocate(instance)
        assert a.certificate.method == "levels"
        np.testing.assert_allclose(a.tasks, 10, rtol=1e-12)
        np.testing.assert_allclose(a.shares, level, rtol=1e-12)


def test_demands_by_server_with_a_share_per_user() -> None:
    for seed in range(12):
        instance = cluster(np.random.default_rng(seed), 5, 3, 2, by_server=True)
        if instance.merged().n_servers > 1:
            for share in (fo.StandAloneShare(), fo.Tasks()):
                answer, levels = answered(instance, share)
                assert answer.ok
                assert_same(levels, brute(instance, share))


def test_a_share_that_differs_by_server_has_levels_of_numbers() -> None:
    instance = fo.Instance([[[1, 2], [2, 1]], [[1, 1], [1, 2]]], [[4, 6], [5, 3]])
    answer, by_cone = (fo.DRF().allocate(instance, method=method) for method in ("levels", "cone"))
    assert answer.certificate.method == "levels"
    np.testing.assert_allclose(answer.shares, by_cone.shares, rtol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_levels_of_rates_and_limits_are_those_in_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, servers = 9, 3
    limits = np.where(rng.random(n) < 0.5, 10 ** rng.uniform(-1, 0.5, n), np.inf)
    rates, demands = 10 ** rng.uniform(-1, 1, (n, servers)), 10 ** rng.uniform(-0.5, 0.5, (n, 3))
    capacities = 10 ** rng.uniform(-0.3, 0.3, (servers, 3)) * n / servers
    instance = fo.Instance(demands, capacities, rates=rates, task_limits=limits)
    policy = fo.Policy(fo.Leximin(fo.ThroughputShare()))
    answer = policy.allocate(instance)
    assert answer.certificate.method == "levels"
    np.testing.assert_allclose(answer.shares, policy.allocate(instance, exact=True).shares, rtol=1e-6)


def neighbours(n: int, seed: int) -> fo.Instance:
    """Users of 14 groups of unequal size, each of which may run on servers beside those of the next."""
    rng = np.random.default_rng(seed)
    servers = np.arange(27)
    demands, capacities = 10 ** rng.uniform(-1, 1, (n, 3)), n / 27 * 10 ** rng.uniform(-0.5, 0.5, (27, 3))
    group = np.minimum((14 * rng.random(n) ** 2).astype(int), 13)
    return fo.Instance(demands, capacities, eligible=abs(servers / 2 - group[:, None]) <= 1.01)


@pytest.mark.fast_methods
@pytest.mark.parametrize("seed", [1, 4])
def test_rows_that_later_levels_pay_for_are_full_to_rounding(seed: int) -> None:
    """The fifth level pays up to 1e10 times what is left of the first ones' capacities: gaps were 4e-5 and 2e-7."""
    certificate = fo.DRF().allocate(neighbours(300, seed), method="levels").certificate
    assert len(certificate.gaps) >= 5 and certificate.gap <= 1e-11


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_levels_that_pay_for_lower_ones_are_those_in_fractions(seed: int) -> None:
    instance = neighbours(60, seed)
    answer = fo.DRF().allocate(instance)
    np.testing.assert_allclose(answer.shares, fo.DRF().allocate(instance, exact=True).shares, rtol=1e-12)


@pytest.mark.fast_methods
def test_levels_far_from_the_last_ones_start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, starts, restart = neighbours(300, 2), [0], LevelProgram.restart

    def counted(self: LevelProgram, *given: Any) -> None:
        starts[0] += 1
        restart(self, *given)

    monkeypatch.setattr(LevelProgram, "restart", counted)
    monkeypatch.setattr(server_leximin, "choosing_at_first", lambda *_: 2)
    monkeypatch.setattr(level_program, "AT_ONCE", 2)
    slowly = fo.DRF().allocate(instance, method="levels")
    assert not starts[0]
    monkeypatch.setattr(server_leximin, "FEW_GROUPS", 50)
    answer = fo.DRF().allocate(instance, method="levels")
    assert starts[0] and max(answer.certificate.gap, slowly.certificate.gap) <= 1e-9
    np.testing.assert_allclose(answer.shares, slowly.shares, rtol=1e-9)


@pytest.mark.parametrize(
    ("policy", "instance"),
    [
        (fo.Policy(fo.MaxMin()), fo.Instance([[1, 2], [2, 1]], [[4, 6], [5, 3]])),
        (fo.Policy(fo.Leximin(), [fo.EnvyFree()]), fo.Instance([[1, 2], [2, 1]], [[4, 6], [5, 3]])),
        (fo.DRF(), fo.Instance([[1, 2], [2, 1]], [[4, 6], [4, 6]])),
    ],
    ids=["no leximin", "users linked", "one kind of server"],
)
def test_not_for_other_programs(policy: fo.Policy, instance: fo.Instance) -> None:
    assert not levels_apply(Program(instance, policy.objective, policy.constraints))


def test_who_needs_nothing_priced_keeps_growing() -> None:
    """Users 1 and 2 share the first resource; user 3, on the second alone, has all of it on both servers."""
    instance = fo.Instance([[1, 0], [1, 0], [0, 1]], [[6, 10], [4, 30]])
    answer, levels = answered(instance, fo.Tasks())
    np.testing.assert_allclose(levels, [5, 5, 40], rtol=1e-12)
    assert len(answer.gaps) == 2


@pytest.mark.parametrize("little", [1e-3, 1e-6, 1e-8])
def test_who_needs_little_of_what_is_full_stays_with_the_others(little: float) -> None:
    shares = fo.DRF().allocate(fo.Instance([[0, 1], [0, 1], [1, little]], [[10, 10], [7, 9]])).shares
    np.testing.assert_allclose(shares, shares[0], rtol=1e-6)


# -- what changes nothing --------------------------------------------------------------------------------------


@given(clusters(), st.randoms(use_true_random=False))
@settings(max_examples=8)
def test_the_order_of_users_and_servers_does_not_matter(instance: fo.Instance, random: object) -> None:
    several(instance)
    users, servers = list(range(instance.n_users)), list(range(instance.n_servers))
    random.shuffle(users)  # type: ignore[attr-defined]
    random.shuffle(servers)  # type: ignore[attr-defined]
    other = instance.select_users(users)
    other = other.replace(
        demands=other.demands[:, servers] if other.demands.ndim == 3 else other.demands,
        capacities=other.capacities[servers],
        eligible=other.eligible[:, servers],
        counts=other.counts[servers],
    )
    for share in (fo.StandAloneShare(), fo.Tasks()):
        assert_same(answered(other, share)[1], answered(instance, share)[1][users])


@given(clusters(max_users=4), st.integers(2, 3))
@settings(max_examples=8)
def test_identical_servers_merge_exactly(instance: fo.Instance, copies: int) -> None:
    several(instance)
    rows = np.repeat(np.arange(instance.n_servers), copies)
    repeated = instance.replace(
        demands=instance.demands[:, rows] if instance.demands.ndim == 3 else instance.demands,
        capacities=instance.capacities[rows],
        eligible=instance.eligible[:, rows],
        counts=instance.counts[rows],
    )
    counted = instance.replace(counts=instance.counts * copies)
    for share in (fo.StandAloneShare(), fo.Tasks()):
        right = answered(counted, share)[1]
        for merge in (True, False):
            answer, levels = answered(repeated, share, merge=merge)
            assert answer.ok
            assert_same(levels, right)


@given(clusters(max_users=4), st.integers(2, 4))
@settings(max_examples=8)
def test_a_user_split_into_equal_parts_gets_the_same_in_all(instance: fo.Instance, parts: int) -> None:
    several(instance)
    rows = np.repeat(np.arange(instance.n_users), parts)
    split = fo.Instance(
        instance.demands[rows],
        instance.capacities,
        counts=instance.counts,
        eligible=instance.eligible[rows],
        weights=instance.weights[rows] / parts,
        task_limits=instance.task_limits[rows] / parts,
    )
    for share in (fo.StandAloneShare(), fo.Tasks()):
        levels = answered(split, share)[1].reshape(-1, parts)
        assert_same(levels, np.repeat(answered(instance, share)[1][:, None], parts, axis=1))


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e12])
def test_units_do_not_matter(scale: float) -> None:
    instance = cluster(np.random.default_rng(3), 5, 3, 2)
    units = np.array([scale, 1.0])
    other = instance.replace(demands=instance.demands * units, capacities=instance.capacities * units)
    for share in (fo.DominantShare(), fo.StandAloneShare(), fo.Tasks()):
        assert_same(answered(other, share)[1], answered(instance, share)[1])


# -- few programs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [50, 400])
def test_limits_cost_no_program_each(n: int) -> None:
    rng = np.random.default_rng(n)
    demands, capacities = rng.uniform(1, 4, (n, 2)), rng.uniform(2, 3, (3, 2)) * n
    instance = fo.Instance(demands, capacities, task_limits=np.linspace(0.01, 5, n))
    answer, _ = answered(instance, fo.DominantShare())
    assert answer.ok and programs(answer) <= 8


def test_limits_that_hold_everybody_cost_one_program() -> None:
    instance = fo.Instance(np.ones((30, 2)), [[500, 500], [400, 600]], task_limits=np.linspace(1, 2, 30))
    answer, levels = answered(instance, fo.Tasks())
    np.testing.assert_allclose(levels, instance.task_limits, rtol=1e-12)
    assert answer.ok and programs(answer) == 1
    assert not answer.prices.any()


def test_users_alike_share_a_row_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """With any weights, limits and sizes of tasks; not if they may run on different servers."""
    groups: list[int] = []
    made = LevelProgram.__init__

    def counted(self: LevelProgram, loads: object, group: np.ndarray, *more: object) -> None:
        groups.append(len(np.unique(group)))
        made(self, loads, group, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(LevelProgram, "__init__", counted)
    n = 60
    rng = np.random.default_rng(0)
    demands = np.array([[1.0, 2.0], [3.0, 1.0]])[np.arange(n) % 2] * rng.integers(1, 4, size=(n, 1))
    instance = fo.Instance(
        demands, [[100, 80], [50, 90]], weights=rng.uniform(1, 2, n), task_limits=rng.uniform(0.2, 3, n)
    )
    for share in SHARES:
        a, b = answered(instance, share), fo.Policy(fo.Leximin(share)).allocate(instance, method="cone")
        assert a[0].ok
        assert_same(a[1], b.shares / instance.weights)
    assert groups == [2, 2, 2]
    answered(instance.replace(eligible=np.arange(n)[:, None] % 3 != [0, 3]), fo.Tasks())
    assert groups[-1] == 4


@pytest.mark.parametrize("seed", range(8))
def test_groups_without_a_row_change_nothing(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Two groups choose at first, and two more at once when prices ask for it."""
    monkeypatch.setattr(proofs_of_levels, "DECIDED", 0)  # so that floats decide
    instance = log_uniform(np.random.default_rng(seed), 30, 3, servers=4, limits=0.4 * (seed % 3), decades=2)
    least = np.where(np.arange(30) % 5 == 0, 0.2 * instance.tasks_alone.sum(axis=1) / 30, 0.0) * (seed % 2)
    low = fo.MinTasks(np.minimum(least, instance.task_limits))
    right = answered(instance, fo.DominantShare(), low)[1]
    rows: list[int] = []
    passed = LevelProgram._pass

    def counted(self: LevelProgram) -> None:
        passed(self)
        rows.append(len(self.chosen))

    monkeypatch.setattr(server_leximin, "choosing_at_first", lambda *_: 2)
    monkeypatch.setattr(level_program, "AT_ONCE", 2)
    monkeypatch.setattr(LevelProgram, "_pass", counted)
    answer, levels = answered(instance, fo.DominantShare(), low)
    assert answer.ok and "exact" not in answer.tried[-1].status
    assert rows[0] <= 2 + 6 * (seed % 2)  # and those with lower bounds
    np.testing.assert_allclose(levels, right, rtol=1e-9)


# -- prices ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_prices_are_the_derivative_of_the_first_level(seed: int) -> None:
    """With tasks as shares, since other shares change with the total capacity."""
    instance = log_uniform(np.random.default_rng(seed), 12, 3, servers=3, decades=1)
    policy, step = fo.Policy(fo.Leximin(fo.Tasks())), 1e-5
    a = policy.allocate(instance)
    level = (a.tasks / instance.weights).min()
    assert a.certificate.method == "levels"
    for s in range(3):
        for i in range(3):
            capacities = np.array(instance.capacities)
            capacities[s, i] *= 1 + step
            b = policy.allocate(instance.replace(capacities=capacities))
            rise = ((b.tasks / instance.weights).min() - level) / step
            assert a.prices[s, i] * instance.capacities[s, i] == pytest.approx(rise, rel=1e-3, abs=1e-6 * level)
    assert float((a.prices * instance.capacities).sum()) == pytest.approx(level, rel=1e-9)  # all of it is paid for


# -- hard numbers ----------------------------------------------------------------------------------------------


def test_limits_of_zero_and_no_users() -> None:
    servers = [[4, 6], [5, 3]]
    assert fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], servers, task_limits=0)).tasks.tolist() == [0, 0]
    alone = fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], servers, task_limits=[0, None]))
    np.testing.assert_allclose(alone.tasks, [0, 4.5], rtol=1e-12)
    closed, levels = answered(fo.Instance([[1, 2], [2, 1]], servers), fo.Tasks(), fo.MaxTasks({"user1": 0}))
    np.testing.assert_allclose(levels, [0, 4.5], rtol=1e-12)
    assert closed.ok
    idle, levels = answered(fo.Instance([[1, 2], [2, 1]], servers), fo.Tasks(), fo.Reserve(0, 1.0))
    assert idle.ok and levels.tolist() == [0, 0]
    assert fo.DRF().allocate(fo.Instance([], servers)).tasks.tolist() == []


@pytest.mark.parametrize("instance", [fo.Instance([[1, 2]], [[4, 6], [5, 3]]), fo.Instance([[1], [2]], [[4], [5]])])
def test_one_user_and_one_resource(instance: fo.Instance) -> None:
    for share in SHARES:
        answer, levels = answered(instance, share)
        assert answer.ok
        assert_same(levels, brute(instance, share))


def test_a_resource_wholly_in_reserve_leaves_the_others_theirs() -> None:
    instance = fo.Instance([[1, 0], [1, 1]], [[10, 10], [5, 20]])
    answer, levels = answered(instance, fo.Tasks(), fo.Reserve(1, 1.0))
    np.testing.assert_allclose(levels, [15, 0], rtol=1e-12)
    assert answer.ok


@pytest.mark.parametrize("nudge", [-1e-9, -1e-12, 0.0, 1e-12, 5e-10, 1e-8])
def test_limits_beside_the_level_of_a_bottleneck(nudge: float) -> None:
    instance = fo.Instance(
        [[1], [1], [1]], [[2], [4]], eligible=[[1, 0], [1, 1], [0, 1]], task_limits=np.full(3, 2.0 * (1 + nudge))
    )
    answer, levels = answered(instance, fo.Tasks())
    assert answer.ok
    np.testing.assert_allclose(levels, [2, 2, 2], rtol=1e-7)


def test_levels_over_twelve_decades() -> None:
    """Each user has its own server, each of another size."""
    sizes = 10.0 ** np.arange(-6, 7)
    instance = fo.Instance(np.ones((13, 1)), sizes[:, None], eligible=np.eye(13, dtype=bool))
    answer, levels = answered(instance, fo.Tasks())
    assert answer.ok and len(answer.gaps) == 13
    np.testing.assert_allclose(levels, sizes, rtol=1e-9)


@pytest.mark.parametrize(("seed", "decades"), [(0, 2), (1, 4), (0, 8), (1, 12), (0, 20)])
def test_right_or_refused_over_many_decades(seed: int, decades: int) -> None:
    """Where the general method finds no certified answer, there is nothing to compare with."""
    instance = log_uniform(np.random.default_rng(seed), 10, 3, servers=4, limits=0.3, decades=decades)
    for share in (fo.DominantShare(), fo.StandAloneShare()):
        answer, levels = answered(instance, share)
        assert answer.ok or decades > 2
        try:
            b = fo.Policy(fo.Leximin(share)).allocate(instance, solver="HIGHS")
        except fo.errors.NotCertified:
            assert decades > 2
            continue
        if answer.ok:
            assert_same(levels, b.shares / instance.weights, 1e-5)


def test_no_bound_that_cannot_be_met_is_certified() -> None:
    instance = fo.Instance([[1, 2], [2, 1]], [[4, 6], [5, 3]])
    answer, _ = answered(instance, fo.Tasks(), fo.MinTasks(100))
    assert not answer.ok
    with pytest.raises(fo.errors.Infeasible):
        fo.Policy(fo.Leximin(), [fo.MinTasks(100)]).allocate(instance)


def test_without_time_there_is_no_answer() -> None:
    program = Program(log_uniform(np.random.default_rng(0), 30, 3, servers=3), fo.Leximin(), ())
    answer = best(program, solve_leximin_on_servers(program, Settings(clock=Clock(1e-9))))
    assert not answer.ok and answer.tried[-1].status == "time limit reached"


def test_many_prices_go_without_the_interior_point(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = log_uniform(np.random.default_rng(1), 20, 3, servers=4, limits=0.3, decades=2)
    right = answered(instance, fo.DominantShare())[1]
    monkeypatch.setattr(server_leximin, "LARGEST_SYSTEM", 0)
    monkeypatch.setattr(server_leximin, "Interior", None)
    assert_same(answered(instance, fo.DominantShare())[1], right)


# -- exact programs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [9, 35, 384])
def test_what_floating_point_leaves_uncertified_is_solved_exactly(seed: int) -> None:
    """Without exact programs refused under every kernel of OpenBLAS."""
    answer, _ = answered(log_uniform(np.random.default_rng(seed), 16, 3, servers=4), fo.DominantShare())
    assert answer.ok


def exactly(instance: fo.Instance, share: fo.Share, *constraints: fo.Constraint) -> np.ndarray:
    """Levels by exact programs alone, which the gate certifies."""
    program = Program(instance, fo.Leximin(share), constraints)
    answer = gate.judge(
        program, levels_in_fractions.levels_in_fractions(program, Settings(), np.zeros(len(program.usable_rows)))
    )
    assert answer.ok and answer.gap < 1e-14
    return share.coefficients(instance) * program.expand(answer.tasks).sum(axis=1) / instance.weights


def test_exact_programs_give_the_exact_levels_where_servers_are_equally_dear() -> None:
    """A rounded load breaks such a tie, and takes 1.4% of the second level."""
    instance = log_uniform(np.random.default_rng(2), 8, 2, servers=3, decades=1)
    exact = Cluster(instance.demands, instance.capacities, instance.weights, eligible=instance.eligible)
    right = [float(v) for v in fractions_leximin(exact.forms(exact.tasks()), exact.rows)]
    np.testing.assert_allclose(exactly(instance, fo.Tasks()), right, rtol=1e-13)


def test_servers_that_are_almost_equally_dear_are_told_apart() -> None:
    """A part in 1e9 decides where users run, and with it a later level."""
    rng = np.random.default_rng(7)
    instance = log_uniform(rng, 6, 2, servers=3, decades=2)
    by_server = np.repeat(instance.demands[:, None, :], 3, axis=1) * (1 + 1e-9 * rng.random((6, 3, 1)))
    instance = instance.replace(demands=by_server)
    exact = Cluster(instance.demands, instance.capacities, instance.weights, eligible=instance.eligible)
    right = [float(v) for v in fractions_leximin(exact.forms(exact.tasks()), exact.rows)]
    np.testing.assert_allclose(exactly(instance, fo.Tasks()), right, rtol=1e-13)


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_exact_programs_agree_under_limits_and_lower_bounds(seed: int) -> None:
    instance = cluster(np.random.default_rng(seed), 5, 3, 3, by_server=seed == 5)
    for share in (fo.StandAloneShare(), fo.Tasks()):
        for constraints in ((), (fo.MinTasks(np.minimum(instance.tasks_alone.sum(axis=1) / 5, instance.task_limits)),)):
            assert_same(exactly(instance, share, *constraints), answered(instance, share, *constraints)[1])


def chain_levels(seed: int) -> tuple[fo.Instance, list[float]]:
    """A chain of users and its levels in fractions."""
    given = chain(seed)
    exact = Cluster(**given)
    return fo.Instance(**given), [float(v) for v in fractions_leximin(exact.forms(exact.tasks()), exact.rows)]


def as_fractions(given: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a chain as they are in binary: `exact=True` reads floats as the decimals that they print as."""
    exact = np.vectorize(lambda x: Fraction(float(x)), otypes=[object])
    return {key: exact(value).tolist() for key, value in given.items() if key != "eligible"}


def test_levels_that_rest_on_the_last_parts_of_a_resource_are_right_or_refused() -> None:
    """Without counting rounding, 5 of the first 60 seeds were certified and wrong by up to 2.7e-5, and 4 refused."""
    by_fractions = 0
    for seed in (*range(30), 194):
        instance, right = chain_levels(seed)
        answer = fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance)
        np.testing.assert_allclose(answer.tasks / instance.weights, right, rtol=1e-6)
        by_fractions += "exact" in answer.certificate.tried[-1].status
    assert by_fractions >= 10


def test_exact_programs_assume_bounds_that_are_rounded_and_files_are_not_proved_by_them(tmp_path: Path) -> None:
    instance, _ = chain_levels(5)
    policy = fo.Policy(fo.Leximin(fo.Tasks()), constraints=[fo.Reserve(0, 0.1)])
    answer = policy.allocate(instance)
    assert "exact" in answer.certificate.tried[-1].status
    assert answer.certificate.assumed == "the numbers of Reserve(0, 0.1) are right as rounded"
    assert "the numbers of Reserve(0, 0.1) are rounded" in str(fo.verify(answer.save(tmp_path / "a.json")))
    by_binary = fo.Policy(fo.Leximin(fo.Tasks()), constraints=[fo.Reserve(0, 0.125)]).allocate(instance)
    assert by_binary.certificate.assumed == "" and fo.verify(by_binary.save(tmp_path / "b.json")).ok


def test_beyond_their_size_exact_programs_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels_in_fractions, "LARGEST", 5)
    instance = next(i for i, _ in map(chain_levels, range(60)) if not answered(i, fo.Tasks())[0].ok)
    with pytest.raises(fo.errors.NotCertified):
        fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance, method="levels")


@pytest.mark.parametrize("seed", [102, 116, 203])
def test_rounding_counts_under_linear_constraints(seed: int) -> None:
    """The third level of 116 was certified with gap 0 and no assumption as 8.20 for 13.26."""
    instance, right = chain_levels(seed)
    policy = fo.Policy(fo.Leximin(fo.Tasks()), constraints=[fo.Total(fo.Tasks()) >= 0.01])
    np.testing.assert_allclose(policy.allocate(instance).tasks / instance.weights, right, rtol=1e-6)
    exact = policy.allocate(instance.replace(**as_fractions(chain(seed))), exact=True)
    np.testing.assert_allclose(exact.tasks / instance.weights, right, rtol=1e-12)


def moved(answer: fo.Allocation) -> float:
    """By how much tolerances may move levels according to the certificate."""
    found = re.search("may move them by (.*) of their size", answer.certificate.assumed)
    return float(found[1]) if found else 0.0


@pytest.mark.fast_methods
@pytest.mark.parametrize("method", ["auto", "cone"])
def test_beyond_their_size_the_certificate_says_how_far_rounding_may_move_levels(method: str) -> None:
    """Rows broken by 5e-14 raised the second level by 5e-7, within tolerances, and the third was 38% off, unsaid."""
    given, more = chain(116), 1010  # and one user on servers of its own, too many for exact programs of three levels
    n, m, servers = *given["demands"].shape, len(given["capacities"])
    demands, eligible = np.zeros((n + 1, m + 1)), np.zeros((n + 1, servers + more), dtype=bool)
    demands[:n, :m], demands[n, m], eligible[:n, :servers], eligible[n, servers:] = (
        given["demands"],
        1,
        given["eligible"],
        True,
    )
    capacities = np.zeros((servers + more, m + 1))
    capacities[:servers, :m] = given["capacities"]
    capacities[servers:, m] = np.random.default_rng(116).uniform(1, 50, more)
    instance = fo.Instance(demands, capacities, weights=[*given["weights"], 1], eligible=eligible)
    answer = fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance, method=method)
    apart = np.abs((answer.tasks / instance.weights)[:n] / chain_levels(116)[1] - 1).max()
    assert apart <= moved(answer) and 1e-6 < moved(answer) < 1


def test_exact_programs_stop_when_the_time_is_up() -> None:
    program = Program(log_uniform(np.random.default_rng(9), 16, 3, servers=4), fo.Leximin(), ())
    clock = Clock(1e-9)
    clock.hard = clock.begun
    with clock.enforced(), pytest.raises(Late):
        levels_in_fractions.levels_in_fractions(program, Settings(clock=clock), np.zeros(len(program.usable_rows)))


# -- programs that mislead -------------------------------------------------------------------------------------

Change = Callable[[LevelOptimum], LevelOptimum | None]


@contextmanager
def misled(change: Change) -> Iterator[None]:
    """The program's answer is changed before the method reads it."""
    honest = LevelProgram.solve

    def said(self: LevelProgram, *given: Any) -> LevelOptimum | None:
        found = honest(self, *given)
        return None if found is None else change(found)

    LevelProgram.solve = said  # type: ignore[method-assign]
    try:
        yield
    finally:
        LevelProgram.solve = honest  # type: ignore[method-assign]


APART = fo.Instance([[1], [1], [1]], [[1], [10]], eligible=[[1, 0], [0, 1], [0, 1]])  # DRFH: 1, 5, 5


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f._replace(level=0.9 * f.level),
        lambda f: f._replace(level=1.1 * f.level),
        lambda f: f._replace(prices=np.ones_like(f.prices)),
        lambda f: f._replace(prices=0.0 * f.prices),
        lambda f: f._replace(prices=f.prices[::-1].copy()),
        lambda f: f._replace(prices=np.full_like(f.prices, np.nan)),
        lambda f: f._replace(level=np.nan),
        lambda f: f._replace(level=np.inf),
        lambda f: f._replace(amounts=0.0 * f.amounts),
        lambda f: f._replace(amounts=np.full_like(f.amounts, np.nan)),
        lambda f: None,
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_not_so_is_not_certified(seed: int, change: Change) -> None:
    """The answer is right or refused; on APART each of these lies changes it."""
    instance = APART if seed == 0 else log_uniform(np.random.default_rng(seed), 8, 2, servers=3, decades=1)
    right = answered(instance, fo.Tasks())[1]
    with misled(change):
        answer, levels = answered(instance, fo.Tasks())
    if answer.ok:
        assert_same(levels, right)


@cache
def right_levels(seed: int) -> np.ndarray:
    """The exact levels of the cluster drawn from a seed."""
    return brute(cluster(np.random.default_rng(seed), 5, 3, 2), fo.Tasks())


@pytest.mark.parametrize("noise", [1e-12, 1e-9, 1e-7, 1e-5, 1e-2])
@pytest.mark.parametrize("seed", range(6))
def test_noise_gives_no_wrong_answer(seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    instance = cluster(rng, 5, 3, 2)
    if instance.merged().n_servers == 1:
        pytest.skip("one kind of server")

    def shaken(found: LevelOptimum) -> LevelOptimum:
        return LevelOptimum(
            found.level * (1 + noise * rng.normal()),
            found.amounts * (1 + noise * rng.normal(size=found.amounts.shape)),
            found.prices + noise * rng.random(found.prices.shape) * found.prices.max(),
        )

    with misled(shaken):
        answer, levels = answered(instance, fo.Tasks())
    if answer.ok:
        assert_same(levels, right_levels(seed), 1e-5)


def test_a_perturbed_allocation_is_refused() -> None:
    """The proof fails with one per mille less for any one user."""
    program = Program(log_uniform(np.random.default_rng(2), 10, 3, servers=3, limits=0.3), fo.Leximin(), ())
    filling = server_leximin._LevelsOnServers(program)
    with np.errstate(all="ignore"):
        assert filling.fill(Settings()) and judged(filling).ok
    honest = filling.tasks()
    for j in range(program.instance.n_users):
        filling.tasks = lambda j=j: honest * np.where(program.pairs.user == j, 0.999, 1.0)  # type: ignore[method-assign]
        with np.errstate(all="ignore"):
            answer = judged(filling)
        assert not answer.ok and answer.gap >= 1e-5 and answer.violation <= 1e-12


def test_level_and_amounts_that_lie_together_are_found_out() -> None:
    """Repair scales each server by a factor of its own, so all stays full while one user has more than the other."""
    instance = fo.Instance([[1, 1], [1, 0.5]], [[4, 40], [5, 50]])  # 4.5 each
    for held in ([10.0, 0.0, 0.0, 10.0], [9.0, 1.0, 0.0, 10.0]):
        with misled(lambda f, held=held: f._replace(level=2 * f.level, amounts=np.array(held))):  # type: ignore[misc]
            answer, levels = answered(instance, fo.Tasks())
            assert not answer.ok or np.allclose(levels, levels[0])
            tasks = fo.Policy(fo.Leximin(fo.Tasks())).allocate(instance).tasks
            np.testing.assert_allclose(tasks, [4.5, 4.5], rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_tasks_moved_from_one_user_to_another_are_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = Program(log_uniform(rng, 8, 2, servers=3, limits=0.3, decades=1), fo.Leximin(), ())
    filling = server_leximin._LevelsOnServers(program)
    with np.errstate(all="ignore"):
        assert filling.fill(Settings()) and judged(filling).ok
        honest = filling.tasks()
        right = program.pairs.sum(judged(filling).tasks) / filling.per_level
        for _ in range(20):
            moved = honest * np.where(rng.random(len(honest)) < 0.3, rng.uniform(0.8, 1.2, len(honest)), 1.0)
            filling.tasks = lambda moved=moved: moved  # type: ignore[method-assign]
            answer = judged(filling)
            if answer.ok:
                np.testing.assert_allclose(program.pairs.sum(answer.tasks) / filling.per_level, right, rtol=1e-5)


def test_who_needs_little_of_what_is_full_cannot_be_left_with_nothing() -> None:
    program = Program(fo.Instance([[0, 1], [0, 1], [1, 1e-7]], [[10, 10], [7, 9]]), fo.Leximin(fo.Tasks()), ())
    filling = server_leximin._LevelsOnServers(program)
    with np.errstate(all="ignore"):
        assert filling.fill(Settings()) and judged(filling).ok
        honest = filling.tasks()
        for part in (0.999, 0.5, 0.001):
            filling.tasks = lambda part=part: honest * np.where(program.pairs.user == 2, part, 1.0)  # type: ignore[method-assign]
            assert not judged(filling).ok


def test_constraints_that_no_levels_satisfy_in_fractions_are_named() -> None:
    conflict = fo.Policy(fo.Leximin(fo.Tasks()), [fo.SharingIncentive(), fo.MaxShare(0.00294, fo.PNormShare(1))])
    with pytest.raises(fo.errors.Infeasible, match="cannot hold together"):
        conflict.allocate(fo.Instance([[1, 6], [1, 0]], [[17, 17], [23, 20]]))
