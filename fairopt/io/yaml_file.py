"""Instances as YAML files, with the keys and checks of JSON files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from fairopt.io.saving import write_whole
from fairopt.io.yaml_documents import PLAIN

if TYPE_CHECKING:
    from fairopt.instance import Instance


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes text that YAML 1.2 or 1.1 would not read as text."""


for kind, pattern in PLAIN.items():
    _Dumper.add_implicit_resolver(f"!{kind}", re.compile(f"({pattern})$"), None)


def write_yaml(instance: Instance, path: Path) -> None:
    """Write an instance as a YAML file, exact to the last bit."""
    data = {key: value for key, value in instance.to_dict().items() if value is not None}
    dumped: dict[str, Any] = dict(sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)
    write_whole(path, yaml.dump(data, Dumper=_Dumper, **dumped))
