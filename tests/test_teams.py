"""Labels of users, and weights, guarantees and rates that are given by the name of a team."""

import pickle

import numpy as np
import pytest

import fairopt as fo
from fairopt.errors import InvalidInstance
from fairopt.instance.parts import taking_part

DEMANDS, SERVERS = [[1, 2], [2, 1], [1, 1]], [[10, 10], [5, 5]]
NAMES = {"users": ["train", "serve", "parse"], "resources": ["cpu", "gpu"], "servers": ["large", "small"]}
TEAMS = {"team": ["vision", "vision", "nlp"], "org": {"train": "ml", "serve": "ml"}}


def cluster(**arguments):
    return fo.Instance(DEMANDS, SERVERS, **{**NAMES, "teams": TEAMS, **arguments})


FULL = cluster(
    weights={"vision": 3, "train": 2},
    guarantees={"parse": 1, "vision": {"gpu": 2}},
    rates={"train": [1, 0], "vision": 2, "parse": {"small": 3}},
)


def test_teams_are_one_label_or_none_per_user():
    assert dict(FULL.teams) == {"team": ("vision", "vision", "nlp"), "org": ("ml", "ml", None)}
    assert repr(FULL).endswith("guarantees, rates, 2 teams, 1 org)")


def test_weight_of_a_team_is_divided_in_proportion_to_its_members_weights():
    np.testing.assert_allclose(FULL.weights, [2, 1, 1])
    assert FULL.team_weights == {"vision": 3.0}


def test_teams_within_teams_share_the_weight_of_the_outer_one():
    nested = cluster(teams={"team": ["a", "b", "c"], "org": ["o", "o", None]}, weights={"o": 6, "a": 2, "b": 1})
    np.testing.assert_allclose(nested.weights, [4, 2, 1])


def test_changed_weights_keep_those_of_teams_and_members():
    np.testing.assert_allclose(FULL.with_weights({"nlp": 5}).weights, [2, 1, 5])
    np.testing.assert_allclose(FULL.with_weights({"serve": 2}).weights, [1.5, 1.5, 1])


@pytest.mark.parametrize(
    "again", [lambda i: fo.Instance.from_dict(i.to_dict()), lambda i: pickle.loads(pickle.dumps(i))]
)
def test_dict_and_pickle_keep_teams_guarantees_and_rates(again):
    assert again(FULL) == FULL
    assert again(FULL).weights.tolist() == FULL.weights.tolist()


def test_users_that_take_part_keep_their_part_of_the_weight_of_a_team():
    part = taking_part(FULL, [0, 2])
    assert part.weights.tolist() == [2, 1]
    assert part.team_weights == {"vision": 3.0}
    assert pickle.loads(pickle.dumps(part)).weights.tolist() == [2, 1]
    assert FULL.select_users([0, 2]).weights.tolist() == [3, 1]  # the team has one member now
    assert FULL.select_users([2]).team_weights == {}


def test_user_is_not_eligible_where_its_rate_is_zero():
    assert FULL.eligible.tolist() == [[True, False], [True, True], [True, True]]
    np.testing.assert_allclose(FULL.rates, [[1, 0], [2, 2], [1, 3]])


def test_servers_with_different_rates_are_not_merged():
    same = fo.Instance([[1], [1]], [[2], [2]], rates=[[1, 2], [1, 1]])
    assert same.merged().n_servers == 2
    assert same.replace(rates=[[2, 2], [1, 1]]).merged().rates.tolist() == [[2], [1]]
    with pytest.raises(InvalidInstance, match="rates differ by server, so one pool cannot have them"):
        same.pooled()


def test_eligible_and_rates_of_a_team_are_those_of_its_members_but_for_members_named():
    given = cluster(eligible={"vision": ["small"], "serve": ["large"]})
    assert given.eligible.tolist() == [[False, True], [True, False], [True, True]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": {"x": 1}}, "weights names an unknown user or team 'x'; known: train"),
        ({"weights": {"vision": 0}}, "weights of team 'vision' is 0; give a positive"),
        (
            {"task_limits": {"vision": 1}},
            "task_limits names the team 'vision', of 'train', 'serve': kinds of tasks differ",
        ),
        ({"teams": {"team": ["train", "train", "nlp"]}}, "'train' is both a user and a label of 'team'; rename one"),
        (
            {"teams": {"team": ["a", "a", "b"], "org": ["b", "b", "b"]}},
            "'b' is both a label of 'team' and of 'org'; rename one",
        ),
        ({"teams": {"team": ["a", "b"]}}, r"teams\['team'\] has 2 labels for 3 users; give one each"),
        ({"teams": {"team": [1, 2, 3]}}, r"teams\['team'\] of user 'train' is 1; give a name, or None"),
        ({"teams": {"team": {"x": "a"}}}, r"teams\['team'\] names an unknown user 'x'"),
        ({"teams": ["a", "b", "c"]}, "give a dict of labels"),
        (
            {"guarantees": {"vision": 3}},
            "guarantees of team 'vision' is 3; give units by resource, such as {'cpu': 16}",
        ),
        ({"guarantees": {"vision": {"disk": 3}}}, "no resource 'disk'"),
        (
            {"guarantees": {"vision": {"gpu": -3}}},
            "guarantees of team 'vision' for resource 'gpu' is -3; give a finite",
        ),
        ({"guarantees": {"parse": -1}}, "guarantees of user 'parse' is -1.0; give a finite number of tasks"),
        ({"rates": [[0, 0], [1, 1], [1, 1]]}, "user 'train' has a rate of 0 on every server; give it a positive rate"),
        ({"rates": [[1, -1], [1, 1], [1, 1]]}, "rates of user 'train' on server 'small' is -1.0; give a finite"),
        ({"rates": {"train": {"huge": 1}}}, "no server 'huge'"),
        ({"rates": [1, 2, 3]}, r"rates have shape \(3,\); give \(n_users, n_servers\)"),
    ],
)
def test_wrong_teams_guarantees_and_rates_are_refused(arguments, message):
    with pytest.raises(InvalidInstance, match=message):
        cluster(**arguments)


