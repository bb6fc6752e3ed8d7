"""Evidence on one pool: bottlenecks of leximin, with or without envy-freeness; prices of alpha-fairness and totals.

Leximin needs no numbers: at the optimum each user is at its limit, or at a full resource on which nobody above a lower
bound has more (Propositions 4.1 and 4.14, docs/methods/pool.md), which is seen from the tasks. Alpha-fairness and
totals need m prices, of which any give a bound (Bounds 4.6 and 4.9). One pass over the users measures all; `pool_gaps`
has the formulas.

The first pass over a leximin takes bounds where they are good enough (``exact=False``), as water-filling leaves
bottlenecks full to 1e-13. Only those that are not, or that hang on small holdings, pay for a second pass
(`Bottlenecked.closer`), or for fractions where rounding decides.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.allocation import feasibility
from fairopt.blocks.constraints import EnvyFree
from fairopt.proof import feasibility as conditions
from fairopt.proof.dual import Dual
from fairopt.proof.entries import Named, price_rows, priced
from fairopt.proof.envy_levels import EnvyProgram, binding_envy_rows, envy_gap
from fairopt.proof.pool_gaps import (
    Bottlenecks,
    PoolProof,
    alpha_fair_sums,
    bottlenecks,
    corrections,
    first_full,
    proof_on_pool,
    rounding_decides,
    total_sums,
)
from fairopt.proof.proposal import Evidence, Measured, Reader, as_indices
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import SUM_ROUNDING
from fairopt.solve.form.pool_users import Pool
from fairopt.solve.form.program import Program


class OnPool(Evidence):
    """Evidence on a ``pool`` under bounds on tasks only."""

    pool: Pool

    def applies(self, program: Program) -> bool:
        if self.pool.program is not program or not program.single:
            return False
        # blocks may have no rows for a single user
        return self.proves(program) and all(program.rows_of(block) == [] for block in program.rest)

    @abstractmethod
    def proves(self, program: Program) -> bool:
        """Whether this kind of evidence applies to the program's objective."""

    @abstractmethod
    def proof(self, program: Program, tasks: Float) -> PoolProof:
        """The measures of the tasks, and the proof from them."""

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        proof = self.proof(program, tasks)
        if proof.factor < 1:  # by rounding
            tasks *= proof.factor  # in place: the caller's array is the answer
        proof = self.closer(program, tasks, proof)
        feasible = proof.found.feasible
        violation = feasible.violation
        if program.given.n_servers > 1:  # spread over identical servers
            violation = max(violation, feasibility(program.given, program.expand(tasks)))
        measured = Measured(
            tasks, proof.gap, feasible.below_bound, proof.prices, violation=violation, value=proof.value
        )
        measured.load = feasible.load
        return measured

    def closer(self, program: Program, tasks: Float, proof: PoolProof) -> PoolProof:
        """The proof by a second pass, if the first one is not conclusive."""
        return proof


