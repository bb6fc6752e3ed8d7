"""Gradients of CVXPY's expressions at the values of their variables.

CVXPY takes matrices for each node of an expression's tree and multiplies them, most of them of affine nodes. Here they
are taken for the parts of an expression: each atom that is not affine, the affine expression that atoms are in, and
those that are in them; with ``f(v) = a'v + b + sum_k c_k phi_k(A_k v + b_k)``

    Df = a + sum_k c_k A_k' Dphi_k,

where the affine parts are read off at once (`affine_slopes`). The gradients Dphi of atoms are CVXPY's, which lacks
some: then there is no tangent, and other bounds are tried. Shapes are CVXPY's, (n_variable, n_rows), the transpose of a
Jacobian.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.runtime.lazy import cp, sp
from fairopt.solve.form.affine import affine_slopes

Gradient = dict[Any, Any]  # (n_variable, n_rows) by variable; None where there is none


def gradient_of(expression: cp.Expression, unknowns: cp.Variable) -> sp.csr_array | None:
    """The gradient of an expression at its variables' values, (n_unknowns, n_rows); None if there is none."""
    return gradients_of(expression, [unknowns])[0]


def gradients_of(expression: cp.Expression, variables: Sequence[cp.Variable]) -> list[sp.csr_array | None]:
    """The same by each of several variables."""
    try:
        by_variable = gradient(expression)
    except (NotImplementedError, TypeError, ValueError):  # atoms whose gradient CVXPY lacks
        return [None] * len(variables)
    each = [by_variable.get(variable) for variable in variables]
    return [None if slopes is None else as_matrix(slopes) for slopes in each]


def as_matrix(gradient: Any) -> sp.csr_array:
    """A gradient of CVXPY (a plain number for one unknown) as a sparse matrix."""
    dense: Any = gradient if sp.issparse(gradient) else np.atleast_2d(gradient)
    return sp.csr_array(dense)


def gradient(expression: cp.Expression) -> Gradient:
    """The gradient by each variable."""
    if expression.parameters():
        return dict(expression.grad)
    if expression.is_affine():
        return _of_affine(expression)
    atoms = list[tuple[cp.Expression, cp.Variable]]()
    if not isinstance(expression, cp.atoms.affine.affine_atom.AffAtom):
        stands_for = [_with_value(argument) for argument in expression.args]
        outer: Gradient = expression.copy(stands_for).grad
        atoms = [(one, v) for one, v in zip(expression.args, stands_for, strict=True) if v in outer]
    else:
        outer = _of_affine(_without_atoms(expression, atoms))
    inner = {v for _, v in atoms}
    total = {v: slopes for v, slopes in outer.items() if v not in inner}
    for atom, v in atoms:
        for variable, slopes in gradient(atom).items():
            if slopes is None or outer[v] is None:
                total[variable] = None
            elif total.get(variable, 0.0) is not None:
                part = as_matrix(slopes) @ as_matrix(outer[v])
                total[variable] = part + total[variable] if variable in total else part
    return total


def _of_affine(expression: cp.Expression) -> Gradient:
    """The gradient of an affine expression; CVXPY writes some atoms, such as `cumsum`, with constraints only."""
    try:
        return dict(affine_slopes(expression))
    except NotImplementedError:
        return dict(expression.grad)


def _with_value(expression: cp.Expression) -> cp.Expression:
    """A variable with the expression's value, or the expression if it is constant."""
    if expression.is_constant():
        return expression
    variable = cp.Variable(expression.shape)
    variable.save_value(expression.value)
    return variable


def _without_atoms(expression: cp.Expression, atoms: list[tuple[cp.Expression, cp.Variable]]) -> cp.Expression:
    """An expression with variables in place of the ``atoms`` that are not affine, to which they are added."""
    if expression.is_affine():
        return expression
    if not isinstance(expression, cp.atoms.affine.affine_atom.AffAtom):
        atoms.append((expression, variable := _with_value(expression)))
        return variable
    return expression.copy([_without_atoms(argument, atoms) for argument in expression.args])
