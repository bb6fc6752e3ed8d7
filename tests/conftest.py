"""Settings of all tests: examples that do not change between runs, pictures without a screen, oracles at hand."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")
TESTS = str(Path(__file__).parent)
if TESTS not in sys.path:  # so that `oracle` can be imported: what the package computes, slow and obviously right
    sys.path.insert(0, TESTS)

# `ci` draws the same examples each time; HYPOTHESIS_PROFILE=thorough looks further, with new ones.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
