"""Slurm's accounts as teams: the tree above them, fairshares, and types of GPUs as placement."""

import json

import numpy as np
import pytest
from fairopt_clusters import read_slurm
from slurm_jobs import numbered

import fairopt as fo
from fairopt.errors import InvalidInstance


def node(name, **fields):
    return {"name": name, "cpus": 64, "real_memory": 262144, "state": ["IDLE"]} | fields


def job(**fields):
    return {"job_id": 7, "account": "bio", "job_state": ["PENDING"], "tres_req_str": "cpu=4,mem=16G,node=1"} | fields


def said(instance, words):
    return [note for note in instance.notes if words in note]


def account(name, parent="root", shares=1, **fields):
    return {"account": name, "user": "", "cluster": "c", "parent_account": parent, "shares_raw": shares} | fields


TREE = [
    account("root", "", 1),
    account("science", shares=30),
    account("life", "science", {"set": True, "infinite": False, "number": 3}),
    account("bio", "life", 2),
    account("bio", user="ann", parent="", shares=7),
    account("med", "life", 1),
    account("phys", "science", 0x7FFFFFFF),
    account("industry", shares=10),
]


def cluster(*accounts, tree=TREE, **options):
    jobs = [job(job_id=k, account=name) for k, name in enumerate(accounts)]
    return read_slurm({"nodes": [node("n1")]}, {"jobs": jobs}, associations={"associations": tree}, **options)


def test_accounts_above_are_labels_that_are_the_same_for_all_and_fairshares_are_weights():
    made = cluster("bio", "med", "phys", "industry")
    by_team = {team: tuple(labels) for team, *labels in zip(*(made.teams[f"{by}"] for by in made.teams), strict=True)}
    assert list(made.teams) == ["team", "account", "account2"]
    assert by_team == {
        "bio": ("life", "science"),
        "med": ("life", "science"),
        "phys": (None, "science"),
        "industry": (None, None),
    }
    assert made.team_weights == {"bio": 2, "med": 1, "industry": 10, "science": 30, "life": 3}
    assert said(made, "1 queue with the fairshare of the parent, which is not modelled (phys: counts as 1)")
    assert made.teams.outermost_first == ("account2", "account", "team")


def test_jobs_of_an_account_above_others_are_members_of_it():
    made = cluster("life", "bio")
    assert made.teams["team"] == ("bio", None)
    assert (made.teams["account"], made.teams["account2"]) == (("life", "life"), ("science", "science"))
    assert said(made, "1 account with tasks of its own and accounts below: these tasks are members beside those")


def test_accounts_that_are_not_in_the_tree_are_right_below_the_root():
    made = cluster("bio", "new")
    assert made.teams["account2"] == ("science", None)
    assert said(made, "1 account that is not in associations counts as right below the root (new)")


def test_an_account_that_is_only_named_as_a_parent_is_not_in_the_tree_and_has_no_weight():
    made = cluster("bio", "lab", tree=[account("bio", "lab", 2)])
    assert made.teams["account"] == ("lab", "lab")
    assert made.team_weights == {"bio": 2}
    assert said(made, "1 account that is not in associations counts as right below the root (lab)")


def test_accounts_without_a_fairshare_are_left_out():
    made = cluster("bio", "phys", tree=[*TREE[:6], account("phys", "science", 0)])
    assert made.teams["team"] == ("bio",)
    assert said(made, "1 job of accounts with a fairshare of 0 was left out (1)")


def test_limits_of_accounts_count_unless_contracts_are_listed_and_fairshares_of_users_do_not(tmp_path):
    limited = {"tres": {"total": [{"type": "cpu", "count": 8}]}}
    users = [account("med", user=name, parent="", shares=n) for name, n in (("ann", 1), ("bob", 2), ("eve", 2))]
    tree = [*TREE[:3], account("bio", "life", 2, max=limited), account("med", "life"), *users]
    made = cluster("bio", "med", tree=tree)
    assert [(one.resource, one.amount) for one in made.limits] == [("cpu", 8.0)]
    assert said(made, "1 queue with different fairshares of users, which is not modelled (med: they do not count)")
    assert not said(cluster("bio", "med"), "limit") and not said(cluster("bio", "med"), "of users")
    files = dict(nodes=[node("n1")], jobs=[job(), job(job_id=8, account="med")], associations=tree)
    for name, entries in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({name: entries}))
    (tmp_path / "contracts.csv").write_text("account,resource,promised,limit\nmed,cpu,4,12\n")
    made = fo.read(tmp_path)
    assert [(one.resource, one.amount) for one in made.limits] == [("cpu", 12.0)] and made.guarantees.tolist() == [0, 1]
    assert said(
        made, "1 limit (GrpTRES) that is not in contracts.csv is of a moment: not counted in what is fair (bio: cpu)"
    )
    (tmp_path / "contracts.csv").write_text("account,resource,limit\nmad,gpu,1\n")
    with pytest.raises(InvalidInstance, match="line 2, column 'account': there is no account 'mad'; did you mean"):
        fo.read(tmp_path)


