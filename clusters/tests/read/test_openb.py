"""The openb trace: on small made-up files of its format, and on the trace itself where it is at hand."""

import csv
from collections import Counter

import numpy as np
import pytest
from fairopt_clusters import read_openb
from numpy.testing import assert_array_equal

import fairopt as fo
from fairopt.datasets import read, write
from fairopt.errors import InvalidInstance
from fairopt.instance import Instance

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,32000,262144,0,
n1,96000,393216,8,G2
n2,96000,393216,8,G2
n3,64000,262144,2,P100
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
p0,12000,16384,1,1000,,LS
p1,4000,5600,1,460,,LS
p2,12000,16384,1,1000,,BE
p3,8000,1024,0,0,,BE
p4,16000,1024,2,500,,BE
p5,16000,1024,1,1000,,BE
"""
TYPED = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
p0,12000,16384,1,1000,P100|G2,LS
p1,12000,16384,1,1000,G2|P100,LS
p2,12000,16384,1,1000,P100,LS
p3,12000,16384,1,1000,,LS
p4,12000,16384,1,1000,G2|G2| P100,LS
"""


@pytest.fixture
def trace(tmp_path):
    """Write a folder as the trace has it."""

    def make(nodes=NODES, **pods):
        if nodes is not None:
            (tmp_path / "openb_node_list_all_node.csv").write_text(nodes)
        for name, content in (pods or {"default": PODS}).items():
            (tmp_path / f"openb_pod_list_{name}.csv").write_text(content)
        return tmp_path

    return make


def test_users_are_distinct_requests_and_their_limits_the_numbers_of_tasks(trace):
    cluster = read_openb(trace())
    assert cluster.resources == ("cpu_milli", "memory_mib", "gpu_milli")
    assert dict(zip(cluster.users, cluster.task_limits, strict=True)) == {
        "4cpu/5600MiB/0.46gpu": 1,
        "8cpu/1GiB": 1,
        "12cpu/16GiB/1gpu": 2,
        "16cpu/1GiB/1gpu": 2,
    }
    assert_array_equal(cluster.demands[2], [12000, 16384, 1000])


def test_servers_keep_their_rows_and_units_and_merge_into_kinds(trace):
    cluster = read_openb(trace())
    assert cluster.servers == ("n0", "n1", "n2", "n3")
    assert_array_equal(cluster.capacities[1], [96000, 393216, 8000])
    assert_array_equal(cluster.merged().counts, [1, 2, 1])


def test_the_type_of_a_server_is_the_model_of_its_gpus(trace):
    assert read_openb(trace()).server_types == ("no GPU", "G2", "G2", "P100")
    assert read_openb(trace()).merged().server_types == ("no GPU", "G2", "P100")


def test_a_server_without_gpus_has_no_model_and_gpus_without_a_model_are_told_apart_from_none(trace):
    odd = NODES.replace("n0,32000,262144,0,", "n0,32000,262144,0,T4").replace("8,G2\nn2", "8,\nn2")
    assert read_openb(trace(odd)).server_types == ("no GPU", "unnamed GPU", "G2", "P100")


def test_a_request_for_gpus_cannot_run_where_there_are_none(trace):
    cluster = read_openb(trace())
    assert cluster.eligible[:, 0].tolist() == [False, True, False, False]
    assert cluster.eligible[:, 1:].all()


def test_the_same_part_of_gpus_from_one_or_two_is_one_user(trace):
    assert "16cpu/1GiB/1gpu" in read_openb(trace()).users


def test_the_order_of_tasks_makes_no_difference(trace):
    one = read_openb(trace())
    header, *lines = PODS.splitlines()
    other = read_openb(trace(default="\n".join([header, *reversed(lines)])))
    assert one == other


def test_the_order_and_repetition_of_required_types_make_no_difference(trace):
    cluster = read_openb(trace(typed=TYPED), pods="typed")
    assert cluster.users == ("12cpu/16GiB/1gpu", "12cpu/16GiB/1gpu@G2|P100", "12cpu/16GiB/1gpu@P100")
    assert_array_equal(cluster.task_limits, [1, 3, 1])
    assert cluster.eligible.tolist() == [
        [False, True, True, True],
        [False, True, True, True],
        [False, False, False, True],
    ]


def test_a_backlog_has_no_limits(trace):
    assert np.isinf(read_openb(trace(), backlog=True).task_limits).all()


def test_the_scale_multiplies_capacities_only(trace):
    whole, half = read_openb(trace()), read_openb(trace(), capacity_scale=0.5)
    assert_array_equal(half.capacities, whole.capacities / 2)
    assert half.with_capacities(whole.capacities) == whole


def test_reading_recognises_the_folder_by_its_file_names_and_passes_options_on(trace):
    folder = trace(default=PODS, typed=TYPED)
    assert read(folder) == read_openb(folder)
    assert read(folder, pods="typed", capacity_scale=2, backlog=True) == read_openb(folder, "typed", 2, True)


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), "much", None])
def test_a_scale_that_is_not_positive_is_refused(trace, scale):
    with pytest.raises(InvalidInstance, match=f"capacity_scale is {scale!r}; give a finite number > 0"):
        read_openb(trace(), capacity_scale=scale)


def test_an_unknown_list_of_pods_is_refused_with_the_nearest(trace):
    folder = trace(default=PODS, gpuspec33=TYPED)
    with pytest.raises(InvalidInstance, match=r"no list of pods 'gpuspec'.*did you mean 'gpuspec33'"):
        read_openb(folder, pods="gpuspec")
    with pytest.raises(InvalidInstance, match=r"no list of pods '\.\./x'.*known: default, gpuspec33"):
        read_openb(folder, pods="../x")


