"""What `fairopt.read` finds in files of clusters, and how wrong ones are refused."""

import gzip
import json
import os
from itertools import chain, repeat
from math import inf
from pathlib import Path
from types import SimpleNamespace

import fairopt_clusters as fc
import pytest
from fairopt_clusters import read_clusterdata2019, read_kubernetes, read_openb, read_slurm

import fairopt as fo
from fairopt.datasets import demo, read, write
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.runtime import clock
from fairopt.runtime.progress import EVERY

PATHS = {"csv": "folder", "parquet": "folder", "json": "x.json", "yaml": "x.yaml"}
ARRAYS = ("demands", "capacities", "weights", "task_limits", "eligible", "counts")


def same(a: Instance, b: Instance) -> bool:
    assert a == b and a.units == b.units
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ARRAYS)


@pytest.mark.parametrize(("pods", "kinds"), [("default", [*PATHS]), ("gpuspec33", ["csv", "parquet"])])
def test_the_openb_cluster_is_the_same_after_every_kind_in_turn(openb_folder, tmp_path, pods, kinds):
    cluster = found = read_openb(openb_folder, pods=pods)
    for kind in kinds:
        path = tmp_path / kind / PATHS[kind]
        path.parent.mkdir()
        write(found, path, kind)
        found = read(path)
        assert same(found, cluster)
    for backend in ("pandas", "polars", "pyarrow") if pods == "default" else ():
        found = Instance.from_frames(*found.to_frames(backend))
        assert same(found, cluster)


@pytest.mark.parametrize(
    ("option", "takers"),
    [
        ({"users": "namespace"}, "Kubernetes and Slurm and ClusterData 2019"),
        ({"tasks": "mean"}, "Kubernetes and Slurm"),
        ({"at": 0}, "ClusterData 2019"),
        ({"pods": "default"}, "the openb trace"),
    ],
)
def test_an_option_of_another_kind_names_the_kinds_that_take_it(tmp_path, option, takers):
    write(demo(), tmp_path / "tables")
    write(demo(), tmp_path / "x.json")
    for path, rest in (("tables", "is one of CSV tables"), ("x.json", "is not such a folder")):
        with pytest.raises(
            InvalidInstance, match=f"'{next(iter(option))}' is an option for folders of {takers}.*{rest}"
        ):
            read(tmp_path / path, **option)


def test_output_of_kubectl_given_alone_points_to_the_folder(tmp_path):
    (tmp_path / "pods.json").write_text('{"kind": "List", "items": []}')
    with pytest.raises(InvalidInstance, match=r"no object of kind Node.* give the folder that it is in"):
        read(tmp_path / "pods.json")
    (tmp_path / "nodes.json").write_text('{"nodes": []}')
    with pytest.raises(InvalidInstance, match=r"its keys are 'nodes'.* give the folder that it is in"):
        read(tmp_path / "nodes.json")


def test_a_folder_of_kubernetes_is_read(tmp_path):
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "64Gi"}}}
    pods = [
        {
            "metadata": {"namespace": space, "name": "p", "labels": {"team": "a"}},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
        }
        for space in ("web", "batch")
    ]
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "List", "items": [node]}))
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": pods}))
    cluster = read(tmp_path)
    assert cluster.users == ("batch/0.5 cpu", "web/0.5 cpu")
    assert cluster.teams["team"] == ("batch", "web")
    assert cluster.resource_titles[1] == "memory (GiB)"
    assert read(tmp_path, users="label:team", tasks="shapes").users == ("a/0.5 cpu 1 GiB memory",)
    write(cluster, tmp_path / "out", "parquet")
    assert read(tmp_path / "out") == cluster


def test_a_folder_of_slurm_is_read(tmp_path):
    nodes = [{"name": "n1", "cpus": 64, "real_memory": 262144, "state": ["IDLE"]}]
    jobs = [{"account": "bio", "user_name": "ann", "job_state": ["PENDING"], "tres_req_str": "cpu=8,mem=32G,node=1"}]
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    assert read(tmp_path).users == ("bio/8 cpu",)
    assert read(tmp_path, users="user").users == ("ann/8 cpu",)


