"""python-flint on first use: balls of real numbers, and fractions."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fairopt.errors import optional


def required() -> Any:
    """The module; `MissingExtra` if it is not installed."""
    return optional("flint", "exact", "exact answers", "python-flint")


class _Flint:
    """The module, imported when an attribute is first used."""

    @cached_property
    def _module(self) -> Any:
        return required()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        setattr(self, name, value)
        return value


flint: Any = _Flint()
