"""The openb trace: a production GPU cluster of the Alibaba Cluster Trace Program."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.io.tables import Table, read_table
from fairopt.io.text_files import about

__all__ = ["SERVERS_FILE", "openb"]

SERVERS_FILE = "openb_node_list_all_node.csv"
_PODS = "openb_pod_list_"
_FIX = "give a finite number >= 0"


def openb(
    folder: str | os.PathLike[str], pods: str = "default", capacity_scale: float = 1.0, backlog: bool = False
) -> Instance:
    """The openb trace as an instance: users are the distinct requests of its tasks.

    Parameters
    ----------
    folder : path-like
        Where ``openb_node_list_all_node.csv`` and ``openb_pod_list_<pods>.csv`` are.
    pods : str, default "default"
        Which list of tasks. Tasks with equal demands that may run on the same types of GPU make one user; the
        order in which ``gpu_spec`` lists the types does not matter. So ``default``, which requires no types, has
        151 users, and ``gpuspec33`` has 447.
    capacity_scale : float, default 1.0
        Factor on all capacities. At 1 the tasks of ``default`` all fit; at 0.5 they ask for twice the GPUs there are.
    backlog : bool, default False
        Give users no task limits. Otherwise a user's limit is its number of tasks.

    Returns
    -------
    Instance
        Resources ``cpu_milli`` and ``gpu_milli`` (thousandths of a core and of a GPU) and ``memory_mib`` (MiB), as in
        the files. A user is called after its request, as ``12cpu/16GiB/1gpu@P100|T4``; users are sorted by request,
        whatever the order of the file. Each of the 1,523 servers has its row; `Instance.merged` makes 27 of them. Its
        type is the model of its GPUs, or ``no GPU``: 8 types.

    Raises
    ------
    InvalidInstance
        If a file is missing or wrong, no server has a GPU of a required type, or ``capacity_scale`` is not positive.

    Notes
    -----
    A task demands ``num_gpu * gpu_milli`` thousandths of a GPU; a server has ``gpu * 1000``. In ``gpuspec33`` the tasks
    that require a T4 ask for 1028 of the 842 there are, so that not even the whole cluster can run everything. One
    task, of 120 cores on a G2, is larger than any server of that type: as all tasks here, it is taken as divisible.

    Source: github.com/alibaba/clusterdata, folder ``cluster-trace-gpu-v2023``, not shipped here; Weng et al.,
    "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023.

    Examples
    --------
    >>> import fairopt as fo
    >>> contended = fo.datasets.openb("data/openb", pods="gpuspec33", capacity_scale=0.5)  # doctest: +SKIP
    >>> contended.merged()  # doctest: +SKIP
    Instance(447 users x 3 resources on 1523 servers in 27 rows, task limits, placement constraints)
    """
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
    with about(tasks.path, servers.path):
        return Instance(
            demands, capacities * scale, task_limits=limits,
            eligible=_eligibility([key[3] for key in requests], models), server_types=types,
            users=[_label(key) for key in requests], resources=["cpu_milli", "memory_mib", "gpu_milli"],
            servers=servers.labels("sn"),
        )  # fmt: skip


_Request = tuple[float, float, float, tuple[str, ...]]


def _pods_file(folder: Path, pods: str) -> Path:
    names = sorted(p.name.removeprefix(_PODS).removesuffix(".csv") for p in folder.glob(f"{_PODS}*.csv"))
    if not names:
        raise InvalidInstance(f"{folder} has no file {_PODS}{pods}.csv; get it from github.com/alibaba/clusterdata")
    if pods not in names:
        raise InvalidInstance(f"there is no list of pods {pods!r} in {folder}; {nearest(pods, names)}")
    return folder / f"{_PODS}{pods}.csv"


def _requests(tasks: Table) -> dict[_Request, int]:
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
