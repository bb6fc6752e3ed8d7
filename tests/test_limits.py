"""Limits on what users and teams take together: kept by every policy, in files, and proved from them."""

import json
import pickle
from fractions import Fraction

import numpy as np
import pytest

import fairopt as fo
from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, OutOfDomain
from fairopt.instance.parts import merged_within_limits

LIMITS = [
    {"name": "x on two", "resource": "cpu", "amount": 6, "of": {"x": ["s1", "s2"]}},
    {"resource": "cpu", "amount": 8, "of": ["x"]},
    {"name": "y", "resource": "cpu", "amount": 3, "of": {"c": ["s3"]}},
]


def cluster(**more):
    return fo.Instance(
        [[1, 0], [1, 0], [1, 0], [2, 1]],
        [[10, 4], [10, 4], [20, 0]],
        users=["a", "b", "c", "d"],
        resources=["cpu", "gpu"],
        servers=["s1", "s2", "s3"],
        teams={"team": ["x", "x", "y", "z"]},
        **{"limits": LIMITS, **more},
    )


@pytest.mark.parametrize(
    "policy",
    [fo.DRF(), fo.HDRF(), fo.NashWelfare(), fo.MostTasks(), fo.Policy(fo.Leximin(fo.OfTeam()))],
)
def test_policies_keep_limits_and_the_checker_proves_their_answers(policy, tmp_path):
    answer = policy.allocate(cluster())
    on, totals = answer.tasks_by_server, answer.tasks
    assert on[:2, :2].sum() <= 6 * (1 + 1e-7) and totals[:2].sum() <= 8 * (1 + 1e-7) and on[2, 2] <= 3 * (1 + 1e-7)
    assert totals[:2].sum() == pytest.approx(8)
    path = answer.save(tmp_path / "answer.json")
    assert fo.verify(path, cluster()).ok and fo.Allocation.load(path).certificate.ok
    data = json.loads(path.read_text())
    data["instance"]["limits"][1]["amount"] = 7
    path.write_text(json.dumps(data))
    told = fo.verify(path)
    assert not told.ok and "the limit 'cpu of x' is exceeded" in str(told)


def test_a_level_of_teams_in_which_a_limit_binds_leaves_the_rest_to_the_others():
    """Of 24 CPUs x has no more than 4, so that y and z, of the same org, share 20."""
    pool = fo.Instance(
        [[1], [1], [1]],
        [24],
        resources=["cpu"],
        teams={"team": ["x", "y", "z"], "org": ["m", "n", "n"]},
        limits=[{"resource": "cpu", "amount": 4, "of": ["m"]}],
    )
    assert fo.HDRF(by=("org", "team")).allocate(pool).tasks == pytest.approx([4, 10, 10])


def test_servers_in_different_limits_are_not_merged_and_masks_follow_servers():
    instance = cluster(limits=[{"name": "one", "resource": "cpu", "amount": 6, "of": {"x": ["s1"]}}])
    assert instance.merged().n_servers == 3 and cluster().merged().n_servers == 2
    merged = cluster().merged()
    assert [limit.of for limit in merged.limits] == [(("x", (True, False)),), (("x", None),), (("c", (False, True)),)]
    back = merged.individual()
    assert [limit.of for limit in back.limits] == [limit.of for limit in cluster().limits]
    assert fo.Instance.from_dict(json.loads(json.dumps(_plain(instance.to_dict())))) == instance
    assert cluster().select_users([0, 2]).limits == cluster().limits
    whole = cluster(limits=LIMITS[1:2]).pooled()
    assert fo.DRF().allocate(whole).tasks[:2].sum() == pytest.approx(8)
    with pytest.raises(InvalidInstance, match="limits are of some servers, so one pool cannot have them"):
        cluster().pooled()


def _plain(data):
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in data.items()}


