"""Costs at prices, and loads, of users on several servers, in chunks of users.

Bounds and methods ask the same three things of G, of shape (n_users, n_servers, n_resources), ``G_jsi = per_level_js
d_jsi / C_si``: costs ``sum_i G_jsi p_si``, the cheapest server of each user, and loads ``sum_j G_jsi z_js``; and
Newton's steps ``sum_j theta_js G_jsi G_jsk``. Where demands and units are the same on all servers G is never stored: it
is a product of a table by user and one by server, so that costs and loads are products of matrices (`_SameDemands`).
Else G is one table by user, resource and server, resources apart, as NumPy's sums along short axes are slow.

Nothing here decides anything, so that rounding is that of sums. Servers where a user may not run cost 1e60 instead of
infinity: products with 0 parts are then 0 and not NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check

FORBIDDEN = 1e60  # cost of a server where a user is not eligible; its square does not overflow
CHUNK = 1 << 17  # numbers per chunk of stacked loads: 1 MB
FEW = 16  # servers up to which tables are stored by server, as reductions of short rows are slow


def by_pair(n_users: int, n_servers: int) -> Float:
    """An empty table by user and server, in the memory order in which sums over servers are fast."""
    return np.empty((n_users, n_servers), order="F" if n_servers <= FEW else "C")


def cheapest_of(costs: Float) -> tuple[Float, Indices]:
    """The minimum of each row and its index; NumPy takes ten times as long for short rows."""
    if costs.shape[1] > FEW:
        index = costs.argmin(axis=1)
        return costs[np.arange(len(costs)), index], index
    least, index = costs[:, 0].copy(), np.zeros(len(costs), dtype=np.intp)
    for s in range(1, costs.shape[1]):
        less = costs[:, s] < least
        np.copyto(least, costs[:, s], where=less)
        index[less] = s
    return least, index


class Demands:
    """The load of a unit of level, ``g_jsi = per_level_js d_jsi / C_si``, in chunks of users.

    ``demands`` (n_users, n_resources) or (n_users, n_servers, n_resources) are units per task, ``capacities``
    (n_servers, n_resources) those of a server row, counts included, ``per_level`` (n_users, 1) or (n_users, n_servers)
    tasks per unit of level. Each user is ``eligible`` (n_users, n_servers) on some server. Prices and loads have shape
    (n_resources, n_servers), contiguous along servers.
    """

    def __init__(self, demands: Float, capacities: Float, per_level: Float, eligible: Bool) -> None:
        self.eligible = eligible
        self.n_users, self.n_servers = eligible.shape
        self.n_resources = demands.shape[-1]
        # 0 where there is no capacity: nobody who needs the resource is eligible there
        self.per_capacity = np.divide(1.0, capacities.T, out=np.zeros(capacities.T.shape), where=capacities.T > 0)
        self.upper = np.triu_indices(self.n_resources)
        self._prepare(demands, per_level)

    def chunks(self) -> Iterator[slice]:
        """Users in chunks whose stacked loads stay in cache."""
        size = max(CHUNK // (self.eligible.shape[1] * self.n_resources), 16)
        for first in range(0, self.n_users, size):
            check()
            yield slice(first, first + size)

    def cheapest(self, prices: Float) -> Float:
        """The smallest cost of a unit of level over the servers, shape (n_users,)."""
        return np.concatenate([self.costs(prices, users).min(axis=1) for users in self.chunks()])

    def costs(self, prices: Float, users: slice) -> Float:
        """The cost of a unit of level by user and server, FORBIDDEN where a user is not eligible."""
        out = self.price(prices, users)
        out[~self.eligible[users]] = FORBIDDEN
        return out

    def all_loads(self, parts: Float) -> Float:
        """Loads by resource and server of levels ``parts`` by user and server."""
        out = np.zeros((self.n_resources, self.n_servers))
        for users in self.chunks():
            out += self.loads(parts[users], users)
        return out

    def _prepare(self, demands: Float, per_level: Float) -> None:
        """Compute what every evaluation needs."""
        shape = (self.n_users, self.n_resources, self.n_servers)
        few = self.n_servers <= FEW  # as in `by_pair`
        # with few servers users are the long, contiguous axis
        self.ratios = np.moveaxis(np.empty((*shape[1:], shape[0])), 2, 0) if few else np.empty(shape)
        for i in range(self.n_resources):
            np.multiply(demands[..., i] if demands.ndim == 3 else demands[:, i, None], per_level, out=self.ratios[:, i])
        self.ratios *= self.per_capacity
        self.ratios *= self.eligible[:, None, :]

    def price(self, prices: Float, users: slice | Indices) -> Float:
        """The cost of a unit of level by user and server, eligible or not."""
        ratios = self.ratios[users]
        out: Float = ratios[:, 0] * prices[0]
        for i in range(1, self.n_resources):  # einsum took twice as long
            out += ratios[:, i] * prices[i]
        return out

    def loads(self, parts: Float, users: slice | Indices) -> Float:
        """Loads by resource and server of a chunk's levels."""
        ratios = self.ratios[users]
        return np.stack([np.einsum("js,js->s", ratios[:, i], parts) for i in range(self.n_resources)])

    def stacked(self, factors: Float, users: slice) -> Float:
        """``factors_js g_jsi`` as rows by user, shape (chunk, n_resources * n_servers)."""
        return (self.ratios[users] * factors[:, None, :]).reshape(len(factors), -1)

    def subtract_products(self, matrix: Float, factors: Float, users: slice) -> None:
        """Subtract ``V'V`` from a symmetric matrix in place, V being `stacked`; at least below the diagonal."""
        stacked = self.stacked(factors, users)
        matrix -= stacked.T @ stacked

    def curvature(self, factors: Float, users: slice) -> Float:
        """``sum_j factors_js g_jsi g_jsk`` for the pairs of resources in ``upper``, shape (n_pairs, n_servers)."""
        ratios = self.ratios[users]
        weighted = [factors * ratios[:, i] for i in range(self.n_resources)]
        return np.stack([np.einsum("js,js->s", weighted[i], ratios[:, k]) for i, k in zip(*self.upper, strict=True)])


