"""Run every notebook in this folder from the top, and keep what it prints and draws in it (``--check`` keeps nothing)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS = 300  # for one cell


def executed(path: Path) -> Any:
    """The notebook, run in a fresh kernel; nothing of this computer and no times are left in it."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    return notebook


def main() -> None:
    """Run them all; the first error ends it with its traceback."""
    import nbformat

    for path in sorted(HERE.glob("*.ipynb")):
        print(f"== {path.relative_to(HERE.parent)}", flush=True)
        notebook = executed(path)
        if "--check" not in sys.argv[1:]:
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
