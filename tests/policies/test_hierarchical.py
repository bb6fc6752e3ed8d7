"""Hierarchical DRF: numbers of others and by hand, slow versions, teams and weights, guarantees, and saved answers."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.hierarchy import Problem, below_slice, drawn, filled, in_steps

import fairopt as fo
from fairopt.errors import FairoptError, Infeasible, InvalidBlock, InvalidInstance, NotCertified, OutOfDomain
from fairopt.policies.hierarchical import filled_like
from fairopt.properties.misreports.best import verified_misreport
from fairopt.solve.cluster.filling import Tree


def shared(demands: Any, capacities: Any, team: Any, policy: fo.HDRF | None = None, **arguments: Any) -> list[float]:
    """Tasks of a certified answer, rounded."""
    teams = team if isinstance(team, dict) else {"team": team}
    answer = (policy or fo.HDRF()).allocate(fo.Instance(demands, capacities, teams=teams, **arguments))
    assert answer.certificate.ok
    return answer.tasks.round(9).tolist()


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_a_team_of_two_kinds_holds_as_much_as_a_user_of_both():
    pool = [10, 10]
    assert shared([[1, 1], [1, 0], [0, 1]], pool, [None, "b", "b"]) == [5, 5, 5]
    assert shared([[1, 1], [1, 0], [1, 0]], pool, [None, "b", "b"]) == [5, 2.5, 2.5]


def test_tasks_without_gpus_do_not_lower_a_teams_gpus_until_cpus_are_dominant():
    demands, team = [[4, 2], [4, 2], [1, 0]], ["nlp", "vision", "vision"]
    assert shared(demands, [1000, 100], team, task_limits=[None, None, 20]) == [25, 25, 20]
    np.testing.assert_allclose(shared(demands, [1000, 100], team), [300 / 11, 250 / 11, 800], rtol=1e-9)


def test_the_queues_of_volcanos_tests():
    assert shared([[1, 1], [1, 0], [0, 1]], [10, 10], [None, "eng", "eng"]) == [5, 5, 5]
    queues = {"queue": ["q1", "q2", "q3", "q3", "q4"], "child": [None, None, "q31", "q32", None]}
    cpu, memory = [1, 0], [0, 1]
    policy = fo.HDRF(("queue", "child"))
    assert shared([cpu, cpu, cpu, memory, memory], [30, 30], queues, policy) == [10, 10, 10, 15, 15]


def test_the_cohorts_of_kueues_proposal_1714_story_3():
    queues = {"cohort": ["C1", "C1", "C1", "C2"], "queue": ["a", "b", "c", "d"]}
    policy = fo.HDRF(("cohort", "queue"), {"c": 3})
    assert shared([[1]] * 4, [300], queues, policy) == [30, 30, 90, 150]


def test_a_member_that_comes_late_does_not_starve():
    # Bhattacharya et al. 2013: by the sum of what its members hold the team would wait until the others have all memory
    given = shared([[1, 0], [0, 1], [0, 1], [0, 1]], [10, 10], ["t", "t", None, None], guarantees=[5, 0, 0, 0])
    np.testing.assert_allclose(given, [10, 10 / 3, 10 / 3, 10 / 3], rtol=1e-9)


def test_a_member_that_stopped_does_not_hold_down_the_share_of_its_team():
    # Bhattacharya et al. 2013: scaled down to the member at its limit, the team would look small and block the other
    assert shared([[1, 0], [0, 1], [0, 1]], [10, 10], ["t", "t", None], task_limits=[1, None, None]) == [1, 5, 5]


def test_teams_whose_shares_stand_still_rise_together_by_what_they_add():
    # Two CPU users of each team stop at their limits, at a level of 0.15, when its memory user has half as much. Until
    # that catches up no share moves, and the 1.3 GB left are divided by weight.
    demands, team = [[1, 0], [1, 0], [0, 1], [1, 0], [1, 0], [0, 1], [0, 1]], ["a"] * 3 + ["b"] * 3 + [None]
    given = {"weights": {"b": 2}, "guarantees": [0, 0, 0, 0, 0, 0, 8]}
    together = shared(demands, [40, 12], team, task_limits=[3, 3, None, 6, 6, None, 8], **given)
    np.testing.assert_allclose(together, [3, 3, 0.9 + 1.3 / 3, 6, 6, 1.8 + 2.6 / 3, 8], rtol=1e-8)
    # With limits of 5.9 the share of the second team stands still at a lower level, so it goes on alone.
    alone = shared(demands, [40, 12], team, task_limits=[3, 3, None, 5.9, 5.9, None, 8], **given)
    np.testing.assert_allclose(alone, [3, 3, 0.885, 5.9, 5.9, 3.115, 8], rtol=1e-8)


def test_flat_teams_of_one_user_each_are_drf():
    rng = np.random.default_rng(3)
    demands, limits = rng.uniform(0.1, 2, (20, 3)), np.where(rng.random(20) < 0.5, rng.uniform(0, 1, 20), np.inf)
    pool = fo.Instance(demands, [20, 30, 40], task_limits=limits, teams={"team": [f"t{j}" for j in range(20)]})
    np.testing.assert_allclose(fo.HDRF().allocate(pool).tasks, fo.DRF().allocate(pool).tasks, rtol=1e-9, atol=1e-12)


# -- slow versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("servers", "seeds"), [(1, range(30)), (3, range(10))])
def test_random_trees_are_filled_as_by_recursion_in_fractions(servers: int, seeds: range) -> None:
    for seed in seeds:
        instance, problem, policy = drawn(seed, servers)
        answer = policy.allocate(instance)
        exact = [float(x) for x in filled(problem)]
        np.testing.assert_allclose(answer.tasks, exact, rtol=1e-7, atol=1e-9, err_msg=f"seed {seed}")


@pytest.mark.parametrize(("servers", "seeds"), [(1, range(8)), (3, (1, 6))])
def test_users_alike_are_filled_as_by_recursion_over_each(servers: int, seeds: Any) -> None:
    merged = 0
    for seed in seeds:
        instance, problem, policy = drawn(seed, servers, copies=3)
        leaves = Tree.in_floats(instance, policy).leaves
        merged += len(leaves) < instance.n_users
        exact = [float(x) for x in filled(problem)]
        np.testing.assert_allclose(policy.allocate(instance).tasks, exact, rtol=1e-7, atol=1e-9, err_msg=f"seed {seed}")
    assert merged > len(seeds) / 2


def test_a_limit_that_names_one_of_two_users_alike_binds_it_alone(tmp_path: Path) -> None:
    for team in (["a", "b"], ["a", "a"]):
        limit = {"resource": "resource1", "amount": 1, "of": ["user1"]}
        pool = fo.Instance([[1], [1]], [7], teams={"team": team}, limits=[limit])
        answer = fo.HDRF().allocate(pool)
        assert answer.tasks.round(9).tolist() == [1, 6] and fo.verify(answer.save(tmp_path / "answer.json")).ok


@pytest.mark.parametrize("servers", [1, 2])
def test_users_alike_in_different_limits_are_filled_as_by_recursion_over_each(servers: int, tmp_path: Path) -> None:
    compared = 0
    for seed in range(14):
        instance, problem, policy = drawn(seed, servers, copies=3)
        rng, n = np.random.default_rng(seed), instance.n_users
        i, some = int(rng.integers(instance.n_resources)), rng.choice(n, 2, replace=False).tolist()
        amount = float(0.125 * rng.integers(1, 4) * instance.total_capacities[i])
        where = [[j in some and (s == 0 or j == some[0]) for s in range(servers)] for j in range(n)]
        of = {instance.users[j]: [instance.servers[s] for s in range(servers) if where[j][s]] for j in some}
        limit = {"resource": instance.resources[i], "amount": amount, "of": of}
        problem = dataclasses.replace(problem, together=[(i, amount, where)])
        if n > 9 or not problem.fits():
            continue
        compared += 1
        answer = policy.allocate(instance.replace(limits=[limit]))
        exact = [float(x) for x in filled(problem)]
        np.testing.assert_allclose(answer.tasks, exact, rtol=1e-7, atol=1e-9, err_msg=f"seed {seed}")
        assert fo.verify(answer.save(tmp_path / "answer.json")).ok, seed
    assert compared > 5


@pytest.mark.parametrize(("servers", "seeds"), [(1, range(2, 26, 2)), (3, range(1300, 1312, 4))])
def test_random_trees_with_floors_are_filled_as_by_recursion_and_refused_only_if_they_do_not_fit(
    servers: int, seeds: range
) -> None:
    for seed in seeds:
        instance, problem, policy = drawn(seed, servers, floors=True)
        if not problem.fits():
            with pytest.raises(Infeasible):
                policy.allocate(instance)
            continue
        exact = [float(x) for x in filled(problem)]
        np.testing.assert_allclose(policy.allocate(instance).tasks, exact, rtol=1e-7, atol=1e-9, err_msg=f"seed {seed}")


@pytest.mark.parametrize(("servers", "seeds"), [(1, (2, 11, 16, 21, 23)), (3, (15, 21, 29, 49))])
def test_users_alike_of_teams_with_floors_are_filled_as_by_recursion_over_each_and_proved(
    servers: int, seeds: Any, tmp_path: Path
) -> None:
    for seed in seeds:
        instance, problem, policy = drawn(seed, servers, floors=True, copies=3)
        leaves = Tree.in_floats(instance, policy).leaves
        exact, without = filled(problem), filled(dataclasses.replace(problem, guarantees=()))
        assert len(leaves) < instance.n_users and exact != without
        answer = policy.allocate(instance)
        np.testing.assert_allclose(answer.tasks, list(map(float, exact)), rtol=1e-7, atol=1e-9, err_msg=f"seed {seed}")
        assert fo.verify(answer.save(tmp_path / "answer.json"), instance).ok


@pytest.mark.parametrize("seed", range(4))
def test_random_trees_are_filled_as_in_small_steps(seed: int) -> None:
    _, problem, _ = drawn(seed)
    step = 2e-3
    most = [float(max(row)) for row in problem.ratios]
    for exact, slow, share in zip(filled(problem), in_steps(problem, step), most, strict=True):
        assert abs(float(exact) - slow) * share <= 12 * step


# -- properties --------------------------------------------------------------------------------------------------------


def test_every_team_and_user_has_its_slice_of_a_pool_and_nothing_is_left():
    for seed in range(1, 90, 3):  # without guarantees
        instance, problem, policy = drawn(seed)
        answer = policy.allocate(instance)
        assert below_slice(problem, answer.tasks.tolist()) <= 1e-9, seed
        assert fo.check(answer, ["pareto"]).ok, seed


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_a_member_may_gain_by_a_lie() -> None:
    demands, lie, room = [[2, 1, 1], [1, 0, 3], [3, 2, 0]], [3, 3, 0], [10, 9, 4]
    tree, no_limits = (1, [0, (1, [1, 2])]), [None] * 3
    truth = filled(Problem(demands, [room], tree, [1] * 3, no_limits))
    lied = filled(Problem([*demands[:2], lie], [room], tree, [1] * 3, no_limits))
    assert truth[2] == Fraction(41, 24) and lied[2] == Fraction(322, 183)  # true demands are at most the false ones
    pool = fo.Instance(demands, room, teams={"team": [None, "a", "a"]})
    found = verified_misreport(fo.HDRF(), pool, 2, lie)
    assert found is not None and found.gain == pytest.approx(float(lied[2] / truth[2] - 1))


def test_a_member_may_gain_by_posing_as_two() -> None:
    def tasks(demands: list[list[int]]) -> list[float]:
        teams = {"team": [None] + ["a"] * (len(demands) - 1)}
        return fo.HDRF().allocate(fo.Instance(demands, [3, 4], teams=teams)).tasks.tolist()

    assert tasks([[1, 2], [1, 1]]) == pytest.approx([8 / 7, 12 / 7])
    assert tasks([[1, 2], [1, 0], [0, 1]]) == pytest.approx([1, 2, 2])


def test_user_without_a_label_is_a_child_of_the_team_outside_it():
    teams = {"org": ["o", "o", "o", None], "team": ["a", "a", None, None]}
    assert shared([[1]] * 4, [16], teams, fo.HDRF(("org", "team"))) == [2, 2, 4, 8]
    assert shared([[1]] * 4, [12], teams, fo.HDRF("org")) == [2, 2, 2, 6]


def test_weights_of_the_mechanism_win_over_those_of_the_instance():
    given = {"weights": {"a": 3, "user1": 2}, "users": ["user1", "user2", "user3"]}
    team = ["a", "a", None]
    assert shared([[1]] * 3, [12], team, **given) == [6, 3, 3]
    assert shared([[1]] * 3, [18], team, fo.HDRF(weights={"a": 1, "user3": 2}), **given) == [4, 2, 12]


def test_weights_that_leaves_read_are_not_divided_among_a_team():
    # DRF divides the team's weight by 2 and 1; the tree has the team's weight, and below it 2 and 1
    assert shared([[1]] * 3, [16], ["a", "a", None], weights={"a": 3, "user1": 2}) == [8, 4, 4]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fo.HDRF(()), InvalidBlock, "give labels of users, the outermost first"),
        (lambda: fo.HDRF(weights={"a": 0}), InvalidBlock, "the weight of 'a' is 0; give a positive"),
        (lambda: fo.HDRF(weights=[1]), InvalidBlock, "give a dict by name"),
        (lambda: shared([[1]], [1], {}), InvalidInstance, "users have no label 'team'"),
        (lambda: shared([[1]], [1], ["a"], fo.HDRF("org")), InvalidInstance, "users have no label 'org'; known: team"),
        (
            lambda: shared([[1]], [1], ["a"], fo.HDRF(weights={"b": 1})),
            InvalidInstance,
            "weights of HDRF name an unknown team or user 'b'",
        ),
        (
            lambda: shared([[1], [1]], [1], {"org": ["o", "p"], "team": ["a", "a"]}, fo.HDRF(("org", "team"))),
            InvalidInstance,
            r"team 'a' is in 'o' and in 'p' \(user 'user2'\); rename one",
        ),
        (lambda: shared([[[1], [2]]], [[1], [1]], ["a"]), OutOfDomain, "demands that differ by server"),
        (
            lambda: shared([[1]] * 2, [1], {"org": ["o"] * 2, "team": ["a", "b"]}, guarantees={"o": {"resource1": 1}}),
            InvalidInstance,
            r"the guarantee of 'o' is of no team of HDRF\(by=\('team',\)\); give by=\('org', 'team'\), or leave it out",
        ),
        (
            lambda: shared([[1], [1]], [4], ["a", "b"], guarantees=[3, 2]),
            Infeasible,
            "guarantees do not fit: those of users need 5 resource1, 1 more than there are",
        ),
        (
            lambda: shared([[1], [1]], [4], ["a", "b"], guarantees={"a": {"resource1": 3}, "user2": 2}),
            Infeasible,
            "only 0.8 times as much for team .a. .3 resource1. and user .user2. .2 tasks.: there is too little",
        ),
    ],
)
def test_wrong_arguments_are_refused(make: Any, error: type[FairoptError], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_team_whose_users_have_no_tasks_leaves_its_part_to_others():
    assert shared([[1]] * 3, [12], ["a", "b", "b"], task_limits=[0, None, None]) == [0, 6, 6]
    assert shared([[1]], [12], ["a"], task_limits=[0]) == [0]


# -- guarantees --------------------------------------------------------------------------------------------------------


def test_users_start_at_their_guarantees_and_rise_from_there():
    assert shared([[1]] * 2, [12], ["a", "b"], guarantees=[8, 0]) == [8, 4]
    assert shared([[1]] * 2, [12], ["a", "b"], guarantees=[8, 0], task_limits=[3, None]) == [3, 9]


def test_floor_of_a_team_is_filled_first_by_its_lowest_members():
    found = shared([[1]] * 3, [12], ["a", "a", "b"], guarantees={"a": {"resource1": 9}, "user1": 5})
    assert found == [5, 4, 3]


def test_floor_of_a_team_is_at_most_what_its_tasks_can_use_within_it():
    demands, names = [[4, 1], [1, 0], [1, 0]], {"resources": ["cpu", "gpu"]}
    team = ["a", "a", "b"]
    floors = {"a": {"gpu": 16, "cpu": 10}}  # 10 CPUs are 2.5 tasks with a GPU
    found = shared(demands, [100, 16], team, guarantees=floors, **names)
    assert 4 * found[0] + found[1] == pytest.approx(50) and found[0] >= 2.5
    assert shared(demands, [100, 16], team, guarantees={"a": {"gpu": 16}}, **names) == [16, 0, 36]
    idle = shared(demands, [100, 16], team, guarantees={"a": {"gpu": 16}}, task_limits=[3, 0, None], **names)
    assert idle == [3, 0, 88]


# The second user of a may not run at all, as all memory is guaranteed to b.
MIXED = fo.Instance(
    [[1, 0], [1, 1], [0, 1]],
    [10, 10],
    resources=["cpu", "memory"],
    teams={"team": ["a", "a", "b"]},
    guarantees={"a": {"cpu": 5}, "b": {"memory": 10}},
)


def test_floors_that_fit_only_by_some_members_of_a_team_are_filled_by_these():
    assert fo.HDRF().allocate(MIXED).tasks.round(9).tolist() == [10, 0, 10]
    given = {"eligible": [[True, False], [True, True], [True, True]], "guarantees": {"a": {"r": 5}, "b": {"s": 10}}}
    split = shared([[1, 0], [1, 1], [0, 1]], [[6, 4], [4, 6]], ["a", "a", "b"], resources=["r", "s"], **given)
    assert split == [6, 0, 10]


def test_floor_that_is_reached_with_a_limit_ends_the_filling_of_floors():
    # user1 is at its limit just when the floor is reached: then user3, which has nothing, rises before user2
    floor = {"a": {"resource1": 4}}
    assert shared([[1]] * 3, [8], ["a", "a", "b"], task_limits=[2, None, None], guarantees=floor) == [2, 2, 4]


# -- servers -----------------------------------------------------------------------------------------------------------


def test_user_that_cannot_run_elsewhere_stops_without_saturating_a_resource():
    # While all rise, the second team has 4.5 CPUs, of 28, for each of its GPUs, of 8: its share is of CPUs. So the GPUs
    # are divided 9 to 7, and the CPUs without GPUs are left to its second user.
    teams = {"team": ["a", "b", "b"]}
    instance = fo.Instance([[1, 1], [1, 1], [1, 0]], [[8, 8], [20, 0]], teams=teams)
    np.testing.assert_allclose(fo.HDRF().allocate(instance).tasks, [4.5, 3.5, 20], rtol=1e-9)


WAITING = fo.Instance(
    [[1]] * 3,
    [[10], [10]],
    teams={"team": ["a", "b", "c"]},
    eligible=[[True, False], [True, False], [False, True]],
    guarantees=[0, 6, 0],
)


def test_user_that_waits_is_stopped_by_others_on_its_server():
    np.testing.assert_allclose(fo.HDRF().allocate(WAITING).tasks, [4, 6, 10], rtol=1e-12)


def test_users_alike_wait_as_one_and_their_room_is_proved(tmp_path: Path) -> None:
    place = [[True, False]] * 3 + [[False, True]]
    both = fo.Instance(
        [[1]] * 4,
        [[10], [10]],
        teams={"team": ["a", "b", "b", "c"]},
        eligible=place,
        guarantees=[0, 2, 4, 0],
        weights=[1, 1, 2, 1],
    )
    answer = fo.HDRF().allocate(both)
    np.testing.assert_allclose(answer.tasks, [4, 2, 4, 10], rtol=1e-12)
    file = answer.save(tmp_path / "answer.json")
    assert json.loads(file.read_text())["evidence"][0]["placements"]
    assert fo.verify(file).ok


def test_resource_that_is_full_when_a_team_catches_up_stops_its_users_at_once():
    # All memory is in use just when the first team has risen to the second's level; only user3 needs none.
    eligible = [[False, True], [True, False], [True, False], [True, True]]
    found = shared(
        [[1, 1], [0, 1], [2, 0], [1, 1]],
        [[16, 6], [10, 6]],
        ["b", "a", "a", "b"],
        eligible=eligible,
        guarantees=[0, 6, 0, 0],
    )
    assert found == [3, 6, 8, 3]


def test_identical_servers_are_one_row():
    rows = fo.Instance([[1, 2], [2, 1], [1, 0]], [[6, 6], [6, 6], [4, 9]], teams={"team": ["a", "b", "b"]})
    merged = fo.Instance([[1, 2], [2, 1], [1, 0]], [[6, 6], [4, 9]], counts=[2, 1], teams={"team": ["a", "b", "b"]})
    np.testing.assert_allclose(fo.HDRF().allocate(rows).tasks, fo.HDRF().allocate(merged).tasks, rtol=1e-9)


# -- proofs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("servers", [1, 3])
def test_saved_answers_are_proved_by_the_levels_at_events(servers: int, tmp_path: Path) -> None:
    for seed in range(0, 24, 3):
        instance, _, policy = drawn(seed, servers, copies=1 if seed % 2 else 3)
        answer = policy.allocate(instance)
        file = answer.save(tmp_path / "answer.json")
        found = fo.verify(file, instance)
        assert found.ok and "by the levels at" in found.statement, found
        loaded = fo.Allocation.load(file)
        assert loaded.certificate.ok and loaded.policy == policy


def changed(file: Path, **values: Any) -> Path:
    """A copy of a saved answer with other values."""
    copy = file.with_name("changed.json")
    copy.write_text(json.dumps(json.loads(file.read_text()) | values))
    return copy


def test_other_tasks_are_not_proved(tmp_path: Path) -> None:
    pool = fo.Instance([[4, 2], [4, 2], [1, 0]], [1000, 100], teams={"team": ["nlp", "vision", "vision"]})
    file = fo.HDRF().allocate(pool).save(tmp_path / "answer.json")
    found = fo.verify(changed(file, tasks_by_server=[[25], [25], [800]]))
    assert not found.ok and "proves only a gap of 1.0e-01" in str(found)


@pytest.mark.parametrize("servers", [1, 2])
def test_users_alike_with_other_parts_of_their_sum_are_not_proved(servers: int, tmp_path: Path) -> None:
    given = {"teams": {"team": ["a", "a", None]}, "weights": [1, 2, 1], "task_limits": [0.3, 0.3 * 2, None]}
    instance = fo.Instance([[1, 0], [1, 0], [1, 1]], [[6, 6], [6, 3]][:servers], **given)
    answer = fo.HDRF().allocate(instance)
    file = answer.save(tmp_path / "answer.json")
    assert fo.verify(file).ok
    tasks = answer.tasks_by_server.copy()
    moved = tasks[:2].sum(axis=0) / 2
    found = fo.verify(changed(file, tasks_by_server=[moved.tolist(), moved.tolist(), tasks[2].tolist()]))
    assert not found.ok


@pytest.mark.parametrize(
    "differs",
    [
        {"task_limits": [1, 1]},
        {"guarantees": [0.1, 0.1]},
        {"eligible": [[1, 1], [0, 1]]},
        {"teams": {"team": ["a", None]}},
    ],
    ids=lambda one: next(iter(one)),
)
def test_leaves_that_differ_in_a_number_per_weight_or_place_are_two(differs: Any) -> None:
    alike = {"weights": [1, 2], "teams": {"team": ["a", "a"]}, "task_limits": [1.1, 1.1 * 2]}
    for given, leaves in ((alike, 1), (alike | differs, 2)):
        instance = fo.Instance([[1], [1]], [[9], [5]], **given)
        assert len(Tree.in_floats(instance, fo.HDRF()).leaves) == leaves


def test_evidence_that_stops_users_too_early_is_refused(tmp_path: Path) -> None:
    file = fo.HDRF().allocate(WAITING).save(tmp_path / "answer.json")
    proof = json.loads(file.read_text())["evidence"][0]
    assert proof["rows"] and proof["placements"]
    for worse in (proof | {"rows": []}, proof | {"placements": []}, {"kind": "filling", "why": "none"}):
        found = fo.verify(changed(file, evidence=[worse]))
        assert not found.ok
    assert not fo.Allocation.load(changed(file, evidence=[])).certificate.ok


def test_floors_that_are_not_proved_are_refused(tmp_path: Path) -> None:
    pool = fo.Instance(
        [[4, 1], [1, 0], [1, 0]],
        [100, 16],
        resources=["cpu", "gpu"],
        teams={"team": ["a", "a", "b"]},
        guarantees={"a": {"gpu": 16, "cpu": 10}},
    )
    file = fo.HDRF().allocate(pool).save(tmp_path / "answer.json")
    assert fo.verify(file).ok
    proof = json.loads(file.read_text())["evidence"][0]
    proof["floors"]["a"]["1"]["tasks"] = []
    found = fo.verify(changed(file, evidence=[proof]))
    assert not found.ok and "the floor of 'a' of 'gpu' is not proved" in str(found)


def test_floors_by_a_mix_of_members_are_proved_by_prices_of_floors(tmp_path: Path) -> None:
    file = fo.HDRF().allocate(MIXED).save(tmp_path / "answer.json")
    proof = json.loads(file.read_text())["evidence"][0]
    assert any(isinstance(where, str) for row in proof["rows"] for where, _, _ in row)
    assert fo.verify(file, MIXED).ok
    found = fo.verify(changed(file, evidence=[proof | {"rows": []}]))
    assert not found.ok and "a row is full twice, or unknown" in str(found)
    without = [state | {"full": [r for r in state["full"] if r < 2]} for state in proof["states"]]
    found = fo.verify(changed(file, evidence=[proof | {"rows": [], "states": without}]))
    assert not found.ok


def test_a_filling_that_drops_weights_of_teams_is_not_certified(monkeypatch: Any) -> None:
    pool = fo.Instance([[4, 2], [4, 2], [1, 0]], [1000, 100], teams={"team": ["nlp", "vision", "vision"]})
    pool = pool.with_weights({"vision": 3})
    np.testing.assert_allclose(fo.HDRF().allocate(pool).tasks, [100 / 7, 250 / 7, 800], rtol=1e-12)
    right = Tree.in_floats

    def wrong(instance: fo.Instance, policy: fo.HDRF) -> Tree:
        tree = right(instance, policy)
        return tree._replace(weights=[1.0] * len(tree.weights))

    monkeypatch.setattr(Tree, "in_floats", wrong)
    with pytest.raises(NotCertified) as refused:
        fo.HDRF().allocate(pool)
    assert refused.value.best is not None
    np.testing.assert_allclose(refused.value.best.tasks, [300 / 11, 250 / 11, 800], rtol=1e-12)
    assert "level of its team" in refused.value.best.certificate.note


def test_evidence_lists_what_stopped_users():
    pool = fo.Instance(
        [[4, 2], [4, 2], [1, 0]],
        [1000, 100],
        teams={"team": ["nlp", "vision", "vision"]},
        task_limits=[None, None, 20],
        resources=["cpu", "gpu"],
    )
    events = fo.HDRF().allocate(pool).evidence[0]["events"]
    assert [(e["cause"], e["of"], e["stopped"]) for e in events] == [
        ("limit", "user3", ["user3"]),
        ("full", "gpu", ["user1", "user2"]),
    ]
    assert [e["level"] for e in events] == pytest.approx([0.024, 0.5], abs=1e-3)


def test_time_limit_holds():
    rng = np.random.default_rng(1)
    pool = fo.Instance(
        rng.uniform(1, 2, (50_000, 2)), [100, 100], teams={"team": [f"t{j % 50}" for j in range(50_000)]}
    )
    with pytest.raises(NotCertified, match="time limit"):
        fo.HDRF().allocate(pool, time_limit=1e-3)


def test_malformed_evidence_is_no_proof_and_no_crash(tmp_path):
    teams = {"team": ["a", "a", "b"]}
    given = fo.Instance([[1], [1], [1]], [9], teams=teams, guarantees={"a": {"resource1": 6}})
    file = fo.HDRF().allocate(given).save(tmp_path / "answer.json")
    assert fo.Allocation.load(file).certificate.ok
    held = json.loads(file.read_text())
    held["evidence"][0]["states"][0]["levels"] = {"nobody": 1.0}
    file.write_text(json.dumps(held))
    again = fo.Allocation.load(file).certificate
    assert not again.ok and "malformed" in again.note


def test_guarantees_of_all_tasks_leave_nothing_to_fill():
    for capacity, guarantee in ((8, 8), (9, 8), (8, 4)):
        pool = fo.Instance([[1, 1]], [32, capacity], task_limits=[8], guarantees=[guarantee], teams={"team": ["a"]})
        assert fo.HDRF().allocate(pool).tasks.tolist() == [8]


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_from_rows_of_a_like_instance_is_the_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    eligible = rng.random((9, 3)) < 0.6
    eligible[np.arange(9), rng.integers(3, size=9)] = True
    demands, capacities = rng.uniform(1, 9, (9, 2)), rng.uniform(40, 90, (3, 2))
    teams = {"team": [f"t{k % 3}" for k in range(9)]}
    cluster = fo.Instance(demands, capacities, eligible=eligible, teams=teams)
    answer = fo.HDRF().allocate(cluster)
    more = cluster.with_capacities(cluster.capacities * [[1.3, 1], [1, 1], [1, 0.9]])
    near = filled_like(answer, more)
    assert near.certificate.ok
    np.testing.assert_allclose(near.tasks, fo.HDRF().allocate(more).tasks, rtol=1e-9, atol=1e-12)
