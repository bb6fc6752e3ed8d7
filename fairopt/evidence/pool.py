"""Evidence on one pool: bottlenecks of leximin, prices of alpha-fairness and of a total.

Each is measured in one pass over the users (`fairopt.proofs.pool`), which gives the violation and the value too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.allocation import feasibility
from fairopt.formulation.pool_users import Chunk, Pool
from fairopt.formulation.program import Float, Program
from fairopt.proofs.entries import Imposed, price_entry
from fairopt.proofs.pool import (
    ROUNDING,
    Bottlenecks,
    PoolProof,
    bottlenecks,
    first_full,
    owed,
    proof_on_pool,
    totals,
    worth,
)
from fairopt.proofs.proposal import Evidence, Measured, Reader, as_indices, as_list, as_numbers

Settle = Callable[[Chunk], None]


class OnPool(Evidence):
    """Evidence on a ``pool`` under bounds on tasks alone.

    ``settle`` writes the tasks of a chunk of users while they are measured, which saves a pass over the demands.
    """

    pool: Pool
    settle: Settle | None

    @property
    def writes_tasks(self) -> bool:
        return self.settle is not None

    def applies(self, program: Program) -> bool:
        if self.pool.program is not program or not program.single:
            return False
        # blocks may have no rows for a single user
        return self.proves(program) and all(program.rows_of(block) == [] for block in program.rest)

    @abstractmethod
    def proves(self, program: Program) -> bool:
        """Whether this kind proves something of the program's objective."""

    @abstractmethod
    def proof(self, program: Program, tasks: Float) -> PoolProof:
        """The measures of the tasks, and what follows from them."""

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        proof = self.proof(program, tasks)
        self.settle = None  # the tasks are written now
        if proof.factor < 1:  # accounts for rounding
            tasks *= proof.factor
        proof = self.closer(program, tasks, proof)
        feasible = proof.found.feasible
        violation = feasible.violation
        if program.given.n_servers > 1:  # spread over servers that are alike
            violation = max(violation, feasibility(program.given, program.expand(tasks)))
        return Measured(tasks, proof.gap, feasible.short, proof.prices, violation=violation, value=proof.value)

    def closer(self, program: Program, tasks: Float, proof: PoolProof) -> PoolProof:
        """The proof by another pass, where a first one leaves something open."""
        return proof


@dataclass
class Bottlenecked(OnPool):
    """Leximin or max-min on one pool, where each user is at a full resource or at its limit: this needs no multipliers.

    ``order`` are resources in the order in which they became full, a hint; ``prices`` (n_resources,) derivatives of the
    max-min level by each whole capacity.
    """

    pool: Pool
    order: Sequence[int] | None = None
    prices: Float | None = None
    settle: Settle | None = None

    kind = "bottlenecks"

    @property
    def by_level(self) -> bool:
        return True

    def proves(self, program: Program) -> bool:
        return program.term.is_smallest

    def proof(self, program: Program, tasks: Float) -> PoolProof:
        pool = self.pool
        found = bottlenecks(pool, tasks, self.order, self.settle, exact=False)
        return proof_on_pool(program, pool.usable, pool.n, found, self.prices)

    def closer(self, program: Program, tasks: Float, proof: PoolProof) -> PoolProof:
        pool, found = self.pool, proof.found
        assert isinstance(found, Bottlenecks)
        if found.full(pool.usable) and proof.gap <= ROUNDING and not found.traces(pool.usable):
            return proof
        order = first_full(pool, tasks) if self.order is None else self.order
        found = bottlenecks(pool, tasks, order)
        debts = owed(pool, tasks, order, found.least) if found.traces(pool.usable) else None
        return proof._replace(found=found, gap=found.gap(pool.usable, debts), value=program.term.factor * found.lowest)

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        return {"kind": self.kind}

    def numbers(self) -> dict[str, Any]:
        return bottleneck_numbers(self.order, self.prices)

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        pool = pool_of(program)
        order = None if held["order"] is None else as_indices(held["order"], pool.m).tolist()
        return cls(pool, order, None if held["prices"] is None else as_numbers(held["prices"], (pool.m,)))


@dataclass
class FairPrices(OnPool):
    """Alpha-fairness on one pool: logarithms of prices per whole capacity, for shares in units of ``level``."""

    pool: Pool
    log_prices: Float
    level: float
    settle: Settle | None = None

    kind = "fair prices"

    def proves(self, program: Program) -> bool:
        return program.term.is_curved

    def proof(self, program: Program, tasks: Float) -> PoolProof:
        pool, alpha = self.pool, program.term.alpha
        assert alpha is not None
        found = worth(pool, tasks, self.log_prices, alpha, self.level, self.settle)
        return proof_on_pool(program, pool.usable, pool.n, found, self.log_prices, self.level)

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        return price_entry(program, program.term.factor * np.exp(self.log_prices), unit=self.level)

    def numbers(self) -> dict[str, Any]:
        return fair_numbers(self.log_prices, self.level)

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        pool = pool_of(program)
        if not program.term.is_curved:
            raise ValueError("fair prices for another objective")
        return cls(pool, as_numbers(held["log_prices"], (pool.m,)), float(held["level"]))


@dataclass
class TotalPrices(OnPool):
    """The largest total on one pool: prices per whole capacity."""

    pool: Pool
    prices: Float
    settle: Settle | None = None

    kind = "total prices"

    def proves(self, program: Program) -> bool:
        return program.term.is_linear

    def proof(self, program: Program, tasks: Float) -> PoolProof:
        pool, prices = self.pool, np.maximum(self.prices, 0.0)
        return proof_on_pool(program, pool.usable, pool.n, totals(pool, tasks, prices, self.settle), prices)

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        return price_entry(program, program.term.factor * self.prices)

    def numbers(self) -> dict[str, Any]:
        return total_numbers(self.prices)

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        pool = pool_of(program)
        return cls(pool, as_numbers(held["prices"], (pool.m,)))


def bottleneck_numbers(order: Sequence[int] | None = None, prices: Float | None = None) -> dict[str, Any]:
    """What files hold of `Bottlenecked`."""
    return {"kind": Bottlenecked.kind, "order": as_list(order), "prices": as_list(prices)}


def fair_numbers(log_prices: Float, level: float) -> dict[str, Any]:
    """What files hold of `FairPrices`."""
    return {"kind": FairPrices.kind, "log_prices": as_list(log_prices), "level": as_list(level)}


def total_numbers(prices: Float) -> dict[str, Any]:
    """What files hold of `TotalPrices`."""
    return {"kind": TotalPrices.kind, "prices": as_list(prices)}


def pool_of(program: Program) -> Pool:
    """The pool that evidence in a file is of."""
    if program.pool_share is None:
        raise ValueError("evidence on one pool for a program of several servers")
    return Pool(program, program.pool_share)
