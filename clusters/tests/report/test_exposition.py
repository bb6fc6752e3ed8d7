"""Metrics for Prometheus against the numbers of answers, and the manifests, rules and dashboard that use them."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import fairopt_clusters as fc
import numpy as np
import pytest
import yaml
from fairopt_clusters.read.kubernetes.manifests import KINDS
from fairopt_clusters.report.exposition import METRICS, PREFIX
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import fairopt as fo
from fairopt.cli import app

CRON = Path(__file__).parents[3] / "docs" / "clusters" / "cron"
# The fair answer of HDRF: half of the 10 GPUs to each team, and all of parse, which needs none: 5, 10 and 5 tasks.
TEAMS = fo.Instance(
    [[4, 1], [1, 0], [2, 1]],
    [60, 10],
    users=["train", "parse", "tune"],
    resources=["cpu", "gpu"],
    units={"cpu": "core"},
    teams={"team": ["vision", "vision", "nlp"]},
    task_limits=[9, 10, 8],
    held=[8, 6, 2],
)
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on the PATH")


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """Values by name without the prefix and by values of labels in the order of their names."""
    return {
        (sample.name.removeprefix(PREFIX), *(of for _, of in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def tool(*words: str, stdin: str | None = None, folder: Path | None = None) -> None:
    done = subprocess.run(["promtool", *words], input=stdin, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0 and "error" not in done.stderr, done.stdout + done.stderr


def test_metrics_are_the_numbers_of_the_answer() -> None:
    answer = fo.HDRF().allocate(TEAMS)
    found = parsed(fc.prometheus(answer, input_time=1000.0))
    amounts = {
        "fair": {"vision": (30, 5), "nlp": (10, 5)},
        "held": {"vision": (38, 8), "nlp": (4, 2)},
        "waiting": {"vision": (8, 1), "nlp": (12, 6)},
        "difference": {"vision": (8, 3), "nlp": (-6, -3)},
    }
    expected: dict[tuple[str, ...], float] = {
        (f"{name}_amount", resource, team): value
        for name, by_team in amounts.items()
        for team, values in by_team.items()
        for resource, value in zip(TEAMS.resources, values, strict=True)
    }
    expected |= {("held_fair_ratio", "gpu", "vision"): 1.6, ("held_fair_ratio", "gpu", "nlp"): 0.4}
    expected |= {("capacity_amount", "cpu", "core"): 60, ("capacity_amount", "gpu", ""): 10}
    expected |= {("certificate_gap_ratio",): answer.certificate.gap, ("certified",): 1, ("answer_info", "HDRF"): 1}
    expected |= {("input_timestamp_seconds",): 1000}
    now = found.pop(("answer_timestamp_seconds",))
    assert found.pop(("input_age_seconds",)) == pytest.approx(now - 1000)
    assert found == pytest.approx(expected)
    assert {name for name, *_ in found} | {"answer_timestamp_seconds", "input_age_seconds"} == METRICS.keys()


def test_what_is_held_is_there_only_if_it_is_known_and_users_without_a_team_stand_alone() -> None:
    answer = fo.DRF().allocate(TEAMS.replace(held=None, teams={"team": ["vision", None, None]}))
    found = parsed(fc.prometheus(answer))
    assert {team for name, _, team in (key for key in found if key[0] == "fair_amount")} == {"vision", "parse", "tune"}
    assert not {name for name, *_ in found} & {"held_amount", "waiting_amount", "held_fair_ratio", "input_age_seconds"}


def test_nothing_waits_without_bound_unless_there_is_no_task_limit() -> None:
    answer = fo.DRF().allocate(fo.Instance([[1], [1]], [4], task_limits=[None, 3], held=[1, 1], resources=["cpu"]))
    found = parsed(fc.prometheus(answer))
    assert [found["waiting_amount", "cpu", user] for user in ("user1", "user2")] == [np.inf, 2]


def test_names_are_escaped_as_the_format_asks() -> None:
    names = ['a"b', "c\\d", "e\nf", "g{h}=,i", "ü"]
    found = parsed(fc.prometheus(fo.DRF().allocate(fo.Instance(np.ones((5, 1)), [6], users=names))))
    written = {team for name, *labels in found if name == "fair_amount" for team in labels[1:]}
    assert written == {*names}


def test_prometheus_refuses_what_is_no_answer() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=r"prometheus\(Instance\): give an Allocation"):
        fc.prometheus(TEAMS)  # type: ignore[arg-type]


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    fo.datasets.write(TEAMS, "teams.json")
    return lambda *words: CliRunner().invoke(app, ["solve", *words])


def test_the_command_writes_the_metrics_with_the_age_of_the_oldest_file(run: Any) -> None:
    os.utime("teams.json", (1000, 1000))
    result = run("teams.json", "--metrics", "fairopt.prom")
    assert result.exit_code == 0 and "written: fairopt.prom" in result.stdout
    found, same = parsed(Path("fairopt.prom").read_text()), parsed(fc.prometheus(fo.HDRF().allocate(TEAMS)))
    clock = {("answer_timestamp_seconds",), ("input_timestamp_seconds",), ("input_age_seconds",)}
    assert found["input_timestamp_seconds",] == 1000
    assert {key: found[key] for key in found.keys() - clock} == {key: same[key] for key in same.keys() - clock}
    assert [*Path().glob(".fairopt*")] == []
    fo.datasets.write(TEAMS, "tables")
    for k, file in enumerate(sorted(Path("tables").iterdir())):
        os.utime(file, (2000 + k, 2000 + k))
    assert run("tables", "--metrics", "fairopt.prom").exit_code == 0
    assert parsed(Path("fairopt.prom").read_text())["input_timestamp_seconds",] == 2000


def test_a_run_without_an_answer_leaves_the_file_as_it_was(run: Any) -> None:
    Path("fairopt.prom").write_text("before\n")
    assert run("teams.json", "-p", "drf", "-c", "MinTasks('train=99')", "--metrics", "fairopt.prom").exit_code == 1
    assert Path("fairopt.prom").read_text() == "before\n"
    assert run("library:ghodsi-2011-example", "--metrics", "fairopt.prom").exit_code == 0
    assert ("input_timestamp_seconds",) not in parsed(Path("fairopt.prom").read_text())


def test_metrics_are_refused_where_the_collector_would_not_read_them(run: Any) -> None:
    result = run("teams.json", "--metrics", "fairopt.txt")
    assert result.exit_code == 2 and "give a name that ends in .prom" in result.stderr
    assert "create the folder" in run("teams.json", "--metrics", "none/a.prom").stderr


def test_exit_4_where_a_team_that_waits_holds_too_little(run: Any) -> None:
    result = run("teams.json", "--fail-if-below", "0.8", "--metrics", "fairopt.prom", "--json")
    assert result.exit_code == 4 and json.loads(result.stdout)["format"] == "fairopt.answer/1"
    assert result.stderr.splitlines()[-2:] == [
        "nlp holds 2 gpu, 40 % of its fair 5, and waits for 6",
        "vision holds more than is fair: run what waits first, set quotas "
        "('fairopt quotas' of fairopt-clusters), or see 'fairopt why'",
    ]
    assert Path("fairopt.prom").exists()
    assert run("teams.json", "--fail-if-below", "0.4").exit_code == 0  # not below it
    fo.datasets.write(TEAMS.replace(task_limits=[9, 6, 2]), "content.json")
    assert run("content.json", "--fail-if-below", "1").exit_code == 0  # nlp does not wait


def test_a_team_with_its_fair_gpus_that_waits_for_cpus_is_below(run: Any) -> None:
    made = fo.Instance(
        [[4, 1], [1, 0], [4, 1]],
        [80, 2],
        users=["fit", "parse", "render"],
        resources=["cpu", "gpu"],
        teams={"team": ["ml", "ml", "web"]},
        task_limits=[1, 32, 18],
        held=[1, 0, 1],
    )
    fo.datasets.write(made, "cpus.json")
    result = run("cpus.json", "-p", "most-tasks", "--fail-if-below", "0.8", "--metrics", "cpus.prom")
    assert result.exit_code == 4 and result.stderr.splitlines()[0].startswith(
        "ml holds 4 cpu, 11.1 % of its fair 36, and waits for 32"
    )
    found = parsed(Path("cpus.prom").read_text())
    assert found["held_fair_ratio", "cpu", "ml"] == pytest.approx(1 / 9)
    assert found["waiting_amount", "cpu", "ml"] == 32 and found["held_fair_ratio", "gpu", "web"] == 1


def test_many_teams_below_are_counted(run: Any) -> None:
    users = [f"u{k:02}" for k in range(14)]
    made = fo.Instance(np.ones((14, 1)), [28], users=users, resources=["cpu"], held=[15, *[1] * 13])
    fo.datasets.write(made, "many.json")
    result = run("many.json", "--fail-if-below", "0.6")
    lines = result.stderr.splitlines()
    assert result.exit_code == 4 and lines[0] == "u01 holds 1 cpu, 50 % of its fair 2, and waits for more"
    assert lines[10].startswith("3 others that wait hold less than 60 % too") and "u00 holds more" in lines[11]


@pytest.mark.parametrize("part", ["0", "-0.5", "1.5", "nan"])
def test_parts_that_are_none_are_refused(run: Any, part: str) -> None:
    result = run("teams.json", "--fail-if-below", part)
    assert result.exit_code == 2 and f"--fail-if-below {part}: give a part of the fair share" in result.stderr


def test_an_input_that_does_not_say_what_runs_cannot_be_below(run: Any) -> None:
    fo.datasets.write(TEAMS.replace(held=None), "plain.json")
    result = run("plain.json", "--fail-if-below", "0.8")
    assert result.exit_code == 2 and "plain.json does not say what runs now; give running pods" in result.stderr


# -- what the page has ------------------------------------------------------------------------------------------------


def of_page() -> list[str]:
    """The expressions of the alert rules and of the dashboard."""
    rules = [rule for group in yaml.safe_load((CRON / "rules.yaml").read_text())["groups"] for rule in group["rules"]]
    board = json.loads((CRON / "dashboard.json").read_text())
    queries = [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    return [
        *(rule["expr"] for rule in rules),
        *(target["expr"] for panel in board["panels"] for target in panel["targets"]),
        *queries,
    ]


def test_rules_and_dashboard_name_metrics_and_labels_that_are_written() -> None:
    expressions = of_page()
    named = {name for expression in expressions for name in re.findall(rf"\b{PREFIX}(\w+)", expression)}
    assert len(expressions) >= 10 and named <= METRICS.keys()
    labels = {label for expression in expressions for label in re.findall(r"[{(](\w+)(?:=|\) group_left)", expression)}
    assert labels == {"resource"}
    assert "{include} ../_build/metrics.txt" in (CRON.parent / "cron.md").read_text()
    table = runpy.run_path(str(CRON.parents[1] / "refresh.py"))["metrics"]()
    assert all(f"`{PREFIX}{name}`" in table for name in METRICS)


@promtool
def test_promtool_accepts_metrics_rules_and_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    tool("check", "metrics", stdin=fc.prometheus(fo.HDRF().allocate(TEAMS), input_time=1000.0))
    tool("check", "rules", str(CRON / "rules.yaml"))
    panels = json.loads((CRON / "dashboard.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    rules = [{"record": f"panel{k}", "expr": expression} for k, expression in enumerate(expressions)]
    (tmp_path / "dashboard.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    tool("check", "rules", "dashboard.yaml", folder=tmp_path)


@promtool
def test_the_alert_fires_after_two_hours_for_the_team_that_is_below(tmp_path: Path) -> None:
    text = fc.prometheus(fo.HDRF().allocate(TEAMS), input_time=1000.0)
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    alert = {"severity": "warning", "team": "nlp", "resource": "gpu"}
    expected = {
        "exp_labels": alert,
        "exp_annotations": {
            "summary": "nlp holds 40% of its fair gpu and waits",
            "description": "'fairopt why now.json nlp' says why, 'fairopt quotas' what would change it.",
        },
    }
    case = {
        "interval": "15m",
        "input_series": [{"series": name, "values": f"{value}+0x12"} for name, _, value in lines],
        "alert_rule_test": [
            {"eval_time": time, "alertname": "TeamBelowFairShare", "exp_alerts": alerts}
            for time, alerts in (("1h45m", []), ("2h15m", [expected]))
        ],
    }
    test = {"rule_files": [str(CRON / "rules.yaml")], "evaluation_interval": "15m", "tests": [case]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    tool("test", "rules", "test.yaml", folder=tmp_path)


def test_the_command_of_the_cronjob_writes_metrics_and_keeps_them_if_kubectl_fails(tmp_path: Path) -> None:
    *_, job = yaml.safe_load_all((CRON / "cronjob.yaml").read_text())
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    script = re.sub(r"/tmp/|/metrics/", "./", container["args"][0])
    about = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}
    spec = {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "web"}, "spec": spec, "status": {"phase": "Running"}}
    (tmp_path / "list.json").write_text(json.dumps({"kind": "List", "items": [{"kind": "Node", **about}, pod]}))
    programs = {"kubectl": "cat list.json", "fairopt": f'exec {shlex.quote(sys.executable)} -m fairopt "$@"'}
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command: Any = {"args": [*container["command"], script], "env": environment, "cwd": tmp_path}
    subprocess.run(**command, check=True, capture_output=True)
    written = (tmp_path / "fairopt.prom").read_text()
    assert parsed(written)["held_amount", "cpu", "web"] == 1
    (tmp_path / "kubectl").write_text("#!/bin/sh\nexit 1\n")
    assert subprocess.run(**command, check=False).returncode == 1
    assert (tmp_path / "fairopt.prom").read_text() == written


def test_the_cronjob_only_reads_and_is_itself_a_manifest_that_is_read(tmp_path: Path) -> None:
    documents = {one["kind"]: one for one in yaml.safe_load_all((CRON / "cronjob.yaml").read_text())}
    rules = documents["ClusterRole"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    command = documents["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"][0]
    [kinds] = re.findall(r"kubectl get (\S+)", command)
    listed = {"namespaces" if kind == "ns" else kind for kind in kinds.split(",")}
    assert listed == {kind for rule in rules for kind in rule["resources"]}
    assert "CronJob" in KINDS["batch"]
    about = {"name": "monitor-1", "labels": {"kubernetes.io/hostname": "monitor-1"}}
    node = {"kind": "Node", "metadata": about, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
    shutil.copy(CRON / "cronjob.yaml", tmp_path)
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(node))
    made = fo.read(tmp_path)
    assert made.teams["namespace" if "namespace" in made.teams else next(iter(made.teams))] == ("fairopt",)
    assert made.demands.tolist() == [[1, 2]] and made.resources == ("cpu", "memory")
