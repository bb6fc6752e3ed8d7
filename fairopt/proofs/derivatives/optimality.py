"""The conditions on the multipliers of a sum of objectives at one optimum, being put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairopt.proofs.derivatives.multipliers import Conditions, Ties, is_sparse
from fairopt.proofs.derivatives.optimum import Optimum, Ranked

__all__ = ["MOST_COLUMNS", "OptimalityConditions"]

Float = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

MOST_COLUMNS = 3000  # multipliers beyond which their equations are not solved: 3,000 take 10 s


class OptimalityConditions:
    """The conditions of a sum of objectives, being put together: pairs, and columns beyond the capacities'."""

    def __init__(self, optimum: Optimum, worth: Float) -> None:
        n = optimum.program.instance.n_users
        self.optimum, self.worth = optimum, worth
        self.rate: Float = np.ones(len(worth))
        self.low, self.high, self.own = optimum.low.copy(), optimum.high.copy(), np.zeros(n, dtype=bool)
        self.ranked_value = 0.0
        self.columns: list[tuple[Indices, Float, float]] = []  # charges of further multipliers: pairs, values, unit
        self.apart = 0  # multipliers of users ranked twice: each is a pair of its own, of a user of its own

    def rank(self, term: Ranked, unit: float) -> list[Ties]:
        """Add what is certain of a ranked term, ``unit`` times its factor, to the worth of tasks; give the ties."""
        optimum = self.optimum
        z = optimum.relative_shares(term.share)
        n, order = len(z), np.argsort(z, kind="stable")
        v = np.zeros(n)
        v[: min(n, len(term.v))] = np.asarray(term.v[:n]) * term.factor * unit
        self.ranked_value += float(v @ z[order])
        starts = np.flatnonzero(np.diff(z[order], prepend=-np.inf) > optimum.tie * z[order])
        ends = np.append(starts[1:], n)
        certain = np.empty(n)
        certain[order] = v
        rate = optimum.rates(term.share)
        ties: list[Ties] = []
        for g in np.flatnonzero(v[starts] > v[ends - 1]):  # equal weights leave nothing open
            users, places = order[starts[g] : ends[g]], v[starts[g] : ends[g]]
            certain[users] = 0.0
            if self.own[users].any():
                ties.append(Ties(self._rank_apart(users, rate, float(places[0])), places))
                continue
            self.own[users] = True
            self.rate = np.where(np.isin(optimum.user, users), rate, self.rate)
            ties.append(Ties(users, places))
        self.worth = self.worth + rate * certain[optimum.user]
        return ties

    def _rank_apart(self, users: Indices, rate: Float, unit: float) -> Indices:
        """A column for the multiplier of each user, which is that of a user made up for it; these users."""
        n, at = len(self.optimum.low), len(self.worth)
        made = n + self.apart + np.arange(len(users))
        for k, j in enumerate(users):
            pairs = np.flatnonzero(self.optimum.user == j)
            self.columns.append((np.append(pairs, at + self.apart + k), np.append(-rate[pairs], 1.0), unit))
        self.apart += len(users)
        return made

    def bounds_apart(self) -> None:
        """A column for the bound of each ranked user whose share differs by server: two multipliers, two rates."""
        optimum, user = self.optimum, self.optimum.user
        first = np.searchsorted(user, np.arange(len(self.own)))
        differs = np.abs(self.rate - self.rate[first[user]]) > 1e-12 * self.rate
        bounded = self.own & (self.low | self.high) & optimum.runs
        for j in np.unique(user[differs & bounded[user]]):
            pairs = np.flatnonzero(user == j)
            for at_bound, sign in ((self.high, 1.0), (self.low, -1.0)):
                if at_bound[j]:
                    unit = (self.ranked_value or 1.0) / optimum.total[j]
                    self.columns.append((pairs, np.full(len(pairs), sign), unit))
                    at_bound[j] = False

    def conditions(
        self, rows: Indices, scale: Float, whole: float, lost: Mask | None = None, paid: Float | None = None
    ) -> tuple[Conditions, Float]:
        """All of it, and the unit of each multiplier: prices, those of other conditions, and others.

        Prices are asked for of capacities given as rows of the optimum's loads, about as large as ``scale``; ``whole``
        is about what everything is worth. Users who are ``lost`` leave no condition; ``paid`` is what tasks cost at
        prices given.
        """
        optimum, apart, rest = self.optimum, self.apart, self.optimum.rest
        per_unit: Any = abs(rest.charges) @ sp.diags_array(optimum.program.size[optimum.user])
        most = per_unit.max(axis=1).toarray().ravel() if rest.charges.shape[0] else np.zeros(0)
        others = [unit for *_, unit in self.columns]
        units = np.concatenate([scale, whole / np.where(most > 0, most, 1.0), others])
        signed = np.concatenate([np.zeros(len(scale), dtype=bool), rest.signed, np.zeros(len(others), dtype=bool)])
        charges: Any = optimum.loads[rows]
        if len(units) > len(scale):
            charges = sp.vstack([sp.csr_array(charges), rest.charges])
            charges = sp.vstack([sp.hstack([charges, sp.csr_array((charges.shape[0], apart))]), self._further()])
        charges = sp.csc_array(sp.diags_array(units) @ charges) if is_sparse(charges) else units[:, None] * charges
        kept: Any = slice(None)
        if lost is not None and lost.any():
            kept = np.flatnonzero(np.append(~lost[optimum.user], np.ones(apart, dtype=bool)))

        def by_pair(values: NDArray[Any], made: Any) -> NDArray[Any]:
            return np.append(values, made * np.ones(apart, dtype=values.dtype))[kept]

        def by_user(values: Mask, made: bool) -> Mask:
            return np.append(values, np.full(apart, made))

        worth, size = self.worth, None
        if paid is not None:
            worth, size = worth - paid, by_pair(np.maximum(np.abs(worth), paid), 1)
        conditions = Conditions(
            charges[:, kept], by_pair(worth, 0), by_pair(self.rate, 1),
            by_pair(optimum.user, len(self.own) + np.arange(apart)), by_pair(optimum.tasks, 0),
            by_pair(optimum.reach, 0), by_pair(optimum.used, True),
            by_user(self.low, False), by_user(self.high, False), by_user(self.own, True), signed, size,
        )  # fmt: skip
        return conditions, units

    def _further(self) -> Any:
        """Charges of the multipliers that are neither prices nor of other conditions."""
        of_column = np.repeat(np.arange(len(self.columns)), [len(pairs) for pairs, *_ in self.columns])
        pairs = [np.zeros(0, dtype=np.intp), *(pairs for pairs, *_ in self.columns)]
        values = [np.zeros(0), *(values for _, values, _ in self.columns)]
        shape = (len(self.columns), len(self.worth) + self.apart)
        return sp.csr_array((np.concatenate(values), (of_column, np.concatenate(pairs))), shape=shape)
