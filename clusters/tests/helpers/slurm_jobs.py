"""Jobs as ``squeue --json`` lists them."""

from collections.abc import Iterable
from typing import Any


def numbered(jobs: Iterable[Any]) -> list[Any]:
    """Jobs of which those with a JobID that is taken get one of their own."""
    out, taken = list[Any](), set[Any]()
    for k, one in enumerate(jobs):
        mine = one | {"job_id": 1000 + k} if isinstance(one, dict) and one.get("job_id") in taken else one
        taken |= {mine.get("job_id")} if isinstance(mine, dict) and isinstance(mine.get("job_id"), int) else set()
        out.append(mine)
    return out
