"""Formulas by which deployed schedulers remember past use, as functions of numbers; `docs/memory.md` compares them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from heapq import heapify, heappop, heapreplace

from fairopt.errors import InvalidBlock

LEAST_PRIORITY = 0.5  # of HTCondor: the real priority of a user who runs nothing


def decayed(past: float, use: float, elapsed: float, half_life: float) -> float:
    """The average of use after a time with constant use, where use a half-life ago counts half."""
    if not 0 < half_life < math.inf:
        raise InvalidBlock(f"half_life is {half_life!r}; give a finite time > 0, or None")
    if not elapsed >= 0:
        raise InvalidBlock(f"the time since the last use is {elapsed!r}; time never goes back")
    return use + (past - use) * 2.0 ** (-elapsed / half_life)


def kai_weight(weight: float, usage: float, k: float) -> float:
    """KAI's weight over quota: from a part of all weights, lowered by the past part of the cluster."""
    return max(0.0, weight + k * (weight - usage))


def afs_usage(
    consumed: Mapping[str, float],
    penalty: Mapping[str, float],
    weight: float,
    resource_weights: Mapping[str, float],
) -> float:
    """Kueue's usage of a LocalQueue; resources without a weight have 1, and queues without a weight are last."""
    if weight <= 0:
        return math.inf
    names = sorted({*consumed, *penalty})
    return sum(resource_weights.get(r, 1.0) * (consumed.get(r, 0.0) + penalty.get(r, 0.0)) for r in names) / weight


def afs_penalty(request: float, sampling: float, half_life: float) -> float:
    """What Kueue counts of an admission at once: the average after one sampling interval."""
    return decayed(0.0, request, sampling, half_life)


def condor_priority(priority: float, cores: float, elapsed: float, half_life: float) -> float:
    """HTCondor's real user priority after a time with cores in use; times a factor it is the effective priority."""
    return max(LEAST_PRIORITY, decayed(priority, cores, elapsed, half_life))


def karma(
    demands: Mapping[str, int], credits: Mapping[str, int], slices: int, alpha: float
) -> tuple[dict[str, int], dict[str, int]]:
    """Slices and credits of users after one quantum of Karma, of which the fraction ``alpha`` is public.

    Each user is guaranteed an equal part of the rest, and is given an equal part of the public slices as credits. A
    slice above the guarantee costs a credit, and goes to the user with most credits. Who demands less than its
    guarantee earns a credit for each slice that others borrow, the poorest first. Equals are ordered by what they still
    want (or offer), then as given.
    """
    if not 0 <= alpha <= 1:
        raise InvalidBlock(f"alpha is {alpha!r}; give a number from 0 to 1")
    public, users = int(alpha * slices), list(demands)
    if not users:
        return {}, {}
    guaranteed = (slices - public) // len(users)
    left = {user: credits[user] + public // len(users) for user in users}
    slices_of = {user: min(demands[user], guaranteed) for user in users}
    wants = {user: min(demands[user] - guaranteed, left[user]) for user in users if demands[user] > guaranteed}
    offers = {user: guaranteed - demands[user] for user in users if demands[user] < guaranteed}
    lent = min(sum(wants.values()), public + sum(offers.values()))
    for user, many in _in_turn(wants, {user: -left[user] for user in wants}, lent).items():
        slices_of[user] += many
        left[user] -= many
    for user, many in _in_turn(offers, {user: left[user] for user in offers}, lent).items():
        left[user] += many
    return slices_of, left


def _in_turn(most: Mapping[str, int], level: Mapping[str, int], units: int) -> dict[str, int]:
    """Units one by one to the user at the lowest level, which rises by one, up to the most of each."""
    number = {user: k for k, user in enumerate(most)}
    heap = [(level[user], most[user], number[user], user) for user in most if most[user]]
    heapify(heap)
    taken = dict.fromkeys(most, 0)
    while heap and units:
        at, room, k, user = heap[0]
        taken[user] += 1
        units -= 1
        if room > 1:
            heapreplace(heap, (at + 1, room - 1, k, user))
        else:
            heappop(heap)
    return taken
