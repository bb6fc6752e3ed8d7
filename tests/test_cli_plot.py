"""``fairopt plot``: pictures from the command line, and every way to ask for the wrong one."""

import sys
from pathlib import Path
from typing import Any

import forked
import pytest
from typer.testing import CliRunner, Result

import fairopt as fo
from fairopt import plots
from fairopt.cli import app

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A terminal of 80 columns in a folder with a small cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    two = fo.Instance(
        [[40, 8, 8], [8, 5, 1]],
        [200, 200, 200],
        users=["batch", "web"],
        resources=["bandwidth", "memory", "cpu"],
        held=[1, 9],
    )
    fo.datasets.write(two, tmp_path / "cluster")
    fo.datasets.write(two, tmp_path / "cluster.json")
    fo.datasets.write(fo.Instance([[1, 0], [1, 1]], [2, 2]), tmp_path / "sparse.json")
    three = fo.Instance([[2, 1], [1, 2], [1, 1]], [12, 12], users=["a", "b b", "用户"])
    fo.datasets.write(three, tmp_path / "three.json")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["plot", *arguments])

    return invoke


def solved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is solved from now on."""
    calls: list[str] = []
    allocate = fo.Policy.allocate

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(self.name)
        return allocate(self, *arguments, **options)

    monkeypatch.setattr(fo.Policy, "allocate", counted)
    return calls


def one_line(result: Result) -> str:
    assert result.stdout == "" and "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_without_out_the_picture_is_named_after_the_input_and_the_kind(run: Any) -> None:
    result = run("cluster")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "written: cluster-shares.png\n"
    assert Path("cluster-shares.png").read_bytes()[:4] == b"\x89PNG"
    assert run("cluster.json", "--kind", "dominant").stdout == "written: cluster-dominant.png\n"


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_ending_decides_the_format(run: Any, name: str, start: bytes) -> None:
    assert run("cluster", "-p", "drf", "-p", "2df", "--out", name).exit_code == 0
    assert Path(name).read_bytes().startswith(start)


@pytest.mark.parametrize("kind", plots.KINDS)
def test_every_kind_is_drawn_and_explained_in_the_help(run: Any, kind: str) -> None:
    more = ["--axis", "bandwidth", "--axis", "memory"] if kind == "demands" else []
    assert run("cluster", "-p", "drf", "--kind", kind, *more).exit_code == 0
    assert f"\n   {kind} " in run("--help").stdout


def test_width_height_and_dpi_are_those_of_the_picture(run: Any) -> None:
    from matplotlib.image import imread

    assert run("cluster", "-p", "drf", "-p", "2df", "--width", "6", "--height", "3", "--dpi", "50").exit_code == 0
    assert imread("cluster-shares.png").shape[:2] == (150, 300)
    assert run("cluster", "--width", "6", "--dpi", "50").exit_code == 0
    assert imread("cluster-shares.png").shape[1] == 300


def test_two_users_are_chosen_by_axis(run: Any) -> None:
    result = run("three.json", "--kind", "region", "--axis", "b b", "--axis", "a", "--out", "r.svg")
    assert result.exit_code == 0
    assert "tasks of b b" in Path("r.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "a.gif"], "cannot write a.gif; give a name that ends in .png or .pdf or .svg"),
        (["--out", "nowhere/a.png"], "create the folder nowhere first"),
        (["--kind", "pries"], "did you mean 'prices'"),
        (["--kind", "region"], "choose two of the 3, such as --axis a --axis 'b b', from 'a', 'b b'"),
        (["--kind", "region", "--axis", "a"], "two axes; give --axis twice"),
        (["--kind", "region", "--axis", "a", "--axis", "x"], "there is no 'x' among the users"),
        (["--kind", "shares", "--axis", "a"], "use --axis with region or demands"),
        (["--kind", "held"], "it is not known which tasks run now"),
        (["--dpi", "3"], "give 10 to 2400 dots per inch"),
        (["--width", "0"], "--width 0: give inches, from 1 to 133"),
        (["--height", "nan"], "--height nan: give inches"),
        (["--height", "1e9"], "give inches, from 1 to 133 (at 150 dots per inch)"),
        (["-p", "dfr"], "did you mean"),
        (["--solver", "NONE"], "NONE"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_solved(
    run: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    calls = solved(monkeypatch)
    result = run("three.json", *arguments)
    assert result.exit_code == 2
    assert message in one_line(result)
    assert calls == [] and not list(Path().glob("*.png"))


def test_policies_without_an_answer_are_named_and_the_others_drawn(run: Any) -> None:
    result = run("sparse.json", "-p", "2df", "-p", "drf")
    assert result.exit_code == 1
    assert result.stdout == "written: sparse-shares.png\n"
    assert result.stderr.startswith("2-DF: OutOfDomain: ")
    Path("sparse-shares.png").unlink()
    nothing = run("sparse.json", "-p", "2df")
    assert nothing.exit_code == 1 and nothing.stdout == "" and not Path("sparse-shares.png").exists()


def test_no_prices_is_an_error(run: Any) -> None:
    result = run("cluster", "-p", "ps-dsf", "--kind", "prices")
    assert result.exit_code == 2
    assert "no prices to draw: PS-DSF has none" in one_line(result)


def test_a_picture_that_is_too_small_and_letters_that_no_font_has_are_notes(run: Any) -> None:
    result = run("three.json", "--width", "1", "--height", "1")
    assert result.exit_code == 0
    assert "note: the picture is too small for its text" in result.stderr
    large = run("three.json", "--width", "5", "--height", "3", "--kind", "dominant")
    notes = [line for line in large.stderr.splitlines() if line.startswith("note: ")]
    assert all(note.startswith("note: Glyph ") for note in notes)
    assert "Warning" not in result.stderr + large.stderr


def test_a_missing_file_is_one_line(run: Any) -> None:
    result = run("nothing")
    assert result.exit_code == 2 and "nothing" in one_line(result)


def test_without_matplotlib_the_pip_line_is_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = solved(monkeypatch)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("cluster")
    assert result.exit_code == 2 and "pip install 'fairopt[plots]'" in one_line(result)
    assert calls == []


STUCK = """
import os, signal, threading, time
import fairopt as fo

class Stuck:
    name = "stuck"

    def allocate(self, instance):
        signal.signal(signal.SIGINT, lambda number, frame: None)  # as if the main thread never came back to Python
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        time.sleep(60)
        return fo.DRF().allocate(instance)

STUCK = Stuck()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize(("kind", "first", "written"), [("shares", "drf", True), ("prices", "ps-dsf", False)])
def test_ctrl_c_in_compiled_code_draws_the_policies_that_are_done(
    run: Any, kind: str, first: str, written: bool
) -> None:
    Path("stuck.py").write_text(STUCK)
    command = ["-m", "fairopt", "plot", "cluster", "-p", first, "-p", "stuck.py:STUCK"]
    done = forked.run(*command, "--kind", kind, "--out", "a.png")
    assert done.returncode == 130, done.stderr
    assert done.stdout == ("written: a.png\n" if written else "")
    assert Path("a.png").exists() is written
    lines = done.stderr.splitlines()
    assert lines[-1] == "stopped by Ctrl-C after 1 of 2 policies"
    assert len(lines) == (1 if written else 2) and "Traceback" not in done.stderr
