"""JSON files in bounded memory: what is read, what is refused early, and values that know their place."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairopt.errors import InvalidInstance
from fairopt.io import json_text, text_files
from fairopt.io.json_text import Entry, entry_of, read_json_text


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "data.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 7 bytes, so that everything is cut somewhere."""
    monkeypatch.setattr(text_files, "_CHUNK", 7)


AWKWARD = {
    'quo"te': "back\\slash", "\\": '\\"', "ü€😀": ["", " ", "a\\\\\"b", "{[", "]}", "\n\t"], "e": [1e-7, -2.5, 10**40],
    "deep": [[[[{"a": None, "b": True}]]]], "words": [False, None, 12345678901234567890],
}  # fmt: skip


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_text_cut_anywhere_is_read_as_it_is(file, small_chunks, bom, ascii_only):
    text = json.dumps(AWKWARD, ensure_ascii=ascii_only, indent=1)
    assert read_json_text(file(bom + b" \n" + text.encode() + b"\n\n"), "expected data") == AWKWARD


TEXT = st.text(st.characters(codec="utf-8"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)  # fmt: skip


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON_VALUES, size=st.integers(1, 40), ascii_only=st.booleans())
def test_whatever_json_writes_is_read_whatever_the_chunks(file, monkeypatch, value, size, ascii_only):
    monkeypatch.setattr(text_files, "_CHUNK", size)
    path = file(json.dumps({"value": value}, ensure_ascii=ascii_only))
    assert read_json_text(path, "expected data") == {"value": value}


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
        (b'{"a": 1', ["line 1, column", "cut off"]),
        (b'{"a": 1, "a": 2}', ["'a' is given twice"]),
        (b'{"a": 1}{"b": 2}', ["line 1, column 9", "Extra data"]),
        (b'{"a": 1}' + b" " * 50 + b"more", ["Extra data"]),
        (b'{"a": 1}}', ["Extra data"]),
        (b"[1]", ["does not start with '{'"]),
        (b"{" + b"x" * 100, ["line 1, column 2"]),
        (b'{"a": \x00}', ["line 1, column 7"]),
        (b'{"a": "\x01"}', ["Invalid control character"]),
        (b'{"a": "\\x"}', ["Invalid \\escape"]),
        (b'{"a":' * 3000, ["nested too deep"]),
        (b'{"a": ' + b"7" * 4301 + b"}", ["a number cannot be read", "digits"]),
        (b'{"a": 0.' + b"7" * 5000 + b"}", ["a number cannot be read", "digits"]),
    ],
)
def test_bad_text_is_refused_with_file_line_and_fix_whatever_the_chunks(file, monkeypatch, content, parts):
    path = file(content)
    for size in (1 << 20, 64, 7):
        monkeypatch.setattr(text_files, "_CHUNK", size)
        with pytest.raises(InvalidInstance) as caught:
            read_json_text(path, "expected data")
        missing = [part for part in [str(path), *parts] if part not in str(caught.value)]
        assert not missing, f"{missing} not in: {caught.value}"