def test_data_of_the_config_map_of_yunikorn_may_stand_alone(tmp_path):
    (tmp_path / "config.yaml").write_text(
        "queues.yaml: |\n  partitions:\n    - name: default\n      queues: [{name: root, queues: [{name: a}]}]\n"
    )
    with pytest.raises(InvalidInstance, match=r"holds 1 queue of YuniKorn \(root.a\) and no jobs"):
        read(tmp_path / "config.yaml")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_that_is_being_written_is_refused_too(tmp_path):
    os.mkfifo(tmp_path / "i.csv")
    ends = os.open(tmp_path / "i.csv", os.O_RDWR)
    os.write(ends, b"time,type\n")
    with pytest.raises(InvalidInstance, match="is a pipe"):
        read_clusterdata2019(tmp_path / "i.csv", tmp_path / "i.csv")
    os.close(ends)


def test_packed_files_say_that_they_are_to_be_unpacked(tmp_path):
    (tmp_path / "nodes.json").write_bytes(gzip.compress(b'{"items": []}'))
    with pytest.raises(InvalidInstance, match=r"nodes\.json is compressed \(gzip\); decompress it"):
        read_kubernetes(tmp_path / "nodes.json", tmp_path / "nodes.json")


NODE = {"name": "n", "cpus": 4, "real_memory": 1024, "partitions": ["a"]}


@pytest.mark.parametrize(
    ("nodes", "jobs", "words"),
    [
        ([], [], r"nodes: the list of nodes is empty"),
        ([{**NODE, "state": ["DOWN"]}], [], r"nodes: there are no servers to share; 1 server that can start no jobs"),
        ([NODE], [], r"nodes and jobs: there are no jobs to share servers among"),
    ],
)
def test_errors_about_a_slurm_cluster_name_what_they_are_about(nodes, jobs, words):
    with pytest.raises(InvalidInstance, match=f"^{words}"):
        read_slurm({"nodes": nodes}, {"jobs": jobs})


def test_one_document_with_nodes_and_jobs_is_named_once(tmp_path):
    (tmp_path / "all.json").write_text(json.dumps({"nodes": [NODE], "jobs": []}))
    with pytest.raises(InvalidInstance, match=r"^((?!\.json).)*all\.json: there are no jobs to share servers among"):
        fo.read(tmp_path / "all.json")


def test_what_slurm_itself_reports_is_repeated():
    errors = [{"description": "Unable to contact slurm controller"}, {"error": "x"}, 5]
    with pytest.raises(InvalidInstance, match=r"nodes has no list 'nodes'.*2 errors.*Unable to contact slurm"):
        read_slurm({"errors": [*errors, errors[0]][:2]}, {"jobs": []})
    job = {"job_id": 1, "account": "a", "cpus": 1}
    made = read_slurm({"nodes": [NODE], "errors": errors[:1]}, {"jobs": [job]})
    assert 'Slurm reported 1 error in nodes ("Unable to contact slurm controller")' in made.notes


def clusterdata(folder):
    columns = "time,type,collection_id,instance_index,machine_id,cpus,memory"
    (folder / "events.csv").write_text(f"{columns}\n0,0,1,0,,.5,.5\n")
    (folder / "machines.csv").write_text("time,machine_id,type,cpus,memory\n0,1,1,1,1\n")
    return folder / "events.csv", folder / "machines.csv"


def openb(folder):
    (folder / "openb_node_list_all_node.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,9000,9000,0,\n")
    (folder / "openb_pod_list_default.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time\np,1000,1000,0,0,,BE,Running,0\n"
    )
    return (folder,)


