"""`fairopt.verify` under its former name, and ``python verify.py ANSWER``, for one version: see `fairopt.checker`."""

from __future__ import annotations

import sys
import warnings
from typing import Any

MOVED = "fairopt.proofs.verify is now fairopt.verify, and python -m fairopt.checker; the old name goes in 0.4"


def __getattr__(name: str) -> Any:
    """`verify` and `Verification`, with a warning."""
    if name not in ("verify", "Verification"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; see fairopt.checker")
    import fairopt

    warnings.warn(MOVED, DeprecationWarning, stacklevel=2)
    return fairopt.verify if name == "verify" else fairopt.checker.Verification


if __name__ == "__main__":
    from pathlib import Path

    sys.path[0] = str(Path(__file__).parents[2])  # instead of this folder, whose modules have names of other packages
    warnings.warn(MOVED, DeprecationWarning, stacklevel=1)
    from fairopt.checker.__main__ import main

    sys.exit(main())
