"""Affine expressions of CVXPY as entries of a matrix whose last column are constants.

Expressions e_1(z), e_2(z), ... of variables z, stacked in column order into ``z of n`` and rows of all entries, are

    (e_1; e_2; ...)  =  M (z; 1),      M of (rows, n + 1)  as triples  (row, column, value).

Each node of an expression maps rows of its arguments to its own: a sum keeps them, `index` and `transpose` choose and
reorder, a product sends each to several. So a node is a few array operations on triples, whatever its size. CVXPY's C++
code passes every node on first: the expressions of a soft minimum, logarithms or a norm of 10 users take it 0.2 ms and
of 1,000 users 0.5 ms, and here 0.05 to 0.1 ms. Many small nodes gain nothing (a geometric mean of 10 users 0.7 and 0.8
ms), and a loop over 50 rows of a user loses (4 ms instead of 1.6). An expression with other nodes goes through CVXPY.

Nothing is rounded but products and sums of coefficients, as in CVXPY; that rows are right is tested at a random point
where they prove something (`fairopt.proof.written_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp, sp

PER_ENTRY = 2e-7  # seconds that an entry takes until it is in the solver's matrix: nine million took 2 s
CONSTANTS = ("scalar_const", "dense_const", "sparse_const")


class Entries(NamedTuple):
    """Rows, columns and values of entries; those at the same place add up."""

    row: Indices
    column: Indices
    value: Float

    def to(self, row: Indices) -> Entries:
        """The same entries in other rows."""
        return Entries(row, self.column, self.value)

    def times(self, factor: Float) -> Entries:
        """The rows times factors, or all times one."""
        return self._replace(value=self.value * (factor if factor.size == 1 else factor[self.row]))

    def through(self, target: Indices, factor: Float, starts: Indices, ends: Indices) -> Entries:
        """Each entry, times factors, to as many rows as lie between its start and end in ``target``."""
        counts = ends - starts
        # before memory is taken: a mean that is repeated for each of n users has n * n entries
        check(needs=PER_ENTRY * float(counts.sum()))
        each = np.repeat(np.arange(len(counts)), counts)
        at = np.arange(len(each)) + (starts - np.cumsum(counts) + counts)[each]
        return Entries(target[at], self.column[each], self.value[each] * factor[at])

    def taken(self, source: Indices) -> Entries:
        """The rows ``source``, any number of times each."""
        order = np.argsort(source, kind="stable")  # where each row of the argument is taken
        starts, ends = (np.searchsorted(source[order], self.row, side) for side in ("left", "right"))
        return self.through(order, np.ones(len(order)), starts, ends)


def joined(parts: Sequence[Entries], starts: Sequence[int]) -> Entries:
    """Entries of several expressions, the rows of each from a start on."""
    check()
    row, column, value = zip(*(one.to(one.row + at) for one, at in zip(parts, starts, strict=True)), strict=True)
    return Entries(np.concatenate(row), np.concatenate(column), np.concatenate(value))


class _Other(Exception):
    """A node that only CVXPY can write."""


class Writer:
    """Nodes of affine expressions as entries, each written once; ``starts`` are the first columns of variables."""

    def __init__(self, starts: Mapping[int, int], n: int) -> None:
        self.starts, self.n, self.written = starts, n, dict[int, Entries]()

    def of(self, node: Any) -> Entries:
        """The entries of a node, whose rows are in column order."""
        if id(node) not in self.written:  # the expressions hold their nodes, so that no id is used again
            self.written[id(node)] = self.written_out(node)
        return self.written[id(node)]

    def written_out(self, node: Any) -> Entries:
        """The entries of a node by its kind; `_Other` for kinds that are not written here."""
        check()
        kind, size = node.type, _size(node)
        if kind == "variable":
            return Entries(np.arange(size), self.starts[node.data] + np.arange(size), np.ones(size))
        if kind in CONSTANTS:
            values = _flat(node)
            (row,) = values.nonzero()
            return Entries(row, np.full(len(row), self.n), values[row])
        parts = [self.of(one) for one in node.args]
        if kind == "sum" and all(one.shape == node.shape for one in node.args):
            return joined(parts, [0] * len(parts))
        if kind in ("hstack", "vstack"):
            ends = np.cumsum([0, *map(_size, node.args)]).tolist()
            # as NumPy stacks the numbers of rows, so it stacks the rows
            places = [_places(one) + at for one, at in zip(node.args, ends, strict=False)]
            whole = (np.hstack if kind == "hstack" else np.vstack)(places)
            return joined(parts, ends[:-1]).taken(whole.ravel(order="F"))
        if len(parts) != 1:
            raise _Other
        (part,), (argument,) = parts, node.args
        return self.of_one(node, part, argument)

    def of_one(self, node: Any, part: Entries, argument: Any) -> Entries:
        """The entries of a node of one argument, whose entries are ``part``."""
        kind, data = node.type, node.data
        if kind == "neg":
            return part._replace(value=-part.value)
        if kind == "reshape":  # CVXPY's own are in column order, as rows are
            return part
        if kind == "sum_entries" and data[0] is None:
            return part.to(np.zeros(len(part.row), dtype=np.intp))
        if kind in ("mul_elem", "div") and argument.shape == node.shape:
            factor = _flat(data)
            if factor.size in (1, _size(node)):
                return part.times(factor if kind == "mul_elem" else 1.0 / factor)
        if kind in ("mul", "rmul"):
            return _product(node, part, argument)
        if kind == "promote":
            return part.taken(np.zeros(_size(node), dtype=np.intp))
        if kind == "broadcast_to":
            return part.taken(np.broadcast_to(_places(argument), node.shape).ravel(order="F"))
        if kind == "transpose":
            return part.taken(np.transpose(_places(argument), data[0]).ravel(order="F"))
        if kind == "index":
            chosen = np.ix_(*(np.arange(one.start, one.stop, one.step) for one in data))
            return part.taken(_places(argument)[chosen].ravel(order="F"))
        raise _Other


def _size(node: Any) -> int:
    """The number of rows of a node."""
    return math.prod(node.shape)


def _places(node: Any) -> Indices:
    """The rows of a node, in its shape."""
    return np.arange(_size(node)).reshape(node.shape, order="F")


def _flat(node: Any) -> Float:
    """The numbers of a constant, in column order."""
    if node.type not in CONSTANTS:
        raise _Other
    value = node.data.toarray() if node.type == "sparse_const" else node.data
    return np.ravel(value, order="F").astype(float)


def _product(node: Any, part: Entries, argument: Any) -> Entries:
    """The entries of a constant matrix times an argument, or of an argument times a constant matrix."""
    constant, first = node.data, node.type == "mul"
    if constant.type not in CONSTANTS or max(len(constant.shape), len(argument.shape)) > 2 or not argument.shape:
        raise _Other
    shape = constant.shape
    if len(shape) < 2:
        shape = (1, *shape) if first else (*shape, 1)
    matrix: Any = constant.data
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix, dtype=float).reshape(shape, order="F")
    if matrix.shape != shape:  # as of a sparse vector
        raise _Other
    if first:  # entry (i, j) of the argument goes to the rows (k, j) with matrix[k, i]
        by_column = sp.csc_array(matrix)
        column, inside = np.divmod(part.row, by_column.shape[1])
        return _through(part, by_column, inside, column * by_column.shape[0], 1)
    by_row, height = sp.csr_array(matrix), argument.shape[0] if len(argument.shape) == 2 else 1
    inside, row = np.divmod(part.row, height)  # and (i, j) to (i, k) with matrix[j, k]
    return _through(part, by_row, inside, row, height)


def _through(part: Entries, matrix: Any, inside: Indices, start: Indices, step: int) -> Entries:
    """Entries times those of the compressed part ``inside`` of a matrix, in rows from a start on."""
    starts, ends = matrix.indptr[inside], matrix.indptr[inside + 1]
    product = part.through(matrix.indices.astype(np.intp) * step, np.asarray(matrix.data, dtype=float), starts, ends)
    return product.to(product.row + np.repeat(start, ends - starts))


def affine_entries(
    expressions: Sequence[cp.Expression], starts: Mapping[int, int], n: int
) -> tuple[Indices, Indices, Float]:
    """Affine expressions as rows, columns and entries of a matrix whose last column, the n-th, are constants.

    ``starts`` are the first columns of variables, by their ids.
    """
    forms, ends = [one.canonical_form[0] for one in expressions], np.cumsum([0, *(one.size for one in expressions)])
    writer = Writer(starts, n)
    try:
        return joined([writer.of(form) for form in forms], ends[:-1].tolist())
    except _Other:
        return by_cvxpy(expressions, starts, n)


def by_cvxpy(expressions: Sequence[cp.Expression], starts: Mapping[int, int], n: int) -> tuple[Indices, Indices, Float]:
    """`affine_entries` by CVXPY's own code."""
    from cvxpy.cvxcore.python.canonInterface import get_problem_matrix

    total, forms = sum(one.size for one in expressions), [one.canonical_form[0] for one in expressions]
    sizes, places = parameters().values()
    tensor = sp.coo_array(get_problem_matrix(forms, n, starts, sizes, places, total, backend(expressions)))
    column, row = np.divmod(tensor.row, total)
    return row, column, tensor.data


