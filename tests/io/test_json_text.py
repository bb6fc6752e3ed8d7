"""JSON files: what is read, what is refused, and models whose errors name the place."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import Part, checked, json_parts, read_json_text


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "data.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


AWKWARD = {
    'quo"te': "back\\slash",
    "\\": '\\"',
    "ü€😀": ["", " ", 'a\\\\"b', "{[", "]}", "\n\t"],
    "e": [1e-7, -2.5, 10**40],
    "deep": [[[[{"a": None, "b": True}]]]],
    "words": [False, None, 12345678901234567890],
}


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_text_is_read_as_it_is(file, bom, ascii_only):
    text = json.dumps(AWKWARD, ensure_ascii=ascii_only, indent=1)
    assert read_json_text(file(bom + b" \n" + text.encode() + b"\n\n"), "expected data") == AWKWARD


TEXT = st.text(st.characters(codec="utf-8"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON_VALUES, ascii_only=st.booleans())
def test_all_that_json_writes_is_read(file, value, ascii_only):
    path = file(json.dumps({"value": value}, ensure_ascii=ascii_only))
    assert read_json_text(path, "expected data") == {"value": value}


@settings(max_examples=20)
@given(value=JSON_VALUES)
def test_parts_of_a_text_are_what_json_writes(value):
    many = [value] * 1_200
    assert "".join(json_parts(value)) == json.dumps(value)
    assert "".join(json_parts({"few": (value,), "many": many})) == json.dumps({"few": (value,), "many": many})


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 3, 2), (2_500,), (900, 3), (3, 1_100)])
@pytest.mark.parametrize("kind", [float, np.float32, int, bool, object])
def test_parts_of_an_array_are_those_of_its_list(shape, kind):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) / (1 if kind is int else 3)
    array = np.where(values > 4, None, values) if kind is object else values.astype(kind)
    text = [*json_parts(array)]
    assert "".join(text) == json.dumps(array.tolist())
    assert max(map(len, text)) < 30_000


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["is empty", "expected data"]),
        (b"\xef\xbb\xbf \n\t ", ["is empty"]),
        ('{"a": 1}'.encode("utf-16"), ["UTF-16", "PowerShell", "save it as UTF-8", "expected data"]),
        ('{"a": 1}'.encode("utf-16-le"), ["UTF-16"]),
        ('{"a": 1}'.encode("utf-16-be"), ["UTF-16"]),
        (b'{"a":\n"caf\xe9"}', ["line 2", "not UTF-8", "save the file as UTF-8"]),
        (b'{"a":\n"caf\xc3', ["line 2", "not UTF-8"]),
        (b'{"a": 1', ["line 1, column", "truncated"]),
        (b'{"a": 1, "a": 2}', ["'a' is given twice"]),
        (b'{"a": 1}{"b": 2}', ["line 1, column 9", "Extra data"]),
        (b'{"a": 1}' + b" " * 50 + b"more", ["Extra data"]),
        (b'{"a": 1}}', ["Extra data"]),
        (b"[1]", ["does not start with '{'"]),
        (b"{" + b"x" * 100, ["line 1, column 2"]),
        (b'{"a": \x00}', ["line 1, column 7"]),
        (b'{"a": "\x01"}', ["Invalid control character"]),
        (b'{"a": "\\x"}', ["Invalid \\escape"]),
        (b'{"a":' * 100_000, ["nested too deep"]),
        (b'{"a": ' + b"7" * 4301 + b"}", ["a number cannot be read", "digits"]),
    ],
)
def test_bad_text_is_refused_with_file_line_and_fix(file, content, parts):
    path = file(content)
    with pytest.raises(InvalidInstance) as caught:
        read_json_text(path, "expected data")
    missing = [part for part in [str(path), *parts] if part not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


@pytest.mark.parametrize(("name", "words"), [("", "cannot be read"), ("a\0b", "cannot be read"), ("x", "No such")])
def test_other_names_are_refused(tmp_path, name, words):
    with pytest.raises(InvalidInstance, match=words):
        read_json_text(f"{tmp_path}/{name}", "expected data")


# -- models -------------------------------------------------------------------------------------------


class Inner(Part):
    flag: bool = False
    labels: dict[str, str] = {}


class Outer(Part):
    name: str
    inner: Inner = Inner()
    several: list[Inner] = []


def test_null_is_the_same_as_nothing_and_other_keys_are_ignored():
    made = checked(Outer, {"name": "a", "inner": None, "several": [None, {"x": 1}], "y": np.arange(3)}, "x")
    assert made == Outer(name="a", several=[Inner(), Inner()])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], r"x: items\[3\] \(n\) is a list; give an object$"),
        ({}, r"x: items\[3\] \(n\).name is missing; add it$"),
        ({"name": 1}, r"\.name is 1; give text"),
        ({"name": "a", "several": {}}, "several is an object; give a list"),
        ({"name": "a", "several": [{}, {"flag": 1}]}, r"several\[1\].flag is 1; give true or false"),
        ({"name": "a", "inner": {"labels": {"a\n": 3}}}, r'inner.labels."a\\n" is 3; give text'),
        ({"name": "a", "inner": {"labels": {"x" * 99: 3}}}, r'labels."xxx.*\.\.\. is 3; give text'),
        ({"name": "a", "several": ({},)}, "several is a tuple; give a list"),
        pytest.param({"name": 10**5000}, "name is of type int", id="long"),
        ({"name": b"a"}, "of type bytes"),
    ],
)
def test_values_of_another_kind_are_refused_with_their_place(data, words):
    with pytest.raises(InvalidInstance, match=words):
        checked(Outer, data, "x", "items[3] (n)")
