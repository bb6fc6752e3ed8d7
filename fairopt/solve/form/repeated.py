"""A user's objective written once for all instances of a shape, where only shares tell these apart.

The block's method is called with a `Traced` model: `model.share(block)` and `model.tasks` are variables s_k, one for
each share, and what else it may read is the same for all instances: how many users and resources there are, their
labels, and weights where all instances have the same. If it reads anything more, it is not written here, and neither if
two calls differ. So its expression is one function f of the s_k, and an instance is a substitution,

    max f(s_1, s_2, ...),    s_k = c_k x,    R x <= 1,    0 <= x <= X,

with c_k the coefficients of share k, R the demands per capacity and X the tasks that each user could run alone, within
its limit. CVXPY writes f in cones once; of an instance only numbers are replaced, where ``c_k`` multiplies columns.

Why not CVXPY's parameters: a loop with them takes 0.2 to 0.6 ms an instance beside the solver, and each product of two
of them is refused. Why not a call of the block for each instance: it takes 0.2 ms, and writing it in cones 0.7 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairopt.blocks.algebra import ByExpression, tiers_of
from fairopt.blocks.model import Model
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import Share, Tasks
from fairopt.blocks.written_values import without_constants
from fairopt.errors import FairoptError
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import cp, sp
from fairopt.solve.form.compiled import CompiledHere, Cones, Posed
from fairopt.solve.form.digests import digest
from fairopt.solve.form.many_instances import Batch, BatchChunk

READ = frozenset({"share", "tasks", "weights", "instance"})  # what a traced model has
SHAPE = frozenset({"n_users", "n_resources", "n_servers", "users", "resources", "weights"})  # and its instance
# what an objective may define without being more than its expression
HARMLESS = frozenset({"expression", "by_user", "conditions"})


class _Differs(AttributeError):
    """What a traced model does not have, as it differs between instances."""


class _Trace:
    """What a block read of a shape, and the variables that stand for shares."""

    def __init__(self, batch: Batch, users: Indices, weights: Float) -> None:
        labels = batch.labelled
        self.known = {
            "n_users": len(users),
            "n_resources": batch.demands.shape[2],
            "n_servers": 1,
            "users": tuple(labels.users[j] for j in users),
            "resources": labels.resources,
            "weights": weights,
        }
        self.shares: dict[Share, cp.Variable] = {}
        self.by_weights = self.differs = False

    def variable(self, share: Share) -> cp.Variable:
        """The variable that stands for a share of users."""
        if not isinstance(share, Share) or not share._is_plain:
            raise self.refused(f"share({share!r})")
        if share not in self.shares:
            self.shares[share] = cp.Variable(self.known["n_users"], nonneg=True)
        return self.shares[share]

    def read(self, name: str) -> Any:
        """What all instances of the shape have in common; `_Differs` for what they have not."""
        if name not in SHAPE:
            raise self.refused(name)
        self.by_weights |= name == "weights"
        return self.known[name]

    def refused(self, name: str) -> _Differs:
        """The error for anything else, which counts even if the block catches it."""
        self.differs = True
        return _Differs(f"{name} is not the same for all instances of a shape")


class _Shape:
    """The instance of a traced model."""

    def __init__(self, trace: _Trace) -> None:
        self.__dict__["__trace__"] = trace

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["__trace__"].read(name)


class Traced(Model):
    """A model of all instances of a shape, for one call of a block's `expression`."""

    def __init__(self, trace: _Trace) -> None:
        self.__dict__["__trace__"] = trace

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        trace: _Trace = self.__dict__["__trace__"]
        if name == "share":
            return trace.variable
        if name == "tasks":
            return trace.variable(Tasks())
        if name == "instance":
            return _Shape(trace)
        if name == "weights":
            return trace.read(name)
        raise trace.refused(name)


@dataclass(frozen=True)
class OwnChunk(BatchChunk):
    """Some instances of one shape, of which all users take part, with the coefficients of shares (n_shares, n_users,
    size).
    """

    coefficients: Float

    @cached_property
    def most(self) -> Float:
        """Proven upper bounds on tasks, (n_users, size)."""
        return np.minimum(self.limits, 1.0 / self.ratios.max(axis=1))

    @cached_property
    def ratios(self) -> Float:
        """The part of each capacity that a task takes, (n_users, n_resources, size)."""
        return self.demands / self.capacities


