"""`verify` on objectives of teams and of what is above a base: it recomputes their numbers in fractions."""

import json
from pathlib import Path

import numpy as np
import pytest

import fairopt as fo
from fairopt.checker.numbers import Fraction, exact_sum, sum_of_products

DEMANDS = [[1, 4], [3, 1], [2, 2], [0, 1], [5, 0]]
TEAMS = {"team": ["a", "a", "b", "b", "c"], "org": ["x", "x", "x", "x", "y"]}
GIVEN = {
    "weights": {"u1": 1, "u2": 2, "u3": 1, "u4": 1, "u5": 1, "a": 3},
    "users": ["u1", "u2", "u3", "u4", "u5"],
    "task_limits": [None, 4, None, 3, None],
    "teams": TEAMS,
}
POOL = fo.Instance(DEMANDS, [30, 20], **GIVEN)
PLACES = [[1, 1], [1, 0], [1, 1], [0, 1], [1, 1]]
SERVERS = fo.Instance(DEMANDS, [[20, 4], [10, 16]], eligible=PLACES, **GIVEN)
BASE = (0.5, 0.25, 0.5, 0.0, 0.25)
POLICIES = [
    fo.Policy(fo.Leximin(fo.OfTeam())),
    fo.Policy(fo.Leximin(fo.OfTeam(fo.PNormShare(2), weights={"b": 2}))),
    fo.Policy(fo.Leximin(fo.OfTeam()), [fo.MaxShare({"a": 0.3}, fo.OfTeam()), fo.MinTasks({"u5": 1})]),
    fo.Policy(fo.Leximin(fo.OfTeam(by="org")).then(fo.Leximin(fo.OfTeam()))),
    fo.Policy(fo.Leximin(fo.Surplus(base=BASE))),
    fo.Policy(fo.Leximin(fo.Surplus(fo.OfTeam(), BASE))),
    fo.Policy(fo.AlphaFair(1, fo.OfTeam())),
    fo.Policy(fo.AlphaFair(0.5, fo.Surplus(base=BASE))),
    fo.Policy(fo.MaxMin(fo.Surplus(base=BASE))),
    fo.Policy(fo.OrderedWeighted([3, 1], fo.OfTeam())),
    fo.Policy(fo.AlphaFair(2, fo.OfTeam()) + 0.1 * fo.Total(fo.Tasks())),
]


def saved(answer, folder):
    path = folder / "answer.json"
    answer.save(path)
    return path


@pytest.mark.parametrize("instance", [POOL, SERVERS], ids=["pool", "servers"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: repr(policy.objective)[:40])
def test_answers_are_proved_in_fractions(instance, policy, tmp_path):
    answer = policy.allocate(instance)
    path = saved(answer, tmp_path)
    found = fo.verify(path)
    assert found.ok, str(found)
    assert found.gap <= max(10 * answer.certificate.gap, 1e-9)
    assert fo.Allocation.load(path).certificate.ok


def test_guarantees_of_users_are_lower_bounds(tmp_path):
    secured = SERVERS.replace(guarantees=[1, 1, 0, 0, 0.5])
    answer = fo.Policy(fo.Leximin(fo.Surplus())).allocate(secured)
    path = saved(answer, tmp_path)
    assert fo.verify(path).ok
    data = json.loads(path.read_text(encoding="utf-8"))
    data["tasks_by_server"][0] = [0.5, 0.25]  # u1 is guaranteed one task
    path.write_text(json.dumps(data), encoding="utf-8")
    found = fo.verify(path)
    assert not found.ok
    assert "outside the bounds" in str(found)


SECURED = {"u4": 1, "a": {"r1": 16, "r2": 4}, "b": {"r2": 8}, "c": {"r1": 12}, "x": {"r1": 17}}
GUARANTEED = [
    fo.Policy(fo.Leximin()),
    fo.Policy(fo.Total(fo.Tasks())),
    fo.Policy(fo.Leximin(fo.Surplus())),
    fo.Policy(fo.Leximin(fo.Surplus(fo.OfTeam(fo.PNormShare(2))))),
    fo.Policy(fo.AlphaFair(1, fo.Surplus(fo.OfTeam())).then(fo.Total(fo.Tasks()))),
]


def secured(instance):
    return instance.replace(resources=["r1", "r2"], task_limits={"u3": 3}, guarantees=SECURED)


def written(path, **changes):
    """The saved file with other values."""
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(data | changes), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("policy", "instance"),
    [(GUARANTEED[3], POOL), *((policy, SERVERS) for policy in GUARANTEED)],
    ids=lambda given: repr(getattr(given, "objective", given))[:40],
)
def test_guarantees_of_teams_are_proved(instance, policy, tmp_path):
    path = saved(policy.allocate(secured(instance)), tmp_path)
    found = fo.verify(path, secured(instance))
    assert found.ok, str(found)
    data = json.loads(path.read_text(encoding="utf-8"))
    fewer = (np.array([[1], [1], [1], [1], [0.9]]) * data["tasks_by_server"]).tolist()
    assert "team 'c' holds" in str(fo.verify(written(path, tasks_by_server=fewer, objective=None)))
    more = data["instance"] | {"guarantees": data["instance"]["guarantees"] | {"c": {"r1": 13}}}
    assert not fo.verify(written(path, instance=more, tasks_by_server=data["tasks_by_server"])).ok


