"""Cones moved to the slack at a rough answer: the same programs in other units, and notions that need it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.runtime import subprocesses
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Compiled, posed
from fairopt.solve.form.equilibration import Equilibrated
from fairopt.solve.form.recentring import Recentred, error_of, is_closer
from fairopt.solve.form.solvers import TIGHT

DIMS = SimpleNamespace(zero=1, nonneg=2, soc=(3, 1, 4), exp=2, p3d=(0.3, 0.8))


def inside(slack: np.ndarray) -> list[bool]:
    """Whether parts of a slack are in the curved cones of `DIMS`, one by one."""
    a, b, c = slack[3:6], slack[6:7], slack[7:11]
    out = [a[0] >= np.hypot(*a[1:]), b[0] >= 0, c[0] >= np.linalg.norm(c[1:])]
    out += [y > 0 and z > 0 and x <= y * np.log(z / y) for x, y, z in slack[11:17].reshape(2, 3)]
    powers = zip(slack[17:].reshape(2, 3), DIMS.p3d, strict=True)
    return out + [x >= 0 and y >= 0 and x**p * y ** (1 - p) >= abs(z) for (x, y, z), p in powers]


def moved_at(slack: np.ndarray) -> Recentred:
    """The moves of a program whose slack at 0 is given."""
    n = len(slack)
    return Recentred({"A": np.eye(n), "b": slack, "dims": DIMS, "c": np.zeros(n)}, np.zeros(n))


@pytest.mark.parametrize("seed", range(20))
def test_points_are_in_the_same_cones_before_and_after(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = moved_at(10 ** rng.uniform(-6, 6, 23) * rng.choice([-1, 1, 1], 23))
    for _ in range(50):
        point = 10 ** rng.uniform(-2, 2, 23) * rng.choice([-1, 1, 1, 1], 23)
        assert inside(found.moves @ point) == inside(point)


def test_parts_of_a_cone_are_of_one_size_after() -> None:
    slack = np.ones(23)
    slack[3:6] = [1e4 + 1e-4, 1e4 - 1e-4, 2]  # u = 1e4, v = 1e-4, w = 1
    slack[11:14], slack[17:20] = [np.log(1e-5), 1, 1e-5], [1e6, 1e-3, 1]
    after = moved_at(slack).moves @ slack
    np.testing.assert_allclose(after[3:6], [2, 0, 2], atol=1e-7)
    np.testing.assert_allclose(after[11:14], [0, 1, 1], atol=1e-12)
    np.testing.assert_allclose(after[17:19], [1, 1])


def test_a_slack_of_nothing_moves_nothing_too_far() -> None:
    moves = moved_at(np.zeros(23)).moves
    assert np.isfinite(moves.data).all()
    np.testing.assert_array_equal(moves.diagonal(), np.ones(23))


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_factors_are_finite_where_products_of_slack_are_not(size: float) -> None:
    assert np.isfinite(moved_at(np.full(23, size)).moves.data).all()


@pytest.mark.parametrize("least", [0.1, 0.01])
def test_a_solution_in_moved_rows_is_one_of_the_program_as_given(least: float) -> None:
    x = cp.Variable(3)
    objective = cp.Minimize(cp.sum(cp.power(x, -3)) + cp.norm(x) - cp.sum(cp.log(x)))
    limits = [cp.sum(x) <= 1, x[0] <= least]
    compiled = Compiled.of(posed(cp.Problem(objective, limits)), "CLARABEL", {})
    plain = compiled.solve(compiled.data, False, {})
    found = Recentred(compiled.data, plain.x)
    units = Equilibrated(found.data)
    raw = found.natural(units.natural(compiled.solve(units.data, False, TIGHT["CLARABEL"])))
    y = (1 - least) / 2  # of the other two
    best = least**-3 + 2 * y**-3 + np.hypot(least, y * np.sqrt(2)) - np.log(least * y**2)
    assert error_of(compiled.data, raw) < 1e-6 * best
    np.testing.assert_allclose(raw.obj_val + compiled.offset, best, rtol=1e-6)


def test_the_error_of_a_solution_is_its_gap_and_residual() -> None:
    data: dict[str, Any] = {"A": np.array([[-1.0]]), "b": np.array([-2.0]), "c": np.array([3.0])}  # min 3 x, x >= 2
    assert error_of(data, SimpleNamespace(x=np.array([2.0]), z=np.array([3.0]))) == 0
    assert error_of(data, SimpleNamespace(x=np.array([2.5]), z=np.array([3.0]))) == 1.5
    assert error_of(data, SimpleNamespace(x=np.array([2.0]), z=np.array([2.0]))) == 4
    assert np.isnan(error_of(data, SimpleNamespace(x=np.array([]), z=np.array([]))))


ENDS: dict[str, Any] = {
    "infeasible": "PrimalInfeasible",
    "unbounded": "DualInfeasible",
    "a failure": "NumericalError",
    "a panic": RuntimeError("CLARABEL: unwrap of None"),
    "not finite": ValueError("Problem data contains NaN or Inf."),
    "stopped": subprocesses._Stopped(),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("rough", ["AlmostSolved", "MaxIterations"])
def test_a_rough_answer_stands_where_moved_cones_give_none(
    name: str, rough: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the error of what is left is, as a certificate of infeasibility has none."""
    solve, calls, x = solvers._equilibrated, list[Any](), cp.Variable(2)

    def ending(data: dict[str, Any], *rest: Any) -> Any:
        calls.append(data)
        if len(calls) > 1 and isinstance(ENDS[name], Exception):
            raise ENDS[name]
        found = solve(data, *rest)
        found.status = rough if len(calls) == 1 else ENDS[name]
        found.x = found.x * (0.999 if len(calls) == 1 else 1.0)
        return found

    monkeypatch.setattr(solvers, "_equilibrated", ending)
    problem = posed(cp.Problem(cp.Maximize(cp.sum(cp.sqrt(x))), [cp.sum(x) <= 1]))
    attempt = solvers.run(problem, "CLARABEL", again=1)
    assert len(calls) == 2
    assert attempt.status == {"AlmostSolved": "optimal_inaccurate", "MaxIterations": "user_limit"}[rough]
    np.testing.assert_allclose(x.value, 0.5 * 0.999, rtol=1e-6)


