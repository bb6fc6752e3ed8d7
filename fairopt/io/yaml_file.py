"""Data as YAML, and instances as YAML files, with the keys and checks of JSON files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt.errors import optional
from fairopt.io.saving import write_whole

if TYPE_CHECKING:
    from fairopt.instance import Instance

yaml: Any = optional("yaml", "yaml", "writing YAML", "PyYAML")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes text that YAML 1.2 or 1.1 would not read as text, and repeats what stands twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Whether to write a part again."""
        return True


_Dumper.add_implicit_resolver("!quoted", re.compile(r"([-+.0-9].*|[yYnN])$"), None)


def yaml_text(data: Any, flow: bool | None = False) -> str:
    """Data as YAML, with quotes where YAML 1.1 would read another value.

    Parameters
    ----------
    data : object
        Mappings, lists, text and numbers.
    flow : bool or None, default False
        None writes lists of numbers or words on one line.

    Examples
    --------
    >>> import fairopt as fo
    >>> print(fo.io.yaml_text({"a": "no", "b": [1, 2]}), end="")
    a: 'no'
    b:
    - 1
    - 2
    """
    options: dict[str, Any] = dict(sort_keys=False, default_flow_style=flow, allow_unicode=True, width=100)
    return str(yaml.dump(data, Dumper=_Dumper, **options))


def write_yaml(instance: Instance, path: Path) -> None:
    """Write an instance as a YAML file, exact to the last bit."""
    write_whole(path, yaml_text({key: value for key, value in instance.to_dict().items() if value is not None}, None))
