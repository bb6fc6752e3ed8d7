"""The commands as ``fairopt`` finds them: their JSON, and options that they share with others."""

import json
from importlib.metadata import entry_points

import jsonschema
import numpy as np
import pytest
from fairopt_clusters.commands.queues import SCHEDULERS
from typer.main import get_command
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app

CASES = {
    "queues": (["kai.yaml", "--scheduler", "kai", "--capacity", "gpu=5"], 0),
    "quotas": (["teams.json", "--diff"], 4),
    "report": (["teams.json", "-p", "hdrf", "-p", "drf"], 0),
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command beside small inputs."""
    monkeypatch.chdir(tmp_path)
    rich = fo.Instance(
        [[4, 1], [1, 0], [2, 1]],
        [[32, 4], [32, 4], [8, 0]],
        users=["train", "web", "tune"],
        resources=["cpu", "gpu"],
        counts=[1, 2, 1],
        server_types=["A100", "A100", "none"],
        teams={"team": ["vision", None, "vision"]},
        task_limits=[100, np.inf, 20],
        guarantees={"web": 1, "vision": {"gpu": 1}},
        held=[[1, 0, 0], [0, 0, 3], [2, 0, 0]],
    )
    fo.datasets.write(rich, "teams.json")
    teams = {"team": ["A", "B"]}
    owed = fo.Instance([[1], [1]], [12], resources=["gpu"], teams=teams)
    fo.datasets.write(owed, "owed.json")
    queue = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: %s}\nspec: {resources: {gpu: {%s}}}\n"
    kai = [queue % (name, f"quota: 0, limit: -1, overQuotaWeight: {k}") for name, k in (("a", 5), ("b", 3), ("c", 1))]
    (tmp_path / "kai.yaml").write_text("---\n".join(kai))
    return lambda *words: CliRunner().invoke(app, words)


def test_each_command_is_an_entry_point_with_a_case_here():
    found = {point.name for point in entry_points(group="fairopt.commands")}
    assert set(CASES) == {name for name in found if name in get_command(app).commands}


@pytest.mark.parametrize("command", CASES)
def test_the_json_of_a_command_is_valid_under_its_schema(run, command):
    words, code = CASES[command]
    result = run(command, *words, "--json")
    assert result.exit_code == code, result.output
    data = json.loads(result.stdout)
    schema = fo.report.schema(data["format"])
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    if command == "report":
        jsonschema.validate(data["comparison"], fo.report.schema(data["comparison"]["format"]))


def test_quotas_reduce_guarantees_that_do_not_fit(run):
    words = ("--guarantee", "A=8gpu", "--guarantee", "B=8gpu", "--fit-guarantees", "A")
    made = run("quotas", "owed.json", *words)
    assert made.exit_code == 0 and "in the order A: team 'B' from 8 to 4 gpu" in made.stderr


def test_a_limit_in_units_is_of_a_team_under_the_rule_of_kueue(run):
    shown = json.loads(run("solve", "owed.json", "-p", "kueue", "--limit", "A=3gpu", "--json").stdout)
    assert [*shown["tasks"].values()] == pytest.approx([3, 9])


def test_the_scheduler_of_queues_is_that_of_the_file_by_default(run, tmp_path):
    words = ["kai.yaml", "--capacity", "gpu=5", "--json"]
    assert run("queues", *words).stdout == run("queues", *words, "--scheduler", "kai").stdout
    of = {"queues": "a", "a.capacity": "100"}
    rows = "".join(
        f"<property><name>yarn.scheduler.capacity.root.{name}</name><value>{value}</value></property>"
        for name, value in of.items()
    )
    (tmp_path / "capacity-scheduler.xml").write_text(f"<configuration>{rows}</configuration>")
    refused = run("queues", "capacity-scheduler.xml")
    assert refused.exit_code == 2 and "holds queues of YARN" in " ".join(refused.stderr.split())


def test_schedulers_are_found_by_name_for_audits(run):
    found = {point.name for point in entry_points(group="fairopt.schedulers")}
    assert found >= {*SCHEDULERS, "volcano-hdrf"} - {"kueue-classical"}  # which divides nothing
    result = run("audit", "--scheduler", "volcano-hdrf", "--property", "order-independent", "--max-examples", "2")
    assert result.exit_code == 0 and "Volcano as deployed (hdrf)" in result.stdout
    refused = run("audit", "--scheduler", "kai", "--weights")
    assert refused.exit_code == 2 and "--weights is of policies; leave it out" in refused.stderr
    unknown = run("audit", "--scheduler", "kay")
    assert unknown.exit_code == 2 and "--scheduler 'kay' is not known; did you mean 'kai'" in unknown.stderr


def test_policies_have_names_summaries_and_parameters():
    known = fo.policies.known_policies()
    assert known["kueue"].summary.startswith("Fair sharing of Kueue") and known["kueue"].parameters == "by"
    assert known["slurm"].parameters.startswith("billing")
    assert repr(fo.policies.named_policy("kueue")) == "Kueue()"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("solve tables --pods default", "InvalidInstance: 'pods'"),
        ("solve trace --capacity-scale -1", "InvalidInstance: capacity_scale is -1.0"),
        ("solve trace --pods defalt", "did you mean 'default'"),
        (
            "solve tables -p drf --out tables/nodes.json",
            "cannot write tables/nodes.json: the input tables is read from this",
        ),
    ],
)
def test_options_and_files_of_other_inputs_are_refused_in_one_line(run, tmp_path, words, said):
    fo.datasets.write(fo.read("owed.json"), "tables")
    trace = tmp_path / "trace"
    trace.mkdir()
    (trace / "openb_node_list_all_node.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n")
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1,1,0,0,\n"
    (trace / "openb_pod_list_default.csv").write_text(pods)
    result = run(*words.split())
    assert result.exit_code == 2 and len(result.stderr.splitlines()) == 1 and said in result.stderr
