"""``fairopt buy``: the table, the advice, JSON, the picture, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app


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


def test_servers_together_ranges_by_solving_again_and_reasons_are_told(run: Any) -> None:
    demands, capacities = [[1, 4, 0], [3, 1, 0], [1, 1, 1]], [[9, 18, 0], [20, 10, 3]]
    names: dict[str, Any] = {"resources": ["cpu", "memory", "gpu"], "servers": ["big", "fast"]}
    several = fo.Instance(demands, capacities, counts=[5, 2], weights=[1, 1, 9], **names)
    fo.datasets.write(several, "several.json")
    result = run("several.json", "-p", "drf")
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "added to a row of identical servers together" in words and "up to about" in words
    assert "No rate for gpu on big: the server has none of it" in words
    ends = [line.split()[-2] for line in result.stdout.splitlines() if line[:3] in ("cpu", "mem", "gpu")]
    assert len(ends) == 4 and ends[-1] == "-" and all(end[0] == "~" or end == "end" for end in ends[:-1])
    found = json.loads(run("several.json", "--json").stdout)["purchases"][0]
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