def test_other_owners_have_no_tree():
    made = cluster("bio", "med", users="qos")
    assert list(made.teams) == ["team"]


def test_a_folder_with_associations_is_read(tmp_path):
    documents = {
        "nodes": {"nodes": [node("n1")]},
        "jobs": {"jobs": [job(account="bio")]},
        "associations": {"associations": TREE},
    }
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    made = fo.read(tmp_path)
    assert made == cluster("bio") and made.teams["account2"] == ("science",)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"associations": 5}, "associations is 5; give the output of sacctmgr show associations --json"),
        ({}, "associations is missing; give the output of sacctmgr"),
        ({"associations": [account("bio", shares=-1)]}, r"associations\[0\].shares_raw is -1; give a whole number"),
        (
            {"associations": [account("bio"), account("bio", "x", cluster="d")]},
            'the account "bio" differs between the clusters "c" and "d"; give the associations of one',
        ),
        (
            {"associations": [account("bio", "x"), account("x", "bio")]},
            "the queue 'bio' is in a circle of parents, bio -> x -> bio",
        ),
    ],
)
def test_wrong_associations_are_refused(tree, message):
    with pytest.raises(InvalidInstance, match=message):
        read_slurm({"nodes": [node("n1")]}, {"jobs": [job(account="bio")]}, associations=tree)


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("sshare.txt", "Account|User|RawShares|RawUsage\nroot|||5\n bio||1|some\n", "sshare.txt: line 3.usage is"),
        (
            "sshare.json",
            '{"shares": [{"name": "root"}, {"name": "bio", "shares": 1, "usage": "some"}]}',
            r"sshare.json: shares\[1\].usage is",
        ),
    ],
)
def test_wrong_usage_is_named_with_its_place_in_the_file(file, text, place, tmp_path):
    (tmp_path / file).write_text(text)
    with pytest.raises(InvalidInstance, match=place):
        read_slurm({"nodes": [node("n1")]}, {"jobs": [job(account="bio")]}, associations=tmp_path / file)


# -- types of GPUs --------------------------------------------------------------------------------------------


def test_a_type_is_a_matter_of_placement():
    nodes = [node(f"l{k}", gres="gpu:l40s:8", partitions=["l40s"]) for k in range(5)]
    nodes += [node(f"a{k}", gres="gpu:a100:8", partitions=["a100"]) for k in range(5)]
    gpus = {"tres_req_str": "cpu=1,node=1", "array_task_string": "1-100"}
    jobs = [
        job(account="typed", partition="l40s", tres_per_node="gpu:l40s:1", **gpus),
        job(account="any", partition="l40s", tres_per_node="gpu:1", **gpus),
    ]
    made = read_slurm({"nodes": nodes}, {"jobs": numbered(jobs)})
    assert made.resources == ("cpu", "gpu") and made.eligible.sum(axis=1).tolist() == [1, 1]
    np.testing.assert_allclose(fo.DRF().allocate(made).tasks, [20, 20], rtol=1e-6)
    one = read_slurm({"nodes": nodes}, {"jobs": numbered(each | {"account": "bio"} for each in jobs)})
    assert (one.n_users, one.task_limits.tolist()) == (1, [200])


def test_a_type_is_a_resource_of_its_own_where_one_server_has_two():
    nodes = [node("two", gres="gpu:v100:4,gpu:t4:2"), node("one", gres="gpu:v100:8")]
    jobs = [job(tres_per_node="gpu:v100:2"), job(account="cfd", tres_per_node="gpu:1")]
    made = read_slurm({"nodes": nodes}, {"jobs": numbered(jobs)}, merge=False)
    assert made.resources == ("cpu", "memory", "gpu", "gpu:v100")
    assert made.demands[:, 2:].tolist() == [[2, 2], [1, 0]]
    assert made.eligible.all()
    assert made.users == ("bio/2 gpu", "cfd/1 gpu")  # what only limits is not named


