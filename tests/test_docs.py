"""README and documentation tell the truth: their Python runs as it stands, their commands and links are right.

Each page by itself, from its top, in one namespace, in an empty folder:

* Every ```python block runs. Every ```pycon block runs as a doctest: what it shows is what comes out.
* Every ``.. plot::`` of an ```{eval-rst} block runs in a namespace of its own, as Sphinx runs it.
* Every line ``fairopt ...`` of a ```console or ```bash block (after ``$`` in a console) is understood by the program.
* Where ``<!-- run -->`` stands before such a block, its commands also run there, and must succeed (``fairopt demo``
  once for all pages).
* A block after ``<!-- file: NAME -->`` is also written to that file, so that later blocks can use it.
* ``<!-- copy: samples/NAME -->`` puts that folder of the documentation there.
"""

import ast
import contextlib
import doctest
import re
import runpy
import shlex
import shutil
import textwrap
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from test_imports import LEVEL
from typer.testing import CliRunner

import fairopt as fo
import fairopt.testing
from fairopt.cli import app
from fairopt.properties.literature.claims import claims
from fairopt.properties.names import PROPERTIES
from fairopt.runtime.extensions import OF_CLUSTERS

ROOT = Path(__file__).parents[1]
README, DOCS = ROOT / "README.md", ROOT / "docs"
FRONT = DOCS / "index.md"
ALONE = find_spec("fairopt_clusters") is None
LEFT_OUT = ("_build", "clusters") if ALONE else ("_build",)  # pages of fairopt-clusters go with it
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in LEFT_OUT),
]
BLOCK = re.compile(r"^```(\w+|\{eval-rst\})[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!--\s*(run|file:\s*(?P<name>\S+))\s*-->\s*$")
COPIED = re.compile(r"<!--\s*copy: (\S+)\s*-->")
OUTPUT = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
LINK = re.compile(r"\]\(([^)\s]+)\)")


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
        found.append(
            Block(
                match[1],
                match[2],
                markdown.count("\n", 0, match.start()) + 1,
                run=bool(mark and mark[1] == "run"),
                file=mark["name"] if mark else None,
            )
        )
    return found


def commands(block: Block) -> list[list[str]]:
    if block.language not in ("console", "bash", "sh"):
        return []
    text = block.text.replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    if block.language == "console":
        lines = [line.removeprefix("$").strip() for line in lines if line.startswith("$")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("fairopt ")]


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def run_python(block: Block, text: str, page: Path, namespace: dict[str, object]) -> None:
    lines_above = "\n" * block.line  # so that a traceback names the page's line
    exec(compile(lines_above + text, str(page), "exec"), namespace)