ROWS = EVERY + 1
LISTED = {"items": [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "9"}}}]}
PODS = {
    "items": [
        {"metadata": {"name": f"p{k}"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
        for k in range(ROWS)
    ]
}


def of_kubernetes(folder):
    (folder / "nodes.json").write_text(json.dumps(LISTED))
    (folder / "pods.json").write_text(json.dumps(PODS))
    return folder


def test_reading_ends_among_pods_and_says_how_far_it_came(tmp_path, monkeypatch):
    source, told = of_kubernetes(tmp_path), []
    with fo.progress(lambda what, done, total: told.append((what, done))):
        fo.read(source)
    within = next(k for k, (what, done) in enumerate(told) if what == "pods of pods.json" and done)
    times = chain(repeat(0.0, 1 + within), repeat(inf))  # so that no test depends on the time
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    with pytest.raises(fo.errors.OutOfTime, match=rf"ended at: pods of pods.json, {told[within][1]:,}"):
        fo.read(source, time_limit=5)


@pytest.mark.parametrize(
    ("reader", "inputs", "said"),
    [
        (fc.read_kubernetes, lambda folder: (LISTED, PODS), "^the input was not read within the time limit of 1e-09 s"),
        (
            fc.read_slurm,
            lambda folder: (of_kubernetes(folder) / "nodes.json", folder / "pods.json"),
            r"nodes\.json and .*pods\.json were not read within",
        ),
        (fc.read_clusterdata2019, clusterdata, r"events\.csv and .*machines\.csv were not read within"),
        (fc.read_openb, openb, "was not read within"),
    ],
    ids=["kubernetes", "slurm", "clusterdata2019", "openb"],
)
def test_readers_of_one_kind_take_a_limit_too(tmp_path, reader, inputs, said):
    given = inputs(tmp_path)
    with pytest.raises(fo.errors.OutOfTime, match=said):
        reader(*given, time_limit=1e-9)


# -- kinds ----------------------------------------------------------------------------------------------------


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["nodes.json"],
            r"has nodes.json, but no pods.json \(for Kubernetes: kubectl get pods -A -o json > now/pods.json\) and no "
            r"jobs.json \(for Slurm: squeue --json > slurm/jobs.json\); add what is missing of one of these$",
        ),
        (["slurm.conf"], r"has slurm.conf, but no jobs.json \(for Slurm: squeue --json > slurm/jobs.json\); add it$"),
        (["notes.txt"], "has notes.txt, and no file that is read; give a folder with"),
        (["pods.json"], "has pods.json, but no nodes.json .for Kub"),
        (["instance_events.csv.gz"], "has instance_events.csv.gz, but no machine_events.parquet"),
        (
            ["nodes.json", "pods.json", "jobs.json"],
            r"nodes.json and pods.json \(of Kubernetes\) and jobs.json \(of Slurm\), so it could be either; give each",
        ),
        (["users.csv", "servers.csv", "pods.json"], r"pods.json \(of Kubernetes\)"),
        (
            ["instance_events.csv", "instance_events.parquet", "machine_events.csv"],
            "has both instance_events.parquet and instance_events.csv; keep one",
        ),
    ],
)
def test_a_folder_that_is_not_one_kind_says_what_is_there_and_what_is_missing(tmp_path, names, message):
    with pytest.raises(InvalidInstance, match=message):
        read(fill(tmp_path, *names))


@pytest.mark.parametrize("name", ["machine_events.csv.gz", "openb_node_list_all_node.csv"])
def test_one_of_several_files_points_to_the_folder(tmp_path, name):
    with pytest.raises(InvalidInstance, match="give the folder that it is in"):
        read(fill(tmp_path, name) / name)


def test_several_documents_that_are_no_objects_are_refused(tmp_path):
    (tmp_path / "x.yaml").write_text("demands: [[1]]\n---\ncapacities: [1]\n")
    with pytest.raises(InvalidInstance, match=r"x\.yaml holds 2 documents, which no reader takes; give one document"):
        read(tmp_path / "x.yaml")


def test_a_folder_of_clusterdata_is_read(tmp_path):
    pytest.importorskip("pandas", reason="pandas and pyarrow are in the extra parquet")
    machines = "time,machine_id,type,capacity.cpus,capacity.memory\n0,1,1,0.5,0.5\n"
    events = (
        "time,type,collection_id,instance_index,collection_type,priority,resource_request.cpus,resource_request.memory\n"
        "600000000,0,7,0,0,200,0.25,0.125\n700000000,0,8,0,0,200,0.25,0.125\n"
    )
    (tmp_path / "machine_events.csv").write_text(machines)
    (tmp_path / "instance_events.csv.gz").write_bytes(gzip.compress(events.encode()))
    assert read(tmp_path).n_users == 2
    assert read(tmp_path, at=650_000_000, users="tier").n_users == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize(
    "names",
    [
        ("nodes.json", "pods.json"),
        ("nodes.json", "jobs.json"),
        ("instance_events.csv", "machine_events.csv"),
        ("openb_node_list_all_node.csv", "openb_pod_list_default.csv"),
    ],
)
def test_a_pipe_is_refused_without_waiting(tmp_path, names):
    if "instance_events.csv" in names:
        pytest.importorskip("pandas", reason="pandas and pyarrow are in the extra parquet")
    for name in names:
        os.mkfifo(tmp_path / name)
    with pytest.raises(InvalidInstance, match="is a pipe, not a file; save its output to a file"):
        fo.read(tmp_path)
