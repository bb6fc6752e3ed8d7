"""Jobs from a table and from the openb trace: what is read, what is left out, and how wrong files are refused."""

from pathlib import Path

import pytest

import fairopt as fo
from fairopt.errors import InvalidInstance

TABLE = Path(__file__).parents[1] / "data" / "jobs.csv"
HEADER = "user,arrival,duration,cpu [core],memory [GiB]\n"


@pytest.fixture(scope="module")
def cluster() -> fo.Instance:
    """Two big servers and one small."""
    return fo.Instance(
        [],
        [[8, 64], [8, 32], [4, 16]],
        counts=[2, 1, 1],
        resources=["cpu", "memory"],
        units={"cpu": "core", "memory": "GiB"},
        servers=["big", "small", "tiny"],
        server_types=["x", "x", "y"],
    )


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text, name="jobs.csv"):
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return write


# -- a table --------------------------------------------------------------------------------------------------


def test_a_table_gives_one_job_a_line_with_demands_in_the_order_of_the_servers(cluster):
    jobs = fo.online.read_jobs(TABLE, cluster)
    assert [job.user for job in jobs] == ["batch", "web", "ml", "web"] and len(jobs) == 4 and jobs.notes == ()
    assert [job.demands for job in jobs] == [(2.5, 3), (1, 15), (1, 10), (8, 60)]
    assert [(job.arrival, job.duration, job.tasks, job.weight) for job in jobs] == [
        (0, 30, 45, 1),
        (40, 20, 15, 2),
        (50.5, 80, 1, 1),
        (60, 5, 2, 2),
    ]
    assert repr(jobs) == "<JobTrace of 4 jobs of 3 users>" and jobs[1:3] == jobs.jobs[1:3]


def test_dates_become_seconds_since_the_first_and_options_of_jobs_are_read(cluster, written):
    text = """user,team,arrival,duration,limit,tasks,gang,cpu [core],memory [GiB]
a,x,2026-03-02T08:00:00+01:00,60,90,2,yes,1,1
b,,2026-03-02T06:59:30Z,60,,1,,1,1
"""
    trace = fo.online.read_jobs(written(text), cluster)
    assert [job.arrival for job in trace] == [30.0, 0.0] and trace.time_unit == "s"
    assert [(job.team, job.gang, job.limit) for job in trace] == [("x", True, 90.0), (None, False, None)]
    assert trace.notes == ("times are in seconds, as are durations; 0 is 2026-03-02T06:59:30Z, the first arrival",)


def test_lists_name_servers_rows_of_several_and_types(cluster):
    jobs = fo.online.read_jobs(TABLE, cluster)
    assert [job.eligible for job in jobs] == [None, None, ("small", "y"), ("big #1", "big #2")]
    run = fo.simulate(cluster, jobs)
    places = {job: {run.servers[s] for s in run.task_server[run.task_job == job]} for job in range(4)}
    assert len(run.start) == 63 and places[2] <= {"small", "tiny"} and places[3] == {"big #1", "big #2"}


def test_compressed_arrivals_are_divided_and_durations_stay(cluster):
    plain, dense = fo.online.read_jobs(TABLE, cluster), fo.online.read_jobs(TABLE, cluster, compress=4)
    assert [job.arrival for job in dense] == [job.arrival / 4 for job in plain]
    assert [job.duration for job in dense] == [job.duration for job in plain]
    assert dense.notes == ("arrivals are divided by 4; durations are as in the file",)


def test_a_resource_without_a_column_is_taken_by_no_job_and_a_column_of_zeros_for_none_is_left_out(cluster, written):
    jobs = fo.online.read_jobs(written("user,arrival,duration,cpu [core],gpu\nweb,0,1,2,0\n"), cluster)
    assert jobs[0].demands == (2, 0)
    assert jobs.notes == (
        "jobs.csv has no column 'memory [GiB]': jobs take none of it",
        "jobs.csv: the column 'gpu', 0 everywhere, is not a resource of the cluster and is left out",
    )


