"""HiGHS prints nothing that was not asked for, and forked processes can use it."""

import os

import forked
import pytest

# A process that has not used HiGHS yet, as its banner comes once a process.
PROGRAM = """
import fairopt as fo
servers = fo.Instance([[40, 8, 8], [8, 5, 1]], [[200, 200, 200], [50, 90, 70]])
{ask}
"""
ROUTES = {
    "levels": "fo.DRF().allocate(servers)",
    "linear programs": "fo.MostTasks().allocate(servers)",
    "linear programs within a time": "fo.MostTasks().allocate(servers, solver='HIGHS', time_limit=60)",
    "whole tasks": "fo.DRF().allocate(servers, integral=True)",
}


@pytest.mark.parametrize("route", ROUTES)
def test_no_route_prints_the_banner_of_highs(route: str) -> None:
    done = forked.run("-c", PROGRAM.format(ask=ROUTES[route]))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


FORK = """
import os, threading
def ask():
    return fo.DRF().allocate(servers, integral=True, solver={solver!r}).tasks.tolist()
def forked(ask):
    child = os.fork()
    if not child:
        ask()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
threading.Timer(60, os._exit, [9]).start()
assert ask() == [3, 16]
assert forked(ask) == 0
assert forked(lambda: forked(ask)) == 0  # of the child of a child that did not ask
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("solver", [None, "SCIPY"])
def test_a_forked_process_finds_whole_tasks_after_its_parent_has(solver: str | None) -> None:
    done = forked.run("-c", PROGRAM.format(ask=FORK.format(solver=solver)))
    assert (done.returncode, done.stderr) == (0, "")
