"""What floats do to the values of expressions: the constants that these add, and the rounding of the rest.

An objective ``f(x) + 1e15`` has the optima of f, but its values in floats are multiples of 1/8. So constants outside
all curved atoms are left out of what is maximised, and of values and bounds. Those inside, as in ``norm(x - 1e15)``,
stay, and the rounding of the value is bounded from the leaves up: an affine node ``A v`` of arguments v with errors e
errs by ``|A| e``, plus rounding relative to its terms ``|A| |v|``; a curved node errs by what it changes as its
arguments move by e. (Running error analysis: Higham 2002, section 3.3.)
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np

from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import TERM_ROUNDING


def without_constants(expression: cp.Expression) -> tuple[cp.Expression, float]:
    """A scalar expression without the constants that it adds, and their sum."""
    rest, constant = _split(expression)
    return rest, 0.0 if constant is None else float(np.sum(constant))


def _split(node: cp.Expression) -> tuple[cp.Expression, Any]:
    """A node without the constants that it adds, and these, or the node itself and None if there are none."""
    affine, constant = cp.atoms.affine, [argument.is_constant() for argument in node.args]
    if node.is_constant():
        value = node.value
        some = value is not None and not sp.issparse(value) and np.any(value)
        return (cp.Constant(np.zeros(node.shape)), value) if some else (node, None)
    if not isinstance(node, affine.affine_atom.AffAtom) or isinstance(node, affine.wraps.Wrap):
        return node, None
    sums = (affine.add_expr.AddExpression, affine.hstack.Hstack, affine.vstack.Vstack, affine.concatenate.Concatenate)
    if len(node.args) == 1 or isinstance(node, sums):
        constant = [False] * len(node.args)
    elif sum(constant) != len(node.args) - 1:  # a product of two expressions
        return node, None
    parts = [(one, None) if factor else _split(one) for one, factor in zip(node.args, constant, strict=True)]
    if all(added is None for _, added in parts):
        return node, None
    values = [
        one.value if factor else np.zeros(one.shape) if added is None else added
        for one, factor, (_, added) in zip(node.args, constant, parts, strict=True)
    ]
    return node.copy([rest for rest, _ in parts]), node.numeric(values)


def rounding_of(expression: cp.Expression, inside: bool = False) -> float:
    """A bound on the rounding in the value of an expression at its variables' values; NaN without a value.

    With ``inside`` only what curved atoms make of the rounding of their arguments: 0 where they are flat.
    """
    if expression.value is None:
        return float("nan")
    with np.errstate(all="ignore"):
        return float(np.sum(_value_and_error(expression, 0.0 if inside else TERM_ROUNDING)[1]))


def _value_and_error(node: cp.Expression, own: float = TERM_ROUNDING) -> tuple[Any, Any]:
    """The value of a node and a bound on its rounding, by entry or one for all; ``own`` is that of its own terms."""
    if not node.args or node.is_constant():
        return node.value, 0.0
    affine = isinstance(node, cp.atoms.affine.affine_atom.AffAtom)
    parts = [_value_and_error(argument, own) if affine else _value_and_error(argument) for argument in node.args]
    values, errors = [value for value, _ in parts], [error for _, error in parts]
    value, sizes = node.numeric(values), [abs(one) for one in values]
    if affine:  # its coefficients are 1, -1 and constant arguments
        size, most = abs(node.numeric(sizes)), abs(node.numeric([*map(_sum, sizes, errors)]))
        return value, most - size + own * most
    changes = [_finite(node.numeric(moved) - value) for moved in _corners(values, errors)]
    return value, np.max(changes, axis=0) + own * _terms(node, value, sizes)


def _terms(node: cp.Expression, value: Any, sizes: list[Any]) -> Any:
    """The size of what is rounded in a curved node: its value, or terms that cancel in it; 0 if it only chooses."""
    atoms = cp.atoms
    if isinstance(node, (atoms.maximum, atoms.minimum, atoms.max, atoms.min, atoms.abs, atoms.norm_inf)):
        return 0.0
    if isinstance(node, (atoms.kl_div, atoms.rel_entr)):
        return abs(value) + sum(sizes)
    if isinstance(node, atoms.elementwise.elementwise.Elementwise):
        return abs(value)
    return abs(value) + _finite(node.numeric(sizes))  # as in x'Px


def _corners(values: Iterable[Any], errors: Iterable[Any]) -> Iterable[list[Any]]:
    """Arguments moved by their errors: all up, down, away from 0 and towards 0; if two err, each in its own way.

    A convex function changes most at a corner, and a monotone one, or one of absolute values, at one of these.
    """
    ways = [
        [one]
        if not np.any(error)
        else [one + error, one - error, one + np.sign(one) * error, one - np.sign(one) * error]
        for one, error in zip(values, errors, strict=True)
    ]
    if sum(len(way) > 1 for way in ways) <= 2:
        return map(list, product(*ways))
    return [[way[k % len(way)] for way in ways] for k in range(4)]


def _sum(value: Any, error: Any) -> Any:
    """A value, which may be a sparse matrix, plus its error."""
    return value + error if np.any(error) else value


def _finite(change: Any) -> Any:
    """The absolute values of changes, 0 outside the domain of a function."""
    return np.where(np.isfinite(change), np.abs(change), 0.0)
