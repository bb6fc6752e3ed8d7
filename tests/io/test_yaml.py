"""YAML files: the same keys and checks as JSON, with aliases, and nothing else that YAML alone could do."""

import json
import sys

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairopt.datasets import demo, read, write
from fairopt.errors import InvalidInstance, MissingExtra
from fairopt.instance import Instance
from fairopt.io import yaml_documents
from fairopt.io.yaml_documents import documents_of_yaml

TWO = Instance([[1, 2]], [3, 4], users=["web"], resources=["cpu", "memory"])


@pytest.fixture
def text(tmp_path):
    def write_text(content):
        file = tmp_path / "x.yaml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write_text


@pytest.mark.parametrize(
    "content",
    [
        "demands: [[1, 2]]\ncapacities: [3, 4]\nusers: [web]\nresources: [cpu, memory]\n",
        "users:\n  - web\nresources:\n- cpu\n- 'memory'\ndemands:\n  - [1.0, 2e0]\ncapacities: [+3, 4.]  # units\n",
        '{"demands": [[1, 2]], "capacities": [3, 4], "users": ["web"], "resources": ["cpu", "memory"]}',
        "\ufeff---\ndemands: [[1, 2]]\ncapacities: [3, 4]\nusers: [web]\nresources: [cpu, memory]\nweights: ~\n...\n",
        "demands: [[1, 2]]\r\ncapacities: [3, 4]\r\nusers: {}\r\nresources: [cpu, memory]\r\n".replace("{}", "[web]"),
        "%YAML 1.1\n---\ndemands: &d [[1, 2]]\ncapacities: [3, 4]\nusers: !!seq [!!str web]\n"
        "resources: [cpu, memory]\n",
    ],
)
def test_ways_to_write_the_same_file(text, content):
    assert read(text(content)) == TWO


def test_words_are_read_as_yaml_1_2_does(text):
    cluster = read(text("users: [no, 1:30, 0x1g, ~x]\ndemands: [[1e3], [.5], [0010], [1]]\ncapacities: [1E+4]\n"))
    assert cluster.users == ("no", "1:30", "0x1g", "~x")
    assert cluster.demands.ravel().tolist() == [1000, 0.5, 10, 1]


def test_keys_are_text_whatever_they_look_like(text):
    content = "users: ['1', 'true']\ndemands: [[1], [1]]\ncapacities: [9]\nweights: {1: 2, true: 3}\n"
    assert read(text(content)).weights.tolist() == [2, 3]


def test_the_ending_yml_is_yaml_too(tmp_path):
    write(demo(), tmp_path / "x.yml")
    assert read(tmp_path / "x.yml") == demo()


def test_one_user_or_server_stands_on_a_line(tmp_path):
    write(demo(), tmp_path / "x.yaml")
    assert "- [2.0, 4.0, 0.0, 0.5]" in (tmp_path / "x.yaml").read_text().splitlines()


NAMES = [
    "1e3",
    "1",
    "~",
    "null",
    "",
    "no",
    "0x1",
    ".inf",
    "-.INF",
    ".nan",
    "1:30",
    "2020-01-01",
    "=",
    "<<",
    "a: b",
    "# c",
    "- x",
    "'",
    '"',
    "\n",
    "a\u2028b",
    "\x7f",
    "\x85",
    "\ufeff",
    "用户",
    "😀",
    "!x",
    "&a",
    "*a",
    "%a",
    " a ",
    "true",
    "+.5",
]


def test_names_that_look_like_something_else_are_kept(tmp_path):
    instance = Instance(np.ones((len(NAMES), 1)), [1], users=NAMES)
    write(instance, tmp_path / "x.yaml")
    assert read(tmp_path / "x.yaml").users == tuple(NAMES)
    assert yaml.safe_load((tmp_path / "x.yaml").read_text())["users"] == NAMES  # to YAML 1.1 as well


