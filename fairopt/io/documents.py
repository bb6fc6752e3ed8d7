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
    r"""The documents in a text of JSON or YAML, each with its place in it; of JSON one object.

    Parameters
    ----------
    text : str
        The text.
    name : str
        The name of the file, for messages.
    expected : str
        What errors end with.
    as_yaml : bool
        Whether it is YAML.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.documents_of_text("a: 1\n---\nb: 2\n", "x.yaml", "expected objects", True)
    [({'a': 1}, 'document 1'), ({'b': 2}, 'document 2')]
    """
    if not as_yaml:
        return [(json_of_text(text, name, expected), "")]
    documents = documents_of_yaml(text, name)
    if not documents:
        raise InvalidInstance(f"{name} is empty; {expected}")
    return [(data, f"document {number}" if len(documents) > 1 else "") for data, number in documents]


def documents_of_file(path: str | os.PathLike[str], expected: str) -> list[Document]:
    """The documents in a file, as `documents_of_text`; it is YAML if its name ends in ``.yaml`` or ``.yml``.

    Parameters
    ----------
    path : path-like
        The file.
    expected : str
        What errors end with.

    Examples
    --------
    >>> import fairopt as fo
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "x.yaml"
    >>> _ = file.write_text("a: 1")
    >>> fo.io.documents_of_file(file, "expected objects")
    [({'a': 1}, '')]
    """
    name = os.fspath(path)
    return documents_of_text(read_text(path, expected), name, expected, name.lower().endswith(_YAML))


def documents_of_standard_input(expected: str) -> tuple[list[Document], str]:
    """The documents on standard input, and its name; they are JSON if it starts with a bracket.

    It may be called again: what was read is kept.

    Parameters
    ----------
    expected : str
        What errors end with.

    Examples
    --------
    >>> import fairopt as fo
    >>> documents, name = fo.io.documents_of_standard_input("expected objects")  # doctest: +SKIP
    """
    text, name = standard_input(), "standard input"
    return documents_of_text(text, name, expected, not text.lstrip().startswith(("{", "["))), name
