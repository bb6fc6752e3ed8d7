"""The settings of fairopt's tests, and its helpers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import settings  # noqa: F401
