"""The exact oracles themselves: known programs, and the slow, obviously right versions of pools and of leximin."""

from __future__ import annotations

from fractions import Fraction as F  # noqa: N817

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from oracle import brute_leximin, exact_lp, fractions_waterfill, optimum
from oracle.exact_cluster import Cluster
from oracle.exact_lp import NoEnd, NoPoint, leximin, maximise, ordered, smallest
from oracle.instances import cluster as small_cluster

# Beale (1955): by the largest coefficient and the first row, six pivots lead back to where they began
BEALE = [([F(1, 4), -60, F(-1, 25), 9], 0), ([F(1, 2), -90, F(-1, 50), 3], 0), ([0, 0, 1, 0], 1)]


def test_program_on_which_the_simplex_method_can_cycle_ends():
    best = maximise([F(3, 4), -150, F(1, 50), -6], BEALE)
    assert best.value == F(1, 20) and best.point == [F(1, 25), 0, 1, 0]


def test_floats_are_the_fractions_they_are():
    assert maximise([1], [([0.1], 1)]).value == 1 / F(0.1) != 10


def test_equations_and_floors_need_a_first_phase():
    best = maximise([1, 1], [([1, 0], 3), ([-1, 0], -2)], [([1, 2], 4)])
    assert (best.value, best.point) == (F(7, 2), [3, F(1, 2)])
    assert maximise([1, 0], [], [([1, 1], 2), ([2, 2], 4)]).value == 2  # an equation said twice


integers = st.integers(-4, 4)


@st.composite
def programs(draw):
    n, m, k = draw(st.integers(1, 4)), draw(st.integers(0, 4)), draw(st.integers(0, 2))
    row = st.lists(integers, min_size=n, max_size=n)
    rows = [(draw(row), draw(integers)) for _ in range(m)]
    return draw(row), rows, [(draw(row), draw(integers)) for _ in range(k)]


@given(programs())
def test_same_values_and_verdicts_as_linprog(program):
    worth, at_most, equal = program
    parts = [(np.array([r for r, _ in rows]), [v for _, v in rows]) if rows else (None, None) for rows in program[1:]]
    # presolve of HiGHS calls some unbounded programs infeasible
    there = linprog([-c for c in worth], *parts[0], *parts[1], method="highs", options={"presolve": False})
    try:
        best = maximise(worth, at_most, equal)
    except NoPoint:
        assert there.status in (2, 4)
    except NoEnd:
        assert there.status in (3, 4)
    else:
        assert there.status == 0 and abs(float(best.value) + there.fun) <= 1e-9 * (1 + abs(there.fun))


