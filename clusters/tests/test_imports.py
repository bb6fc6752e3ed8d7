"""The package is written on the public names of fairopt, as a stranger would write it; both have one version."""

import ast
import inspect
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import fairopt_clusters

import fairopt

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "fairopt_clusters").rglob("*.py"))
ORDER = ("callable", "read", "policies", "schedulers", "quotas", "report", "commands")  # may import what is before


def names_of(path: Path) -> list[tuple[str, str]]:
    """Modules and names that a file imports, in functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, path
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return found


def is_public(module: str, name: str) -> bool:
    """Whether fairopt documents a name there: in the ``__all__`` of a package, or of a module with one."""
    place: ModuleType = import_module(module)
    return not name or name in getattr(place, "__all__", ())


def test_only_public_names_of_fairopt_are_imported() -> None:
    private = {
        (module, name)
        for path in SOURCES
        for module, name in names_of(path)
        if module.partition(".")[0] == "fairopt" and not is_public(module, name)
    }
    assert private == set()


def test_a_private_name_would_be_found() -> None:
    assert is_public("fairopt", "DRF") and is_public("fairopt.io", "Notes")
    assert not is_public("fairopt.proof.gate", "judge") and not is_public("fairopt.io.notes", "Notes")


def test_rooms_import_rooms_below_them() -> None:
    wrong = []
    for path in SOURCES:
        room = path.relative_to(ROOT / "fairopt_clusters").parts[0].removesuffix(".py")
        for module, name in names_of(path):
            parts = f"{module}.{name}".split(".")
            if parts[0] == "fairopt_clusters" and parts[1] in ORDER and room in ORDER:
                wrong += [f"{path.name}: {module}"] * (ORDER.index(parts[1]) > ORDER.index(room))
    assert wrong == []


def test_both_distributions_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert fairopt_clusters.__version__ == fairopt.__version__
    assert f"fairopt=={fairopt.__version__}" in project["dependencies"]


def test_rooms_can_be_called_as_their_verbs(tmp_path: Path) -> None:
    fairopt.datasets.write(fairopt.datasets.demo(), tmp_path)
    assert fairopt_clusters.read(tmp_path) == fairopt.datasets.demo()
    answer = fairopt.DRF().allocate(fairopt.datasets.demo())
    assert "web" in str(fairopt_clusters.quotas(answer))
    assert list(fairopt_clusters.report(answer).findings) == ["DRF"]
    assert fairopt_clusters.quotas.Quotas is type(fairopt_clusters.quotas(answer))
    assert "full_demand" in inspect.signature(fairopt_clusters.read).parameters
    assert inspect.signature(fairopt_clusters.quotas).return_annotation == "Quotas"


def test_for_type_checkers_rooms_that_are_called_have_the_names_of_their_packages() -> None:
    stub = ast.parse((ROOT / "fairopt_clusters" / "__init__.pyi").read_text(encoding="utf-8"))
    kinds = {node.name: node.body for node in stub.body if isinstance(node, ast.ClassDef)}
    assert {f"_{room.title()}" for room in ("read", "quotas", "report")} == set(kinds)
    for kind, body in kinds.items():
        names = {alias.asname for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
        names |= {target.id for node in body if isinstance(node, ast.Assign) for target in node.targets}
        room = getattr(fairopt_clusters, kind.strip("_").lower())
        assert names - {"__call__"} == set(getattr(room, "__all__", ())) and callable(room)
