"""Alpha-fairness of many instances at once: one primal-dual interior-point method whose steps are taken on all.

With ``z_j = s_j / w_j``, at the optimum a user's marginal value is its payment, ``z_j^-alpha = a_j . p + t_j`` (``t_j``
the price of its limit), and each price is zero or its capacity or limit is reached. Newton's method works on the
logarithm of the first condition, divided by max(alpha, 1), and on prices to the power 1 / max(alpha, 1): so no power
overflows, and for large alpha all numbers stay as near to 1 as those of max-min.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairopt.formulation.batch import BatchChunk
from fairopt.methods.arrays import Bool, Float

STEPS = 100  # 10 on the average, 30 at alpha = 0.01
# Error of any condition, and price times unused fraction of a resource. Less is not possible: the rounding of loads,
# 1e-16, is then no longer small beside what is unused, and steps along prices that are not unique are noise. Of 20,000
# instances of small integers with limits up to 44 did not get that far; these end at the LATE tolerances.
CLOSE, ENOUGH = 1e-12, 1e-12
LATE, LATE_CLOSE, LATE_ENOUGH = 50, 1e-8, 1e-10
AT_LIMIT = 1e-9  # relative room below a limit that is only what ENOUGH leaves
# Part of a diagonal element below which elimination has left only rounding. Of 400,000 instances of small integers 107
# did not end with 0, 16 with 1e-13, none with 1e-12 to 1e-10.
DEPENDENT = 1e-11
BOUNDARY = 0.995  # part of the way to the nearest bound that a step goes


def alpha_fair_of_chunk(chunk: BatchChunk, alpha: float) -> tuple[Float, Float]:
    """Tasks of weighted alpha-fairness for alpha > 0, (n_users, size), and logarithms of prices, (n_resources, size).

    Prices are in the chunk's `FairUnits`, and NaN where the method did not end.
    """
    units = chunk.fair_units
    # only limits that can bind; a user who takes no part has a rate of 0, so a limit of 1 keeps it finite
    binding = np.where(units.part, np.where(units.tops < units.alone, units.tops, np.inf), 1.0)
    z, log_prices = _InteriorPoint(units.rates, units.log_per_weight, binding, alpha).run()
    return chunk.tasks_at(np.where(units.part, z * units.unit, 0.0)), log_prices


@dataclass
class _Iterate:
    """A point of each unfinished program; all numbers are positive."""

    z: Float  # s_j / w_j in units of the max-min level
    unused: Float  # fraction of each resource
    price: Float  # of each resource, to the power 1 / max(alpha, 1)
    room: Float  # below each limit
    limit_price: Float

    def kept(self, which: Bool) -> _Iterate:
        return _Iterate(*(x[..., which] for x in vars(self).values()))


class _InteriorPoint:
    """Newton steps towards ``unused * price = mu``, ``room * limit_price = mu`` as mu falls, for many programs.

    Steps are relative. Each user's three unknowns are eliminated, which leaves one small system per program.
    """

    def __init__(self, rates: Float, logs: Float, tops: Float, alpha: float) -> None:
        self.rates, self.logs, self.tops = rates, logs, tops
        self.limited = np.isfinite(tops)
        self.kappa, self.beta = min(alpha, 1.0), max(alpha, 1.0)

    def run(self) -> tuple[Float, Float]:
        """Levels z of shape (n, size) and logarithms of prices of shape (m, size); NaN where it did not end."""
        n, m, size = self.rates.shape
        z_found, log_prices = np.full((n, size), np.nan), np.full((m, size), np.nan)
        here = np.arange(size)
        z = np.minimum(0.5, 0.5 * self.tops)
        now = _Iterate(
            z=z,
            unused=np.maximum(1.0 - np.einsum("jib,jb->ib", self.rates, z), 0.1),
            price=np.full((m, size), 1.0 / m),
            room=np.where(self.limited, self.tops - z, np.inf),
            limit_price=np.maximum(0.1, self.tops**-self.kappa),
        )
        step: Float = np.ones(size)
        for k in range(STEPS):
            system = self._linearise(now)
            close, enough = (CLOSE, ENOUGH) if k < LATE else (LATE_CLOSE, LATE_ENOUGH)
            done = (system.error < close) & (system.largest < enough)
            if done.any():
                z_found[:, here[done]] = np.where(now.room < AT_LIMIT * now.z, self.tops, now.z)[:, done]
                log_prices[:, here[done]] = self.beta * np.log(now.price[:, done])
                left = ~done
                here = here[left]
                if not len(here):
                    break
                now, step, system = now.kept(left), step[left], system.kept(left)
                self.rates, self.logs, self.tops = self.rates[..., left], self.logs[..., left], self.tops[..., left]
                self.limited = self.limited[..., left]
            now, step = self._step(now, system, step)
        return z_found, log_prices

    def _linearise(self, now: _Iterate) -> _Linearised:
        logs = self.logs + self.beta * np.log(now.price)
        own = np.where(self.limited, self.beta * np.log(now.limit_price), -np.inf)
        top = np.maximum(logs.max(axis=1), own)
        parts, own = np.exp(logs - top[:, None]), np.exp(own - top)
        total = parts.sum(axis=1) + own
        use = self.rates * now.z[:, None]
        value = self.kappa * np.log(now.z) + (top + np.log(total)) / self.beta
        short = 1.0 - use.sum(axis=0) - now.unused
        off = np.where(self.limited, 1.0 - self.tops / (now.z + now.room), 0.0)
        slack, limit_slack = now.unused * now.price, np.where(self.limited, now.room * now.limit_price, 0.0)
        return _Linearised(
            spent=parts / total[:, None],
            to_limit=own / total,
            use=use,
            value=value,
            short=short,
            off=off,
            slack=slack,
            limit_slack=limit_slack,
            error=np.maximum(np.maximum(abs(short).max(axis=0), abs(value).max(axis=0)), abs(off).max(axis=0)),
            largest=np.maximum(slack.max(axis=0), limit_slack.max(axis=0)),
            mean=(slack.sum(axis=0) + limit_slack.sum(axis=0)) / (len(slack) + self.limited.sum(axis=0)),
        )

    def _step(self, now: _Iterate, system: _Linearised, last: Float) -> tuple[_Iterate, Float]:
        # mu falls fast after a long step (by 0.05 instead of 0.01: 13 steps instead of 10), and not at all while
        # conditions are much further off than prices
        factor = np.where(last > 0.9, 0.01, np.where(last > 0.5, 0.2, 0.8))
        mu = np.where(system.error > 1e3 * system.mean, system.mean, np.maximum(factor * system.mean, 0.1 * ENOUGH))
        target = mu / system.slack - 1.0
        limit_target = np.where(self.limited, mu / np.where(self.limited, system.limit_slack, 1.0) - 1.0, 0.0)
        filled = np.where(self.limited, now.z / (now.z + now.room), 0.0)
        free = 1.0 - filled
        stiff = filled * system.to_limit + self.kappa * free
        # relative change of z: `alone - gives * (what its prices change by)`
        gives = free / stiff
        alone = -(system.to_limit * (system.off + free * limit_target) + free * system.value) / stiff
        matrix = np.einsum("jib,jkb->ikb", system.use * gives[:, None], system.spent)
        diagonal = np.arange(len(matrix))
        matrix[diagonal, diagonal] += now.unused
        right = np.einsum("jib,jb->ib", system.use, alone) + now.unused * target - system.short
        price = _eliminate(matrix, right)
        paid = np.einsum("jib,ib->jb", system.spent, price)
        z, unused = alone - gives * paid, target - price
        limit_price = (self.kappa * (system.off + free * limit_target) - filled * (system.value + paid)) / stiff
        limit_price = np.where(self.limited, limit_price, 0.0)
        room = limit_target - limit_price
        # Prices enter by their power beta, so a step in which they grow much is limited. At alpha = 100 up to 18 of 500
        # random instances did not end without this, and at most 1 of 2,000 with it.
        growth = np.maximum(price.max(axis=0), limit_price.max(axis=0))
        trust = (0.3 + 3.0 / self.beta) / np.maximum(growth, 1e-9)
        primal = np.minimum(np.minimum(_reach(z), np.minimum(_reach(unused), _reach(room))), trust)
        dual = np.minimum(np.minimum(_reach(price), _reach(limit_price)), trust)
        moved = _Iterate(
            z=now.z * (1.0 + primal * z),
            unused=now.unused * (1.0 + primal * unused),
            price=now.price * (1.0 + dual * price),
            room=now.room * (1.0 + primal * room),
            limit_price=now.limit_price * (1.0 + dual * limit_price),
        )
        return moved, np.minimum(primal, dual)


@dataclass
class _Linearised:
    """The conditions at a point: their errors and derivatives."""

    spent: Float  # part of a user's payment for each resource
    to_limit: Float  # part of a user's payment for its limit
    use: Float  # load of each resource by each user
    value: Float  # logarithm of payment over marginal value, divided by max(alpha, 1)
    short: Float  # error of use + unused = 1 for each resource
    off: Float  # error of z + room = limit, relative to its terms
    slack: Float
    limit_slack: Float
    error: Float
    largest: Float
    mean: Float

    def kept(self, which: Bool) -> _Linearised:
        return _Linearised(*(x[..., which] for x in vars(self).values()))


def _reach(change: Float) -> Float:
    """The largest part of a relative change that leaves all numbers positive, at most 1."""
    return np.minimum(1.0, BOUNDARY / np.maximum(-change.min(axis=0), 1e-300))


def _eliminate(matrix: Float, right: Float) -> Float:
    """Solve ``matrix @ x = right`` for each index of the last axis, (m, m, size) and (m, size), in place.

    Without pivoting: the matrix is positive definite but for the scaling of rows and columns. Where resources are
    scarce together and their prices not unique, a pivot is only rounding, and that price does not change.
    """
    m = len(matrix)
    rounding = DEPENDENT * matrix[np.arange(m), np.arange(m)]
    for k in range(m):
        matrix[k, k] = np.where(matrix[k, k] > rounding[k], matrix[k, k], np.inf)
        factor = matrix[k + 1 :, k] / matrix[k, k]
        matrix[k + 1 :, k + 1 :] -= factor[:, None] * matrix[k, k + 1 :]
        right[k + 1 :] -= factor * right[k]
    for k in range(m - 1, -1, -1):
        right[k] = (right[k] - (matrix[k, k + 1 :] * right[k + 1 :]).sum(axis=0)) / matrix[k, k]
    return right