def test_limits_are_in_files_of_json_and_tables_refuse_them(tmp_path):
    fo.datasets.write(cluster(), tmp_path / "cluster.json")
    assert fo.read(tmp_path / "cluster.json") == cluster()
    with pytest.raises(InvalidInstance, match=r"tables cannot hold the limits of this instance; write to a \.json"):
        fo.datasets.write(cluster(), tmp_path / "tables")


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (3, "limits hold 3; give dicts such as"),
        ({"resource": "cpu", "amount": -1, "of": ["x"]}, "is -1; give a finite number >= 0"),
        ({"resource": "cpu", "amount": 1, "of": ["w"]}, "unknown user or team 'w'"),
        ({"resource": "disk", "amount": 1, "of": ["x"]}, "unknown resource 'disk'"),
        ({"resource": "cpu", "amount": 1, "of": {"x": ["s9"]}}, "unknown server 's9'; did you mean"),
        (LIMITS[1], "two limits are named 'cpu of x'; rename one"),
    ],
)
def test_wrong_limits_are_refused_with_the_fix(limit, message):
    with pytest.raises(InvalidInstance, match=message):
        cluster(limits=[*LIMITS, limit])


def test_what_does_not_keep_limits_refuses_them():
    for policy in (fo.PSDSF(), fo.BottleneckFairness(), fo.NaivePerServer(fo.DRF())):
        with pytest.raises(OutOfDomain, match="does not keep limits"):
            policy.allocate(cluster())
    with pytest.raises(OutOfDomain, match="limits of an instance are filled by tolerances"):
        fo.HDRF().allocate(cluster(), exact=True)


def test_exact_answers_keep_limits_read_as_decimals(tmp_path):
    """Of 3 units a and b may take 0.7 of s1 together, and c shares the other server with them."""
    pool = fo.Instance(
        [[1], [1], [1]],
        [[1], [2]],
        users=["a", "b", "c"],
        resources=["cpu"],
        servers=["s1", "s2"],
        eligible=[[True, False], [True, True], [False, True]],
        limits=[{"name": "on s1", "resource": "cpu", "amount": 0.7, "of": {"a": ["s1"], "b": ["s1"]}}],
    )
    answer = fo.DRF().allocate(pool, exact=True)
    assert answer.exact_tasks.sum(axis=1).tolist() == [Fraction(7, 10), 1, 1]
    path = answer.save(tmp_path / "answer.json")
    assert fo.verify(path).ok and fo.Allocation.load(path).exact_tasks.tolist() == answer.exact_tasks.tolist()
    data = json.loads(path.read_text())
    data["instance"]["limits"][0]["amount"] = 0.6999999
    path.write_text(json.dumps(data))
    assert "the limit 'on s1' is exceeded" in str(fo.verify(path))


@pytest.mark.parametrize("objective", [fo.MaxMin(), fo.Leximin(fo.OfTeam()).then(fo.Total(fo.Tasks()))], ids=str)
def test_exact_answers_under_limits_are_those_in_floats(objective):
    policy = fo.Policy(objective)
    exact, floats = policy.allocate(cluster(), exact=True), policy.allocate(cluster())
    assert exact.objective == pytest.approx(floats.objective, rel=1e-9)
    bounds = floats.exact_bounds()
    assert bounds.lower <= exact.exact_bounds().lower <= bounds.upper


def test_checks_that_do_not_know_limits_are_left_out_or_refused():
    answer = fo.DRF().allocate(cluster())
    assert {verdict.name for verdict in fo.check(answer).verdicts} == {"sharing-incentive", "envy-free"}
    with pytest.raises(OutOfDomain, match="pareto is not checked beside limits"):
        fo.check(answer, "pareto")
    with pytest.raises(OutOfDomain, match="has limits, under which derivatives are not known"):
        fo.sensitivity(fo.NashWelfare().allocate(cluster()))


