"""Checks of one allocation, against the definitions in fractions and linear programs written for one user at a time."""

from __future__ import annotations

import dataclasses
import types
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.instances import cluster, clusters, log_uniform, pools
from scipy.optimize import linprog

import fairopt as fo
from fairopt.policies.bottleneck import BottleneckVerdict
from fairopt.properties import pareto
from fairopt.properties.checks import OwnSlices, check
from fairopt.properties.envy import Envy
from fairopt.properties.pareto import Dominating
from fairopt.properties.verdicts import PropertyReport

TWO = fo.Instance(
    [[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"], resources=["bandwidth", "memory", "cpu"]
)
CLUSTER_004 = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]])
FAST = settings(max_examples=10)


def of(instance: fo.Instance, tasks: Any, bundles: Any = None) -> fo.Allocation:
    """An allocation by hand."""
    rows = np.asarray(tasks, dtype=float).reshape(instance.n_users, -1)
    return fo.Allocation(instance, None, rows, fo.Certificate(0.0, 0.0, "by hand"), 0.0, None, bundles)


@st.composite
def allocations(draw: st.DrawFn) -> fo.Allocation:
    """Any feasible allocation of any cluster: a vertex-ish random filling, scaled down by chance."""
    instance = draw(clusters())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return filled(instance, rng)


def filled(instance: fo.Instance, rng: np.random.Generator) -> fo.Allocation:
    """Pairs in random order take a random part of what fits."""
    room = instance.capacities * instance.counts[:, None]
    tasks = np.zeros((instance.n_users, instance.n_servers))
    d = instance.per_server_demands
    pairs = np.argwhere(instance.eligible)
    for j, s in rng.permutation(pairs):
        need = d[j, s] > 0
        fits = max(float((room[s, need] / d[j, s, need]).min()), 0.0)
        fits = min(fits, float(instance.task_limits[j]) - float(tasks[j].sum()))
        tasks[j, s] = fits * rng.choice([0.0, 0.25, 0.5, 1.0])
        room[s] = room[s] - tasks[j, s] * d[j, s]
    return of(instance, np.maximum(tasks, 0.0))


# -- the definitions, exactly ---------------------------------------------------------------------------------


def exact(values: Any) -> Any:
    """Floats as the fractions that they are."""
    return [exact(v) for v in values] if np.ndim(values) else (None if np.isinf(values) else Fraction(float(values)))


def exact_slices(instance: fo.Instance) -> list[Fraction]:
    d, room, w = exact(instance.per_server_demands), exact(instance.capacities), exact(instance.weights)
    out = []
    for j, limit in enumerate(exact(instance.task_limits)):
        runs = sum(
            (
                int(q) * w[j] / sum(w) * min(c / x for c, x in zip(room[s], d[j][s], strict=True) if x)
                for s, q in enumerate(instance.counts)
                if instance.eligible[j, s]
            ),
            start=Fraction(0),
        )
        out.append(runs if limit is None else min(runs, limit))
    return out


def exact_on_bundle(a: fo.Allocation, j: int, k: int) -> Fraction:
    """Tasks that j would run on what k holds, at its own weight, within its limit."""
    instance = a.instance
    d, b, w = exact(instance.per_server_demands[j]), exact(a.bundles[k]), exact(instance.weights)
    runs = sum(
        (
            min(have / need for have, need in zip(b[s], d[s], strict=True) if need)
            for s in range(instance.n_servers)
            if instance.eligible[j, s]
        ),
        start=Fraction(0),
    )
    limit = exact(instance.task_limits[j])
    return w[j] / w[k] * runs if limit is None else min(limit, w[j] / w[k] * runs)


def exact_tasks(a: fo.Allocation) -> list[Fraction]:
    return [sum(row, start=Fraction(0)) for row in exact(a.tasks_by_server)]


@FAST
@given(allocations())
def test_sharing_incentive_agrees_with_the_definition_in_fractions(a: fo.Allocation) -> None:
    slices, tasks = exact_slices(a.instance), exact_tasks(a)
    margins = [(s - x) / max(s, x) for s, x in zip(slices, tasks, strict=True) if max(s, x) > 0]
    verdict = check(a, "si")["si"]
    assert verdict.margin == pytest.approx(float(max(margins, default=-1)), abs=1e-9)
    assert verdict.holds == (max(margins, default=-1) <= Fraction(1, 10**6))
    short = {a.instance.users[j] for j, (s, x) in enumerate(zip(slices, tasks, strict=True)) if s > x * (1 + 1e-9)}
    assert set(verdict.details.missing) == short


