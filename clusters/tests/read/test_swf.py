"""Traces in the Standard Workload Format, replayed and recomputed."""

import gzip
import json

import fairopt_clusters  # noqa: F401  (registers readers)
import numpy as np
import pytest
from fairopt_clusters.read.swf import FIELDS
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app
from fairopt.errors import InvalidInstance

HEADER = "; Version: 2.2\n; Computer: a made one\n;; no key\n; MaxProcs: 64\n; UnixStartTime: 1000000000\n"


def line(number, submit, run, processors, limit=-1, status=1, user=1, group=1, memory=-1, **more):
    """A job, with -1 for what is not given."""
    of = dict.fromkeys(FIELDS, -1) | {"job number": number, "submit time": submit, "wait time": 0, "run time": run}
    of |= {"allocated processors": processors, "requested processors": processors, "requested time": limit}
    of |= {"status": status, "user": user, "group": group, "requested memory": memory}
    return " ".join(
        str(value) for value in (of | {key.replace("_", " "): value for key, value in more.items()}).values()
    )


def trace_of(tmp_path, *lines, header=HEADER, servers=None, **options):
    (tmp_path / "t.swf").write_text(header + "\n".join(lines) + "\n")
    return fo.online.read_jobs(tmp_path / "t.swf", servers, **options)


def test_fields_become_jobs_of_users_in_groups_on_the_processors_of_the_header(tmp_path):
    rows = [
        line(1, 100, 50, 4, limit=200, user=3, group=7),
        line(2, 110, 60, 8, status=0, user=3, group=8, requested_processors=-1),
        line(3, 120, 30, 1, limit=20, status=5, memory=2048, preceding_job=1),
        line(4, 130, 0, 1),
        line(5, 131, 10, 1, status=3),
        line(6, 132, 10, 65),
    ]
    jobs = trace_of(tmp_path, *rows)
    assert [(one.user, one.team) for one in jobs] == [
        ("group7/user3", "group7"),
        ("group8/user3", "group8"),
        ("group1/user1", "group1"),
    ]
    assert [(one.arrival, one.duration, one.demands, one.tasks) for one in jobs] == [
        (0, 50, (4,), 1),
        (10, 60, (8,), 1),
        (20, 30, (1,), 1),
    ]
    assert [one.limit for one in jobs] == [200, np.inf, 30] and jobs.time_unit == "s"
    for said in (
        "-1, which is unknown, for every job: average CPU time, used memory, executable, queue, partition, think time",
        "t.swf: Computer a made one, UnixStartTime 1000000000",
        "1 job that had failed: what ran counts",
        "1 job that was cancelled: what ran counts",
        "1 job that is a part of one that was interrupted was left out (5)",
        "1 job that never ran was left out (4)",
        "1 job after a preceding one counts as independent",
        "memory of 1 job does not count: the servers have none",
        "1 job larger than the servers was left out (6)",
        "1 job ran longer than requested, which counts",
    ):
        assert said in jobs.notes
    assert fo.read(tmp_path / "t.swf").capacities.tolist() == [[64]]
    assert trace_of(tmp_path, *rows, users="group")[0].user == "group7"


def test_without_a_header_the_largest_job_fits_and_larger_servers_may_be_given(tmp_path):
    rows = [line(1, 0, 10, 12, memory=1024**2), line(2, 0, 10, 40)]
    assert len(trace_of(tmp_path, *rows, header="")) == 2
    servers = fo.Instance(
        [], [[16, 64], [16, 64], [16, 64]], resources=["cpu", "memory"], units={"cpu": "core", "memory": "GiB"}
    )
    small, large = trace_of(tmp_path, *rows, servers=servers)
    assert (small.tasks, small.demands) == (1, (12, 12)) and (large.tasks, large.gang, large.demands) == (
        40,
        True,
        (1, 0),
    )


@pytest.mark.parametrize(
    ("header", "most", "said"),
    [
        ("; MaxProcs: 64 (16 boards)\n; MaxNodes: 16\n", 64, "of the header"),
        ("; MaxProcs: -1\n; MaxNodes: 32\n", 32, "of the header"),
        ("; MaxProcs: unknown\n", 12, "that the largest job that ran asks for"),
    ],
)
def test_processors_are_those_that_the_header_states(header, most, said, tmp_path):
    trace_of(tmp_path, line(1, 0, 10, 12), line(2, 0, 0, 99999, status=5), header=header)
    servers = fo.read(tmp_path / "t.swf")
    assert servers.capacities.tolist() == [[most]]
    assert any(f"{most} processors, {said};" in note for note in servers.notes)