def test_what_a_team_is_guaranteed_needs_evidence(tmp_path):
    path = saved(GUARANTEED[3].allocate(secured(SERVERS)), tmp_path)
    floors = json.loads(path.read_text(encoding="utf-8"))["floors"]
    less = {"tasks": [[j, s, 0.5 * x] for j, s, x in floors["b"]["1"]["tasks"]], "prices": floors["b"]["1"]["prices"]}
    wrong = floors | {"b": floors["b"] | {"1": less}}
    assert "the floor of 'b' of 'r2' is not proved" in str(fo.verify(written(path, floors=wrong)))
    worth = floors["a"]["PNormShare(2)"]
    for kind, message in {"prices": "worth in PNormShare(2) is not proved", "tasks": "do not hold it"}.items():
        wrong = floors | {"a": floors["a"] | {"PNormShare(2)": worth | {kind: []}}}
        wrong["a"]["PNormShare(2)"] = {k: v for k, v in wrong["a"]["PNormShare(2)"].items() if v}
        assert message in str(fo.verify(written(path, floors=wrong)))
    assert "without evidence" in str(fo.verify(written(path, floors=None)))
    given = json.loads(path.read_text(encoding="utf-8"))["instance"]
    with_zero = given | {"guarantees": given["guarantees"] | {"b": {"r1": 0, "r2": 8}}}  # for tasks that need no r1
    assert "of which it has none" in str(fo.verify(written(path, instance=with_zero, floors=floors)))
    assert fo.verify(written(path, instance=given)).ok


def test_floors_are_the_most_that_tasks_can_use_where_demands_differ_by_server(tmp_path):
    demands = [[[1, 1], [2, 1]], [[1, 0], [1, 0]]]
    given = {"teams": {"team": ["a", "b"]}, "guarantees": {"a": {"resource1": 8, "resource2": 3}}}
    cluster = fo.Instance(demands, [[10, 4], [10, 4]], **given)  # three tasks on the second server use six
    answer = fo.Policy(fo.Total(fo.Tasks())).allocate(cluster)
    assert (answer.tasks_by_server[0] @ [1, 2]).round(6) == 6
    assert fo.verify(saved(answer, tmp_path)).ok


def test_a_user_whose_demands_differ_by_server_may_run_as_much_on_each_of_them(tmp_path):
    cluster = fo.Instance(
        [[[1, 1, 0], [1, 0, 1]], [[0.25, 0, 0], [0.25, 0, 0]]],
        [[1, 1, 0], [1, 0, 1]],
        resources=["cpu", "x", "y"],
        teams={"team": ["a", "b"]},
        guarantees={"a": {"cpu": 1}},
    )
    path = saved(fo.Policy(fo.Total(fo.Tasks())).allocate(cluster), tmp_path)
    assert fo.verify(path).ok
    given = json.loads(path.read_text(encoding="utf-8"))["instance"]
    more = given | {"guarantees": given["guarantees"] | {"a": {"cpu": 2}}}
    floors = {"a": {"0": {"tasks": [[0, 0, 1]], "prices": [0, 0, 0]}}}  # one task on each server uses 2
    assert "the floor of 'a' of 'cpu' is not proved" in str(fo.verify(written(path, instance=more, floors=floors)))


