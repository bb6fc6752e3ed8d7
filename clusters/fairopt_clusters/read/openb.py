"""The openb trace: a production GPU cluster of the Alibaba Cluster Trace Program."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.io import Arguments, InputTable, read_table
from fairopt_clusters.read.kinds import PODS_OF_OPENB, SERVERS_OF_OPENB

PODS_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
RESOURCES = ["cpu_milli", "memory_mib", "gpu_milli"]
Request = tuple[float, float, float, tuple[str, ...]]  # cores and GPUs in thousandths, memory in MiB, types of GPU


def arguments_of_openb(
    folder: str | os.PathLike[str], pods: str = "default", capacity_scale: float = 1.0, backlog: bool = False
) -> Arguments:
    """Read a folder of the trace; see `fairopt_clusters.read_openb`."""
    try:
        scale = float(capacity_scale)
    except (TypeError, ValueError):
        scale = math.nan
    if not 0 < scale < math.inf:
        raise InvalidInstance(f"capacity_scale is {capacity_scale!r}; give a finite number > 0, such as 0.5")
    place = Path(folder)
    servers = read_table(place / SERVERS_OF_OPENB, required=("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    tasks = read_table(pods_file(place, pods), required=PODS_COLUMNS)
    gpus, models = servers.numbers("gpu"), servers.texts("model")
    capacities = np.column_stack([servers.numbers("cpu_milli"), servers.numbers("memory_mib"), 1000 * gpus])
    requests = dict(sorted(Counter(requests_of(tasks)).items()))
    values = dict(
        demands=np.array([key[:3] for key in requests], dtype=np.float64).reshape(-1, 3),
        capacities=capacities * scale,
        task_limits=None if backlog else np.array(list(requests.values()), dtype=np.float64),
        eligible=np.array([not t or model in t for *_, t in requests for model in models]).reshape(-1, len(models)),
        server_types=[(name or "unnamed GPU") if k else "no GPU" for name, k in zip(models, gpus, strict=True)],
        users=[label_of(key) for key in requests],
        resources=RESOURCES,
        servers=servers.labels("sn"),
    )
    return Arguments(values, (tasks.path, servers.path))


def pods_file(folder: Path, pods: str) -> Path:
    """The file of a list of pods."""
    names = sorted(
        p.name.removeprefix(PODS_OF_OPENB).removesuffix(".csv") for p in folder.glob(f"{PODS_OF_OPENB}*.csv")
    )
    if not names:
        raise InvalidInstance(
            f"{folder} has no file {PODS_OF_OPENB}{pods}.csv; get it from github.com/alibaba/clusterdata"
        )
    if pods not in names:
        raise InvalidInstance(f"there is no list of pods {pods!r} in {folder}; {nearest(pods, names)}")
    return folder / f"{PODS_OF_OPENB}{pods}.csv"


def requests_of(tasks: InputTable) -> list[Request]:
    """The request of each task."""
    cpu, memory = tasks.numbers("cpu_milli"), tasks.numbers("memory_mib")
    gpu = tasks.numbers("num_gpu") * tasks.numbers("gpu_milli")
    types = [tuple(sorted({t.strip() for t in cell.split("|")} - {""})) for cell in tasks.texts("gpu_spec")]
    return list(zip(cpu.tolist(), memory.tolist(), gpu.tolist(), types, strict=True))


def label_of(request: Request) -> str:
    """The name of a request, as ``12cpu/16GiB/1gpu@P100|T4``."""
    cpu, memory, gpu, types = request
    parts = [f"{cpu / 1000:.12g}cpu"]
    parts.append(f"{memory / 1024:.12g}GiB" if memory % 1024 == 0 else f"{memory:.12g}MiB")
    if gpu:
        parts.append(f"{gpu / 1000:.12g}gpu")
    return "/".join(parts) + ("@" + "|".join(types) if types else "")
