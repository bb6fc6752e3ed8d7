"""User-defined objectives of many instances: written once for each shape, solved and judged in pieces.

Who takes part, and weights where a block reads them, make a shape. What is not certified here is left to the caller,
which solves it one by one: instances of rare shapes too, and all others of a shape of which most of a piece were not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.objectives import Objective
from fairopt.policy import Policy
from fairopt.proof.dual import Dual
from fairopt.proof.entries import Named
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.many_cone_gaps import Duals, judge_cones
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.clock import Clock
from fairopt.runtime.tolerances import GAP_TOLERANCE
from fairopt.solve.batch.cones import Written
from fairopt.solve.form.many_instances import Batch
from fairopt.solve.form.program import Program
from fairopt.solve.form.repeated import Repeated, chunk_of, groups, is_its_expression

PIECE = 256  # instances: of 16, 64, 256 and 1,000 each takes 0.5, 0.14, 0.07 and 0.06 ms beside the solver
FEW = 4  # instances of a shape, for which writing it is not worth it


class Piece(NamedTuple):
    """Instances by their numbers in a batch, with tasks of the ``users`` who take part, gaps and violations."""

    which: Indices
    users: Indices
    tasks: Float
    gap: Float
    violation: Float


class _Found(NamedTuple):
    """What proves the answers of a piece: multipliers, with the variables that CVXPY added."""

    which: Indices
    users: Indices
    repeated: Repeated
    others: Float
    duals: Duals


class OwnNotions:
    """A policy of a user-defined objective on a batch."""

    def __init__(self, objective: Objective, batch: Batch) -> None:
        self.objective, self.batch = objective, batch
        self.written: dict[tuple[bytes, ...], Repeated | None] = {}
        self.found: list[_Found] = []

    @classmethod
    def of(cls, policy: Any, batch: Batch) -> OwnNotions | None:
        """None for mechanisms, policies with constraints, and objectives that are more than expressions."""
        objective = getattr(policy, "objective", None)
        plain = getattr(type(policy), "allocate", None) is Policy.allocate
        if not plain or policy.constraints or not isinstance(objective, Objective) or not is_its_expression(objective):
            return None
        return cls(objective, batch)

    def pieces(self, where: slice, clock: Clock) -> Iterator[Piece]:
        """What is found of some of the instances, until the time is up."""
        first = where.start
        for which, users in groups(self.batch[where]):
            for some in self._of_weights(first + which, users):
                repeated = self._repeated(some, users)
                for start in range(0, len(some), PIECE):
                    if repeated is None or clock.late:
                        break
                    piece = self._piece(repeated, some[start : start + PIECE], users, clock)
                    yield piece
                    if np.mean(piece.gap <= GAP_TOLERANCE) < 0.5:
                        repeated = None

    def _of_weights(self, which: Indices, users: Indices) -> list[Indices]:
        """The instances by weights, if the objective reads these; without shapes that are rare."""
        repeated = self._repeated(which, users) if len(which) >= FEW else None
        if repeated is None or not repeated.by_weights:
            return [which] if repeated is not None else []
        _, of = np.unique(self.batch.weights[which][:, users], axis=0, return_inverse=True)
        found = [which[of.ravel() == k] for k in range(int(of.max()) + 1)]
        return [some for some in found if len(some) >= FEW]

    def _repeated(self, which: Indices, users: Indices) -> Repeated | None:
        """The objective written for the shape of the first of these."""
        weights = np.array(self.batch.weights[which[0], users])
        every = self.written.get((users.tobytes(),))
        if every is not None and not every.by_weights:
            return every
        key = users.tobytes(), weights.tobytes()
        if key not in self.written:
            self.written[key] = made = Repeated.of(self.objective, self.batch, users, weights)
            self.written.setdefault((users.tobytes(),), made)
        return self.written[key]

    def _piece(self, repeated: Repeated, which: Indices, users: Indices, clock: Clock) -> Piece:
        """The answers of some instances, or of as many as there is time for."""
        chunk, defined = chunk_of(self.batch, which, users, repeated.shares)
        points = list[tuple[Float, Float] | None]()
        with np.errstate(all="ignore"):  # NaN is not certified
            programs = Written(repeated, chunk)
            for point in programs.solved():
                points.append(point)
                if clock.late:
                    break
            done = slice(0, len(points))
            tasks, others, duals = programs.answer([*points, *[None] * (len(which) - len(points))], chunk)
            gap, violation = judge_cones(repeated, chunk, tasks, duals, self.batch.taking_part(which[0])[0])
        self.found.append(_Found(which, users, repeated, others, duals))
        return Piece(which[done], users, tasks.T[done], np.where(defined, gap, np.inf)[done], violation[done])

    def evidence(self, b: int, tasks: Float) -> tuple[dict[str, Any], ...]:
        """The evidence of an instance that is in a piece, at its tasks, for files."""
        which, users, repeated, others, of_piece = next(one for one in self.found if b in one.which)
        k = int(np.flatnonzero(which == b)[0])
        duals = of_piece.of(k)
        chunk, _ = chunk_of(self.batch, np.array([b]), users, repeated.shares)
        with np.errstate(all="ignore"):
            programs = Written(repeated, chunk)
            program = Program(self.batch.taking_part(b)[0], self.objective, ())
            prices = Solved.of_prices(program, duals.prices, "CLARABEL")
            written = programs.own_program(repeated, chunk, tasks, others[:, k], duals)
        entry = Dual(np.maximum(duals.prices, 0.0)).entry(program, Named(()))
        return (entry | {"written": written, "loaded": prices.numbers()},)
