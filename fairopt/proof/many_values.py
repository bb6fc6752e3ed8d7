"""Values of one expression of CVXPY at many points at once, with bounds on their rounding.

A node of shape s has values of shape (n_points, *s), or s where it is the same at all points. Elementwise atoms,
sums, products with constants, and reductions of all entries take all points in one call of NumPy; other atoms are
called point by point, 5 to 20 microseconds each. By CVXPY's `value` a soft minimum of 20 users takes 90 microseconds a
point, and here 2. The rules of rounding are those of one point (`fairopt.blocks.written_values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairopt.blocks.written_values import Values, value_and_error
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp


class ManyPoints(Values):
    """Nodes at values of variables by id, each of shape (n_points, *shape)."""

    def __init__(self, at: Mapping[int, Float], size: int) -> None:
        self.at, self.size = at, size

    def of(self, leaf: cp.Expression) -> Any:
        """Its values."""
        return self.at[leaf.id] if isinstance(leaf, cp.Variable) else leaf.value

    def numeric(self, node: cp.Expression, values: list[Any]) -> Any:
        """The node at all points, in one call where its kind allows it."""
        values = [one.toarray() if hasattr(one, "toarray") else np.asarray(one) for one in values]
        many = [one.ndim > len(argument.shape) for one, argument in zip(values, node.args, strict=True)]
        if not any(many):
            return node.numeric(values)
        atoms, affine = cp.atoms, cp.atoms.affine
        by_entry = (
            atoms.elementwise.elementwise.Elementwise,
            affine.add_expr.AddExpression,
            affine.unary_operators.NegExpression,
            affine.binary_operators.multiply,
            affine.binary_operators.DivExpression,
        )
        if isinstance(node, by_entry):
            return node.numeric(self.aligned(node, values))
        if isinstance(node, (affine.sum.Sum, atoms.max, atoms.min)) and node.axis is None and not node.keepdims:
            reduce = np.sum if isinstance(node, affine.sum.Sum) else np.max if isinstance(node, atoms.max) else np.min
            return reduce(values[0].reshape(self.size, -1), axis=1)
        if isinstance(node, atoms.log_sum_exp) and node.axis is None and not node.keepdims:
            flat = values[0].reshape(self.size, -1)
            largest = flat.max(axis=1)
            return largest + np.log(np.exp(flat - largest[:, None]).sum(axis=1))
        if isinstance(node, affine.binary_operators.MulExpression) and not all(many):
            matrix, vector = values if many[1] else values[::-1]
            if vector.ndim == 2 and 0 < matrix.ndim <= 2:
                return vector @ (matrix.T if many[1] else matrix)
        each = [
            one if some else np.broadcast_to(one, (self.size, *one.shape))
            for one, some in zip(values, many, strict=True)
        ]
        return np.stack([_alone(node, [one[k] for one in each]) for k in range(self.size)])

    def aligned(self, node: cp.Expression, values: list[Any]) -> list[Any]:
        """Values whose own axes are the last of the node's, behind that of the points."""
        out, n = list[Any](), len(node.shape)
        for value, argument in zip(map(np.asarray, values), node.args, strict=True):
            own = argument.shape
            out.append(value if value.ndim == len(own) else value.reshape(-1, *[1] * (n - len(own)), *own))
        return out


def _alone(node: cp.Expression, values: list[Any]) -> Any:
    """The value of a node at one point; NaN where an atom fails, as eigenvalues of what is not finite."""
    try:
        return np.asarray(node.numeric(values))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return np.full(node.shape, np.nan)


def values_at(expression: cp.Expression, at: Mapping[int, Float], size: int) -> Float:
    """The values of a scalar expression at points, shape (size,)."""
    points, known = ManyPoints(at, size), dict[int, Any]()

    def value(node: cp.Expression) -> Any:
        if id(node) not in known:
            leaf = not node.args or node.is_constant()
            known[id(node)] = points.of(node) if leaf else points.numeric(node, [value(one) for one in node.args])
        return known[id(node)]

    return np.broadcast_to(value(expression), (size,)).astype(float)


def values_and_errors(
    expression: cp.Expression, at: Mapping[int, Float], typical: Mapping[int, Float], size: int
) -> tuple[Float, Float]:
    """The values at points and bounds on their rounding, shapes (size,)."""
    value, error = value_and_error(expression, typical, ManyPoints(at, size))
    return np.broadcast_to(value, (size,)).astype(float), np.broadcast_to(error, (size,)).astype(float)
