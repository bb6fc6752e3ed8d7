"""What the solvers' own ways must not change: names, options, and Ctrl-C."""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import forked
import numpy as np
import pytest

import fairopt as fo
from fairopt.solve.form import solvers

LONG = """
import fairopt as fo
instance = fo.datasets.log_uniform(1_000, 4, zeros=0.1, weights=True, limits=True, seed=1)
try:
    fo.FDS(5).allocate(instance, solver="{solver}", solver_options={options}, verbose=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_reaches_python_though_scs_catches_it() -> None:
    options = {"max_iters": 10**8, "eps_abs": 1e-15, "eps_rel": 1e-15}
    program = forked.Program("-c", LONG.format(solver="SCS", options=options))
    program.wait_for("iter | pri res", program.out)  # now it is inside the solver, which has work for hours
    program.interrupt()
    assert program.done().stdout.endswith("interrupted\n")


@dataclass(frozen=True)
class AtMost(fo.Constraint):
    """The first user runs at most a number of tasks."""

    tasks: float

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        return {"most": model.tasks[0] <= self.tasks}


def test_numbers_that_scs_cannot_square_are_not_given_to_it(capfd: pytest.CaptureFixture[str]) -> None:
    policy, instance = fo.Policy(fo.Total(), [AtMost(1e300)]), fo.Instance([[1, 2], [2, 1]], [3, 3])
    with pytest.raises(
        fo.errors.NotCertified, match=r"a number of the problem is 1e\+300, and SCS fails above 1e\+150"
    ):
        policy.allocate(instance, solver="SCS")
    assert policy.allocate(instance, time_limit=60).certificate.ok
    assert capfd.readouterr().out == ""  # SCS would print that it could not determine a status


def test_names_are_read_in_any_case_and_near_ones_are_proposed() -> None:
    assert solvers.named("clarabel") == "CLARABEL"
    with pytest.raises(fo.errors.SolverUnavailable, match="CLARABEL"):
        solvers.named("CLARABELL")


def test_a_known_solver_that_is_not_installed_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "installed", lambda: ["CLARABEL"])
    with pytest.raises(fo.errors.SolverUnavailable, match="ECOS is not installed"):
        solvers.named("ECOS")


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS", "ECOS", "HIGHS", "OSQP", "SCIPY"])
def test_options_that_a_solver_does_not_know_are_bad_input(solver: str) -> None:
    if solver not in solvers.installed():
        pytest.skip(f"{solver} is not installed")
    with pytest.raises(fo.errors.InvalidBlock, match="no_such_option"):
        fo.MostTasks().allocate(fo.Instance([[1], [2]], [3]), solver=solver, solver_options={"no_such_option": 1})


@pytest.mark.parametrize(
    ("solver", "options", "words"),
    [
        ("HIGHS", {"solver": "no such method"}, "no such method"),
        ("HIGHS", {"highs_options": {"time_limit": "soon"}}, "soon"),
        ("HIGHS", {"highs_options": "ipm"}, r"give a dict of HIGHS's own options"),
        ("SCIPY", {"scipy_options": {"no_such_option": 1}}, "no_such_option"),
        ("SCIPY", {"scipy_options": None}, r"give a dict of SCIPY's own options"),
        ("CLARABEL", {"max_iter": "many"}, "max_iter"),
    ],
)
def test_values_that_a_solver_does_not_take_are_bad_input(solver: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        fo.MostTasks().allocate(fo.Instance([[1], [2]], [3]), solver=solver, solver_options=options)


@dataclass(frozen=True)
class Norm(fo.Constraint):
    """The Euclidean norm of users' tasks is at most a number."""

    most: float

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        return {"norm": cp.norm(model.tasks) <= self.most}


NEEDS = {
    "exponential": fo.Policy(fo.AlphaFair(1)),
    "power": fo.Policy(fo.AlphaFair(0.5)),
    "second-order": fo.Policy(fo.Total(), [Norm(10)]),
}
# The cones that solvers take, by their manuals; without power cones CVXPY gives powers to some in second-order ones.
EVERY = frozenset(NEEDS)
CONES = {
    **dict.fromkeys(("CLARABEL", "SCS", "MOREAU"), EVERY),
    **dict.fromkeys(("HIGHS", "SCIPY", "OSQP", "PIQP", "PROXQP"), frozenset()),
    "ECOS": frozenset({"second-order", "exponential"}),
    "QOCO": frozenset({"second-order"}),
    "COPT": frozenset({"second-order", "exponential"}),
}


