"""The notebooks run from the top, and what they show is what they say."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def printed(notebook: dict[str, Any]) -> str:
    words = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            words += output.get("text", []) or output.get("data", {}).get("text/plain", [])
    return "".join(words)


def test_there_are_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first_steps.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs_from_the_top(path: Path) -> None:
    for package in ("nbclient", "nbformat", "ipykernel", "matplotlib", "pandas"):
        pytest.importorskip(package, reason=f"{package} is in the extra notebooks")
    spec = importlib.util.spec_from_file_location("notebooks_run", FOLDER / "run.py")
    assert spec is not None
    assert spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    text = printed(run.executed(path))
    if path.name == "first_steps.ipynb":
        assert "[ 1.9231 15.3846]" in text
        assert "certified: True" in text
        assert "the capacity of bandwidth and `MinShare(0.6)` cannot hold together" in text
        assert "2.7095, and ln 3 / ln 1.5 = 2.7095" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_is_kept_with_its_outputs_and_nothing_of_a_computer(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell["outputs"] if output["output_type"] == "error"]
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert not any("execution" in cell["metadata"] for cell in code)
    assert not re.search(r"(^|[^a-zA-Z.])/(work|root|tmp|home)/", printed(notebook))
