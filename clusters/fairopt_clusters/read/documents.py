"""The documents of an input, in JSON or YAML: a file, the files of a folder, standard input, or a snapshot of KAI.

Several documents are one list of the objects in them, as ``kubectl apply`` takes them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairopt.errors import InvalidInstance
from fairopt.io import (
    documents_of_file,
    documents_of_standard_input,
    documents_of_text,
    documents_of_yaml,
    is_path,
    read_text,
    shown,
)
from fairopt_clusters.read.kinds import ENDINGS, OBJECTS, SNAPSHOT, is_of_manifests
from fairopt_clusters.read.snapshot import objects_in, text_of_zip

Document = str | os.PathLike[str] | Mapping[str, Any]  # a file, or the data parsed from one
YAML, DASH = (".yaml", ".yml"), "-"  # the second is standard input
_OF_KUBERNETES = "give objects of Kubernetes, each a mapping with a kind"


class Objects(list[Any]):
    """Objects of Kubernetes with the place of each: the file in a folder, the document in a file, the item of a list.

    Mappings without a kind are among them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []


def objects_of(documents: Iterable[tuple[Any, str]], name: str) -> dict[str, Any]:
    """Documents, given with their places in the input ``name``, as one list without lists in it."""
    found, made = Objects(), Counter[tuple[str, str]]()
    for data, place in documents:
        for item, at in _within(data, place, name):
            found.append(_with_name(item, made))
            found.places.append(at)
    return {"kind": "List", "items": found}


def _with_name(item: Mapping[str, Any], made: Counter[tuple[str, str]]) -> Mapping[str, Any]:
    """An object with the name that Kubernetes would make up of ``generateName``, here with a number."""
    metadata = item.get("metadata")
    start = metadata.get("generateName") if isinstance(metadata, Mapping) and not metadata.get("name") else None
    if not isinstance(start, str) or not isinstance(metadata, Mapping):
        return item
    key = str(item.get("kind")), start
    made[key] += 1
    return {**item, "metadata": {**metadata, "name": f"{start.rstrip('-')}-{made[key]}"}}


def _within(data: Any, place: str, name: str, of_list: str = "") -> Iterator[tuple[Mapping[str, Any], str]]:
    """The objects in a document, and their places: itself, or those of a list, whose items may leave out their kind."""
    if not isinstance(data, Mapping):
        where = ": ".join(filter(None, (name, place)))
        raise InvalidInstance(f"{where} is {shown(data)}; {_OF_KUBERNETES}")
    kind, items = data.get("kind"), data.get("items")
    if str("List" if kind is None else kind).endswith("List") and isinstance(items, (list, tuple)):
        places = items.places if isinstance(items, Objects) else [f"items[{k}]" for k in range(len(items))]
        for item, of_item in zip(items, places, strict=True):
            at = ", ".join(filter(None, (place, of_item)))
            yield from _within(item, at, name, str(kind or "").removesuffix("List"))
    elif of_list and "kind" not in data:
        yield {"kind": of_list, **data}, place
    else:
        yield data, place


def data_in(found: Sequence[tuple[Any, str]], name: str, expected: str) -> dict[str, Any]:
    """What documents with their places hold: one mapping, or the list of the objects in several."""
    if len(found) > 1:
        if not any(isinstance(data, dict) and "kind" in data for data, _ in found):
            raise InvalidInstance(f"{name} holds {len(found):,} documents, none of Kubernetes; give one document")
        return objects_of(found, name)
    data = found[0][0]
    if not isinstance(data, dict):
        raise InvalidInstance(f"{name} holds {'a list' if isinstance(data, list) else 'one value'}; {expected}")
    return objects_of(objects_in(data, name), name) if OBJECTS in data else data


def data_of_text(text: str, name: str, expected: str, as_yaml: bool) -> dict[str, Any]:
    """What a text of JSON or YAML holds, as `data_in`."""
    return data_in(documents_of_text(text, name, expected, as_yaml), name, expected)


def data_of_file(path: str | os.PathLike[str], expected: str) -> dict[str, Any]:
    """What a file holds, as `data_in`; it is YAML or a snapshot if its name says so."""
    name = os.fspath(path)
    if name.lower().endswith(SNAPSHOT):
        return data_of_text(text_of_zip(path), name, expected, False)
    return data_in(documents_of_file(path, expected), name, expected)


def documents_in_folder(folder: Path) -> list[tuple[Any, str]]:
    """The documents in the files of a folder that end in .json, .yaml or .yml, with their places, in order of names."""
    out: list[tuple[Any, str]] = []
    for file in sorted(folder.iterdir()):
        ending = file.suffix.lower()
        if ending not in ENDINGS or not file.is_file():
            continue
        if ending in YAML:
            text = read_text(file, _OF_KUBERNETES)
            of_file = documents_of_yaml(text, os.fspath(file))
            out += [
                (data, file.name + f", document {number}" * (len(of_file) > 1 or number > 1))
                for data, number in of_file
            ]
        else:
            out.append((data_of_file(file, _OF_KUBERNETES), file.name))
    return out


def document_of(source: object, argument: str, expected: str) -> tuple[dict[str, Any], str]:
    """The data of a file or a mapping, and their name for messages: the path, or the name of the ``argument``."""
    if isinstance(source, Mapping):
        return dict(source), argument
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        raise InvalidInstance(f"{argument} is JSON text, not the name of a file; pass json.loads(text); {expected}")
    if not is_path(source):
        raise InvalidInstance(f"{argument} is {shown(source)}; give the name of a file, or the result of json.load")
    return data_of_file(source, expected), os.fspath(source)


def documents_of(source: Any, files: Iterable[str], expected: str) -> list[tuple[Mapping[str, Any], str]]:
    """The documents of an input of `fairopt.read` with their names: of a folder of one format those of ``files``.

    None of an input that is neither JSON nor YAML.
    """
    if source is None:
        return []
    if isinstance(source, Mapping):
        return [(source, "the document")]
    if os.fspath(source) == DASH:
        documents, name = documents_of_standard_input(expected)
        return [(data_in(documents, name, expected), name)]
    path = Path(source)
    if not path.is_dir():
        return (
            [(data_of_file(path, expected), os.fspath(path))] if path.suffix.lower() in (*ENDINGS, SNAPSHOT, "") else []
        )
    if is_of_manifests(path):
        return [(objects_of(documents_in_folder(path), os.fspath(path)), os.fspath(path))]
    named = [path / (name.removesuffix(".json") + ending) for name in files for ending in ENDINGS]
    there = [file for file in named if file.exists()]
    return [(data_of_file(file, expected), os.fspath(file)) for file in there]
