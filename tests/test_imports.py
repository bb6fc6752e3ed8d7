"""The rooms of the package: imports point one way, optional packages are imported when needed, only the CLI prints."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from fairopt.cli.application import COMMANDS, app
from fairopt.runtime.lazy import later

PACKAGE = Path(__file__).parents[1] / "fairopt"

# Each line may import from the lines above it, and from its own.
ORDER = (
    ("errors", "runtime", "checker"),
    ("io", "certificate"),
    ("instance",),
    ("instances",),
    ("datasets", "allocation"),
    ("blocks",),
    ("solve.form",),
    ("proof",),
    ("proof.evidence",),
    ("derivatives",),
    ("exact",),
    ("solve",),
    ("policy",),
    ("scale",),
    ("policies",),
    ("metrics", "properties"),
    ("tradeoff",),
    ("online", "questions"),
    ("testing", "plots"),
    ("networks",),
    ("report",),
    ("cli", "__main__"),
)
DEFINITIONS = (ast.ClassDef, ast.FunctionDef)
LOADING = "fairopt.policies.loading"  # of saved answers, which the checker reads first
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
OPTIONAL = {
    "matplotlib",
    "jinja2",
    "pandas",
    "pyarrow",
    "narwhals",
    "polars",
    "dask",
    "distributed",
    "nbclient",
    "nbformat",
    "ecos",
    "pytest",
    "z3",
    "cvc5",
    "flint",
    "networkx",
}
NEEDS_ITS_EXTRA = {"testing": {"hypothesis"}}  # the whole room is for those who have it


def module_name(path: Path, package: Path = PACKAGE) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    """The package or module under `fairopt`; two packages have an inner one on another level."""
    parts = module.split(".")[1:]
    inner = ".".join(parts[:2])
    return inner if inner in LEVEL else "".join(parts[:1])


parsed = cache(ast.parse)


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path.read_text(encoding="utf-8"))))


@cache
def statements(source: str, deferred: bool, types: bool = False) -> list[ast.AST]:
    """Statements that run at import, or also those in functions; those under ``if TYPE_CHECKING`` with ``types``."""
    waiting, found = [*ast.iter_child_nodes(parsed(source))], list[ast.AST]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr) or (not deferred and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
            continue  # expressions hold no statement
        simple = isinstance(node, ast.If) and isinstance(node.test, (ast.Name, ast.Attribute))
        for_types = simple and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        if isinstance(node, ast.If) and for_types and not types:
            waiting += node.orelse
            continue
        found.append(node)
        waiting += ast.iter_child_nodes(node)
    return found


def imported(
    source: str, module: str, is_package: bool = False, deferred: bool = True, types: bool = False
) -> Iterator[str]:
    """Dotted names that a module imports; without ``deferred`` only those that it imports when it is imported."""
    for node in statements(source, deferred, types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                base = ".".join([*above, base] if base else above)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(name: str) -> str | None:
    """The module of fairopt that a dotted name stands in, if any."""
    while name:
        if name in SOURCES:
            return name
        name = name.rpartition(".")[0]
    return None


@cache
def imports_within(module: str, types: bool = False) -> set[str]:
    path = SOURCES[module]
    source, is_package = path.read_text(encoding="utf-8"), path.name == "__init__.py"
    found = {within(name) for name in imported(source, module, is_package, types=types)}
    return {name for name in found if name is not None and name != module}


def wrong_direction(importer: str, target: str) -> str | None:
    """Why one room may not import another, or None if it may."""
    here, there = room_of(importer), room_of(target)
    if here in ("", there):
        return None
    if "checker" in (here, there):
        return (
            None
            if here == "cli" or importer == "fairopt.policies.loading"
            else "the checker and the rest of the package share no code"
        )
    if there == "":
        return (
            None if here in ("cli", "report") else "imports the package itself; import from the room that has the name"
        )
    if here == "io":
        below = ("errors", "runtime")
        return None if there in below else "readers need errors, and what is in runtime"
    if (
        there == "io"
        and target != "fairopt.io.saving"
        and here != "datasets"
        and importer != LOADING
        and LEVEL[here] < LEVEL["metrics"]
    ):
        return "only datasets and later rooms may read files"
    return None if LEVEL[there] <= LEVEL[here] else f"{there} comes after {here}"


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """A cycle of imports, or an empty list."""
    done: set[str] = set()

    def walk(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name not in done:
            for other in sorted(graph[name]):
                found = walk(other, [*trail, name])
                if found:
                    return found
            done.add(name)
        return []

    return next((found for found in (walk(name, []) for name in sorted(graph)) if found), [])


def circles_in(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, through others or not."""
    reached = {name: set(targets) for name, targets in graph.items()}
    for between in graph:  # Warshall's transitive closure
        for targets in reached.values():
            if between in targets:
                targets |= reached[between]
    found = {frozenset(b for b in reached[a] if a in reached[b]) for a in graph}
    return sorted((set(circle) for circle in found if circle), key=sorted)


def test_every_module_is_in_a_room_of_the_design() -> None:
    rooms = {room_of(module) for module in SOURCES}
    assert rooms - {""} == set(LEVEL)


