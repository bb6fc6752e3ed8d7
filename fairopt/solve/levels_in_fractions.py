"""Leximin of users under linear rows by exact linear programs, where rounding decides levels (Proposition 5.17)."""

from __future__ import annotations

import time

import numpy as np

from fairopt.certificate import Try
from fairopt.errors import NotCertified, OutOfDomain
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Proposals, Settings

LARGEST = 3000  # pairs times levels


def is_small(program: Program, levels: int) -> bool:
    """Whether the programs take little time, with so many levels."""
    return len(program.pairs) * max(levels, 1) <= LARGEST


def solve_levels_in_fractions(program: Program, settings: Settings) -> Proposals:
    """The exact answer of a small program."""
    if is_small(program, 1):  # a level may fix many users: how many there are is known at the end
        yield levels_in_fractions(program, settings, most=LARGEST // max(len(program.pairs), 1))


def levels_in_fractions(
    program: Program, settings: Settings, prices: Float | None = None, most: float = np.inf
) -> Proposal:
    """The exact answer, rounded once, of at ``most`` so many levels; ``prices`` are derivatives of the max-min level by
    row.
    """
    from fairopt.exact import modelling
    from fairopt.exact.linear import _NoPoint, _Unlimited
    from fairopt.exact.rationals import as_float, written
    from fairopt.proof.evidence.exact_levels import ExactLevels

    begun = time.perf_counter()
    if program.term.share.coefficients(program.instance).ndim == 2:
        return Proposal("levels", attempt=Try("levels", "not in fractions: shares differ by server", 0.0))
    try:
        table, levels = modelling.leximin_of(program, settings.clock, most)
    except (_NoPoint, _Unlimited, OutOfDomain, ArithmeticError, NotCertified) as error:
        return Proposal("levels", attempt=Try("levels", f"not in fractions: {error}", time.perf_counter() - begun))
    user, server = program.pairs.user.tolist(), program.pairs.server.tolist()
    tasks = np.array([as_float(table[j][s]) for j, s in zip(user, server, strict=True)])
    point = [(j, s, written(table[j][s])) for j, s in zip(user, server, strict=True) if table[j][s]]
    attempt = Try("levels", f"optimal ({len(levels)} exact programs)", time.perf_counter() - begun)
    return Proposal("levels", tasks, ExactLevels(point, levels, prices), attempt=attempt)
