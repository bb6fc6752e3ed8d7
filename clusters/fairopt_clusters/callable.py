"""Packages that are also the verb of their name: ``fc.quotas(answer)`` beside ``fc.quotas.Quotas``.

The package's ``__init__.pyi`` says the same to type checkers.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from fairopt.runtime import later


def callable_room(room: str, place: str) -> None:
    """Let a package be called as the function at ``"module:name"``, which is imported then.

    A function of a package's name would be replaced by the package at the first import of one of its modules.
    """

    class Room(ModuleType):
        __signature__ = property(lambda _: inspect.signature(later(place)))

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return later(place)(*arguments, **options)

    sys.modules[room].__class__ = Room
