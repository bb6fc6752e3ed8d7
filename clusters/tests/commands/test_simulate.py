"""``fairopt simulate`` with output of sacct and the openb trace."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with a cluster and a table of jobs."""
    monkeypatch.chdir(tmp_path)
    units = {"cpu": "core", "memory": "GiB"}
    fo.datasets.write(fo.Instance([], [[8, 64]], resources=["cpu", "memory"], units=units), "cluster.json")
    Path("jobs.csv").write_text("user,arrival,duration,cpu [core]\na,0,10,1\n")

    def invoke(*arguments: str, servers: bool = True) -> Result:
        return CliRunner().invoke(app, ["simulate", *arguments, *(["--servers", "cluster.json"] * servers)])

    return invoke


def numbers_of(done: Result) -> dict[str, dict[str, Any]]:
    """The policies of ``--json``."""
    assert done.exit_code == 0, done.output
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)["policies"]
    return found


def test_output_of_sacct_is_replayed(run: Any) -> None:
    Path("sacct.txt").write_text(
        "JobID|User|Account|State|Submit|Elapsed|Timelimit|ReqTRES\n"
        "1|ann|bio|COMPLETED|2026-03-01T08:00:00|01:00:00|02:00:00|cpu=8,mem=8G,node=1\n"
    )
    done = run("sacct.txt", "-p", "easy", "--users", "account", "--json")
    assert list(numbers_of(done)["EASY"]["users"]) == ["bio"]


def test_the_folder_of_openb_has_jobs_and_servers(run: Any) -> None:
    Path("openb").mkdir()
    Path("openb/openb_node_list_all_node.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,8192,2,T4\n")
    Path("openb/openb_pod_list_typed.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time\n"
        "p0,4000,1024,1,1000,T4,LS,0,60,10\np1,2000,1024,1,500,,BE,10,100,20\np2,2000,1024,1,500,,BE,10,,\n"
    )
    words = ("openb", "--pods", "typed", "--users", "qos", "--capacity-scale", "0.5", "--compress", "10")
    done = run(*words, "--json", "--fair", "0", servers=False)
    shown = numbers_of(done)["DRF"]
    assert (shown["tasks"], shown["makespan"], shown["waiting"]["mean"]) == (2, 130, 24.5)  # 0 to 50, 1 waits, to 130
    assert "1 pod was left out: never scheduled" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["jobs.csv", "--users", "account"],
            "'users' is an option for a folder of the openb trace and out",
        ),
        (["jobs.csv", "--capacity-scale", "0.5"], "'capacity_scale' is an option for folders of the openb trace"),
        (["cluster.json"], "cluster.json has no list 'jobs'; expected the output of sacct --json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Any, words: list[str], message: str) -> None:
    done = run(*words)
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1 and message in lines[0] and done.stdout == "", done.output