def one_each(*jobs, nodes, **options):
    listed = numbered(job(tres_req_str="cpu=1,node=1", **one) for one in jobs)
    return read_slurm({"nodes": nodes}, {"jobs": listed}, **options)


def fair(made, resource):
    """Units of each team under the default policy."""
    answer = fo.HDRF().allocate(made)
    used = answer.tasks[:, None] * made.demands
    i = made.resource_index(resource)
    return {team: float(used[[t == team for t in made.teams["team"]], i].sum()) for team in made.teams["team"]}


@pytest.mark.parametrize("elsewhere", [None, "gpu:a100:2,gpu:1g.10gb:14", "gpu:a100:1,gpu:t4:1", "gpu:1g.10gb:14"])
def test_a_request_for_a_type_costs_as_much_as_one_without_whatever_stands_in_other_partitions(elsewhere):
    nodes = [node("g1", gres="gpu:a100:8", partitions=["p"])]
    nodes += [node("m1", gres=elsewhere, partitions=["q"])] if elsewhere else []
    of = {"array_task_string": "1-16", "partition": "p"}
    jobs = ({"account": "bio", "tres_per_node": "gpu:1"}, {"account": "vis", "tres_per_node": "gpu:a100:1"})
    made = one_each(*(one | of for one in jobs), nodes=nodes)
    assert fair(made, "gpu") == pytest.approx({"bio": 4, "vis": 4}, rel=1e-9)


def test_a_type_sets_no_share_beside_a_server_that_drains_either():
    nodes = [node("g1", gres="gpu:a100:8", partitions=["p"]), node("m1", gres="gpu:a100:3,gpu:t4:1", partitions=["q"])]
    nodes.append(node("d1", gres="gpu:t4:8", partitions=["q"], state=["MIXED", "DRAIN"]))
    runs = [{"account": "old", "tres_per_node": "gpu:1", "job_state": "RUNNING", "nodes": "d1"}] * 8
    of = {"array_task_string": "1-16", "partition": "p"}
    jobs = ({"account": "bio", "tres_per_node": "gpu:1"}, {"account": "vis", "tres_per_node": "gpu:a100:1"})
    made = one_each(*(one | of for one in jobs), *runs, nodes=nodes)
    assert made.total_capacities[made.resource_index("gpu")] == 20
    assert fair(made, "gpu") == pytest.approx({"bio": 4, "vis": 4, "old": 8}, rel=1e-9)


MIXED = [
    node("g1", gres="gpu:a100:8", partitions=["a"]),
    node("m1", gres="gpu:a100:2,gpu:1g.10gb:14", partitions=["mig"]),
]


def test_slices_are_a_resource_of_their_own():
    jobs = ({"tres_per_node": "gpu:a100:1"}, {"account": "vis", "tres_per_node": "gpu:1g.10gb:2", "partition": "mig"})
    made = one_each(*jobs, nodes=MIXED, merge=False)
    assert made.resources == ("cpu", "gpu", "gpu:1g.10gb")
    assert made.capacities[:, 1:].tolist() == [[8, 0], [2, 14]] and made.demands[:, 1:].tolist() == [[1, 0], [0, 2]]
    assert made.server_types == ("a100", "1g.10gb:14|a100:2")
    assert said(made, "slices of GPUs are resources of their own, and not counted as gpu: gpu:1g.10gb")


def test_a_request_without_a_type_may_run_on_any_type_of_its_partition():
    any_type = {"tres_per_node": "gpu:1", "array_task_string": "1-40"}
    slices = node("s1", gres="gpu:1g.10gb:7", partitions=["only"])
    of_slices = one_each(any_type | {"partition": "only"}, nodes=[*MIXED, slices])
    assert of_slices.resources == ("cpu", "gpu:1g.10gb") and fo.HDRF().allocate(of_slices).tasks == pytest.approx([7])
    of_both = one_each(any_type | {"partition": "mig"}, {"account": "vis", "tres_per_node": "gpu:a100:1"}, nodes=MIXED)
    assert of_both.resources == ("cpu", "gpu", "gpu:any")
    assert said(of_both, "1 job without a type of gpu may run on slices too: counted as gpu:any, of all devices (7)")
    alone = one_each(any_type | {"partition": "mig"}, nodes=MIXED)
    assert fo.HDRF().allocate(alone).tasks == pytest.approx([16])


