"""CVXPY and the parts of SciPy, which take a second to import: imported when something of theirs is first used.

Modules take them from here, as ``from fairopt.lazy import cp, sp``, and use them as if they had imported them. On one
pool water-filling, prices and closed forms need neither.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cvxpy as cp
    import scipy.sparse as sp
    from scipy import linalg, ndimage, optimize
    from scipy.cluster import vq
    from scipy.sparse import csgraph
    from scipy.sparse import linalg as sparse_linalg

__all__ = ["cp", "csgraph", "linalg", "load", "ndimage", "optimize", "sp", "sparse_linalg", "vq"]

PACKAGES = {
    "cp": "cvxpy", "sp": "scipy.sparse", "csgraph": "scipy.sparse.csgraph", "sparse_linalg": "scipy.sparse.linalg",
    "linalg": "scipy.linalg", "ndimage": "scipy.ndimage", "optimize": "scipy.optimize", "vq": "scipy.cluster.vq",
}  # fmt: skip


class _Lazy(ModuleType):
    """A module in place of one that is imported when an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def load() -> None:
    """Import CVXPY now, and with it SciPy: before a clock runs, or before processes are forked."""
    import_module("cvxpy")


if not TYPE_CHECKING:
    globals().update({name: _Lazy(package) for name, package in PACKAGES.items()})
