"""Hooks of the tests of both distributions, and the option ``--cone-only``."""

import contextlib
import functools
import gc
import sys
from pathlib import Path
from typing import Any

# So that `oracle` can be imported: what the package computes, slow and obviously right.
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pytest
import settings  # noqa: F401

LEFT_OUT = pytest.StashKey[set[str]]()  # names of methods, with `--cone-only`
SOLVERS_DIGITS = 1e-5  # of two logarithms a gap of 5e-12 left errors of 2e-6 in shares


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
