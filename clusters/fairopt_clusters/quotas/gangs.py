"""Jobs of an input that wait and start whole or not at all: Workloads of several pods, jobs on several servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairopt.io import Notes
from fairopt_clusters.quotas.present import file_in
from fairopt_clusters.read.documents import documents_of
from fairopt_clusters.read.kinds import TEXTS_OF_JOBS
from fairopt_clusters.read.queues.tree import Workload
from fairopt_clusters.schedulers.cohorts import resource_of
from fairopt_clusters.schedulers.start import least_of, least_use

_JOBS = "expected the output of squeue --json"
_SEVERAL = re.compile(r"\bnode=(?!1\b)")  # of a request of Slurm


def read_gangs(source: Any, users: str | None = None, waits: Sequence[Workload] = ()) -> list[Workload]:
    """The gangs that wait in an input of `fairopt.read`, in the teams that ``users`` makes; empty if it has none.

    Those of Kueue are among what ``waits`` in its queues. Each has what it needs at the least, by resource.
    """
    documents = documents_of(source, ("jobs.json",), _JOBS)
    if (file := file_in(source, TEXTS_OF_JOBS)) is not None:
        from fairopt_clusters.read.slurm.texts import slurm_document  # as in `_of_slurm`

        documents.append(slurm_document(file, "jobs", _JOBS))
    jobs = [(document, name) for document, name in documents if isinstance(document.get("jobs"), list)]
    out = [*_of_kueue(waits, users == "namespace")] if users in (None, "queue", "namespace") else []
    for document, name in jobs:
        out += _of_slurm(document["jobs"], name, users or "account")
    return out


def _of_kueue(waits: Iterable[Workload], by_namespace: bool) -> Iterator[Workload]:
    """The workloads of several pods that Kueue has not admitted."""
    for one in waits:
        if least_of(one) > 1:
            uses = dict[str, float]()
            for cell, amount in least_use(one).items():
                uses[resource_of(cell)] = uses.get(resource_of(cell), 0.0) + amount
            yield Workload(one.name.partition("/")[0] if by_namespace else one.queue, uses, name=one.name)


def _of_slurm(entries: Iterable[Any], document: str, users: str) -> Iterator[Workload]:
    """The jobs on several servers that wait."""
    from fairopt_clusters.read.slurm.objects import read_jobs  # models of pydantic, which other inputs do not need

    several = [entry for entry in entries if isinstance(entry, Mapping) and _on_several(entry)]
    for name, job, _ in read_jobs(several, document, Notes()):
        if not job.runs and job.servers > 1:
            units = {**job.plain, **job.generic.total}
            yield Workload(job.owner(users), {key: float(one * job.servers) for key, one in units.items()}, name=name)


def _on_several(entry: Mapping[str, Any]) -> bool:
    """Whether a job may be on several servers, before it is read."""
    number = entry.get("node_count")
    number = number.get("number") if isinstance(number, Mapping) else number
    texts = (entry.get("tres_req_str"), entry.get("tres_alloc_str"))
    return number not in (None, 0, 1) or any(isinstance(text, str) and _SEVERAL.search(text) for text in texts)
