"""What other distributions add by entry points: commands, policies, schedulers, expositions and schemas."""

import json
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest

import fairopt as fo
from fairopt.errors import MissingExtra
from fairopt.runtime import extensions

FORMAT = "fairopt.greeting/1"
ENTRY_POINTS = """
[fairopt.readers]
lists = others.broken:READER

[fairopt.jobs]
lists = others.broken:JOBS

[fairopt.commands]
hello = others.hello
bye = others.functions:bye
broken = others.broken
empty = others.functions
odd = others.functions:odd
exits = others.exits
solve = others.broken

[fairopt.policies]
half = others.functions:half

[fairopt.schedulers]
first-come = others.functions:FirstCome
none = others.functions:odd

[fairopt.expositions]
txt = others.functions:exposition
bad = others.broken

[fairopt.schemas]
others = others.schemas
none = others.functions:odd
"""
HELLO = """
import typer
from fairopt.cli import Source, AsJson, command, reading, say, show_json


@command(help="Greet the users of INPUT.")
@reading
def hello(source: Source, loud: bool = False, as_json: AsJson = False) -> None:
    users = source.read().users
    if as_json:
        show_json("fairopt.greeting/1", {"users": list(users)})
    else:
        say(f"hello, {' and '.join(users)}")
    if loud:
        raise typer.Exit(7)
"""
FUNCTIONS = '''
import fairopt as fo
from fairopt.properties import AuditReport, Finding


def bye(name: str = "world") -> None:
    """Say goodbye."""
    if name == "error":
        raise fo.errors.InvalidBlock("no such name")
    print(f"bye, {name}")


def odd(of: set[int] | dict[str, complex]) -> None:
    """Take what Typer does not."""


def half(of: float = 0.5) -> fo.Policy:
    """Leximin of half of everything."""
    return fo.Policy(fo.Leximin(), [fo.Reserve("cpu", of)])


class FirstCome:
    """A scheduler with an audit of its own."""

    name = "first come"

    def allocate(self, instance):
        raise fo.errors.OutOfDomain("of queues only")

    def audit(self, properties=None, *, max_examples=1, seed=0, found=None, time_limit=None):
        finding = Finding(str(properties[0]), False, max_examples, 0, None, "queues", 0.0)
        return AuditReport(self.name, self, (finding,))


def exposition(answer, input_time=None):
    return f"tasks {answer.tasks.sum():g}"
'''


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A distribution on a path, as pip would install it."""
    folder = tmp_path_factory.mktemp("installed")
    package, info = folder / "others", folder / "others-1.0.dist-info"
    (package / "schemas").mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    files = {"__init__.py": "", "hello.py": HELLO, "functions.py": FUNCTIONS, "broken.py": "import no_such_module\n"}
    files["exits.py"] = "raise SystemExit('no')\n"
    for name, text in files.items():
        (package / name).write_text(text)
    (package / "schemas" / "greeting-1.json").write_text('{"title": "fairopt.greeting/1"}')
    pool = fo.Instance([[1], [1]], [8], users=["web", "batch"], resources=["cpu"])
    fo.datasets.write(pool, folder / "pool.json")
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line, with a folder of what is installed."""
    return with_installed(folder, "from fairopt.cli import main; main()", *words)