def run_session(block: Block, page: Path, namespace: dict[str, object]) -> None:
    """A block with prompts; names stay for later blocks."""
    test = doctest.DocTestParser().get_doctest(block.text, namespace, name_of(page), str(page), block.line)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=OUTPUT).run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)
    namespace.update(test.globs)


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which ``fairopt demo`` has run, as it does on several pages."""
    folder = tmp_path_factory.mktemp("demo")
    with contextlib.chdir(folder):
        assert CliRunner().invoke(app, ["demo"]).exit_code == 0
    return folder


def run_page(page: Path, demonstrated: Path) -> None:
    namespace: dict[str, Any] = {"__name__": page.stem}
    for sample in COPIED.findall(text_of(page)):
        shutil.copytree(page.parent / sample, Path(sample).name)
    for block in blocks(text_of(page)):
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            run_python(block, block.text, page, namespace)
        elif block.language == "pycon":
            run_session(block, page, namespace)
        elif ".. plot::" in block.text:
            code = textwrap.dedent(re.sub(r"^\.\. plot::.*|^ +:\w+:.*", "", block.text, flags=re.MULTILINE))
            run_python(block, code, page, {"__name__": "plot"})
        elif block.run:
            for command in commands(block):
                if command == ["demo"]:
                    shutil.copytree(demonstrated, ".", dirs_exist_ok=True)
                    continue
                result = CliRunner().invoke(app, command)
                code = 4 if "--diff" in command else 0  # quotas that change
                assert result.exit_code in (0, code), (
                    f"line {block.line}: fairopt {shlex.join(command)}\n{result.output}"
                )


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(text_of(page))], ids=name_of)
def test_a_page_runs_from_the_top(
    page: Path, demonstrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    run_page(page, demonstrated)
    plt.close("all")


REFRESH = runpy.run_path(str(DOCS / "refresh.py"))  # what pages include
WRITTEN = REFRESH["commands"]()
COMMANDS = [
    pytest.param(command, id=f"{name}: {shlex.join(command)}")
    for name, text in [*((name_of(page), text_of(page)) for page in PAGES), ("help", WRITTEN)]
    for block in blocks(text)
    for command in commands(block)
    if not (ALONE and command[0] in OF_CLUSTERS["fairopt.commands"])
]


GROUP = typer.main.get_command(app)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(command: list[str]) -> None:
    name, *arguments = command
    if name.startswith("-"):
        assert CliRunner().invoke(app, command).exit_code == 0
        return
    assert name in GROUP.commands  # type: ignore[attr-defined]
    if not {"-h", "--help"} & set(arguments):
        GROUP.commands[name].make_context(name, list(arguments))  # type: ignore[attr-defined]


def test_blocks_marks_and_commands_are_found() -> None:
    text = (
        "# Title\n```python\nx = 1\n```\n<!-- file: notions.py -->\n```python\ny = 2\n```\n"
        "<!-- run -->\n```console\n$ fairopt solve here \\\n    -p 'a b'  # why\nDRF: 3 tasks\n$ ls\n```\n"
        "```bash\nfairopt demo\npip install fairopt\n```\n```{eval-rst}\n.. plot::\n\n   z = 3\n```\n"
    )
    found = blocks(text)
    assert [(b.language, b.line, b.run, b.file) for b in found] == [
        ("python", 2, False, None),
        ("python", 6, False, "notions.py"),
        ("console", 10, True, None),
        ("bash", 16, False, None),
        ("{eval-rst}", 20, False, None),
    ]
    assert [commands(b) for b in found] == [[], [], [["solve", "here", "-p", "a b"]], [["demo"]], []]


def test_a_session_that_shows_something_else_is_found() -> None:
    with pytest.raises(AssertionError, match="Expected"):
        run_session(blocks("```pycon\n>>> 1 + 1\n3\n```\n")[0], README, {})


# -- what pages say of the project ----------------------------------------------------------------------------


def test_the_readme_is_short_and_shows_python() -> None:
    assert len(text_of(README).splitlines()) <= 160  # of two packages
    assert any(block.language == "python" for block in blocks(text_of(README)))


def claimed_properties() -> str:
    """The table of claims that the documentation includes."""
    return str(REFRESH["claimed_properties"]())


def test_the_table_of_claims_has_a_line_for_each_claim_and_each_refutation() -> None:
    text = claimed_properties()
    refuted = [claim for claim in claims() if claim.verdict == "refuted"]
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert all(
        any(f"| {c.about}" in row and c.property in row for row in rows) for c in claims() if c.says == "satisfies"
    )
    assert sum(row.count("**refuted**") for row in rows) == len(refuted)
    cited = [int(number) for row in rows for number in re.findall(r"\*\*refuted\*\* \((\d+)\)", row)]
    evidence = dict(line.split(". ", 1) for line in lines if re.match(r"\d+\. ", line))
    assert len(cited) == len(refuted) and {str(number) for number in cited} == set(evidence)
    for number, claim in zip(cited, refuted, strict=True):
        assert claim.argument in evidence[str(number)] and all(
            str(case) in evidence[str(number)] for case in claim.cases
        )
    assert all(line.count("|") == 5 for line in lines if line.startswith("| "))


def test_the_documentation_counts_the_claims_as_they_stand() -> None:
    total, refuted = len(claims()), sum(c.verdict == "refuted" for c in claims())
    for page in (README, DOCS / "properties.md"):
        assert f"Of {total} claims {refuted} are refuted" in " ".join(text_of(page).split()), page


def test_the_page_of_commands_has_all_commands() -> None:
    assert set(re.findall(r"^## (\S+)$", WRITTEN, re.MULTILINE)) == set(GROUP.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_no_path_of_a_machine(page: Path) -> None:
    assert not re.search(r"(^|[^a-zA-Z.])/(work|root|tmp|home)/", text_of(page))


def test_the_citation_names_this_version() -> None:
    cited = yaml.safe_load(text_of(ROOT / "CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert str(cited["version"]) == fo.__version__


def test_the_api_lists_every_public_name_once() -> None:
    listed: dict[str, list[str]] = {}
    module = ""
    for line in REFRESH["api"]().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
        elif re.fullmatch(r"   \w+", line):
            listed.setdefault(module, []).append(line.strip())
    public = {
        "fairopt": set(fo.__all__) - {"datasets", "metrics"},
        "fairopt.datasets": {*fo.datasets.__all__} - {"read"},
        "fairopt.online": {*fo.online.__all__} - set(fo.__all__),
    }
    public |= {room.__name__: {*room.__all__} for room in (fo.metrics, fo.tradeoff.preferences, fairopt.testing)}
    for name, names in public.items():
        assert {*listed[name]} ^ names == set(), f"{name}: on the page or public, not both"
    assert all(len(names) == len({*names}) for names in listed.values())
    assert set(listed["fairopt.plots"]) <= set(fo.plots.__all__)  # type: ignore[attr-defined]


def test_tables_of_results_and_properties_are_those_of_the_code() -> None:
    rows = {row.split(" | ")[0]: row for row in REFRESH["results"]().splitlines()}
    assert "`save`, `load`" in rows["| `Allocation`"] and "`capacity`" in rows["| `Sensitivity`"]
    properties = REFRESH["properties"]()
    assert all(f"| `{name}` |" in properties for name in PROPERTIES)


def test_the_map_of_the_code_names_every_room() -> None:
    package = ROOT / "fairopt"
    rooms = [path for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    table = REFRESH["layers"]()
    assert not [path.name for path in rooms if f"`{path.stem}`" not in table and not path.stem.startswith("__")]


def test_the_table_of_benchmarks_names_each_script() -> None:
    folder = ROOT / "benchmarks"
    named = set(re.findall(r"`(\w+?)(?:\.py)?`", text_of(folder / "README.md")))
    assert {path.stem for path in folder.glob("*.py")} - named == {"common"}
    assert all((folder / f"{name}.py").exists() for name in re.findall(r"`(\w+)\.py`", text_of(folder / "README.md")))


def test_the_map_of_the_code_lists_packages_below_those_that_import_them() -> None:
    rows = re.findall(r"^\| (`.*?) \|", REFRESH["layers"](), re.MULTILINE)
    levels = [[LEVEL[name] for name in re.findall(r"`(\w+)`", row)] for row in rows]
    lowest = [min(level) for level in levels]
    assert lowest == sorted(lowest)


QUESTIONS = re.compile(r"\n## Questions that this page answers\n\n((?:\* \[[^]\n]+\?\]\(#[\w-]+\)\n)+)$")


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent != ROOT and page != FRONT], ids=name_of)
def test_a_page_ends_with_the_questions_that_it_answers(page: Path) -> None:
    assert QUESTIONS.search(text_of(page))


def test_the_front_pages_lead_to_every_page() -> None:
    led = {(ROOT / link).resolve() for link in LINK.findall(text_of(README))}
    rest = {page for page in PAGES if page.parent != ROOT and page != FRONT} - led
    assert {page.parent.name for page in rest} == {"methods"} and DOCS / "methods" / "index.md" in led
    assert "{include} ../README.md" in text_of(FRONT)


# -- links, files and names -----------------------------------------------------------------------------------


@cache
def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as code hosts and MyST make them."""
    bare = BLOCK.sub("", text_of(page))
    headings = re.findall(r"^#+ +(.*)$", bare, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", h).lower()).replace(" ", "-") for h in headings}


@cache
def targets() -> set[str]:
    """Names that pages give to places, as ``(bound-4-5)=``: links find them from any page."""
    named = {name for page in PAGES for name in re.findall(r"^\(([\w-]+)\)=$", text_of(page), re.MULTILINE)}
    return named | {*REFRESH["works"]()}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_to_a_file_or_heading_leads_there(page: Path) -> None:
    wrong = []
    for link in LINK.findall(BLOCK.sub("", text_of(page))):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        if anchor in targets():
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
    assert not wrong


@cache
def names_in(path: Path) -> set[str]:
    """What is defined at the top of a file, or in a class there: ``Class.method``, and ``method`` by itself."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                held = {inner.name} if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) else assigned(inner)
                found |= held | {f"{node.name}.{name}" for name in held}
        found |= assigned(node)
    return found


def assigned(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def missing_code(text: str) -> list[str]:
    """Files of {file} roles that are not there, and names after them on lines ``Code: ...`` that they do not hold."""
    wrong = [name for name in re.findall(r"\{file\}`([^`]+)`", text) if not (ROOT / name).exists()]
    for line in re.findall(r"^\W*Code: .*(?:\n(?!\s*\n).+)*", text, re.MULTILINE):
        file: Path | None = None
        for is_file, name in re.findall(r"(\{file\})?`([^`]+)`", line):
            if is_file:
                file = ROOT / name
            elif file is not None and file.suffix == ".py" and file.exists() and name not in names_in(file):
                wrong.append(f"{name} in {file.relative_to(ROOT)}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_and_name_of_the_code_is_there(page: Path) -> None:
    assert not missing_code(text_of(page))


def test_a_file_or_name_that_is_gone_is_found() -> None:
    text = (
        "See {file}`fairopt/nothing.py`.\n\nCode: {file}`fairopt/instance/data.py`, `Instance`, `Instance.pooled`,\n"
        "`Instance.walls`; {file}`fairopt/errors.py`, `nearest`, `Instance`.\n\n`Other` text.\n"
    )
    assert missing_code(text) == [
        "fairopt/nothing.py",
        "Instance.walls in fairopt/instance/data.py",
        "Instance in fairopt/errors.py",
    ]


NAME = r"[A-Z][\w-]*[a-zć]"
CITED = re.compile(rf"({NAME})(?:(?:, {NAME})*,? and (?:Le )?{NAME}| et al\.)?,? \(?((?:19|20)\d\d)\b")
RELEASES = {"ClusterData", "Data", "GeneratedTokens", "Kubernetes"}  # before years, which are not papers


def uncited(text: str) -> set[tuple[str, str]]:
    """Authors with a year that the bibliography does not list."""
    listed = [f"{work['author']} {work['year']}" for work in REFRESH["works"]().values()]
    found = {(m[1], m[2]) for m in CITED.finditer(" ".join(text.split())) if m[1] not in RELEASES}
    return {(name, year) for name, year in found if not any(name in entry and year in entry for entry in listed)}


def test_every_paper_that_is_cited_stands_in_the_bibliography() -> None:
    files = [*(ROOT / "fairopt").rglob("*.py"), *PAGES]
    assert {path.name: missing for path in files if (missing := uncited(path.read_text(encoding="utf-8")))} == {}


def test_every_entry_of_the_bibliography_is_read_and_shown_under_its_name() -> None:
    entries = re.findall(r"^@", (DOCS / "bibliography.bib").read_text(encoding="utf-8"), re.MULTILINE)
    shown = REFRESH["bibliography"]()
    assert len(entries) == len(REFRESH["works"]()) == len(re.findall(r"^\*\*.*\(\d{4}\)\.\*\* \*", shown, re.MULTILINE))
    assert "(wang-2014)=\n**W. Wang, B. Li and B. Liang (2014).** *Dominant" in shown


def test_a_paper_that_is_not_listed_is_found() -> None:
    assert uncited("as Ghodsi et al. (2011), Radunović and Le Boudec 2007") == set()
    assert uncited("(Nobel and Prize 1950), Ghodsi et al. (2012)") == {("Nobel", "1950"), ("Ghodsi", "2012")}
