"""Every sentence of `Allocation.explain`, checked by changes of the instance on random instances.

With the coefficients of shares as constants of a user-defined share (for hierarchical DRF: by recursion in fractions),
what a sentence names is raised by 1%, and the user or team must gain; every capacity and limit that it does not name is
raised by 1%, and its level must stay. What is said to move it only because a total grows must do so with the policy's
own share. ``joint`` sentences say that several things bind together, and ``not decided`` that the objective has the
same value at other tasks of the user, which is checked as well; ``not at once`` ones say that the first 0.1% of a
change has another effect than all of it. Faults are listed.

``smaller`` repeats the check with changes of 0.1%, for statements that depend on the size of the change.

Run: python benchmarks/explain.py [--draws 1000] [--smaller 200]
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from common import arguments, show
from oracle.explained import Found, check


def counted(seeds: range, by: float) -> tuple[dict[str, list[Found]], float, int]:
    """What was found by policy, seconds of the processor, and how many policies had no answer."""
    found: dict[str, list[Found]] = {}
    start, without = time.process_time(), 0
    for seed in seeds:
        one = check(seed, by)
        if one is None:
            without += 1
            continue
        found.setdefault(one.kind, []).append(one)
        for fault in one.faults:
            print(f"seed {seed}, {one.kind}, raised by {by:.1%}: {fault}\n  {one.text}")
    return found, time.process_time() - start, without


def rows(found: dict[str, list[Found]]) -> list[dict[str, Any]]:
    """A row per policy, and their sum."""
    out = []
    every = [one for some in found.values() for one in some]
    for kind, some in [*sorted(found.items()), ("all", every)]:
        sorts = Counter(sort for one in some for sort in one.sorts)
        joint = sum("together" in one.sorts for one in some)
        open_ones = sum("undecided" in one.sorts for one in some)
        late = sum("The first 0.1% more" in one.text for one in some)
        out.append(
            {
                "policy": kind,
                "sentences": len(some),
                "faults": sum(bool(one.faults) for one in some),
                "joint": joint,
                "not decided": open_ones,
                "not at once": late,
                "of all": f"{(joint + open_ones + late) / max(len(some), 1):.1%}",
                **{sort: sorts[sort] for sort in ("resource", "limit", "weight", "block", "guarantee", "total")},
            }
        )
    return out


if __name__ == "__main__":
    given = arguments(__doc__ or "", draws=1000, smaller=200)
    found, seconds, without = counted(range(given.draws), 0.01)
    title = f"Sentences checked by changes of 1% ({seconds:.0f} s of the processor; {without} draws without an answer)"
    show(title, rows(found), "explain")
    found, seconds, _ = counted(range(given.smaller), 0.001)
    show("The same by changes of 0.1%", rows(found), "explain_smaller")