def test_imports_point_one_way() -> None:
    wrong = [
        f"{module} imports {target}: {why}"
        for module in SOURCES
        for target in imports_within(module)
        if (why := wrong_direction(module, target))
    ]
    assert wrong == []


def test_what_judges_imports_no_method() -> None:
    """Not inside functions either, and not for types only."""
    wrong = []
    for module, path in SOURCES.items():
        if room_of(module) in ("proof", "proof.evidence"):
            for node in nodes_of(path):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                wrong += [
                    f"{module} imports {name}"
                    for name in names
                    if name.startswith("fairopt.solve") and not name.startswith("fairopt.solve.form")
                ]
                if isinstance(node, ast.ImportFrom) and node.module == "fairopt":
                    wrong += [f"{module} imports {alias.name}" for alias in node.names if alias.name == "solve"]
    assert wrong == []


def test_imports_have_no_cycle() -> None:
    graph = {module: imports_within(module) for module in SOURCES if module != "fairopt"}
    assert cycle_in({module: targets & set(graph) for module, targets in graph.items()}) == []


def test_imports_for_types_have_no_circle() -> None:
    graph = {module: imports_within(module, types=True) for module in SOURCES if module != "fairopt"}
    assert circles_in({module: targets & set(graph) for module, targets in graph.items()}) == []


def test_optional_packages_are_imported_only_when_needed() -> None:
    wrong = {}
    for module, path in SOURCES.items():
        names = imported(path.read_text(encoding="utf-8"), module, path.name == "__init__.py", deferred=False)
        packages = {name.split(".")[0] for name in names}
        wrong[module] = packages & (OPTIONAL - NEEDS_ITS_EXTRA.get(room_of(module), set()))
    assert {module: packages for module, packages in wrong.items() if packages} == {}


# What is not imported with the package, and not by modules that a small answer needs: each takes a tenth of a second.
LATER = {"cvxpy", "scipy", "pandas", "pyarrow", "narwhals", "matplotlib", "yaml", "dask", "hypothesis", "highspy"}
STEPS = """
import contextlib, io, sys
known = {*sys.stdlib_module_names, *sys.modules, "$coverage"}  # the last where lines are measured
import fairopt as fo
seen = lambda: print(*sorted({name.split(".")[0] for name in sys.modules} - known), sep=",")
seen()
pool = fo.Instance([[2, 3], [2, 1]], [6, 4], task_limits=[1, None])
for policy in (fo.DRF(), fo.NashWelfare(), fo.FDS(alpha=2), fo.MostTasks(), fo.MLFDRS()):
    policy.allocate(fo.Instance([[2, 3], [2, 1]], [6, 4]))
for policy in (fo.DRF(), fo.NashWelfare(), fo.MostTasks()):
    policy.allocate(fo.Instance([[2, 3], [2, 1]], [6, 4]), time_limit=60)
seen()
fo.datasets.write(pool, "pool")
from fairopt.cli import main
for words in (["--version"], ["solve", "pool", "-p", "drf"]):
    sys.argv = ["fairopt", *words]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:
        main()
    seen()
    needed = ("fairopt.cli.", *(f"fairopt_clusters.read.{room}." for room in ("kubernetes", "slurm")))  # with pydantic
    needed += ("fairopt.tradeoff.",)  # with multiprocessing
    print(*sorted(name for name in sys.modules if name.startswith(needed)), sep=",")
print(said.getvalue())
"""


def test_the_first_second_is_not_spent_on_packages_that_are_not_needed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, cwd=tmp_path, check=True)
    package, solved, version, of_version, solve, of_solve, *said = done.stdout.splitlines()
    assert (package, solved) == ("fairopt", "fairopt,numpy,threadpoolctl")
    assert not LATER & {*version.split(","), *solve.split(",")}
    ours = {f"fairopt.cli.{name}" for name in ("application", "interrupts", "progress", "streams")}
    assert set(of_version.split(",")) == ours
    assert set(of_solve.split(",")) == ours | {f"fairopt.cli.{name}" for name in ("commands", "inputs", "values")}
    assert "certified" in "".join(said)


def test_modules_that_a_small_answer_needs_import_cvxpy_and_scipy_when_first_used() -> None:
    for module, path in SOURCES.items():
        names = imported(path.read_text(encoding="utf-8"), module, path.name == "__init__.py", deferred=False)
        assert not {name.split(".")[0] for name in names} & {"cvxpy", "scipy"}, module


def test_every_command_is_in_the_module_that_the_table_says() -> None:
    for name, module in COMMANDS.items():
        imported_now = import_module(f"fairopt.cli.{module}")
        registered = [one.name or one.callback.__name__ for one in app.registered_commands]  # type: ignore[union-attr]
        assert name in registered and imported_now.app is app
    assert set(COMMANDS) <= set(registered)  # others bring more


