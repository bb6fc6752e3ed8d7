"""Families of false reports, for many users at once.

A case is one user of one instance. Its truth is a row of M demands with their capacities (``room``), by resource, or by
server and resource where demands differ by server.
"""

from __future__ import annotations

import numpy as np

from fairopt.properties.units import quotient
from fairopt.runtime.arrays import Bool, Float, Rng

SCALES = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.01, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10)
SINGLES = (0.01, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.01, 1.05, 1.1, 1.2, 1.35, 1.5, 2, 3, 5, 10, 100)
NEAR = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0, 1.001, 1.01, 1.05, 1.1, 1.25, 1.5, 2)  # times the largest other ratio
FROM_ZERO = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 0.9, 0.99, 1.0, 1.01, 1.1, 1.5, 2)  # times the dominant ratio
LARGEST_ENTRY = 8  # of integers in the grid


def reports(family: str, truth: Float, room: Float, rng: Rng, most: int, servers: int = 1) -> Float:
    """Reports of one family, (n_cases, K, M), with K at most ``most``; `legal` tells which of them are false."""
    made = MAKERS[family](truth, room, rng, most, servers)
    if made.shape[1] > most:
        made = made[:, np.sort(rng.choice(made.shape[1], most, replace=False))]
    return made


def legal(
    reported: Float, truth: Float, room: Float, boosting: bool, positive: bool, servers: int = 1
) -> tuple[Float, Bool]:
    """Reports (n_cases, K, M) made legal, and which of them (n_cases, K) are then false.

    A resource without capacity cannot be demanded. With ``boosting`` reports are at least the truth, with ``positive``
    they are positive where the truth is.
    """
    true = truth[:, None]
    reported = np.where(room[:, None] > 0, reported, true)
    if boosting:
        reported = np.maximum(reported, true)
    if positive:
        reported = np.where((reported <= 0) & (true > 0), true, reported)
    by_server = (*reported.shape[:2], servers, -1)
    needed = np.any(true.reshape(len(true), 1, servers, -1) > 0, axis=3)
    somewhere = np.any(reported.reshape(by_server) > 0, axis=3) | ~needed
    fine = np.isfinite(reported).all(axis=2) & (reported >= 0).all(axis=2)
    return reported, somewhere.all(axis=2) & fine & (reported != true).any(axis=2)


def climbs(best: Float, step: float, rng: Rng, most: int) -> Float:
    """Reports around the best, (n_cases, K <= most, M): steps of one logarithm, and random steps of all."""
    m = best.shape[1]
    alone = np.eye(m) * step
    moves = np.concatenate([alone, -alone, rng.normal(scale=step, size=(2 * m, m))])[: max(most, 1)]
    return best[:, None] * np.exp(moves)


def _scaled(truth: Float, room: Float, rng: Rng, most: int, servers: int) -> Float:
    """The row scaled; where demands differ by server, also the row of each server alone."""
    factors = np.array(SCALES)
    whole = truth[:, None] * factors[:, None]
    if servers == 1:
        return whole
    of_one = np.repeat(np.eye(servers, dtype=bool), truth.shape[1] // servers, axis=1)
    each = truth[:, None] * np.where(of_one[:, None], factors[:, None], 1.0).reshape(-1, truth.shape[1])
    return np.concatenate([whole, each], axis=1)


def _grid(truth: Float, room: Float, rng: Rng, most: int, servers: int) -> Float:
    """Rows of small integers: all, or a random choice if they are many."""
    m = truth.shape[1]
    largest = int(min(max(truth.max(initial=1.0) + 1, 2), LARGEST_ENTRY))
    count = float(largest + 1) ** m
    if count > 2e6 or count > 4 * most:
        rows = rng.integers(0, largest + 1, size=(most, m)).astype(float)
    else:
        rows = np.stack(np.unravel_index(np.arange(1, int(count)), (largest + 1,) * m), axis=1).astype(float)
    return np.broadcast_to(rows, (len(truth), *rows.shape))


def _near_the_largest(truth: Float, room: Float, rng: Rng, most: int, servers: int) -> Float:
    """One ratio moved to just below, at and just above the largest of the others."""
    m = truth.shape[1]
    ratios = quotient(truth, room)
    others = np.where(np.eye(m, dtype=bool), 0.0, ratios[:, None]).max(axis=2)  # (n_cases, M)
    target = others * room
    keep = (target <= 0) | (truth <= 0)  # zeros are changed by `_zeros`
    return _put(truth, np.where(keep, truth, target)[:, None] * np.where(keep[:, None], 1.0, np.array(NEAR)[:, None]))


def _one_at_a_time(truth: Float, room: Float, rng: Rng, most: int, servers: int) -> Float:
    """One number scaled."""
    return _put(truth, truth[:, None] * np.array(SINGLES)[:, None])


def _zeros(truth: Float, room: Float, rng: Rng, most: int, servers: int) -> Float:
    """A zero made positive, up to beyond the dominant ratio; a positive number made zero."""
    ratios = quotient(truth, room)
    top = ratios.max(axis=1)[:, None, None] * room[:, None]
    raised = top * np.array(FROM_ZERO)[:, None]
    none = (truth <= 0)[:, None]
    values = np.concatenate([np.where(none, raised, truth[:, None]), np.where(none, truth, 0.0)], axis=1)
    return _put(truth, values)


def _random(truth: Float, room: Float, rng: Rng, most: int, servers: int) -> Float:
    """All numbers times random factors; some zeros made positive."""
    size, m = truth.shape
    width = rng.choice([0.05, 0.3, 1.0], size=(size, most, 1))
    ratios = quotient(truth, room)
    raised = (ratios.max(axis=1)[:, None] * room)[:, None] * (rng.random((size, most, m)) < 0.2)
    start = np.where(truth[:, None] > 0, truth[:, None], raised)
    return np.asarray(start * np.exp(width * rng.normal(size=(size, most, m))))


def _put(truth: Float, values: Float) -> Float:
    """Rows that differ from the truth in one number, each of the values (n_cases, F, M) in its place."""
    size, m = truth.shape
    here = np.eye(m, dtype=bool)[:, None]  # (M, 1, M)
    return np.where(here, values[:, None], truth[:, None, None]).reshape(size, -1, m)


MAKERS = {
    "scale": _scaled,
    "grid": _grid,
    "co-dominant": _near_the_largest,
    "single": _one_at_a_time,
    "zero": _zeros,
    "random": _random,
}
FAMILIES = tuple(MAKERS)  # "climb" starts from the best of these
