"""Throughputs by type of job and of device, as in Gavel's simulator."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import read_json_text
from fairopt.runtime.arrays import Float

EXPECTED = (
    'expected {device: {type of job: {"null": throughput alone, ...}}}, as in simulation_throughputs.json of Gavel'
)
ALONE = "null"
FACTOR = re.compile(r"\('(.*)', (\d+)\)$")  # a type of job with its number of devices


def read_gavel(path: str | os.PathLike[str], gpus: int = 1) -> tuple[list[str], list[str], Float]:
    """Types of jobs on some number of devices, devices, and throughputs; see `fairopt.datasets.gavel_throughputs`."""
    data = read_json_text(path, EXPECTED)
    found: dict[str, dict[str, float]] = {}
    known = set[int]()
    for device, jobs in data.items():
        for name, rates in _object(path, device, jobs).items():
            match = FACTOR.match(name)
            label, factor = (match[1], int(match[2])) if match else (name, 1)
            known.add(factor)
            if factor == gpus:
                alone = _object(path, f"{device}, {name}", rates).get(ALONE)
                if isinstance(alone, bool) or not isinstance(alone, (int, float)) or not 0 <= alone < np.inf:
                    raise InvalidInstance(
                        f"{os.fspath(path)}: {device}, {name}: the throughput alone ({ALONE!r}) is {alone!r}; give a "
                        "finite number >= 0"
                    )
                found.setdefault(label, {})[device] = float(alone)
    if not found:
        counts = f"they are on {', '.join(map(str, sorted(known)))}" if known else EXPECTED
        raise InvalidInstance(f"{os.fspath(path)} has no jobs on {gpus!r} devices; {counts}")
    table = np.array([[row.get(device, 0.0) for device in data] for row in found.values()])
    return [*found], [*data], table


def _object(path: str | os.PathLike[str], place: str, value: Any) -> dict[str, Any]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise InvalidInstance(f"{os.fspath(path)}: {place}: {value!r} is no object; {EXPECTED}")
    return value
