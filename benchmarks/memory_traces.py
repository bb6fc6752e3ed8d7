"""Random traces of requests."""

from __future__ import annotations

import random

import fairopt as fo


def requests(seed: int, clients: tuple[int, int] = (2, 20)) -> list[fo.Job]:
    """Requests of some clients with weights and two kinds of tokens, that come and go."""
    draw = random.Random(seed)
    names = [f"c{k}" for k in range(draw.randint(*clients))]
    weights = {name: draw.choice([1, 1, 2, 3]) for name in names}
    return [
        fo.Job(
            name := draw.choice(names),
            {"slot": 1, "prefill": draw.randint(1, 500), "decode": draw.randint(1, 300)},
            draw.randint(1, 4),
            tasks=draw.randint(1, 8),
            arrival=draw.randint(0, 60),
            weight=weights[name],
        )
        for _ in range(draw.randint(5, 60))
    ]
