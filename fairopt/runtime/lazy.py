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

from fairopt.errors import optional
from fairopt.runtime.extensions import moved
from fairopt.runtime.threads import relimit

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
    "pandas",
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


_IMPORTS: list[tuple[float, float]] = []  # start on the clock of `time.perf_counter`, and seconds


def _imported(name: str) -> ModuleType:
    """A module, with the seconds of its first import recorded."""
    if name in sys.modules:
        return import_module(name)  # waits if another thread is importing it
    begun, before = time.perf_counter(), len(_IMPORTS)
    module = import_module(name)
    _IMPORTS[before:] = [(begun, time.perf_counter() - begun)]  # replaces nested imports
    relimit()  # SciPy has BLAS of its own
    return module


def seconds_since(begun: float) -> float:
    """Seconds of the imports that began at a time or later."""
    return sum(seconds for start, seconds in _IMPORTS if start >= begun)


class _Lazy(ModuleType):
    """A stand-in that imports its module on the first access to an attribute, and gives way to it.

    Small problems look up thousands of names, each of which takes ten times as long through a stand-in.
    """

    def __getattr__(self, name: str) -> Any:
        if (module := vars(self).get("_module")) is None:
            self._module = module = _imported(self.__name__)
            known = next(short for short, package in PACKAGES.items() if package == self.__name__)
            for holder in list(sys.modules.values()):
                if getattr(holder, "__dict__", {}).get(known) is self:
                    setattr(holder, known, module)
        return getattr(module, name)


def load() -> None:
    """Import CVXPY, and with it SciPy, before a clock starts or a process is forked."""
    _imported("cvxpy")


if not TYPE_CHECKING:
    globals().update({name: _Lazy(package) for name, package in PACKAGES.items()})


def pandas() -> Any:
    """Pandas, for ``to_frame()``; `MissingExtra` if it is not installed."""
    return optional("pandas", "parquet", "to_frame()")


def later(place: str) -> Callable[..., Any]:
    """The function at ``"module:name"``, for methods such as `Allocation.plot` whose code is in a later layer.

    Modules of earlier layers reach later ones in no other way.
    """
    module, _, name = place.partition(":")
    __import__(module)  # a small call has several: `import_module` takes four times as long for what is there
    return getattr(sys.modules[module], name)


@cache
def public_places(package: str) -> dict[str, str]:
    """The public names of a package and the modules that define them, as its ``__init__.pyi`` imports them.

    An import of ``*`` is of the names in the module's ``__all__``, which is read without importing it. A line
    ``name: _Type`` is of a package inside that can also be called.
    """
    stub = Path(str(sys.modules[package].__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    places, top = dict.fromkeys(re.findall(r"^(\w+): _", stub, re.MULTILINE), package), Path(__file__).parents[2]
    for module, name in re.findall(r"^from (fairopt\S*) import (?:(\w+) as \2|\*)$", stub, re.MULTILINE):
        names = [name]
        if not name:
            text = top.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
            names = re.findall(r'"(\w+)"', text.partition("__all__ = [")[2].partition("]")[0])
        places |= dict.fromkeys(names, module)
    return places


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, which import its public names when they are first used."""

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(public_places(package))
        module = None if name.startswith("_") else public_places(package).get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{moved(f'{package}.{name}')}")
        value = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return [*sorted(public_places(package)), "__doc__"]

    return get, names
