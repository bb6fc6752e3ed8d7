"""Readers of other distributions: how they are found and asked, and that one that breaks stops no other."""

import logging
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_docs import DOCS, blocks

import fairopt as fo
from fairopt.errors import InvalidBlock, InvalidInstance, MissingExtra
from fairopt.io import Arguments, Option, Reader
from fairopt.io import readers as table
from fairopt.runtime import extensions

ONE = {"demands": [[1]], "capacities": [4]}


class Point:
    """An entry point as `extensions.points` gives it."""

    def __init__(self, found: Any, value: str = "package:NAME") -> None:
        self.found, self.value = found, value

    def load(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes the given objects what is found in the group of readers, and nothing else."""

    def install(**found: Any) -> None:
        points = {name: one if isinstance(one, Point) else Point(one) for name, one in found.items()}
        monkeypatch.setattr(extensions, "points", lambda group: points if group == extensions.READERS else {})
        monkeypatch.setattr(extensions, "_BROKEN", {})
        monkeypatch.setattr(extensions, "_TOLD", set())
        table.readers.cache_clear()

    install()
    yield install
    table.readers.cache_clear()


def test_the_reader_of_the_page_is_found_where_it_is_installed(tmp_path: Path) -> None:
    files = {block.file: block.text for block in blocks((DOCS / "readers.md").read_text(encoding="utf-8"))}
    for name in ("cluster.toml", "fairopt_toml.py"):
        (tmp_path / name).write_text(files[name])
    assert len(files["fairopt_toml.py"].split("\n\n\n", 1)[1].splitlines()) <= 30
    project = tomllib.loads(files["pyproject.toml"])["project"]
    info = tmp_path / "fairopt_toml-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["fairopt.readers"]
    lines = [f"{name} = {place}" for name, place in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[fairopt.readers]", *lines]) + "\n")
    here = os.pathsep.join([str(tmp_path), str(Path(fo.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "fairopt", "solve", "cluster.toml", "-p", "drf", "--only", "web"],
        **dict(cwd=tmp_path, env={**os.environ, "PYTHONPATH": here}, capture_output=True, text=True, check=False),
    )
    assert done.returncode == 0, done.stderr
    assert "web" in done.stdout and "note: 1 user was left out (batch)" in done.stderr


def test_faults_of_a_reader_are_found_when_it_is_made() -> None:
    with pytest.raises(InvalidBlock, match=r"'lists': options is Option.*; give a tuple of Option"):
        Reader("lists", "module:read", Option("scale"))  # type: ignore[arg-type]
    with pytest.raises(InvalidBlock, match=r"'lists': files is \('names.txt',\); give the names of each file"):
        Reader("lists", "module:read", files=("names.txt",))  # type: ignore[arg-type]


def test_without_clusters_options_of_other_readers_may_have_names_of_theirs(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from fairopt.io import Arguments, Option, Reader\n"
        "def read(place, users=None):\n"
        "    return Arguments({'demands': [[1]] * len(users), 'capacities': [4], 'users': users}, (str(place),))\n"
        "R = Reader('own', read, (Option('users', list, 'X', 'Users.'),), path=lambda p, k: p.suffix == '.own')\n"
    )
    (tmp_path / "a.own").write_text("")
    program = (
        "from fairopt.runtime import extensions; import own, sys\n"
        "class Point: name, value, load = 'own', 'own:R', lambda self: own.R\n"
        "extensions.points = lambda group: {'own': Point()} if group == extensions.READERS else {}\n"
        "from fairopt.cli import main; main()"
    )
    words = ["solve", "a.own", "--users", "web,batch"]
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "web" in done.stdout and "batch" in done.stdout, done.stderr
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--tasks", "mean"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stderr.startswith("MissingExtra: --tasks needs fairopt-clusters")


def test_folders_are_known_by_files_and_options_go_to_the_reader_that_takes_them(
    installed: Any, tmp_path: Path
) -> None:
    def read(names: Path, more: Path | None, scale: float = 1) -> Arguments:
        return Arguments(ONE | {"users": [f"{names.name} {more} {scale}"]}, (str(names),))

    lists = Reader("lists", read, (Option("scale", float),), files=(("names.txt", "names"),), further=(("more.txt",),))
    installed(lists=lists)
    (tmp_path / "names").write_text("")
    assert fo.read(tmp_path).users == ("names None 1",)
    assert fo.read(tmp_path, scale=2, full_demand=True).users == ("names None 2",)
    with pytest.raises(InvalidInstance, match=r"'labels' \(--teams\) is an option for folders of CSV tables and Par"):
        fo.read(tmp_path, labels=["org"])
    with pytest.raises(InvalidInstance, match="'scales' is no option of a reader; did you mean 'scale'"):
        fo.read(tmp_path, scales=2)
    (tmp_path / "names.txt").write_text("")
    with pytest.raises(InvalidInstance, match=r"has both names.txt and names; keep one"):
        fo.read(tmp_path)
    fo.datasets.write(fo.datasets.demo(), tmp_path / "both")
    (tmp_path / "both" / "names.txt").write_text("")
    with pytest.raises(InvalidInstance, match=r"names.txt \(of lists\), so it could be either"):
        fo.read(tmp_path / "both")


def test_documents_and_paths_are_known_by_what_functions_say(installed: Any, tmp_path: Path) -> None:
    def of_documents(found: Any, name: str) -> Arguments:
        return Arguments(ONE | {"users": [" and ".join(data["x"] for data, _ in found)]}, (name,))

    def of_path(place: Path) -> Arguments:
        return Arguments(ONE | {"users": [place.name]}, (str(place),))

    installed(
        all=(
            Reader("x", of_documents, documents=lambda found, options: all("x" in data for data, _ in found)),
            Reader("y", of_path, path=lambda place, kinds: place.suffix == ".y" and not kinds),
        )
    )
    (tmp_path / "a.yaml").write_text("x: one\n---\nx: two\n")
    (tmp_path / "b.json").write_text('{"demands": [[1]], "capacities": [1], "users": ["own"]}')
    (tmp_path / "c.y").write_text("")
    (tmp_path / "d.y").mkdir()
    users = [fo.read(tmp_path / name).users for name in ("a.yaml", "b.json", "c.y", "d.y")]
    assert users == [("one and two",), ("own",), ("c.y",), ("d.y",)]


def test_what_breaks_is_said_where_nothing_else_fits_and_stops_nothing(
    installed: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*arguments: Any) -> bool:
        raise ImportError("no module")

    broken = Reader("broken", "nowhere:read", path=fails, documents=fails)
    installed(missing=ImportError("no pydantic"), odd=Point(3, "other:NAME"), broken=broken)
    (tmp_path / "a.json").write_text('{"users": ["a"], "demands": [[1]], "capacities": [1]}')
    fo.datasets.write(fo.datasets.demo(), tmp_path / "tables")
    assert fo.read(tmp_path / "a.json").users == ("a",) and fo.read(tmp_path / "tables") == fo.datasets.demo()
    (tmp_path / "a.odd").write_text("")
    with (
        caplog.at_level(logging.WARNING, "fairopt"),
        pytest.raises(
            InvalidInstance, match=r"not a kind of file.*missing of package:NAME breaks: ImportError\('no pydantic'\)"
        ),
    ):
        fo.read(tmp_path / "a.odd")
    fo.read(tmp_path / "a.json")
    with pytest.raises(InvalidInstance, match="odd of other:NAME has 3, which is no Reader"):
        fo.read(tmp_path / "a.odd")
    assert [one.getMessage() for one in caplog.records] == [
        "fairopt.readers missing of package:NAME breaks: ImportError('no pydantic')",
        "fairopt.readers odd of other:NAME has 3, which is no Reader",
        "the reader 'broken' breaks: ImportError('no module')",
    ]


@pytest.mark.parametrize(("name", "kind"), [("a-b", str), ("a", complex)])
def test_options_that_no_command_could_take_are_refused_at_once(name: str, kind: type) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="is no option; give a name, and str, int"):
        Option(name, kind)


SEEN = {
    "Kubernetes": {"nodes.json": "{}", "pods.json": "{}"},
    "Slurm": {"nodes.json": "{}", "jobs.json": "{}"},
    "YARN or YuniKorn": {"users.csv": "user,cpu\na,1\n", "servers.csv": "server,cpu\ns,1\n", "queues.yaml": "a: 1"},
    "ClusterData 2019": {"instance_events.csv": "", "machine_events.csv.gz": ""},
    "the openb trace": {"openb_node_list_all_node.csv": ""},
}
ALONE = {
    "Kubernetes": ("a.yaml", "kind: Node\n"),
    "Slurm": ("a.json", '{"jobs": [], "nodes": []}'),
    "YARN or YuniKorn": ("fair-scheduler.xml", "<allocations/>"),
    "KAI": ("a.zip", ""),
}


@pytest.mark.parametrize("kind", SEEN)
def test_folders_of_clusters_name_the_distribution_that_is_missing(installed: Any, tmp_path: Path, kind: str) -> None:
    for name, text in SEEN[kind].items():
        (tmp_path / name).write_text(text)
    words = rf"looks like one of {kind}, which needs fairopt-clusters, .*: pip install \. \./clusters$"
    with pytest.raises(MissingExtra, match=words):
        fo.read(tmp_path)


@pytest.mark.parametrize("kind", ALONE)
def test_files_of_clusters_name_the_distribution_that_is_missing(installed: Any, tmp_path: Path, kind: str) -> None:
    name, text = ALONE[kind]
    (tmp_path / name).write_text(text)
    with pytest.raises(MissingExtra, match=rf"{name} looks like one of {kind}, which needs fairopt-clusters"):
        fo.read(tmp_path / name)


def test_the_missing_distribution_is_named_whatever_else_breaks(installed: Any, tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text('{"kind": "NodeList", "items": []}')
    installed(strangers=ImportError("no module"))
    with pytest.raises(MissingExtra, match="needs fairopt-clusters"):
        fo.read(tmp_path / "nodes.json")


def test_tables_beside_a_file_whose_reader_breaks_are_refused(installed: Any, tmp_path: Path) -> None:
    installed(clusters=Point(ImportError("no pydantic"), "fairopt_clusters.read.kinds:KINDS"))
    for name, text in SEEN["YARN or YuniKorn"].items():
        (tmp_path / name).write_text(text)
    with pytest.raises(
        InvalidInstance,
        match=r"one of YARN or YuniKorn, which needs fairopt-clusters, whose readers are not .*no pydantic",
    ):
        fo.read(tmp_path)


def test_tables_beside_other_files_are_tables(installed: Any, tmp_path: Path) -> None:
    fo.datasets.write(fo.datasets.demo(), tmp_path)
    for name in ("README.md", "quotas.yaml", "answer.json"):
        (tmp_path / name).write_text("{}")
    assert fo.read(tmp_path) == fo.datasets.demo()