BAD = {
    "indentation": ("demands: [[1]]\n capacities: [3]\n", "line 2, column 2: .*check the indentation"),
    "tab": ("demands:\n\t- [1]\n", "line 2, column 1: .*not tabs"),
    "cut off": ("demands: [[1, 2]\ncapacities: [3]", "line 2, column 1: while parsing a flow sequence"),
    "quote": ("users: 'a", "line 1, column 1.: .*quoted scalar"),
    "key twice": ("demands: [[1]]\ncapacities: [3]\ndemands: [[2]]\n", "line 3, column 1: the key 'demands' is given"),
    "inner key twice": ("weights: {a: 1, a: 2}", "line 1, column 17: the key 'a' is given twice"),
    "alias of nothing": ("demands: *d\n", r"line 1, column 10: the alias \*d repeats nothing that ends before it"),
    "alias of itself": ("demands: &d [*d]\n", r"line 1, column 14: the alias \*d repeats nothing that ends before it"),
    "alias as a key": ("a: &a b\n*a : 1\n", "line 2, column 1: a list or a mapping is a key"),
    "merge of a list": ("<<: [1]\n", "line 1, column 5: << merges mappings, and this is none; give"),
    "Python tag": (
        "demands: !!python/object/apply:os.abort []\n",
        "line 1, column 10: .*os.abort' is not known here; give .* without tags",
    ),
    "list as mapping": (
        "demands: !!map [[1]]\n",
        "line 1, column 10: the tag 'map' is that of another kind",
    ),
    "own tag": ("demands: !sum [1]\n", "line 1, column 10: .*the tag '!sum' is not known here; give .* without tags"),
    "two documents": (
        "demands: [[1]]\n---\ncapacities: [3]\n",
        "holds 2 documents, which no reader takes; give one",
    ),
    "list as a key": ("? [a]\n: 1\n", "line 1, column 3: a list or a mapping is a key; give each key once, as text"),
    "empty": ("", "is empty; expected an instance with the keys demands and capacities"),
    "only a comment": ("# nothing\n", "is empty"),
    "list": ("- 1\n", "holds a list; expected an instance with the keys"),
    "one value": ("7", "holds one value; expected"),
    "unknown key": ("demand: [[1]]\ncapacities: [1]\n", "demands is missing"),
    "word for a number": ("demands: [[many]]\ncapacities: [1]\n", 'demands\\[0\\]\\[0\\] is "many"; give a number'),
    "infinite": ("demands: [[.inf]]\ncapacities: [1]\n", "demands\\[0\\]\\[0\\] is Infinity; give a finite number"),
    "no number": ("demands: [[.nan]]\ncapacities: [1]\n", "demands\\[0\\]\\[0\\] is NaN"),
    "number as a name": ("users: [1]\ndemands: [[1]]\ncapacities: [1]\n", "users\\[0\\] is 1; give text"),
    "digits without end": (f"demands: [[{'9' * 5000}]]\n", "a value cannot be read .*digits"),
    "nested without end": ("[" * 5000, "line 1, column 10*1: this is nested too deep"),
    "nested very deep": (
        "[" * 200_000 + "]" * 200_000,
        "line 1, column 10*1: this is nested too deep",
    ),  # ends libyaml's process
    "truth that is none": ("demands: !!bool maybe\n", "a value cannot be read"),
    "control character": ("users: [a\x01]\n", "line 1.*character that YAML does not allow"),
    "another encoding": ("demands: [[1]]  # é\n".encode("latin-1"), "line 1: this is not UTF-8"),
    "UTF-16": ("demands: [[1]]\n".encode("utf-16"), "line 1: this is not UTF-8"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_line_column_and_fix(text, case):
    content, message = BAD[case]
    with pytest.raises(InvalidInstance, match=f"x.yaml.*{message}"):
        read(text(content))


def test_aliases_repeat_values_and_keys_of_a_mapping_override_those_merged_into_it(text):
    cluster = read(text("demands: &d [[1, 2]]\ncapacities: [&n 3, 4]\nweights: [*n]\n"))
    assert cluster.weights.tolist() == [3] and cluster.demands.tolist() == [[1, 2]]
    content = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], x: 5}\nd: {<<: *b, '<<': 6}\n"
    [found] = documents_of_yaml(content, "x")
    assert found.data["c"] == {"x": 5, "y": 2, "z": 4} and found.data["d"] == {"y": 3, "z": 4, "<<": 6}


