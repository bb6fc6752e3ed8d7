"""Users who are alike as one: a program with one user for each kind, whose tasks are spread again by weight.

Users are alike if they have the same demands, placement, rates and teams, and the same bounds and base per weight. An
objective that compares shares per weight by a concave function treats them alike at some optimum: giving each its part
by weight of what they hold together loses nothing, so that the optimum for kinds is that for users. Envy-freeness is
kept both ways: its rows for two kinds are averages of those for their users, and users of one kind do not envy each
other where they hold parts by weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import ByExpression
from fairopt.blocks.base import blocks_within, is_ours
from fairopt.blocks.constraints import Constraint, EnvyFree, MinTasks
from fairopt.blocks.ideal import IdealGain
from fairopt.blocks.model import Point
from fairopt.blocks.normal_form import Term
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus, with_shares
from fairopt.instance import Instance, validation
from fairopt.instance.teams import sums_by
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.tolerances import ROUNDING
from fairopt.solve.form.program import Program

FEWER = 20  # users that merging must save: 20 users on servers are solved in milliseconds
PART = 0.1  # the least part of the users whose demands others have too; comparing a million users takes 2 s and 400 MB
HASH = np.uint64(0x9E3779B97F4A7C15)
BITS = 38  # of numbers per weight that are compared, which leaves out their rounding


class Alike:
    """A program of kinds, ``inner``; the kind of each user, and its ``part`` of that by weight, (n_users,) each."""

    def __init__(self, program: Program, inner: Program, of_user: Indices, part: Float) -> None:
        self.program, self.inner, self.of_user, self.part = program, inner, of_user, part

    def spread(self, tasks: Float) -> Float:
        """Tasks of kinds by pair as tasks of users by pair."""
        pairs, table = self.program.pairs, self.inner.expand(tasks)
        return np.asarray(table[self.of_user[pairs.user], pairs.server] * self.part[pairs.user])

    def gathered(self, tasks: Float) -> Float:
        """The inverse; of users who are treated differently, as much as the one who has least per weight."""
        table = self.program.pairs.table(tasks)
        sums = sums_by(self.of_user, table, self.inner.given.n_users)
        fair = sums.sum(axis=1)[self.of_user] * self.part
        least = np.ones(len(sums))
        np.minimum.at(least, self.of_user, np.divide(table.sum(axis=1), fair, out=np.ones(len(fair)), where=fair > 0))
        return self.inner.gather(sums * least[:, None])

    def envy_rows(self, a: int, b: int) -> tuple[Indices, Float]:
        """Rows ``j n + k`` of users that sum to the row of envy of two kinds, and their multipliers if that has 1.

        Users of both kinds are laid side by side by their parts. Each row counts by the overlap, per part of the
        envious, so that each user's tasks cost as much as those of its kind (Proposition 1.8).
        """
        (mine, ends), (theirs, other_ends) = self._laid[a], self._laid[b]
        cuts = np.union1d(ends, other_ends)
        overlap = np.diff(cuts, prepend=0.0)
        kept = overlap > ROUNDING * self.part[mine].min()
        middle = (cuts - overlap / 2)[kept]
        j, k = mine[np.searchsorted(ends, middle)], theirs[np.searchsorted(other_ends, middle)]
        return j * self.program.instance.n_users + k, overlap[kept] / self.part[j]

    @cached_property
    def _laid(self) -> list[tuple[Indices, Float]]:
        """The users of each kind, and where their parts end when these are laid from 0 to 1."""
        order = np.argsort(self.of_user, kind="stable")
        users = np.split(order, np.cumsum(np.bincount(self.of_user))[:-1])
        ends = [np.cumsum(self.part[some]) for some in users]
        return [(some, end / end[-1]) for some, end in zip(users, ends, strict=True)]

    def apart(self, users: Point, kinds: Point) -> float:
        """The largest relative difference of shares per weight between users and their kinds."""
        worst = 0.0
        for share in self.program.objective.share_blocks():
            own = share._of_user
            here, there = users.share(own) / users.weights, (kinds.share(own) / kinds.weights)[self.of_user]
            apart = np.abs(here - there) / np.where(there > 0, there, 1.0)
            worst = max(worst, float(apart.max(initial=0.0)))
        return worst


def alike(program: Program) -> Alike | None:
    """The program of kinds; None if that would save little, or might have another optimum."""
    if type(program) is not Program or not _merges(program):
        return None
    instance, weights = program.instance, program.instance.weights
    rows = instance.demands.reshape(instance.n_users, -1)
    if len(rows) - _distinct(rows) < max(FEWER, PART * len(rows)):
        return None
    shares = [share for share in program.objective.share_blocks() if isinstance(share, Surplus)]
    bases = {share.base for share in shares}
    if len(bases) > 1 or (program.high <= 0).any():
        return None
    base = shares[0].tasks(instance) if shares else np.zeros(instance.n_users)
    numbers = np.column_stack([program.low, program.high, base]) / weights[:, None]
    of_user, first = _kinds(instance, numbers)
    if instance.n_users - len(first) < FEWER:
        return None
    totals = sums_by(of_user, np.column_stack([weights, program.high, base, program.low]), len(first))
    merged = instance.select_users(first)
    names = ("weights", "task_limits", "guarantees")
    given = {name: validation.frozen(totals[:, k].copy()) for k, name in enumerate(names)}
    merged.__dict__.update(given, own_weights=given["weights"])
    constraints: list[Constraint] = [c for c in program.constraints if c.usable(instance) is not None]
    constraints += program.rest
    if program.low.any():
        constraints.append(MinTasks(tuple(totals[:, 3].tolist())))
    objective = with_shares(program.objective, _above_guarantees)
    inner = Program(merged, objective, constraints)
    for one, other in zip(program.objective.share_blocks(), objective.share_blocks(), strict=True):
        c, of_kinds = (s._of_user.coefficients(i) for s, i in ((one, instance), (other, merged)))
        if not np.allclose(c, of_kinds[of_user], rtol=ROUNDING, atol=0.0):  # it depends on other users, or on weights
            return None
    return Alike(program, inner, of_user, weights / totals[of_user, 0])


def _merges(program: Program) -> bool:
    """Whether merging keeps the optimum, and methods for users one by one are not as fast."""
    if any(type(block) is not EnvyFree for block in program.rest):
        return False
    if program.single and (program.pool_share is not None or program.is_above_base):
        return False
    blocks = list(blocks_within(program.objective.share_blocks()))
    if not all(map(is_ours, blocks)) or any(isinstance(b, IdealGain) and b.base is not None for b in blocks):
        return False
    return all(map(_is_symmetric, program.objective.terms()))


def _is_symmetric(term: Term) -> bool:
    """Whether a term compares shares per weight, and does not count users."""
    counts = term.ranks is not None and not term.is_smallest
    return term.kind.is_known and not isinstance(term.kind, ByExpression) and not counts


def _above_guarantees(share: Share) -> Share:
    """The share with the guarantees as its base, which are those of the program of kinds."""
    return Surplus(share.share) if isinstance(share, Surplus) else share


def _distinct(rows: Float) -> int:
    """The number of different rows, at most, by a hash of each that takes no memory for copies of rows."""
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        hashes = (hashes ^ (column + 0.0).astype(np.float64).view(np.uint64)) * HASH  # which overflows
        hashes ^= hashes >> np.uint64(29)
    return len(np.unique(hashes))


def _kinds(instance: Instance, numbers: Float) -> tuple[Indices, Indices]:
    """The kind of each user, and the first user of each kind."""
    n = instance.n_users
    mantissa, exponent = np.frexp(numbers)
    columns: list[NDArray[np.float64]] = [instance.demands.reshape(n, -1), instance.eligible.astype(float)]
    columns += [np.where(np.isfinite(mantissa), np.round(mantissa * 2.0**BITS), np.inf), exponent.astype(float)]
    columns += [instance.teams.labelling(by).of_user[:, None].astype(float) for by in instance.teams]
    columns += [] if instance.rates is None else [instance.rates]
    rows: Sequence[bytes] = [row.tobytes() for row in np.hstack(columns) + 0.0]
    place: dict[bytes, int] = {}
    of_user = np.array([place.setdefault(row, len(place)) for row in rows], dtype=np.intp)
    return of_user, np.unique(of_user, return_index=True)[1]