@pytest.mark.parametrize("seed", range(6))
def test_programs_of_floats_with_rows_that_almost_tie_end_where_the_simplex_method_does(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    part = rng.random((8, 14)) * np.exp(rng.normal(0, 2, (8, 14)))
    table = np.vstack([np.ones(14), *[part * (1 + 1e-12 * rng.normal(size=part.shape)) for _ in range(4)]])
    worth, rows = (
        rng.random(14).tolist(),
        list(zip(table.tolist(), [1.0, *rng.integers(1, 9, 8).tolist() * 4], strict=True)),
    )
    alike = ([1.0, -1.0, *[0.0] * 12], 0.0)
    assert len(rows) * len(worth) > exact_lp.LARGE
    exact = [([*map(F, row)], F(value)) for row, value in [*rows, alike]]
    alone = exact_lp._simplex([*map(F, worth)], exact, len(rows)).value
    monkeypatch.setattr(exact_lp, "_simplex", None)  # what HiGHS forgives is put right without it
    assert maximise(worth, rows, [alike]).value == alone


def drawn(seed: int, pool: bool) -> tuple[Cluster, dict]:
    instance = small_cluster(np.random.default_rng(seed), 4, 1 if pool else 3, 2, by_server=not pool and seed % 3 == 0)
    given_ = instance.to_dict()
    for name in ("users", "resources", "servers", "server_types", "units"):
        del given_[name]
    return Cluster(**given_), given_


@pytest.mark.parametrize("seed", range(40))
def test_levels_of_a_pool_are_those_of_water_filling(seed):
    exact, given_ = drawn(seed, pool=True)
    demands, weights = given_["demands"], given_["weights"]
    capacities = [c * given_["counts"][0] for c in given_["capacities"][0]]
    worth = fractions_waterfill.dominant(demands, capacities)
    tasks = fractions_waterfill.leximin(demands, capacities, worth, weights, given_["task_limits"])
    levels = [t * c / F(w) for t, c, w in zip(tasks, worth, weights, strict=True)]
    assert leximin(exact.forms(exact.dominant()), exact.rows) == levels


@pytest.mark.parametrize("seed", range(25))
def test_levels_on_servers_are_those_of_asking_each_user(seed):
    exact, _ = drawn(seed, pool=False)
    instance = small_cluster(np.random.default_rng(seed), 4, 3, 2, by_server=seed % 3 == 0)
    worth = np.array(exact.dominant(), dtype=float)
    slow = brute_leximin.leximin(brute_leximin.Polytope.of(instance), worth, np.array(instance.weights))
    ours = np.array(leximin(exact.forms(exact.dominant()), exact.rows), dtype=float)
    np.testing.assert_allclose(ours, slow, rtol=1e-6)


def test_what_a_trace_could_buy_is_not_taken_from_the_poorer():
    exact = Cluster([[1, 1e-10], [2, 5]], [[6, 6], [4, 3]], weights=[3, 2], eligible=[[1, 1], [0, 1]])
    levels = leximin(exact.forms(exact.dominant()), exact.rows)
    assert levels[1] == F(1, 6) and abs(levels[0] - F(1, 5)) < F(1, 10**9)


def test_user_with_a_limit_of_0_is_in_no_level():
    exact = Cluster([[1], [1]], [[4], [2]], task_limits=[0, None])
    assert leximin(exact.forms(exact.tasks()), exact.rows) == [6]


def test_share_worth_different_amounts_by_server_sends_users_where_theirs_is_worth_most():
    exact = Cluster([[1], [1]], [[64]] * 3)
    assert smallest(exact.forms([[1, 2, 4], [1, 1, 4]]), exact.rows) == 224


@pytest.mark.parametrize("seed", range(15))
def test_ordered_weights_lie_between_the_smallest_and_the_sum(seed):
    exact, _ = drawn(seed, pool=False)
    forms = exact.forms(exact.dominant())
    whole = maximise([sum(column) for column in zip(*forms, strict=True)], exact.rows).value
    assert ordered(forms, [1], exact.rows) == smallest(forms, exact.rows)
    assert ordered(forms, [1] * 4, exact.rows) == whole
    instance = small_cluster(np.random.default_rng(seed), 4, 3, 2, by_server=seed % 3 == 0)
    worth, v = np.array(exact.dominant(), dtype=float), np.array([3.0, 2.0, 0.5])
    there = optimum.ordered(brute_leximin.Polytope.of(instance), worth, np.array(instance.weights), v)
    assert float(ordered(forms, v.tolist(), exact.rows)) == pytest.approx(there, rel=1e-7)


def test_excess_is_relative_and_a_wrong_place_or_sign_is_infinite():
    exact = Cluster([[1], [1]], [[4], [2]], eligible=[[1, 1], [1, 0]])
    assert exact.excess(np.array([[2.0, 2.0], [2.0, 0.0]])) == 0
    assert exact.excess(np.array([[2.0, 3.0], [1.0, 0.0]])) == 0.5
    assert exact.excess(np.array([[2.0, 2.0], [1.0, 1e-9]])) == float("inf")
    assert exact.excess(np.array([[2.0, -1e-9], [1.0, 0.0]])) == float("inf")
