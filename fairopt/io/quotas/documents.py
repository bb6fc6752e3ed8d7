"""The JSON documents of an input of `fairopt.read`: some files of a folder, one file, or standard input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairopt.io.json_text import json_of_text, read_json_text
from fairopt.io.standard_input import DASH, standard_input

Document = Mapping[str, Any]


def documents_of(source: Any, files: Iterable[str], expected: str) -> list[tuple[Document, str]]:
    """The documents with their names: of a folder those of ``files`` that are there; none of an input in no JSON."""
    if source is None:
        return []
    if isinstance(source, Mapping):
        return [(source, "the document")]
    if os.fspath(source) == DASH:
        text, name = standard_input(), "standard input"
        return [(json_of_text(text, name, expected), name)] if text.lstrip().startswith("{") else []
    path = Path(source)
    if not path.is_dir():
        return [(read_json_text(path, expected), os.fspath(path))] if path.suffix.lower() in (".json", "") else []
    there = [path / name for name in files if (path / name).exists()]
    return [(read_json_text(file, expected), os.fspath(file)) for file in there]