@dataclass(frozen=True)
class Repeated:
    """An objective in cones for all instances of a shape: `form` is maximised, of ``variables`` that stand for shares.

    The objective is the form and a ``constant``. ``by_weights`` tells whether this holds only for the weights that it
    was written for.
    """

    objective: Objective
    form: cp.Expression
    constant: float
    shares: tuple[Share, ...]
    variables: tuple[cp.Variable, ...]
    compiled: CompiledHere
    by_weights: bool

    @classmethod
    def of(cls, objective: Objective, batch: Batch, users: Indices, weights: Float) -> Repeated | None:
        """None if the objective is to be solved one by one."""
        if not is_its_expression(objective):
            return None
        trace = _Trace(batch, users, weights)
        written, again = (_written(objective, trace) for _ in range(2))
        if written is None or again is None or not _same(written, again):
            return None
        form, constant = written
        used = {v.id for v in form.variables()}
        held = {share: v for share, v in trace.shares.items() if v.id in used}
        if len(held) < len(used) or not held:  # variables of the block's own
            return None
        try:
            posed = Posed(cp.Maximize(form), [])
            compiled = CompiledHere.made(posed, "CLARABEL", {"use_quad_obj": False}) if form.is_concave() else None
        except Exception:  # of CVXPY, as of matrices whose eigenvalues it does not find; one by one it is named
            return None
        if compiled is None or compiled.data.get("P") is not None:
            return None
        return cls(objective, form, constant, tuple(held), tuple(held.values()), compiled, trace.by_weights)

    @cached_property
    def columns(self) -> Indices:
        """The columns of the variables that stand for shares, (n_shares, n_users)."""
        starts = [self.compiled.starts[v.id] for v in self.variables]
        return np.array(starts)[:, None] + np.arange(self.variables[0].size)

    @cached_property
    def others(self) -> Indices:
        """The columns that CVXPY added."""
        return np.setdiff1d(np.arange(len(self.compiled.data["c"])), self.columns)

    @cached_property
    def rows(self) -> Indices:
        """The rows of cones without the signs of the variables that stand for shares."""
        a, bounds = sp.csr_array(self.compiled.data["A"]), self.compiled.bounds
        assert bounds is not None
        sign = np.zeros(a.shape[0], dtype=bool)
        sign[bounds] = np.isin(a.indices[a.indptr[bounds.start : bounds.stop]], self.columns)
        return np.flatnonzero(~sign)

    @cached_property
    def dims(self) -> Cones:
        """The cones of `rows`."""
        dims = self.compiled.data["dims"]
        left_out = len(self.compiled.data["b"]) - len(self.rows)
        return Cones(dims.zero, dims.nonneg - left_out, tuple(dims.soc), dims.exp, tuple(dims.p3d), tuple(dims.psd))


def is_its_expression(objective: Objective) -> bool:
    """Whether an objective is a sum of users' expressions, and of totals, that define no more than that."""
    if len(tiers_of(objective)) > 1 or objective.of_bundles:
        return False
    terms = objective.terms()
    own = [term.kind.objective for term in terms if isinstance(term.kind, ByExpression) and not term.kind.is_known]
    totals = sum(term.is_linear and term.kind.is_known for term in terms)
    return bool(own) and len(own) + totals == len(terms) and all(map(_is_plain, own))


def _is_plain(block: Objective) -> bool:
    """Whether the class of a block overrides nothing of objectives but what it may without being something else."""
    return all(
        getattr(type(block), name, None) is given
        for name, given in vars(Objective).items()
        if not name.startswith("__") and name not in HARMLESS
    )


def _written(objective: Objective, trace: _Trace) -> tuple[cp.Expression, float] | None:
    """The objective in variables that stand for shares, without constants, and these; None if it differs between
    instances.
    """
    parts = list[Any]()
    try:
        for term in objective.terms():
            if isinstance(term.kind, ByExpression):
                parts.append(term.factor * cp.sum(term.kind.objective.expression(Traced(trace))))
            else:
                parts.append(term.expression(Traced(trace)))  # with its factor
        form, constant = without_constants(cp.sum(sum(parts)))
        known = not (trace.differs or form.parameters()) and form.is_real()
    except Exception:  # whatever a user's code raises it raises again one by one, where it is named
        return None
    if not known or not all(np.isfinite(_numbers(one.value)).all() for one in form.constants()):
        return None
    return form, constant


def _numbers(value: Any) -> Float:
    """The numbers of a constant."""
    given = value.data if hasattr(value, "tocsr") else value
    return np.array(given, dtype=float)


def _same(one: tuple[cp.Expression, float], other: tuple[cp.Expression, float]) -> bool:
    """Whether two calls of a block gave the same expression of the same variables."""
    return digest(one[0]) == digest(other[0]) and one[1] == other[1]


def groups(batch: Batch) -> list[tuple[Indices, Indices]]:
    """The instances of a batch by who takes part: their indices, and those of the users."""
    part: Bool = batch.limits > 0
    _, which = np.unique(part, axis=0, return_inverse=True)
    found = [np.flatnonzero(which.ravel() == k) for k in range(int(which.max(initial=-1)) + 1)]
    return [(some, np.flatnonzero(part[some[0]])) for some in found if part[some[0]].any()]


def chunk_of(batch: Batch, which: Indices, users: Indices, shares: Sequence[Share]) -> tuple[OwnChunk, Bool]:
    """Instances of a batch in which these users take part, and for which of them all shares are defined."""
    some = batch[which]
    demands, capacities, weights, limits = some.valid(slice(0, len(some)))
    ratios, part = demands / capacities[:, None], limits > 0
    found = [_coefficients(some, share, ratios, part) for share in shares]
    coefficients = np.stack([c[:, users] for c, _ in found])
    chunk = OwnChunk(
        np.ascontiguousarray(demands[:, users].transpose(1, 2, 0)),
        np.ascontiguousarray(capacities.T),
        np.ascontiguousarray(weights[:, users].T),
        np.ascontiguousarray(limits[:, users].T),
        np.ascontiguousarray(coefficients[0].T),
        np.ascontiguousarray(coefficients.transpose(0, 2, 1)),
    )
    return chunk, np.all([defined.all(axis=1) for _, defined in found], axis=0)


def _coefficients(batch: Batch, share: Share, ratios: Float, part: Bool) -> tuple[Float, Bool]:
    """`Batch.coefficients`, of which those that raise an error are not valid; one by one they raise it again."""
    try:
        return batch.coefficients(share, ratios, part, levelled=False)
    except FairoptError:
        c, valid = np.ones(part.shape), np.zeros(part.shape, dtype=bool)
        for b in range(len(batch)):
            with suppress(FairoptError):
                one = slice(b, b + 1)
                c[one], valid[one] = batch.coefficients(share, ratios[one], part[one], levelled=False, first=b)
        return c, valid
