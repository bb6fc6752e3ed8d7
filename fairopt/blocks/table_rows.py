"""Linear constraints whose expressions, which take 0.2 ms, are made where CVXPY asks for them."""

from __future__ import annotations

from copy import copy
from functools import cache, cached_property
from typing import Any

from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp, sp


class TableRows:
    """``table @ unknowns <= right``, or ``==``, of a variable, beside CVXPY's class of such constraints."""

    def __init__(self, unknowns: cp.Variable, table: Any, right: Float) -> None:
        from cvxpy.lin_ops.lin_utils import get_id

        self.unknowns, self.table, self.right = unknowns, table, right
        self.constr_id, self._label = get_id(), None

    @cached_property
    def written(self) -> Any:
        """The constraint as CVXPY has it, with nonnegative coefficients on both sides."""
        table = sp.csr_array(self.table)
        below = bool((table.data < 0).any())
        signs = bool((table.data > 0).any()) or not below, below
        parts = (table.maximum(0.0), (-table).maximum(0.0)) if all(signs) else (table, -table)
        sides: list[Any] = [part @ self.unknowns if some else 0.0 for part, some in zip(parts, signs, strict=True)]
        if (self.right < 0).all():  # written as "at least", which messages recognise
            sides[0] = sides[0] - self.right
        elif self.right.any() or not signs[1]:
            sides[1] = sides[1] + self.right
        made: Any = sides[0] == sides[1] if isinstance(self, cp.constraints.Equality) else sides[0] <= sides[1]
        made.constr_id = self.constr_id
        return made

    @property
    def args(self) -> Any:
        return self.written.args

    @property
    def _expr(self) -> Any:
        return self.written.expr

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.right),)

    @property
    def size(self) -> int:
        return len(self.right)

    @cached_property
    def dual_variables(self) -> list[Any]:
        return [cp.Variable(self.shape)]

    def variables(self) -> list[cp.Variable]:
        return [self.unknowns]

    def copy(self, args: Any = None, id_objects: Any = None) -> Any:
        return self.written.copy(args, id_objects)

    def __reduce__(self) -> Any:
        return copy, (self.written,)


@cache
def _kinds() -> tuple[Any, Any]:
    """Inequalities and equations of CVXPY as rows of a table."""
    kinds = cp.constraints
    return tuple(type(f"Table{kind.__name__}", (TableRows, kind), {}) for kind in (kinds.Inequality, kinds.Equality))  # type: ignore[return-value]


def table_rows(unknowns: cp.Variable, table: Any, right: Float, equal: bool = False) -> Any:
    """The constraint ``table @ unknowns <= right``, or ``==``; of an expression as CVXPY has it."""
    made = _kinds()[equal](unknowns, table, right)
    return made if isinstance(unknowns, cp.Variable) else made.written
