"""``fairopt simulate``: what is typed, what is shown and written, and the ways to get it wrong."""

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app, simulate

DATA = Path(__file__).parent / "data"
CLUSTER = fo.Instance(
    [],
    [[8, 64], [8, 32], [4, 16]],
    counts=[2, 1, 1],
    resources=["cpu", "memory"],
    units={"cpu": "core", "memory": "GiB"},
    servers=["big", "small", "tiny"],
    server_types=["x", "x", "y"],
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a cluster and a table of jobs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fo.datasets.write(CLUSTER, tmp_path / "cluster.json")
    shutil.copy(DATA / "jobs.csv", tmp_path)

    def invoke(*arguments: str, servers: bool = True) -> Result:
        return CliRunner().invoke(app, ["simulate", *arguments, *(["--servers", "cluster.json"] * servers)])

    return invoke


def numbers_of(done: Result) -> dict[str, dict[str, Any]]:
    """The policies of ``--json``."""
    assert done.exit_code == 0, done.output
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)["policies"]
    return found


def test_the_table_compares_policies_on_80_columns(run: Any) -> None:
    done = run("jobs.csv", "-p", "drf", "-p", "2df", "-p", "fcfs")
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "4 jobs of 3 users on 4 servers" in done.stdout
    header, _, *rows = done.stdout.splitlines()[1:6]
    assert header.split() == [
        "policy",
        "tasks",
        "makespan",
        "waiting",
        "p95",
        "slowdown",
        "p95",
        "cpu",
        "memory",
        "distance",
    ]
    assert [row.split()[:2] for row in rows] == [["DRF", "63"], ["2-DF", "63"], ["FCFS", "63"]]


def test_numbers_are_those_of_the_same_simulation_in_python(run: Any) -> None:
    shown = numbers_of(run("jobs.csv", "-p", "kdf:k=2", "-p", "FCFS", "--fair", "7", "--json"))
    jobs = fo.online.read_jobs("jobs.csv", CLUSTER)
    two = fo.simulate(CLUSTER, jobs, fo.KDominantShare(2))
    first_come = fo.simulate(CLUSTER, jobs, scheduler=fo.Scheduler(CLUSTER, order="arrival"))
    last = max(two.start.max(), first_come.start.max())
    for name, expected in (("2-DF", two), ("FCFS", first_come)):
        summary = expected.with_fair_at([last * (k + 0.5) / 7 for k in range(7)]).summary()
        assert {key: shown[name][key] for key in summary} == json.loads(json.dumps(summary))
    assert shown["2-DF"]["waiting"] != shown["FCFS"]["waiting"] and shown["2-DF"]["distance"]["mean"] > 0


TEAMS = """user,team,arrival,duration,limit,tasks,gang,cpu [core],memory [GiB]
ann,nlp,2026-03-02T08:00,7200,9000,3,,4,8
bob,vision,2026-03-02T08:10,3600,,4,1,7,30
ann,nlp,2026-03-02T08:20,9000,,6,,2,4
dan,,2026-03-02T08:30,60,,1,,1,1
"""


def test_teams_are_compared_under_fcfs_easy_and_hdrf_and_the_worst_is_named(run: Any) -> None:
    Path("teams.csv").write_text(TEAMS.replace("4,1,7,30", "3,1,8,30"))
    words = ("teams.csv", "-p", "fcfs", "-p", "easy", "-p", "hdrf:weights={nlp: 2}", "--fair", "0")
    done = run(*words)
    assert done.exit_code == 0 and max(map(len, done.stdout.splitlines())) <= 80, done.output
    assert "Waiting and bounded slowdown by team" in done.stdout and "EASY: the team 'vision' waits" in done.stdout
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line.split()[1:2] == ["EASY"]]
    assert rows == [["nlp", "EASY"], ["vision", "EASY"]] and "(no team)  EASY" in done.stdout
    shown = numbers_of(run(*words, "--json", "--threshold", "60"))
    cluster, jobs = CLUSTER, fo.online.read_jobs("teams.csv", CLUSTER)
    expected = {
        "FCFS": fo.Scheduler(cluster, order="arrival"),
        "EASY": fo.online.BackfillScheduler(cluster),
        "HDRF": fo.online.HierarchicalScheduler(cluster, {"nlp": 2}),
    }
    for name, scheduler in expected.items():
        made = fo.simulate(cluster, jobs, scheduler=scheduler)
        assert shown[name]["teams"] == json.loads(json.dumps(made.waits("team", 60)))
        assert shown[name]["users"].keys() == {"ann", "bob", "dan"} and shown[name]["time_unit"] == "s"
        assert shown[name]["slowdown_threshold"] == 60 and shown[name]["worst"]["team"] == "vision"
    assert shown["EASY"]["teams"] != shown["FCFS"]["teams"]


