"""The README tells the truth: its Python runs as it stands, and its commands are commands.

* Every ```python block runs, in order, in one namespace, in an empty folder.
* Every line ``fairopt ...`` of a ```console or ```bash block (after ``$`` in a console) is understood by the program.
* Where ``<!-- run -->`` stands before such a block, its commands also run there, and must succeed.
* A ```python block after ``<!-- file: NAME -->`` is also written to that file, so that later commands can use it.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fairopt.cli import app
from fairopt.properties.literature.claims import claims, markdown

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!--\s*(run|file:\s*(?P<name>\S+))\s*-->\s*$")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    run: bool
    file: str | None


def blocks(markdown: str) -> list[Block]:
    found = []
    for match in BLOCK.finditer(markdown):
        mark = MARK.search(markdown[: match.start()])
        found.append(Block(
            match[1], match[2], markdown.count("\n", 0, match.start()) + 1,
            run=bool(mark and mark[1] == "run"), file=mark["name"] if mark else None,
        ))  # fmt: skip
    return found


def commands(block: Block) -> list[list[str]]:
    if block.language not in ("console", "bash", "sh"):
        return []
    text = block.text.replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    if block.language == "console":
        lines = [line.removeprefix("$").strip() for line in lines if line.startswith("$")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("fairopt ")]


BLOCKS = blocks(README.read_text(encoding="utf-8"))
COMMANDS = [command for block in BLOCKS for command in commands(block)]


def test_the_readme_shows_python() -> None:
    assert any(block.language == "python" for block in BLOCKS)


def test_the_readme_runs_from_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in BLOCKS:
        if block.language == "python":
            if block.file:
                Path(block.file).write_text(block.text, encoding="utf-8")
            lines_above = "\n" * block.line  # so that a traceback names the README's line
            exec(compile(lines_above + block.text, str(README), "exec"), namespace)
        elif block.run:
            for command in commands(block):
                result = CliRunner().invoke(app, command)
                assert result.exit_code == 0, f"line {block.line}: fairopt {shlex.join(command)}\n{result.output}"


@pytest.mark.parametrize("command", COMMANDS, ids=shlex.join)
def test_every_command_in_the_readme_is_understood(command: list[str]) -> None:
    group = typer.main.get_command(app)
    name, *arguments = command
    if name.startswith("-"):
        assert CliRunner().invoke(app, command).exit_code == 0
        return
    assert name in group.commands  # type: ignore[attr-defined]
    if not {"-h", "--help"} & set(arguments):
        group.commands[name].make_context(name, list(arguments))  # type: ignore[attr-defined]


def test_blocks_marks_and_commands_are_found() -> None:
    text = (
        "# Title\n```python\nx = 1\n```\n<!-- file: notions.py -->\n```python\ny = 2\n```\n"
        "<!-- run -->\n```console\n$ fairopt solve here \\\n    -p 'a b'  # why\nDRF: 3 tasks\n$ ls\n```\n"
        "```bash\nfairopt demo\npip install fairopt\n```\n"
    )
    found = blocks(text)
    assert [(b.language, b.line, b.run, b.file) for b in found] == [
        ("python", 2, False, None), ("python", 6, False, "notions.py"), ("console", 10, True, None),
        ("bash", 16, False, None),
    ]  # fmt: skip
    assert [commands(b) for b in found] == [[], [], [["solve", "here", "-p", "a b"]], [["demo"]]]


def test_the_readme_shows_the_claims_as_they_stand() -> None:
    text = README.read_text(encoding="utf-8")
    assert markdown() in text
    total, refuted = len(claims()), sum(c.verdict == "refuted" for c in claims())
    assert f"Of {total} claims {refuted} are refuted" in " ".join(text.split())


def test_the_readme_names_no_path_of_a_machine() -> None:
    assert not re.search(r"(^|[^a-zA-Z.])/(work|root|tmp|home)/", README.read_text(encoding="utf-8"))
