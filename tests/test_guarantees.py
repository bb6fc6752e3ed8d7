"""Guarantees: kept by every policy, refused by what cannot keep them."""

import numpy as np
import pytest
from hypothesis import given, settings

import fairopt as fo
from fairopt.errors import Infeasible, NotCertified, OutOfDomain
from fairopt.testing import instances

POOL = fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 10], guarantees=[2.5, 0, 1])
SERVERS = fo.Instance([[1, 2], [2, 1], [1, 1]], [[5, 6], [5, 4]], guarantees=[1.5, 0, 1])
POLICIES = [
    fo.DRF(),
    fo.NashWelfare(),
    fo.FDS(alpha=2),
    fo.FDS(beta=2, lam=-2),
    fo.MostTasks(),
    fo.Policy(fo.OrderedWeighted((3, 1))),
    fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks()))),
    fo.Policy(fo.Leximin(), [fo.EnvyFree()]),
]
MECHANISMS = [
    fo.PSDSF(),
    fo.DynamicDRF(),
    fo.SequentialMinMax(),
    fo.NaivePerServer(fo.DRF()),
    fo.BottleneckFairness(),
]


def kept(instance, tasks, tol=1e-7):
    return (tasks >= np.minimum(instance.guarantees, instance.task_limits) * (1 - tol)).all()


@settings(max_examples=10)
@given(instances(n_users=(1, 4), n_servers=(1, 3), limits=True, placement=True, counts=True, guarantees=True))
def test_policies_keep_guarantees_cut_at_task_limits(instance):
    for policy in (fo.DRF(), fo.NashWelfare(), fo.MostTasks(), fo.NashBargaining()):
        answer = policy.allocate(instance)
        assert answer.certificate.ok and kept(instance, answer.tasks)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_every_kind_of_objective_keeps_guarantees(policy):
    for instance in (POOL, SERVERS):
        assert kept(instance, policy.allocate(instance).tasks)


@pytest.mark.parametrize("integral", [True, "rounded"])
def test_whole_tasks_keep_guarantees(integral):
    for instance in (POOL, SERVERS):
        for policy in (fo.DRF(), fo.MostTasks(), fo.NashBargaining()):
            tasks = policy.allocate(instance, integral=integral).tasks
            assert kept(instance, tasks) and (tasks == np.round(tasks)).all()


@pytest.mark.parametrize("policy", [fo.DRF(), fo.NashWelfare(), fo.MostTasks(), fo.NashBargaining()], ids=str)
def test_problems_and_prepared_policies_keep_guarantees(policy):
    for instance in (POOL, SERVERS):
        problem = policy.problem(instance)
        problem.solve(solver="CLARABEL")
        assert kept(instance, policy.certify(problem, instance).tasks, 1e-6)
    assert kept(POOL, policy.prepare(POOL).allocate(weights=[1, 2, 3]).tasks)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_mechanisms_refuse_guarantees(mechanism):
    with pytest.raises(OutOfDomain, match="does not keep guarantees"):
        mechanism.allocate(POOL)


def test_derivatives_are_refused():
    with pytest.raises(OutOfDomain, match="has guarantees, under which derivatives are not known"):
        fo.sensitivity(fo.NashWelfare().allocate(POOL))


def test_best_lie_is_found_under_the_guarantees():
    alone = fo.Instance([[1], [1]], [10], guarantees=[9, 0])
    assert fo.properties.best_misreport(fo.DRF(), alone, "user2", budget=20) is None


def test_floors_of_teams_are_kept():
    cluster = fo.Instance(
        [[4, 8], [2, 0], [8, 4]],
        [200, 96],
        resources=["cpu", "gpu"],
        teams={"team": ["vision", "vision", "nlp"]},
        guarantees={"vision": {"gpu": 70, "cpu": 60}},
    )
    for policy in (fo.DRF(), fo.MostTasks(), fo.NashWelfare()):
        held = policy.allocate(cluster).tasks[:2] @ cluster.demands[:2]
        assert (held >= np.array([35, 70]) * (1 - 1e-7)).all()  # 70 GPUs come with 35 CPUs, and 60 fit with CPU pods


def test_guarantees_that_do_not_fit_are_infeasible_by_so_much():
    with pytest.raises(Infeasible, match="takes 9 cpu of 8, 1 more than there is and 12 gpu of 8, 4 more"):
        fo.DRF().allocate(fo.Instance([[1, 2], [1, 1]], [8, 8], guarantees=[3, 6], resources=["cpu", "gpu"]))
    apart = fo.Instance([[1], [1]], [[8], [7]], eligible=[[1, 0], [1, 0]], guarantees=[5, 5], resources=["cpu"])
    with pytest.raises(Infeasible, match=r"only 0.8 times as much for user 'user1' .* there is too little cpu where"):
        fo.NashWelfare().allocate(apart)
    teams = fo.Instance(
        [[1, 2], [1, 1], [1, 0]],
        [8, 8],
        resources=["cpu", "gpu"],
        teams={"team": ["a", "b", "c"]},
        guarantees={"a": {"gpu": 8}, "b": {"cpu": 4}, "c": {"cpu": 0.5}},
    )
    message = r"only 0.6667 times as much for team 'a' \(8 gpu\) and team 'b' \(4 cpu\): there is too little gpu"
    for policy in (fo.NashWelfare(), fo.HDRF()):
        with pytest.raises(Infeasible, match=message):
            policy.allocate(teams)