@pytest.mark.parametrize("nodes", [None, NODES])
def test_missing_files_are_named(tmp_path, nodes):
    if nodes:
        (tmp_path / "openb_node_list_all_node.csv").write_text(nodes)
    with pytest.raises(InvalidInstance, match="openb_pod_list_default" if nodes else "openb_node_list_all_node"):
        read_openb(tmp_path)


@pytest.mark.parametrize(
    ("nodes", "pods", "parts"),
    [
        (NODES, PODS.replace("4000,5600", "4000,lots"), ["line 3, column 'memory_mib'", "'lots'"]),
        (NODES, PODS.replace("gpu_spec", "spec"), ["line 1", "no column 'gpu_spec'", "'spec'"]),
        (NODES, TYPED.replace(",P100,", ",H100,"), ["12cpu/16GiB/1gpu@H100", "eligible on no server"]),
        (NODES, PODS + "p6,0,0,0,0,,LS\n", ["demands nothing"]),
        (NODES, PODS.replace("p0,12000", "p0,-12000"), ["line 2, column 'cpu_milli'", "-12000"]),
        (NODES.replace("n2,", "n1,"), PODS, ["openb_node_list_all_node.csv, line 4", "'n1'", "line 3 too"]),
        (NODES.replace("393216", "x"), PODS, ["openb_node_list_all_node.csv, line 3, column 'memory_mib'", "'x'"]),
    ],
)
def test_bad_files_of_the_trace_are_refused(trace, nodes, pods, parts):
    with pytest.raises(InvalidInstance) as caught:
        read_openb(trace(nodes, default=pods))
    missing = [part for part in parts if part not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


# -- the trace itself -----------------------------------------------------------------------------------------------


def test_the_trace_has_151_requests_on_1523_servers_of_27_kinds(openb_folder):
    cluster = read_openb(openb_folder)
    assert (cluster.n_users, cluster.n_servers, cluster.n_resources) == (151, 1523, 3)
    assert cluster.task_limits.sum() == 8152
    merged = cluster.merged()
    assert merged.n_servers == 27 and merged.counts.sum() == 1523


def test_the_trace_has_seven_models_of_gpus_and_servers_without(openb_folder):
    cluster = read_openb(openb_folder)
    assert Counter(cluster.server_types) == {
        "no GPU": 310,
        "A10": 2,
        "P100": 134,
        "V100M16": 55,
        "V100M32": 30,
        "T4": 404,
        "G2": 549,
        "G3": 39,
    }
    merged = cluster.merged()
    assert Counter(merged.server_types)["no GPU"] == 12 and not any("|" in name for name in merged.server_types)


def test_the_trace_asks_for_68_50_and_98_percent_of_the_cluster(openb_folder):
    cluster = read_openb(openb_folder)
    asked = cluster.task_limits @ cluster.demands / cluster.total_capacities
    assert asked.round(2).tolist() == [0.68, 0.5, 0.98]


def test_with_required_types_the_trace_has_447_users_with_the_same_tasks(openb_folder):
    typed, plain = read_openb(openb_folder, pods="gpuspec33"), read_openb(openb_folder)
    assert (typed.n_users, typed.merged().n_servers) == (447, 27)
    tasks = Counter()
    for user, limit in zip(typed.users, typed.task_limits, strict=True):
        tasks[user.split("@")[0]] += limit
    assert tasks == dict(zip(plain.users, plain.task_limits, strict=True))


def test_required_types_are_those_of_the_file(openb_folder):
    cluster = read_openb(openb_folder, pods="gpuspec33")
    with (openb_folder / "openb_node_list_all_node.csv").open() as file:
        models = np.array([row["model"] for row in csv.DictReader(file)])
    has_gpus = cluster.capacities[:, 2] > 0
    for j, user in enumerate(cluster.users):
        types = user.split("@")[1].split("|") if "@" in user else None
        expected = np.isin(models, types) if types else np.ones(models.size, bool)
        if cluster.demands[j, 2] > 0:
            expected &= has_gpus
        assert_array_equal(cluster.eligible[j], expected)


def test_tasks_that_require_t4_ask_for_more_of_them_than_there_are(openb_folder):
    cluster = read_openb(openb_folder, pods="gpuspec33")
    only_t4 = [j for j, user in enumerate(cluster.users) if user.endswith("@T4")]
    asked = cluster.task_limits[only_t4] @ cluster.demands[only_t4, 2]
    there_are = cluster.capacities[cluster.eligible[only_t4[0]], 2].sum()
    assert asked > 1.2 * there_are


def test_the_trace_survives_writing_and_reading(openb_folder, tmp_path):
    cluster = read_openb(openb_folder, pods="gpuspec33", capacity_scale=0.3)
    for place in (tmp_path / "openb.json", tmp_path / "openb"):
        write(cluster.merged(), place)
        assert read(place) == cluster.merged()
    assert isinstance(cluster, Instance)


def test_openb_comes_from_a_folder_of_the_user(tmp_path):
    with pytest.raises(InvalidInstance, match="openb"):
        fo.datasets.library().openb(tmp_path)
    (tmp_path / "openb_node_list_all_node.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\n")
    (tmp_path / "openb_pod_list_default.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np0,12000,16384,0,0,,LS\n"
    )
    case = fo.datasets.library().openb(tmp_path, capacity_scale=0.5)
    assert case.size == (1, 3, 1) and "capacity_scale=0.5" in case.command and not case.answers