@pytest.mark.parametrize("mechanism", [fo.HDRF()], ids=repr)
def test_mechanisms_say_that_limits_take_the_place_of_constraints(mechanism):
    with pytest.raises(
        InvalidBlock, match=r"not made of blocks, .* limits of the instance .*instance\.replace\(limits="
    ):
        mechanism.with_constraints(fo.MaxShare({"m": 0.3}, fo.OfTeam()))
    with pytest.raises(InvalidBlock, match=r"cannot be added to it; use a policy such as drf"):
        fo.PSDSF().with_constraints(fo.MaxShare(0.3))


def test_what_if_says_which_limits_change():
    before = cluster(limits=LIMITS[:1])
    after = [{**LIMITS[0], "amount": 3}, {"name": "new", "resource": "cpu", "amount": 5, "of": ["x"]}]
    changes = fo.what_if(fo.DRF(), before, limits=after).changes
    assert changes == (
        f"limit on {LIMITS[0]['name']} 3 instead of {LIMITS[0]['amount']}",
        "limit on new 5 instead of none",
    )


def two_kinds(h, t, **more):
    """Two servers of 8 GPUs, with limits on what x and y use together of each; x has 6 at most."""
    of = [{"name": s, "resource": "gpu", "amount": n, "of": {"x": [s], "y": [s]}} for s, n in (("h", h), ("t", t))]
    return fo.Instance(
        [[1], [1]],
        [[8], [8]],
        resources=["gpu"],
        servers=["h", "t"],
        task_limits=[16, 16],
        teams={"team": ["x", "y"]},
        limits=[*of, {"name": "x", "resource": "gpu", "amount": 6, "of": ["x"]}],
        **more,
    )


@pytest.mark.parametrize("policy", [fo.HDRF(), fo.DRF(), fo.NashWelfare()])
def test_limits_that_capacities_imply_do_not_tell_servers_apart(policy, tmp_path):
    cluster = two_kinds(8, 9)
    assert [limit.name for limit in cluster.merged().limits] == ["x"] and cluster.merged().counts == [2]
    answer = policy.allocate(cluster)
    assert answer.tasks_by_server == pytest.approx(np.array([[3, 3], [5, 5]]))
    assert fo.verify(answer.save(tmp_path / "answer.json"), cluster).ok
    assert fo.Allocation.load(tmp_path / "answer.json").certificate.ok
    below = policy.allocate(two_kinds(7, 8))
    assert below.instance.merged().n_servers == 2
    assert below.tasks == pytest.approx([6, 9]) and below.tasks_by_server[:, 0].sum() <= 7 * (1 + 1e-7)


def test_limits_that_cannot_bind_now_count_after_changes():
    """8 GPUs more on one server are beyond its limit, and so bring nothing."""
    cluster = two_kinds(8, 8)
    more = merged_within_limits(cluster)
    assert more.n_servers == 2 and more.limits == cluster.limits
    grown = more.replace(capacities=[[16], [8]])
    assert fo.HDRF().allocate(grown).tasks.sum() == pytest.approx(16)


ON_S1_S2 = [{"name": "no cpu here", "resource": "cpu", "amount": 0, "of": {"x": ["s1", "s2"], "d": None}}]


@pytest.mark.parametrize(
    "policy",
    [fo.DRF(), fo.HDRF(), fo.FDS(2), fo.MostTasks(), fo.Policy(fo.Leximin(fo.OfTeam())), fo.Policy(fo.MaxMin())],
)
def test_a_limit_of_0_rules_out_servers_and_who_can_run_nowhere_takes_no_part(policy, tmp_path):
    made = cluster(limits=ON_S1_S2)
    by_hand = cluster(
        limits=None,
        eligible={"a": ["s3"], "b": ["s3"]},
        task_limits=[np.inf, np.inf, np.inf, 0],
    )
    answer, right = policy.allocate(made), policy.allocate(by_hand)
    np.testing.assert_allclose(answer.objective, right.objective, rtol=1e-6)
    assert answer.certificate.ok and not answer.tasks[3] and not answer.tasks_by_server[:2, :2].any()
    path = answer.save(tmp_path / "answer.json")
    assert fo.verify(path, made).ok and fo.Allocation.load(path).certificate.ok
    data = json.loads(path.read_text())
    tasks = data["tasks_by_server"]
    tasks[3][0] = 0.25
    path.write_text(json.dumps(data))
    assert not fo.verify(path).ok


