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
TESTS = str(Path(__file__).parent)
if TESTS not in sys.path:  # so that `oracle` can be imported: what the package computes, slow and obviously right
    sys.path.insert(0, TESTS)

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import typer.testing  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# `ci` draws the same examples each time; HYPOTHESIS_PROFILE=thorough looks further, with new ones.
settings.register_profile(
    "ci", max_examples=10, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

LEFT_OUT = pytest.StashKey[set[str]]()  # names of methods, with `--cone-only`
SOLVERS_DIGITS = 1e-5  # of two logarithms a gap of 5e-12 left errors of 2e-6 in shares

# A runner makes the program's commands anew for each call, which takes longer than most calls. Here it does so only
# when more commands have been registered.
made = functools.cache(lambda app, registered: typer.main.get_command(app))
typer.testing._get_command = lambda app: made(app, len(app.registered_commands))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cone-only", action="store_true", help="without methods that add speed only; not in CI")


def pytest_configure(config: pytest.Config) -> None:
    """With ``--cone-only``, take what adds speed only out of the table of methods, and compare as many digits as
    solvers give.
    """
    if config.getoption("cone_only"):
        from fairopt.solve.table import TABLE

        config.stash[LEFT_OUT] = {method.name for method in TABLE if method.only_speed}
        TABLE[:] = [method for method in TABLE if not method.only_speed]
        np.testing.assert_allclose = functools.partial(_by_solvers_digits, np.testing.assert_allclose, "rtol")
        pytest.approx = functools.partial(_by_solvers_digits, pytest.approx, "rel")


def _by_solvers_digits(compare: Any, name: str, *values: Any, **options: Any) -> Any:
    """A comparison of numbers whose relative tolerance, called ``name``, is at least `SOLVERS_DIGITS`."""
    return compare(*values, **options | {name: max(options.get(name) or 0.0, SOLVERS_DIGITS)})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--cone-only``, leave out what states names, sizes or times of methods."""
    if config.getoption("cone_only"):
        for item in items:
            if item.get_closest_marker("fast_methods"):
                item.add_marker(pytest.mark.skip(reason="of fast methods"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """With ``--cone-only``, leave out the rest of a test that asks for a method, or asserts that one answered, which is
    not in the table.
    """
    try:
        return (yield)
    except (AssertionError, ValueError) as error:
        if any(f"'{name}'" in str(error).partition("\n")[0] for name in item.config.stash.get(LEFT_OUT, ())):
            pytest.skip("of fast methods")
        raise


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not in what has been imported and collected, which stays."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much CPU time the run took, with that of its workers."""
    with contextlib.suppress(ImportError):  # Windows counts no time of other processes
        import resource

        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        terminalreporter.write_line(f"{sum(one.ru_utime + one.ru_stime for one in used):.0f} s of CPU")
