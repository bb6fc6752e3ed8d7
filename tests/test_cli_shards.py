"""``fairopt shards``: what is typed for users in shards, and the ways to get it wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app

DEMANDS = np.array([[40.0, 8, 8], [8, 5, 1], [3, 3, 3]])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal in a folder with the same users as a .npy file and as Parquet."""
    monkeypatch.chdir(tmp_path)
    np.save("demands.npy", DEMANDS)
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(DEMANDS, columns=["bandwidth", "memory", "cpu"]).assign(user=["a", "b", "c"])
    table.to_parquet("users.parquet", row_group_size=2)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["shards", *arguments])

    return invoke


def test_a_file_without_names_takes_capacities_in_order(run: Any) -> None:
    told = json.loads(run("demands.npy", "-c", "200", "-c", "200", "-c", "200", "--json").stdout)
    right = fo.DRF().allocate(fo.Instance(DEMANDS, [200, 200, 200]))
    np.testing.assert_allclose(told["usage"], right.usage[0], rtol=1e-12)
    assert told["users"] == 3 and told["gap"] <= 1e-9


def test_parquet_is_read_by_the_names_of_the_capacities(run: Any) -> None:
    done = run("users.parquet", "-c", "cpu=200", "-c", "memory=200", "-c", "bandwidth=200", "-p", "2df", "--json")
    told = json.loads(done.stdout)
    right = fo.KDF(2).allocate(fo.Instance(DEMANDS[:, ::-1], [200, 200, 200]))
    np.testing.assert_allclose(told["usage"], right.usage[0], rtol=1e-12)
    assert len(told["shards"]) == 2


def test_tasks_are_written_with_labels_and_the_answer_is_told(run: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    done = run("users.parquet", "-c", "bandwidth=200", "-c", "memory=200", "-c", "cpu=200", "--out", "tasks")
    assert done.exit_code == 0
    assert "bandwidth: 200 of 200 in use (100.0%)" in done.stdout and "written: tasks" in done.stdout
    written = pandas.concat(map(pandas.read_parquet, sorted((tmp_path / "tasks").glob("*.parquet"))))
    right = fo.DRF().allocate(fo.Instance(DEMANDS, [200, 200, 200])).tasks
    assert written["user"].tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(written["tasks"], right, rtol=1e-12)


WRONG = {
    "no number": (["demands.npy", "-c", "many"], "give cpu=64 or 64"),
    "some names": (["demands.npy", "-c", "a=1", "-c", "2", "-c", "3"], "name all resources, each once"),
    "a name twice": (["users.parquet", "-c", "cpu=1", "-c", "cpu=2"], "name all resources, each once"),
    "no such column": (["users.parquet", "-c", "cpus=1"], "did you mean 'cpu'"),
    "a column without capacity": (
        ["users.parquet", "-c", "cpu=1", "-c", "memory=1"],
        "users.parquet' has a column 'bandwidth'",
    ),
    "no capacities": (["users.parquet"], "capacities are missing"),
    "no names for Parquet": (["users.parquet", "-c", "1"], "capacities have no names"),
    "too few": (["demands.npy", "-c", "1"], "shard 'demands.npy"),
    "no capacity": (["demands.npy", "-c", "1", "-c", "0", "-c", "1"], "'resource2' is 0"),
    "no file": (["nowhere", "-c", "1"], "nowhere"),
    "no memory": (["demands.npy", "-c", "1", "-c", "1", "-c", "1", "--workers", "1", "--memory", "much"], "as 3GB"),
    "two clusters": (["demands.npy", "-c", "1", "--workers", "1", "--scheduler", "tcp://here:1"], "both given"),
    "not in shards": (
        ["demands.npy", "-c", "1", "-c", "1", "-c", "1", "-p", "most-tasks"],
        "cannot be solved in shards",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_in_one_line(run: Any, case: str) -> None:
    arguments, words = WRONG[case]
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_of_both_tables_has_the_users_and_the_capacities(run: Any, kind: str) -> None:
    weights, limits = [1, 2, 1], [None, 3, None]
    two = fo.Instance(
        DEMANDS,
        [[150] * 3, [25] * 3],
        counts=[1, 2],
        weights=weights,
        task_limits=limits,
        resources=["bandwidth", "memory", "cpu"],
        units={"memory": "GiB"},
    )
    fo.datasets.write(two, "both", kind)
    told = json.loads(run("both", "--json").stdout)
    assert told["users"] == 3 and told["resources"] == ["bandwidth", "memory [GiB]", "cpu"]
    np.testing.assert_allclose(told["usage"], fo.DRF().allocate(two.pooled()).usage[0], rtol=1e-12)
    more = json.loads(run("both", "-c", "cpu=9", "-c", "memory [GiB]=9", "-c", "bandwidth=9", "--json").stdout)
    assert more["users"] == 3 and more["capacities"] == [9, 9, 9]


def test_a_folder_of_both_tables_and_a_third_is_not_read_in_part(run: Any, tmp_path: Path) -> None:
    by_server = fo.Instance([[[1.0], [2.0]]], [[1], [1]])
    fo.datasets.write(by_server, "both", "csv")
    done = run("both")
    assert done.exit_code == 2 and "both has users.csv, servers.csv and demands.csv: demands differ" in done.stderr
