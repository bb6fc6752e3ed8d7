"""Slurm's Fair Tree as a policy: levels of the tree of accounts, from the root down."""

import json

import fairopt_clusters as fc
import pytest
from fairopt_clusters.policies import Billed, FairTree

import fairopt as fo
from fairopt.cli.commands import named
from fairopt.errors import InvalidBlock, InvalidInstance


def tree(*paths, weights, limits=None, demands=None):
    """Users with the labels parent and team, on 120 cores."""
    return fo.Instance(
        demands or [[1]] * len(paths),
        [120] if demands is None else [120, 80],
        resources=["cpu", "gpu"][: 1 if demands is None else 2],
        teams={"team": [team for _, team in paths], "parent": [parent for parent, _ in paths]},
        weights=weights,
        task_limits=limits,
    )


def test_fairshares_of_parents_come_before_those_of_accounts():
    cluster = tree(("a", "a1"), ("a", "a2"), ("b", "b1"), weights={"a": 1, "b": 3, "a1": 5, "a2": 1, "b1": 100})
    assert FairTree().allocate(cluster).tasks == pytest.approx([25, 5, 90], rel=1e-6)


def test_what_a_parent_leaves_goes_to_the_others_and_what_an_account_leaves_to_its_siblings():
    cluster = tree(("a", "a1"), ("a", "a2"), ("b", "b1"), weights={}, limits=[10, None, None])
    assert FairTree().allocate(cluster).tasks == pytest.approx([10, 50, 60], rel=1e-6)
    cluster = tree(("a", "a1"), ("a", "a2"), ("b", "b1"), weights={}, limits=[10, 10, None])
    assert FairTree().allocate(cluster).tasks == pytest.approx([10, 10, 100], rel=1e-6)


def test_an_account_right_below_the_root_is_a_sibling_of_parents_with_its_fairshare():
    cluster = tree(("a", "a1"), ("a", "a2"), (None, "b"), weights={"a": 1, "b": 3})
    answer = FairTree().allocate(cluster)
    assert answer.tasks == pytest.approx([15, 15, 90], rel=1e-6)
    assert answer.instance.teams["parent"] == ("a", "a", "b (parent)")


def test_a_user_beside_accounts_has_its_own_fairshare_among_them():
    users = [("a", "a1"), ("a", None), ("b", "b1")]
    for weight, tasks in ((1, [30, 30, 60]), (3, [45, 45, 30])):
        answer = FairTree().allocate(tree(*users, weights={"a": weight}))
        assert answer.tasks == pytest.approx(tasks, rel=1e-6)


def test_kinds_of_jobs_of_an_account_share_what_it_gets():
    cluster = tree(("a", "x"), ("a", "x"), ("b", "y"), weights={})
    assert FairTree().allocate(cluster).tasks == pytest.approx([30, 30, 60], rel=1e-6)


def test_no_answer_says_that_users_are_compared():
    cluster = tree(("a", "x"), ("a", "x"), ("b", "y"), weights={"a": 2})
    assert not FairTree().allocate(cluster).certificate.note
    assert "users are compared" in fo.DRF().allocate(cluster).certificate.note


def test_usage_is_what_jobs_are_billed_for_and_gpus_cost_nothing_by_default():
    cluster = tree(("a", "x"), ("b", "y"), weights={}, demands=[[1, 1], [1, 0]])
    assert FairTree().allocate(cluster).tasks == pytest.approx([60, 60], rel=1e-6)
    assert FairTree("max").allocate(cluster).tasks == pytest.approx([48, 72], rel=1e-6)
    assert FairTree("max").name == "Fair Tree (max)" and FairTree().name == "Fair Tree"


def test_without_labels_users_are_equal_and_the_command_line_calls_it_slurm():
    alone = fo.Instance([[2], [1]], [12], resources=["cpu"])
    assert named("slurm")(alone).allocate(alone).tasks == pytest.approx([3, 6])
    assert named("slurm:billing=max")(alone) == FairTree("max")


def test_billing_names_a_resource_that_users_request():
    with pytest.raises(InvalidInstance, match="no resource 'cores'"):
        FairTree("cores").allocate(tree(("a", "x"), weights={}))
    with pytest.raises(InvalidBlock, match="billing is 5"):
        FairTree(5)
    with pytest.raises(InvalidBlock, match="billing is ''"):
        FairTree("")
    with pytest.raises(InvalidBlock, match="largest=True is for weights by resource"):
        FairTree(largest=True)
    with pytest.raises(InvalidBlock, match=r"\{'gpu': 15\} bill nothing that the servers have: cpu"):
        FairTree({"gpu": 15}).allocate(fo.Instance([[2, 0]], [64, 0], resources=["cpu", "gpu"]))


def test_associations_of_slurm_give_the_tree():
    nodes = [{"name": "n1", "cpus": 12, "state": ["IDLE"]}]
    jobs = [
        {"account": name, "job_state": ["PENDING"], "tres_req_str": "cpu=1,node=1", "array_task_string": "1-50"}
        for name in ("x", "y")
    ]
    of = {"user": "", "cluster": "c"}
    above = [{"account": f"p{a}", "parent_account": "root", "shares_raw": n} | of for a, n in (("x", 3), ("y", 1))]
    below = [{"account": a, "parent_account": f"p{a}", "shares_raw": 7} | of for a in ("x", "y")]
    made = fc.read_slurm({"nodes": nodes}, {"jobs": jobs}, associations={"associations": [*above, *below]})
    assert json.loads(json.dumps(FairTree().allocate(made).tasks.round(9).tolist())) == [9, 3]


def test_billed_shares_of_equal_weights_are_one_block_whatever_their_order():
    one, same = Billed({"cpu": 1, "gpu": 15}), Billed({"gpu": 15, "cpu": 1})
    assert (one, hash(one)) == (same, hash(same)) and one != Billed({"cpu": 1})
    assert eval(repr(one), {"Billed": Billed}) == one  # a repr can be pasted back
    assert len({FairTree({"cpu": 1}), FairTree({"cpu": 1}), FairTree("max")}) == 2


def test_commands_see_that_fair_tree_follows_the_rules_of_the_input():
    assert isinstance(FairTree(), fo.online.ByRules) and not isinstance(fo.HDRF(), fo.online.ByRules)
    billed = fo.online.SlurmRules(partitions={"a": fo.online.Partition(billing={"cpu": 2})})
    assert FairTree().by_rules(billed) == FairTree({"cpu": 2}) and FairTree("max").by_rules(billed) == FairTree("max")