def test_the_largest_task_that_fits_is_read(cluster, written):
    assert fo.online.read_jobs(written(HEADER + "web,0,1,8,64\n"), cluster)[0].demands == (8, 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "jobs.csv is empty; expected a header line with the columns user, arrival, duration"),
        (HEADER, "jobs.csv has a header only; add a line for at least one job"),
        (b"PK\x03\x04 xlsx", "is compressed (zip"),
        (HEADER.replace("duration", "time"), "line 1: there is no column 'duration'"),
        (HEADER.replace(",", ";"), "line 1: there is no column 'user'; separate the columns with commas, not with ';'"),
        (HEADER.replace("memory [GiB]", "cpu [core]"), "line 1: the column 'cpu [core]' appears twice"),
        (HEADER + "web,0,1,1\n", "line 2: the row has 4 cells where the header has 5"),
        (HEADER + ",0,1,1,1\n", "line 2, column 'user': the name is empty"),
        (HEADER + "a,0,1,1,1\n\nweb,,1,1,1\n", "line 4, column 'arrival': the cell is empty; give a finite"),
        (HEADER + "web,-3,1,1,1\n", "line 2, column 'arrival': the value is -3"),
        (HEADER + "web,noon,1,1,1\n", "line 2, column 'arrival': 'noon' is not a number"),
        (HEADER + "web,nan,1,1,1\n", "line 2, column 'arrival': the value is nan"),
        (HEADER + "web,0,-1,1,1\n", "line 2, column 'duration': the value is -1; give a finite number > 0"),
        (HEADER + "web,0,0,1,1\n", "line 2, column 'duration': the value is 0"),
        (HEADER + "web,0,inf,1,1\n", "line 2, column 'duration': the value is inf"),
        (HEADER + "web,0,1,-1,1\n", "line 2, column 'cpu [core]': the value is -1"),
        (HEADER + "web,0,1,0,0\n", "line 2, column 'user': 'web': its task takes no resource"),
        (HEADER + "web,0,1,9,1\n", "'web': its task (9 cpu [core], 1 memory [GiB]) is larger than any eligible server"),
        ("user,arrival,duration\nweb,0,1\n", "jobs.csv has no resource columns; add one per resource: cpu [core], mem"),
        ("user,arrival,duration,cpu\nweb,0,1,1\n", "has the column 'cpu' where the cluster has 'cpu [core]'"),
        ("user,arrival,duration,memory [MiB]\nweb,0,1,1\n", "'memory [MiB]' where the cluster has 'memory [GiB]'"),
        (HEADER.replace("memory [GiB]", "gpu") + "w,0,1,1,1\n", "the column 'gpu' is not a resource of the cluster"),
        (HEADER.replace("memory [GiB]", "job") + "w,0,1,1,a7\n", "the cluster has no resource 'job': fill in 0, or"),
        ("tasks," + HEADER + "0,web,0,1,1,1\n", "line 2, column 'tasks': the value is 0; give a whole number >= 1"),
        ("tasks," + HEADER + "1.5,web,0,1,1,1\n", "line 2, column 'tasks': the value is 1.5"),
        ("weight," + HEADER + "0,web,0,1,1,1\n", "line 2, column 'weight': the value is 0; give a number > 0"),
        (
            HEADER + "w,2026-03-02,1,1,1\nw,2026-03-02T01:00Z,1,1,1\n",
            "line 3, column 'arrival': '2026-03-02T01:00Z' has a t",
        ),
        (HEADER + "w,2026-03-02,1,1,1\nw,5,1,1,1\n", "line 3, column 'arrival': '5' is not a date, and line 2 has the"),
        (HEADER + "w,5,1,1,1\nw,2026-03-02,1,1,1\n", "line 3, column 'arrival': '2026-03-02' is not a number; give a"),
        (HEADER + "w,2026-03-02,1,1,1\nw,2026-13-02,1,1,1\n", "'2026-13-02' is not a date"),
        ("limit," + HEADER + "5,w,0,6,1,1\n", "column 'limit': the value is 5, below the duration 6: the job would be"),
        ("gang," + HEADER + "maybe,w,0,6,1,1\n", "column 'gang': 'maybe' is not true or false; give 1 if all tasks"),
        (
            "gang,tasks," + HEADER + "1,4,w,0,6,8,1\n",
            "'w': its gang of tasks (8 cpu [core], 1 memory [GiB] each) does not",
        ),
        (
            "team," + HEADER + "x,w,0,1,1,1\n,w,0,1,1,1\n",
            "column 'team': the value is no team, and 'w' is in 'x' on line 2",
        ),
        ("weight," + HEADER + "2,w,0,1,1,1\n3,w,0,1,1,1\n", "line 3, column 'weight': the value is 3, and 'w' has 2"),
        ("servers," + HEADER + "z|big,w,0,1,1,1\n", "column 'servers': the cluster has no server 'z'; known: big,"),
        ("servers," + HEADER + "tiny,w,0,1,5,1\n", "line 2, column 'user': 'w': its task (5 cpu [core], 1 memory"),
    ],
)
def test_bad_tables_are_refused_with_line_column_value_and_fix(cluster, written, text, message):
    with pytest.raises(InvalidInstance) as caught:
        fo.online.read_jobs(written(text), cluster)
    assert str(caught.value).startswith("jobs.csv") and message in str(caught.value), caught.value


def test_a_resource_named_as_a_column_with_another_meaning_is_refused(written):
    odd = fo.Instance([], [9], resources=["duration"])
    with pytest.raises(InvalidInstance, match=r"resource 'duration', which in jobs.csv has another meaning"):
        fo.online.read_jobs(written("user,arrival,duration,cpu\nweb,0,1,1\n"), odd)


def test_options_and_paths_that_do_not_fit_are_refused(cluster, tmp_path):
    for arguments, options, message in (
        ((TABLE,), {}, "servers of .*jobs.csv are missing; give the cluster too"),
        ((TABLE, cluster), {"pods": "default"}, "'pods' is .*option.* and .*jobs.csv is a table of jobs; leave it out"),
        ((TABLE, cluster), {"compress": 0}, "compress is 0; give a finite number > 0"),
        ((TABLE, cluster), {"compress": float("nan")}, "compress is nan"),
        ((tmp_path, cluster), {}, "is a folder; give a CSV table of jobs"),
        (("none.csv", cluster), {}, "none.csv cannot be read"),
        (("", cluster), {}, "the path is ''"),
    ):
        with pytest.raises(InvalidInstance, match=message):
            fo.online.read_jobs(*arguments, **options)
