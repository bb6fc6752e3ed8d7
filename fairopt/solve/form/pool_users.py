"""Passes over the users of one pool, in chunks that fit the cache, for all methods on a pool.

A pass reads the demands once and calls a function on each chunk. Ratios are computed resource by resource if needed
(rows of the transpose are faster than columns of a narrow array). The memory beside the demands is one number per user
and one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.shares import Share, takes_windows
from fairopt.instance.parts import window
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import later
from fairopt.runtime.tolerances import ROUNDING
from fairopt.solve.form.program import Program

Result = TypeVar("Result")

# Numbers per chunk. For a million users and four resources DRF and alpha = 2 took 13 and 54 ms with this or twice as
# many, 15 and 57 ms with half, 20 and 67 ms with a quarter. Two threads took 11 and 43 ms at best, 39 and 103 ms with
# small chunks.
CHUNK = 65_536
SMALL = 1_000  # users whose ratios and coefficients are kept for all passes, not read again in each
SAMPLE = 4_000  # users in the sample for a first guess; loads are then known to a few percent


def rows_in_a_chunk(m: int) -> int:
    """Number of users in a chunk, for m resources."""
    return max(CHUNK // m, 64)


@dataclass(frozen=True)
class Chunk:
    """Some users of a pool; ``rows`` is a slice or their indices, ``buffer`` memory for their ratios."""

    pool: Pool
    rows: Any
    demands: Float
    buffer: Float

    @property
    def size(self) -> int:
        """Number of users."""
        return len(self.demands)

    @cached_property
    def ratios(self) -> Float:
        """Demands per whole capacity, shape (n_resources, size)."""
        return np.multiply(self.demands.T, self.pool.per_unit, out=self.buffer[:, : self.size])

    def needs(self, resource: int) -> NDArray[np.bool_]:
        """Which users need a resource, without the ratios of the others."""
        return np.asarray(self.demands[:, resource] * self.pool.per_unit[resource] > 0)

    def load(self, tasks: Float, some: Any = slice(None)) -> Float:
        """Loads of tasks (k, size) of all or some of the users, shape (k, n_resources)."""
        return tasks @ self.demands[some] * self.pool.per_unit[:, 0]

    def of(self, by_user: Float | float) -> Any:
        """The chunk's part of an array by user; a number common to all users is returned unchanged."""
        return by_user if isinstance(by_user, float) else by_user[self.rows]

    @cached_property
    def coefficients(self) -> Float:
        """Coefficients of the pool's share, shape (size,), only to read; users must be consecutive."""
        if self.pool.coefficients is not None:
            return self.pool.coefficients[self.rows]
        part = window(self.pool.instance, self.rows, self.ratios.T, self.demands)
        return self.pool.share.coefficients(part, self.pool.levelled)

    @cached_property
    def room(self) -> Float:
        """Tasks between the lower and the upper bound, the latter at most the tasks of a user alone; only to read."""
        per_usable = 1.0 / self.pool.usable
        most = self.ratios[0] * per_usable[0]
        for ratio, per in zip(self.ratios[1:], per_usable[1:], strict=True):
            np.fmax(most, ratio * per, out=most)  # ignores 0 / 0: no demand, no capacity
        np.divide(1.0, most, out=most)
        np.minimum(most, self.of(self.pool.high), out=most)
        low = self.of(self.pool.low)
        return most if isinstance(low, float) and low == 0 else np.maximum(most - low, 0.0, out=most)


