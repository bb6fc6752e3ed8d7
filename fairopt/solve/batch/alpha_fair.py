"""Alpha-fairness of many instances at once, by a primal-dual interior point (Proposition 8.2).

Each is ``max sum_j w_j u(z_j)``, ``u'(z) = z^-alpha``, under ``sum_j rate_ji z_j <= 1`` and ``z_j <= top_j``, in levels
near 1. With prices p, multipliers t of limits, slacks s and tau, ``A = rate / w``, ``kappa = min(alpha, 1)`` and ``beta
= max(alpha, 1)``, its conditions are

    kappa log z_j + log(sum_i A_ji p_i^beta + t_j^beta) / beta = 0,   s_i p_i = tau_j t_j = 0.

Prices and multipliers of limits are to the power 1 / beta: no power overflows, and numbers stay near 1 for large alpha.
Newton's method works on relative changes, so that each instance has a system of m rows in the prices alone; all take
the same step of the same loop, as NumPy needs long axes, and those that are done leave the arrays. Newton's method in
prices alone, as for one large pool, branches by instance.

Rounding: an instance ends at residuals and products of 1e-12, or of 1e-8 and 1e-10 if it takes long; prices of
resources that are full for the same users are not unique, and a pivot that is rounding is left out. The gate bounds
each optimum by its prices (Bound 8.4), and what is not certified is solved again on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.tolerances import NOISE, TINY
from fairopt.solve.form.many_instances import BatchChunk

STEPS = 100  # 10 on average, 30 at alpha = 0.01
# Largest residual and largest complementarity product at the end. Below, the rounding of loads (1e-16) is no longer
# small against the slacks. Of 20,000 instances of small integers with limits up to 44 did not reach these; they end at
# the tolerances of step LATE.
RESIDUAL, PRODUCT = 1e-12, 1e-12
LATE, LATE_RESIDUAL, LATE_PRODUCT = 50, 1e-8, 1e-10
# Part of a diagonal element below which elimination has left only rounding. Of 400,000 instances of small integers 107
# did not converge with 0, 16 with 1e-13, none with 1e-12 to 1e-10.
DEPENDENT = 1e-11
BACK = 0.995  # part of the way to the nearest bound that a step goes


def alpha_fair_of_chunk(chunk: BatchChunk, alpha: float) -> tuple[Float, Float]:
    """Tasks, (n_users, size), and logarithms of prices, (n_resources, size), of weighted alpha-fairness, alpha > 0.

    Prices are in the chunk's `FairUnits`. Where the method did not converge, both are those of the last step.
    """
    units = chunk.fair_units
    # only limits that can bind; users who take no part have a rate of 0, and a limit of 1 keeps their level finite
    binding = np.where(units.part, np.where(units.tops < units.alone, units.tops, np.inf), 1.0)
    z, log_prices = _InteriorPoint(units.rates, units.log_per_weight, binding, alpha).run()
    return chunk.tasks_at(np.where(units.part, z * units.unit, 0.0)), log_prices


@dataclass
class _Iterate:
    """A point of each unfinished program; all numbers are positive."""

    z: Float  # s_j / w_j in units of the max-min level
    slack: Float  # of each resource, as a fraction
    price: Float  # of each resource, to the power 1 / max(alpha, 1)
    limit_slack: Float
    limit_price: Float

    def kept(self, which: Bool) -> _Iterate:
        return _Iterate(*(x[..., which] for x in vars(self).values()))


class _InteriorPoint:
    """Newton's method in relative changes, for many programs; each has a system in the prices alone."""

    def __init__(self, rates: Float, logs: Float, tops: Float, alpha: float) -> None:
        self.rates, self.logs, self.tops = rates, logs, tops
        self.limited = np.isfinite(tops)
        self.kappa, self.beta = min(alpha, 1.0), max(alpha, 1.0)

    def run(self) -> tuple[Float, Float]:
        """Levels (n, size) and logarithms of prices (m, size), of the last step where the method did not converge."""
        n, m, size = self.rates.shape
        z_found, log_prices = np.empty((n, size)), np.empty((m, size))
        here = np.arange(size)
        z = np.minimum(0.5, 0.5 * self.tops)
        now = _Iterate(
            z=z,
            slack=np.maximum(1.0 - np.einsum("jib,jb->ib", self.rates, z), 0.1),
            price=np.full((m, size), 1.0 / m),
            limit_slack=np.where(self.limited, self.tops - z, np.inf),
            limit_price=np.maximum(0.1, self.tops**-self.kappa),  # of a limit that binds alone, by the first condition
        )
        step: Float = np.ones(size)
        for k in range(STEPS + 1):
            system = self._linearise(now)
            residual, product = (RESIDUAL, PRODUCT) if k < LATE else (LATE_RESIDUAL, LATE_PRODUCT)
            done = (system.residual < residual) & (system.largest < product) | (k == STEPS)
            if done.any():
                z_found[:, here[done]] = np.where(now.limit_slack < NOISE * now.z, self.tops, now.z)[:, done]
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
        limit = np.where(self.limited, self.beta * np.log(now.limit_price), -np.inf)
        top = np.maximum(logs.max(axis=1), limit)  # log sum exp by its largest term
        parts, limit = np.exp(logs - top[:, None]), np.exp(limit - top)
        cost = parts.sum(axis=1) + limit
        use = self.rates * now.z[:, None]
        dual = self.kappa * np.log(now.z) + (top + np.log(cost)) / self.beta
        primal = 1.0 - use.sum(axis=0) - now.slack
        primal_limit = np.where(self.limited, 1.0 - self.tops / (now.z + now.limit_slack), 0.0)
        products = now.slack * now.price
        limit_products = np.where(self.limited, now.limit_slack * now.limit_price, 0.0)
        return _Linearised(
            spent=parts / cost[:, None],
            spent_on_limit=limit / cost,
            use=use,
            dual=dual,
            primal=primal,
            primal_limit=primal_limit,
            products=products,
            limit_products=limit_products,
            residual=np.maximum(
                np.maximum(abs(primal).max(axis=0), abs(dual).max(axis=0)), abs(primal_limit).max(axis=0)
            ),
            largest=np.maximum(products.max(axis=0), limit_products.max(axis=0)),
            mean=(products.sum(axis=0) + limit_products.sum(axis=0)) / (len(products) + self.limited.sum(axis=0)),
        )

    def _step(self, now: _Iterate, system: _Linearised, last: Float) -> tuple[_Iterate, Float]:
        # mu falls fast after a long step (by 0.05 instead of 0.01: 13 steps instead of 10), and not at all while
        # residuals are much larger than products
        factor = np.where(last > 0.9, 0.01, np.where(last > 0.5, 0.2, 0.8))
        mu = np.where(system.residual > 1e3 * system.mean, system.mean, np.maximum(factor * system.mean, 0.1 * PRODUCT))
        target = mu / system.products - 1.0
        limit_target = np.where(self.limited, mu / np.where(self.limited, system.limit_products, 1.0) - 1.0, 0.0)
        filled = np.where(self.limited, now.z / (now.z + now.limit_slack), 0.0)
        free = 1.0 - filled
        curvature = filled * system.spent_on_limit + self.kappa * free
        # relative change of z: `alone - response * (relative change of its cost)`
        response = free / curvature
        alone = -(system.spent_on_limit * (system.primal_limit + free * limit_target) + free * system.dual) / curvature
        matrix = np.einsum("jib,jkb->ikb", system.use * response[:, None], system.spent)
        diagonal = np.arange(len(matrix))
        matrix[diagonal, diagonal] += now.slack
        right = np.einsum("jib,jb->ib", system.use, alone) + now.slack * target - system.primal
        price = _eliminate(matrix, right)
        cost = np.einsum("jib,ib->jb", system.spent, price)
        z, slack = alone - response * cost, target - price
        limit_price = (
            self.kappa * (system.primal_limit + free * limit_target) - filled * (system.dual + cost)
        ) / curvature
        limit_price = np.where(self.limited, limit_price, 0.0)
        limit_slack = limit_target - limit_price
        # Prices enter by their power beta, so their growth in a step is limited. At alpha = 100 up to 18 of 500 random
        # instances did not converge without this, and at most 1 of 2,000 with it.
        growth = np.maximum(price.max(axis=0), limit_price.max(axis=0))
        trust = (0.3 + 3.0 / self.beta) / np.maximum(growth, 1e-9)
        primal = np.minimum(np.minimum(_reach(z), np.minimum(_reach(slack), _reach(limit_slack))), trust)
        dual = np.minimum(np.minimum(_reach(price), _reach(limit_price)), trust)
        moved = _Iterate(
            z=now.z * (1.0 + primal * z),
            slack=now.slack * (1.0 + primal * slack),
            price=now.price * (1.0 + dual * price),
            limit_slack=now.limit_slack * (1.0 + primal * limit_slack),
            limit_price=now.limit_price * (1.0 + dual * limit_price),
        )
        return moved, np.minimum(primal, dual)


@dataclass
class _Linearised:
    """Residuals of the optimality conditions at a point, and their derivatives."""

    spent: Float  # part of a user's cost that is for each resource
    spent_on_limit: Float
    use: Float  # load of each resource by each user
    dual: Float  # logarithm of cost over marginal utility, divided by max(alpha, 1)
    primal: Float  # residual of use + slack = 1 for each resource
    primal_limit: Float  # relative residual of z + limit_slack = limit
    products: Float  # of slacks and prices
    limit_products: Float
    residual: Float  # the largest
    largest: Float  # product
    mean: Float

    def kept(self, which: Bool) -> _Linearised:
        return _Linearised(*(x[..., which] for x in vars(self).values()))


def _reach(change: Float) -> Float:
    """The largest part of a relative change that leaves all numbers positive, at most 1."""
    return np.minimum(1.0, BACK / np.maximum(-change.min(axis=0), TINY))


def _eliminate(matrix: Float, right: Float) -> Float:
    """Solve ``matrix @ x = right`` for each index of the last axis, (m, m, size) and (m, size), in place.

    No pivoting is needed: the matrix is a positive definite one with rows and columns scaled. Where prices are not
    unique, a pivot is only rounding, and its price does not change.
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
