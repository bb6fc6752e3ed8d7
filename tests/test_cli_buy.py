"""``fairopt buy``: the table, the advice, JSON, the picture, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app
from fairopt.plots.gains import bars


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a small cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    small = fo.Instance([[1, 4], [3, 1]], [9, 18], users=["batch", "web"], resources=["cpu", "memory"])
    fo.datasets.write(small, tmp_path / "cluster.json")
    fo.datasets.write(fo.Instance([[1], [2]], [[4], [6]]), tmp_path / "two.json")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["buy", *arguments])

    return invoke


def test_the_table_and_the_advice(run: Any) -> None:
    result = run("cluster.json", "--policy", "gfj:alpha=2")
    assert result.exit_code == 0
    assert "Buy cpu: 0.5774 tasks more per unit, up to 1.744 units." in result.stdout
    assert "up to  left over" in result.stdout
    assert "Left out, since some is left over on every server: memory (2.921)." in result.stdout
    found = json.loads(run("cluster.json", "--policy", "gfj:alpha=2", "--json").stdout)
    (row,) = found["purchases"]
    assert row["up_to"] == pytest.approx(1.744, rel=1e-3) and (row["rate_by"], row["up_to_by"]) == (
        "derivative",
        "active set",
    )
    assert list(found["idle"]) == ["memory"] and found["servers"] == []  # a pool is no server


def test_the_column_that_the_order_is_by_is_shown(run: Any) -> None:
    for cost, header in (((), "per 1 %"), (("--cost", "cpu=2", "--cost", "memory=1"), "per cost")):
        result = run("cluster.json", *cost)
        assert result.exit_code == 0 and f"resource  {header}" in result.stdout


@pytest.mark.fast_methods
def test_servers_together_ranges_by_solving_again_and_reasons_are_told(run: Any) -> None:
    demands, capacities = [[1, 4, 0], [3, 1, 0], [1, 1, 1]], [[9, 18, 0], [20, 10, 3]]
    names: dict[str, Any] = {"resources": ["cpu", "memory", "gpu"], "servers": ["big", "fast"]}
    several = fo.Instance(demands, capacities, counts=[5, 2], weights=[1, 1, 9], **names)
    fo.datasets.write(several, "several.json")
    result = run("several.json", "-p", "drf")
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "added to a row of identical servers together" in words and "up to about" in words
    assert "No rate for gpu on big x 5: the server has none of it" in words
    rows = [line for line in result.stdout.splitlines() if " on " in line and line.rstrip().endswith(("cpu", "memory"))]
    ends = [re.search(r"(~[\d.]+|no end|-) +[\d.e-]+  \d", row) for row in rows]
    assert len(ends) == 4 and [end is not None and end[1] for end in ends][-1] == "-" and all(ends)
    found = json.loads(run("several.json", "--lead", "tasks", "--json").stdout)["purchases"][0]
    more = several.with_capacities([[9 + 1e-3 / 5, 18, 0], capacities[1]])  # by 0.001 in all five
    gain = fo.DRF().allocate(more).tasks.sum() - fo.DRF().allocate(several).tasks.sum()
    assert found["name"] == "cpu on big" and found["tasks"] == pytest.approx(gain / 1e-3, rel=1e-3)


def test_a_long_table_says_what_it_leaves_out(run: Any) -> None:
    many = fo.Instance(np.eye(25) + 0.1, 2 * np.ones(25))
    fo.datasets.write(many, "many.json")
    assert "(20 of 25 rows)" in " ".join(run("many.json", "-p", "drf").stdout.split())


def test_costs_decide_the_order(run: Any) -> None:
    result = run("cluster.json", "-p", "most-tasks", "--cost", "cpu=1", "--cost", "memory=10", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert [row["resource"] for row in found["purchases"]] == ["cpu", "memory"]
    assert found["purchases"][0]["tasks_per_cost"] == pytest.approx(3 / 11)
    assert found["advice"].startswith("Buy cpu: 0.2727 tasks more per unit (0.2727 per unit of cost)")


def test_servers_are_named(run: Any) -> None:
    result = run("two.json")
    assert result.exit_code == 0 and "resource1 on server2" in result.stdout


def test_a_picture(run: Any) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    result = run("cluster.json", "--plot", "buy.png")
    assert result.exit_code == 0 and Path("buy.png").stat().st_size > 5000 and "written: buy.png" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--cost", "memory"], 2, "give the resource and a number, such as memory=3"),
        (["--cost", "memry=3"], 2, "did you mean 'memory'"),
        (["--cost", "memory=-3"], 2, "give a positive number"),
        (["--plot", "buy.txt"], 2, "buy.txt"),
        (["-p", "kdf:k=9"], 1, "give k <= 2"),
    ],
)
def test_what_is_refused(run: Any, arguments: list[str], code: int, words: str) -> None:
    result = run("cluster.json", *arguments)
    assert result.exit_code == code and words in " ".join(result.stderr.split())


def test_costs_are_refused_before_solving(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fo.Policy, "allocate", lambda *_, **__: pytest.fail("solved"))
    assert run("cluster.json", "--cost", "memry=3").exit_code == 2


def test_a_file_that_is_not_there(run: Any) -> None:
    assert run("nothing.json").exit_code == 2


def cells(output: str, header: str) -> list[str]:
    """The first cells of the first table with a header of the rows."""
    lines = output.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(header + " ")) + 2
    rows = lines[start : start + next(k for k, line in enumerate(lines[start:]) if not line.strip())]
    return [re.split(r"\s{2,}", row)[0] for row in rows]


@pytest.fixture
def cloud(run: Any) -> fo.Instance:
    """Servers as clouds name them; spark waits for cores, and training for GPUs."""
    sizes = [(96, 8)] * 5 + [(96, 4)] * 4 + [(64, 0)] * 4
    gpus = [[False] * 9 + [True] * 4, [True] * 9 + [False] * 4]
    cluster = fo.Instance(
        [[1, 0], [8, 1]], sizes, users=["spark", "train"], resources=["cpu", "nvidia.com/gpu"], eligible=gpus,
        servers=[f"nvidia-ip-10-0-1-{k}.ec2.internal" for k in (3, 2, *range(4, 15))], task_limits=[900, 170],
    )  # fmt: skip
    fo.datasets.write(cluster, "cloud.json")
    return cluster


@pytest.mark.parametrize("width", ["80", "60", "200"])
def test_rows_of_many_servers_have_different_names(
    run: Any, cloud: fo.Instance, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    output = run("cloud.json").stdout
    names, rows = cells(output, "server"), cells(output, "resource")
    assert len({*names}) == len(names) == 3 and len({*rows}) == len(rows) == 6
    if width != "60":
        assert names[0] == "nvidia-ip-10-0-1-2" and rows[0] == "gpu on nvidia-ip-10-0-1-2 x 5"
        assert "8 gpu, 96 cpu" in output and "4 gpu, 96 cpu" in output
    solved = CliRunner().invoke(app, ["solve", "cloud.json"]).stdout
    assert len({*cells(solved, "server")}) == 3


def test_bars_of_a_picture_have_different_names(cloud: fo.Instance) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")
    rows = fo.sensitivity(fo.DRF().allocate(cloud.merged())).purchases(lead="gpu")
    axes = bars(rows, "DRF", False, lead="nvidia.com/gpu")
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert len({*names}) == len(names) > 2 and axes.get_xlabel() == "gpu in use per 1 % more capacity"


def test_gpus_that_users_wait_for_lead_and_the_output_says_so(run: Any, cloud: fo.Instance) -> None:
    output = " ".join(run("cloud.json").stdout.split())
    answer = fo.DRF().allocate(cloud)
    waiting = 170 - answer.tasks[1]
    assert f"Sorted by gpu more in use (users ask for {waiting:.4g} more); --lead tasks sorts by tasks." in output
    best = output.partition("Gain from one more server")[2]
    assert best.index("nvidia-ip-10-0-1-2 ") < best.index("nvidia-ip-10-0-1-11 ")
    by_tasks = run("cloud.json", "--lead", "tasks").stdout.partition("Gain from one more server")[2]
    assert by_tasks.index("nvidia-ip-10-0-1-11 ") < by_tasks.index("nvidia-ip-10-0-1-2 ")
    assert json.loads(run("cloud.json", "--json").stdout)["lead"] == "nvidia.com/gpu"
    assert json.loads(run("cloud.json", "--lead", "tasks", "--json").stdout)["lead"] is None


def test_new_types_and_whole_servers_have_prices(run: Any, cloud: fo.Instance) -> None:
    new, old = "cpu=192,gpu=16 name=double cost=500", "nvidia-ip-10-0-1-2.ec2.internal=400"
    done = run("cloud.json", "--server", new, "--cost", old, "--json")
    assert done.exit_code == 0, done.stderr
    found = {row["server"]: row for row in json.loads(done.stdout)["servers"]}
    assert found["double"]["servers"] == 0 and found["double"]["lead_units"] == pytest.approx(16)
    assert found["double"]["lead_per_cost"] == pytest.approx(16 / 500)
    assert [*found][:2] == ["double", cloud.merged().servers[0]] and [*found.values()][1]["cost"] == 400
    shown = " ".join(run("cloud.json", "--server", new, "--cost", old).stdout.split())
    assert "cost per gpu" in shown and re.search(r"double\b", shown.partition("Gain from one more server")[2])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--lead", "gpus"], "did you mean"),
        (["--server", "cpu"], "give each resource once, such as 'cpu=96 memory=768 gpu=8'"),
        (["--server", "cpu=96 cpu=2"], "give each resource once"),
        (["--server", "cpu=many"], "give a number in the unit of the input"),
        (["--server", "cpus=96"], "did you mean 'cpu'"),
        (["--server", "cpu=96 cost=-1"], "give a positive number"),
        (["--server", "name=empty"], "give capacities"),
        (["--server", "cpu=96 like=nvidia"], "nvidia"),
        (["--cost", "nvidia-ip-10-0-1-2.ec2.internal=0"], "give a positive number"),
    ],
)
def test_what_leads_and_new_types_are_checked_before_solving(
    run: Any, cloud: fo.Instance, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fo.Policy, "allocate", lambda *_, **__: pytest.fail("solved"))
    result = run("cloud.json", *arguments)
    assert result.exit_code == 2 and words in " ".join(result.stderr.split())
