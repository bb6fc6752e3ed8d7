"""Writing an instance so that reading gives it back to the last bit."""

import csv
import inspect
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from oracle.instances import exactly

from fairopt.datasets import demo, read, schema, write
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.io.assemble import SERVER_COLUMNS, USER_COLUMNS

NUMBERS = st.floats(min_value=1e-50, max_value=1e50) | st.integers(1, 10**6).map(float)
JSON_NAMES = st.text(max_size=8)
CSV_NAMES = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="|"), min_size=1, max_size=8
).filter(lambda name: name == name.strip())
WEIGHTS = st.floats(min_value=1e-50, max_value=1e50)
WITH_ZEROS, LIMITS = NUMBERS | st.just(0.0), NUMBERS | st.sampled_from([0.0, np.inf])
COLUMNS = ("user", "weight", "task_limit", "guarantee", "team", "servers", "server", "count", "type", "rate")
ARRAYS = ("demands", "capacities", "weights", "task_limits", "eligible", "counts", "guarantees")


@st.composite
def instances(draw, names, by_server=False):
    """Instances with everything there is: zeros, weights, limits, counts, placement, labels, teams, rates."""
    n, s, m = draw(st.integers(0, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    by_server = by_server and n > 0 and draw(st.booleans())

    def array(shape, elements):
        return np.array(draw(exactly(int(np.prod(shape)), elements))).reshape(shape)

    demands = array((n, s, m) if by_server else (n, m), WITH_ZEROS)
    demands[..., 0] = array(demands.shape[:-1], NUMBERS)
    capacities = array((s, m), WITH_ZEROS)
    capacities[0] = array((m,), NUMBERS)
    eligible = array((n, s), st.booleans()).astype(bool)
    eligible[:, 0] = True
    users = draw(labels(n, names)) or [f"user {j}" for j in range(n)]
    resources = draw(labels(m, names, "columns"))
    about = {"weights": draw(st.none() | st.just(array((n,), WEIGHTS)))}
    about["guarantees"] = draw(st.none() | st.just(array((n,), WITH_ZEROS)))
    about["teams"], teams = {}, {}
    for label in draw(st.lists(st.sampled_from(["team", "org", "a [b]"]), unique=True)):
        at = draw(exactly(n, st.sampled_from([None, f"{label} 1", f"{label} 2"])))
        about["teams"][label] = [name if name not in users else None for name in at]
        teams |= {name: j for j, name in enumerate(about["teams"][label]) if name}
    for name in teams if draw(st.booleans()) else ():
        about["weights"] = {**_by_name(users, about["weights"]), name: draw(st.floats(0.1, 10))}
        units = {(resources or [f"resource{i + 1}" for i in range(m)])[-1]: draw(WITH_ZEROS)}
        about["guarantees"] = {**_by_name(users, about["guarantees"]), name: units}
    rates = array((n, s), WITH_ZEROS)
    rates[:, 0] = 1
    return Instance(
        demands,
        capacities,
        rates=draw(st.none() | st.just(rates)),
        **about,
        task_limits=draw(st.none() | st.just(array((n,), LIMITS))),
        eligible=draw(st.none() | st.just(eligible)),
        counts=draw(st.none() | st.just(array((s,), st.integers(1, 1000)))),
        server_types=draw(labels(s, names, "types")),
        users=users,
        servers=draw(labels(s, names)),
        resources=resources,
    )


def _by_name(users, values):
    """Values by user, or a dict that has them already, as a dict."""
    return values if isinstance(values, dict) else {} if values is None else dict(zip(users, values, strict=True))


@cache
def labels(k, names, kind="") -> st.SearchStrategy:
    """None, or k names; types of servers may be equal and not empty, resources are no other columns."""
    if kind == "types":
        return st.none() | exactly(k, names.filter(bool))
    allowed = names.filter(lambda name: kind != "columns" or name not in COLUMNS)
    return st.none() | st.lists(allowed, min_size=k, max_size=k, unique=True)


def same(a, b):
    assert a == b
    for name in ARRAYS:
        first, second = getattr(a, name), getattr(b, name)
        assert np.asarray(first, float).tobytes() == np.asarray(second, float).tobytes(), name
    return True


often = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@often
@given(instance=instances(JSON_NAMES, by_server=True))
def test_a_json_file_gives_the_instance_back_to_the_last_bit(tmp_path, instance):
    write(instance, tmp_path / "instance.json")
    assert same(read(tmp_path / "instance.json"), instance)


@often
@given(instance=instances(CSV_NAMES))
def test_a_folder_of_tables_gives_the_instance_back_to_the_last_bit(tmp_path, instance):
    write(instance, tmp_path / "cluster")
    assert same(read(tmp_path / "cluster"), instance)


@pytest.mark.parametrize("name", ["x.json", "x"])
def test_single_precision_is_written_exactly(tmp_path, name):
    instance = Instance(np.array([[0.1, 0.7]], dtype=np.float32), np.array([0.3, 3.3], dtype=np.float32))
    write(instance, tmp_path / name)
    assert_array_equal(read(tmp_path / name).demands, instance.demands)


@pytest.mark.parametrize("name", ["x.json", "x"])
def test_negative_zero_is_written_exactly(tmp_path, name):
    instance = Instance([[1.0, -0.0]], [1.0, 1.0])
    write(instance, tmp_path / name)
    assert np.signbit(read(tmp_path / name).demands[0, 1])


def test_tables_hold_only_the_columns_that_say_something(tmp_path):
    write(Instance([[1, 2.5]], [10, 20], users=["a"], resources=["cpu", "memory"]), tmp_path)
    assert (tmp_path / "users.csv").read_text() == "user,cpu,memory\na,1,2.5\n"
    assert (tmp_path / "servers.csv").read_text() == "server,cpu,memory\npool,10,20\n"


def test_tables_list_servers_only_for_users_who_may_not_run_everywhere_and_name_each_server_that_they_can(tmp_path):
    instance = Instance(
        [[1, 0], [1, 1], [1, 0]],
        [[1, 1], [1, 0], [1, 1]],
        users=["free", "lacking", "bound"],
        resources=["cpu", "gpu"],
        servers=["s", "t", "u"],
        eligible={"bound": ["s", "t"]},
    )
    write(instance, tmp_path)
    assert not read(tmp_path).notes
    assert (tmp_path / "users.csv").read_text() == "user,servers,cpu,gpu\nfree,,1,0\nlacking,s|u,1,1\nbound,s|t,1,0\n"


def test_tables_hold_the_types_of_servers_where_there_are_any(tmp_path):
    instance = Instance([[1]], [[5], [6]], servers=["s", "t"], resources=["cpu"], server_types=["A|B", "T4, old"])
    write(instance, tmp_path)
    assert (tmp_path / "servers.csv").read_text() == 'server,type,cpu\ns,A|B,5\nt,"T4, old",6\n'


def test_json_has_one_user_to_a_line(tmp_path):
    write(Instance([[1, 2], [3, 4]], [10, 20]), tmp_path / "x.json")
    lines = (tmp_path / "x.json").read_text().splitlines()
    assert "  [1.0, 2.0]," in lines and "  [3.0, 4.0]" in lines


def test_writing_replaces_what_was_there(tmp_path):
    write(demo(), tmp_path / "deep" / "folder")
    write(Instance([[1]], [1]), tmp_path / "deep" / "folder")
    assert read(tmp_path / "deep" / "folder") == Instance([[1]], [1])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"users": ["a ", "b"]}, "user 'a ' .*blanks"),
        ({"users": ["", "b"]}, "user '' is empty"),
        ({"users": ["a\rb", "b"]}, "control characters"),
        ({"users": ["a" * 200_000, "b"]}, "very long"),
        ({"servers": ["s|t", "u"]}, r"server 's\|t' holds '\|', which separates"),
        ({"resources": ["weight"]}, "resource 'weight' is the name of a column with another meaning"),
        ({"resources": ["server"]}, "resource 'server' is the name of a column"),
        ({"resources": ["type"]}, "resource 'type' is the name of a column"),
        ({"server_types": ["a", " a"]}, "server type ' a' .*blanks"),
    ],
)
def test_names_that_a_table_cannot_hold_are_refused_and_json_holds_them(tmp_path, labels, message):
    instance = Instance([[1], [2]], [[5], [6]], eligible=[[1, 0], [1, 1]], **labels)
    with pytest.raises(InvalidInstance, match=f"(?s){message}.*write to a .json file"):
        write(instance, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    write(instance, tmp_path / "x.json")
    assert read(tmp_path / "x.json") == instance


FORMULAS = ["=HYPERLINK(1)", "+1", "-x", "@x", "'=x", "''-y", "'plain", "plain"]


def test_labels_that_spreadsheets_would_execute_are_escaped_and_read_as_they_were(tmp_path):
    labels = {"users": FORMULAS, "servers": FORMULAS, "server_types": FORMULAS, "resources": ["=a", "-b"]}
    eligible = ~np.eye(8, dtype=bool)
    instance = Instance(np.ones((8, 2)), np.ones((8, 2)), eligible=eligible, units=["=u", ""], **labels)
    write(instance, tmp_path)
    assert read(tmp_path) == instance
    cells = [cell for path in tmp_path.iterdir() for row in csv.reader(path.open()) for cell in row]
    assert not [cell for cell in cells if cell[0] in "=+-@"] and "'=a [=u]" in cells


def test_a_bar_in_a_servers_name_is_fine_where_no_user_is_bound_to_servers(tmp_path):
    instance = Instance([[1], [2]], [[5], [6]], servers=["s|t", "u"])
    write(instance, tmp_path)
    assert read(tmp_path) == instance


def test_demands_by_server_take_a_third_table(tmp_path):
    write(Instance([[[1], [2]]], [[1], [1]], users=["a"], resources=["cpu"], servers=["s", "t"]), tmp_path)
    assert (tmp_path / "users.csv").read_text() == "user\na\n"
    assert (tmp_path / "demands.csv").read_text() == "user,server,cpu\na,s,1\na,t,2\n"


def test_lists_of_servers_that_a_cell_cannot_hold_are_refused(tmp_path):
    eligible = np.ones((1, 30_000), dtype=bool)
    eligible[0, 0] = False
    with pytest.raises(InvalidInstance, match=r"servers of user 'user1'.*merged"):
        write(Instance([[1]], np.ones((30_000, 1)), eligible=eligible), tmp_path / "folder")


@pytest.mark.parametrize("column", [*USER_COLUMNS, *SERVER_COLUMNS], ids=lambda column: column.name)
def test_an_optional_column_of_tables_is_an_argument_of_instances_and_a_key_of_json_files(column):
    assert column.argument in inspect.signature(Instance).parameters
    assert column.argument in schema()["properties"]