@pytest.mark.parametrize("status", ["Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations", "MaxTime"])
def test_of_two_answers_the_one_with_the_smaller_error_is_taken(status: str) -> None:
    data: dict[str, Any] = {"A": np.array([[-1.0]]), "b": np.array([-2.0]), "c": np.array([3.0])}
    exact, off = ({"x": np.array([x]), "z": np.array([3.0])} for x in (2.0, 2.5))
    assert is_closer(data, SimpleNamespace(status=status, **exact), SimpleNamespace(status="AlmostSolved", **off))
    assert not is_closer(data, SimpleNamespace(status=status, **off), SimpleNamespace(status="AlmostSolved", **exact))


@pytest.mark.parametrize("seed", range(8))
def test_powers_of_ones_own_are_certified_where_demands_differ_by_server(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, servers = int(rng.integers(6, 24)), int(rng.integers(2, 5))
    instance = fo.Instance(
        np.exp(rng.uniform(0, 4.7, (n, servers, 2))),
        rng.uniform(16, 110, (servers, 2)),
        task_limits=[float(rng.uniform(0.05, 0.5)) if rng.random() < 0.5 else None for _ in range(n)],
    )

    def fourth(model: fo.Model) -> cp.Expression:
        return -cp.sum(cp.power(model.share(fo.DominantShare()), -4))

    answer = fo.Policy(fourth).allocate(instance)
    named = fo.Policy(fo.AlphaFair(5)).allocate(instance)  # the same optimum, by prices
    assert answer.certificate.ok
    np.testing.assert_allclose((answer.shares**-4).sum(), (named.shares**-4).sum(), rtol=1e-5)