@FAST
@given(allocations())
def test_the_envy_matrix_agrees_with_the_definition_in_fractions(a: fo.Allocation) -> None:
    slices, tasks, n = exact_slices(a.instance), exact_tasks(a), a.instance.n_users
    verdict = check(a, "ef")["ef"]
    expected = np.zeros((n, n))
    for j in range(n):
        for k in range(n):
            unit = max(slices[j], tasks[j])
            if j != k and unit > 0:
                expected[j, k] = (exact_on_bundle(a, j, k) - tasks[j]) / unit
    assert verdict.details.matrix == pytest.approx(expected, abs=1e-9)
    off = expected[~np.eye(n, dtype=bool)]
    assert verdict.margin == pytest.approx(off.max(initial=-1.0), abs=1e-9)
    assert verdict.holds == bool(off.max(initial=-1.0) <= 1e-6)
    if not verdict.holds:
        j, k = a.instance.user_index(verdict.details.envier), a.instance.user_index(verdict.details.envied)
        assert expected[j, k] == pytest.approx(off.max())
        assert verdict.details.would_run == pytest.approx(float(exact_on_bundle(a, j, k)))
        assert verdict.details.pairs()[0][:2] == (verdict.details.envier, verdict.details.envied)


@FAST
@given(pools(), st.integers(0, 2**32 - 1))
def test_on_a_pool_the_margin_is_the_largest_part_of_its_tasks_that_one_user_finds_left_over(
    instance: Any, seed: int
) -> None:
    a = filled(instance, np.random.default_rng(seed))
    d, x, room = exact(instance.demands), exact_tasks(a), exact(instance.capacities[0])
    left = [c - sum(x[j] * d[j][i] for j in range(len(x))) for i, c in enumerate(room)]
    gains = []
    for row, runs, limit, slice_ in zip(d, x, exact(instance.task_limits), exact_slices(instance), strict=True):
        more = min(have / need for have, need in zip(left, row, strict=True) if need)
        more = more if limit is None else min(more, limit - runs)
        gains.append(more / (runs or slice_) if runs or slice_ else Fraction(0))
    verdict = check(a, "pe")["pe"]
    largest = float(max(gains, default=Fraction(0)))
    assert verdict.margin == pytest.approx(largest, rel=1e-9, abs=1e-12) and verdict.holds == (largest <= 1e-6)
    assert verdict.details.bound == verdict.margin
    others = sum(gain > Fraction(1, 10**6) for gain in gains) - 1
    assert verdict.holds or verdict.details.others == others


def largest_gains(a: fo.Allocation) -> np.ndarray:
    """The most that each user alone could gain with no other losing, by a dense program over the servers as given."""
    instance, d = a.instance, a.instance.per_server_demands
    n, servers, m = d.shape
    before, out = a.tasks_by_server.sum(axis=1), np.zeros(n)
    room = np.maximum(instance.capacities * instance.counts[:, None], a.task_usage)
    use = np.zeros((servers, m, n, servers))
    mine = np.zeros((n, n, servers))
    for s in range(servers):
        use[s, :, :, s] = d[:, s].T
    for j in range(n):
        mine[j, j] = 1
    use, mine = use.reshape(servers * m, -1), mine.reshape(n, -1)
    limited = np.isfinite(instance.task_limits)
    upper = np.where(instance.eligible, np.inf, 0.0).ravel()
    for j in range(n):
        found = linprog(
            -mine[j],
            A_ub=np.vstack([use, -mine, mine[limited]]),
            b_ub=np.concatenate([room.ravel(), -before, np.maximum(instance.task_limits, before)[limited]]),
            bounds=np.column_stack([np.zeros(len(upper)), upper]),
            method="highs",
        )
        assert found.status == 0
        out[j] = -found.fun - before[j]
    return out


def relative_gains(a: fo.Allocation) -> np.ndarray:
    """The same over what each user runs, or over what its own slice would run where it runs nothing."""
    unit = np.where(a.tasks > 1e-9 * a.instance.own_slices, a.tasks, a.instance.own_slices)
    return np.divide(largest_gains(a), unit, out=np.zeros(len(unit)), where=unit > 0)


@settings(max_examples=10)
@given(allocations())
def test_the_margin_is_the_largest_gain_of_any_one_user_relative_to_what_it_runs(a: fo.Allocation) -> None:
    verdict, largest = check(a, "pe")["pe"], relative_gains(a).max(initial=0.0)
    assert verdict.margin == pytest.approx(largest, rel=1e-6, abs=2e-6)
    assert verdict.holds == (largest <= 2e-6)
    assert verdict.details.margin <= verdict.details.bound <= verdict.details.margin + 1e-6 * max(1, verdict.margin)


