"""Output of sacct: as text and as JSON, what is left out, and how wrong files are refused."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from fairopt_clusters.read.slurm.accounting import duration_seconds

import fairopt as fo
from fairopt.errors import InvalidInstance

HEADER = "JobID|User|Account|State|Submit|Start|End|Elapsed|Timelimit|NNodes|ReqTRES\n"
ROWS = """101|ann|bio|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:10|2026-03-01T09:00:10|01:00:00|02:00:00|1|\
billing=8,cpu=8,gres/gpu=1,gres/gpu:a100=1,mem=32G,node=1
101.batch||bio|COMPLETED|2026-03-01T08:00:10|2026-03-01T08:00:10|2026-03-01T09:00:10|01:00:00||1|
102|bob|cfd|TIMEOUT|2026-03-01T08:05:00|2026-03-01T08:05:00|2026-03-01T09:05:20|01:00:20|01:00:00|2|cpu=64,mem=256G,node=2
103|bob|cfd|PENDING|2026-03-01T08:06:00|Unknown|Unknown|00:00:00|1-00:00:00|1|cpu=1,mem=1G,node=1
104|eve|cfd|CANCELLED by 7|2026-03-01T08:06:00|None|2026-03-01T08:06:10|00:00:00|1-00:00:00|1|cpu=1,mem=1G,node=1
105|ann|bio|COMPLETED|2026-03-01T08:07:00|2026-03-01T08:07:10|2026-03-01T09:00:10|00:53:00|UNLIMITED|1|cpu=999,mem=32G
"""


@pytest.fixture(scope="module")
def cluster():
    return fo.Instance(
        [],
        [[64, 256, 4], [64, 512, 0]],
        resources=["cpu", "memory", "gpu"],
        units={"cpu": "core", "memory": "GiB"},
        servers=["n1", "n2"],
        server_types=["A100", "no GPU"],
    )


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text, name="sacct.txt"):
        Path(name).write_text(text)
        return name

    return write


def test_text_gives_arrivals_durations_limits_gangs_teams_and_places(cluster, written):
    trace = fo.online.read_jobs(written(HEADER + ROWS), cluster)
    assert list(trace) == [
        fo.Job(
            "bio/ann",
            (8.0, 32.0, 1.0),
            3600.0,
            arrival=0.0,
            limit=7200.0,
            team="bio",
            eligible=("A100",),
            labels={"JobID": "101"},
        ),
        fo.Job(
            "cfd/bob",
            (32.0, 128.0, 0.0),
            3620.0,
            tasks=2,
            arrival=300.0,
            limit=3620.0,
            team="cfd",
            gang=True,
            labels={"JobID": "102"},
        ),
    ]
    assert trace.time_unit == "s" and fo.simulate(cluster, trace).time_unit == "s"
    notes = " ".join(trace.notes)
    for what in (
        "1 step of jobs was left out",
        "1 job that has not ended was left out (103)",
        "1 job that never ran was left out (104)",
        "1 job ran longer than the limit, which counts as the time that it ran (102)",
        "1 job larger than the servers was left out (105)",
        "1 job on several servers is a gang",
    ):
        assert what in notes
    assert [job.user for job in fo.online.read_jobs("sacct.txt", cluster, users="account")] == ["bio", "cfd"]


def test_json_gives_the_same_jobs(cluster, written):
    def resources(**given):
        return [
            {"type": "gres" if "gpu" in key else key, "name": key.replace("_", ":") if "gpu" in key else "", "count": n}
            for key, n in given.items()
        ]

    def job(number, user, account, state, submission, elapsed, limit, nodes, wanted):
        times = {"submission": submission, "elapsed": elapsed, "limit": limit, "start": 1, "end": 1 + elapsed}
        return {
            "job_id": number,
            "user": user,
            "account": account,
            "state": {"current": [state]},
            "time": times,
            "allocation_nodes": nodes,
            "tres": {"requested": wanted, "allocated": []},
            "steps": [{"unknown": 1}],
        }

    def minutes(number):
        return {"set": True, "infinite": False, "number": number}

    start = 1772352000
    data = [
        job(
            101, "ann", "bio", "COMPLETED", start, 3600, minutes(120), 1, resources(cpu=8, mem=32768, gpu=1, gpu_a100=1)
        ),
        job(102, "bob", "cfd", "TIMEOUT", start + 300, 3620, minutes(60), 2, resources(cpu=64, mem=262144, node=2)),
        job(103, "bob", "cfd", "RUNNING", start + 360, 10, {"set": False}, 1, resources(cpu=1, mem=1024)),
    ]
    expected = fo.online.read_jobs(written(HEADER + ROWS), cluster)
    trace = fo.online.read_jobs(written(json.dumps({"jobs": data}), "sacct.json"), cluster)
    assert list(trace) == list(expected)


def test_elapsed_or_start_and_end_or_raw_columns_are_enough(cluster, written):
    header = "JobIDRaw|Account|Submit|{}|AllocTRES|\n"
    row = "7|bio|2026-03-01T08:00:00Z|{}|cpu=2,mem=512M,node=1|\n"
    for columns, cells in (
        ("Start|End", "2026-03-01T08:01:00Z|2026-03-01T08:02:30Z"),
        ("ElapsedRaw|TimelimitRaw", "90|5"),
        ("Elapsed|Timelimit", "01:30|Partition_Limit"),
    ):
        (job,) = fo.online.read_jobs(written(header.format(columns) + row.format(cells)), cluster)
        assert (job.user, job.duration, job.demands) == ("bio/no user", 90.0, (2.0, 0.5, 0.0))
        assert job.limit == (300.0 if "Raw" in columns else math.inf)


def test_memory_is_converted_to_the_unit_of_the_servers(written):
    cluster = fo.Instance([], [64, 10**6], resources=["cpu", "memory"], units={"memory": "MiB"})
    text = HEADER + ROWS.splitlines()[2].replace("|2|cpu", "|1|cpu") + "\n"
    (job,) = fo.online.read_jobs(written(text), cluster)
    np.testing.assert_allclose(job.demands, [64, 256 * 1024])


def test_durations_of_slurm():
    assert duration_seconds("2-03:04:05") == ((2 * 24 + 3) * 60 + 4) * 60 + 5 and duration_seconds("00:01.500") == 1.5
    assert duration_seconds("Partition_Limit") is None


FIRST = ROWS.splitlines()[0] + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER, "sacct.txt lists no jobs"),
        (HEADER + ROWS.splitlines()[3] + "\n", "sacct.txt has no job that ran; 1 job that has not ended was left out"),
        (HEADER.replace("Submit", "Sent") + FIRST, "there is no column 'Submit'"),
        (HEADER.replace("ReqTRES", "Other") + FIRST, "has no column ReqTRES; give sacct -P -X -o JobID,"),
        (HEADER + FIRST.replace("ann", "a|nn"), "line 2: the row has 12 cells where the header has 11; leave out"),
        (HEADER + FIRST + "102|bob|cf\n", "line 3: the row has 3 cells where the header has 11; it is cut off: save"),
        (
            "JobID   JobName  Account\n------ -------- --------\n",
            "line 1: the columns are not separated by '|'; give sacct",
        ),
        (
            HEADER + FIRST.replace("|02:00:00|", "|abc|"),
            "line 2, column 'Timelimit': 'abc' is no time; give a time such",
        ),
        (HEADER + FIRST.replace("|01:00:00|", "|ten|"), "line 2, column 'Elapsed': 'ten' is no time; give a time such"),
        (
            HEADER + FIRST.replace("|1|billing", "|two|billing"),
            "line 2, column 'NNodes': 'two': give a whole number >= 0",
        ),
        (
            HEADER.replace("ReqTRES", "AllocTRES") + FIRST.replace("cpu=8", "cpu=x"),
            "line 2, column 'AllocTRES': give a number for \"cpu\"",
        ),
        (HEADER + FIRST.replace("cpu=8", "cpu=x"), "line 2, column 'ReqTRES': give a number for \"cpu\""),
        (
            HEADER + FIRST + ROWS.splitlines()[2].replace("08:05:00|2026", "08:05:00+01:00|2026"),
            "line 3, column 'Submit': '2026-03-01T08:05:00+01:00' has a time zone, and that on line 2 has none",
        ),
        (
            HEADER + FIRST.replace("08:00:00|", "08:00:00Z|"),
            "the column 'Submit' have time zones, and those of 'Start' no",
        ),
        (
            HEADER + FIRST.replace("2026-03-01T08:00:00", "yesterday"),
            "column 'Submit': 'yesterday' is not a date; give all",
        ),
        ('{"jobs": {}}', "has 'jobs' that is an object, not a list"),
        (
            '{"jobs": [{"job_id": 5, "time": {"elapsed": -2}}]}',
            "jobs[0] (job 5).time.elapsed is -2; give a whole number",
        ),
    ],
)
def test_wrong_files_are_refused_with_place_value_and_fix(cluster, written, text, message):
    with pytest.raises(InvalidInstance) as caught:
        fo.online.read_jobs(written(text), cluster)
    assert str(caught.value).startswith("sacct.txt") and message in str(caught.value), caught.value


def test_a_job_that_is_there_twice_is_said_and_a_compressed_file_is_read(cluster, written, tmp_path):
    trace = fo.online.read_jobs(written(HEADER + FIRST + FIRST), cluster)
    assert len(trace) == 2
    assert "1 JobID is there several times, as of jobs that ran again, and each run counts (101)" in trace.notes
    (tmp_path / "sacct.txt.gz").write_bytes(gzip.compress((HEADER + FIRST).encode()))
    assert list(fo.online.read_jobs(tmp_path / "sacct.txt.gz", cluster)) == list(trace[:1])


def test_a_cluster_and_jobs_without_memory_need_no_note_of_it(written):
    servers = fo.Instance([], [[64]], resources=["cpu"], servers=["n1"])
    trace = fo.online.read_jobs(
        written(HEADER + FIRST.replace("mem=32G", "mem=0").replace("gres/gpu", "gres/x")), servers
    )
    assert trace[0].demands == (8.0,) and "memory" not in " ".join(trace.notes)


def test_slices_of_gpus_are_no_whole_gpus_and_types_of_servers_may_have_numbers(written):
    servers = fo.Instance(
        [],
        [[64, 2, 14], [64, 8, 0]],
        resources=["cpu", "gpu", "gpu:1g.10gb"],
        server_types=["1g.10gb:14|a100:2", "h100"],
    )
    row = "101|ann|bio|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:10|2026-03-01T09:00:10|01:00:00|02:00:00|1|"
    tres = ("cpu=8,gres/gpu=2,gres/gpu:1g.10gb=2", "cpu=8,gres/gpu=1,gres/gpu:a100=1", "cpu=8,gres/gpu:2g.20gb=1")
    trace = fo.online.read_jobs(written(HEADER + "".join(f"{row}{one}\n" for one in tres)), servers)
    assert [job.demands for job in trace] == [(8, 0, 2), (8, 1, 0), (8, 1, 0)]
    assert trace[1].eligible == ("1g.10gb:14|a100:2",)
    assert "1 job that requests slices of GPUs that no server has counts with whole ones (101)" in trace.notes
