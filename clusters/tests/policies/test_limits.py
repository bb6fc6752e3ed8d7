"""Limits of an instance on what users and teams take together, under the rules of Kueue and of Slurm."""

import pytest
from fairopt_clusters.policies import FairTree, Kueue

import fairopt as fo


def test_the_rule_of_kueue_keeps_limits_and_the_checker_proves_its_answers(tmp_path):
    cluster = fo.Instance(
        [[1, 0], [1, 0], [1, 0], [2, 1]],
        [[10, 4], [10, 4], [20, 0]],
        users=["a", "b", "c", "d"],
        resources=["cpu", "gpu"],
        servers=["s1", "s2", "s3"],
        teams={"team": ["x", "x", "y", "z"]},
        limits=[
            {"name": "x on two", "resource": "cpu", "amount": 6, "of": {"x": ["s1", "s2"]}},
            {"resource": "cpu", "amount": 8, "of": ["x"]},
            {"name": "y", "resource": "cpu", "amount": 3, "of": {"c": ["s3"]}},
        ],
    )
    answer = Kueue().allocate(cluster)
    on = answer.tasks_by_server
    assert on[:2, :2].sum() <= 6 * (1 + 1e-7) and on[2, 2] <= 3 * (1 + 1e-7)
    assert answer.tasks[:2].sum() == pytest.approx(8)
    path = answer.save(tmp_path / "answer.json")
    assert fo.verify(path, cluster).ok and fo.Allocation.load(path).certificate.ok


@pytest.mark.parametrize("mechanism", [Kueue(), FairTree()], ids=repr)
def test_limits_take_the_place_of_constraints(mechanism):
    with pytest.raises(fo.errors.InvalidBlock, match=r"not made of blocks, .* limits of the instance "):
        mechanism.with_constraints(fo.MaxShare({"m": 0.3}, fo.OfTeam()))


def test_explanations_of_what_kueue_shares_name_what_decides():
    pool = fo.Instance(
        [[1]] * 3,
        [64],
        users=["a", "b", "c"],
        resources=["gpu"],
        teams={"team": ["v", "n", "r"]},
        task_limits=[30, None, None],
        guarantees=[30, 16, 16],
    )
    answer = Kueue().allocate(pool)
    for team in ("v", "n", "r"):
        assert "does not decide" not in str(answer.explain(team))
    assert answer.explain("n").sentences[0].startswith("n stops at 17 gpu because gpu is full and the guarantee of ")