@FAST
@given(allocations())
def test_the_dominating_allocation_is_feasible_and_takes_nothing_from_anybody(a: fo.Allocation) -> None:
    verdict = check(a, "pe")["pe"]
    instance, witness = a.instance, verdict.details
    more = of(instance, witness.tasks_by_server)
    usage = instance.capacities * instance.counts[:, None]
    assert (more.task_usage <= usage * (1 + 1e-9)).all() and (more.tasks_by_server >= 0).all()
    assert (more.tasks <= instance.task_limits * (1 + 1e-9)).all() and not more.tasks_by_server[
        ~instance.eligible
    ].any()
    gains = more.tasks - a.tasks
    assert (gains >= -1e-9 * np.maximum(a.tasks, instance.own_slices)).all()
    if verdict.holds:
        assert gains.max(initial=0.0) <= 1e-6 * np.maximum(a.tasks, instance.own_slices).max(initial=0.0)
        return
    ((user, gain),) = witness.gains.items()
    j = instance.user_index(user)
    assert gains[j] == pytest.approx(gain) and f"user {user!r} could run" in str(verdict)
    assert np.delete(gains, j) == pytest.approx(0, abs=1e-9)
    assert relative_gains(more)[j] <= 1e-5  # nothing is left to be gained by this user


# -- what certified answers leave over ------------------------------------------------------------------------

GROWING = [
    fo.DRF(),
    fo.TSF(),
    fo.MostTasks(),
    fo.NashWelfare(),
    fo.FDS(alpha=0.5),
    fo.FDS(alpha=1),
    fo.FDS(alpha=2),
    fo.GFJ(alpha=2),
    fo.PNormFairness(1, alpha=0.5),
    fo.Policy(fo.Total()),
]


@pytest.mark.parametrize("servers", [1, 3])
def test_certified_answers_of_notions_that_grow_with_every_share_are_efficient(servers: int) -> None:
    rng, seen = np.random.default_rng(servers), 0
    for trial in range(16 if servers == 1 else 4):
        small = trial % 2
        instance = cluster(rng, 5, servers, 3) if small else log_uniform(rng, 20, 3, servers, limits=0.4)
        for policy in GROWING:
            a = policy.allocate(instance)
            verdict = check(a, "pe")["pe"]
            assert verdict.holds and verdict.margin < 2e-7, (policy, instance.to_dict(), verdict.margin)
            seen += 1
    assert seen == (160 if servers == 1 else 40)


@pytest.mark.parametrize("servers", [1, 3])
def test_what_solvers_leave_over_accuses_no_notion(servers: int) -> None:
    rng, seen = np.random.default_rng(servers), 0
    for trial in range(2):
        instance = log_uniform(rng, 12, 3, servers, limits=0.3, decades=2, zeros=0)
        for policy in (fo.DRF(), fo.KDF(2), fo.MostTasks(), fo.FDS(0.5), fo.FDS(1), fo.FDS(2), fo.FDS(5)):
            try:
                a = policy.allocate(instance, solver=("CLARABEL", "SCS")[trial % 2])
            except fo.errors.NotCertified:
                continue
            verdict = check(a, "pe")["pe"]
            assert verdict.holds, (policy, instance.to_dict(), str(verdict))
            seen += 1
    assert seen >= 10


def halved(a: fo.Allocation, user: int) -> fo.Allocation:
    """The same answer and certificate, but one user runs half as much."""
    tasks = a.tasks_by_server.copy()
    tasks[user] /= 2
    return dataclasses.replace(a, tasks_by_server=tasks)


@pytest.mark.parametrize(("n", "servers"), [(10, 1), (1000, 1), (10, 3), (50, 3)])
def test_one_user_among_many_who_could_run_twice_as_much_is_found(n: int, servers: int) -> None:
    instance = log_uniform(np.random.default_rng(n), n, 3, servers)
    for policy in (fo.DRF(), fo.MostTasks(), fo.FDS(0.5), fo.FDS(1), fo.FDS(5)):
        a = policy.allocate(instance)
        assert check(a, "pe")["pe"].holds
        running = np.flatnonzero(a.tasks > 1e-3 * instance.own_slices)
        for user in np.random.default_rng(0).choice(running, 2):
            verdict = check(halved(a, user), "pe")["pe"]
            assert not verdict.holds and verdict.margin > 0.999  # it can run all it had, or another user gains more


@pytest.mark.fast_methods
def test_one_user_among_a_million_who_could_run_twice_as_much_is_found() -> None:
    instance = fo.Instance(np.random.default_rng(0).uniform(1, 2, size=(10**6, 2)), [1e6, 1e6])
    a = fo.DRF().allocate(instance)
    assert check(a, "pe")["pe"].holds
    verdict = check(halved(a, 123_456), "pe")["pe"]
    assert verdict.margin > 0.999 and f"instead of {a.tasks[123_456] / 2:.4g}" in str(verdict)


@pytest.mark.parametrize("solver", [None, "CLARABEL"])
@pytest.mark.parametrize("servers", [1, 2])
def test_a_user_of_a_millionth_of_the_weight_who_could_run_twice_as_much_is_found(servers: int, solver: Any) -> None:
    instance = log_uniform(np.random.default_rng(2), 8, 3, servers, decades=2).with_weights([1e-6] + [1.0] * 7)
    for policy in (fo.FDS(0.5), fo.FDS(1)):
        verdict = check(halved(policy.allocate(instance, solver=solver), 0), "pe")["pe"]
        assert not verdict.holds and verdict.margin == pytest.approx(1, abs=0.02)
        assert list(verdict.details.gains) == ["user1"]