class _SameDemands(Demands):
    """`Demands` that are the same on every server, without arrays by (user, server) pair."""

    def _prepare(self, demands: Float, per_level: Float) -> None:
        self.units = demands * per_level
        # products of demands of two resources, symmetric: `curvature` is one product of matrices
        self.squares = self.units[:, self.upper[0]] * self.units[:, self.upper[1]]
        self.per_square = self.per_capacity[self.upper[0]] * self.per_capacity[self.upper[1]]

    def price(self, prices: Float, users: slice | Indices) -> Float:
        return self.units[users] @ (prices * self.per_capacity)

    def loads(self, parts: Float, users: slice | Indices) -> Float:
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


class OnChosen(Demands):
    """Of `Demands` that differ by server, those on ``servers`` (n_users, n_chosen) of each user, in increasing order.

    These take the place of all servers in tables by user and server.
    """

    def __init__(self, whole: Demands, servers: Indices) -> None:
        self.servers, self.eligible = servers, np.take_along_axis(whole.eligible, servers, axis=1)
        self.n_users, self.n_servers, self.n_resources = whole.n_users, whole.n_servers, whole.n_resources
        self.upper = whole.upper
        by_resource = [np.take_along_axis(whole.ratios[:, i], servers, axis=1) for i in range(whole.n_resources)]
        self.ratios = np.stack(by_resource)  # (n_resources, n_users, n_chosen)

    def price(self, prices: Float, users: slice | Indices) -> Float:
        """As in `Demands`."""
        at = self.servers[users]
        out: Float = self.ratios[0, users] * prices[0][at]
        for i in range(1, self.n_resources):
            out += self.ratios[i, users] * prices[i][at]
        return out

    def _by_server(self, values: Float, users: slice | Indices) -> Float:
        """Sums by server."""
        return np.bincount(self.servers[users].ravel(), values.ravel(), self.n_servers).astype(float, copy=False)

    def loads(self, parts: Float, users: slice | Indices) -> Float:
        """As in `Demands`."""
        return np.stack([self._by_server(of_one[users] * parts, users) for of_one in self.ratios])

    def subtract_products(self, matrix: Float, factors: Float, users: slice) -> None:
        """As in `Demands`."""
        values = np.concatenate([of_one[users] * factors for of_one in self.ratios], axis=1)
        column = np.concatenate([self.servers[users] + i * self.n_servers for i in range(self.n_resources)], axis=1)
        first, second = np.triu_indices(column.shape[1])
        step = max(CHUNK // len(first), 1)
        for some in range(0, len(values), step):  # products of pairs of columns, which increase by user
            value, at = values[some : some + step], column[some : some + step]
            place = at[:, second] * len(matrix) + at[:, first]
            # unlike `bincount` and sparse matrices this makes no matrix: half the time
            np.subtract.at(matrix.ravel(), place.ravel(), (value[:, first] * value[:, second]).ravel())

    def curvature(self, factors: Float, users: slice) -> Float:
        """As in `Demands`."""
        weighted = [factors * of_one[users] for of_one in self.ratios]
        pairs = zip(*self.upper, strict=True)
        return np.stack([self._by_server(weighted[i] * self.ratios[k, users], users) for i, k in pairs])


def demands_of(demands: Float, capacities: Float, per_level: Float, eligible: Bool) -> Demands:
    """`Demands` of the class that fits the shapes."""
    same = demands.ndim == 2 and per_level.shape[1] == 1
    return (_SameDemands if same else Demands)(demands, capacities, per_level, eligible)