def test_a_team_of_one_user_stands_for_it():
    assert FULL.user_index("nlp") == 2
    assert FULL.with_task_limits({"nlp": 3}).task_limits.tolist() == [np.inf, np.inf, 3]
    assert FULL.replace(task_limits={"nlp": 3, "parse": 2}).task_limits.tolist() == [np.inf, np.inf, 2]
    with pytest.raises(InvalidInstance, match="no user 'vision'"):
        FULL.user_index("vision")


# -- saved answers of teams whose first user runs nothing, and of weights that leave users out ------------------------


@pytest.mark.parametrize("exact", [True, False])
def test_answers_of_a_team_whose_first_user_runs_nothing_are_proved(exact, tmp_path):
    given = {"task_limits": [0, None, None], "teams": {"team": ["a", "b", "a"]}, "weights": {"b": 2}}
    pool = fo.Instance([[1, 1], [2, 1], [5, 2]], [10, 7], **given)
    for objective in (fo.MaxMin(fo.OfTeam()).then(fo.Total()), fo.MaxMin(fo.OfTeam()).then(fo.Total(fo.Tasks()))):
        file = fo.Policy(objective).allocate(pool, exact=exact).save(tmp_path / "answer.json")
        assert fo.verify(file, pool).ok


def test_answers_of_selected_users_in_another_order_are_proved(tmp_path):
    teams = {"team": ["a", "b", "a", "c"]}
    whole = fo.Instance([[1, 1], [2, 1], [5, 2], [1, 3]], [[10, 7], [3, 9]], teams=teams, weights={"b": 2})
    for chosen in ([1, 2, 3], [3, 2, 1, 0]):
        some = whole.select_users(chosen)
        assert dict(some.teams)["team"] == tuple(teams["team"][j] for j in chosen) and some.team_weights == {"b": 2.0}
        assert fo.verify(fo.Policy(fo.MaxMin(fo.OfTeam())).allocate(some).save(tmp_path / "answer.json"), some).ok


def test_names_of_teams_stand_in_the_order_of_their_users_and_empty_ones_last():
    teams = fo.Instance([[1]] * 4, [1], teams={"team": ["a", "b", None, "c"]}).select_users([2, 3, 1]).teams
    assert teams.labelling("team").names == ("c", "b", "a") and teams["team"] == (None, "c", "b")


@pytest.mark.parametrize("counts", [None, [2]])
def test_users_who_take_part_keep_their_weights_where_servers_are_identical(counts):
    servers = [[9], [9]] if counts is None else [[9]]
    limited = {"task_limits": [0, None, None], "teams": {"team": ["a", "b", "a"]}, "weights": {"user3": 2, "a": 1}}
    cluster = fo.Instance([[5], [1], [4]], servers, counts=counts, **limited)
    np.testing.assert_allclose(taking_part(cluster, [1, 2]).merged().weights, [1, 2 / 3])
    np.testing.assert_allclose(taking_part(cluster, [1, 2]).individual().weights, [1, 2 / 3])
    tasks = fo.Policy(fo.MaxMin(fo.Tasks()).then(fo.Total(fo.Tasks()))).allocate(cluster).tasks
    np.testing.assert_allclose(tasks[1:] / [1, 2 / 3], 18 / (1 + 4 * 2 / 3), rtol=1e-6)


def test_a_later_max_min_of_surplus_is_proved_where_earlier_tiers_bind_others(tmp_path):
    for weights in ([2, 1.5], [1, 1]):
        pool = fo.Instance([[0, 1], [6, 1]], [4, 8], weights=weights)
        answer = fo.Policy(fo.MaxMin().then(fo.MaxMin(fo.Surplus(fo.Tasks())))).allocate(pool)
        assert fo.verify(answer.save(tmp_path / "answer.json"), pool).ok


def test_a_kept_level_without_a_price_leaves_no_mixture_in_the_file(tmp_path):
    pool = fo.Instance(
        [[1], [6], [4], [2], [5]],
        [7],
        task_limits=[0, None, None, 1.5, 1.5],
        teams={"team": list("abaaa")},
        weights={"user1": 3, "user2": 3, "user3": 3, "user4": 3, "user5": 1, "a": 3, "b": 2},
        guarantees={"user2": 0.2, "user5": 0.2},
    )
    first, second = fo.MaxMin() + fo.Total(), fo.MaxMin(fo.OfTeam()) + fo.Total()
    answer = fo.Policy(first.then(second).then(fo.MaxMin(fo.OfTeam(fo.Tasks())) + fo.Total())).allocate(pool)
    assert fo.verify(answer.save(tmp_path / "answer.json"), pool).ok