def test_where_each_server_has_several_types_a_type_is_measured_by_what_there_is_of_it():
    nodes = [node("two", gres="gpu:v100:2,gpu:t4:6")]
    made = one_each({"tres_per_node": "gpu:v100:1"}, nodes=nodes)
    assert made.total_capacities[1:].tolist() == [8, 2]
    assert said(made, "each server with gpu has several types, so requests for gpu:v100 are measured by what there is")


def test_jobs_of_different_types_are_kinds_named_for_them():
    nodes = [node("l", gres="gpu:l40s:8"), node("a", gres="gpu:a100:8")]
    jobs = [job(tres_per_node=f"gpu:{kind}:1") for kind in ("l40s", "a100")]
    made = read_slurm({"nodes": nodes}, {"jobs": numbered(jobs)})
    assert set(made.users) == {"bio/1 gpu@l40s", "bio/1 gpu@a100"}


def test_shares_of_parents_with_one_account_each_divide_the_cluster():
    """Parents with 3 and 1 shares have 9 and 3 of 12 CPUs."""
    tree = [account("p", shares=3), account("q", shares=1), account("a", "p"), account("b", "q")]
    jobs = [job(job_id=k, account=name, tres_req_str="cpu=1,node=1") for k in range(24) for name in ("a", "b")]
    nodes = {"nodes": [node("n1", cpus=12)]}
    made = read_slurm(
        nodes, {"jobs": [j | {"job_id": k} for k, j in enumerate(jobs)]}, associations={"associations": tree}
    )
    assert made.teams.outermost_first == ("account", "team")
    answer = fo.HDRF(by=made.teams.outermost_first).allocate(made)
    assert dict(zip(made.teams["team"], answer.tasks.tolist(), strict=True)) == {"a": 9, "b": 3}


def test_users_of_associations_are_below_their_accounts_with_shares_of_their_own():
    def user(name, of, shares=1):
        return account(of, user=name, parent="", shares=shares)

    tree = [
        account("root", ""), account("ml", shares=40), account("physics", shares=60), account("hep", "physics"),
        user("ann", "ml"), user("bob", "hep"), user("cid", "hep", 2), user("cid", "ml", 0x7FFFFFFF),
    ]  # fmt: skip
    owners = ("ann", "ml"), ("bob", "hep"), ("cid", "hep")
    jobs = [
        job(job_id=k, account=of, user_name=who, tres_req_str="cpu=1,mem=1M,node=1", array_task_string="1-1000")
        for k, (who, of) in enumerate(owners)
    ]
    given = {"nodes": [node("n1", cpus=90)]}, {"jobs": jobs}
    made = read_slurm(*given, users="user", associations={"associations": tree})
    assert made.teams["team"] == ("ann", "bob", "hep/cid")  # who is in two accounts has the account in its name
    assert fo.HDRF(by=made.teams.outermost_first).allocate(made).tasks == pytest.approx([36, 18, 36])
    alone = read_slurm(*given, users="user", associations={"associations": tree[:4]})
    assert [*alone.teams] == ["team"] and alone.teams["team"] == ("ann", "bob", "cid")


def test_other_limits_of_associations_in_json_are_named_by_their_path():
    """No number is a limit where it is not set, or infinite."""
    unset, endless = {"set": False, "infinite": False, "number": 0}, {"set": True, "infinite": True, "number": 0}
    limits = {
        "jobs": {"active": {"set": True, "infinite": False, "number": 5}, "total": unset, "per": {"count": endless}}
    }
    limits["tres"] = {"total": [{"type": "cpu", "count": 8}], "minutes": {"total": [{"type": "cpu", "count": 900}]}}
    tree = [*TREE[:3], account("bio", "life", 2, max=limits), account("med", "life", max={"jobs": {"per": {}}})]
    made = cluster("bio", "med", tree=tree)
    assert said(made, "1 queue with max.jobs.active, which is not modelled (bio: 5)")
    assert said(made, "1 queue with max.tres.minutes.total, which is not modelled (bio: set)")
    assert [note for note in made.notes if "not modelled" in note] == said(made, "1 queue with max.")