BOMBS = {
    "billion laughs": (
        ["a0: &a0 [x, x]", *(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12))],
        r"line 7, column 30: aliases \(\*name\) repeat more than 1,000,000 values",
    ),
    "merged": (
        ["a0: &a0 {x: 1}", *(f"a{k}: &a{k} {{p: *a{k - 1}, <<: *a{k - 1}, k{k}: 1}}" for k in range(1, 40))],
        "aliases .* repeat more than",
    ),
    "a chain": (["a0: &a0 [x]", *(f"a{k}: &a{k} [*a{k - 1}]" for k in range(1, 120))], "nested too deeply"),
    "too many documents": (["---"] * 1_001, r"line 1001, column 1: there are more than 1,000 documents"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_before_they_take_time_or_memory(text, bomb, monkeypatch):
    monkeypatch.setattr(yaml_documents, "_MAX_DOCUMENTS", 1_000)
    lines, message = BOMBS[bomb]
    with pytest.raises(InvalidInstance, match=rf"x\.yaml.*{message}"):
        read(text("\n".join(lines)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInstance, match=r"x\.yaml cannot be read"):
        read(tmp_path / "x.yaml")


def test_without_libyaml_all_is_the_same(text, tmp_path, monkeypatch):
    for name in ("CSafeLoader", "CSafeDumper"):
        monkeypatch.delattr(yaml, name, raising=False)
    write(demo(), tmp_path / "demo.yaml")
    assert read(tmp_path / "demo.yaml") == demo()
    assert read(text("demands: [[1, 2e0]]\ncapacities: ['3', 4]\n".replace("'3'", "3"))).demands.tolist() == [[1, 2]]
    with pytest.raises(InvalidInstance, match=r"x\.yaml, line 2, column"):
        read(text("demands: [[1]]\n capacities: [3]\n"))
    with pytest.raises(InvalidInstance, match="character that YAML does not allow"):
        read(text("users: [a\x01]\n"))


PIECES = st.sampled_from(
    [
        "demands",
        "capacities",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "!x ",
        "\n",
        "  ",
        "\t",
        "1",
        "1e5",
        "~",
        "'",
        '"',
        "|\n",
        "---\n",
        "? ",
        "<<",
        "#",
        "%",
        "users",
        "\ufeff",
        "\0",
    ]
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=100) | st.lists(PIECES, max_size=40).map("".join).map(str.encode))
def test_no_content_raises_anything_but_invalid_instance(text, content):
    try:
        assert isinstance(read(text(content)), Instance)
    except InvalidInstance as error:
        assert "x.yaml" in str(error)


def test_yaml_of_nested_data_is_the_same_data_as_json():
    items = [{"name": f"p{k}", "spec": {"parts": [{"cpu": k % 9 + 1, "memory": "1Gi"}]}} for k in range(100)]
    data = {"kind": "List", "items": items, "odd": [None, True, 1.5, -2, "1", "no", "", "a: b", "\n", "\u00e9", {}, []]}
    assert documents_of_yaml(yaml.safe_dump(data, allow_unicode=True), "x")[0].data == data
    assert documents_of_yaml(json.dumps(data), "x")[0].data == data


def test_without_pyyaml_the_extra_is_named(text, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtra, match=r"x\.yaml, a file of YAML, needs PyYAML.*pip install 'fairopt\[yaml\]'"):
        read(text("demands: [[1]]\n"))