def test_no_gain_counts_that_the_certificate_leaves_open_but_every_other_one() -> None:
    instance = fo.Instance([[1], [1]], [10], weights=[1, 4])

    def left(part: float, gap: float) -> bool:
        a = of(instance, [2 * (1 - part), 8 * (1 - part)])
        return check(dataclasses.replace(a, certificate=fo.Certificate(gap, 0.0, "by hand")), "pe")["pe"].holds

    assert left(1e-7, 0.0) and not left(4e-7, 0.0)  # user1 finds 5 times as much left over, relative to what it runs
    assert left(1e-6, 1e-6) and not left(1e-5, 1e-6)
    assert not left(1e-5, 1.0)  # no answer is certified by such a gap


def test_more_than_a_hundredth_of_what_a_user_runs_is_a_gain_whatever_the_certificate_leaves_open() -> None:
    for servers in ([10], [[10], [5]]):
        instance = fo.Instance([[1], [1]], servers, weights=[1e-8, 1])
        a = fo.DRF().allocate(instance)
        loose = dataclasses.replace(a, certificate=dataclasses.replace(a.certificate, gap=1e-6))
        for part, holds in ((0.999, True), (0.9, False)):
            less = a.tasks_by_server * np.array([[part], [1]])
            assert check(dataclasses.replace(loose, tasks_by_server=less), "pe")["pe"].holds == holds


@pytest.mark.parametrize("wasted", [1e-5, 1e-2, 0.5])
@pytest.mark.parametrize("servers", [1, 3])
def test_waste_is_seen_however_many_users_there_are(servers: int, wasted: float) -> None:
    instance = log_uniform(np.random.default_rng(3), 60, 3, servers)
    a = fo.DRF().allocate(instance)
    less = of(instance, a.tasks_by_server * (1 - wasted))
    assert check(a, "pe")["pe"].holds
    assert check(less, "pe")["pe"].margin > 0.5 * wasted - 1e-6


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_margins_do_not_change_with_the_units_of_resources_or_of_tasks(unit: float) -> None:
    rng = np.random.default_rng(11)
    base = cluster(rng, 5, 3, 3)
    a = filled(base, rng)
    scale = np.array([unit, 1.0, 1 / unit])
    other = base.replace(
        demands=base.demands * scale * 1e3, capacities=base.capacities * scale, task_limits=base.task_limits / 1e3
    )
    there = check(of(other, a.tasks_by_server / 1e3))
    for name, verdict in check(a).items():
        assert there[name].margin == pytest.approx(verdict.margin, abs=1e-7), name


def test_a_user_of_a_trace_of_a_full_resource_gains_nothing() -> None:
    instance = fo.Instance([[1, 1e-11], [0, 1]], [1, 1])
    a = fo.DRF().allocate(instance)
    assert a.tasks[0] == pytest.approx(1) and check(a, "pe")["pe"].holds
    half = of(instance, [0.5, 1 - 0.5e-11])
    assert check(half, "pe")["pe"].holds  # the second resource is full, and the first user needs it


def test_a_trace_of_a_full_resource_on_servers_is_no_way_to_gain_either() -> None:
    """HiGHS drops entries below 1e-9, so that its program at natural scale would let the first user gain."""
    rng, seen = np.random.default_rng(5), 0
    for _ in range(12):
        a = fo.TSF().allocate(log_uniform(rng, 10, 2, 3, limits=0.4, decades=6))
        seen += check(a, "pe")["pe"].holds
    assert seen == 12
    instance = fo.Instance([[1, 1e-10], [0, 1]], [[1, 1], [2, 1]])
    full = of(instance, [[0.5, 0.5], [1 - 0.5e-10, 1 - 0.5e-10]])  # all of the second resource
    assert check(full, "pe")["pe"].holds
    assert not check(of(instance, [[0.5, 0.5], [0.9, 1 - 0.5e-10]]), "pe")["pe"].holds


# -- what is known of notions ---------------------------------------------------------------------------------


@FAST
@given(pools())
def test_drf_is_efficient_envy_free_and_an_incentive_to_share_with_zeros_weights_and_limits(instance: Any) -> None:
    report = check(fo.DRF().allocate(instance), ["pe", "si", "ef"])
    assert report.holds, str(report)


def test_a_slice_of_a_team_is_used_up_to_the_limit_of_the_member_that_runs_there_alone() -> None:
    teams = {"team": ["a", "a", None]}
    pool = fo.Instance([[1], [1], [1]], [12], task_limits=[2, 1, 20], teams=teams)
    some = fo.Policy(fo.Total(fo.Tasks()), [fo.MaxTasks([0.5, 0.75, 20]), fo.MinTasks([0.5, 0.75, 0])]).allocate(pool)
    found = check(some, ["team-si"])["team-si"]
    # the team's slice has room for 6 tasks, of which its first member wants 2; on its own slice each has room for 3
    assert found.witness.names == ("a", "user3", "user1", "user2")
    np.testing.assert_allclose(12 * found.witness.slices, [2, 6, 2, 1], rtol=1e-9)
    np.testing.assert_allclose(12 * found.witness.holds, [1.25, 10.75, 0.5, 0.75], rtol=1e-6)
    assert str(found).startswith(
        "user 'user1' holds a dominant share of 0.04167, where its own slice would hold 0.1667"
    )
    assert check(fo.HDRF().allocate(pool), ["team-si"]).ok


