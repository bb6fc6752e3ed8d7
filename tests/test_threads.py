"""BLAS has one thread while fairopt computes, and before and after as many as the user gave it."""

import os
import subprocess
import sys
import threading
import time

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # its OpenBLAS
from threadpoolctl import threadpool_info, threadpool_limits

import fairopt as fo
from fairopt.runtime import subprocesses
from fairopt.runtime.threads import one_thread
from fairopt.solve.cluster import interior_point

GIVEN = 3  # threads, also on one core


def numbers():
    """The numbers of threads of all loaded libraries of BLAS that have threads."""
    found = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return {one["num_threads"] for one in found if one.get("threading_layer") != "disabled"}


@pytest.fixture(autouse=True)
def given():
    if not numbers():
        pytest.skip("no library of BLAS that threadpoolctl knows")
    with threadpool_limits(GIVEN, "blas"):
        yield
        assert numbers() == {GIVEN}


@pytest.fixture
def cluster():
    rng = np.random.default_rng(1)
    return fo.Instance(rng.uniform(1, 10, (12, 2)), rng.uniform(50, 100, (6, 2)), eligible=rng.random((12, 6)) < 0.8)


@pytest.fixture
def pool():
    return fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])


def seen_in(monkeypatch, place):
    """Numbers of threads at each call of the function at ``module:name``."""
    module, _, name = place.partition(":")
    __import__(module)
    found, whole = set(), getattr(sys.modules[module], name)

    def spied(*given, **named):
        found.update(numbers())
        return whole(*given, **named)

    monkeypatch.setattr(sys.modules[module], name, spied)
    return found


def test_prices_of_several_servers_are_factored_on_one_thread(cluster, monkeypatch):
    found = seen_in(monkeypatch, f"{interior_point.__name__}:factored")
    fo.FDS(2).allocate(cluster)
    assert found == {1}


CALLS = {
    "allocate": ("fairopt.proof.gate:judge", lambda pool, tmp: fo.DRF().allocate(pool)),
    "whole tasks": ("fairopt.proof.gate:whole", lambda pool, tmp: fo.DRF().allocate(pool, integral="rounded")),
    "a mechanism": ("fairopt.proof.gate:of_steps", lambda pool, tmp: fo.SequentialMinMax().allocate(pool)),
    "PS-DSF": ("fairopt.policies.psdsf:equilibrium", lambda pool, tmp: fo.PSDSF().allocate(pool)),
    "HDRF": (
        "fairopt.policies.hierarchical:fill",
        lambda pool, tmp: fo.HDRF().allocate(pool.replace(teams={"team": ["a", None]})),
    ),
    "certify": ("fairopt.solve.solved_problem:read_problem", lambda pool, tmp: certified(pool)),
    "many": ("fairopt.scale.many:judge_batch", lambda pool, tmp: fo.allocate_many(fo.DRF(), [DEMANDS], [9, 9])),
    "shards": (
        "fairopt.solve.sharded.workers:bottlenecks_of",
        lambda pool, tmp: fo.allocate_sharded(fo.DRF(), [np.array(DEMANDS)], capacities=[9, 9]),
    ),
    "load": ("fairopt.solve.judged_again:restored", lambda pool, tmp: saved(pool, tmp)),
    "prices": ("fairopt.derivatives.prices:Optimum", lambda pool, tmp: fo.FDS(2).allocate(pool).prices),
    "sensitivity": (
        "fairopt.derivatives.sensitivity:Optimum",
        lambda pool, tmp: fo.sensitivity(fo.FDS(2).allocate(pool)),
    ),
    "check": ("fairopt.properties.checks:require_feasible", lambda pool, tmp: fo.check(fo.DRF().allocate(pool))),
}
DEMANDS = [[1.0, 2.0], [3.0, 1.0]]


def certified(pool):
    problem = fo.MostTasks().problem(pool)
    problem.solve(solver="HIGHS")
    return fo.MostTasks().certify(problem, pool)


