"""The linear system of a step: changes of prices and soft minima, from as few unknowns as it takes.

With ``θ = parts / margins`` by pair and ``V_j`` the stack over servers and resources of ``θ_js g_jsi``, changes p of
prices and v of soft minima obey

    B p - sum_j V_j v_j = pushed,    B = block-diagonal in servers: sum_j θ_js g_jsi g_jsk, plus slack / prices
    v_j / a_j - V_j . p = lack_j + level,    a_j = 1 / (response_j + sum_s θ_js)

where users who share one level have no response of their own, and ``sum_j v_j + level / response = pull``. Where
prices are fewer, users are eliminated (`ByPrices`: a system in S m prices); where users are fewer, prices are, server
by server, as each server's block is small (`ByUsers`: a system in n users). Both are symmetric and positive.

Of 3,300 solves of random instances (1 to 60 users, 2 to 150 servers, demands and capacities over up to seven decades,
zeros, ties, weights, limits, counts) 7 were not certified by users and 8 by prices, 7 of them the same. With as many
users as prices both take the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from fairopt.formulation.demands_at_prices import Demands

Float = NDArray[np.floating[Any]]

JITTER = 1e-14  # of the diagonal, after scaling: what is singular but for rounding can still be factored


class PriceSystem(ABC):
    """The system at one point, factored.

    Parameters
    ----------
    demands : Demands
        What a unit of level takes.
    ratios : ndarray of shape (n_users, n_servers)
        Parts over margins.
    per_price : ndarray of shape (n_resources, n_servers)
        Slack over prices.
    response : ndarray of shape (n_groups,)
        By how much levels fall as soft minima rise.
    together : bool
        Whether users share one level.

    Raises
    ------
    numpy.linalg.LinAlgError, ValueError
        If there is something in it that is no number, or it is not positive any more.
    """

    def __init__(self, demands: Demands, ratios: Float, per_price: Float, response: Float, together: bool) -> None:
        self.demands, self.ratios, self.per_price, self.together = demands, ratios, per_price, together
        self.response = response
        self._factor(np.zeros(demands.n_users) if together else response)

    @abstractmethod
    def _factor(self, give: Float) -> None:
        """Factor; ``give`` is what each user's level responds by."""

    @abstractmethod
    def solve(self, lack: Float, pushed: Float, pull: float, dmargins: Float) -> tuple[Float, Float, float]:
        """Changes of prices, soft minima and the level that users share.

        Parameters
        ----------
        lack : ndarray of shape (n_users,)
            What each user's parts fall short by.
        pushed : ndarray of shape (n_resources, n_servers)
            What loads are pushed by.
        pull : float
            Of the level that users share; 0 where they do not.
        dmargins : ndarray of shape (n_users, n_servers)
            Where changes of margins are left.

        Returns
        -------
        (ndarray of shape (n_resources, n_servers), ndarray of shape (n_users,), float)
        """


def factored(matrix: Float) -> tuple[tuple[Float, bool], Float]:
    """Cholesky factor of a symmetric matrix scaled to a diagonal of one, and the scale; the matrix is overwritten."""
    diagonal = np.arange(len(matrix))
    unit = 1.0 / np.sqrt(matrix[diagonal, diagonal])
    matrix *= unit * unit[:, None]
    matrix[diagonal, diagonal] += JITTER
    return cho_factor(matrix, lower=True, overwrite_a=True), unit