def test_most_tasks_gives_the_first_user_of_row_1_nothing() -> None:
    report = check(fo.MostTasks().allocate(TWO))
    assert report["pe"].holds and not report["si"].holds and not report["ef"].holds
    assert report["si"].margin == pytest.approx(1) and report["si"].details.missing == {"batch": pytest.approx(2.5)}
    envy = report["ef"].details
    assert (envy.envier, envy.envied) == ("batch", "web") and envy.would_run == pytest.approx(25 / 8)
    assert report["ef"].margin == pytest.approx(25 / 8 / 2.5)
    assert str(report["ef"]) == (
        "user 'batch' would run 3.125 tasks on what 'web' holds, but runs 0: envy of 125% of its own slice"
    )


def test_gfj_below_the_line_of_pareto_efficiency_is_dominated() -> None:
    """At lam = -1/4 the objective is not concave, so its optimum is given by hand."""
    instance = fo.Instance([[1, 0], [0, 1]], [1, 4], users=["a", "b"])
    verdict = check(of(instance, [1, 2]), "pe")["pe"]
    assert not verdict.holds and verdict.details.gains == {"b": 2.0}
    assert verdict.margin == 1.0  # b doubles what it has
    assert str(verdict) == "with no user running fewer, user 'b' could run 4 tasks instead of 2"
    assert check(fo.GFJ(beta=2, lam=-0.5).allocate(instance), "pe")["pe"].holds


def test_plain_max_min_is_not_efficient_once_demands_have_zeros() -> None:
    instance = fo.Instance([[1, 0], [0, 1]], [1, 1])
    lazy = of(instance.replace(task_limits=[0.5, np.inf]), [0.5, 0.5])  # a largest smallest share
    assert min(lazy.tasks) == pytest.approx(fo.Policy(fo.MaxMin()).allocate(lazy.instance).objective, rel=1e-15)
    assert check(lazy, "pe")["pe"].details.gains == {"user2": pytest.approx(0.5, rel=1e-5)}


def test_full_bundles_of_hffmra_do_not_hide_that_tasks_could_grow() -> None:
    a = fo.HFFMRA(units="raw").allocate(CLUSTER_004)
    assert a.tasks == pytest.approx([98 / 23, 88 / 23])
    assert a.usage == pytest.approx(CLUSTER_004.capacities)  # all is handed out
    verdict = check(a, "pareto")["pareto"]
    assert not verdict.holds and verdict.margin > 0.01
    gains = largest_gains(a)
    assert gains.max() > 0.1


def test_envy_is_of_what_users_hold_where_a_mechanism_decides_bundles() -> None:
    instance = fo.Instance([[1, 2], [2, 1]], [6, 6], users=["a", "b"])
    bundles = np.array([[[2.0, 1.0]], [[4.0, 5.0]]])
    a = of(instance, [0.5, 2.0], bundles)
    envy = check(a, "ef")["ef"].details
    assert (envy.envier, envy.envied, envy.would_run) == ("a", "b", 2.5)
    assert envy.matrix[1, 0] == pytest.approx((1 - 2) / 2)


def test_a_user_at_its_limit_envies_no_other() -> None:
    instance = fo.Instance([[1], [1]], [10], task_limits=[2, None])
    assert check(of(instance, [2, 8]), "ef")["ef"].holds
    assert not check(of(instance, [1, 8]), "ef")["ef"].holds


def test_envy_counts_only_servers_where_the_envier_may_run() -> None:
    instance = fo.Instance([[1], [1]], [[4], [4]], eligible=[[True, False], [True, True]])
    a = of(instance, [[2, 0], [2, 4]])
    assert check(a, "ef")["ef"].holds and check(a, "ef")["ef"].details.matrix[0, 1] == 0


def test_bottleneck_is_the_check_of_notions_and_left_out_where_servers_differ() -> None:
    cluster = fo.Instance([[0, 1], [1, 1]], [4, 6], users=["a", "b"], resources=["cpu", "memory"])
    a = fo.DRF().allocate(cluster)
    verdict = check(a)["bf"]
    assert not verdict.holds and verdict.margin == pytest.approx(0.2)
    assert str(verdict) == str(fo.policies.bottleneck_fairness(a))
    several = fo.DRF().allocate(fo.Instance([[1, 2]], [[4, 4], [8, 2]]))
    assert "bottleneck" not in check(several)
    with pytest.raises(fo.errors.OutOfDomain, match="servers that differ"):
        check(several, "bottleneck")
    assert "bottleneck" in check(fo.DRF().allocate(fo.Instance([[1, 2]], [[4, 4], [4, 4]])))