def affine_slopes(expression: cp.Expression) -> dict[cp.Variable, sp.csr_array]:
    """The gradient of an affine expression without parameters by each of its variables, (n_variable, n_rows).

    By CVXPY's code, as proofs read it; CVXPY's `grad` takes a product of matrices for each node.
    """
    variables = expression.variables()
    ends = np.cumsum([0, *(v.size for v in variables)]).tolist()
    row, column, value = by_cvxpy([expression], {v.id: at for v, at in zip(variables, ends, strict=False)}, ends[-1])
    slopes = {}
    for variable, at in zip(variables, ends, strict=False):
        some = (column >= at) & (column < at + variable.size)
        shape = (variable.size, expression.size)
        slopes[variable] = sp.csr_array((value[some], (column[some] - at, row[some])), shape=shape)
    return slopes


def parameters() -> dict[str, dict[int, int]]:
    """The sizes and places of parameters, of which CVXPY makes constants the last, where there are no others."""
    from cvxpy.lin_ops.lin_op import CONSTANT_ID

    return {"param_to_size": {CONSTANT_ID: 1}, "param_id_map": {CONSTANT_ID: 0}}


def backend(expressions: Sequence[cp.Expression]) -> str | None:
    """What of CVXPY makes matrices of expressions: its usual code, or that for what this lacks."""
    usual = all(one._all_support_cpp() and one._max_ndim() <= 2 for one in expressions)
    return None if usual else str(cp.settings.SCIPY_CANON_BACKEND)
