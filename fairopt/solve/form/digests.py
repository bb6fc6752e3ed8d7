"""Hashes of CVXPY expressions and constraints, to tell whether two are the same with the same numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fairopt.blocks.table_rows import TableRows
from fairopt.runtime.lazy import cp, sp


class NewConditions:
    """Conditions that no earlier one repeats: with the same name, the same variables and the same numbers."""

    def __init__(self) -> None:
        self._held: dict[str, list[bytes]] = {}
        self._digests = _Digests(None)

    def among(self, conditions: Iterable[cp.Constraint]) -> list[cp.Constraint]:
        """The new ones; those without a name are."""
        out = []
        for condition in conditions:
            held, digest = self._held.setdefault(condition.label or "", []), self._digests.digest(condition)
            if condition.label and digest in held:
                continue
            held.append(digest)
            out.append(condition)
        return out


def of_problem(problem: cp.Problem, names: Sequence[str]) -> list[bytes]:
    """Hashes of the objective and of the sorted constraints of a problem."""
    digests = _Digests(names)
    return [digests.digest(problem.objective), *sorted(map(digests.digest, problem.constraints))]


def digest(expression: cp.Expression) -> bytes:
    """The hash of an expression, of which variables count as themselves."""
    return _Digests(None).digest(expression)


class _Digests:
    """Hashes of parts of a problem, with variables of ``names`` by these, and others by their first occurrence.

    Variables of blocks have different names each time. Without names variables count as themselves.
    """

    def __init__(self, names: Sequence[str] | None) -> None:
        self.names, self.variables = names, dict[int, str]()
        self.known: dict[int, tuple[bytes, Any]] = {}  # expressions are shared between constraints

    def digest(self, part: Any) -> bytes:
        """The hash of an expression, a constraint or a number."""
        if (known := self.known.get(id(part))) is not None:
            return known[0]
        if isinstance(part, TableRows):
            return self.digest(part.written)  # as which it is copied
        own, inside = self._parts(part)
        out = hashlib.sha256(type(part).__name__.encode() + own)
        for inner in inside:
            out.update(self.digest(inner))
        if isinstance(part, (cp.Expression, cp.Constraint)):
            self.known[id(part)] = out.digest(), part  # kept, so that no other part gets its id
        return out.digest()

    def _parts(self, part: Any) -> tuple[bytes, Sequence[Any]]:
        """The data of a part itself, and the parts inside it."""
        if isinstance(part, cp.Variable):
            if self.names is None:
                return repr(part.id).encode(), ()
            own = f"own {len(self.variables)}"
            name = self.variables.setdefault(part.id, part.name() if part.name() in self.names else own)
            return repr((name, part.shape, sorted(part.attributes.items(), key=str))).encode(), ()
        if isinstance(part, (cp.Constant, cp.Parameter)):
            return b"", [part.value]
        if isinstance(part, cp.Constraint):
            return b"", [*part.args, *part.get_data()[:-1]]  # the last is its id
        if isinstance(part, (cp.Expression, cp.Maximize, cp.Minimize)):
            return b"", [*part.args, *(part.get_data() or ())]
        if sp.issparse(part):
            given: Any = part
            rows = sp.csr_array(given)
            return b"", [rows.shape, rows.indptr, rows.indices, rows.data]
        if isinstance(part, np.ndarray) and part.dtype != object:
            return repr((part.shape, part.dtype.str)).encode() + np.ascontiguousarray(part).tobytes(), ()
        return (b"", part) if isinstance(part, (list, tuple)) else (repr(part).encode(), ())