# -- sizes ----------------------------------------------------------------------------------------------------


def test_counted_servers_are_as_good_as_the_servers_they_stand_for() -> None:
    rng = np.random.default_rng(2)
    row = fo.Instance([[1, 2], [3, 1]], [[4, 5], [7, 3]], counts=[3, 1])
    each = fo.Instance([[1, 2], [3, 1]], [[4, 5], [4, 5], [4, 5], [7, 3]])
    a = filled(row, rng)
    spread = a.tasks_by_server[:, [0, 0, 0, 1]] / np.array([3, 3, 3, 1])
    b = of(each, spread)
    for name, verdict in check(a).items():
        assert check(b)[name].margin == pytest.approx(verdict.margin, abs=1e-9), name
    assert check(b)["pe"].details.tasks_by_server.shape == (2, 4)


def test_a_user_with_a_limit_of_0_is_left_out_of_everything() -> None:
    instance = fo.Instance([[1, 1], [1, 2]], [4, 4], task_limits=[0, None])
    report = check(fo.DRF().allocate(instance))
    assert report.holds and report["ef"].margin <= 0 and report["si"].details.missing == {}
    assert check(of(instance, [0, 1]), "pe")["pe"].details.gains == {"user2": pytest.approx(1, rel=1e-5)}


def test_no_users_and_one_user() -> None:
    none = check(fo.DRF().allocate(fo.Instance(np.zeros((0, 2)), [1, 1])))
    assert none.holds and len(none) == 4
    one = check(fo.DRF().allocate(fo.Instance([[1, 1]], [1, 1])))
    assert one.holds and one["ef"].details.envier is None


def test_the_matrix_is_left_out_for_very_many_users_but_not_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    import fairopt.plots.envy  # noqa: F401 - now: imported later, it would keep the patched number
    from fairopt.properties import envy

    a = fo.MostTasks().allocate(log_uniform(np.random.default_rng(0), 30, 2))
    whole = check(a, "ef")["ef"]
    monkeypatch.setattr("fairopt.plots.envy.WHOLE", 20)
    monkeypatch.setattr(envy, "WHOLE", 20)
    monkeypatch.setattr(envy, "BLOCK", 64)
    verdict = check(a, "ef")["ef"]
    assert whole.details.matrix is not None and verdict.details.matrix is None
    assert (verdict.margin, str(verdict)) == (whole.margin, str(whole))
    assert verdict.details.pairs() == whole.details.pairs() != []
    with pytest.raises(fo.errors.InvalidBlock, match="envy up to 1e-06 was not searched for"):
        verdict.details.pairs(1e-9)
    with pytest.raises(fo.errors.InvalidBlock, match="no envy matrix of 30 users"):
        verdict.plot()


def test_the_interior_point_method_answers_the_same_as_the_simplex_method(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    for servers in (1, 3):
        instance = log_uniform(rng, 30, 3, servers, limits=0.3)
        a = of(instance, fo.DRF().allocate(instance).tasks_by_server * 0.9)
        simplex = check(a, "pe")["pe"]
        monkeypatch.setattr(pareto, "MANY", 0)
        interior = check(a, "pe")["pe"]
        assert interior.margin == pytest.approx(simplex.margin, abs=1e-7) and not interior.holds
        monkeypatch.undo()


# The first user stands where only the second can run, so it is no loss to move, and 1 more task of the second fits.
IN_THE_WAY = fo.Instance([[1], [1]], [[1], [1]], eligible=[[1, 1], [1, 0]], task_limits=[1, None])


def test_a_user_who_is_in_the_way_of_another_can_move() -> None:
    verdict = check(of(IN_THE_WAY, [[0.5, 0.5], [0.5, 0]]), "pe")["pe"]
    assert verdict.margin == pytest.approx(1) and verdict.details.gains == {"user2": pytest.approx(0.5)}
    assert verdict.details.tasks_by_server == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-9)


def test_a_solver_that_misleads_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    a = of(IN_THE_WAY, [[0.5, 0.5], [0.5, 0]])

    def lazy(*args: Any, **options: Any) -> Any:
        found = linprog(*args, **options)
        found.x = np.zeros_like(found.x)  # "no user can gain", under the status optimal
        return found

    monkeypatch.setattr("scipy.optimize.linprog", lazy)
    with pytest.raises(
        fo.errors.NotCertified, match="could not be proved: highs-ds: user 'user2' gains between 0 and 1"
    ):
        check(a, "pe")

    def generous(*args: Any, **options: Any) -> Any:
        found = linprog(*args, **options)
        found.x = found.x * 2  # beyond capacities
        return found

    monkeypatch.setattr("scipy.optimize.linprog", generous)
    found = check(a, "pe")["pe"]
    assert found.margin == pytest.approx(1) and (of(IN_THE_WAY, found.details.tasks_by_server).task_usage <= 1).all()

    nothing = types.SimpleNamespace(x=None, status=4, message="lost its way")
    monkeypatch.setattr("scipy.optimize.linprog", lambda *args, **options: nothing)
    with pytest.raises(fo.errors.NotCertified, match="lost its way"):
        check(a, "pe")
    assert check(of(fo.Instance([[1], [1]], [2]), [1, 1]), "pe")["pe"].holds  # a pool needs no solver


