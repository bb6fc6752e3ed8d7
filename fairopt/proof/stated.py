"""CVXPY problems without parameters and structured variables, as cone programs need them.

A symmetric, diagonal, sparse or semidefinite variable becomes a matrix of 0 and 1 times a plain variable of its free
entries, and a parameter becomes its value. Integer variables are relaxed: a bound on the optimum of the relaxation also
holds for the integer program. Constraints keep their order, so that rows and multipliers match the user's constraints.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairopt.blocks.own import ranges
from fairopt.blocks.rows import TYPICAL
from fairopt.errors import InvalidProblem, NotConcave
from fairopt.proof.feasibility import relative_violation
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.display import shorter
from fairopt.runtime.lazy import cp
from fairopt.solve.form.compiled import Posed
from fairopt.solve.form.program import unique
from fairopt.solve.form.structured import by_free_entries, definite, is_plain, spread

SHOWN = 40  # characters of a constraint in messages
COMPLEX = ("complex", "imag", "hermitian")


@dataclass(frozen=True)
class Stated:
    """A problem as it is asked, and ``posed`` for a cone program.

    ``written`` are the user's ``constraints`` there, in order, and ``further`` those of semidefinite variables.
    ``parts`` are, by the user's variable, the variable there and which entries of the user's it holds. ``limits`` are
    the ranges of the user's variables, flat, and ``given`` the values of parameters, which may change later.
    """

    problem: cp.Problem
    posed: Posed
    constraints: Sequence[cp.Constraint]
    written: Sequence[cp.Constraint]
    further: Mapping[cp.Variable, cp.Constraint]
    parts: Mapping[cp.Variable, tuple[cp.Variable, Indices]]
    limits: Mapping[cp.Variable, tuple[Float, Float]]
    given: Mapping[cp.Parameter, Any]

    @classmethod
    def of(cls, problem: cp.Problem, limits: Mapping[cp.Variable, tuple[Any, Any]] | None) -> Stated:
        """The problem with further limits of variables; an error if it is none that can be proved."""
        check_problem(problem)
        given = {one: one.value for one in problem.parameters()}
        new: dict[int, Any] = {id(one): cp.Constant(value) for one, value in given.items()}
        parts, further = dict[cp.Variable, tuple[cp.Variable, Indices]](), dict[cp.Variable, cp.Constraint]()
        every = _limits(problem.variables(), limits)
        for variable in problem.variables():
            if is_plain(variable) and variable not in (limits or {}):
                parts[variable] = variable, np.arange(variable.size)
                continue
            part, kept, new[id(variable)], condition = by_free_entries(variable, *every[variable])
            parts[variable] = part, kept
            if condition is not None:
                further[variable] = condition
        constraints = list({one.id: one for one in problem.constraints}.values())
        objective, written = problem.objective, constraints
        if new:
            objective = objective.tree_copy(id_objects=new)
            written = [one.tree_copy(id_objects=new) for one in constraints]
        if not parts:  # a program has a column
            nothing = cp.Variable(name="nothing", bounds=[0.0, 0.0])
            nothing.save_value(np.array(0.0))
            objective, parts = type(objective)(objective.args[0] + 0 * nothing), {nothing: (nothing, np.arange(1))}
            every = _limits(parts, None)
        posed = Posed(objective, [*written, *further.values()])
        return cls(problem, posed, constraints, written, further, parts, every, given)

    @property
    def has_values(self) -> bool:
        """Whether all variables have finite values."""
        return all(v.value is not None and np.isfinite(flat(v)).all() for v in self.parts)

    def by_column(self, columns: Mapping[int, Indices], by_variable: Mapping[cp.Variable, Float], out: Float) -> Float:
        """Numbers by column of a program, where there are some by entry of the user's variables; ``out`` elsewhere."""
        out = out.copy()
        for variable, (part, kept) in self.parts.items():
            if variable in by_variable and part.id in columns:
                out[columns[part.id]] = by_variable[variable][kept]
        return out

    def ranges_of(self, columns: Mapping[int, Indices], size: int) -> tuple[Float, Float]:
        """The ranges of all columns of a program that attributes and limits give."""
        least, most = ({v: pair[k] for v, pair in self.limits.items()} for k in (0, 1))
        none = np.full(size, np.inf)
        return self.by_column(columns, least, -none), self.by_column(columns, most, none)

    @property
    def maximised(self) -> bool:
        """Whether the objective is maximised."""
        return isinstance(self.problem.objective, cp.Maximize)

    def save(self, columns: Mapping[int, Indices], z: Float) -> None:
        """Set the user's variables to a point of the program, whole numbers rounded."""
        for variable, (part, kept) in self.parts.items():
            if part.id in columns:
                values = spread(variable, kept) @ z[columns[part.id]]
                for where in _whole(variable).values():
                    values = np.where(where, np.round(values), values)
                variable.save_value(values.reshape(variable.shape, order="F"))

    def beyond(self, typical: Mapping[int, Float]) -> Iterator[tuple[str, float]]:
        """By how much values exceed what attributes and limits allow, by a name of that, relative to ``typical`` values
        by id; whole numbers by how far they are from such.
        """
        for variable, (_, kept) in self.parts.items():
            value, (low, high), name = flat(variable), self.limits[variable], self.called[variable]
            size = np.maximum(np.abs(value), TYPICAL * typical[variable.id])
            size = np.where(size > 0, size, 1.0)
            by = np.maximum(np.maximum(low - value, value - high), 0.0) / size
            yield f"bounds of {name}", float(by.max(initial=0.0))
            for kind, where in _whole(variable).items():
                yield f"{name} is {kind}", float(np.abs(value - np.round(value))[where].max(initial=0.0))
            if len(kept) < variable.size:
                by = np.abs(value - spread(variable, kept) @ value[kept]) / size
                yield f"free entries of {name}", float(by.max(initial=0.0))
            if variable in self.further:
                matrix = definite(variable) * value.reshape(variable.shape, order="F")
                yield self.text(self.further[variable]), relative_violation(cp.constraints.PSD(cp.Constant(matrix)))

    @cached_property
    def names(self) -> dict[int, str]:
        """Unique names of constraints, by the ids of the user's constraints and of those written here.

        A label that another constraint has, or that is a name given here, has the place too: under one name the numbers
        of one would hide those of the other.
        """
        out = dict[int, str]()
        taken = {f"{of} {name}" for name in self.called.values() for of in ("bounds of", "free entries of")}
        taken |= {f"{name} is {kind}" for name in self.called.values() for kind in ("boolean", "integer", "PSD", "NSD")}
        for k, (one, written) in enumerate(zip(self.constraints, self.written, strict=True)):
            name = place = f"constraints[{k}]"
            if (label := getattr(one, "label", None)) is not None:
                known = label in taken or label.startswith("constraints[")
                name = unique(f"{label}, {place}" if known else label, taken)
            taken.add(name)
            out[one.id] = out[written.id] = name
        for variable, condition in self.further.items():
            out[condition.id] = f"{self.called[variable]} is {'PSD' if definite(variable) > 0 else 'NSD'}"
        return out

    @cached_property
    def called(self) -> dict[cp.Variable, str]:
        """The names of variables; those of one name have numbers too."""
        given = [variable.name() for variable in self.parts]
        out, taken, several = dict[cp.Variable, str](), set(given), Counter(given)
        for k, (variable, name) in enumerate(zip(self.parts, given, strict=True)):
            out[variable] = name if several[name] == 1 else unique(f"{name}, variables()[{k}]", taken)
            taken.add(out[variable])
        return out

    def text(self, condition: cp.Constraint) -> str:
        """The name of a constraint, and if that is its place what it says, cut short."""
        name = self.names[condition.id]
        return f"{name} ({shorter(str(condition), SHOWN)})" if name.startswith("constraints[") else name

    @property
    def is_whole(self) -> bool:
        """Whether some entries of variables are whole numbers."""
        return any(_whole(variable) for variable in self.parts)


