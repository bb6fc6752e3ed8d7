"""Jobs as ``squeue --json`` lists them."""

from collections.abc import Iterable
from typing import Any


def numbered(jobs: Iterable[Any]) -> list[Any]:
    """Jobs of which those with a JobID that is taken get one of their own."""
    out, taken = list[Any](), set[Any]()
    for k, one in enumerate(jobs):
        known = isinstance(one, dict) and isinstance(one.get("job_id"), int)
        mine = one | {"job_id": 1000 + k} if known and one["job_id"] in taken else one
        taken |= {mine["job_id"]} if known else set()
        out.append(mine)
    return out
