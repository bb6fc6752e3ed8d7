"""What is left after rounding goes to the team with the smallest share whose task fits."""

from functools import partial

import fairopt_clusters as fc
import numpy as np
import pytest
from fairopt_clusters.quotas.handed_out import handed_out

import fairopt as fo

caps = partial(fc.quotas, caps=True)  # of a moment


def two_servers(**changes):
    given = {
        "users": ["a/8 gpu", "b/1 gpu", "c/1 gpu"],
        "resources": ["gpu"],
        "task_limits": [4, 40, 40],
        "teams": {"team": ["a", "b", "c"]},
    }
    return fo.Instance([[8], [1], [1]], [[8], [8]], **given | changes)


def gpus(quotas):
    return {row.team: row.amount for row in quotas.rows}


def test_gpus_that_a_large_task_leaves_go_to_those_whose_tasks_fit():
    answer = fo.HDRF().allocate(two_servers())
    assert (8 * answer.tasks[0], *answer.tasks[1:]) == pytest.approx([16 / 3] * 3)
    quotas = caps(answer)
    assert gpus(quotas) == {"a": 0, "b": 8, "c": 8}  # a has the smallest share, and no server for its task
    assert "what is left goes to teams with the smallest shares whose tasks fit: 2 of b/1 gpu, 2 of c/1 gpu" in (
        quotas.notes
    )
    assert not any("in no quota" in note for note in quotas.notes)


def test_a_team_that_rounds_to_nothing_is_named_with_its_turn_and_the_guarantee_named_gives_it_one():
    note = next(note for note in caps(fo.HDRF().allocate(two_servers())).notes if "no whole task fits" in note)
    assert note == (
        "no whole task fits, so that the quota is 0 in each run with these tasks: a (0.667 of a task is fair, or one "
        "in 1.5 runs; --guarantee 'a/8 gpu=1' makes this one its turn)"
    )
    owed = caps(fo.HDRF().allocate(two_servers(guarantees={"b/1 gpu": 1})))
    assert any(note.endswith("makes this one its turn, if what others are owed leaves room)") for note in owed.notes)
    turn = caps(fo.HDRF().allocate(two_servers(guarantees={"a/8 gpu": 1})))
    assert gpus(turn) == {"a": 8, "b": 4, "c": 4}


def test_limits_hold_for_what_is_left():
    limited = two_servers(limits=[{"resource": "gpu", "amount": 6, "of": ["b"]}])
    quotas = caps(fo.HDRF().allocate(limited))
    assert gpus(quotas) == {"a": 0, "b": 6, "c": 10}
    on_one = two_servers(limits=[{"resource": "gpu", "amount": 2, "of": {"b": ["server1"], "c": ["server1"]}}])
    placed = handed_out(on_one, np.zeros((3, 2)))
    assert placed.tolist() == [[1, 0], [0, 4], [0, 4]]  # on the first server b and c may use 2 together


def test_task_limits_hold_for_what_is_left():
    quotas = caps(fo.HDRF().allocate(two_servers(task_limits=[4, 6, 7])))
    assert gpus(quotas) == {"a": 0, "b": 6, "c": 7}


def test_the_smallest_share_per_weight_comes_first():
    pool = fo.Instance([[1], [1]], [12], teams={"team": ["a", "b"]}, weights={"a": 3, "b": 1})
    assert handed_out(pool, np.array([[1.0], [1.0]])).sum(axis=1).tolist() == [9, 3]


def test_outer_teams_come_before_inner_ones():
    pool = fo.Instance([[1]] * 3, [12], teams={"org": ["x", "x", "y"], "team": ["a", "b", "c"]})
    assert handed_out(pool, np.zeros((3, 1))).sum(axis=1).tolist() == [3, 3, 6]


def test_users_without_a_team_are_teams_of_their_own():
    pool = fo.Instance([[1]] * 3, [12], teams={"team": ["a", "a", None]})
    found = handed_out(pool, np.zeros((3, 1))).sum(axis=1)
    assert (found[:2].sum(), found[2]) == (6, 6)


def test_of_a_team_the_largest_task_that_fits_comes_first():
    pool = fo.Instance([[1], [2]], [5], task_limits=[9, 9], teams={"team": ["a", "a"]})
    assert handed_out(pool, np.zeros((2, 1))).sum(axis=1).tolist() == [1, 2]


def test_tasks_that_run_are_added_where_they_run():
    cluster = fo.Instance([[1]], [[8], [2]], task_limits=[3], held=[[3, 0]])
    assert handed_out(cluster, np.array([[2.0, 0.0]])).tolist() == [[3, 0]]


def test_demands_by_server_count_where_they_are():
    cluster = fo.Instance([[[4.0], [1.0]], [[1.0], [2.0]]], [[4], [4]], task_limits=[9, 1])
    assert handed_out(cluster, np.array([[1.0, 0.0], [0.0, 1.0]])).tolist() == [[1, 2], [0, 1]]


def test_nothing_is_added_where_more_tasks_may_harm():
    cluster = fo.Instance([[1], [1]], [[8]], task_limits=[3, 8])
    answer = fo.Policy(fo.MaxMin(), constraints=[fo.MaxTasks(2)]).allocate(cluster)
    assert gpus(caps(answer)) == {"user1": 2, "user2": 2}
