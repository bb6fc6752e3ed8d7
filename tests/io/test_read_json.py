"""Reading one JSON file: what it may hold, the schema that ships, and what is refused where."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import fairopt.io
from fairopt.datasets import read, schema
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance

SMALL = {"demands": [[1, 2], [4, 1]], "capacities": [[10, 20], [30, 10]], "users": ["a", "b"], "servers": ["s", "t"]}


@pytest.fixture
def file(tmp_path):
    """Write a file with some content and give its path."""

    def write(content):
        path = tmp_path / "cluster.json"
        if isinstance(content, dict):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_demands_and_capacities_are_enough(file):
    assert read(file({"demands": [[40, 8]], "capacities": [200, 100]})) == Instance([[40, 8]], [200, 100])


def test_every_key_is_read(file):
    data = {
        **SMALL,
        "resources": ["cpu", "memory"],
        "weights": [1, 2],
        "task_limits": [None, 3.5],
        "counts": [1, 2],
        "eligible": [[True, False], [True, True]],
        "server_types": ["T4", "T4"],
    }
    assert read(file(data)) == Instance(**data)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": 2},
        {"weights": {"b": 2.5}},
        {"weights": None},
        {"task_limits": 7},
        {"task_limits": {"a": 0}},
        {"task_limits": {"a": None}},
        {"task_limits": None},
        {"eligible": {"a": ["t"]}},
        {"eligible": None},
        {"demands": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]},
    ],
)
def test_values_by_user_may_be_a_number_a_list_or_an_object(file, change):
    assert read(file({**SMALL, **change})) == Instance(**{**SMALL, **change})


@pytest.mark.parametrize(
    ("eligible", "words"),
    [
        ({"a": ["s"], "b": ["s"]}, "the server 't', so no user may use it"),
        ({"a": ["s"]}, "the server 't', so only users without a list may use it"),
        ({"a": ["s"], "b": ["t"]}, None),
        ([[True, False], [True, False]], None),
        ({}, None),
    ],
)
def test_a_new_server_that_no_list_names_is_told(file, eligible, words):
    path = file({**SMALL, "eligible": eligible})
    assert read(path).notes == (() if words is None else (f"no list of {path} names {words}",))


def test_an_instance_without_users_may_be_written(file):
    assert read(file({"demands": [], "capacities": [1, 2]})).n_users == 0


def test_a_link_to_the_schema_for_editors_and_a_byte_order_mark_are_passed_over(file):
    text = json.dumps({"$schema": "instance.schema.json", **SMALL})
    assert read(file(b"\xef\xbb\xbf \n" + text.encode())) == Instance(**SMALL)


def test_the_suffix_may_be_in_capitals(file):
    path = file(SMALL)
    assert read(path.rename(path.with_suffix(".JSON"))) == Instance(**SMALL)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        # syntax
        (b"", ["is empty", "demands and capacities"]),
        (b" \n ", ["is empty"]),
        (b'{"demands": [[1, 2]],\n "capacities": [1, ', ["line 2, column", "truncated"]),
        (b'{"demands": [[1, 2]],\n "capac', ["line 2, column 2", "Unterminated string", "truncated"]),
        (b'{"demands": [[1 2]],\n "capacities": [1, 2]}', ["line 1, column 17", "delimiter", "check the commas"]),
        (b'{"demands": [[1]],\n\n "capacities": [1]} more', ["line 3, column", "Extra data"]),
        (b"[[1, 2]]", ["does not start with '{'", "expected an instance with the keys"]),
        (b"user,cpu\nweb,1\n", ["does not start with '{'"]),
        (b'{"demands": [["\xff"]]}', ["line 1", "UTF-8", "save"]),
        (json.dumps(SMALL).encode("utf-16"), ["UTF-16", "save it as UTF-8"]),
        (b'{"demands": ' + b"[" * 100_000, ["nested too deep"]),
        (b'{"demands": [[1]], "capacities": [' + b"9" * 5000 + b"]}", ["cannot be read", "digits"]),
        (b'{"demands": [[1]], "demands": [[2]], "capacities": [1]}', ["the key 'demands' is given twice"]),
        (b'{"demands": [[1]], "capacities": [1], "weights": {"a": 1, "a": 2}}', ["the key 'a' is given twice"]),
        # numbers
        (b'{"demands": [[1, 2], [3, NaN]], "capacities": [1, 2]}', ["demands[1][1] is NaN", "finite"]),
        (b'{"demands": [[1, 2]], "capacities": [1, -Infinity]}', ["capacities[1] is -Infinity", "finite"]),
        (b'{"demands": [[1, 1e999]], "capacities": [1, 2]}', ["demands[0][1] is Infinity", "finite"]),
        (b'{"demands": [[1]], "capacities": [1], "task_limits": Infinity}', ["task_limits is Infinity", "null"]),
        (b'{"demands": [[1]], "capacities": [' + b"9" * 400 + b"]}", ["capacities[0] is 999", "give a number"]),
        # shapes of the whole
        ({"capacities": [1]}, ["demands is missing", "add it"]),
        ({**SMALL, "demand": 1}, ["unknown key 'demand'", "did you mean 'demands'"]),
        ({**SMALL, "schema_": "x"}, ["unknown key 'schema_'"]),
        ({**SMALL, "demands": [[1, 2], [4]]}, ["demands[1] has 1 entries where demands[0] has 2", "equal rows"]),
        ({**SMALL, "demands": [[[1, 2], [1]], [[1, 2], [1, 2]]]}, ["demands[0][1] has 1 entries"]),
        ({**SMALL, "capacities": [[1, 2], [3, 4, 5]]}, ["capacities[1] has 3 entries"]),
        ({**SMALL, "eligible": [[True, True], [True]]}, ["eligible[1] has 1 entries"]),
        ({**SMALL, "demands": [[1, 2, 3], [4, 5, 6]]}, ["demands have shape (2, 3)"]),
        # kinds of values
        ({**SMALL, "demands": [[1, 2], [3, "4"]]}, ['demands[1][1] is "4"', "give a number"]),
        ({**SMALL, "demands": [[1, 2], [3, True]]}, ["demands[1][1] is true", "give a number"]),
        ({**SMALL, "demands": [[1, 2], [3, None]]}, ["demands[1][1] is null", "give a number"]),
        ({**SMALL, "demands": [[1, 2], 3]}, ["demands[1] is 3", "give a list"]),
        ({**SMALL, "demands": [[[1, 2], 3], [4, 5]]}, ["demands[0][1] is 3", "give a list"]),
        ({**SMALL, "weights": [0, "x"], "counts": [0, 1]}, ["weights[0] is 0", "(and 1 more error)"]),
        ({**SMALL, **{f"k{k}": 1 for k in range(20)}}, ["unknown key 'k0'", "known: "]),
        ({**SMALL, "demands": [[1, [2]], [3, 4]]}, ["demands[0][1] is a list", "give a number"]),
        ({**SMALL, "demands": {"a": [1, 2]}}, ["demands is an object", "give a list"]),
        ({**SMALL, "demands": None}, ["demands is null", "give a list"]),
        ({**SMALL, "demands": [[1, 2], [-3, 4]]}, ["demands[1][0] is -3", "give a number >= 0"]),
        ({**SMALL, "capacities": [[1, 2], [3, "x" * 100]]}, ["capacities[1][1] is", "xxx...", "give a number"]),
        ({**SMALL, "users": ["a", 2]}, ["users[1] is 2", "text in double quotes"]),
        ({**SMALL, "users": "ab"}, ['users is "ab"', "give a list"]),
        ({**SMALL, "weights": [1, 0]}, ["weights[1] is 0", "give a number > 0"]),
        ({**SMALL, "weights": {"a": "heavy"}}, ['weights.a is "heavy"', "give a number"]),
        ({**SMALL, "weights": True}, ["weights is true", "give a number"]),
        ({**SMALL, "task_limits": {"b": -1}}, ["task_limits.b is -1", "give a number >= 0"]),
        ({**SMALL, "task_limits": [None, "none"]}, ['task_limits[1] is "none"', "give a number"]),
        ({**SMALL, "eligible": {"a": [1]}}, ["eligible.a[0] is 1", "text in double quotes"]),
        ({**SMALL, "eligible": {"a": "s"}}, ['eligible.a is "s"', "give a list"]),
        ({**SMALL, "eligible": [[1, 0], [1, 1]]}, ["eligible[0][0] is 1", "give true or false"]),
        ({**SMALL, "counts": [1, 1.5]}, ["counts[1] is 1.5", "give a whole number"]),
        ({**SMALL, "counts": [1, 0]}, ["counts[1] is 0", "give a number >= 1"]),
        ({**SMALL, "counts": [1, 10**30]}, ["counts[1] is 1000", "9007199254740992"]),
        # what Instance refuses
        ({**SMALL, "demands": [[1, 2], [0, 0]]}, ["user 'b' demands nothing at all"]),
        ({**SMALL, "users": ["a", "a"]}, ["user label 'a'", "twice"]),
        ({**SMALL, "weights": {"c": 1}}, ["unknown user 'c'"]),
        ({**SMALL, "eligible": {"a": ["u"]}}, ["no server 'u'"]),
        ({**SMALL, "server_types": ["T4"]}, ["1 server types for 2 servers"]),
        ({**SMALL, "server_types": ["T4", 4]}, ["server_types[1] is 4", "give text"]),
        ({**SMALL, "server_types": ["T4", ""]}, ["type of server 't' is ''", "give text"]),
    ],
)
def test_bad_files_are_refused_with_file_place_value_and_fix(file, content, parts):
    path = file(content)
    with pytest.raises(InvalidInstance) as caught:
        read(path)
    missing = [part for part in [str(path), *parts] if part not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"
    assert len(str(caught.value)) < len(str(path)) + 400


def test_a_missing_file_says_what_is_expected(tmp_path):
    with pytest.raises(InvalidInstance, match=r"nothing\.json cannot be read .*No such file.*demands and capacities"):
        read(tmp_path / "nothing.json")


def test_many_users_are_read_exactly(file):
    demands = np.random.default_rng(0).random((10_000, 3))
    cluster = read(file({"demands": demands.tolist(), "capacities": [1, 1, 1]}))
    assert_array_equal(cluster.demands, demands)


def test_the_schema_that_ships_is_the_one_the_reader_checks():
    shipped = Path(fairopt.io.__file__).with_name("instance.schema.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == schema()


def test_the_schema_accepts_what_to_dict_gives_and_refuses_what_the_reader_refuses():
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    for good in (Instance(**SMALL).to_dict(), {"demands": [], "capacities": [1]}, {**SMALL, "weights": {"a": 2}}):
        validator.validate(good)
    for bad in ({"capacities": [1]}, {**SMALL, "demand": 1}, {**SMALL, "weights": 0}, {**SMALL, "counts": [1.5, 1]}):
        assert not validator.is_valid(bad)


def test_changing_the_schema_one_was_given_changes_no_other():
    schema()["properties"].clear()
    assert schema()["properties"]


fuzz = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", "b", "s", "t", "", 0, 1, 2]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "s"]), inner, max_size=2),
    max_leaves=6,
)


@fuzz
@given(changes=st.dictionaries(st.sampled_from([*SMALL, "weights", "task_limits", "eligible", "counts", "x"]), VALUES))
def test_no_values_raise_anything_but_invalid_instance(file, changes):
    path = file(json.dumps({**copy.deepcopy(SMALL), **changes}))
    try:
        assert isinstance(read(path), Instance)
    except InvalidInstance as error:
        assert str(path) in str(error)


@fuzz
@given(
    content=st.binary(max_size=100) | st.text(alphabet='{}[]":,0123456789.eE-+ntrufalsdmcpi\n', max_size=100),
    cut=st.integers(0, 120),
)
def test_no_bytes_raise_anything_but_invalid_instance(file, content, cut):
    raw = content if isinstance(content, bytes) else content.encode()
    for data in (raw, b"{" + raw, json.dumps(SMALL).encode()[:cut]):
        try:
            read(file(data))
        except InvalidInstance as error:
            assert "cluster.json" in str(error)