class ByPrices(PriceSystem):
    """Users eliminated: ``B - sum_j a_j V_j V_j'``, plus ``v v' / A`` for a level that users share.

    There ``v = sum_j a_j V_j`` and ``A = sum_j a_j + 1 / response``.
    """

    def _factor(self, give: Float) -> None:
        demands, (m, s) = self.demands, self.per_price.shape
        self.stiffness = np.empty(demands.n_users)
        blocks = np.zeros((len(demands.upper[0]), s))
        matrix = np.zeros((m * s, m * s))
        self.shared = np.zeros(m * s)
        for users in demands.chunks():
            ratios = self.ratios[users]
            # theta (1 - a theta) would cancel on the one server that a user holds nearly everything on
            row, top = np.arange(len(ratios)), ratios.argmax(axis=1)
            most = ratios[row, top]
            ratios[row, top] = 0.0
            others = ratios.sum(axis=1) + give[users]
            ratios[row, top] = most
            a = self.stiffness[users] = 1.0 / (others + most)
            own = ratios * (1.0 - a[:, None] * ratios)
            own[row, top] = most * others * a
            blocks += demands.curvature(own, users)
            stacked = demands.stacked(ratios, users)
            if self.together:
                self.shared += a @ stacked
            stacked *= np.sqrt(a)[:, None]
            matrix -= stacked.T @ stacked
        server = np.arange(s)
        for block, i, k in zip(blocks, *demands.upper, strict=True):  # in place of what cancels
            matrix[i * s + server, k * s + server] = matrix[k * s + server, i * s + server] = block
        diagonal = np.arange(m * s)
        matrix[diagonal, diagonal] += self.per_price.ravel()
        if self.together:
            self.inertia = float(self.stiffness.sum() + 1.0 / self.response[0])
            matrix += np.outer(self.shared, self.shared / self.inertia)
        self.factor, self.unit = factored(matrix)

    def solve(self, lack: Float, pushed: Float, pull: float, dmargins: Float) -> tuple[Float, Float, float]:
        """Prices first; see `PriceSystem.solve`."""
        offset = self.stiffness * lack
        right = pushed.copy()
        for users in self.demands.chunks():
            right += self.demands.loads(self.ratios[users] * offset[users, None], users)
        flat, level = right.ravel(), 0.0
        common = pull - float(offset.sum())
        if self.together:
            flat = flat + self.shared * (common / self.inertia)
        flat = self.unit * cho_solve(self.factor, self.unit * flat, check_finite=False)
        if self.together:
            level = float(common - self.shared @ flat) / self.inertia
        prices, softest = flat.reshape(pushed.shape), np.empty_like(offset)
        for users in self.demands.chunks():
            change = dmargins[users]
            change[:] = self.demands.price(prices, users)
            along = np.einsum("js,js->j", self.ratios[users], change) + level
            softest[users] = offset[users] + self.stiffness[users] * along
            change -= softest[users, None]
        return prices, softest, level


class ByUsers(PriceSystem):
    """Prices eliminated: ``1 / a - V B^-1 V'``, plus ``response`` everywhere for a level that users share.

    Each server's block is factored, ``B_s = L_s L_s'``, and ``rows`` are ``V L'^-1``.
    """

    def _factor(self, give: Float) -> None:
        demands, (m, s) = self.demands, self.per_price.shape
        blocks = np.zeros((len(demands.upper[0]), s))
        sums = np.empty(demands.n_users)
        for users in demands.chunks():
            blocks += demands.curvature(self.ratios[users], users)
            sums[users] = self.ratios[users].sum(axis=1)
        square = np.zeros((s, m, m))
        for block, i, k in zip(blocks, *demands.upper, strict=True):
            square[:, i, k] = square[:, k, i] = block
        diagonal = np.arange(m)
        square[:, diagonal, diagonal] += self.per_price.T
        unit = 1.0 / np.sqrt(square[:, diagonal, diagonal])
        square *= unit[:, :, None] * unit[:, None, :]
        square[:, diagonal, diagonal] += JITTER
        # (m, m, s): the inverse of L by row and column
        self.inverse = np.moveaxis(np.linalg.inv(np.linalg.cholesky(square)) * unit[:, None, :], 0, 2).copy()
        self.rows = np.empty((demands.n_users, m, s))
        for users in demands.chunks():
            for row in range(m):
                np.multiply(self.ratios[users], demands.price(self.inverse[row], users), out=self.rows[users, row])
        flat = self.rows.reshape(demands.n_users, -1)
        matrix = -(flat @ flat.T)
        every = np.arange(demands.n_users)
        matrix[every, every] += sums + give
        if self.together:
            matrix += self.response[0]
        self.factor, self.unit = factored(matrix)

    def solve(self, lack: Float, pushed: Float, pull: float, dmargins: Float) -> tuple[Float, Float, float]:
        """Soft minima first; see `PriceSystem.solve`."""
        flat = self.rows.reshape(len(lack), -1)
        white = np.einsum("iks,ks->is", self.inverse, pushed)
        right = lack + flat @ white.ravel()
        if self.together:
            right = right + self.response[0] * pull
        softest = self.unit * cho_solve(self.factor, self.unit * right, check_finite=False)
        level = float(self.response[0] * (pull - softest.sum())) if self.together else 0.0
        white += (softest @ flat).reshape(white.shape)
        prices = np.einsum("iks,is->ks", self.inverse, white)
        for users in self.demands.chunks():
            dmargins[users] = self.demands.price(prices, users) - softest[users, None]
        return prices, softest, level
