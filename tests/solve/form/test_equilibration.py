"""Units of unknowns, rows and cones by equilibration."""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import fairopt as fo
from fairopt.blocks.rows import Rows
from fairopt.solve.form import solvers
from fairopt.solve.form.equilibration import Equilibrated
from fairopt.solve.form.program import Program


@dataclass(frozen=True, repr=False)
class Within(fo.Constraint):
    """Nobody runs more than some multiple of the tasks of another."""

    factor: float

    def rows(self, pairs):
        a, b = np.nonzero(~np.eye(pairs.instance.n_users, dtype=bool))
        return {"pairs": Rows(pairs.totals[a] - self.factor * pairs.totals[b])}


@pytest.mark.parametrize("alpha", [1, 2])
@pytest.mark.parametrize("factor", [2, 10])
def test_tasks_within_a_multiple_of_each_other_need_no_first_order_method(alpha, factor):
    found = fo.Policy(fo.AlphaFair(alpha), [Within(factor)]).allocate(fo.datasets.log_uniform(70, 3, seed=2))
    assert found.certificate.ok
    assert "SCS" not in [attempt.solver for attempt in found.certificate.tried]
    assert found.tasks.max() <= factor * found.tasks.min() * (1 + 1e-6)


def test_tasks_that_must_be_equal_are_what_equal_tasks_can_be():
    instance = fo.datasets.log_uniform(30, 3, seed=3)
    found = fo.Policy(fo.AlphaFair(1), [Within(1)]).allocate(instance)
    most = (instance.total_capacities / instance.per_server_demands[:, 0].sum(axis=0)).min()
    assert_allclose(found.tasks, most, rtol=1e-6)


# -- compiled cone programs ------------------------------------------------------------------------------------------

needs_ecos = pytest.mark.skipif("ECOS" not in cp.installed_solvers(), reason="ECOS is not installed")
SIZES = 10.0 ** np.arange(-4, 5, 2)


def further_try(problem, solver="CLARABEL", again=1, **limits):
    """The status of a solver's further try."""
    return solvers.run(problem, solver, again=again, **limits).status


@pytest.mark.parametrize("limits", [{}, {"time_limit": 30.0}])
def test_an_answer_in_equilibrated_units_is_given_in_natural_ones(limits):
    x = cp.Variable(5)
    within = SIZES @ x <= 5
    problem = cp.Problem(cp.Maximize(cp.sum(cp.log(x))), [within])
    assert further_try(problem, **limits) == "optimal"
    assert_allclose(x.value, 1 / SIZES, rtol=1e-4)
    assert_allclose(within.dual_value, 1, rtol=1e-4)
    assert_allclose(problem.objective.value, 0, atol=1e-7)


@pytest.mark.parametrize(
    ("solver", "again"), [("CLARABEL", 1), ("CLARABEL", 2), pytest.param("ECOS", 1, marks=needs_ecos)]
)
def test_equations_with_a_slack_are_in_units_of_their_row(solver, again):
    """Of x + y <= 1 in units of 1e-8, and x - y == 0.2 in units of 1e7: (0.6, 0.4)."""
    x, slack = cp.Variable(2), cp.Variable()
    rows = [1e-8 * cp.sum(x) + slack == 1e-8, 1e7 * (x[0] - x[1]) == 2e6]
    problem = cp.Problem(cp.Maximize(cp.sum(cp.sqrt(x))), [*rows, slack >= 0])
    assert further_try(problem, solver, again).startswith("optimal")
    assert_allclose(x.value, [0.6, 0.4], rtol=1e-6)
    rate = (0.6**-0.5 + 0.4**-0.5) / 4  # of the first row, per unit
    assert_allclose(abs(rows[0].dual_value) * 1e-8, rate, rtol=1e-4)


def test_squares_are_in_these_units_too():
    x = cp.Variable(5)
    total = SIZES @ x == 3e3
    problem = cp.Problem(cp.Minimize(cp.sum_squares(cp.multiply(SIZES, x) - 1e3)), [total])
    assert further_try(problem) == "optimal"
    assert_allclose(SIZES * x.value, np.full(5, 600), rtol=1e-6)
    assert_allclose(abs(total.dual_value), 800, rtol=1e-6)
    assert_allclose(problem.objective.value, 5 * 400**2, rtol=1e-6)


def test_all_entries_are_at_most_about_one_and_a_cone_has_one_factor():
    x, t = cp.Variable(5), cp.Variable()
    curved = [cp.SOC(t, cp.multiply(SIZES, x)), cp.PowCone3D(1e3 * x[0], x[1], 1e-3 * x[2], 0.3), x >= 1e-3]
    data = cp.Problem(cp.Minimize(t - cp.sum(cp.log(x))), curved).get_problem_data("CLARABEL")[0]
    found = Equilibrated(data)
    largest = abs(found.data["A"])
    assert largest.max(axis=0).toarray().min() > 0.9
    assert largest.max() < 1.1
    assert np.abs(found.data["b"]).max() == pytest.approx(1)
    dims, at = data["dims"], data["dims"].zero + data["dims"].nonneg
    for size in [*dims.soc, *[3] * (dims.exp + len(dims.p3d))]:
        assert np.ptp(found.rows[at : at + size]) == 0
        at += size
    assert at == len(found.rows)


@dataclass(frozen=True, repr=False)
class Loose(fo.Constraint):
    """Each user's tasks are at most some multiple of those of the next one."""

    multiples: tuple[float, ...]

    def rows(self, pairs):
        users = np.arange(len(self.multiples))
        after = (users + 1) % len(users)
        return {"pairs": Rows(pairs.totals[users] - sparse.diags_array(self.multiples) @ pairs.totals[after])}


def test_rows_that_sizes_do_not_break_leave_them_as_they_are():
    instance = fo.datasets.log_uniform(8, 3, seed=1)
    size = Program(instance, fo.AlphaFair(1), []).size
    loose = Program(instance, fo.AlphaFair(1), [Loose(tuple(10 * size / np.roll(size, -1)))])
    assert loose.units.tolist() == size.tolist()


def test_powers_are_near_one_though_tasks_must_be_alike():
    """In units of rows alone some terms were 1e10 times others: no solver had a gap below 0.4."""
    instance = fo.datasets.log_uniform(60, 3, seed=1)
    policy = fo.Policy(fo.AlphaFair(5) + 1e6 * fo.Total(fo.Tasks()), [Loose((10.0,) * 60)])
    assert policy.allocate(instance, solver="CLARABEL").certificate.gap <= 1e-6
