"""Output files of the command, and JSON."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt.allocation import Allocation
from fairopt.errors import InvalidBlock, nearest, optional
from fairopt.io.files import is_read_as
from fairopt.io.saving import unwritable, write_whole
from fairopt.report.frames import csv_text, user_rows
from fairopt.runtime import extensions

if TYPE_CHECKING:
    from fairopt.report.comparison import Comparison

ALLOCATIONS = (".json", ".parquet", ".csv")
COMPARISONS = (".json", ".csv", ".md", ".tex")
SCHEMAS = Path(__file__).parent / "schemas"
PICTURES = (".png", ".pdf", ".svg")


def check_output(path: Path | None, endings: tuple[str, ...], *inputs: str) -> None:
    """Raise, before anything is solved, if an output file cannot be written or is one of the inputs."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise InvalidBlock(f"cannot write {path}; give a name that ends in {' or '.join(endings)}")
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise unwritable(path, errno.ELOOP, "give another name")
    if not target.parent.is_dir():
        raise unwritable(path, errno.ENOENT, f"create the folder {path.parent} first")
    if path.is_dir():
        raise unwritable(path, errno.EISDIR, "give another name")
    if not os.access(path if path.exists() else target.parent, os.W_OK):
        raise unwritable(path, errno.EACCES, "give another place")
    for one in inputs:
        if is_read_as(path, one):
            raise InvalidBlock(f"cannot write {path}: the input {one} is read from this file; give another name")
    if path.suffix.lower() == ".parquet":
        optional("pyarrow", "parquet", str(path))
    if path.suffix.lower() in PICTURES:
        optional("matplotlib.figure", "plots", "a picture")


def schema(format: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what a command prints with ``--json``, by the key ``format`` of the output.

    Parameters
    ----------
    format : str
        Such as ``fairopt.answer/1``.

    Returns
    -------
    dict

    Raises
    ------
    InvalidBlock
        If there is no such format.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.report.schema("fairopt.error/1")["required"]
    ['format', 'error', 'message', 'exit_code']
    """
    known = _schemas_in(SCHEMAS)
    if format not in known:  # those of other packages, in the folder of a module
        for _, package in extensions.loaded(extensions.SCHEMAS):
            for folder in getattr(package, "__path__", ()):
                known = _schemas_in(Path(folder)) | known
        extensions.warn(extensions.SCHEMAS)
    kind = format.removeprefix("fairopt.").partition("/")[0]
    if format not in known and kind in extensions.OF_CLUSTERS[extensions.COMMANDS] and not extensions.installed():
        raise extensions.missing(f"the schema of {format}")
    if format not in known:
        raise InvalidBlock(f"no format {format!r}; {nearest(format, known)}")
    document: dict[str, Any] = json.loads(known[format].read_text(encoding="utf-8"))
    return document


def _schemas_in(folder: Path) -> dict[str, Path]:
    """The schemas in a folder, by format: ``fairopt.answer/1`` is in the file answer-1.json."""
    return {"fairopt." + "/".join(file.stem.rsplit("-", 1)): file for file in sorted(folder.glob("*.json"))}


def as_json(data: Any) -> str:
    """Plain data as JSON, with null for infinity and NaN."""
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json(data, indent=2, inf_nan_mode="null").decode()
    except PydanticSerializationError:  # file names that are not UTF-8
        return to_json(_escaped(data), indent=2, inf_nan_mode="null").decode()


def _escaped(data: Any) -> Any:
    """Plain data with surrogates in strings escaped."""
    if isinstance(data, str):
        return data.encode(errors="backslashreplace").decode()
    if isinstance(data, dict):
        return {_escaped(key): _escaped(value) for key, value in data.items()}
    return [*map(_escaped, data)] if isinstance(data, (list, tuple)) else data


def write_allocation(allocation: Allocation, path: Path) -> None:
    """Save the allocation (``.json``, ``.parquet``), or write a table by user (``.csv``)."""
    if path.suffix.lower() == ".csv":
        write_whole(path, csv_text(user_rows(allocation)))
    else:
        allocation.save(path)


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write a comparison as ``.json``, ``.csv``, Markdown (``.md``) or LaTeX (``.tex``)."""
    texts: dict[str, Callable[[], str]] = {
        ".json": lambda: as_json(comparison.to_dict()) + "\n",
        ".csv": comparison.to_csv,
        ".md": lambda: comparison.to_markdown() + "\n",
        ".tex": lambda: comparison.to_latex() + "\n",
    }
    write_whole(path, texts[path.suffix.lower()]())


def write_picture(figure: Any, path: Path, dpi: int = 150) -> None:
    """Write a picture in the format of the file name; texts in PDF as TrueType, since journals refuse Type 3."""
    with optional("matplotlib", "plots", "a picture").rc_context({"pdf.fonttype": 42}):
        write_whole(path, lambda file: figure.savefig(file, format=path.suffix[1:].lower(), dpi=dpi))
