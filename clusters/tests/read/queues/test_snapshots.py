"""Snapshots of KAI, built here as its plugin writes them, and what queues ask for by the pods beside them."""

import json
import zipfile

import fairopt_clusters as fc
import pytest
import yaml

import fairopt as fo
from fairopt.errors import InvalidInstance

GPU = "nvidia.com/gpu"
KINDS = {"nodes": ("v1", "Node"), "pods": ("v1", "Pod"), "podGroups": ("scheduling.run.ai/v2alpha2", "PodGroup")}
KINDS["queues"] = ("scheduling.run.ai/v2", "Queue")


def queue(name, parent="", **quotas):
    resources = {key: {"quota": value, "limit": -1, "overQuotaWeight": 1} for key, value in quotas.items()}
    metadata = {"name": name, "creationTimestamp": "2026-01-02T00:00:00Z"}
    return {"metadata": metadata, "spec": {"parentQueue": parent, "resources": resources}}


def pod(name, group, gpus, node="", scheduler="kai-scheduler", **more):
    marks = {"annotations": {"pod-group-name": group, **more}} if group else {}
    requests = {"cpu": "2", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    return {
        "metadata": {"name": name, "namespace": "x", **marks},
        "spec": {"schedulerName": scheduler, "nodeName": node, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": "Running" if node else "Pending"},
    }


def node(name, gpus, ready="True"):
    status = {"allocatable": {"cpu": "64", "memory": "256Gi", GPU: str(gpus)}}
    return {"metadata": {"name": name}, "status": {**status, "conditions": [{"type": "Ready", "status": ready}]}}


def objects():
    """Of 8 GPUs 1 is of another scheduler; a holds 2 and is given 2, b waits for 3."""
    return {
        "nodes": [node("n1", 8), node("n2", 8, ready="Unknown")],
        "queues": [queue("lab", gpu=4), queue("a", "lab", gpu=1), queue("b", "lab", gpu=3), queue("idle", gpu=1)],
        "podGroups": [
            {"metadata": {"name": f"of-{name}", "namespace": "x"}, "spec": {"queue": name}} for name in ("a", "b")
        ],
        "pods": [
            pod("a1", "of-a", 2, "n1"), pod("a2", "of-a", 2), pod("b1", "of-b", 3),
            pod("b2", "of-b", 0, **{"gpu-fraction": "0.5"}), pod("other", None, 1, "n1", "default-scheduler"),
        ],
    }  # fmt: skip


@pytest.fixture
def written(tmp_path):
    def of(name="snapshot.json", raw=None, **more):
        raw = {**(objects() if raw is None else raw), "configMaps": None, "storageClasses": [{}], **more}
        path = tmp_path / "snapshot.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(name, json.dumps({"config": {}, "schedulerParams": {}, "rawObjects": raw}))
        return path

    return of


def test_queues_have_what_nodes_pods_and_bindings_say(written):
    binding = {"metadata": {"namespace": "x"}, "spec": {"podName": "a2", "selectedNode": "n1"}}
    tree = fc.read_queues(written(bindRequests=[binding]))
    assert tree.capacity == {"gpu": 7, "cpu": 62, "memory": 255}
    gpus = {one.name: ((one.request or {})["gpu"], one.used["gpu"]) for one in tree.queues}
    assert gpus == {"lab": (7.5, 4), "a": (4, 4), "b": (3.5, 0), "idle": (0, 0)}
    assert {one.created for one in tree.queues} == {1767312000.0}
    # below lab a deserves 1 and b 3; of the other 3 b asks for 0.5, and a takes the rest in 1, 1 and a last 0.5
    assert fc.schedulers.KAI().divide(tree)["gpu"].to_dict() == {"lab": 7, "a": 3.5, "b": 3.5, "idle": 0}


def test_a_failed_binding_binds_nothing(written):
    binding = {"metadata": {"namespace": "x"}, "spec": {"podName": "a2", "selectedNode": "n1"}}
    tree = fc.read_queues(written(bindRequests=[{**binding, "status": {"phase": "Failed"}}]))
    assert tree.by_name["a"].used["gpu"] == 2


def test_a_snapshot_reads_as_its_objects_in_yaml(written, tmp_path):
    folder = tmp_path / "objects"
    folder.mkdir()
    for key, some in objects().items():
        version, kind = KINDS[key]
        documents = [{"apiVersion": version, "kind": kind, **one} for one in some]
        (folder / f"{key}.yaml").write_text(yaml.safe_dump_all(documents))
    path = written()
    assert fc.read_queues(folder) == fc.read_queues(path)
    assert fo.read(folder) == fo.read(path)
    unpacked = tmp_path / "kai.json"
    with zipfile.ZipFile(path) as file:
        unpacked.write_bytes(file.read("snapshot.json"))
    assert fc.read_queues(unpacked) == fc.read_queues(path)
    assert fo.read(unpacked) == fo.read(path)


def test_queues_without_nodes_and_pods_ask_for_all(written):
    raw = objects()
    tree = fc.read_queues(written(raw={"queues": raw["queues"]}))
    assert tree.capacity == {} and all(one.request is None for one in tree.queues)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path, of: of(name="other.json"), r"snapshot.zip holds other.json, and no snapshot.json; give a snap"),
        (lambda path, of: path.write_bytes(of().read_bytes()[:-40]), r"cannot be unpacked .* may be cut off"),
        (lambda path, of: path.write_bytes(b"PK\x03\x04"), r"cannot be unpacked"),
        (lambda path, of: path.write_text("no zip"), r"cannot be unpacked .File is not a zip file."),
        (lambda path, of: of(raw={"pods": []}), r"snapshot.zip holds no queues; expected"),
        (lambda path, of: of(queues={}), r"rawObjects.queues is an object; give a list"),
        (lambda path, of: of(queues=[3]), r"queues\[0\].* is 3; give objects"),
        (lambda path, of: of(pods=[pod(["a"], None, 1)]), r"pods\[0\].metadata.name is a list; give text"),
        (lambda path, of: of(queues=[queue("a", "b")]), r"queues\[0\] \(a\): the queue 'a' has the parent \"b\""),
    ],
    ids=["another-file", "cut-off", "empty", "no-zip", "no-queues", "no-list", "no-object", "name", "no-parent"],
)
def test_errors(written, tmp_path, change, words):
    path = tmp_path / "snapshot.zip"
    change(path, written)
    with pytest.raises(InvalidInstance, match=words):
        fc.read_queues(path)


def test_a_folder_without_queues(tmp_path):
    (tmp_path / "node.yaml").write_text("kind: Node\nmetadata: {name: n}\n")
    with pytest.raises(InvalidInstance, match=r"holds no queues in its files of YAML and JSON; expected"):
        fc.read_queues(tmp_path)