def check_problem(problem: Any) -> None:
    """`InvalidProblem` or `NotConcave` for what is not a convex problem of real numbers."""
    if not isinstance(problem, cp.Problem):
        raise InvalidProblem(f"certify({type(problem).__name__}): give a cvxpy.Problem")
    complex_ = [v.name() for v in problem.variables() if any(v.attributes[name] for name in COMPLEX)]
    if complex_ or any(c.is_complex() for c in (*problem.constants(), *problem.parameters())):
        which = f"the variable {complex_[0]!r} is" if complex_ else "some numbers are"
        raise InvalidProblem(f"{which} complex; write real and imaginary parts as variables and numbers of their own")
    for parameter in problem.parameters():
        if parameter.value is None:
            raise InvalidProblem(f"the parameter {parameter.name()!r} has no value; give it one, and solve the problem")
    parts = {"the objective": problem.objective}
    parts |= {f"constraints[{k}]": one for k, one in enumerate(problem.constraints)}
    for where, part in parts.items():
        numbers: list[Any] = [leaf.value for leaf in (*part.constants(), *part.parameters())]
        if not all(np.isfinite(one.data if hasattr(one, "tocsr") else one).all() for one in numbers):
            raise InvalidProblem(f"{where} has a number that is NaN or infinite; give finite numbers")
    if not problem.is_dcp():
        other = "quasiconvex" if problem.is_dqcp() else "log-log convex" if problem.is_dgp() else ""
        raise NotConcave(
            "the problem is not convex by CVXPY's rules (problem.is_dcp()), so nothing bounds its optimum; "
            + (
                f"it is {other}: give the convex problem that CVXPY's reduction makes of it"
                if other
                else "write it with a convex objective to minimise, or a concave one to maximise, and convex "
                "constraints"
            )
        )