# -- reports --------------------------------------------------------------------------------------------------


def test_a_report_is_a_mapping_by_canonical_names_that_takes_short_forms() -> None:
    report = check(fo.DRF().allocate(TWO), ["ef", "PE", "Pareto efficiency", "pareto"])
    assert list(report) == ["pareto", "envy-free"] and len(report) == 2
    assert report["pe"] is report["pareto"] and "EF" in report and "si" not in report and "nonsense" not in report
    assert report.get("si") is None
    with pytest.raises(KeyError, match="sharing-incentive was not checked"):
        report["si"]
    with pytest.raises(fo.errors.InvalidBlock, match="no property 'envi'"):
        report["envi"]
    assert [row["property"] for row in report.rows()] == ["pareto", "envy-free"]
    assert report.rows()[0]["sentence"] == str(report["pareto"])


def test_a_report_reads_as_text_in_a_terminal_and_in_a_notebook() -> None:
    from rich.console import Console

    odd = TWO.replace(users=["[red]<b>", "web"])
    report = check(fo.MostTasks().allocate(odd))
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(report)
    shown = console.export_text()
    assert "[red]<b>" in shown and "NO" in shown and "most tasks" in shown
    assert "<b>NO</b>" in report._repr_html_() and "[red]&lt;b&gt;" in report._repr_html_()
    assert str(report).splitlines()[0].startswith("most tasks on Instance(2 users")
    assert repr(report).startswith("<PropertyReport of most tasks")


def test_a_sentence_has_digits_enough_to_tell_its_numbers_apart() -> None:
    report = check(of(TWO, [2.5 * (1 - 3e-5), 12.5]), ["pe", "si"])
    assert "could run 2.5 tasks instead of 2.4999" in str(report["pe"])
    assert "runs 2.4999 tasks, where its own slice would run 2.5" in str(report["si"])


