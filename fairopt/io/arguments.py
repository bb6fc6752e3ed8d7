"""The result of every reader: the arguments of an `Instance`, from which `fairopt.datasets` makes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Arguments:
    """Arguments of an `Instance`, files and hint for error messages, and whether to merge identical servers."""

    values: dict[str, Any]
    places: tuple[str, ...]
    merge: bool = False
    hint: str = ""