@pytest.mark.parametrize("share", [fo.DominantShare(), fo.PNormShare(2), fo.Surplus(base=BASE)], ids=repr)
def test_bounds_that_name_a_team_are_on_the_sum_of_its_members(share, tmp_path):
    bounds = [fo.MinShare({"c": 0.15, "u1": 0.01}, share), fo.MaxShare({"a": 0.2, "x": 0.45}, share)]
    for objective in (fo.Leximin(), fo.AlphaFair(1, fo.OfTeam())):
        path = saved(fo.Policy(objective, bounds).allocate(SERVERS), tmp_path)
        found = fo.verify(path)
        assert found.ok, str(found)
        policy = json.loads(path.read_text(encoding="utf-8"))["policy"]
        assert "row" in str(fo.verify(written(path, policy=policy.replace("'a': 0.2", "'a': 0.19"))))
        assert "proves only" in str(fo.verify(written(path, policy=policy.replace("'a': 0.2", "'a': 0.21"))))


FULL = fo.Instance(
    [[2, 1], [1, 1], [1, 0], [0, 1]],
    [[8, 4], [6, 9]],
    eligible=[[1, 0], [1, 0], [1, 1], [0, 1]],
    teams={"team": ["a", "a", "b", "c"]},
)
HELD = (3, 1, 0, 1)  # users 1 and 2 fill the second resource of the first server


@pytest.mark.parametrize(
    "objective",
    [
        fo.Leximin(fo.Surplus(base=HELD)),
        fo.AlphaFair(1, fo.Surplus(fo.OfTeam(), HELD)),
        fo.MaxMin(fo.Surplus(base=HELD)),
        fo.Leximin(fo.Surplus(base=HELD)).then(fo.Total(fo.Tasks())),
        fo.AlphaFair(1, fo.Surplus(base=(3, 1, 7, 9))),  # nobody can rise
    ],
    ids=repr,
)
def test_users_whom_capacities_keep_at_their_base_are_proved_to_stay(objective, tmp_path):
    answer = fo.Policy(objective).allocate(FULL)
    assert answer.tasks[:2] == pytest.approx([3, 1])
    path = saved(answer, tmp_path)
    found = fo.verify(path)
    assert found.ok, str(found)
    proof = json.loads(path.read_text(encoding="utf-8"))["evidence"]
    ((share, given),) = proof[0]["at_base"].items()
    unproved = given | {"prices": [[0, 0], [0, 0]]}
    by_levels = proof[0]["kind"] == "number levels"
    nothing = "proves only a gap of 1.0e+00" if by_levels else "is at its base, and nothing proves"
    for wrong, message in (({share: unproved}, "could rise above its base by"), ({}, nothing)):
        assert message in str(fo.verify(written(path, evidence=[proof[0] | {"at_base": wrong}, *proof[1:]])))


def test_who_can_rise_may_not_be_left_out(tmp_path):
    path = saved(fo.Policy(fo.Leximin(fo.Surplus(base=HELD))).allocate(FULL), tmp_path)
    proof = json.loads(path.read_text(encoding="utf-8"))["evidence"]
    ((share, given),) = proof[0]["at_base"].items()
    more = given | {"of_numbers": given["of_numbers"] | {"user4": 1.0}}
    changed = written(path, evidence=[proof[0] | {"at_base": {share: more}}])
    assert "could rise above its base by" in str(fo.verify(changed))


# team "t" divides what is above guarantees between a member who needs z and one who does not; the others cannot rise
LEFT_OPEN = fo.Instance(
    [[1, 0, 0.1], [0, 1, 0], [1, 1, 0], [1, 0, 0]],
    [[6, 4, 9], [4, 6, 9]],
    resources=["x", "y", "z"],
    weights=[0.25] * 4,
    teams={"team": ["t", "u", "v", "t"]},
    guarantees=[0, 10, 0, 1],
)


def surplus_then_z(alpha):
    surplus = fo.AlphaFair(alpha, fo.Surplus(fo.OfTeam())) + 0.5 * fo.Total(fo.OfTeam())
    return fo.Policy(surplus.then(fo.Total(fo.ResourceShare("z"))))


