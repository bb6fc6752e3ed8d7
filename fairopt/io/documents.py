"""The documents of an input in JSON or YAML, with their places in it: of a text, a file or standard input."""

from __future__ import annotations

import os

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import json_of_text
from fairopt.io.readers import Document
from fairopt.io.text_files import read_text, standard_input
from fairopt.io.yaml_documents import documents_of_yaml

_YAML = (".yaml", ".yml")


def documents_of_text(text: str, name: str, expected: str, as_yaml: bool) -> list[Document]:
    r"""The documents in a text, of JSON one object; errors name the file, and end with what was ``expected``.

    Examples
    --------
    >>> documents_of_text("a: 1\n---\nb: 2\n", "x.yaml", "expected objects", True)
    [({'a': 1}, 'document 1'), ({'b': 2}, 'document 2')]
    """
    if not as_yaml:
        return [(json_of_text(text, name, expected), "")]
    found = documents_of_yaml(text, name)
    if not found:
        raise InvalidInstance(f"{name} is empty; {expected}")
    return [(data, f"document {number}" if len(found) > 1 else "") for data, number in found]


def documents_of_file(path: str | os.PathLike[str], expected: str) -> list[Document]:
    """The documents in a file, as `documents_of_text`; it is YAML if its name says so."""
    name = os.fspath(path)
    return documents_of_text(read_text(path, expected), name, expected, name.lower().endswith(_YAML))


def documents_of_standard_input(expected: str) -> tuple[list[Document], str]:
    """The documents on standard input, and its name; it is JSON if it starts with a bracket."""
    text, name = standard_input(), "standard input"
    return documents_of_text(text, name, expected, not text.lstrip().startswith(("{", "["))), name
