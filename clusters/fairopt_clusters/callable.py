"""Rooms that are also the verb of their name: ``fc.quotas(answer)`` beside ``fc.quotas.Quotas``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from fairopt.runtime import later


def callable_room(room: str, place: str) -> None:
    """Let a package be called as the function at ``"module:name"``, which is imported then.

    A function of a package's name would be replaced by the package at the first import of one of its modules.
    """

    class Room(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return later(place)(*arguments, **options)

    sys.modules[room].__class__ = Room