class Pool:
    """The users of a program of one server row and of one share.

    ``every`` selects every k-th user and the same fraction of the capacity: a sample. ``low`` (n_users,) replaces the
    lower bounds of the program. The attributes ``weights``, ``low`` and ``high`` are numbers if common to all users,
    else of shape (n_users,); ``usable`` (n_resources,) is the usable fraction of each resource.
    """

    def __init__(self, program: Program, share: Share, every: int = 1, low: Float | None = None) -> None:
        instance = program.instance
        self.program, self.share, self.every = program, share, every
        self.instance = instance if every == 1 else window(instance, slice(None, None, every))
        self.demands = self.instance.demands if instance.demands.ndim == 2 else self.instance.demands[:, 0]
        self.n, self.m = self.demands.shape
        self.usable = program.usable * (self.n / max(instance.n_users, 1))
        self.weights = common(self.instance.weights)
        self.low = common((program.low if low is None else low)[::every])
        self.high = common(program.high[::every])
        if low is not None:
            self.high = np.maximum(self.high, self.low)
        if not isinstance(self.high, float) and self.high.min(initial=np.inf) == np.inf:
            self.high = np.inf
        total = instance.total_capacities
        self.per_unit = 1.0 / np.where(total > 0, total, np.inf)[:, None]  # zero capacity implies zero demand
        self.levelled = low is not None or program.term.kind.levels_users
        # rows of files are read in each pass, which notices changes
        self.is_small = 0 < self.n <= min(SMALL, self.step) and isinstance(self.demands, np.ndarray)
        in_chunks = takes_windows(share, instance) and not (self.is_small and every == 1)
        self.coefficients = None if in_chunks else share.coefficients(instance, self.levelled)[::every]

    @property
    def step(self) -> int:
        """Number of users in a chunk."""
        return rows_in_a_chunk(self.m)

    @property
    def bounded(self) -> bool:
        """Whether any user has a limit or a lower bound."""
        free = isinstance(self.low, float) and isinstance(self.high, float) and self.low == 0 and self.high == np.inf
        return not free

    def least(self) -> tuple[Float, bool]:
        """Load of the lower bounds, shape (n_resources,), and whether any exceeds the upper bound."""
        if isinstance(self.low, float) and self.low == 0:
            return np.zeros(self.m), False
        least = np.broadcast_to(self.low, self.n)
        load = np.sum(self.each(lambda chunk: chunk.ratios @ least[chunk.rows]), axis=0)
        return load, bool(np.any(self.low > np.asarray(self.high) * (1 + ROUNDING)))

    def sample(self) -> Pool | None:
        """About `SAMPLE` users, or one in sixteen of very many, with their part of the capacity; None for a small
        pool.
        """
        step = self.n // SAMPLE if self.n < 32 * SAMPLE else 16
        return Pool(self.program, self.share, self.every * step) if step > 1 else None

    @cached_property
    def only(self) -> Chunk:
        """The chunk of all users of a small pool, whose numbers serve all passes."""
        return Chunk(self, slice(0, self.n), self.demands, np.empty((self.m, self.n)))

    def each(self, function: Callable[[Chunk], Result], among: Indices | None = None) -> list[Result]:
        """The results of a function for each chunk of users, in order; a chunk's ratios are valid until it returns.

        ``among`` are the indices of the users to read.
        """
        with np.errstate(all="ignore"):  # zeros and infinities are checked later
            if among is None and self.is_small:
                return [function(self.only)]
            size = self.n if among is None else len(among)
            buffer = np.empty((self.m, min(self.step, size)))
            out = []
            for start in range(0, size, self.step):
                part = slice(start, min(start + self.step, size))
                rows = part if among is None else among[part]
                chunk = Chunk(self, rows, self.demands[rows], buffer)
                out.append(function(chunk))
            return out


def refuse_unfit_bounds(program: Program, load: Float, crossed: bool) -> None:
    """Raise `Infeasible` with the lower bounds on tasks of one pool that conflict, if they do not fit."""
    if not bounds_fit(load, crossed, program.usable):
        later("fairopt.solve.infeasible:explain")(program)


def bounds_fit(load: Float, crossed: bool, usable: Float) -> bool:
    """Whether lower bounds with this load can be met; not if any exceeds the upper bound (``crossed``)."""
    return not crossed and not (load > usable * (1 + ROUNDING)).any()


def common(values: Float) -> Any:
    """The number that an array repeats by a stride of zero, else the array."""
    return float(values[0]) if values.size and values.strides == (0,) else values


def cost(ratios: Float, prices: Float) -> Float:
    """The cost of a task, summed in a fixed order, so that it is the same in every chunk to the last digit."""
    out: Float = ratios[0] * prices[0]
    for ratio, price in zip(ratios[1:], prices[1:], strict=True):
        out += ratio * price
    return out
