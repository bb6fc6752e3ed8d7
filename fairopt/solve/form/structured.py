"""Variables that are matrices of a kind, by their free entries.

A variable that is symmetric, diagonal, sparse or semidefinite is a matrix of 0 and 1 times a plain variable of its free
entries, of which a semidefinite one also has a constraint.
"""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import cp, sp

SYMMETRIC = ("symmetric", "PSD", "NSD")
STRUCTURED = (*SYMMETRIC, "diag", "sparsity")
SIGNS = ("nonneg", "nonpos", "pos", "neg", "bounds")  # attributes of variables that are bounds


def is_plain(variable: cp.Variable) -> bool:
    """Whether a variable has no attributes besides bounds, which are numbers."""
    others = [value for name, value in variable.attributes.items() if name not in SIGNS]
    bounds = variable.attributes["bounds"] or ()
    return not any(others) and not any(isinstance(side, cp.Expression) or sp.issparse(side) for side in bounds)


def by_free_entries(
    variable: cp.Variable, low: Float, high: Float
) -> tuple[cp.Variable, Indices, cp.Expression, cp.Constraint | None]:
    """A plain variable of the free entries of another, which these are, the other as an expression of it, and the
    constraint that this needs; ``low`` and ``high`` are the other's bounds.
    """
    kept = _free_entries(variable)
    part = cp.Variable(len(kept), name=variable.name(), bounds=[low[kept], high[kept]])
    expression, sign = _expanded(variable, part, kept), definite(variable)
    return part, kept, expression, cp.constraints.PSD(sign * expression) if sign else None


def definite(variable: cp.Variable) -> int:
    """1 for a variable that is positive semidefinite, -1 for a negative one, else 0."""
    return int(bool(variable.attributes["PSD"])) - int(bool(variable.attributes["NSD"]))


def _free_entries(variable: cp.Variable) -> Indices:
    """The places, in column order, of the entries of a variable that the others follow from."""
    places = np.arange(variable.size).reshape(variable.shape, order="F")
    if any(variable.attributes[name] for name in SYMMETRIC):
        return places[np.triu_indices(variable.shape[0])]
    if variable.attributes["diag"]:
        return np.diag(places)
    if variable.attributes["sparsity"]:
        return np.asarray(places[tuple(variable.sparse_idx)])
    return places.ravel(order="F")


def spread(variable: cp.Variable, kept: Indices) -> sp.csr_array:
    """The matrix that makes all entries of a variable of the free ones."""
    row, column = kept, np.arange(len(kept))
    if any(variable.attributes[name] for name in SYMMETRIC):
        n = variable.shape[0]
        other = kept // n + n * (kept % n)
        beside = other != kept
        row, column = np.append(row, other[beside]), np.append(column, column[beside])
    return sp.csr_array((np.ones(len(row)), (row, column)), shape=(variable.size, len(kept)))


def _expanded(variable: cp.Variable, part: cp.Variable, kept: Indices) -> cp.Expression:
    """A variable by its free entries, with what CVXPY's rules know of it."""
    expression = cp.reshape(cp.Constant(spread(variable, kept)) @ part, variable.shape, order="F")
    wraps = cp.atoms.affine.wraps
    known = {"PSD": wraps.psd_wrap, "NSD": wraps.nsd_wrap, "symmetric": wraps.symmetric_wrap}
    return next((wrap(expression) for name, wrap in known.items() if variable.attributes[name]), expression)
