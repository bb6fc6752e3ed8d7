"""In-memory evaluation for alpha-fairness: how users respond to prices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.formulation.pool_users import Chunk, Pool
from fairopt.methods.pool.alpha_fair import WIDE, Response, unit_level

Float = NDArray[np.floating[Any]]


class Responding:
    """The users of a pool, in memory.

    Parameters
    ----------
    pool : Pool
        Who they are.
    alpha : float
        Of the objective to be solved.
    level : float, optional
        A unit that is known already.

    Attributes
    ----------
    tasks : ndarray of shape (n_users,)
        Share of a task, until `settling` makes tasks of it.
    rates : ndarray of shape (n_resources,)
        Load per level of shares per weight, bounds aside.
    first_limit : float
        The level at which the first user is at its limit.
    level : float
        The unit of shares per weight.
    """

    def __init__(self, pool: Pool, alpha: float, level: float | None = None) -> None:
        self.pool, self.alpha, self.usable = pool, alpha, pool.usable
        self.tasks = np.empty(pool.n)
        self.thinner: Responding | None = None
        self.read = level is None  # otherwise the first pass over the users is left to the first response
        if level is not None:
            self.level = level
            return
        parts = pool.each(self._start)
        self.rates: Float = np.sum([rates for rates, _ in parts], axis=0)
        self.first_limit = min(limit for _, limit in parts)
        self.level = unit_level(self.rates, self.usable, self.first_limit, alpha)

    @classmethod
    def with_samples(cls, pool: Pool, alpha: float) -> Responding:
        """Users whose samples have been looked at before: their unit will do."""
        thinner_pool = pool.sample()
        if thinner_pool is None:
            return cls(pool, alpha)
        thinner = cls.with_samples(thinner_pool, alpha)
        users = cls(pool, alpha, None if alpha > 1 and pool.bounded else thinner.level)
        users.thinner = thinner
        thinner.measure_in(users.level)
        return users

    def measure_in(self, level: float) -> None:
        """Take another unit."""
        self.level = level
        if self.thinner is not None:
            self.thinner.measure_in(level)

    def _start(self, chunk: Chunk) -> tuple[Float, float]:
        c = chunk.coefficients
        self.tasks[chunk.rows] = c
        per_level = chunk.of(self.pool.weights) / c
        high = chunk.of(self.pool.high)
        return chunk.ratios @ per_level, float(np.min(high / per_level)) if self.pool.bounded else np.inf

    def _share_of_a_task(self, chunk: Chunk) -> Float:
        held = self.tasks[chunk.rows]
        if not self.read:
            held[:] = chunk.coefficients
        return held

    def sample(self) -> Responding | None:
        """Fewer users, with the same unit."""
        return self.thinner

    def respond(self, log_prices: Float, alpha: float) -> Response:
        """What they want at prices."""
        parts = self.pool.each(lambda chunk: self._respond(chunk, log_prices, alpha))
        self.read = True
        return Response.of_all(parts)

    def _respond(self, chunk: Chunk, log_prices: Float, alpha: float) -> Response:
        tasks, spent, ratios = self._wanted(chunk, self._share_of_a_task(chunk), log_prices, alpha)
        load = chunk.ratios @ tasks
        if self.pool.bounded:  # who is held by a bound does not react
            low, high = chunk.of(self.pool.low), chunk.of(self.pool.high)
            tasks = tasks * ((tasks > low) & (tasks < high))
        if spent is None:
            return Response(load, (chunk.ratios * tasks) @ ratios.T)
        np.divide(tasks, spent, out=tasks)
        return Response(load, ((ratios * tasks) @ ratios.T) * (np.exp(log_prices) * self.level))

    def _wanted(
        self, chunk: Chunk, c: Float, log_prices: Float, alpha: float, alike: bool = False
    ) -> tuple[Float, Float | None, Float]:
        """Tasks; the price of one by level and the ratios, or with wide prices None and the parts of budgets.

        With ``alike`` identical users get identical tasks, to the last digit.
        """
        weights = chunk.of(self.pool.weights)
        if np.abs(log_prices).max() < WIDE:
            unit_prices = np.exp(log_prices) * self.level
            price = _added_alike(unit_prices, chunk.ratios) if alike else unit_prices @ chunk.ratios
            tasks, spent, ratios = (c / price) ** (1.0 / alpha), price, chunk.ratios
        else:
            logs = np.log(chunk.ratios) + log_prices[:, None]
            top = logs.max(axis=0)
            log_price = top + np.log(np.exp(logs - top).sum(axis=0))
            tasks = np.exp((np.log(c / self.level) - log_price) / alpha)
            spent, ratios = None, np.exp(logs - log_price)
        tasks *= weights * self.level / c
        if self.pool.bounded:
            np.clip(tasks, chunk.of(self.pool.low), chunk.of(self.pool.high), out=tasks)
        return tasks, spent, ratios

    def settling(self, log_prices: Float) -> Callable[[Chunk], None]:
        """What makes tasks of what users want at prices, chunk by chunk, in one pass over all of them."""
        read, self.read = self.read, False  # shares of a task give way to tasks

        def settle(chunk: Chunk) -> None:
            held = self.tasks[chunk.rows]
            if not read:
                held[:] = chunk.coefficients
            held[:] = self._wanted(chunk, held, log_prices, self.alpha, alike=True)[0]

        return settle


def _added_alike(unit_prices: Float, ratios: Float) -> Float:
    """Prices of a task, added up in the same order for all users: BLAS may round a column by where it stands."""
    price = np.zeros(ratios.shape[1])
    for unit_price, row in zip(unit_prices, ratios, strict=True):
        price += unit_price * row
    return price
