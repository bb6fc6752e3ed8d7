"""The settings of fairopt's tests, and helpers of both: what the packages compute, slow and obviously right."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = map(str, (HERE / "helpers", HERE / "read" / "kubernetes", HERE.parents[1] / "tests"))

import settings  # noqa: E402, F401