def flat(variable: cp.Variable) -> Float:
    """The value of a variable as floats, in column order."""
    with warnings.catch_warnings():  # of sparse variables: that they have another form too
        warnings.simplefilter("ignore")
        value: Any = variable.value
    dense = value.toarray() if hasattr(value, "toarray") else value
    return np.asarray(dense, dtype=np.float64).ravel(order="F")


def _limits(variables: Iterable[cp.Variable], given: Any) -> dict[cp.Variable, tuple[Float, Float]]:
    """The ranges of variables by their attributes and as they are given further."""
    out = {variable: _own_ranges(variable) for variable in variables}
    if not isinstance(given or {}, Mapping):
        raise InvalidProblem(f"limits is {type(given).__name__}; give a dict of (low, high) by variable")
    for variable, pair in (given or {}).items():
        if not isinstance(variable, cp.Variable) or variable not in out:
            raise InvalidProblem(f"limits has {variable}, which is no variable of the problem")
        try:
            low, high = (np.broadcast_to(np.asarray(side, dtype=float), variable.shape) for side in pair)
        except (TypeError, ValueError):
            raise InvalidProblem(
                f"limits of {variable.name()!r} are not a pair (low, high) of numbers or arrays of shape "
                f"{variable.shape}"
            ) from None
        if not (low <= high).all():  # also NaN
            raise InvalidProblem(f"limits of {variable.name()!r}: the lower is above the upper, or not a number")
        least, most = out[variable]
        out[variable] = np.maximum(least, low.ravel(order="F")), np.minimum(most, high.ravel(order="F"))
        if not (out[variable][0] <= out[variable][1]).all() or (low == np.inf).any() or (high == -np.inf).any():
            raise InvalidProblem(f"limits of {variable.name()!r} leave no number within the variable's own bounds")
    return out


def _own_ranges(variable: cp.Variable) -> tuple[Float, Float]:
    """The ranges that attributes give, flat; whole numbers of 0 and 1 lie between these."""
    low, high = ranges(variable)
    either = _whole(variable).get("boolean", np.zeros(variable.size, dtype=bool))
    return np.where(either, np.maximum(low, 0.0), low), np.where(either, np.minimum(high, 1.0), high)


def _whole(variable: cp.Variable) -> dict[str, Bool]:
    """The entries, flat, that are whole numbers, by kind."""
    out = dict[str, Bool]()
    for kind, places in (("boolean", variable.boolean_idx), ("integer", variable.integer_idx)):
        if variable.attributes[kind]:
            where = np.zeros(variable.shape, dtype=bool)
            # of a scalar CVXPY has places in one axis
            np.atleast_1d(where)[tuple(np.asarray(axis) for axis in places)] = True
            out[kind] = where.ravel(order="F")
    return out
