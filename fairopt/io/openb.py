"""The openb trace: a production GPU cluster of the Alibaba Cluster Trace Program."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.arguments import Arguments
from fairopt.io.tables import CsvTable, read_table

__all__ = ["SERVERS_FILE", "read_openb"]

SERVERS_FILE = "openb_node_list_all_node.csv"
_PODS = "openb_pod_list_"
_FIX = "give a finite number >= 0"


def read_openb(
    folder: str | os.PathLike[str], pods: str = "default", capacity_scale: float = 1.0, backlog: bool = False
) -> Arguments:
    """Read a folder of the trace; see `fairopt.datasets.openb`."""
    try:
        scale = float(capacity_scale)
    except (TypeError, ValueError):
        scale = math.nan
    if not 0 < scale < math.inf:
        raise InvalidInstance(f"capacity_scale is {capacity_scale!r}; give a finite number > 0, as 0.5")
    place = Path(folder)
    servers = read_table(place / SERVERS_FILE, required=("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    tasks = read_table(
        _pods_file(place, pods), required=("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
    )
    gpus = servers.numbers("gpu", _FIX)
    capacities = np.column_stack([servers.numbers("cpu_milli", _FIX), servers.numbers("memory_mib", _FIX), 1000 * gpus])
    models = servers.columns["model"]
    types = [(name or "unnamed GPU") if k else "no GPU" for name, k in zip(models, gpus, strict=True)]
    requests = _requests(tasks)
    demands = np.array([key[:3] for key in requests], dtype=np.float64).reshape(-1, 3)
    limits = None if backlog else np.array(list(requests.values()), dtype=np.float64)
    values = dict(
        demands=demands, capacities=capacities * scale, task_limits=limits,
        eligible=_eligibility([key[3] for key in requests], models), server_types=types,
        users=[_label(key) for key in requests], resources=["cpu_milli", "memory_mib", "gpu_milli"],
        servers=servers.labels("sn"),
    )  # fmt: skip
    return Arguments(values, (tasks.path, servers.path))


_Request = tuple[float, float, float, tuple[str, ...]]


def _pods_file(folder: Path, pods: str) -> Path:
    names = sorted(p.name.removeprefix(_PODS).removesuffix(".csv") for p in folder.glob(f"{_PODS}*.csv"))
    if not names:
        raise InvalidInstance(f"{folder} has no file {_PODS}{pods}.csv; get it from github.com/alibaba/clusterdata")
    if pods not in names:
        raise InvalidInstance(f"there is no list of pods {pods!r} in {folder}; {nearest(pods, names)}")
    return folder / f"{_PODS}{pods}.csv"


def _requests(tasks: CsvTable) -> dict[_Request, int]:
    """Number of tasks by request, sorted by request."""
    cpu, memory = tasks.numbers("cpu_milli", _FIX), tasks.numbers("memory_mib", _FIX)
    gpu = tasks.numbers("num_gpu", _FIX) * tasks.numbers("gpu_milli", _FIX)
    counts: dict[_Request, int] = {}
    for c, m, g, types in zip(cpu.tolist(), memory.tolist(), gpu.tolist(), tasks.columns["gpu_spec"], strict=True):
        key = (c, m, g, tuple(sorted({t.strip() for t in types.split("|")} - {""})))
        counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items()))


def _eligibility(required: list[tuple[str, ...]], models: list[str]) -> NDArray[np.bool_]:
    model = np.array(models)
    allowed = np.ones((len(required), len(models)), dtype=bool)
    for j, types in enumerate(required):
        if types:
            allowed[j] = np.isin(model, types)
    return allowed


def _label(request: _Request) -> str:
    cpu, memory, gpu, types = request
    parts = [f"{cpu / 1000:.12g}cpu"]
    parts.append(f"{memory / 1024:.12g}GiB" if memory % 1024 == 0 else f"{memory:.12g}MiB")
    if gpu:
        parts.append(f"{gpu / 1000:.12g}gpu")
    return "/".join(parts) + ("@" + "|".join(types) if types else "")
