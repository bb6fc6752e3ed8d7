"""The checker without the rest of fairopt: as a module, and as one file on other Pythons."""

import ast
import gc
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fairopt as fo
from fairopt.checker.__main__ import main, write
from fairopt.cli import app

CHECKER = Path(fo.checker.__file__).parent
PYTHONS = [f"python3.{minor}" for minor in range(9, 15)]


@pytest.fixture
def answers(tmp_path: Path) -> list[Path]:
    """Saved answers of several kinds, the last of which is not feasible."""
    cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], teams={"team": ["x", "y"]})
    policies = {"drf": fo.DRF(), "fds": fo.FDS(2), "norm": fo.PNormFairness(2, 0.5), "hdrf": fo.HDRF()}
    paths = [policy.allocate(cluster).save(tmp_path / f"{name}.json") for name, policy in policies.items()]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(paths[0].read_text().replace("12.5", "12.6"))
    return [*paths, wrong]


def test_it_imports_only_itself_and_the_standard_library() -> None:
    for path in CHECKER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {alias.name.partition(".")[0] for alias in node.names} <= sys.stdlib_module_names, path
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert str(node.module).partition(".")[0] in sys.stdlib_module_names, path


def test_as_a_module_it_says_what_fo_verify_says(answers: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for path in answers:
        found = fo.verify(path)
        assert main([str(path)]) == (0 if found.ok else 1)
        assert capsys.readouterr().out == f"{found}\n"


@pytest.mark.parametrize("python", PYTHONS)
def test_as_one_file_it_says_the_same_in_an_empty_environment(python: str, answers: list[Path]) -> None:
    found = shutil.which(python)
    if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
        pytest.skip(f"{python} is not on the PATH")
    folder = answers[0].parent
    write(folder / "checker.pyz")
    *proved, wrong = answers
    for paths, ok in ((proved, True), ([wrong], False)):
        # isolated, and without installed packages
        command = [found, "-I", "-S", folder / "checker.pyz", *paths]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        expected = [fo.verify(path) for path in paths]
        said = [f"{p}: {one}\n" if ok else f"{one}\n" for p, one in zip(paths, expected, strict=True)]
        assert (ran.stdout, ran.returncode) == ("".join(said), 0 if ok else 1), ran.stderr
        assert {one.ok for one in expected} == {ok}


def test_one_file_is_written_by_the_command_without_an_answer(tmp_path: Path, answers: list[Path]) -> None:
    made = CliRunner().invoke(app, ["verify", "--write-checker", str(tmp_path / "checker.pyz")])
    assert made.exit_code == 0 and "checker.pyz" in made.output
    ran = subprocess.run([sys.executable, tmp_path / "checker.pyz", *answers], capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stdout.count("proved: ") == len(answers) - 1


def test_the_command_asks_for_files_or_the_option() -> None:
    made = CliRunner().invoke(app, ["verify", "--json"])
    assert made.exit_code == 2 and "--write-checker" in made.output


def test_bad_limits_are_errors_of_use_and_a_missing_file_is_not_proved(
    answers: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([], [str(answers[0]), "--time-limit", "-1"]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 2
    assert main([str(tmp_path / "none.json"), str(answers[0])]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert "not proved: no file" in first and any("proved:" in line for line in others)


def test_the_collector_of_garbage_is_left_as_it_was(answers: list[Path], tmp_path: Path) -> None:
    assert gc.isenabled()
    for path in (*answers, tmp_path):
        fo.verify(path)
        assert gc.isenabled()
    gc.disable()
    try:
        fo.verify(answers[0])
        assert not gc.isenabled()
    finally:
        gc.enable()
