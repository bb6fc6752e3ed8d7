"""What the solvers' own ways must not change: names, options, and Ctrl-C."""

import signal
import subprocess
import sys
import time

import cvxpy as cp
import pytest

import fairopt as fo
from fairopt.routes import solvers

LONG = """
import fairopt as fo
instance = fo.datasets.log_uniform(10_000, 4, zeros=0.1, weights=True, limits=True, seed=1)
print("solving", flush=True)
try:
    fo.FDS(5).allocate(instance, solver="{solver}", solver_options={options})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_reaches_python_though_scs_catches_it() -> None:
    options = {"max_iters": 10**8, "eps_abs": 1e-15, "eps_rel": 1e-15}
    code = LONG.format(solver="SCS", options=options)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "solving\n"
        time.sleep(2)  # long enough to be inside the solver, which has work for far longer
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120)[0].endswith("interrupted\n")


def test_names_are_read_in_any_case_and_near_ones_are_proposed() -> None:
    assert solvers.named("clarabel") == "CLARABEL"
    with pytest.raises(fo.SolverUnavailable, match="CLARABEL"):
        solvers.named("CLARABELL")


def test_a_known_solver_that_is_not_installed_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "installed", lambda: ["CLARABEL"])
    with pytest.raises(fo.SolverUnavailable, match="ECOS is not installed"):
        solvers.named("ECOS")


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS", "ECOS", "HIGHS"])
def test_options_that_a_solver_does_not_know_are_bad_input(solver: str) -> None:
    if solver not in solvers.installed():
        pytest.skip(f"{solver} is not installed")
    with pytest.raises(fo.FairoptError):
        fo.NoFairness().allocate(fo.Instance([[1], [2]], [3]), solver=solver, solver_options={"no_such_option": 1})


def test_an_infeasible_problem_is_called_so_by_every_solver() -> None:
    x = cp.Variable(nonneg=True)
    for solver in solvers.chain(linear=True):
        problem = cp.Problem(cp.Maximize(x), [x <= 1, x >= 2])
        assert solvers.run(problem, solver).status.startswith("infeasible")
