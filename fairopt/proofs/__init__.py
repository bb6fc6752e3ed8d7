"""Former names, for one version: `Verification`, and `verify`, which ran the checker."""

import sys
import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    """`Verification`, which has moved, for one version."""
    if name != "Verification":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    moved = "fairopt.proofs.Verification is now fairopt.checker.Verification; the old name goes in 0.4"
    warnings.warn(moved, DeprecationWarning, stacklevel=2)
    return sys.modules["fairopt"].checker.Verification
