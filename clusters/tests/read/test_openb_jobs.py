"""Jobs from the openb trace: what is read, what is left out, and how wrong files are refused."""

import csv
import re
from collections import Counter
from pathlib import Path

import fairopt_clusters as fc
import numpy as np
import pytest

import fairopt as fo
from fairopt.errors import InvalidInstance

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,524288,8,V100\nn2,64000,262144,2,T4\n"


PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,500,100
p1,6000,12288,2,460,T4|V100,LS,Failed,10,40,30
p2,6000,12288,2,460,V100|T4,BE,Failed,20,500,21
p3,6000,1024,0,0,,BE,Pending,25,90,
p4,6000,1024,0,0,,BE,Failed,,90,80
p5,6000,1024,0,0,,BE,Failed,30,90,90
p6,65000,1024,1,1000,T4,BE,Failed,30,90,40
"""


NOTHING = "p7,0,0,0,0,,BE,Failed,30,90,40\n"


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Write a folder as the trace has it."""
    monkeypatch.chdir(tmp_path)

    def make(pods=PODS, nodes=NODES):
        Path("openb").mkdir(exist_ok=True)
        Path("openb/openb_node_list_all_node.csv").write_text(nodes)
        Path("openb/openb_pod_list_default.csv").write_text(pods)
        return "openb"

    return make


def test_options_that_do_not_fit_are_refused(trace):
    other = fo.Instance([], [[8, 64]], resources=["cpu", "memory"], server_types=["x"])
    table = Path("jobs.csv")
    table.write_text("user,arrival,duration,cpu,memory\nweb,0,1,1,1\n")
    for arguments, options, message in (
        ((table, other), {"pods": "default"}, "'pods' is an option for a folder of the openb trace, and jobs.csv is a"),
        (
            (table, other),
            {"users": "qos"},
            "'users' is an option for a folder of the openb trace and a .swf or .swf.gz file and output of sacct",
        ),
        ((trace(),), {"users": "team"}, "users is 'team'; known: shape, qos"),
        ((trace(),), {"pods": "defualt"}, "did you mean 'default'"),
        ((trace(), other), {}, "'cpu_milli' is not a resource of the cluster"),
        (
            (trace(), fc.read_openb(trace())),
            {"backlog": True},
            "'backlog' is no option for a folder of",
        ),
    ):
        with pytest.raises(InvalidInstance, match=message):
            fo.online.read_jobs(*arguments, **options)


def test_options_of_servers_are_those_of_their_reader(trace):
    assert len(fo.online.read_jobs(trace(), capacity_scale=2)) == 4  # the pod of 65 cores fits


def test_a_pod_is_a_job_of_one_task_that_runs_from_being_scheduled_to_being_deleted(trace):
    jobs = fo.online.read_jobs(trace())
    assert [(job.user, job.arrival, job.duration, job.tasks, job.eligible) for job in jobs] == [
        ("12cpu/16GiB/1gpu", 0, 400, 1, None),
        ("6cpu/12GiB/0.92gpu@T4|V100", 10, 10, 1, ("T4", "V100")),
        ("6cpu/12GiB/0.92gpu@T4|V100", 20, 479, 1, ("T4", "V100")),
    ]
    assert jobs[0].demands == (12000, 16384, 1000)
    assert {job.user for job in jobs} <= set(fc.read_openb("openb").users)


def test_users_by_quality_of_service_have_jobs_of_several_demands(trace):
    jobs = fo.online.read_jobs(trace(), users="qos")
    assert [(job.user, job.demands[0]) for job in jobs] == [("LS", 12000), ("LS", 6000), ("BE", 6000)]
    assert len(fo.simulate(fc.read_openb("openb"), jobs).start) == 3


def test_pods_without_a_known_run_are_left_out_and_counted(trace):
    servers = fc.read_openb(trace())
    assert fo.online.read_jobs(trace(PODS + NOTHING), servers).notes == (
        "1 pod was left out: never scheduled (of unknown duration) (p3)",
        "1 pod was left out: without a time of creation or deletion (p4)",
        "1 pod was left out: not deleted after it was scheduled (p5)",
        "1 pod was left out: requesting nothing (p7)",
        "1 pod was left out: larger than any server where it may run (p6)",
        "2 pods were deleted at the last time in the list, perhaps cut short",
    )


def test_a_list_of_which_no_pod_is_left_is_refused_with_the_reasons(trace):
    header, first, *_ = PODS.splitlines()
    with pytest.raises(InvalidInstance, match=r"default.csv has no pod that can be a job; 1 pod was left out: never"):
        fo.online.read_jobs(trace(f"{header}\n{first.removesuffix('100')}\n"))


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        (PODS.replace("creation_time", "created"), "line 1: there is no column 'creation_time'"),
        (PODS.replace(",500,100", ",soon,100"), "line 2, column 'deletion_time': 'soon' is not a number"),
        (PODS.replace(",10,40,30", ",10,40,-30"), "line 3, column 'scheduled_time': the value is -30"),
    ],
)
def test_bad_times_of_the_trace_are_refused(trace, pods, message):
    servers = fc.read_openb(trace())
    with pytest.raises(InvalidInstance, match=message):
        fo.online.read_jobs(trace(pods), servers)


def test_required_types_ask_for_servers_with_types(trace):
    servers = fo.Instance([], [9e4, 9e5, 9e3], resources=["cpu_milli", "memory_mib", "gpu_milli"])
    with pytest.raises(InvalidInstance, match="require types of GPU, and the cluster has no types of server"):
        fo.online.read_jobs(trace(), servers)


def test_of_the_trace_all_pods_but_897_ran_for_times_of_4_seconds_to_145_days(openb_folder):
    jobs = fo.online.read_jobs(openb_folder)
    durations, arrivals = np.array([job.duration for job in jobs]), np.array([job.arrival for job in jobs])
    assert len(jobs) == 8152 - 897 and jobs.notes[0].startswith("897 pods were left out: never scheduled")
    assert (durations.min(), np.median(durations), durations.max()) == (4, 616, 12_537_496)
    assert arrivals.min() == 0 and (arrivals > 1e7).sum() == 7197 and arrivals.max() < 1.291e7
    ends = np.concatenate([arrivals, arrivals + durations])
    change = np.repeat([1, -1], len(jobs))
    assert change[np.lexsort((change, ends))].cumsum().max() == 56


def test_jobs_of_the_trace_are_its_pods(openb_folder):
    jobs = fo.online.read_jobs(openb_folder, pods="gpuspec33", users="qos", compress=10)
    assert [re.sub(r" \((such as )?openb-pod-\d+\)$", "", note) for note in jobs.notes] == [
        "897 pods were left out: never scheduled (of unknown duration)",
        "1 pod was left out: larger than any server where it may run",
        "34 pods were deleted at the last time in the list, perhaps cut short",
        "arrivals are divided by 10; durations are as in the file",
    ]
    with (openb_folder / "openb_pod_list_gpuspec33.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["scheduled_time"] and row["name"] != "openb-pod-1639"]
    assert Counter(job.user for job in jobs) == Counter(row["qos"] for row in rows)
    for job, row in zip(jobs, rows, strict=True):
        gpus = float(row["num_gpu"]) * float(row["gpu_milli"])
        assert job.demands == (float(row["cpu_milli"]), float(row["memory_mib"]), gpus)
        assert job.arrival == float(row["creation_time"]) / 10
        assert set(job.eligible or ()) == {name for name in row["gpu_spec"].split("|") if name}