def test_a_limit_of_0_is_kept_by_exact_answers_and_on_a_pool(tmp_path):
    pool = fo.Instance([[1], [1], [2]], [12], limits=[{"resource": "resource1", "amount": 0, "of": ["user2"]}])
    for policy, right in ((fo.DRF(), [6, 0, 3]), (fo.MostTasks(), [12, 0, 0])):
        answer = policy.allocate(pool, exact=True)
        assert answer.exact_tasks.sum(axis=1).tolist() == right == pytest.approx(policy.allocate(pool).tasks.tolist())
        assert fo.verify(answer.save(tmp_path / "answer.json")).ok


def test_a_limit_of_0_is_in_files_and_gone_without_it(tmp_path):
    made = cluster(limits=ON_S1_S2, task_limits={"a": 3})
    fo.datasets.write(made, tmp_path / "made.json")
    assert fo.read(tmp_path / "made.json") == made == pickle.loads(pickle.dumps(made))
    assert made.to_dict()["task_limits"] == [3, None, None, None] and made.task_limits.tolist()[3] == 0
    for some in (made, made.select_users([0, 3]), made.select_users([3])):
        again = some.replace(limits=())
        assert again.eligible[:, :2].all() and (again.task_limits > 0).all()


def test_a_limit_of_0_is_what_explanations_and_changes_name():
    answer = fo.DRF().allocate(cluster(limits=ON_S1_S2))
    assert str(answer.explain("d")) == "d gets no tasks: the limit on no cpu here is 0."
    found = fo.what_if(fo.DRF(), answer.instance, limits=[{**ON_S1_S2[0], "amount": 2}])
    assert "limit on no cpu here 2 instead of 0" in str(found) and "task limit" not in str(found)


def guaranteed(amount, guarantees, **more):
    """Of a team with 4 GPUs on each of two servers, a needs 1 CPU beside each of its GPUs and b 2; l limits GPUs."""
    limit = {"name": "l", "resource": "gpu", "amount": amount, **more.pop("limit")}
    return fo.Instance(
        [[1, 1], [2, 1], [1, 0]],
        [[10, 4], [10, 4]],
        users=["a", "b", "c"],
        resources=["cpu", "gpu"],
        servers=["s1", "s2"],
        teams={"team": ["t", "t", "u"]},
        guarantees=guarantees,
        limits=[limit],
        **more,
    )


BESIDE_ZERO = [
    ({"a": 1}, {"of": ["a"]}, "user 'a' (1 tasks)"),
    ({"a": 5}, {"of": {"a": ["s1"]}}, "user 'a' (5 tasks)"),
    ({"t": {"gpu": 1}}, {"of": ["t"]}, "team 't' (1 gpu)"),
    ({"t": {"gpu": 5}}, {"of": {"a": ["s1"], "b": ["s1"]}}, "team 't' (5 gpu)"),
]
KEEP_GUARANTEES = [fo.DRF(), fo.HDRF(), fo.MostTasks(), fo.FDS(2), fo.Policy(fo.Leximin(fo.Surplus(fo.OfTeam())))]


@pytest.mark.parametrize(("guarantees", "limit", "who"), BESIDE_ZERO)
@pytest.mark.parametrize("policy", KEEP_GUARANTEES, ids=str)
def test_a_guarantee_that_a_limit_of_0_rules_out_is_infeasible_as_beside_a_tiny_limit(policy, guarantees, limit, who):
    said = []
    for amount in (0, 1e-12):
        with pytest.raises(Infeasible) as error:
            policy.allocate(guaranteed(amount, guarantees, limit=limit))
        said.append((error.value.conflict, who in str(error.value), "limits allow no more (l)" in str(error.value)))
    assert said[0] == said[1] and said[0][1:] == (True, True) and "l" in said[0][0]


