"""The result of every reader: the arguments of an `Instance`, which `fairopt.datasets` makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments of an `Instance`; files and a hint for errors about them; whether to merge servers."""

    values: dict[str, Any]
    places: tuple[str, ...]
    merge: bool = False
    hint: str = ""
