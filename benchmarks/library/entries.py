"""What a case of the library is made of, before its answers are known."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fairopt as fo
from fairopt.instances.library.families import made

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # so that `oracle` can be imported


@dataclass(frozen=True)
class Entry:
    """A case: an instance, or a family and its parameters; where it is from; notions beside the main ones."""

    name: str
    title: str
    source: Mapping[str, Any]
    tags: tuple[str, ...]
    given: fo.Instance | Mapping[str, Any]
    notions: Mapping[str, str] = field(default_factory=dict)
    only: bool = False  # no other notions than those given
    without: tuple[str, ...] = ()  # main notions that are left out, as they have no finite optimum
    expected: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # tasks that the source states, by notion

    @property
    def instance(self) -> fo.Instance:
        """The instance."""
        return self.given if isinstance(self.given, fo.Instance) else made(**self.given)


def paper(authors: str, year: int, where: str) -> dict[str, Any]:
    """The source of an instance in a paper."""
    return {"where": where, "authors": authors, "year": year}


def code(repository: str, commit: str, path: str, where: str) -> dict[str, Any]:
    """The source of an instance in public code."""
    return {"where": where, "repository": repository, "commit": commit, "path": path}


def script(where: str) -> dict[str, Any]:
    """The source of an instance that is made here."""
    return {"where": where}
