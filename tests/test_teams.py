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
