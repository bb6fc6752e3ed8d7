"""What floats do to the values of expressions: the constants that these add, and the rounding of the rest.

An objective ``f(x) + 1e15`` has the optima of f, but its values in floats are multiples of 1/8. So constants outside
all curved atoms are left out of what is maximised, and of values and bounds (`without_constants`). With the constant
left in, the sum of three users' square roots had a gap of 3e-6 beside 1e9 and of 3e-3 beside 1e12; without it 1e-12.

Constants inside curved atoms, as in ``norm(x - 1e15)``, stay, and the rounding e(v) of the value v of a node is bounded
from the leaves up, with arguments a_i of error e_i and ``r = TERM_ROUNDING``:

    affine   v = A a:     |A| e + r |A| (|a| + e);
    curved   v = g(a):    max |g(a + moved e) - g(a)| + r terms        (`_corners`, `_terms`).

(Running error analysis: Higham 2002, section 3.3.) It needs the values of atoms only, which CVXPY has. What is bounded
here is part of a gap (`Objective.rounding`; Bound 7.4, docs/methods/cone.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np

from fairopt.errors import InvalidBlock
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import TERM_ROUNDING

CANCELLED = 1e-3  # of the terms: sums below lose three digits or more of the coefficients


def irregular(typical: Any) -> Any:
    """Typical values of variables, made unlike each other, so that only terms of one variable cancel at them."""
    flat = np.asarray(typical, dtype=float)
    # at equal tasks x_1 - x_2 would count as terms that cancel
    return flat * (1.0 + 0.5 * np.sin(np.arange(1, flat.size + 1))).reshape(flat.shape)


def without_constants(expression: cp.Expression) -> tuple[cp.Expression, float]:
    """A scalar expression without the constants that it adds, and their sum; `InvalidBlock` if that overflows."""
    with np.errstate(all="ignore"):
        rest, constant = _split(expression)
        total = 0.0 if constant is None else float(np.sum(constant))
    if not np.isfinite(total):
        raise InvalidBlock(f"the constants that the objective adds sum to {total}; give finite numbers")
    return rest, total


def _split(node: cp.Expression) -> tuple[cp.Expression, Any]:
    """A node without the constants that it adds, and these, or the node itself and None if there are none."""
    affine, constant = cp.atoms.affine, [argument.is_constant() for argument in node.args]
    if node.is_constant():
        value = node.value
        some = value is not None and not sp.issparse(value) and np.any(value)
        return (cp.Constant(np.zeros(node.shape)), value) if some else (node, None)
    if not isinstance(node, affine.affine_atom.AffAtom) or isinstance(node, affine.wraps.Wrap):
        return node, None
    if len(node.args) == 1 or isinstance(node, _sums()):
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
    return node.copy([rest for rest, _ in parts]), _dense(node.numeric([_taken(value, node) for value in values]))


def _sums() -> tuple[type, ...]:
    """The affine atoms of several arguments that take each by itself; others multiply."""
    affine = cp.atoms.affine
    return affine.add_expr.AddExpression, affine.hstack.Hstack, affine.vstack.Vstack, affine.concatenate.Concatenate


def _dense(value: Any) -> Any:
    """A value as an array, also if it is a sparse matrix."""
    return value.toarray() if hasattr(value, "toarray") else value


def _taken(value: Any, node: cp.Expression) -> Any:
    """The value of an argument: sparse in products of matrices only, since other atoms need arrays."""
    return value if isinstance(node, cp.atoms.affine.binary_operators.MulExpression) else _dense(value)


class Values:
    """How nodes are evaluated: at the values of variables. Elsewhere at many points at once."""

    def of(self, leaf: cp.Expression) -> Any:
        """The value of a variable or a constant expression."""
        return leaf.value

    def numeric(self, node: cp.Expression, values: list[Any]) -> Any:
        """The value of a node at those of its arguments."""
        return node.numeric(values)

    def aligned(self, node: cp.Expression, values: list[Any]) -> list[Any]:
        """The values of arguments as arrays that broadcast to the shape of a node."""
        return values


AT_VARIABLES = Values()


def rounding_of(expression: cp.Expression, typical: Mapping[int, Any] | None = None) -> float:
    """A bound on the rounding in the value of an expression at its variables' values; NaN without a value.

    ``typical`` values of variables by id are where the rounding of coefficients counts, which tangents and programs
    have wherever the point is (`_of_coefficients`).
    """
    if expression.value is None:
        return float("nan")
    with np.errstate(all="ignore"):
        return float(np.sum(errors_of(expression, typical)))


def errors_of(expression: cp.Expression, typical: Mapping[int, Any] | None = None) -> Any:
    """The same by entry of an expression, or one for all."""
    return value_and_error(expression, typical or {})[1]


def value_and_error(
    expression: cp.Expression, typical: Mapping[int, Any], at: Values = AT_VARIABLES
) -> tuple[Any, Any]:
    """The value of an expression, and `errors_of` it."""
    value, error = _value_and_error(expression, typical, at=at)
    return value, error + _of_coefficients(expression, typical, at)


def size_of(expression: cp.Expression) -> float:
    """The size of the terms that variables have in an expression: how much it errs if all of them err by their size."""
    with np.errstate(all="ignore"):
        return float(np.sum(_value_and_error(expression, {}, 1.0)[1]))


def _value_and_error(
    node: cp.Expression, typical: Mapping[int, Any], part: float = 0.0, at: Values = AT_VARIABLES
) -> tuple[Any, Any]:
    """The value of a node and a bound on its rounding, by entry or one for all; variables err by a ``part``."""
    if not node.args or node.is_constant():
        value = _dense(at.of(node)) if part and not node.is_constant() else at.of(node)
        return value, 0.0 if node.is_constant() or not part else part * np.abs(value)
    parts = [_value_and_error(argument, typical, part, at) for argument in node.args]
    values, errors = [_taken(value, node) for value, _ in parts], [error for _, error in parts]
    # at absolute values, of constant arguments too, an affine node's own function gives |A| |a|
    value, sizes = _dense(at.numeric(node, values)), [abs(one) for one in values]
    if isinstance(node, cp.atoms.affine.affine_atom.AffAtom):  # its coefficients are 1, -1 and constant arguments
        size = most = _dense(abs(at.numeric(node, sizes)))
        if any(map(np.any, errors)):
            larger = [size + error if np.any(error) else size for size, error in zip(sizes, errors, strict=True)]
            most = _dense(abs(at.numeric(node, larger)))
        return value, most - size + TERM_ROUNDING * most
    if typical:
        errors = [error + _of_coefficients(one, typical, at) for error, one in zip(errors, node.args, strict=True)]
    changes = [_finite(at.numeric(node, moved) - value) for moved in _corners(values, errors)]
    return value, np.max(changes, axis=0) + TERM_ROUNDING * _terms(node, value, sizes, at)


def _of_coefficients(node: cp.Expression, typical: Mapping[int, Any], at: Values = AT_VARIABLES) -> Any:
    """The rounding of the coefficients of variables in a node at typical values, by entry, where their terms cancel.

    ``1e15 x + y - 1e15 x`` has no rounding at x = 0, but its coefficient of x may be off by 1/8.
    """
    if not typical:
        return 0.0
    sums, sizes = _linear(node, typical, at)
    return np.where(np.abs(sums) < CANCELLED * sizes, TERM_ROUNDING * sizes, 0.0)


def _linear(node: cp.Expression, typical: Mapping[int, Any], at: Values) -> tuple[Any, Any]:
    """The terms of variables in a node outside of curved atoms at typical values: their sum, and of absolute values."""
    if isinstance(node, cp.Variable) and node.id in typical:
        there = np.asarray(typical[node.id])
        return there, np.abs(there)
    if not isinstance(node, cp.atoms.affine.affine_atom.AffAtom) or node.is_constant():
        return np.zeros(node.shape), np.zeros(node.shape)
    parts = [_linear(argument, typical, at) for argument in node.args]
    if len(node.args) > 1 and not isinstance(node, _sums()):
        factors = [_taken(at.of(one), node) if one.is_constant() else None for one in node.args]
        parts = [part if one is None else (one, abs(one)) for part, one in zip(parts, factors, strict=True)]
    sums, sizes = (_dense(at.numeric(node, [part[k] for part in parts])) for k in (0, 1))
    return sums, np.abs(sizes)  # a node that negates has negated the sizes too


def is_flat(expression: cp.Expression) -> bool:
    """Whether an expression of CVXPY's rules is at its optimum for certain: 0 is a supergradient despite rounding.

    Values that do not change when tasks do are no proof: floats may hide what changes.
    """
    with np.errstate(all="ignore"):
        return expression.value is not None and not np.any(_moving(expression))


def _moving(node: cp.Expression) -> Any:
    """The entries of a node, as ones among zeros, of which 0 may be no sub- or supergradient.

    A choice is flat where what is not flat is beyond the rest by more than rounding; other curved atoms where their
    arguments are (by composition), and affine ones where no entry that they take is moving: terms that cancel are.
    """
    if not node.args or node.is_constant():
        return np.full(node.shape, 0.0 if node.is_constant() else 1.0)
    atoms, moving = cp.atoms, [_moving(argument) for argument in node.args]
    if isinstance(node, atoms.affine.affine_atom.AffAtom):
        sums = len(node.args) == 1 or isinstance(node, _sums())
        parts = zip(node.args, moving, strict=True)
        some = [m if sums or not one.is_constant() else (_taken(one.value, node) != 0) * 1.0 for one, m in parts]
        return np.asarray(_dense(node.numeric(some)) != 0, dtype=float)
    greatest, least = isinstance(node, (atoms.maximum, atoms.max)), isinstance(node, (atoms.minimum, atoms.min))
    if greatest or least:
        ends, bars, sign = [], [], 1.0 if greatest else -1.0
        for argument, some in zip(node.args, moving, strict=True):
            value, error = _value_and_error(argument, {})
            ends.append(np.where(some, sign * value + error, -np.inf))
            bars.append(np.where(some, -np.inf, sign * value - error))
        if isinstance(node, (atoms.max, atoms.min)):
            moves = node.axis is not None or ends[0].max() > bars[0].max()
            return np.full(node.shape, float(moves))
        most, rest = np.max(np.broadcast_arrays(*ends), axis=0), np.max(np.broadcast_arrays(*bars), axis=0)
        return np.asarray(most > rest, dtype=float)
    return np.full(node.shape, float(any(map(np.any, moving))))


def _terms(node: cp.Expression, value: Any, sizes: list[Any], at: Values) -> Any:
    """The size of what is rounded in a curved node: its value, or terms that cancel in it; 0 if it only chooses."""
    atoms = cp.atoms
    if isinstance(node, (atoms.maximum, atoms.minimum, atoms.max, atoms.min, atoms.abs, atoms.norm_inf)):
        return 0.0
    if isinstance(node, (atoms.kl_div, atoms.rel_entr)):
        return abs(value) + sum(at.aligned(node, sizes))
    if isinstance(node, atoms.elementwise.elementwise.Elementwise):
        return abs(value)
    return abs(value) + _finite(at.numeric(node, sizes))  # as in x'Px


def _corners(values: Iterable[Any], errors: Iterable[Any]) -> Iterable[list[Any]]:
    """Arguments moved by their errors: all up, down, away from 0 and towards 0; if two err, each in its own way.

    A convex function changes most at a corner of all 2^n, and a monotone one, or one of absolute values, at one of
    these. For the others, as x'Px and sorted products, `_terms` counts the terms at absolute values, of which the
    errors of the arguments are a part of order `TERM_ROUNDING`.
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


def _finite(change: Any) -> Any:
    """The absolute values of changes, 0 outside the domain of a function."""
    return np.where(np.isfinite(change), np.abs(change), 0.0)