def test_hdrf_compares_teams_by_the_weights_of_the_servers_and_says_which_weights_count(run: Any) -> None:
    teams = {"team": ["bio", "cfd"], "parent1": ["science", "science"]}
    weights = {"bio": 3, "cfd": 1, "science": 5}
    servers = fo.Instance([[1], [1]], [8], resources=["cpu"], units={"cpu": "core"}, teams=teams, weights=weights)
    fo.datasets.write(servers, "accounts.json")
    Path("jobs.csv").write_text(
        "user,team,arrival,duration,tasks,weight,cpu [core]\na,bio,0,10,8,2,1\nb,cfd,0,10,8,1,1\n"
    )

    def started_at_once(*words: str) -> dict[str, int]:
        run("jobs.csv", *words, "--fair", "0", "--out", "tasks.csv", "--servers", "accounts.json", servers=False)
        rows = [line.split(",") for line in Path("tasks.csv").read_text().splitlines()]
        start, user = rows[0].index("start"), rows[0].index("user")
        return {name: sum(row[user] == name and float(row[start]) == 0 for row in rows[1:]) for name in ("a", "b")}

    assert started_at_once("-p", "hdrf") == {"a": 6, "b": 2}
    assert started_at_once("-p", "hdrf:weights={bio: 1, cfd: 1}") == {"a": 4, "b": 4}
    done = run("jobs.csv", "-p", "hdrf", "--json", "--fair", "0", "--servers", "accounts.json", servers=False)
    assert json.loads(done.stdout)["notes"] == [
        "hdrf: weights of teams are those of accounts.json: bio 3, cfd 1; hdrf:weights=... replaces them",
        "hdrf: jobs have a team only, so weights of other teams, such as accounts above, do not count",
        "hdrf: weights of jobs count inside their teams; hdrf:weights={nlp: 2} gives those of teams",
    ]


def test_use_under_load_is_the_mean_up_to_the_last_start(run: Any) -> None:
    Path("few.csv").write_text("user,arrival,duration,tasks,cpu [core]\na,0,10,3,8\nb,5,40,3,8\n")
    shown = numbers_of(run("few.csv", "--json", "--fair", "0"))["DRF"]
    # from 0 to 10 the 3 servers of 8 cores run a, from 10 on b; the last start is at 10
    assert shown["utilisation_until_last_start"] == {"cpu": pytest.approx(24 / 28), "memory": 0}
    assert shown["makespan"] == 50 and shown["distance"]["mean"] is None


def test_options_of_the_scheduler_are_passed_on(run: Any) -> None:
    Path("dense.csv").write_text("user,arrival,duration,tasks,cpu [core]\na,20,9,20,1\nb,30,9,20,8\nc,30,9,9,3\n")
    found = []
    for words, options in (
        ((), {}),
        (("--placement", "least-loaded"), {"placement": "least-loaded"}),
        (("--on-misfit", "stop"), {"on_misfit": "stop"}),
        (("--usage", "decayed:half_life=5"), {"half_life": 5.0}),
        (("--usage", "slurm:half_life=20,sampling=1"), {"usage": fo.online.Slurm(half_life=20.0, sampling=1.0)}),
        (("--usage", "karma:sampling=2,cpu=0.04"), {"usage": fo.online.Karma(sampling=2.0, cost={"cpu": 0.04})}),
        (("--pooled",), {}),
    ):
        cluster = CLUSTER.pooled() if "--pooled" in words else CLUSTER
        jobs = fo.online.read_jobs("dense.csv", cluster, compress=10)
        found.append(fo.simulate(cluster, jobs, scheduler=fo.Scheduler(cluster, **options)).summary()["waiting"])
        shown = numbers_of(run("dense.csv", "--compress", "10", *words, "--json", "--fair", "0"))["DRF"]
        assert shown["waiting"] == found[-1]
    assert all(found[0] != other for other in found[1:])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--usage", "kay"), "no usage 'kay'; did you mean 'kai'"),
        (("--usage", "kai:k=much"), "'k=much' is no option"),
        (("--usage", "kueue:half_life=0"), "Kueue: half_life is 0.0; give a finite time > 0"),
        (("--usage", "vtc:tokens=1"), "usage has a cost of 'tokens'"),
        (("--usage", "vtc:cpu=-1"), "the cost of 'cpu' is -1.0; give a finite number >= 0"),
    ],
)
def test_wrong_usages_are_named(run: Any, words: tuple[str, ...], message: str) -> None:
    done = run("jobs.csv", *words)
    assert done.exit_code == 2 and message in " ".join(done.output.split())


