"""Examples of papers."""

from __future__ import annotations

from collections.abc import Iterator

from entries import Entry, paper

import fairopt as fo

WORKED = {"bandwidth": 0, "memory": 1, "cpu": 2}


def entries() -> Iterator[Entry]:
    """The examples, by paper."""
    yield from ghodsi_2011()


def ghodsi_2011() -> Iterator[Entry]:
    """Ghodsi et al. 2011: DRF."""
    yield Entry(
        "ghodsi-2011-example",
        "The example of DRF: tasks of 1 CPU and 4 GB, and of 3 CPUs and 1 GB, on 9 CPUs and 18 GB",
        paper("Ghodsi et al.", 2011, "sec. 4.1"),
        ("paper",),
        fo.Instance([[1, 4], [3, 1]], [9, 18], users=["A", "B"], resources=["cpu", "memory"]),
        expected={"drf": (3, 2)},
    )