def test_what_does_not_fit_is_named_in_units_of_what_is_scarce_with_what_would_fit():
    teams = {"team": ["a", "b"]}
    given = {"a": {"cpu": 28, "gpu": 7}, "b": {"cpu": 32, "gpu": 8}}
    pool = fo.Instance([[4, 1], [4, 1]], [100, 12], resources=["cpu", "gpu"], teams=teams, guarantees=given)
    message = r"'a' \(7 gpu\) and team 'b' \(8 gpu\): .* too little gpu where .*; 5.6 gpu and 6.4 gpu would fit"
    for policy in (fo.DRF(), fo.HDRF()):
        with pytest.raises(Infeasible, match=message):
            policy.allocate(pool)


LENT = fo.Instance(  # the borrower has CPUs for tasks without GPUs
    [[4, 1]] * 3,
    [1000, 32],
    resources=["cpu", "gpu"],
    teams={"team": ["owner", "other", "borrower"]},
    guarantees={
        "owner": {"cpu": 32, "gpu": 8},
        "other": {"cpu": 32, "gpu": 8},
        "borrower": {"cpu": 64, "gpu": 0},
    },
)


@pytest.mark.parametrize("policy", [fo.DRF(), fo.HDRF(), fo.Policy(fo.Leximin(fo.OfTeam())), fo.NashWelfare()])
def test_a_guarantee_of_none_of_a_resource_is_for_tasks_that_need_none_of_it(tmp_path, policy):
    by_server = fo.Instance(**{**LENT.to_dict(), "capacities": [[500, 16]] * 2, **dict.fromkeys(("counts", "servers"))})
    for instance in (LENT, by_server):
        answer = policy.allocate(instance)
        assert answer.tasks == pytest.approx(32 / 3)
        answer.save(tmp_path / "answer.json")
        assert fo.verify(tmp_path / "answer.json").ok
    without = LENT.replace(guarantees={"borrower": {"gpu": None}})
    assert policy.allocate(without).tasks == pytest.approx([8, 8, 16])
    tasks = fo.Instance(
        [[4, 1], [4, 0]],
        [64, 8],
        resources=["cpu", "gpu"],
        teams={"team": ["a", "a"]},
        guarantees={"a": {"cpu": 32, "gpu": 0}},
    )
    assert fo.Policy(fo.Total(fo.ResourceShare("gpu"))).allocate(tasks).tasks == pytest.approx([8, 8])


def test_zeros_of_guarantees_are_kept_and_other_resources_are_not_dropped(tmp_path):
    fo.datasets.write(LENT, tmp_path / "x.json")
    fo.datasets.write(LENT, tmp_path / "tables")
    for found in (fo.read(tmp_path / "x.json"), fo.read(tmp_path / "tables"), LENT.replace(weights=[1, 2, 3])):
        assert found.team_guarantees == LENT.team_guarantees and found.team_guarantees["borrower"]["gpu"] == 0
    assert "of 'borrower' with 0 gpu is for tasks that need none of it" in fo.read(tmp_path / "tables").notes[0]
    more = LENT.replace(guarantees={"owner": {"gpu": 12}})
    assert more.team_guarantees == LENT.team_guarantees | {"owner": {"cpu": 32, "gpu": 12}}
    assert LENT.replace(guarantees={"owner": {"gpu": 0, "cpu": None}}).team_guarantees.keys() == {"other", "borrower"}


def test_conflict_of_a_guarantee_with_a_constraint_names_both():
    both = fo.Instance([[1], [1]], [10], guarantees=[5, 2])
    with pytest.raises(Infeasible, match=r"MinTasks.*guarantees of users.* cannot hold together"):
        fo.Policy(fo.AlphaFair(1), [fo.MinTasks({"user1": 9})]).allocate(both)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_level_of_zero_is_certified_where_a_guarantee_of_a_team_leaves_nothing(servers):
    given = {"teams": {"team": ["a", "b", "c"]}, "guarantees": {"a": {"resource1": 4 * servers}}}
    cluster = fo.Instance([[2, 1], [1, 1], [0, 1]], [[4, 4]] * (servers - 1) + [[4, 6]], **given)
    answer = fo.DRF().allocate(cluster)
    np.testing.assert_allclose(answer.tasks, [2 * servers, 0, 2 * servers + 2], atol=1e-9)
    assert answer.certificate.ok


def test_users_to_whom_guarantees_leave_nothing_are_named():
    pair = fo.Instance(
        [[1], [1]], [4], users=["u", "v"], teams={"team": ["a", "b"]}, guarantees={"a": {"resource1": 4}}
    )
    with pytest.raises(OutOfDomain, match="leave user 'v' no tasks at all"):
        fo.NashWelfare().allocate(pair)
    np.testing.assert_allclose(fo.Policy(fo.Leximin(fo.Surplus())).allocate(pair).tasks, [4, 0], atol=1e-9)