@pytest.mark.parametrize("weight", [0.25, 3])
@pytest.mark.parametrize("alpha", [0.5, 2])
def test_levels_of_sums_over_teams_are_kept_whatever_the_weights_of_users(alpha, weight, tmp_path):
    answer = surplus_then_z(alpha).allocate(LEFT_OPEN.replace(weights=[weight] * 4))
    np.testing.assert_allclose(answer.tasks, [9, 10, 0, 1], atol=1e-5)
    found = fo.verify(saved(answer, tmp_path))
    assert found.ok, str(found)


@pytest.mark.parametrize(
    ("objective", "tasks"),
    [
        (fo.MaxMin(fo.Surplus()).then(fo.AlphaFair(1, fo.Surplus())), [1.2, 0.8, 0.8]),
        ((fo.AlphaFair(2, fo.OfTeam()) + fo.Total(fo.OfTeam())).then(fo.Total(fo.ResourceShare(2))), None),
    ],
    ids=str,
)
def test_tiers_with_curves_of_numbers_are_proved_by_tangents_at_the_tasks(objective, tasks, tmp_path):
    teams = {"team": ["a", "b", "b"]}
    answer = fo.Policy(objective).allocate(
        fo.Instance([[2, 1, 0], [1, 3, 1], [1, 3, 0]], [6, 6, 7], task_limits=[9, 2, 1], teams=teams)
    )
    if tasks:
        np.testing.assert_allclose(answer.tasks, tasks, atol=1e-6)
    found = fo.verify(saved(answer, tmp_path))
    assert found.ok, str(found)


def test_the_level_of_an_earlier_tier_is_of_those_who_rise_in_it(tmp_path):
    # with the utilities of those who stay, here at least -2 each, no tasks would keep the level
    path = saved(surplus_then_z(0.5).allocate(LEFT_OPEN), tmp_path)
    first, second = json.loads(path.read_text(encoding="utf-8"))["evidence"]
    times = 0.00556
    second["prices"] = [
        [times * p + q for p, q in zip(*of_server, strict=True)]
        for of_server in zip(first["prices"], second["prices"], strict=True)
    ]
    for row in second["prices"]:
        row[1] = 1000 * times
    second |= {"kept": [["tier 0", times]], "at": [[*first["at"][0], 1e-6, 1e-6]]}
    worse = [[3, 2], [4, 6], [0, 0], [3, 2]]  # 5 tasks that need z, instead of 9
    found = fo.verify(written(path, tasks_by_server=worse, objective=None, evidence=[first, second]))
    assert not found.ok and 0.1 < found.gap < 1, str(found)


def test_floors_of_teams_count_for_those_that_rise():
    pair = fo.Instance(
        [[1], [1]], [10], task_limits=[2, None], teams={"team": ["a", "b"]}, guarantees={"a": {"resource1": 2}}
    ).replace(guarantees={"a": {"resource1": 2}, "b": {"resource1": 3}})
    answer = fo.Policy(fo.Leximin(fo.Surplus(fo.OfTeam()))).allocate(pair)
    assert answer.objective == pytest.approx(0.5)  # 8 - 3 of 10; team a stays at its base


