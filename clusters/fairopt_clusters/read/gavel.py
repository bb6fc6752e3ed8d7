"""Throughputs by type of job and of device, as in Gavel's simulator."""

from __future__ import annotations

import os
import re
from typing import Annotated

from pydantic import BaseModel, Field, RootModel

from fairopt.errors import InvalidInstance
from fairopt.io import checked, read_json_text

EXPECTED = 'expected {device: {type of job: {"null": throughput alone}}}, as in simulation_throughputs.json of Gavel'
TYPE = re.compile(r"\('(.*)', (\d+)\)$")  # of a job, with its number of devices


class _Job(BaseModel):
    alone: Annotated[float, Field(alias="null", ge=0, allow_inf_nan=False, strict=True)]


_File = RootModel[dict[str, dict[str, _Job]]]


def read_gavel(path: str | os.PathLike[str], gpus: int = 1) -> dict[str, dict[str, float]]:
    """Throughputs by device and type of job; see `fairopt_clusters.read_gavel_throughputs`."""
    data = checked(_File, read_json_text(path, EXPECTED), os.fspath(path)).root
    table: dict[str, dict[str, float]] = {device: {} for device in data}
    known = set[int]()
    for device, jobs in data.items():
        for name, job in jobs.items():
            label, factor = match.groups() if (match := TYPE.match(name)) else (name, "1")
            known.add(int(factor))
            if int(factor) == gpus:
                table[device][label] = job.alone
    if gpus not in known:
        counts = f"they are on {', '.join(map(str, sorted(known)))}" if known else EXPECTED
        raise InvalidInstance(f"{os.fspath(path)} has no jobs on {gpus!r} devices; {counts}")
    return table
