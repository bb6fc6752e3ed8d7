"""What users take on several servers, in chunks of users: costs at prices, and loads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]

FORBIDDEN = 1e60  # cost of a server where a user may not run: what is held there vanishes, and its square is a float
CHUNK = 1 << 17  # numbers in a chunk of stacked loads: 1 MB


class Demands(ABC):
    """What a unit of level takes, ``g_jsi = per_level_js d_jsi / C_si``, in chunks of users.

    Prices and loads have shape (n_resources, n_servers) here, so that a server's neighbours lie beside it.

    Parameters
    ----------
    demands : ndarray of shape (n_users, n_resources) or (n_users, n_servers, n_resources)
        Units per task.
    capacities : ndarray of shape (n_servers, n_resources)
        Units of each server row, counts included.
    per_level : ndarray of shape (n_users, 1) or (n_users, n_servers)
        Tasks per unit of level.
    eligible : ndarray of bool of shape (n_users, n_servers)
        Who may run where; somewhere at least.
    """

    def __init__(self, demands: Float, capacities: Float, per_level: Float, eligible: NDArray[np.bool_]) -> None:
        self.eligible = eligible
        self.n_users, self.n_servers = eligible.shape
        self.n_resources = demands.shape[-1]
        self.per_capacity = np.divide(1.0, capacities.T, out=np.zeros(capacities.T.shape), where=capacities.T > 0)
        self.upper = np.triu_indices(self.n_resources)
        self._prepare(demands, per_level)

    def chunks(self) -> Iterator[slice]:
        """Users in chunks whose stacked loads stay in cache."""
        size = max(CHUNK // (self.n_servers * self.n_resources), 16)
        return (slice(first, first + size) for first in range(0, self.n_users, size))

    def cheapest(self, prices: Float) -> Float:
        """The true minimum over servers of what a unit of level costs, shape (n_users,)."""
        return np.concatenate([self.costs(prices, users).min(axis=1) for users in self.chunks()])

    def costs(self, prices: Float, users: slice) -> Float:
        """Cost of a unit of level by user and server, FORBIDDEN where a user may not run."""
        out = self.price(prices, users)
        out[~self.eligible[users]] = FORBIDDEN
        return out

    def all_loads(self, parts: Float) -> Float:
        """Loads by resource and server of ``parts`` of level by user and server."""
        out = np.zeros((self.n_resources, self.n_servers))
        for users in self.chunks():
            out += self.loads(parts[users], users)
        return out

    @abstractmethod
    def _prepare(self, demands: Float, per_level: Float) -> None:
        """Keep what is asked for again and again."""

    @abstractmethod
    def price(self, prices: Float, users: slice) -> Float:
        """Cost of a unit of level by user and server, eligible or not."""

    @abstractmethod
    def loads(self, parts: Float, users: slice) -> Float:
        """Loads by resource and server of a chunk's parts of level."""

    @abstractmethod
    def stacked(self, factors: Float, users: slice) -> Float:
        """``factors_js g_jsi`` as rows by user, shape (chunk, n_resources * n_servers)."""

    @abstractmethod
    def curvature(self, factors: Float, users: slice) -> Float:
        """``sum_j factors_js g_jsi g_jsk`` for the pairs of resources in ``upper``, shape (n_pairs, n_servers)."""


class _SameDemands(Demands):
    def _prepare(self, demands: Float, per_level: Float) -> None:
        self.units = demands * per_level
        self.squares = self.units[:, self.upper[0]] * self.units[:, self.upper[1]]
        self.per_square = self.per_capacity[self.upper[0]] * self.per_capacity[self.upper[1]]

    def price(self, prices: Float, users: slice) -> Float:
        return self.units[users] @ (prices * self.per_capacity)

    def loads(self, parts: Float, users: slice) -> Float:
        return (self.units[users].T @ parts) * self.per_capacity

    def stacked(self, factors: Float, users: slice) -> Float:
        out = np.empty((len(factors), self.n_resources, self.n_servers))
        for i in range(self.n_resources):
            np.multiply(factors, self.units[users, i, None], out=out[:, i])
        out *= self.per_capacity
        return out.reshape(len(factors), -1)

    def curvature(self, factors: Float, users: slice) -> Float:
        out: Float = (self.squares[users].T @ factors) * self.per_square
        return out


class _DemandsByServer(Demands):
    def _prepare(self, demands: Float, per_level: Float) -> None:
        self.ratios = np.empty((self.n_users, self.n_resources, self.n_servers))
        for i in range(self.n_resources):
            np.multiply(demands[..., i] if demands.ndim == 3 else demands[:, i, None], per_level, out=self.ratios[:, i])
        self.ratios *= self.per_capacity
        self.ratios *= self.eligible[:, None, :]

    def price(self, prices: Float, users: slice) -> Float:
        ratios = self.ratios[users]
        out: Float = ratios[:, 0] * prices[0]
        for i in range(1, self.n_resources):  # resource by resource: einsum took twice as long
            out += ratios[:, i] * prices[i]
        return out

    def loads(self, parts: Float, users: slice) -> Float:
        ratios = self.ratios[users]
        return np.stack([np.einsum("js,js->s", ratios[:, i], parts) for i in range(self.n_resources)])

    def stacked(self, factors: Float, users: slice) -> Float:
        return (self.ratios[users] * factors[:, None, :]).reshape(len(factors), -1)

    def curvature(self, factors: Float, users: slice) -> Float:
        ratios = self.ratios[users]
        weighted = [factors * ratios[:, i] for i in range(self.n_resources)]
        return np.stack([np.einsum("js,js->s", weighted[i], ratios[:, k]) for i, k in zip(*self.upper, strict=True)])


def demands_of(demands: Float, capacities: Float, per_level: Float, eligible: NDArray[np.bool_]) -> Demands:
    """`Demands` of the kind that fits: the same demands on every server need no numbers by pair."""
    same = demands.ndim == 2 and per_level.shape[1] == 1
    return (_SameDemands if same else _DemandsByServer)(demands, capacities, per_level, eligible)
