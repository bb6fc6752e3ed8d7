"""Settings of all tests, those of fairopt-clusters too: examples that do not change, pictures without a screen."""

import functools
import gc
import os
import sys

# Modules and tests stay in memory: garbage collection among them takes a third of the time of test collection.
gc.set_threshold(100_000, 50, 100)
os.environ.setdefault("MPLBACKEND", "Agg")
# What is printed, by subprocesses too, does not depend on the terminal that the tests are started from.
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "NO_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(name, None)
os.environ["TERM"] = "dumb"
# Bytecode of tests with their asserts rewritten, and of modules that subprocesses import, is written once and read.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Workers of Dask are forked from a process that has imported what they need, which `forked` starts.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")

import typer.testing  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# `ci` draws the same examples each time; HYPOTHESIS_PROFILE=thorough looks further, with new ones.
settings.register_profile(
    "ci", max_examples=10, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"  # tests that draw by seeds draw more then too

# A runner makes the program's commands anew for each call, which takes longer than most calls. Here it does so only
# when more commands have been registered.
made = functools.cache(lambda app, registered: typer.main.get_command(app))
typer.testing._get_command = lambda app: made(app, len(app.registered_commands))
