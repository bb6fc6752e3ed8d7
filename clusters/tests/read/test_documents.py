"""Documents of YAML and JSON: several in a file, files of a folder in any names, and errors by place."""

import json

import pytest
import yaml
from fairopt_clusters.read.documents import data_of_text, document_of

import fairopt as fo
from fairopt.errors import InvalidInstance

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8, memory: 32Gi}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  containers:  # one
  - resources: {requests: {cpu: %s, memory: 1Gi}}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return tmp_path

    return write


def test_documents_lists_and_empty_documents_are_one_list(folder):
    listed = yaml.safe_dump({"kind": "List", "items": [yaml.safe_load(POD % (f"p{k}", "b", 2)) for k in (1, 2)]})
    text = "---\n".join(["# comments\n", NODE, POD % ("p0", "a", 1), "\n", listed, "# the end\n"])
    cluster = fo.read(folder(all_yaml=text) / "all.yaml")
    assert cluster.users == ("a/1 cpu", "b/2 cpu") and cluster.task_limits.tolist() == [1, 2]


def test_items_of_a_list_of_one_kind_may_leave_it_out():
    pod = {"metadata": {"name": "p"}, "spec": {}}
    found = data_of_text(f"{NODE}---\n{json.dumps({'kind': 'PodList', 'items': [pod]})}", "x", "", as_yaml=True)
    assert [item["kind"] for item in found["items"]] == ["Node", "Pod"]
    assert found["items"].places == ["document 1", "document 2, items[0]"]


def test_a_folder_is_read_by_kinds_whatever_the_names_of_its_files(folder):
    pods = "\n---\n".join(POD % (f"p{k}", "a", 1) for k in range(3))
    where = folder(ours_yml=pods, machines_yaml=NODE, b_json=json.dumps(yaml.safe_load(POD % ("x", "b", 2))))
    (where / "README.md").write_text("kind: Node")
    cluster = fo.read(where)
    assert cluster.users == ("a/1 cpu", "b/2 cpu") and cluster.task_limits.tolist() == [3, 1]
    assert fo.read(where, users="namespace") == cluster


def test_files_of_yaml_beside_those_of_kubectl_count(folder):
    files = {"nodes_json": NODE, "pods_json": POD % ("p", "a", 1)}
    where = folder(**{name: json.dumps({"items": [yaml.safe_load(text)]}) for name, text in files.items()})
    assert fo.read(where).users == ("a/1 cpu",)
    where = folder(
        **{name: json.dumps(yaml.safe_load(text)) for name, text in files.items()}, more_yaml=POD % ("q", "b", 1)
    )
    assert fo.read(where).users == ("a/1 cpu", "b/1 cpu")


def test_output_of_slurm_may_be_yaml_too(tmp_path):
    data = {
        "nodes": {"nodes": [{"name": "n1", "cpus": 8, "real_memory": 1024, "state": ["IDLE"]}]},
        "jobs": {"jobs": [{"job_id": 7, "account": "bio", "cpus": 2, "job_state": "PENDING", "node_count": 1}]},
    }
    for name, of in data.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(of))
    (tmp_path / "all.json").write_text(json.dumps(data["nodes"] | data["jobs"]))
    (tmp_path / "all.yml").write_text(yaml.safe_dump(data["nodes"] | data["jobs"]))
    cluster = fo.read(tmp_path)
    assert cluster.users == ("bio/2 cpu",)
    assert fo.read(tmp_path / "all.json") == fo.read(tmp_path / "all.yml") == cluster


def test_tables_beside_yaml_stay_tables(tmp_path):
    fo.datasets.write(fo.datasets.demo(), tmp_path)
    (tmp_path / "quotas.yaml").write_text(NODE)
    assert fo.read(tmp_path) == fo.datasets.demo()


def test_unread_kinds_between_known_ones_are_named_with_their_places(folder):
    where = folder(a_yaml=f"{NODE}---\n{SERVICE}---\n{POD % ('p', 'a', 1)}---\nx: 1\n")
    notes = "; ".join(fo.read(where).notes)
    assert "1 object of the kind Service is not read (a.yaml, document 2 (web))" in notes
    assert "1 document without a kind is not read (a.yaml, document 4)" in notes
    assert "the kinds that are read: " in notes and "Deployment" in notes


BAD = {
    "a list": (f"{NODE}---\n- 1\n", r"a\.yaml: document 2 is a list; give objects of Kubernetes"),
    "a word": (f"{NODE}---\nhello\n", r'a\.yaml: document 2 is "hello"; give objects'),
    "an item": ("kind: List\nitems: [1]\n---\n" + NODE, r"a\.yaml: document 1, items\[0\] is 1; give objects"),
    "quantity": (
        f"{NODE}---\n{POD % ('p', 'a', '1Gib')}",
        r'a\.yaml: document 2 \(a/p\)\.spec\.containers\[0\]\.resources\.requests\.cpu is "1Gib"; write 1Gi',
    ),
    "syntax": (f"{NODE}---\nkind: [Pod\n", r"a\.yaml, document 2, line 8, column 1: .*check the indentation"),
    "twice": (f"{NODE}---{NODE}", r"document 2 \(n1\) and .*a\.yaml: document 1 \(n1\) are both named 'n1'; keep one"),
    "no server": (
        POD % ("p", "a", 1) + f"---\n{SERVICE}",
        r"there is no object of kind Node; .*; not read is what is of the kind Service \(document 2 \(web\)\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_file_the_document_and_the_object(folder, case):
    text, message = BAD[case]
    with pytest.raises(InvalidInstance, match=message):
        fo.read(folder(a_yaml=text) / "a.yaml")


def test_errors_in_a_folder_name_the_file_too(folder):
    where = folder(a_yaml=NODE, b_yaml=f"{POD % ('p', 'a', 1)}---\n{POD % ('q', 'a', '1Gib')}")
    with pytest.raises(
        InvalidInstance, match=r": b\.yaml, document 2 \(a/q\)\.spec\.containers.* is \"1Gib\"; write 1Gi"
    ):
        fo.read(where)


def test_a_source_is_a_path_or_parsed_data(folder):
    path = folder(a_json='{"a": 1}') / "a.json"
    for source in (path, str(path)):
        assert document_of(source, "nodes", "expected nodes") == ({"a": 1}, str(path))
    assert document_of({"a": 1}, "nodes", "expected nodes") == ({"a": 1}, "nodes")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('{"a": 1}', r"nodes is JSON text.*json.loads"),
        ("\ufeff [1]", "nodes is JSON text"),
        (5, "nodes is 5; give"),
        (None, "nodes is null"),
        (b"x.json", "of type bytes"),
        ("", 'nodes is ""'),
        ([1], "nodes is a list"),
    ],
)
def test_other_sources_are_refused(source, words):
    with pytest.raises(InvalidInstance, match=words):
        document_of(source, "nodes", "expected nodes")