@pytest.mark.parametrize("cone", NEEDS)
@pytest.mark.parametrize("solver", CONES)
def test_a_solver_is_certified_or_refused_by_naming_a_cone_that_it_does_not_take(solver: str, cone: str) -> None:
    if solver not in solvers.installed():
        pytest.skip(f"{solver} is not installed")
    instance = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    try:
        answer = NEEDS[cone].allocate(instance, solver=solver)
    except fo.errors.SolverUnavailable as error:
        assert error.lacks and not CONES[solver].intersection(error.lacks)
        assert f"it has {error.lacks[0]} cones" in str(error)
        assert f"{solver} cannot take this kind of problem" in str(error)
        assert set(error.lacks) <= {cone, "second-order"}
    else:
        assert answer.certificate.ok and answer.certificate.solver == solver
        assert cone in CONES[solver] or (cone == "power" and "second-order" in CONES[solver])


# -- HiGHS's other methods ------------------------------------------------------------------------------------

DIFFERENT = fo.datasets.log_uniform(10, 2, n_servers=20, different_servers=True, decades=1.0, seed=1)
METHODS = {"interior point": {"solver": "ipm", "run_crossover": "off"}, "PDLP": {"solver": "pdlp"}}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_interior_point_and_pdlp_of_highs_can_be_asked_for_and_are_certified(
    capfd: pytest.CaptureFixture[str], method: str, nested: bool
) -> None:
    options = {"highs_options": METHODS[method]} if nested else METHODS[method]
    allocation = fo.Policy(fo.MaxMin()).allocate(DIFFERENT, solver="HIGHS", solver_options=options)
    assert allocation.certificate.ok and allocation.certificate.solver == "HIGHS"
    assert allocation.objective == pytest.approx(fo.Policy(fo.MaxMin()).allocate(DIFFERENT).objective, rel=1e-6)
    assert capfd.readouterr() == ("", "")  # PDLP prints from C, even with no output to the console


def test_highs_does_what_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    for options, word in [({"solver": "pdlp"}, "PDLP"), ({"solver": "ipm"}, "IPX"), ({"solver": "simplex"}, "simplex")]:
        fo.Policy(fo.MaxMin()).allocate(DIFFERENT, solver="HIGHS", solver_options=options, verbose=True)
        assert word in capfd.readouterr().out


def test_pdlp_that_stops_early_is_judged_by_the_certificate() -> None:
    with pytest.raises(fo.errors.NotCertified) as caught:
        fo.Policy(fo.MaxMin()).allocate(
            DIFFERENT, solver="HIGHS", solver_options={"solver": "pdlp", "kkt_tolerance": 1e-3, "presolve": "off"}
        )
    allocation = caught.value.best
    assert allocation is not None and allocation.certificate.gap > 1e-6
    assert allocation.certificate.tried[0].status == "optimal"  # the solver's word


def test_options_asked_for_by_default_can_be_replaced_in_either_form() -> None:
    for options in ({"primal_feasibility_tolerance": 1e-8}, {"highs_options": {"primal_feasibility_tolerance": 1e-8}}):
        allocation = fo.Policy(fo.MaxMin()).allocate(DIFFERENT, solver="HIGHS", solver_options=options, time_limit=60)
        assert allocation.certificate.ok


def test_an_infeasible_problem_is_called_so_by_every_solver() -> None:
    x = cp.Variable(nonneg=True)
    for solver in solvers.chain(linear=True):
        problem = cp.Problem(cp.Maximize(x), [x <= 1, x >= 2])
        assert solvers.run(problem, solver).status.startswith("infeasible")


class Licence(Exception):
    """As of a solver's own bindings."""


@pytest.mark.parametrize("error", [Licence("no licence was found\nat all"), KeyError("ours")])
def test_what_a_solvers_bindings_raise_is_a_failure_of_the_solver_and_what_we_raise_is_not(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(solvers, "_solve_data", refuse)
    x = cp.Variable(nonneg=True)
    problem = cp.Problem(cp.Maximize(x), [x <= 1])
    if isinstance(error, KeyError):
        with pytest.raises(KeyError):
            solvers.run(problem, "CLARABEL")
    else:
        found = solvers.run(problem, "CLARABEL")
        assert (found.status, found.message) == ("solver_error", "Licence: no licence was found")


def test_a_linear_program_of_many_rows_for_each_unknown_is_solved_by_highs_alone() -> None:
    demands = np.random.default_rng(100).uniform(0.1, 4, (100, 4))  # 1,857 rows of 100 unknowns
    policy, instance = fo.Policy(fo.Total(), [fo.EnvyFree()]), fo.Instance(demands, np.full(4, 100.0))
    a = policy.allocate(instance)
    assert [one.solver for one in a.certificate.tried] == ["linear", "HIGHS"]
    assert a.objective == pytest.approx(policy.allocate(instance, solver="CLARABEL").objective, rel=1e-8)
