"""Units of unknowns by equilibration."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import fairopt as fo
from fairopt.blocks.rows import Rows
from fairopt.formulation.equilibration import equilibrated
from fairopt.formulation.program import ConeModel, Program


@dataclass(frozen=True, repr=False)
class Within(fo.Constraint):
    """Nobody runs more than some multiple of the tasks of another."""

    factor: float

    def rows(self, pairs):
        a, b = np.nonzero(~np.eye(pairs.instance.n_users, dtype=bool))
        return {"pairs": Rows(pairs.totals[a] - self.factor * pairs.totals[b])}


def terms(rows, column, units):
    """What columns sum to after each row is divided by its sum."""
    table = abs(rows.toarray()) * units[column]
    return (table / table.sum(axis=1, keepdims=True)).sum(axis=0)


@pytest.mark.parametrize("seed", range(5))
def test_columns_get_the_part_of_each_row_that_equal_terms_have(seed):
    rng = np.random.default_rng(seed)
    kept = rng.random((12, 6)) < 0.6
    kept[:, 0] = True
    table = rng.choice([-1, 1], kept.shape) * np.exp(4 * rng.normal(size=kept.shape))
    rows = sparse.csr_array(np.where(kept, table, 0))
    column = np.arange(6)
    units = equilibrated(rows, column, np.exp(3 * rng.normal(size=6)))
    aim = (kept / kept.sum(axis=1, keepdims=True)).sum(axis=0)
    assert_allclose(terms(rows, column, units), aim, rtol=0.05)


def test_units_follow_the_units_of_tasks_and_not_those_of_rows():
    rng = np.random.default_rng(1)
    table, size = np.exp(rng.normal(size=(9, 4))), np.exp(rng.normal(size=4))
    of_rows, of_tasks = np.exp(9 * rng.normal(size=9)), np.exp(3 * rng.normal(size=4))
    one = equilibrated(sparse.csr_array(table), np.arange(4), size)
    other = equilibrated(sparse.csr_array(of_rows[:, None] * table / of_tasks), np.arange(4), size * of_tasks)
    assert_allclose(other, one * of_tasks, rtol=1e-9)


def test_unknowns_in_no_row_keep_their_size_and_the_others_their_mean():
    rows = sparse.csr_array([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    units = equilibrated(rows, np.arange(3), np.array([1.0, 7.0, 100.0]))
    assert_allclose(units, [10, 7, 10], rtol=0.02)
    assert equilibrated(sparse.csr_array((0, 3)), np.arange(3), np.array([1.0, 7, 100])).tolist() == [1, 7, 100]


def test_cone_programs_have_these_units_under_rows_of_ones_own_and_sizes_under_ours():
    instance = fo.datasets.log_uniform(8, 3, seed=1)
    own = Program(instance, fo.AlphaFair(1), [Within(2)])
    assert np.ptp(np.log(own.size)) > 3
    assert np.ptp(np.log(own.units)) < 0.1
    assert ConeModel(own).scale.tolist() == own.units.tolist()
    for constraints in ([], [fo.EnvyFree()]):
        ours = Program(instance, fo.AlphaFair(1), constraints)
        assert ours.units is ours.size


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