def test_rounding_is_0_in_sentences_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers such as 1.57e-14% or 3e-17 tasks are noise: no sentence shows them."""
    found = Dominating(np.array([[2.5], [12.5]]), {"batch": 4e-16}, 1.57e-16, 1.57e-16)
    monkeypatch.setattr("fairopt.properties.checks.dominating", lambda *_: found)
    report = check(of(TWO, [3e-17, 12.5]), ["pe", "si", "ef"])
    assert str(report["pe"]) == "no user can run more tasks unless another runs fewer"
    assert str(report["si"]) == "user 'batch' runs 0 tasks, where its own slice would run 2.5: short by 100%"
    assert "but runs 0: envy" in str(report["ef"])
    lie = fo.properties.Misreport("web", (1.0, 2.0), 2 / 3e-17 - 1, 3e-17, 2.0, "grid")
    assert str(lie) == "user 'web' reports (1, 2) and runs 2 tasks instead of 0 (from none)"


def test_a_sentence_counts_those_it_does_not_name() -> None:
    instance = fo.Instance(np.eye(5), np.full(5, 2.0))
    report = check(of(instance, np.full(5, 0.1)), ["pe", "si"])
    assert str(report["pe"]) == (
        "with no user running fewer, user 'user1' could run 2 tasks instead of 0.1 (4 more users could gain)"
    )
    assert "(4 more users fall short)" in str(report["si"])


def test_the_envy_matrix_is_drawn_with_labels_and_numbers() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    report = check(fo.MostTasks().allocate(TWO))
    ax = report.plot()
    assert np.asarray(ax.images[0].get_array()) == pytest.approx(100 * report["ef"].details.matrix, abs=1e-9)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["batch", "web"]
    assert [t.get_text() for t in ax.texts] == ["+125", "-100"]
    ax.figure.canvas.draw()
    from fairopt.plots.common import new_figure

    mine = new_figure(3, 3).subplots()
    assert report["ef"].plot(ax=mine) is mine
    many = check(fo.DRF().allocate(log_uniform(np.random.default_rng(0), 40, 2)), "ef").plot()
    assert not many.texts
    with pytest.raises(fo.errors.InvalidBlock, match="pareto has no picture"):
        report["pe"].plot()
    with pytest.raises(fo.errors.InvalidBlock, match="envy was not checked"):
        check(fo.DRF().allocate(TWO), "pe").plot()


# -- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sp", "strategy-proof", "sp-boosting", "population-monotone", "rm"])
def test_properties_of_a_mechanism_are_refused_with_what_to_use(name: str) -> None:
    with pytest.raises(
        fo.errors.InvalidBlock, match=r"property of a mechanism, not of one allocation; use fo\.audit"
    ) as error:
        check(fo.DRF().allocate(TWO), ["pe", name])
    assert ("best_misreport" in str(error.value)) == name.startswith(("sp", "strategy"))


def test_an_unknown_property_names_the_nearest() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="no property 'parto'; did you mean 'pareto'"):
        check(fo.DRF().allocate(TWO), "parto")
    with pytest.raises(fo.errors.InvalidBlock, match="no property to check"):
        check(fo.DRF().allocate(TWO), [])
    with pytest.raises(fo.errors.InvalidBlock, match="give a name or a list"):
        check(fo.DRF().allocate(TWO), 3)


@pytest.mark.parametrize("tol", [0, -1, 1, np.nan, "small", None, True])
def test_a_tolerance_that_is_none_is_refused(tol: Any) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="tol is"):
        check(fo.DRF().allocate(TWO), tol=tol)


def test_a_policy_or_instance_in_place_of_an_allocation_is_refused() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=r"fo\.audit"):
        check(fo.DRF())  # type: ignore[arg-type]
    with pytest.raises(fo.errors.InvalidBlock, match="give an Allocation"):
        check(TWO)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([np.nan, 1], "user 'batch' has nan tasks on server 'pool'; give a finite"),
        ([np.inf, 1], "user 'batch' has inf tasks"),
        ([1, -0.1], "user 'web' has -0.1 tasks"),
        ([6, 0], "tasks use 240 of 'bandwidth' on server 'pool', which has 200"),
        ([0, 11], "user 'web' runs 11 tasks; its limit is 10"),
    ],
)
def test_what_is_no_allocation_of_its_instance_is_refused(tasks: Any, message: str) -> None:
    with pytest.raises(fo.errors.InvalidInstance, match=message):
        check(of(TWO.replace(task_limits={"web": 10}), tasks))


def test_tasks_where_a_user_may_not_run_and_bundles_beyond_capacity_are_refused() -> None:
    instance = fo.Instance([[1], [1]], [[4], [4]], eligible=[[True, False], [True, True]])
    with pytest.raises(fo.errors.InvalidInstance, match="server 'server2'; it may not run there"):
        check(of(instance, [[1, 1], [0, 0]]))
    with pytest.raises(fo.errors.InvalidInstance, match="shape"):
        check(dataclasses.replace(of(instance, np.zeros((2, 2))), tasks_by_server=np.zeros((2, 1))))
    bundles = np.zeros((2, 2, 1))
    with pytest.raises(fo.errors.InvalidInstance, match="users hold 9 of 'resource1' on server 'server1'"):
        check(of(instance, np.zeros((2, 2)), np.array([[[9.0], [0.0]], [[0.0], [0.0]]])))
    with pytest.raises(fo.errors.InvalidInstance, match="user 'user1' holds nan"):
        check(of(instance, np.zeros((2, 2)), bundles + np.nan))
    with pytest.raises(fo.errors.InvalidInstance, match="bundles have shape"):
        check(of(instance, np.zeros((2, 2)), np.zeros((2, 1))))


@pytest.mark.parametrize("excess", [1e-12, 5e-10])
def test_what_a_certificate_allows_beyond_a_capacity_is_no_error(excess: float) -> None:
    report = check(of(TWO, np.array([2.5, 12.5]) * (1 + excess)))
    assert report["pe"].holds and report["si"].holds and report["ef"].holds


def test_each_verdict_has_its_kind_of_details_where_it_holds_too() -> None:
    report: PropertyReport = check(fo.DRF().allocate(TWO))
    kinds = {name: type(verdict.details) for name, verdict in report.items()}
    assert kinds == {
        "pareto": Dominating,
        "sharing-incentive": OwnSlices,
        "envy-free": Envy,
        "bottleneck": BottleneckVerdict,
    }


def test_what_a_gap_leaves_open_is_said() -> None:
    """User "c" could run 0.45% more at the cost of no other user, within the gap of the certificate."""
    instance = fo.Instance([[1, 0], [1, 0], [0, 1]], [10, 1e-3], users=["a", "b", "c"])
    policy = fo.MostTasks()
    problem = policy.problem(instance)
    problem.solve(solver="HIGHS")
    exact = policy.certify(problem, instance)
    problem.var_dict["tasks"].save_value(np.array([10, 0, 0.9955e-3]))
    near = policy.certify(problem, instance)
    assert near.certificate.gap > 1e-7
    assert "leaves open" in str(check(near, "pe")["pe"])
    assert "leaves open" not in str(check(exact, "pe")["pe"])


def test_a_report_is_ok_if_all_properties_are_known_to_hold() -> None:
    answer = fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], [6, 6]))
    idle = dataclasses.replace(answer, tasks_by_server=answer.tasks_by_server / 2)
    assert fo.check(answer, ["pe", "ef"]).ok is True and fo.check(idle, ["pe", "ef"]).ok is False
