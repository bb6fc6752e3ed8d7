"""Many small pools of one shape: seeded families of them, and what a mechanism does on all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.instance import Instance
from fairopt.properties.audit.answers import Outcomes, outcomes

__all__ = ["FAMILIES", "LARGEST", "SHAPES", "Pools", "drawn", "within"]

Float = NDArray[np.floating[Any]]
Rng = np.random.Generator

LARGEST = 8  # of a number in the families of integers: witnesses that one can check by hand
SHAPES = ((2, 2), (3, 2), (2, 3), (3, 3), (4, 2), (4, 3), (2, 4), (5, 4))  # users and resources, as many of each


@dataclass(frozen=True, eq=False)
class Pools:
    """Many pools of one shape.

    Attributes
    ----------
    demands : ndarray of shape (size, n_users, n_resources)
    capacities : ndarray of shape (size, n_resources)
    weights, limits : ndarray of shape (size, n_users)
    """

    demands: Float
    capacities: Float
    weights: Float
    limits: Float

    def __len__(self) -> int:
        return len(self.demands)

    def __getitem__(self, chosen: Any) -> Pools:
        """Some of them: indices, a mask or a slice."""
        return Pools(self.demands[chosen], self.capacities[chosen], self.weights[chosen], self.limits[chosen])

    @classmethod
    def of(cls, instance: Instance) -> Pools:
        """One instance on one pool."""
        demands = instance.per_server_demands[:, 0]
        parts = (demands, instance.total_capacities, instance.weights, instance.task_limits)
        return cls(*(np.array(part, dtype=float)[None] for part in parts))

    @classmethod
    def stacked(cls, parts: list[Pools]) -> Pools:
        """Several batches of one shape as one."""
        names = ("demands", "capacities", "weights", "limits")
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def instance(self, b: int) -> Instance:
        """One of them."""
        return Instance(
            self.demands[b], self.capacities[b], weights=self.weights[b], task_limits=self.limits[b]
        )  # fmt: skip

    def without(self, user: int) -> Pools:
        """The same pools when one user has left."""
        arrays = (np.delete(a, user, axis=1) for a in (self.demands, self.weights, self.limits))
        demands, weights, limits = arrays
        return Pools(demands, self.capacities, weights, limits)

    @property
    def alone(self) -> Float:
        """Tasks that each user could run with all of it, up to its limit: shape (size, n_users)."""
        return np.minimum(within(self.capacities[:, None], self.demands), self.limits)

    def run(self, mechanism: Any) -> Outcomes:
        """What a mechanism does on them."""
        plain = bool((self.weights == 1).all())
        unlimited = bool(np.isinf(self.limits).all())
        return outcomes(
            mechanism, self.demands, self.capacities, None if plain else self.weights,
            None if unlimited else self.limits,
        )  # fmt: skip


def within(bundle: Float, demands: Float) -> Float:
    """Tasks that bundles have room for, over the last axis."""
    shape = np.broadcast_shapes(bundle.shape, demands.shape)
    return np.divide(bundle, demands, out=np.full(shape, np.inf), where=demands > 0).min(axis=-1)


# -- families ---------------------------------------------------------------------------------------------------------


def _integers(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Pools:
    """Demands and capacities are integers from 1 to 8."""
    demands = _some_zeros(rng, rng.integers(1, LARGEST + 1, size=(size, n, m)).astype(float), zeros)
    return _plain(demands, rng.integers(1, LARGEST + 1, size=(size, m)).astype(float))


def _binding(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Pools:
    """Demands are integers, and one, two or all resources are full at one point of integers."""
    demands = _some_zeros(rng, rng.integers(1, LARGEST + 1, size=(size, n, m)).astype(float), zeros)
    return _plain(demands, _scarce(rng, demands, rng.integers(1, LARGEST + 1, size=(size, n)).astype(float), True))


def _logarithmic(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Pools:
    """Demands are log-uniform over three decades, and some resources are full at a point near equal shares."""
    demands = _some_zeros(rng, 10.0 ** rng.uniform(-1.5, 1.5, size=(size, n, m)), zeros)
    point = rng.uniform(0.5, 2.0, size=(size, n)) / demands.max(axis=2)
    return _plain(demands, _scarce(rng, demands, point, False))


def _near_ties(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Pools:
    """Users are all but equally dominant in two resources, of which both are scarce."""
    demands: Float = rng.uniform(0.2, 1.0, size=(size, n, m))
    demands[:, :, :2] = rng.uniform(0.8, 1.0, size=(size, n, min(m, 2)))
    demands = _some_zeros(rng, demands, zeros)
    return _plain(demands, np.maximum(demands.sum(axis=1) * rng.choice([1.0, 1.1, 2.0], size=(size, m)), 0.1))


FAMILIES: dict[str, Callable[[Rng, int, int, int, bool], Pools]] = {
    "integers": _integers,
    "binding integers": _binding,
    "log space": _logarithmic,
    "near ties": _near_ties,
}


def drawn(
    rng: Rng, family: str, shape: tuple[int, int], size: int, *, positive: bool = False, weights: bool = False,
    limits: bool = False,
) -> Pools:  # fmt: skip
    """Some pools of a family.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where chance comes from.
    family : str
        A name in `FAMILIES`.
    shape : tuple of int
        Users and resources.
    size : int
        How many.
    positive : bool, default False
        No zero demands; else about a third of the pools have some.
    weights, limits : bool, default False
        Entitlements from 1 to 4, and limits for some users, where they bind.

    Returns
    -------
    Pools

    Examples
    --------
    >>> import numpy as np
    >>> drawn(np.random.default_rng(0), "integers", (2, 2), 1, positive=True).demands
    array([[[7., 6.],
            [5., 3.]]])
    """
    n, m = shape
    pools = FAMILIES[family](rng, size, n, m, not positive)
    if weights:
        pools = replace(pools, weights=rng.integers(1, 5, size=(size, n)).astype(float))
    if limits:
        part = pools.alone * rng.choice([0.125, 0.25, 0.5, np.inf, np.inf], size=(size, n))
        if family in ("integers", "binding integers"):
            part = np.where(np.isfinite(part), np.maximum(np.round(part * 2) / 2, 0.5), np.inf)
        pools = replace(pools, limits=part)
    return pools


def _plain(demands: Float, capacities: Float) -> Pools:
    size, n, _ = demands.shape
    return Pools(demands, capacities, np.ones((size, n)), np.full((size, n), np.inf))


def _some_zeros(rng: Rng, demands: Float, zeros: bool) -> Float:
    """Zeros in a third of the pools, never a whole row of them."""
    if zeros:
        size, n, m = demands.shape
        gone = (rng.random(demands.shape) < 0.35) & (rng.random((size, 1, 1)) < 1 / 3)
        gone[np.arange(size)[:, None], np.arange(n), rng.integers(0, m, size=(size, n))] = False
        demands = np.where(gone, 0.0, demands)
    return demands


def _scarce(rng: Rng, demands: Float, point: Float, whole: bool) -> Float:
    """Capacities of which some, at least one, are just used up at these tasks."""
    size, _, m = demands.shape
    load = np.einsum("bjm,bj->bm", demands, point)
    slack = rng.uniform(1.2, 4.0, size=(size, m))
    binding = rng.random((size, m)) < rng.choice([0.2, 0.6, 1.0], size=(size, 1))
    binding[np.arange(size), rng.integers(0, m, size=size)] = True
    room = load * np.where(binding, 1.0, slack)
    return np.maximum(np.ceil(room - 1e-9) if whole else room, 1.0 if whole else 1e-3)
