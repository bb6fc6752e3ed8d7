"""``fairopt convert``, and the options of the input that all commands share."""

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a small cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fo.datasets.write(fo.datasets.demo(), tmp_path / "cluster")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    return invoke


def test_what_was_read_and_what_was_written_is_told(run: Any) -> None:
    result = run("convert", "cluster", "out.json")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"read: {fo.datasets.demo()!r}", "written: out.json"]
    assert result.stderr == ""
    assert fo.read("out.json") == fo.datasets.demo()


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["out"], ["out/users.csv", "out/servers.csv"]),
        (["out", "--to", "parquet"], ["out/users.parquet", "out/servers.parquet"]),
        (["out.yaml"], ["out.yaml"]),
        (["out.yml", "--to", "yaml"], ["out.yml"]),
    ],
)
def test_the_name_or_the_option_says_what_is_written(run: Any, arguments: list[str], files: list[str]) -> None:
    result = run("convert", "cluster", *arguments)
    assert result.stdout.splitlines()[-1] == f"written: {', '.join(files)}"
    assert all(Path(file).is_file() for file in files)
    assert fo.read(arguments[0]) == fo.datasets.demo()


def test_a_third_table_is_told_where_demands_differ_by_server(run: Any) -> None:
    fo.datasets.write(fo.Instance([[[1], [2]]], [[5], [5]]), "differs.json")
    assert "out/demands.csv" in run("convert", "differs.json", "out").stdout


def test_nothing_is_replaced_without_force(run: Any) -> None:
    before = Path("cluster/users.csv").read_text()
    fo.datasets.write(fo.Instance([[1]], [1]), "one.json")
    result = run("convert", "one.json", "cluster")
    assert result.exit_code == 2
    assert "cluster/users.csv and cluster/servers.csv would be replaced; give --force" in result.stderr
    assert Path("cluster/users.csv").read_text() == before
    assert run("convert", "one.json", "cluster", "--force").exit_code == 0
    assert fo.read("cluster").n_users == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("convert nowhere out.json", "InvalidInstance: nowhere does not exist"),
        ("convert cluster out --to xml", "InvalidInstance: kind is 'xml'; did you mean 'yaml'?"),
        ("convert cluster out --to json", "out is not a name for a json file; give one that ends in .json"),
        ("convert cluster out.csv", "out.csv would be one file"),
        ("convert cluster/users.csv out.json", "give the folder that it is in"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Any, command: str, words: str) -> None:
    result = run(*command.split())
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert not Path("out.json").exists() and not Path("out").exists()


def test_an_empty_name_is_no_folder(run: Any) -> None:
    for arguments in (["cluster", ""], ["", "out.json"]):
        result = run("convert", *arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith("InvalidInstance: the path is ''; give the name of a file or a folder")
    assert not Path("users.csv").exists() and not Path("out.json").exists()


@pytest.mark.parametrize("output", ["no/out.json", "cluster/users.csv/out", "cluster/users.csv/out.yaml"])
def test_where_nothing_can_be_written_is_said_in_one_line(run: Any, output: str) -> None:
    result = run("convert", "cluster", output)
    assert result.exit_code == 2
    assert "Error: [Errno 2" in result.stderr and "give a name in an existing folder" in result.stderr


def test_the_other_options_of_the_input_are_kept(run: Any) -> None:
    fo.datasets.write(fo.Instance([[1], [1]], [[5], [6]], weights=[1, 2]), "two.json")
    assert run("convert", "two.json", "pool.json", "--pooled", "--equal-weights").exit_code == 0
    pool = fo.read("pool.json")
    assert (pool.n_servers, pool.weights.tolist()) == (1, [1, 1])


def test_help_teaches_where_files_come_from(run: Any) -> None:
    result = run("convert", "--help")
    text = " ".join(result.stdout.split())
    for words in ("users.csv + servers.csv", "memory [GiB]", "--force"):
        assert words in text
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_missing_extra_is_told_before_anything_is_read(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("convert", "nowhere", "tables", "--to", "parquet")
    assert result.exit_code == 2
    assert "pip install 'fairopt[" in result.stderr