def test_only_the_command_line_prints() -> None:
    printed = []
    for module in SOURCES:
        if room_of(module) != "cli" and module != "fairopt.checker.__main__":  # a command too
            nodes = nodes_of(SOURCES[module])
            calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
            printed += [f"{module}:{node.lineno}" for node in calls if node.func.id == "print"]  # type: ignore[attr-defined]
    assert printed == []


# Public names, packages when first used, functions in later modules, what users name, readers of files, and commands.
IMPORTS_BY_NAME = {
    "fairopt",
    "fairopt.runtime.lazy",
    "fairopt.errors",
    "fairopt.io.files",
    "fairopt.policies.registry",
    "fairopt.cli.application",
}


def test_no_other_module_imports_by_name() -> None:
    found = set()
    for module, path in SOURCES.items():
        nodes = nodes_of(path)
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        if names & {"import_module", "__import__", "spec_from_file_location"}:
            found.add(module)
    assert found <= IMPORTS_BY_NAME


def test_a_wrong_direction_would_be_found() -> None:
    assert wrong_direction("fairopt.solve.cone.solve", "fairopt.policy") == "policy comes after solve"
    assert wrong_direction("fairopt.instance", "fairopt.blocks.shares")
    assert wrong_direction("fairopt.io.files", "fairopt.allocation")
    assert wrong_direction("fairopt.blocks.base", "fairopt")
    assert wrong_direction("fairopt.policy", "fairopt.solve.dispatch") is None


def test_a_cycle_would_be_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert circles_in({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}, "e": {"a"}}) == [{"b", "c"}, {"d"}]


def test_imports_in_functions_count_and_those_for_types_do_not() -> None:
    source = (
        "from typing import TYPE_CHECKING\nfrom . import errors\nfrom ..solve.cone import solve\n"
        "if TYPE_CHECKING:\n    import later\nelse:\n    import now\n"
        "class C:\n    import inside\n    def f(self):\n        import called\n"
        "try:\n    import tried\nexcept ImportError:\n    pass\n"
    )
    names = {
        "typing.TYPE_CHECKING",
        "fairopt.blocks.errors",
        "fairopt.solve.cone.solve",
        "now",
        "inside",
        "tried",
    }
    assert set(imported(source, "fairopt.blocks.base", deferred=False)) == names
    assert set(imported(source, "fairopt.blocks.base")) == {*names, "called"}
    assert set(imported(source, "fairopt.blocks.base", types=True)) == {*names, "called", "later"}
    assert set(imported("from . import x", "fairopt.blocks", is_package=True)) == {"fairopt.blocks.x"}


def test_package_docstrings_name_every_file() -> None:
    missing, table = [], SOURCES["fairopt.io.files"].read_text(encoding="utf-8")
    readers = {f"fairopt.io.{name}" for name in re.findall(r'"(\w+):\w+"', table)}  # the map names the table
    for module in SOURCES:
        package, _, name = module.rpartition(".")
        if package and name != "__main__":
            text = ast.get_docstring(parsed(SOURCES[package].read_text(encoding="utf-8"))) or ""
            missing += [module] * (f"`{name}`" not in text and module not in readers)
    assert missing == []


def test_package_docstrings_name_no_file_that_went() -> None:
    """What an entry is about, before its colon, is a file or a name of the package."""
    gone = []
    for package, path in SOURCES.items():
        if path.name == "__init__.py":
            text = ast.get_docstring(parsed(path.read_text(encoding="utf-8"))) or ""
            inside = [one for module, one in SOURCES.items() if module.startswith(f"{package}.")]
            defined = {node.name for one in inside for node in nodes_of(one) if isinstance(node, DEFINITIONS)}
            for entry in re.findall(r"(?:^\*|[.;])\s+((?:`\w+`[, and\s]*)+):", text, re.M):
                named = set(re.findall(r"\w+(?=`)", entry)) - defined
                gone += [f"{package}: {name}" for name in sorted(named) if f"{package}.{name}" not in SOURCES]
    assert gone == []


def test_functions_of_later_modules_are_there() -> None:
    places = {
        node.args[0].value
        for path in SOURCES.values()
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "later"
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    }
    assert len(places) > 15 and all(callable(later(place)) for place in places)


# What rooms above the policy take from below that is no public name: numbers that may only fall.
PRIVATE_BELOW = {
    "properties": 69,
    "tradeoff": 38,
    "online": 33,
    "networks": 16,
    "testing": 24,
    "plots": 35,
    "report": 71,
    "cli": 132,
}


def private_below(room: str) -> set[tuple[str, str]]:
    """Names that a room imports from other rooms, and that no package says in its ``__all__``."""
    found = set()
    for module in (name for name in SOURCES if room_of(name) == room):
        for node in nodes_of(SOURCES[module]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fairopt":
                place = node.module or ""
                if room_of(place) != room:
                    public = getattr(import_module(place), "__all__", ())
                    found |= {(place, alias.name) for alias in node.names if alias.name not in public}
    return found


def test_rooms_above_the_policy_take_no_more_private_names_than_before() -> None:
    now = {room: len(private_below(room)) for room in PRIVATE_BELOW}
    print(now)
    assert all(now[room] <= most for room, most in PRIVATE_BELOW.items()), now
