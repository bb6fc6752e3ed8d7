"""The notebooks run from the top in an empty folder, and what they show is what they say."""

import ast
import contextlib
import importlib.util
import io
import json
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 400_000  # bytes, with pictures
EVERY = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> str:
    """What a cell printed, and the text of its last expression; pictures aside."""
    words = []
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            words += output["text"]
        elif output["output_type"] == "execute_result":
            words += output["data"]["text/plain"]
    return "".join(words)


def ran(source: str, namespace: dict[str, Any]) -> str:
    """What a cell shows, in this process."""
    from IPython.lib.pretty import pretty

    name = f"<cell {hash(source)}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name  # as kernels do, for lambdas
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, name, "exec"), namespace)
        value = last and eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    return said.getvalue() + ("" if value is None else pretty(value))


def test_the_notebooks_are_numbered() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{k}_" for k in range(1, 9)]


@EVERY
def test_a_notebook_shows_what_it_says(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("IPython", "matplotlib", "pandas"):
        pytest.importorskip(package, reason=f"{package} comes with the extra notebooks")
    if "import fairopt_clusters" in path.read_text(encoding="utf-8"):
        pytest.importorskip("fairopt_clusters")
    import matplotlib.pyplot as plt
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    as_in_notebooks = ("display.max_columns", 20, "display.width", 80, "display.max_colwidth", 50)
    with plt.rc_context(), pd.option_context(*as_in_notebooks):
        for cell in code_cells(path):
            text = ran("".join(cell["source"]), namespace)
            if "varies" not in cell["metadata"].get("tags", ()):
                assert text == shown(cell), "".join(cell["source"])
        plt.close("all")


@EVERY
def test_a_notebook_is_kept_with_its_outputs_and_nothing_of_a_computer(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    code = code_cells(path)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell["outputs"] if output["output_type"] == "error"]
    assert set(json.loads(path.read_text(encoding="utf-8"))["metadata"]) == {"kernelspec", "language_info"}
    assert not any("execution" in cell["metadata"] for cell in code)
    assert not re.search(r"(^|[^a-zA-Z.])/(work|root|tmp|home)/|0x[0-9a-f]{6}", "".join(map(shown, code)))


@EVERY
def test_a_notebook_begins_with_a_picture(path: Path) -> None:
    first = next(cell for cell in code_cells(path) if cell["outputs"])
    assert any("image/png" in output.get("data", {}) for output in first["outputs"])


def test_running_a_notebook_keeps_its_outputs_and_drops_the_rest(tmp_path: Path) -> None:
    for package in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(package, reason=f"{package} is in the extra notebooks")
    import nbformat.v4 as new

    spec = importlib.util.spec_from_file_location("notebooks_run", FOLDER / "run.py")
    assert spec is not None and spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    path = tmp_path / "one.ipynb"
    notebook = new.new_notebook(cells=[new.new_code_cell("print(6 * 7)")], metadata={"author": "a person"})
    path.write_text(json.dumps(notebook), encoding="utf-8")
    found = run.executed(path)
    assert [shown(cell) for cell in found.cells] == ["42\n"]
    assert set(found.metadata) == {"kernelspec", "language_info"} and not found.cells[0].metadata
