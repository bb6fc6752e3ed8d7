"""The pods of the openb trace as jobs for simulations."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io import Column, JobArguments, Notes, check_choice, distinct, in_order, read_table
from fairopt_clusters.read.openb import PODS_COLUMNS, RESOURCES, label_of, pods_file, requests_of

if TYPE_CHECKING:
    from fairopt import Instance

_TIMES = ("creation_time", "scheduled_time", "deletion_time")


def read_openb_jobs(
    folder: Path, servers: Instance, notes: Notes, users: str = "shape", pods: str = "default"
) -> JobArguments:
    """Read the pods of the openb trace as jobs of one task.

    Each pod arrives at ``creation_time``, runs for ``deletion_time - scheduled_time`` seconds and may run where
    `read_openb` allows it. ``users`` groups pods by equal demands and types of GPU, or by quality of service.
    """
    check_choice("users", users, ("shape", "qos"))
    who = ("qos",) if users == "qos" else ()
    table = read_table(pods_file(folder, pods), required=("name", *who, *PODS_COLUMNS, *_TIMES))
    requests, names = requests_of(table), table.texts("name")
    fix = "give seconds >= 0, or nothing"
    created, started, ended = (table.numbers(Column(name, fix=fix, blank=math.inf, infinite=True)) for name in _TIMES)
    amounts = dict(zip(RESOURCES, np.array([request[:3] for request in requests]).reshape(-1, 3).T, strict=True))
    firsts, listed = distinct([request[3] for request in requests])
    required = [requests[row][3] for row in firsts]
    if any(required) and servers.server_types is None:
        raise InvalidInstance(
            f"the pods of {table.path} require types of GPU, and the cluster has no types of server; give it such types"
        )
    kinds = set(servers.server_types or ())
    ones = np.ones(len(table))
    with np.errstate(invalid="ignore"):
        durations = ended - started
    jobs = JobArguments(
        table.labels("qos", unique=False) if who else [label_of(request) for request in requests],
        in_order(table.path, amounts, servers, notes),
        durations,
        created,
        ones,
        ones,
        listed,
        [tuple(kind for kind in types if kind in kinds) if types else None for types in required],
        time_unit="s",
    )
    kept = np.ones(len(table), dtype=bool)
    for reason, bad in (
        ("never scheduled (of unknown duration)", np.isinf(started)),
        ("without a time of creation or deletion", np.isinf(created) | np.isinf(ended)),
        ("not deleted after it was scheduled", ~(durations > 0)),
        ("requesting nothing", ~jobs.demands.any(axis=1)),
        ("larger than any server where it may run", ~jobs.fitting(servers)),
    ):
        left_out = np.flatnonzero(kept & bad)
        notes.add("{pod} {was} left out: {reason}", *(names[row] for row in left_out), reason=reason)
        kept[left_out] = False
    if not kept.any():
        raise notes.nothing_left(f"{table.path} has no pod that can be a job")
    last = int((ended[kept] == ended[kept].max()).sum())
    notes.add("{pod} {was} deleted at the last time in the list, perhaps cut short", number=last if last > 1 else 0)
    return jobs.part(kept)
