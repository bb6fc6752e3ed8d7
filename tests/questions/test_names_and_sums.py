"""Names of servers, resources and hosts in words, and sums over teams and servers."""

import numpy as np
import pytest

import fairopt as fo
from fairopt.errors import InvalidInstance
from fairopt.instance.labels import whole_name
from fairopt.instance.teams import innermost_first
from fairopt.questions.by_server import part_of
from fairopt.questions.by_team import guaranteed_units, team_sums
from fairopt.questions.explanation import listed, number
from fairopt.questions.naming import server_kinds, server_names
from fairopt.questions.waiting import _counts_gpus
from fairopt.report.tables import allocation_tables
from fairopt.runtime.display import of_units, unit_shown, without_vendor
from fairopt.runtime.hostlists import names_of


def test_long_labels_of_servers_are_named_after_the_first_one_without_its_domain():
    names = [f"nvidia-ip-10-0-1-{k}.internal" for k in (2, 4, 5, 6, 9, 13)]
    merged = fo.Instance([[1]], [[8]] * 3 + [[4]] * 3, servers=names).merged()
    assert server_names(merged) == ["nvidia-ip-10-0-1-2", "nvidia-ip-10-0-1-6"]
    short = ["a100-[01-09]", "cpu"]
    assert server_names(fo.Instance([[1]], [[8], [4]], servers=short)) == short


def test_servers_are_described_by_their_type_or_by_what_differs():
    cluster = fo.Instance([[1, 1]], [[96, 8], [64, 8], [64, 0]], resources=["cpu", "gpu"])
    assert server_kinds(cluster) == ["8 gpu, 96 cpu", "8 gpu, 64 cpu", "64 cpu"]
    assert server_kinds(fo.Instance([[1]], [[8], [4]], server_types=["A100", "T4"])) == ["A100", "T4"]


def test_resources_are_named_without_vendors_that_say_nothing():
    assert without_vendor(["nvidia.com/gpu", "a.com/rdma", "b.com/rdma"]) == ["gpu", "a.com/rdma", "b.com/rdma"]
    assert of_units(["cpu", "memory", "nvidia.com/gpu"], ["core", "GiB", ""]) == ["cpu", "GiB of memory", "gpu"]
    assert (unit_shown("GiB"), unit_shown("cores")) == ("GiB", "")


def test_names_without_vendors_mean_the_resource_of_one():
    known = ["cpu", "nvidia.com/gpu", "a.com/rdma", "b.com/rdma"]
    assert [whole_name(name, known) for name in ("gpu", "cpu", "disk", 1)] == ["nvidia.com/gpu", "cpu", "disk", 1]
    with pytest.raises(InvalidInstance, match=r"'rdma' is short for the resources 'a\.com/rdma', 'b\.com/rdma'"):
        whole_name("rdma", known)


def test_labels_whose_teams_lie_within_others_are_inside_them():
    assert innermost_first({"org": ["ml", "ml", "web"], "team": ["vision", "nlp", "front"]}) == ("team", "org")
    assert innermost_first({"org": ["ml", "web"], "team": ["vision", "front"]}) == ("org", "team")


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "gpu:a100", "gres/gpu", "GPUs"])
def test_gpus_of_all_types_or_of_one_are_gpus(name):
    assert _counts_gpus(name) and not _counts_gpus("gpu_memory") and not _counts_gpus("cpu")


def test_numbers_in_sentences_have_four_digits_and_long_lists_say_how_many_more():
    assert [number(12.5), number(1 / 3), number(123456.7)] == ["12.5", "0.3333", "123,457"]
    assert [listed("a"), listed("ab"), listed("abcde")] == ["a", "a and b", "a, b, c and 2 more"]


def test_lists_of_hosts_are_read_in_order():
    assert names_of("a100-[01-03,07],login") == ["a100-01", "a100-02", "a100-03", "a100-07", "login"]


def test_parts_of_groups_of_servers_are_of_their_capacity_and_unknown_of_none():
    cluster = fo.Instance([[1, 1]], [[4, 2], [4, 2], [8, 0]], counts=[1, 2, 1])
    used = np.array([[1.0, 1.0], [5.0, 5.0], [2.0, 0.0]])
    assert np.array_equal(part_of(cluster, cluster.derived.server_classes, used), [[0.5, 1], [0.25, np.nan]], True)


def test_sums_of_teams_leave_out_users_without_one():
    cluster = fo.Instance(
        [[4, 1], [1, 0], [2, 1]],
        [20, 10],
        resources=["cpu", "gpu"],
        teams={"team": ["vision", "vision", None]},
        guarantees=[2, 0, 0],
    )
    sums = team_sums(fo.DRF().allocate(cluster.replace(guarantees=None)), "team")
    assert sums.names == ("vision",) and sums.dominant == pytest.approx([2 / 3])
    assert guaranteed_units(cluster) == {"vision": {"cpu": 8.0, "gpu": 2.0}}


def test_a_team_that_no_inner_team_divides_stands_beside_inner_teams_under_its_name():
    """hep has two users and is in physics; ml has users alone; cid is in physics beside hep."""
    cluster = fo.Instance(
        [[1]] * 5,
        [10],
        users=["ann", "eve", "bob", "dan", "cid"],
        teams={"account": [None, None, "hep", "hep", None], "top": ["ml", "ml", "physics", "physics", "physics"]},
        weights={"ml": 40, "hep": 3},
    )
    sums = team_sums(fo.HDRF(by=("top", "account")).allocate(cluster), "account", alone=True)
    assert [*zip(sums.names, map(len, sums.members), sums.weights.tolist(), strict=True)] == [
        ("hep", 2, 3.0), ("ml", 2, 40.0), ("cid", 1, 1.0),
    ]  # fmt: skip


def test_weights_of_teams_that_are_no_siblings_stand_in_no_table_together() -> None:
    """ml, right below the top, has 40 beside the 60 of phys; hep is alone in phys, and its 1 is of that."""
    teams = {"account": ["hep", "hep", None], "account2": ["phys", "phys", "ml"]}
    weights = {"a": 1, "b": 1, "c": 1, "phys": 60, "ml": 40, "hep": 1}
    answer = fo.HDRF(by=("account2", "account")).allocate(
        fo.Instance([[1], [1], [1]], [100], users=["a", "b", "c"], teams=teams, weights=weights)
    )
    tables = {table.first.header: table for table in allocation_tables(answer)}
    headers = {by: [column.header for column in tables[by].columns] for by in teams}
    assert "weight" in headers["account2"] and "weight" not in headers["account"]
    assert [*tables["account"].first.cells] == ["hep", "ml"]