class Endless:
    """A file that goes on for ever, and counts what was read of it."""

    def __init__(self, start, more):
        self.start, self.more, self.read_so_far = start, more, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def fileno(self):
        return 0

    def read(self, size):
        at = (self.read_so_far - len(self.start)) % len(self.more)
        first = b"" if self.read_so_far else self.start
        at = 0 if first else at
        self.read_so_far += size
        return first + (self.more * (size // len(self.more) + 2))[at : at + size - len(first)]


@pytest.mark.parametrize(
    ("start", "more", "words", "most"),
    [
        (b"", b"\0", "does not start", 1), (b"", b"x", "does not start", 1), (b"{", b"x", "line 1, column 2", 1),
        (b'{"a": "', b"x", "a string has more than 16,777,216 characters", 20), (b"", b" ", "a stretch of blanks", 20),
        (b'{"a": ', b"1", "a number cannot be read", 1), (b'{"a": ', b"[", "nested too deep", 1),
        (b'{"a":"b"}', b"\n", "a stretch of blanks", 20), (b'{"a":"b"}', b"1, ", "Extra data", 2),
        (b'{"a": [', b"[],", "holds more than 16,777,216 values", 64),
        (b'{"a": [', b'"a long word for a value", ', "has more than 268,435,456 bytes", 260),
        (b'{"a": "', b'\\"', "a string has more", 40),
        (b'{"a": "', "€".encode(), "a string has more", 60), (b'{"a": ', b"\xff", "not UTF-8", 1),
    ],
)  # fmt: skip
def test_rubbish_without_end_is_refused_after_few_chunks(monkeypatch, start, more, words, most):
    monkeypatch.setattr(text_files, "_CHUNK", 1 << 16)  # a sixteenth of the usual, and so are the limits
    for name in ("_LONGEST_TEXT", "_MOST_VALUES"):
        monkeypatch.setattr(json_text, name, getattr(json_text, name) >> 4)
    endless = Endless(start, more)
    monkeypatch.setattr(json_text, "opened", lambda path, expected: endless)
    monkeypatch.setattr(json_text.os, "fstat", lambda _: type("", (), {"st_size": 0}))
    for before, after in (("16,777,216", "1,048,576"), ("268,435,456", "16,777,216")):
        words = words.replace(before, after)
    with pytest.raises(InvalidInstance, match=words):
        read_json_text("data.json", "expected data", largest=json_text.LARGEST_FILE >> 4)
    assert endless.read_so_far <= most * text_files._CHUNK


def test_a_file_past_the_largest_size_is_refused_after_its_first_chunk_unless_more_is_allowed(file, small_chunks):
    path = file(json.dumps({"a": list(range(100))}))
    with pytest.raises(InvalidInstance, match=r"data.json has more than 50 bytes.*json.load"):
        read_json_text(path, "expected data", largest=50)
    assert len(read_json_text(path, "expected data", largest=1000)["a"]) == 100


@pytest.mark.parametrize(("name", "words"), [("", "cannot be read"), ("a\0b", "no name of a file"), ("x", "No such")])
def test_what_is_no_file_is_refused(tmp_path, name, words):
    with pytest.raises(InvalidInstance, match=words):
        read_json_text(f"{tmp_path}/{name}", "expected data")


# -- sources and entries ------------------------------------------------------------------------------------------


def test_a_source_is_a_path_or_parsed_data(file):
    path = file('{"a": 1}')
    for source in (path, str(path), {"a": 1}):
        assert entry_of(source, "nodes", "expected nodes")["a"].value == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [('{"a": 1}', r"nodes is JSON text.*json.loads"), ("\ufeff [1]", "nodes is JSON text"), (5, "nodes is 5; give"),
     (None, "nodes is null"), (b"x.json", "of type bytes"), ("", 'nodes is ""'), ([1], "nodes is a list")],
)  # fmt: skip
def test_other_sources_are_refused(source, words):
    with pytest.raises(InvalidInstance, match=words):
        entry_of(source, "nodes", "expected nodes")


def test_an_entry_names_its_place():
    entry = Entry({"items": [{}, {"spec": {"taints": [3], "a b": 1, "x" * 99: 2, "\n": 3}}]}, "nodes.json")
    spec = list(entry["items"].entries())[1]["spec"]
    assert next(spec["taints"].entries()).place == "nodes.json: items[1].spec.taints[0]"
    assert entry.place == "nodes.json"
    places = [value.place for _, value in spec.fields()]
    assert places[2].endswith("xxx...") and places[3] == 'nodes.json: items[1].spec."\\n"'


def test_null_is_the_same_as_nothing():
    entry = Entry({"a": None}, "x")
    for key in ("a", "b"):
        assert not entry[key]
        assert (entry[key].object(), list(entry[key].entries()), entry[key].flag(), entry[key].text("d")) == (
            {}, [], False, "d",
        )  # fmt: skip
    assert Entry(0, "x")


@pytest.mark.parametrize(
    ("value", "method", "words"),
    [
        ([], "object", "x is a list; give an object"), ({}, "entries", "x is an object; give a list"),
        ("ab", "entries", 'x is "ab"; give a list'), (1, "text", "x is 1; give text"), (None, "text", "x is missing"),
        ("", "name", 'x is ""; give a name'), ("a\nb", "name", "printable"), ("\ud800", "name", "printable"),
        (1, "flag", "x is 1; give true or false"), ("true", "flag", "give true or false"), ({1: 2}, "fields", "keys"),
        pytest.param(10**5000, "text", "x is of type int", id="long"),
        ({1}, "text", "of type set"), (b"a", "text", "of type bytes"),
    ],
)  # fmt: skip
def test_values_of_another_kind_are_refused(value, method, words):
    with pytest.raises(InvalidInstance, match=words):
        list(getattr(Entry(value, "x"), method)())
