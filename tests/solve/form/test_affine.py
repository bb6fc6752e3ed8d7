"""Affine expressions as entries of a matrix, beside CVXPY's own code and their values."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from fairopt.solve.form import affine

RANDOM = np.random.default_rng(58)
DENSE, WIDE = RANDOM.uniform(-1, 1, (3, 4)), RANDOM.uniform(-1, 1, (4, 2))
SPARSE = sparse.csr_array(np.where(DENSE > 0, DENSE, 0.0))

x, y, t = cp.Variable(4), cp.Variable((3, 4)), cp.Variable()
EXPRESSIONS = {
    "variable": x,
    "sum": 2 * x - t + np.arange(4.0) + 1,
    "quotient": (x + 1) / np.array([1.0, 2.0, 3.0, 7.0]) / 3,
    "total": cp.sum(x) - 2 * cp.sum(y) + 5,
    "dense": DENSE @ x,
    "sparse": SPARSE @ (2 * x - 3),
    "dot": np.array([1.0, 0.0, -2.0, 4.0]) @ x,
    "of a matrix": DENSE.T @ y - 1,
    "from the right": y @ WIDE,
    "vector from the right": x @ WIDE,
    "matrix by a vector": y @ np.arange(4.0),
    "vector by a matrix": np.arange(3.0) @ y,
    "slices": x[1:3] - x[3:1:-1],
    "backwards": y[::-1, ::2],
    "entry": x[2] + y[1, 3],
    "indices": x[[0, 0, 3]],
    "transposed": y.T @ DENSE,
    "reshaped": cp.reshape(y, (4, 3), order="F") + cp.reshape(y, (4, 3), order="C"),
    "stacked": cp.hstack([x, t, 3.0, y[0]]),
    "rows": cp.vstack([x, 2 * x, y]),
    "broadcast": y + x,
    "by column": cp.sum(y, axis=0) - x,
    "diagonal": cp.diag(x),
    "differences": cp.diff(x),
    "product": cp.kron(np.eye(2), y),
    "nothing": 0 * x,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_entries_are_those_of_cvxpy_and_of_the_values(name: str) -> None:
    some = [EXPRESSIONS[name], t + 1.0]
    variables = list({v.id: v for one in some for v in one.variables()}.values())
    ends = np.cumsum([0, *(v.size for v in variables)]).tolist()
    starts, n = dict(zip((v.id for v in variables), ends, strict=False)), ends[-1]
    shape = sum(one.size for one in some), n + 1

    def table(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
        row, column, value = found
        return sparse.coo_array((value, (row, column)), shape=shape).toarray()

    here = table(affine.affine_entries(some, starts, n))
    np.testing.assert_allclose(here, table(affine.by_cvxpy(some, starts, n)), rtol=1e-15, atol=1e-15)
    point = np.random.default_rng(1).uniform(-1, 1, n)
    for variable in variables:
        at = starts[variable.id]
        variable.value = point[at : at + variable.size].reshape(variable.shape, order="F")
    values = np.concatenate([np.ravel(one.value, order="F") for one in some])
    np.testing.assert_allclose(here @ np.append(point, 1.0), values, rtol=1e-13, atol=1e-13)


def test_usual_nodes_are_written_without_cvxpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(affine, "by_cvxpy", refuse)
    usual = [one for name, one in EXPRESSIONS.items() if name not in ("diagonal", "product")]
    variables = {x.id: 0, y.id: 4, t.id: 16}
    row, *_ = affine.affine_entries(usual, variables, 17)
    assert row.max() < sum(one.size for one in usual)
