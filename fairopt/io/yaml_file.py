"""An instance as one YAML file, with the keys and checks of JSON files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt.errors import InvalidInstance, MissingExtra
from fairopt.io.arguments import Arguments
from fairopt.io.json_file import arguments_of_data
from fairopt.io.saving import replacing
from fairopt.io.text_files import opened, texts

if TYPE_CHECKING:
    from fairopt.instance import Instance

__all__ = ["read_yaml", "write_yaml"]

_EXPECTED = "expected the keys demands and capacities, as in a .json file"
_LARGEST_FILE = 1 << 24  # bytes: YAML is read some 50 times slower than JSON, and this much holds 300,000 users
_DEEPEST = 20  # levels; an instance has 4
# YAML 1.2: unlike in YAML 1.1, `no` is a name, 1e3 is a number and 1:30 is none
_NOTHING = re.compile(r"null|Null|NULL|~|")
_TRUTH = re.compile(r"true|True|TRUE|false|False|FALSE")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NO_TEXT = (_NOTHING, _TRUTH, _WHOLE, _NUMBER, _NO_NUMBER)
_NAMES = ("users", "resources", "servers", "server_types", "units")
_PLAIN_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map", "!")


def read_yaml(path: str | os.PathLike[str]) -> Arguments:
    """Read an instance from a file of YAML 1.2 with the keys of `fairopt.datasets.schema`.

    Aliases (``*name``) and tags (``!name``) are refused, and so are keys that are given twice.
    """
    yaml = _pyyaml("reading YAML files")
    name = os.fspath(path)
    text = _text_of(path, name)
    try:
        data = _built(yaml, yaml.parse(text, Loader=getattr(yaml, "CLoader", yaml.Loader)), name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = name if mark is None else _place(name, mark)
        words = ", ".join(filter(None, (error.context, error.problem)))
        fix = "check the indentation (by blanks, not tabs), quotes and brackets there"
        raise InvalidInstance(f"{place}: {words}; {fix}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = "a character that YAML does not allow; remove it, or write it in double quotes as \\x01"
        raise InvalidInstance(f"{name}, line {line} or before: {problem}") from None
    if data is None:
        raise InvalidInstance(f"{name} is empty; {_EXPECTED}")
    if not isinstance(data, dict):
        raise InvalidInstance(f"{name} holds {'a list' if isinstance(data, list) else 'one value'}; {_EXPECTED}")
    return arguments_of_data(data, name)


def _pyyaml(purpose: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("PyYAML", "yaml", purpose) from error
    return yaml


def _text_of(path: str | os.PathLike[str], name: str) -> str:
    with opened(path, _EXPECTED) as file:
        if os.fstat(file.fileno()).st_size > _LARGEST_FILE:
            raise InvalidInstance(
                f"{name} has more than {_LARGEST_FILE:,} bytes, the most that is read of YAML; give .json or a folder"
            )
        return "".join(texts(file, name, _EXPECTED))


def _place(name: str, mark: Any) -> str:
    return f"{name}, line {mark.line + 1}, column {mark.column + 1}"


def _built(yaml: Any, events: Iterable[Any], name: str) -> Any:
    """Plain data from the parser's events: no recursion, no objects of the file's choice, nothing used twice."""
    root: list[Any] = []
    above: list[tuple[Any, Any]] = [(root, None)]  # containers that are open, and the key that waits in each
    for event in events:
        here, key = above[-1]
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            above.pop()
            continue
        if isinstance(event, yaml.DocumentStartEvent) and root:
            raise InvalidInstance(f"{_place(name, event.start_mark)}: a second document begins; keep one")
        if not isinstance(event, yaml.NodeEvent):
            continue
        value = _value(yaml, event, name)
        if isinstance(here, list):
            here.append(value)
        elif key is None:
            above[-1] = (here, _key(yaml, event, here, name))
            continue
        else:
            here[key] = value
            above[-1] = (here, None)
        if isinstance(value, (list, dict)):
            above.append((value, None))
            if len(above) > _DEEPEST:
                raise InvalidInstance(f"{_place(name, event.start_mark)}: this is nested too deep; {_EXPECTED}")
    return root[0] if root else None


def _value(yaml: Any, event: Any, name: str) -> Any:
    if isinstance(event, yaml.AliasEvent):
        problem = f"the alias *{event.anchor[:40]} is not followed; write out what it stands for"
        raise InvalidInstance(f"{_place(name, event.start_mark)}: {problem}")
    if event.tag is not None and event.tag not in _PLAIN_TAGS:
        raise InvalidInstance(f"{_place(name, event.start_mark)}: the tag {event.tag[:60]!r} is not known; remove it")
    if isinstance(event, yaml.MappingStartEvent):
        return {}
    if isinstance(event, yaml.SequenceStartEvent):
        return []
    if event.style or event.tag is not None:  # in quotes or as a block
        return event.value
    try:
        return _scalar(event.value)
    except ValueError as error:  # a number of thousands of digits
        place = _place(name, event.start_mark)
        raise InvalidInstance(f"{place}: a number cannot be read ({error}); give it with fewer digits") from None


def _scalar(text: str) -> Any:
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    if _TRUTH.fullmatch(text):
        return text.lower() == "true"
    if _NOTHING.fullmatch(text):
        return None
    return float(text.replace(".", "")) if _NO_NUMBER.fullmatch(text) else text


def _key(yaml: Any, event: Any, here: dict[str, Any], name: str) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        raise InvalidInstance(f"{_place(name, event.start_mark)}: a list or a mapping cannot be a key; give text")
    key: str = event.value  # text, whatever it looks like, as in JSON
    if key in here:
        raise InvalidInstance(f"{_place(name, event.start_mark)}: the key {key[:60]!r} is given twice; keep one")
    return key


def write_yaml(instance: Instance, path: Path) -> None:
    """Write an instance as a YAML file, exact to the last bit, one user or server to a line."""
    yaml = _pyyaml("writing YAML files")
    data = {key: value for key, value in instance.to_dict().items() if value is not None}
    for name in (name for key in _NAMES for name in data.get(key, ())):
        if any("\ud800" <= c <= "\udfff" for c in name):
            raise InvalidInstance(
                f"the name {name[:60]!r} holds half of a pair of surrogates, which YAML cannot write; rename it, or "
                "write to a .json file"
            )
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):
        """Quotes what only YAML 1.2 takes for no text, besides what YAML 1.1 does."""

    for k, pattern in enumerate(_NO_TEXT):
        Dumper.add_implicit_resolver(f"!{k}", re.compile(f"({pattern.pattern})$"), None)
    text = yaml.dump(data, Dumper=Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)
    with replacing([path]) as (part,):
        part.write_bytes(text.encode())
