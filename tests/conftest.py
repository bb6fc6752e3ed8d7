"""Settings of all tests: examples that do not change between runs, pictures without a screen, oracles at hand."""

import contextlib
import functools
import gc
import os
import sys
from pathlib import Path
from typing import Any

# Modules and tests stay in memory: garbage collection among them takes a third of the time of test collection.
gc.set_threshold(100_000, 50, 100)
# Before NumPy is imported: tests run side by side, and their matrices are small.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# What is printed, by subprocesses too, does not depend on the terminal that the tests are started from.
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "NO_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(name, None)
os.environ["TERM"] = "dumb"
# Workers of Dask are forked from a process that has imported what they need, which `forked` starts.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")
TESTS = str(Path(__file__).parent)
if TESTS not in sys.path:  # so that `oracle` can be imported: what the package computes, slow and obviously right
    sys.path.insert(0, TESTS)

import pytest  # noqa: E402
import typer.testing  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# `ci` draws the same examples each time; HYPOTHESIS_PROFILE=thorough looks further, with new ones.
settings.register_profile(
    "ci", max_examples=10, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A runner makes the program's commands anew for each call, which takes longer than most calls. Here it does so only
# when more commands have been registered.
made = functools.cache(lambda app, registered: typer.main.get_command(app))
typer.testing._get_command = lambda app: made(app, len(app.registered_commands))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cone-only", action="store_true", help="without methods that add speed only; not in CI")


def pytest_configure(config: pytest.Config) -> None:
    """With ``--cone-only``, take what adds speed only out of the table of methods."""
    if config.getoption("cone_only"):
        from fairopt.solve.table import TABLE

        TABLE[:] = [method for method in TABLE if not method.only_speed]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--cone-only``, leave out what states names, sizes or times of methods."""
    if config.getoption("cone_only"):
        for item in items:
            if item.get_closest_marker("fast_methods"):
                item.add_marker(pytest.mark.skip(reason="of fast methods"))


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not among what has been imported and collected, which stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much CPU time the run took, with that of its workers."""
    with contextlib.suppress(ImportError):  # Windows counts no time of other processes
        import resource

        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        terminalreporter.write_line(f"{sum(one.ru_utime + one.ru_stime for one in used):.0f} s of CPU")