@pytest.mark.parametrize(("guarantees", "limit", "who"), BESIDE_ZERO)
def test_guarantees_beside_a_limit_of_0_can_be_fitted_alone_and_from_files(guarantees, limit, who, tmp_path):
    made = guaranteed(0, guarantees, limit=limit)
    fo.datasets.write(made, tmp_path / "made.json")
    read = fo.read(tmp_path / "made.json")
    for given in (made, read):
        with pytest.raises(Infeasible, match=r"instance\.fit_guarantees\(\)"):
            fo.DRF().allocate(given)
        fitted = given.fit_guarantees()
        assert fitted.limits == given.limits and "were reduced" in fitted.notes[-1]
        assert fo.verify(fo.DRF().allocate(fitted).save(tmp_path / "answer.json")).ok


@pytest.mark.parametrize(("guarantees", "limit", "who"), BESIDE_ZERO)
@pytest.mark.parametrize("policy", KEEP_GUARANTEES[:2], ids=str)
def test_a_file_in_which_a_limit_of_0_rules_out_a_guarantee_is_not_proved(policy, guarantees, limit, who, tmp_path):
    """The tasks of others are as the limit allows, so that nothing but the guarantee is wrong."""
    path = policy.allocate(guaranteed(0, None, limit=limit)).save(tmp_path / "answer.json")
    assert fo.verify(path).ok
    data = json.loads(path.read_text())
    fit = policy.allocate(guaranteed(100, guarantees, limit=limit)).save(tmp_path / "fit.json")
    kept = json.loads(fit.read_text())
    data["instance"]["guarantees"] = kept["instance"]["guarantees"]
    if isinstance(policy, fo.HDRF):
        data["evidence"][0]["floors"] = kept["evidence"][0]["floors"]
    elif "floors" in kept:
        data["floors"] = kept["floors"]
    path.write_text(json.dumps(data))
    told = fo.verify(path)
    assert not told.ok
    assert ("user 'a'" if "user" in who else "team 't' holds") in str(told)


def test_what_a_team_is_guaranteed_does_not_fall_with_a_limit_of_0(tmp_path):
    """Within 4 GPUs and 4 CPUs the team's tasks can use 4 GPUs, which b then holds with 8 CPUs, as beside any limit."""
    given = {"t": {"cpu": 4, "gpu": 4}}
    for amount in (0, 1e-9):
        for exact in (False, True):
            answer = fo.MostTasks().allocate(guaranteed(amount, given, limit={"of": ["a"]}), exact=exact)
            assert answer.tasks == pytest.approx([0, 4, 12], abs=1e-6)
            assert fo.verify(answer.save(tmp_path / "answer.json")).ok


def test_a_task_limit_of_0_cuts_a_guarantee_beside_a_limit_of_0(tmp_path):
    idle = guaranteed(0, {"a": 1, "t": {"gpu": 1}}, limit={"of": ["a"]}, task_limits=[0, 0, None])
    answer = fo.DRF().allocate(idle)
    assert answer.tasks == pytest.approx([0, 0, 20]) and fo.verify(answer.save(tmp_path / "answer.json")).ok
    assert idle.fit_guarantees() is idle


@pytest.mark.parametrize("policy", [fo.DRF(), fo.MostTasks(), fo.HDRF()], ids=str)
def test_guarantees_of_others_hold_where_a_limit_of_0_leaves_the_first_user_out(policy, tmp_path):
    answer = policy.allocate(guaranteed(0, {"t": {"gpu": 4}, "u": {"cpu": 3}}, limit={"of": ["a"]}))
    assert answer.certificate.ok and answer.tasks[0] == 0 and answer.tasks[1] >= 4 * (1 - 1e-7)
    assert fo.verify(answer.save(tmp_path / "answer.json")).ok