def saved(pool, tmp):
    fo.DRF().allocate(pool).save(tmp / "answer.json")
    return fo.Allocation.load(tmp / "answer.json")


@pytest.mark.parametrize("call", CALLS)
def test_calls_compute_on_one_thread(call, pool, tmp_path, monkeypatch):
    place, run = CALLS[call]
    found = seen_in(monkeypatch, place)
    run(pool, tmp_path)
    assert found == {1}


def test_derivatives_are_computed_on_one_thread_when_they_are_first_read(pool, monkeypatch):
    sensitivity = fo.sensitivity(fo.FDS(2).allocate(pool))
    found = seen_in(monkeypatch, "fairopt.derivatives.sensitivity:_welfare_rate")
    assert sensitivity.capacities.total.any()
    assert found == {1}


def test_the_number_returns_after_an_exception(pool):
    with pytest.raises(fo.errors.NotCertified):
        fo.Policy(lambda model: cp.sum(cp.sqrt(model.tasks))).allocate(
            pool, solver="CLARABEL", solver_options={"max_iter": 1}
        )
    assert numbers() == {GIVEN}


def test_nested_blocks_restore_once():
    with one_thread():
        with one_thread():
            pass
        assert numbers() == {1}
    assert numbers() == {GIVEN}


def test_a_limit_that_the_user_sets_inside_stays():
    with one_thread():
        threadpool_limits(2, "blas")
    assert numbers() == {2}
    threadpool_limits(GIVEN, "blas")


@pytest.mark.parametrize("first_to_leave", ["main", "other"])
def test_two_overlapping_threads_do_not_restore_each_others_limits(first_to_leave):
    entered, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with one_thread():
            entered.set()
            leave.wait(10)
            seen.append(numbers())

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        assert entered.wait(10)
        if first_to_leave == "other":
            leave.set()
            thread.join()
            assert numbers() == {1}
    if first_to_leave == "main":
        assert numbers() == {1}
        leave.set()
        thread.join()
    assert seen == [{1}]
    assert numbers() == {GIVEN}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_forked_beside_a_call_of_another_thread_has_its_number_back():
    entered, leave = threading.Event(), threading.Event()

    def other():
        with one_thread():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(10)
    child = os.fork()
    if not child:
        with one_thread():
            inside = numbers()
        os._exit(0 if (inside, numbers()) == ({1}, {GIVEN}) else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


FRESH = """
import sys
import fairopt as fo, numpy as np
from fairopt.solve.cluster import interior_point
from threadpoolctl import threadpool_info
assert "scipy.linalg" not in sys.modules

def numbers():
    found = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return sorted(one["num_threads"] for one in found if one.get("threading_layer") != "disabled")

def factored(matrix):
    inside.append(numbers())
    return whole(matrix)

inside, before, whole = [], numbers(), interior_point.factored
interior_point.factored = factored
fo.FDS(2).allocate(fo.Instance([[2, 3], [2, 1]], [[6, 4], [1, 3]]))
print(before, inside[0], numbers())
"""


def test_a_library_that_scipy_brings_within_the_first_call_is_limited_too():
    two = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    printed = subprocess.run([sys.executable, "-c", FRESH], env=two, capture_output=True, text=True, check=True).stdout
    before, inside, after = map(eval, printed.strip().replace("] [", "]; [").split("; "))
    assert inside == [1] * len(inside)
    assert set(after) == set(before)


class Numbers:
    """Unpickled, it raises an error that says the numbers of threads."""

    def __reduce__(self):
        return exec, ("import threadpoolctl as t; raise ValueError([i['num_threads'] for i in t.threadpool_info()])",)


def test_solvers_in_a_subprocess_have_one_thread():
    with pytest.raises(subprocesses._CannotSend, match=r"ValueError: \[1(, 1)*\]"):
        subprocesses.solve("linprog", time.perf_counter() + 60.0, numbers=Numbers())