FULL = {  # by lower bounds, which leave the third user nothing
    "pool": (fo.Instance([[1]] * 4, [40], guarantees=[20, 18, 0, 2]), ()),
    "huge": (fo.Instance([[1]] * 4, [4e13], guarantees=[2e13, 1.8e13, 0, 2e12]), ()),
    "tiny": (fo.Instance([[1]] * 4, [4e-8], guarantees=[2e-8, 1.8e-8, 0, 2e-9]), ()),
    "full up to rounding": (fo.Instance([[1]] * 4, [1], guarantees=[0.1, 0.2, 0, 0.7]), ()),
    "limits": (fo.Instance([[1]] * 4, [40], guarantees=[20, 18, 0, 2], task_limits=[20, 30, 5, 2]), ()),
    "bounds": (fo.Instance([[1]] * 4, [40]), (fo.MinTasks([20, 18, 0, 2]),)),
    "servers": (fo.Instance([[1]] * 4, [[30], [10]], guarantees=[20, 18, 0, 2]), ()),
    "counts": (fo.Instance([[1]] * 4, [[20], [10]], counts=[1, 2], guarantees=[20, 18, 0, 2]), ()),
    "team": (
        fo.Instance([[1]] * 3, [40], teams={"team": ["a", "a", "b"]}, guarantees={"a": {"resource1": 40}}),
        (),
    ),
}


@pytest.mark.parametrize("name", FULL)
def test_what_rounding_leaves_beside_guarantees_is_no_share(name, tmp_path):
    instance, bounds = FULL[name]
    answer = fo.DRF().with_constraints(*bounds).allocate(instance)
    assert answer.certificate.ok
    assert (answer.tasks[2], answer.objective) == (0, 0)
    np.testing.assert_allclose(answer.tasks.sum(), instance.total_capacities[0], rtol=1e-9)
    answer.save(tmp_path / "answer.json")
    proved = fo.verify(tmp_path / "answer.json")
    assert proved.ok, str(proved)


@pytest.mark.parametrize("name", FULL)
def test_no_value_is_certified_where_a_user_without_tasks_makes_it_minus_infinity(name):
    instance, bounds = FULL[name]
    policy = fo.Policy(fo.AlphaFair(2), bounds)
    with pytest.raises(OutOfDomain, match="leave user 'user3' no tasks at all"):
        policy.allocate(instance)


def test_a_share_that_rounding_of_capacities_changes_is_not_certified():
    left = fo.Instance([[1]] * 4, [40], guarantees=[20, 18, 0, 2 * (1 - 1e-10)])
    with pytest.raises(NotCertified):  # the prices give the user 2.1e-10 tasks where 2e-10 fit
        fo.Policy(fo.AlphaFair(2)).allocate(left, method="prices")
    np.testing.assert_allclose(fo.DRF().allocate(left).tasks[2], 2e-10, rtol=1e-6)


@pytest.mark.parametrize("policy", [fo.Policy(fo.Leximin(fo.Surplus())), fo.NashBargaining()], ids=str)
@pytest.mark.parametrize("name", ["pool", "servers"])
def test_the_objective_is_0_where_nobody_can_rise(policy, name, tmp_path):
    instance, _ = FULL[name]
    answer = policy.allocate(instance)
    assert answer.objective == 0
    np.testing.assert_allclose(answer.tasks, [20, 18, 0, 2], atol=1e-9)
    answer.save(tmp_path / "answer.json")
    assert fo.verify(tmp_path / "answer.json").ok
    assert fo.Allocation.load(tmp_path / "answer.json").objective == 0


@pytest.mark.parametrize(
    "policy", [fo.KalaiSmorodinsky([30, 0, 0]), fo.Policy(fo.Leximin(fo.Surplus(base=[30, 0, 0])))]
)
def test_bases_that_do_not_fit_are_infeasible_where_another_user_can_rise(policy):
    with pytest.raises(Infeasible, match="takes 240 resource2 of 96, 144 more than there is"):
        policy.allocate(fo.Instance([[4, 8], [2, 0], [8, 4]], [200, 96]))


@pytest.mark.parametrize("teams", [False, True])
def test_the_base_of_a_tier_is_kept_in_the_tiers_after_it(teams):
    base, share = (1, 1, 1), fo.OfTeam() if teams else fo.DominantShare()
    pool = fo.Instance([[1], [1], [2]], [9], teams={"team": ["a", "b", "b"]})
    answer = fo.Policy(fo.MaxMin(fo.Surplus(share, base)).then(fo.Total(fo.Tasks()))).allocate(pool)
    assert (answer.tasks >= np.array(base) * (1 - 1e-7)).all()


def test_what_is_above_a_base_is_solved_one_by_one_in_batches_and_refused_in_shards():
    many = fo.allocate_many(fo.NashBargaining(), np.ones((3, 2, 1)), np.ones((3, 1)))
    assert many.ok.all() and many.one_by_one.all()
    with pytest.raises(OutOfDomain, match="cannot be in shards"):
        fo.allocate_sharded(fo.NashBargaining(), [np.ones((5, 2))], capacities=[5, 6])
