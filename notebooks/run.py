"""Run the notebooks of this folder from the top, each in an empty folder, and keep what they print and draw in them.

Run: python notebooks/run.py [NAME ...] [--check]

Names are beginnings of file names, such as ``8_certify``; without any, all are run. ``--check`` keeps nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS = 300  # for one cell


def executed(path: Path) -> Any:
    """The notebook, run in a fresh kernel and an empty folder; nothing of this computer and no times are left in it."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
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
    """Run those named, or all; the first error ends it with its traceback."""
    import nbformat

    names = tuple(word for word in sys.argv[1:] if not word.startswith("--")) or ("",)
    for path in sorted(path for path in HERE.glob("*.ipynb") if path.name.startswith(names)):
        print(f"== {path.relative_to(HERE.parent)}", flush=True)
        notebook = executed(path)
        if "--check" not in sys.argv[1:]:
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
