"""Instances as YAML files, with the keys and checks of JSON files."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt.errors import InvalidInstance, optional
from fairopt.io.arguments import Arguments
from fairopt.io.json_file import arguments_of_data
from fairopt.io.saving import write_whole
from fairopt.io.text_files import read_text
from fairopt.runtime.progress import EVERY, steps, tell

if TYPE_CHECKING:
    from fairopt.instance import Instance

_EXPECTED = "expected the keys demands and capacities, as in a .json file"
_DEEPEST = 20  # levels; an instance has 4
# Plain scalars of YAML 1.2: unlike in YAML 1.1, `no` and 1:30 are text, 1e3 is a number and 0010 is ten
_RESOLVERS = {
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}


def read_yaml(path: str | os.PathLike[str]) -> Arguments:
    """Read an instance from a file of YAML 1.2 with the keys of `fairopt.datasets.schema`, without aliases."""
    pyyaml_for("reading YAML files")
    return arguments_of_yaml(read_text(path, _EXPECTED), os.fspath(path))


def arguments_of_yaml(text: str, name: str) -> Arguments:
    """The arguments in a text of YAML."""
    data = data_of_yaml(text, name, _EXPECTED)
    if "items" in data and "kind" in data:
        raise InvalidInstance(
            f"{name} holds objects of Kubernetes as YAML; give them as JSON, with kubectl get -o json"
        )
    return arguments_of_data(data, name)


def data_of_yaml(text: str, name: str, expected: str) -> dict[str, Any]:
    """The mapping that a text of YAML 1.2 without aliases holds."""
    yaml = pyyaml_for("reading YAML files")
    loader = _loader(yaml, f"nodes of {os.path.basename(name)}")
    try:
        _check_events(yaml, yaml.parse(text, Loader=loader), name, expected)
        data = yaml.load(text, Loader=loader)
    except InvalidInstance:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        words = ", ".join(filter(None, (error.context, error.problem)))
        if "nesting depth" in words:  # PyYAML's own limit, since 6.0.4
            raise InvalidInstance(_too_deep(name, mark, expected)) from None
        fix = "check the indentation (spaces, not tabs), quotes and brackets there"
        if isinstance(error, yaml.constructor.ConstructorError):
            fix = "give each key once, as text, without tags"
        raise InvalidInstance(f"{name}{place}: {words}; {fix}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = "a character that YAML does not allow; remove it, or write it in double quotes as \\x01"
        raise InvalidInstance(f"{name}, line {line} or before: {problem}") from None
    except (KeyError, ValueError) as error:  # a number of thousands of digits, `!!bool maybe`
        raise InvalidInstance(f"{name}: a value cannot be read ({error}); write it as plain text or number") from None
    if data is None:
        raise InvalidInstance(f"{name} is empty; {expected}")
    if not isinstance(data, dict):
        raise InvalidInstance(f"{name} holds {'a list' if isinstance(data, list) else 'one value'}; {expected}")
    return data


def pyyaml_for(purpose: str) -> Any:
    """The module yaml, or `MissingExtra`."""
    return optional("yaml", "yaml", purpose, package="PyYAML")


def _check_events(yaml: Any, events: Iterable[Any], name: str, expected: str) -> None:
    """Refuse aliases, which can take unlimited memory, and nesting so deep that libyaml aborts the process."""
    depth = 0
    for event in steps(events, f"events of {os.path.basename(name)}"):
        if isinstance(event, yaml.AliasEvent):
            raise InvalidInstance(f"{name}: aliases (*name) are not supported; write their values out")
        depth += isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent))
        depth -= isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent))
        if depth > _DEEPEST:
            raise InvalidInstance(_too_deep(name, event.start_mark, expected))


def _too_deep(name: str, mark: Any, expected: str) -> str:
    """The message about too deep nesting."""
    return f"{name}, line {mark.line + 1}: this is nested too deeply; {expected}"


def _loader(yaml: Any, what: str) -> Any:
    """PyYAML's safe loader with the plain scalars of YAML 1.2, and keys that are text and given once."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    nodes = itertools.count()

    class Loader(base):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own name

        def resolve(self, *node: Any) -> Any:  # called for each node
            if not next(nodes) % EVERY:
                tell(what)
            return super().resolve(*node)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            if not isinstance(node, yaml.MappingNode):  # one with the tag !!map
                problem = "a list or one value is tagged as a mapping"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            found: dict[str, Any] = {}
            for key, value in node.value:
                text = isinstance(key, yaml.ScalarNode)
                if not text or key.value in found:
                    problem = f"the key {key.value[:60]!r} is given twice" if text else "a list or a mapping is a key"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                found[key.value] = self.construct_object(value, deep=True)
            return found

    for kind, pattern in _RESOLVERS.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"({pattern})$"), None)
    kinds = (None, *(f"tag:yaml.org,2002:{kind}" for kind in (*_RESOLVERS, "str", "seq", "map")))
    Loader.yaml_constructors = {kind: base.yaml_constructors[kind] for kind in kinds}
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
    return Loader


def write_yaml(instance: Instance, path: Path) -> None:
    """Write an instance as a YAML file, exact to the last bit."""
    yaml = pyyaml_for("writing YAML files")
    data = {key: value for key, value in instance.to_dict().items() if value is not None}
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):
        """Quotes text that YAML 1.2 or 1.1 would not read as text."""

    for kind, pattern in _RESOLVERS.items():
        Dumper.add_implicit_resolver(f"!{kind}", re.compile(f"({pattern})$"), None)
    text = yaml.dump(data, Dumper=Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)
    write_whole(path, text)