@pytest.mark.parametrize("policy", POLICIES[:1] + POLICIES[4:8], ids=lambda policy: repr(policy.objective)[:40])
def test_smaller_tasks_are_not_proved(policy, tmp_path):
    path = saved(policy.allocate(SERVERS), tmp_path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["tasks_by_server"] = (0.999 * np.array(data["tasks_by_server"])).tolist()
    data["objective"] = None
    path.write_text(json.dumps(data), encoding="utf-8")
    assert not fo.verify(path).ok


def test_wrong_prices_of_numbers_prove_less(tmp_path):
    path = saved(POLICIES[0].allocate(SERVERS), tmp_path)
    right = json.loads(path.read_text(encoding="utf-8"))
    levels = right["evidence"][0]["levels"]
    for factor in (0.9, 1.1):
        wrong = [
            {**one, "of_numbers": {t: factor**k * v for k, (t, v) in enumerate(one["of_numbers"].items())}}
            for one in levels
        ]
        data = right | {"evidence": [{**right["evidence"][0], "levels": wrong}]}
        path.write_text(json.dumps(data), encoding="utf-8")
        assert not fo.verify(path).ok
    unknown = [{**levels[0], "numbers": ["d"]}, *levels[1:]]
    path.write_text(json.dumps(right | {"evidence": [{"kind": "number levels", "levels": unknown}]}), encoding="utf-8")
    assert "unknown" in str(fo.verify(path))


def test_level_without_its_last_users_is_not_proved(tmp_path):
    path = saved(POLICIES[0].allocate(SERVERS), tmp_path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["evidence"][0]["levels"] = data["evidence"][0]["levels"][:-1]
    path.write_text(json.dumps(data), encoding="utf-8")
    assert not fo.verify(path).ok


@pytest.mark.parametrize("instance", [POOL, SERVERS], ids=["pool", "servers"])
@pytest.mark.parametrize("alpha", [0.5, 1, 3])
def test_levels_after_alpha_fairness_keep_its_shares_and_are_proved(alpha, instance, tmp_path):
    fair = fo.Policy(fo.AlphaFair(alpha)).allocate(instance)
    answer = fo.Policy((3 * fo.AlphaFair(alpha)).then(fo.Leximin(fo.Tasks()))).allocate(instance)
    np.testing.assert_allclose(answer.tasks, fair.tasks, rtol=1e-6)
    path = saved(answer, tmp_path)
    found = fo.verify(path)
    assert found.ok, str(found)
    assert fo.Allocation.load(path).certificate.ok


def test_users_at_lower_bounds_above_a_level_leave_a_resource_to_the_others(tmp_path):
    """The last user keeps more than the level of the others, which is the largest that the full resource leaves."""
    pool = fo.Instance([[1, 2], [0, 3], [1, 2], [1, 1]], [4, 6], weights=[2, 2, 1, 2])
    answer = fo.Policy(fo.Leximin(fo.Surplus()), [fo.MinTasks({"user4": 3})]).allocate(pool)
    path = saved(answer, tmp_path)
    found = fo.verify(path)
    assert found.ok, str(found)


LIGHT = fo.Instance([[1], [1]], [8], users=["x", "y"], weights=[1, 10], guarantees=[2, 2], teams={"team": ["a", "b"]})


@pytest.mark.parametrize(
    "objective",
    [
        fo.OrderedWeighted((4, 3), fo.Surplus()),
        fo.OrderedWeighted((4, 3), fo.Surplus(fo.OfTeam(weights={"b": 10}))),
        fo.MaxMin(fo.Surplus()) + 2 * fo.Total(fo.Surplus()),
        fo.MaxMin().then(fo.OrderedWeighted((4, 3), fo.Surplus())),
    ],
    ids=str,
)
def test_who_could_rise_but_is_best_left_at_its_base_is_proved_to_be_able_to(objective, tmp_path):
    answer = fo.Policy(objective).allocate(LIGHT)
    path = saved(answer, tmp_path)
    assert fo.verify(path).ok and fo.Allocation.load(path).certificate.ok
    if isinstance(objective, fo.OrderedWeighted):  # 3 units of level of the light user are worth more than 4 of both
        assert answer.tasks == pytest.approx([6, 2])


def test_tasks_at_which_nobody_is_above_its_base_prove_no_rise(tmp_path):
    path = saved(fo.Policy(fo.OrderedWeighted((4, 3), fo.Surplus())).allocate(LIGHT), tmp_path)
    (proof,) = json.loads(path.read_text(encoding="utf-8"))["evidence"]
    cases = {
        "'y' is at its base, and nothing proves": {},
        "do not raise it above it": {"Surplus()": [[6], [2]]},
        "is above its base: 'resource1' on server 0": {"Surplus()": [[6], [3]]},
    }
    for message, rising in cases.items():
        assert message in str(fo.verify(written(path, evidence=[proof | {"rising": rising}])))


def test_numbers_of_teams_stand_in_the_order_of_all_users(tmp_path):
    """The first team's first user takes no part; the other team's limit bounds the smallest total."""
    pool = fo.Instance(
        [[3], [1], [1], [3]],
        [8],
        task_limits=[0, 4, None, None],
        guarantees=[0, 0, 2, 0],
        teams={"team": ["t0", "t1", "t0", "t0"]},
    )
    for objective in (fo.MaxMin(fo.OfTeam()), fo.OrderedWeighted((3, 1), fo.OfTeam())):
        answer = fo.Policy(objective).allocate(pool)
        assert answer.share(fo.OfTeam()) == pytest.approx([0.5, 0.5])
        found = fo.verify(saved(answer, tmp_path))
        assert found.ok, str(found)


@pytest.mark.parametrize(
    ("first", "second", "tasks"),
    [
        (fo.MaxMin(fo.OfTeam(fo.Tasks())), fo.Leximin(fo.Surplus(fo.Tasks())), [4.5, 1.5, 6]),
        (2 * fo.MaxMin(fo.Surplus(fo.OfTeam(fo.Tasks()))), fo.Leximin(fo.Surplus(fo.Tasks())), [5.25, 2.25, 4.5]),
        (fo.MaxMin(fo.Surplus(fo.Tasks())), fo.Leximin(fo.OfTeam(fo.Tasks())), [6, 3, 3]),
    ],
)
def test_leximin_of_numbers_keeps_the_smallest_of_others(
    first: fo.Objective, second: fo.Objective, tasks: list[float], tmp_path: Path
) -> None:
    instance = fo.Instance([[1], [1], [1]], [12], guarantees=[3, 0, 0], teams={"team": ["a", "a", "b"]})
    answer = fo.Policy(first.then(second)).allocate(instance)
    assert answer.tasks == pytest.approx(tasks, rel=1e-6)
    assert fo.verify(saved(answer, tmp_path), instance).ok


def test_leximin_of_numbers_under_a_least_level_of_teams(tmp_path: Path) -> None:
    instance = fo.Instance([[1], [1], [1]], [12], guarantees=[3, 0, 0], teams={"team": ["a", "a", "b"]})
    least = fo.MaxMin(fo.OfTeam(fo.Tasks())) >= 5
    answer = fo.Policy(fo.Leximin(fo.Surplus(fo.Tasks())), [least]).allocate(instance)
    assert answer.tasks == pytest.approx([5, 2, 5], rel=1e-9)
    assert fo.verify(saved(answer, tmp_path), instance).ok


def test_levels_prove_who_rises_only_by_what_an_earlier_tier_may_lose(tmp_path):
    """Three users have their guarantees in the first tier, and rise by less than 1e-9 of what they could have."""
    pool = fo.Instance(
        [[0.00022415330760248962], [0.0016238740359724223], [0.2933758576810883], [0.6087612286744829]],
        [12.82998550242764],
        weights=[0.2636670439, 7.8445533418, 0.1637366796, 0.1141831742],
        guarantees=[4243.38173328631, 1408.1715029867626, 6.692039226968526, 4.120219540585163],
    )
    tiers = fo.AlphaFair(0.5, fo.StandAloneShare()).then(fo.Leximin(fo.Surplus(fo.Tasks())))
    path = saved(fo.Policy(tiers).allocate(pool), tmp_path)
    assert fo.verify(path).ok, str(fo.verify(path))
    data = json.loads(path.read_text(encoding="utf-8"))
    data["tasks_by_server"][1][0] *= 0.999  # and nobody has the rest
    assert not fo.verify(written(path, **data)).ok


def test_a_surplus_of_two_billionths_of_what_its_team_could_have_is_proved(tmp_path):
    """It is left in the objective, and rounding of its base is 1e-8 of it."""
    pool = fo.Instance(
        [
            [2.3043243310021504, 0.40350988351402317],
            [2.2605419625805387, 14.278427464374648],
            [0.07948863142104856, 0.054005733373424215],
        ],
        [344.31642252180575, 12.560730639969157],
        guarantees=[4.718901139258411, 0.45978254216626585, 75.76298723383317],
        teams={"team": ["a", "a", "a"]},
    )
    path = saved(fo.Policy(fo.Leximin(fo.Surplus(fo.OfTeam()))).allocate(pool), tmp_path)
    assert fo.verify(path).ok, str(fo.verify(path))
    value = json.loads(path.read_text(encoding="utf-8"))["objective"]
    assert value == pytest.approx(2e-9, rel=1e-5)
    assert "objective is" in str(fo.verify(written(path, objective=value * 1.01)))


def test_sums_of_products_are_exact_whatever_the_denominators() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        a, b = ([Fraction(int(n), int(d)) for n, d in rng.integers(1, 4, (12, 2))] for _ in range(2))
        pairs = [*zip(a, b, strict=True)]
        assert sum_of_products(pairs) == exact_sum(x * y for x, y in pairs)
    assert sum_of_products([]) == 0
