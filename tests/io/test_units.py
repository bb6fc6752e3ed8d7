"""Units in the headers of tables: what is read as one, what must agree, and what cannot be written."""

import pytest

from fairopt.datasets import read, write
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance

USERS = "user,cpu,memory [GiB]\nweb,1,2\n"
SERVERS = "server,cpu,memory [GiB]\ns1,10,20\n"


def test_a_header_may_hold_the_unit_of_a_resource(tables):
    cluster = read(tables(USERS, SERVERS))
    assert cluster.resources == ("cpu", "memory")
    assert cluster.units == ("", "GiB")
    assert cluster.resource_titles == ("cpu", "memory (GiB)")


def test_units_are_written_into_headers(tmp_path):
    write(Instance([[1, 2]], [3, 4], resources=["cpu", "memory"], units={"memory": "GiB"}), tmp_path)
    assert (tmp_path / "users.csv").read_text().splitlines()[0] == "user,cpu,memory [GiB]"
    assert (tmp_path / "servers.csv").read_text().splitlines()[0] == "server,cpu,memory [GiB]"


def test_brackets_without_a_blank_before_them_are_part_of_the_name(tables):
    cluster = read(tables("user,gpu[0]\nweb,1\n", "server,gpu[0]\ns1,10\n"))
    assert (cluster.resources, cluster.units) == (("gpu[0]",), None)
    write(cluster, tables(None, None) / "again")
    assert read(tables(None, None) / "again") == cluster


@pytest.mark.parametrize(
    ("users", "servers", "parts"),
    [
        (
            "user,cpu,memory\nweb,1,2\n",
            SERVERS,
            ["users.csv has the column 'memory' where", "servers.csv has 'memory [GiB]'", "nothing is converted"],
        ),
        ("user,cpu,memory [MiB]\nweb,1,2\n", SERVERS, ["'memory [MiB]'", "'memory [GiB]'", "in the same unit"]),
        (USERS, "server,cpu,memory\ns1,10,20\n", ["'memory [GiB]'", "has 'memory'"]),
        (
            USERS,
            "server,cpu,memory [GiB],memory\ns1,1,1,1\n",
            ["servers.csv", "'memory [GiB]' and 'memory' are the same resource 'memory'"],
        ),
        (USERS, "server,cpu []\ns1,1\n", ["servers.csv, column 'cpu []'", "the unit is ''", "'memory [GiB]'"]),
        (USERS, "server,cpu [ GiB]\ns1,1\n", ["the unit is ' GiB'"]),
        (USERS, "server,weight [kg]\ns1,1\n", ["'weight [kg]'", "'weight' has another meaning", "another name"]),
    ],
)
def test_units_that_do_not_agree_are_refused_with_both_headers(tables, users, servers, parts):
    with pytest.raises(InvalidInstance) as caught:
        read(tables(users, servers))
    assert not [part for part in parts if part not in str(caught.value)], caught.value


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_name_that_would_be_read_as_one_with_a_unit_is_not_written(tmp_path, kind):
    instance = Instance([[1]], [2], resources=["memory [GiB]"])
    with pytest.raises(
        InvalidInstance, match=r"resource 'memory \[GiB\]' ends like a header with a unit.*write to a \.json file"
    ):
        write(instance, tmp_path / "x", kind)
    with pytest.raises(InvalidInstance, match="ends like a header with a unit"):
        instance.to_frames()
    for name in ("x.json", "x.yaml"):
        write(instance, tmp_path / name)
        assert read(tmp_path / name) == instance


def test_such_a_name_with_a_unit_of_its_own_is_written(tmp_path):
    instance = Instance([[1]], [2], resources=["memory [old]"], units=["GiB"])
    write(instance, tmp_path)
    assert read(tmp_path) == instance


@pytest.mark.parametrize("header", ["memory[GiB]", "memory (GiB)", "memory(GiB)", "memory [MiB]"])
def test_headers_that_may_mean_the_same_unit_are_told_apart_with_the_fix(tables, header):
    with pytest.raises(InvalidInstance) as error:
        read(tables(f"user,cpu,{header}\nweb,1,2\n", SERVERS))
    for part in (f"users.csv has the column {header!r}", "servers.csv has 'memory [GiB]'", "as 'memory [GiB]'"):
        assert part in str(error.value)


def test_more_blanks_before_a_unit_are_as_good_as_one(tables):
    assert read(tables(USERS, SERVERS.replace(" [", "   ["))) == read(tables(USERS, SERVERS))