@dataclass(frozen=True)
class Bottlenecked(OnPool):
    """Leximin or max-min on one pool: each user is at a full resource or its limit. No multipliers are needed.

    ``order`` are resources in the order in which they became full, a hint; ``prices`` (n_resources,) are derivatives of
    the max-min level by each whole capacity.
    """

    pool: Pool
    order: Sequence[int] | None = None
    prices: Float | None = None

    kind = "bottlenecks"

    @property
    def by_level(self) -> bool:
        return True

    def proves(self, program: Program) -> bool:
        return program.term.is_smallest

    def proof(self, program: Program, tasks: Float) -> PoolProof:
        pool = self.pool
        measures = bottlenecks(pool, tasks, self.order, exact=False)
        return proof_on_pool(program, pool.usable, pool.n, measures, self.prices)

    def closer(self, program: Program, tasks: Float, proof: PoolProof) -> PoolProof:
        pool, measures = self.pool, proof.found
        assert isinstance(measures, Bottlenecks)
        if rounding_decides(program, measures):
            from fairopt.proof.exact_filling import exact_gap

            # a smaller gap or a larger one: floats do not say which levels are right there
            if (exact := exact_gap(program, tasks)) is not None:
                return proof._replace(gap=exact)
        conclusive = measures.full(pool.usable) and proof.gap <= SUM_ROUNDING
        if conclusive and not measures.has_small_holdings(pool.usable, proof.gap):
            return proof
        # exactly now, and where somebody holds very little with what earlier levels owe
        order = first_full(pool, tasks) if self.order is None else self.order
        measures = bottlenecks(pool, tasks, order)
        small = measures.has_small_holdings(pool.usable)
        gap = measures.gap(pool.usable, corrections(pool, tasks, order, measures.least) if small else None)
        return proof._replace(found=measures, gap=gap, value=program.term.factor * measures.lowest)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        prices = {} if self.prices is None else priced(program, self.prices)
        return {"kind": self.kind} | ({} if self.order is None else {"order": list(map(int, self.order))}) | prices

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        pool, order = pool_of(program), held.get("order")
        order = None if order is None else as_indices(order, pool.m).tolist()
        return cls(pool, order, None if held.get("prices") is None else price_rows(program, held))


@dataclass(frozen=True)
class PoolPrices(OnPool):
    """Alpha-fairness or the largest total on one pool: prices per whole capacity."""

    pool: Pool
    dual: Dual

    kind = "prices"

    def proves(self, program: Program) -> bool:
        return program.term.alpha is not None

    def proof(self, program: Program, tasks: Float) -> PoolProof:
        pool, alpha, unit = self.pool, program.term.alpha, self.dual.unit
        prices = np.maximum(self.dual.prices, 0.0) / program.term.factor
        if not alpha:
            return proof_on_pool(program, pool.usable, pool.n, total_sums(pool, tasks, prices), prices)
        prices = np.log(prices)  # minus infinity of 0
        sums = alpha_fair_sums(pool, tasks, prices, alpha, unit)
        return proof_on_pool(program, pool.usable, pool.n, sums, prices, unit)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        return self.dual.entry(program, names)

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        return cls(pool_of(program), Dual.restored(program, held, read.names))


@dataclass(frozen=True)
class EnvyBottlenecks(Evidence):
    """Leximin or max-min under envy-freeness on one pool, which needs no multipliers.

    ``prices`` (n_resources,) are derivatives of the max-min level by each whole capacity.
    """

    envy: EnvyProgram
    prices: Float | None = None

    kind = "pulled"

    @property
    def by_level(self) -> bool:
        return True

    def applies(self, program: Program) -> bool:
        fits = self.envy.program is program and program.single and all(type(c) is EnvyFree for c in program.rest)
        return fits and bool(program.rest) and program.term.is_smallest

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        # the rows of all pairs, also those that bind nobody
        shortfalls = [float(by.max(initial=0.0)) for _, by in conditions.broken_rows(program, tasks)]
        of_blocks = max(conditions.bounds_violation(program, tasks), *shortfalls)
        prices = None if self.prices is None else program.term.factor * self.prices
        return Measured(tasks, envy_gap(self.envy, tasks), of_blocks, prices)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        """With the pairs of users by whose envy the tasks are bound."""
        users, n = program.instance.users, program.instance.n_users
        pairs = [[users[row // n], users[row % n]] for row in binding_envy_rows(self.envy, tasks)]
        return {"kind": self.kind, "pairs": pairs} | ({} if self.prices is None else priced(program, self.prices))

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        return cls(EnvyProgram(program), None if held.get("prices") is None else price_rows(program, held))


def pool_of(program: Program) -> Pool:
    """The pool of evidence in a file."""
    if program.pool_share is None:
        raise ValueError("evidence on one pool for a program of several servers")
    return Pool(program, program.pool_share)