def test_jobs_have_their_whole_numbers_in_notes_and_users_that_are_unknown_are_none(tmp_path):
    number = 1234567
    rows = [line(number, 0, 10, 1, user=-1, group=-1), line(number, 5, 10, 1), line(number + 1, 5, 0, 1)]
    jobs = trace_of(tmp_path, *rows)
    assert [one.user for one in jobs] == ["no group/no user", "group1/user1"]
    assert f"1 job that never ran was left out ({number + 1})" in jobs.notes
    assert f"1 job number is there several times, and each job counts ({number})" in jobs.notes


def test_a_compressed_trace_is_replayed_without_other_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = HEADER + "\n".join(line(k, 10 * k, 100, 32, limit=100, user=k % 2) for k in range(5))
    (tmp_path / "t.swf.gz").write_bytes(gzip.compress(text[:99].encode()) + gzip.compress(text[99:].encode()))
    result = CliRunner().invoke(app, ["simulate", "t.swf.gz", "-p", "fcfs", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["policies"]["FCFS"]
    assert found["waiting"]["mean"] == pytest.approx(np.mean([0, 0, 80, 80, 160]))  # two of 32 at once
    (tmp_path / "t.swf.gz").write_bytes(gzip.compress(text.encode())[:-20])
    assert "is not a whole file of gzip" in CliRunner().invoke(app, ["simulate", "t.swf.gz"]).output


@pytest.mark.parametrize("policy", ["fcfs", "easy", "drf", "fair-tree"])
def test_measures_of_a_replay_are_those_of_its_tasks(policy, tmp_path, monkeypatch):
    """Waits, bounded slowdown and utilisation of 300 drawn jobs, again from the rows that are written."""
    monkeypatch.chdir(tmp_path)
    rng, lines = np.random.default_rng(7), list[str]()
    for k in range(300):
        run, size = int(rng.lognormal(5, 1)) + 1, int(2 ** rng.integers(0, 6))
        lines.append(line(k + 1, int(rng.integers(0, 12000)), run, size, limit=2 * run, user=k % 9, group=k % 3))
    (tmp_path / "t.swf").write_text(HEADER + "\n".join(lines))
    words = ["simulate", "t.swf", "-p", policy, "--json", "--out", "tasks.csv"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    (told,) = json.loads(result.stdout)["policies"].values()
    rows = np.genfromtxt("tasks.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    given = {one.split()[0]: [*map(float, one.split())] for one in lines}
    jobs = np.array([given[str(name)] for name in rows["JobID"]])
    first = min(of[1] for of in given.values())
    assert len(rows) == 300 and (rows["arrival"] == jobs[:, 1] - first).all()
    assert (rows["end"] - rows["start"] == jobs[:, 3]).all() and {*rows["team"]} == {"group0", "group1", "group2"}
    waits = rows["start"] - rows["arrival"]
    assert told["waiting"]["mean"] == pytest.approx(waits.mean()) and waits.mean() > 0
    slowdown = np.maximum((rows["end"] - rows["arrival"]) / np.maximum(jobs[:, 3], 10), 1)
    of_groups = [one["bounded_slowdown"]["mean"] for one in told["teams"].values()]
    assert np.mean(of_groups) == pytest.approx(slowdown.mean())  # groups are equally large
    assert told["utilisation"]["cpu"] == pytest.approx(jobs[:, 7] @ jobs[:, 3] / 64 / rows["end"].max())
    for moment in rows["start"]:  # never more than there is
        assert jobs[(rows["start"] <= moment) & (rows["end"] > moment), 7].sum() <= 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3", "line 6: the row has 3 fields, not 18; expected a trace in the Standard Workload Format"),
        (line(1, 0, "ten", 4), 'line 6, column 4 (run time): "ten" is no number below 1e15'),
        (line(1, 0, "1e300", 4), 'line 6, column 4 (run time): "1e300" is no number below 1e15'),
        (line(1, 0, "nan", 4), 'line 6, column 4 (run time): "nan" is no number below 1e15'),
        (line(1, "1e3", "nan", 4), 'line 6, column 4 (run time): "nan" is no number below 1e15'),
        (line(1, 0, "999999999999999.9999", 4), 'column 4 (run time): "999999999999999.9999" is no number below 1e15'),
        (line(1, 0, 0, 4), "has no job that ran; "),
        ("", "has no job that ran"),
    ],
)
def test_other_lines_are_refused_with_their_place(text, message, tmp_path):
    with pytest.raises(InvalidInstance) as caught:
        trace_of(tmp_path, text)
    assert message in str(caught.value)
