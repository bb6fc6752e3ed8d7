"""Whole tasks in turn, each to the user whose share is smallest after it.

It is the rule of a scheduler (Ghodsi et al. 2011), and the reference for what schedulers do. On one pool with the
dominant share nobody can gain without a loss to others (Proposition 14.13); the answer is no optimum of the policy.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from fairopt.runtime.arrays import Float, Ints
from fairopt.runtime.progress import tell
from fairopt.solve.whole.servers import Placement, Request, Servers

__all__ = ["one_after_the_other", "to_36_bits"]

_Number = TypeVar("_Number", float, Float)

BITS_36 = 131073.0  # 2^17 + 1
EVERY = 1 << 14  # tasks between two reports of progress


def one_after_the_other(
    servers: Servers, requests: Sequence[Request], per_task: Float, limits: Float, rule: str | Placement
) -> tuple[Ints, Ints]:
    """The user and the server of each task, in order.

    ``per_task`` (n_users,) is the share per weight of one task; shares equal by `to_36_bits` are ties, which go to the
    first user. Free capacity only shrinks, so a user whose next task fits nowhere is removed, and under first fit no
    server before that of a user's last task can hold the next one.
    """
    each, most = per_task.tolist(), limits.tolist()
    has, last = [0] * len(each), [-1] * len(each)
    users, places = array("q"), array("q")
    queue = [(to_36_bits(c), j) for j, c in enumerate(each) if most[j] >= 1]
    heapq.heapify(queue)
    while queue:
        j = queue[0][1]
        again = rule == "first-fit" and last[j] >= 0 and servers.fits(requests[j], last[j])
        place = last[j] if again else servers.choose(requests[j], rule)
        if place is None:
            heapq.heappop(queue)
            continue
        servers.take(requests[j], place)
        users.append(j)
        places.append(place)
        has[j], last[j] = has[j] + 1, place
        if has[j] + 1 <= most[j]:
            heapq.heapreplace(queue, (to_36_bits(each[j] * (has[j] + 1)), j))
        else:
            heapq.heappop(queue)
        if len(users) % EVERY == 0:
            tell("tasks placed", len(users))
    return np.array(users, dtype=np.int64), np.array(places, dtype=np.int64)


def to_36_bits(share: _Number) -> _Number:
    """A share rounded to 36 bits for comparison, so that 3 times 0.1 and 0.3 are ties.

    Shares that are equal in exact arithmetic are equal here if their denominators are below about 10,000.
    """
    scaled = share * BITS_36
    return scaled - (scaled - share)
