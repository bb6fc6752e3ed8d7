"""The result of every reader: the arguments of an `Instance`, from which `fairopt.datasets` makes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments of an `Instance`; the files and a hint for error messages; whether to merge identical servers."""

    values: dict[str, Any]
    places: tuple[str, ...]
    merge: bool = False
    hint: str = ""