def test_policies_of_one_name_get_numbers(run: Any) -> None:
    shown = numbers_of(run("jobs.csv", "-p", "2df", "-p", "kdf:k=2", "-p", "MaxMin(Tasks())", "--json", "--fair", "0"))
    assert list(shown) == ["2-DF", "2-DF (2)", "MaxMin(Tasks())"]


def test_notes_of_the_reader_are_on_stderr(run: Any) -> None:
    Path("few.csv").write_text("user,arrival,duration,cpu [core]\nweb,0,1,2\n")
    done = run("few.csv", "--compress", "2")
    assert done.exit_code == 0 and "jobs take none of it" not in done.stdout
    assert "note: few.csv has no column 'memory [GiB]': jobs take none of it" in done.stderr
    assert "note: arrivals are divided by 2" in done.stderr


def test_files_hold_all_tasks_and_the_timeline(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    done = run("jobs.csv", "--out", "tasks.csv")
    assert done.exit_code == 0 and "written: tasks.csv" in done.stdout, done.output
    with open("tasks.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 63 and {row["user"] for row in rows} == {"batch", "web", "ml"}
    assert all(float(row["end"]) - float(row["start"]) in (30, 20, 80, 5) for row in rows)
    done = run("jobs.csv", "-p", "drf", "-p", "Leximin(PNormShare(2))", "--out", "run.json")
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in Path().glob("run-*")) == ["run-DRF.json", "run-Leximin-PNormShare-2-.json"]
    assert len(fo.online.Timeline.load("run-DRF.json").start) == 63


def test_a_picture_shows_all_policies_in_part_of_the_time(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    asked: list[Any] = []
    draw = simulate.draw_timelines
    monkeypatch.setattr(
        simulate,
        "draw_timelines",
        lambda runs, kind, **how: asked.append((list(runs), kind, how)) or draw(runs, kind, **how),
    )
    options = ("jobs.csv", "-p", "drf", "-p", "fcfs", "--plot", "p.png", "--kind")
    done = run(*options, "allocation", "--between", "0", "20")
    assert done.exit_code == 0 and asked == [(["DRF", "FCFS"], "allocation", {"between": (0.0, 20.0)})], done.output
    assert Path("p.png").read_bytes()[:4] == b"\x89PNG" and "written: p.png" in done.stdout
    done = run(*options, "use")
    assert done.exit_code == 2 and done.stdout == "" and "no kind of picture 'use'" in done.stderr
    done = run(*options, "shares", "--between", "2", "1")
    assert done.exit_code == 2 and done.stdout == "" and "between is (2.0, 1.0)" in done.stderr
    done = run(*options, "distance", "--fair", "0")
    assert done.exit_code == 2 and done.stdout == "" and "give --fair 20" in done.stderr
    done = run(*options, "shares", "--between", "1000", "2000")
    assert done.exit_code == 0 and "cannot draw the picture: no task of 'DRF' runs from 1000 to 2000" in done.stderr


def test_missing_matplotlib_is_said_before_anything_runs(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = run("jobs.csv", "--plot", "f.png")
    assert done.exit_code == 2 and done.stdout == "" and "pip install 'fairopt[plots]'" in done.stderr


@pytest.mark.parametrize(("at", "whole"), [("DRF: tasks", 0), ("FCFS: tasks", 1), ("FCFS: fair shares", 2)])
def test_ctrl_c_shows_the_part_done(run: Any, at: str, whole: int) -> None:
    Path("many.csv").write_text("user,arrival,duration,tasks,cpu [core]\na,0,10,2000,2\nb,0,10,2000,1\n")

    def stop(what: str, done: int | None, total: int | None) -> None:
        if what.startswith(at):
            raise KeyboardInterrupt

    with fo.progress(stop):
        done = run("many.csv", "-p", "drf", "-p", "fcfs", "--out", "t.csv")
    assert done.exit_code == 130, done.output
    assert done.stderr.splitlines()[-1] == f"stopped by Ctrl-C after {whole} of 2 policies"
    rows = [line.split() for line in done.stdout.splitlines()[3 : 4 + min(whole, 1)]]
    assert [row[0] for row in rows] == ["DRF", "FCFS"][: whole + 1]
    started = int(rows[-1][1].replace(",", ""))
    assert started == 4000 if whole == 2 else 1000 <= started < 4000 and rows[-1][2:4] == ["of", "4,000"]
    with open("t-FCFS.csv" if whole else "t-DRF.csv") as file:
        assert len(list(csv.DictReader(file))) == started


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jobs.csv", "-p", "fds:alpha=2"], "policy 'fds:alpha=2' maximises AlphaFair(2)"),
        (["jobs.csv", "-p", "most-tasks"], "which is not a max-min objective of one share; give Leximin or MaxMin"),
        (["jobs.csv", "-p", "ps-dsf"], "policy 'ps-dsf' is not an objective of shares"),
        (["jobs.csv", "-p", "Policy(Leximin(), [SharingIncentive()])"], "has constraints, which a replay task by task"),
        (["jobs.csv", "-p", "Leximin().then(Total(Tasks()))"], "maximises Leximin().then(Total(Tasks()))"),
        (["jobs.csv", "-p", "dfr"], "no policy 'dfr'; did you mean"),
        (["jobs.csv", "-p", "hdrf:by=(org,team)"], "has the labels ('org', 'team'), and jobs have a team only"),
        (["jobs.csv", "-p", "hdrf:weights={x: 2}"], "hdrf: weights name 'x', and no job has this team"),
        (["jobs.csv", "--time-unit", "hours"], "time_unit is 'hours'"),
        (["jobs.csv", "--threshold", "-1"], "threshold is -1.0; give a finite number >= 0"),
        (["jobs.csv", "--placement", "best"], "placement is 'best'; did you mean 'best-fit'"),
        (["jobs.csv", "--compress", "-1"], "compress is -1.0; give a finite number > 0"),
        (["nojobs.csv"], "nojobs.csv cannot be read (No such file or directory)"),
        (["jobs.csv", "--out", "tasks.txt"], "ends in .csv or .json"),
        (["jobs.csv", "--plot", "p.doc"], "ends in .png"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Any, words: list[str], message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1 and message in lines[0] and done.stdout == "", done.output


def test_a_table_needs_servers(run: Any) -> None:
    done = run("jobs.csv", servers=False)
    assert done.exit_code == 2 and "jobs.csv has no servers; give --servers INPUT" in done.stderr
    gone = run("gone.csv", servers=False)
    assert gone.exit_code == 2 and "gone.csv cannot be read (No such file or directory)" in gone.stderr


def test_a_folder_of_servers_is_enough(run: Any, tmp_path: Path) -> None:
    fo.datasets.write(CLUSTER, tmp_path / "tables")
    with_users = run("jobs.csv", "--servers", "tables", "--json", servers=False)
    (tmp_path / "tables" / "users.csv").unlink()
    alone = run("jobs.csv", "--servers", "tables", "--json", servers=False)
    assert numbers_of(alone) == numbers_of(with_users) and "no users" not in with_users.stderr + alone.stderr


def test_pools_of_types_are_named_by_types(run: Any, tmp_path: Path) -> None:
    table = "user,arrival,duration,servers,cpu [core],memory [GiB]\na,0,1,{},1,1\n"
    (tmp_path / "named.csv").write_text(table.format("big"))
    done = run("named.csv", "--placement", "pooled")
    assert done.exit_code == 2 and "names the server 'big #1', but --placement pooled" in " ".join(done.output.split())
    (tmp_path / "typed.csv").write_text(table.format("x"))
    assert run("typed.csv", "--placement", "pooled").exit_code == 0


@pytest.mark.parametrize("option", [("--kind", "waiting"), ("--between", "0", "9")])
def test_options_of_a_picture_need_a_picture(run: Any, option: tuple[str, ...]) -> None:
    done = run("jobs.csv", *option)
    assert done.exit_code == 2 and "give --plot FILE too" in done.output


def test_the_time_limit_shows_the_part_done(run: Any) -> None:
    done = run("jobs.csv", "-p", "drf", "-p", "2df", "--time-limit", "1e-9", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["policies"]["DRF"]["interrupted"] is True
    assert "stopped by the time limit after 0 of 2 policies" in done.stderr
    assert run("jobs.csv", "-p", "drf", "--time-limit", "1e-9").exit_code == 0
    assert "time_limit is -1" in run("jobs.csv", "--time-limit", "-1").stderr


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{k:02d}.5,{100 + k},{10 + k % 7}\n" for k in range(40)
)
ON_SLOTS = ("--capacity", "slot=1", "--tenants", "chat=1", "--tenants", "code=3", "--fair", "0")


def test_a_trace_of_requests_is_served_under_several_rules_and_measured_by_window(run: Any, tmp_path: Path) -> None:
    (tmp_path / "azure.csv").write_text(AZURE)
    rules = ("-p", "vtc", "-p", "drr:quantum=500", "-p", "fcfs", "--decode-rate", "5", "--window", "20")
    found = numbers_of(run("azure.csv", *ON_SLOTS, *rules, "--json", servers=False))
    asked = {"chat": 0, "code": 0}
    trace = fo.online.read_jobs(
        "azure.csv",
        fo.Instance([], [[1, 1e12, 1e12]], resources=["slot", "input", "output"]),
        tenants={"chat": 1, "code": 3},
    )
    for job in trace:
        asked[job.user] += job.demands[1] + 2 * job.demands[2]
    for numbers in found.values():
        assert numbers["service"]["total"] == asked
        assert len(numbers["service"]["jain"]) == len(numbers["service"]["edges"]) - 1
    served = {name: numbers["service"] for name, numbers in found.items()}
    assert served["vtc"]["largest_gap"] <= served["vtc"]["bound"] < served["FCFS"]["largest_gap"]
    done = run("azure.csv", *ON_SLOTS, *rules, "--plot", "served.png", "--kind", "service", servers=False)
    assert done.exit_code == 0, done.output
    assert "Service per weight" in done.stdout and (tmp_path / "served.png").stat().st_size
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_costs_of_service_are_those_that_are_given(run: Any, tmp_path: Path) -> None:
    (tmp_path / "azure.csv").write_text(AZURE)
    options = ("-p", "vtc", "--window", "50", "--cost", "output=1", "--json")
    (numbers,) = numbers_of(run("azure.csv", *ON_SLOTS, *options, servers=False)).values()
    assert sum(numbers["service"]["total"].values()) == sum(10 + k % 7 for k in range(40))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cost", "cpu=1"), "--cost counts service; give --window TIME too"),
        (("--window", "5", "--cost", "cpu=much"), "--cost 'cpu=much': give the resource and a number"),
        (("--window", "5", "--cost", "gpu=1"), "--cost names 'gpu'"),
        (("--window", "-5"), "window is -5.0; give a finite time > 0"),
        (
            ("--plot", "x.png", "--kind", "service", "--between", "0", "9"),
            "--kind service has windows and no --between",
        ),
        (("-p", "vtc:lift=2"), "lift is 2.0; give True or False"),
    ],
)
def test_what_is_wrong_with_service_is_said(run: Any, options: tuple[str, ...], message: str) -> None:
    done = run("jobs.csv", *options)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split()) and not done.stdout  # before anything is replayed


def test_windows_that_are_too_short_lose_no_replay(run: Any) -> None:
    done = run("jobs.csv", "--window", "1e-9")
    assert done.exit_code == 0, done.output
    assert "cannot measure service: window is 1e-09" in " ".join(done.stderr.split()) and "policy" in done.stdout