def with_installed(folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program, forked from a process that has imported all commands, and with them all readers but the folder's."""
    return forked.run("-c", f"import sys; sys.path.append({str(folder)!r}); {program}", *words, folder=folder)


def started(folder: Path, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Commands, one after the other in a Python that is started for them."""
    program = (
        f"import contextlib, sys\nsys.path.append({str(folder)!r})\nfrom fairopt.cli import main\n"
        f"for words in {commands!r}:\n    sys.argv[1:] = words\n    with contextlib.suppress(SystemExit): main()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=folder)


def test_help_lists_commands_of_others_and_names_those_that_break(others: Path) -> None:
    shown = " ".join(run(others, "--help").stdout.replace("│", " ").split())
    assert "hello Greet the users of INPUT." in shown and "bye Say goodbye." in shown
    assert "broken Broken: cannot be loaded from others.broken: ModuleNotFoundError: No module named" in shown
    assert "empty Broken: cannot be loaded from others.functions: TypeError" in shown
    assert "odd Broken: cannot be loaded from others.functions:odd: AssertionError" in shown
    assert "exits Broken: cannot be loaded from others.exits: SystemExit: no" in shown
    assert "solve Compute the optimal allocation" in shown  # no other package replaces it


def test_commands_of_others_take_input_print_json_and_exit_as_ours(others: Path) -> None:
    assert run(others, "hello", "pool.json").stdout == "hello, web and batch\n"
    loud = run(others, "hello", "pool.json", "--loud", "--json")
    assert loud.returncode == 7 and json.loads(loud.stdout) == {
        "format": "fairopt.greeting/1",
        "users": ["web", "batch"],
    }
    missing = run(others, "hello", "none.json", "--json")
    assert missing.returncode == 2 and json.loads(missing.stdout)["error"] == "InvalidInstance"
    assert run(others, "bye", "--name", "you").stdout == "bye, you\n"
    wrong = run(others, "bye", "--name", "error")
    assert wrong.returncode == 2 and wrong.stderr == "InvalidBlock: no such name\n"


def test_a_command_that_breaks_says_what_broke_and_stops_no_other(others: Path) -> None:
    broken = run(others, "broken", "pool.json", "--any", "option", "--json")
    told = json.loads(broken.stdout)
    assert broken.returncode == told["exit_code"] == 2 and told["error"] == "InvalidBlock"
    assert told["message"].startswith("'fairopt broken' cannot be loaded from others.broken: ModuleNotFoundError")
    assert run(others, "solve", "pool.json", "-p", "drf").returncode == 0
    for words in (["audit", "--scheduler", "none"], ["solve", "pool.json", "--metrics", "out.bad"]):
        done = run(others, *words)
        assert done.returncode == 2 and done.stderr.startswith("InvalidBlock") and "cannot be loaded" in done.stderr


def test_policies_schedulers_expositions_and_schemas_of_others_are_found(others: Path) -> None:
    answer = json.loads(run(others, "solve", "pool.json", "-p", "half:of=0.25", "--json").stdout)
    assert answer["tasks"] == pytest.approx({"web": 3, "batch": 3})
    listed = " ".join(run(others, "policies").stdout.split())
    assert "Leximin of half of everything." in listed and "parameters: of=0.5" in listed
    audit = run(others, "audit", "--scheduler", "first-come", "--property", "calm", "--json")
    assert audit.returncode == 0 and json.loads(audit.stdout)["findings"][0]["property"] == "calm"
    written = run(others, "solve", "pool.json", "-p", "drf", "--metrics", "out.txt")
    assert written.returncode == 0 and (others / "out.txt").read_text() == "tasks 8"
    wrong = run(others, "solve", "pool.json", "--metrics", "out.csv")
    assert wrong.returncode == 2 and "give a name that ends in" in wrong.stderr and ".txt" in wrong.stderr
    program = f"import fairopt as fo; print(fo.report.schema({FORMAT!r}))"
    assert with_installed(others, program).stdout == "{'title': 'fairopt.greeting/1'}\n"
    unknown = with_installed(others, program.replace("greeting", "none"))
    assert unknown.returncode and "InvalidBlock: no format" in unknown.stderr


def test_a_reader_that_breaks_is_named_once_and_only_where_a_reader_is_looked_for(others: Path) -> None:
    commands = ["solve", "pool.json", "-p", "drf"], ["policies"], ["hello", "pool.json"], ["bye"], ["library"]
    quiet = started(others, *commands)
    assert quiet.stderr == "" and "hello, web and batch\n" in quiet.stdout
    fo.datasets.write(fo.datasets.demo(), others / "tables")
    (others / "tables" / "README.md").write_text("")
    (others / "jobs.csv").write_text("user,duration,cpu\nweb,1,1\n")
    line = "fairopt.readers lists of others.broken:READER breaks: ModuleNotFoundError("
    for words in (["solve", "tables", "-p", "drf"], ["simulate", "jobs.csv", "--servers", "tables", "-p", "drf"]):
        said = started(others, words).stderr.splitlines()
        assert [one[: len(line)] for one in said if "others.broken" in one] == [line], words


@pytest.mark.parametrize("name", extensions.OF_CLUSTERS[extensions.COMMANDS])
def test_a_command_of_clusters_says_which_distribution_it_needs(name: str) -> None:
    error = extensions.missing(f"'fairopt {name}'")
    assert isinstance(error, MissingExtra)
    assert str(error) == (f"'fairopt {name}' needs fairopt-clusters, which is not installed: pip install . ./clusters")


def test_what_fairopt_says_of_commands_of_clusters_names_the_distribution() -> None:
    commands = "|".join(extensions.OF_CLUSTERS[extensions.COMMANDS])
    alone = re.compile(rf"fairopt ({commands})\b(?!'? of fairopt-clusters)|openb/")
    files = Path(fo.__file__).parent.rglob("*.py")
    assert {file.name: found for file in files if (found := alone.findall(file.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize("place", extensions.MOVED)
def test_names_that_moved_say_where_they_are(place: str) -> None:
    *rooms, name = place.removeprefix("fairopt.").split(".")
    if rooms == ["Allocation"]:
        room: object = fo.DRF().allocate(fo.Instance([[1]], [4]))
    else:
        room = getattr(fo, rooms[0]) if rooms else fo
    with pytest.raises(AttributeError, match=rf"it is now {extensions.MOVED[place]}"):
        found = getattr(room, name)
        found("csv")
    assert rooms == ["Allocation"] or not hasattr(room, name)


@pytest.mark.parametrize("place", [place for place in extensions.MOVED if place != "fairopt.Allocation.quotas"])
@pytest.mark.parametrize("here", [True, False])
def test_imports_of_names_that_moved_say_where_they_are(
    place: str, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extensions, "installed", lambda: here)
    room, _, name = place.rpartition(".")
    install = extensions.MOVED[place].startswith("fairopt_clusters") and not here
    end = ", of fairopt-clusters, which is not installed: pip install . ./clusters" if install else ""
    message = f"cannot import name '{name}' from '{room}': it is now {extensions.MOVED[place]}{end}"
    with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
        exec(f"from {room} import {name}")
