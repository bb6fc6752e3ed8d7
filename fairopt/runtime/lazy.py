"""Imports on first use: CVXPY and SciPy, public names, and functions of later modules.

CVXPY and parts of SciPy take a second to import. Modules take them from here, as
``from fairopt.runtime.lazy import cp, sp``. Water-filling, prices and closed forms on one pool need neither.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cvxpy as cp
    import scipy.sparse as sp
    from scipy import linalg, ndimage, optimize, spatial
    from scipy.cluster import vq
    from scipy.sparse import csgraph
    from scipy.sparse import linalg as sparse_linalg

__all__ = [
    "cp",
    "csgraph",
    "later",
    "linalg",
    "load",
    "ndimage",
    "optimize",
    "public_names",
    "public_places",
    "seconds_since",
    "sp",
    "sparse_linalg",
    "spatial",
    "vq",
]

PACKAGES = {
    "cp": "cvxpy",
    "sp": "scipy.sparse",
    "csgraph": "scipy.sparse.csgraph",
    "sparse_linalg": "scipy.sparse.linalg",
    "linalg": "scipy.linalg",
    "ndimage": "scipy.ndimage",
    "optimize": "scipy.optimize",
    "spatial": "scipy.spatial",
    "vq": "scipy.cluster.vq",
}


_IMPORTS: list[tuple[float, float]] = []  # when each began, on the clock of `time.perf_counter`, and its seconds


def _imported(name: str) -> ModuleType:
    """A module; the time of its first import is kept for `seconds_since`."""
    if name in sys.modules:
        return import_module(name)  # which waits where another thread imports it
    begun, before = time.perf_counter(), len(_IMPORTS)
    module = import_module(name)
    _IMPORTS[before:] = [(begun, time.perf_counter() - begun)]  # in place of those within it
    return module


def seconds_since(begun: float) -> float:
    """Seconds that imports took which began at a time or later."""
    return sum(seconds for start, seconds in _IMPORTS if start >= begun)


class _Lazy(ModuleType):
    """A module in place of one that is imported when an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_imported(self.__name__), name)


def load() -> None:
    """Import CVXPY now, and with it SciPy: before a clock runs, or before processes are forked."""
    _imported("cvxpy")


if not TYPE_CHECKING:
    globals().update({name: _Lazy(package) for name, package in PACKAGES.items()})


def later(place: str) -> Callable[..., Any]:
    """The function at ``"module:name"``, for methods such as `Allocation.plot` whose code is in a later module.

    Such a method has its signature and docstring in its class. Early modules reach later ones in no other way.

    Examples
    --------
    >>> later("fairopt.reading:save").__module__
    'fairopt.reading'
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def public_places(package: str) -> dict[str, str]:
    """The public names of a package and the modules that define them, as its ``__init__.pyi`` imports them."""
    stub = Path(str(sys.modules[package].__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    found = re.findall(r"^from (fairopt\S*) import (\w+) as \2$", stub, re.MULTILINE)
    return {name: module for module, name in found}


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, which import its public names when they are first used."""

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(public_places(package))
        module = None if name.startswith("_") else public_places(package).get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return [*sorted(public_places(package)), "__doc__"]

    return get, names
