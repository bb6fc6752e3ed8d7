"""Instances from files, and generators of instances.

`read` and `write`; `demo`, which ships with the package; `kubernetes` and `slurm`, from the output of their commands;
`clusterdata2019` and `openb`, traces of production clusters; `log_uniform`, random instances; `jiang_wu`, `heavy_light`
and `google_cluster`, the instances of Jiang and Wu (2021); `RequestRounds`, random rounds after Hamzeh et al. (2021).

The readers of `fairopt.io` give the arguments of an `Instance`, which is made here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt.errors import OutOfTime, within_memory
from fairopt.instance import Instance
from fairopt.instances.cloud_data_centers import (
    REQUEST_TYPES,
    GoogleServers,
    google_cluster,
    google_servers,
    heavy_light,
    heavy_light_demands,
    jiang_wu,
    jiang_wu_demands,
)
from fairopt.instances.random import log_uniform
from fairopt.instances.request_rounds import RequestRounds
from fairopt.io.arguments import Arguments
from fairopt.io.clusterdata import read_clusterdata
from fairopt.io.csv_folder import read_servers, read_tables
from fairopt.io.files import read_path, write
from fairopt.io.frames import read_frames
from fairopt.io.openb import read_openb
from fairopt.io.parquet import read_servers as read_servers_of_parquet
from fairopt.io.text_files import about
from fairopt.runtime.clock import Late, checked, limited

if TYPE_CHECKING:
    from fairopt.io.json_text import Document

__all__ = [
    "REQUEST_TYPES",
    "GoogleServers",
    "RequestRounds",
    "clusterdata2019",
    "demo",
    "google_cluster",
    "google_servers",
    "heavy_light",
    "heavy_light_demands",
    "jiang_wu",
    "jiang_wu_demands",
    "kubernetes",
    "log_uniform",
    "openb",
    "read",
    "schema",
    "slurm",
    "write",
]

_Path = str | os.PathLike[str]


def read(
    path: str | os.PathLike[str],
    *,
    users: str | None = None,
    tasks: str | None = None,
    at: int | None = None,
    pods: str | None = None,
    capacity_scale: float | None = None,
    backlog: bool | None = None,
    time_limit: float | None = None,
) -> Instance:
    """Read an instance from a file or a folder of any supported kind.

    Parameters
    ----------
    path : path-like
        One of

        * a folder with ``users.csv`` (columns ``user``, optionally ``weight``, ``task_limit`` and ``servers``, the
          names of servers joined by ``|``; every other column is a resource, in units per task) and ``servers.csv``
          (``server``, optionally ``count`` and ``type``; every other column is a resource, in units on each server).
          A column ``memory [GiB]`` is the resource ``memory`` in GiB, in both tables, while ``memory (GiB)`` and
          ``memory[GiB]`` are names of resources without a unit; nothing is converted. Where
          demands differ by server, ``users.csv`` has no resources and a third table ``demands.csv`` has ``user``,
          ``server`` and the resources, with a line for each server that a user may run on,
        * a folder with the same tables as ``users.parquet`` and ``servers.parquet``, see `Instance.from_frames`,
        * a file that ends in ``.json``, see `fairopt.datasets.schema`, or in ``.yaml`` or ``.yml``, with the same keys,
        * a folder with ``nodes.json`` and ``pods.json``, see `fairopt.datasets.kubernetes`,
        * a folder with ``nodes.json`` and ``jobs.json``, see `fairopt.datasets.slurm`,
        * a folder with ``instance_events`` and ``machine_events``, optionally ``collection_events`` (``.parquet``,
          ``.csv``, ``.csv.gz`` or folders of such files), see `fairopt.datasets.clusterdata2019`,
        * a folder of the openb trace, see `fairopt.datasets.openb`.
    users, tasks : str, optional
        For Kubernetes, Slurm and ClusterData 2019 only, as in `kubernetes`, `slurm` and `clusterdata2019`.
    at : int, optional
        For ClusterData 2019 only, in microseconds, as in `clusterdata2019`.
    pods, capacity_scale, backlog : optional
        For the openb trace only, as in `openb`.
    time_limit : float, optional
        Seconds to read, asked after each chunk, row or object; one call of a library, as of pydantic, is not cut short.

    Returns
    -------
    Instance
        Its ``notes`` say what was left out or assumed.

    Raises
    ------
    InvalidInstance
        If there are no files to read, files of several kinds, or errors in them; the message names the file, the line
        and column or the key, the value and the fix.
    MissingExtra
        If the package that reads Parquet or YAML is not installed.
    OutOfTime
        If the time limit ended before all was read; the message says how far it came.
    OutOfMemory
        If it is too large for the memory of the machine.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import fairopt as fo
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cluster.json"
    >>> _ = file.write_text(json.dumps({"demands": [[40, 8, 8], [8, 5, 1]], "capacities": [200, 200, 200]}))
    >>> fo.read(file)
    Instance(2 users x 3 resources on 1 server)
    """
    with (
        within_memory(path, "cut it into parts for fo.allocate_sharded, or, if it should be smaller, write it again"),
        _in_time(time_limit, path),
    ):
        return _instance_of(
            read_path(path, users=users, tasks=tasks, at=at, pods=pods, capacity_scale=capacity_scale, backlog=backlog)
        )


@contextmanager
def _in_time(time_limit: float | None, *inputs: Any) -> Iterator[None]:
    """Raise `OutOfTime` where reading inputs, files or their content, reports progress after the time limit."""
    seconds = checked(time_limit)
    if seconds is None:
        yield
        return
    files = [os.fspath(one) for one in inputs if isinstance(one, (str, os.PathLike))] or ["the input"]
    said = f"{' and '.join(files)} {'were' if len(files) > 1 else 'was'} not read"
    with limited(seconds, time.perf_counter(), grace=False) as limit:
        try:
            yield
        except Late:
            raise OutOfTime(f"{said} within {limit}; give it more time_limit, or cut it") from None


def servers_alone(table: Path) -> Instance:
    """The servers in ``servers.csv`` or ``servers.parquet``, without users."""
    return _instance_of((read_servers_of_parquet if table.suffix == ".parquet" else read_servers)(table))


def demo() -> Instance:
    """A small invented cluster: ten users who demand more than four classes of servers have.

    Returns
    -------
    Instance
        Resources cpu (cores), memory (GiB), gpu and bandwidth (Gbit/s), with weights, task limits and
        placement constraints.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.datasets.demo()
    Instance(10 users x 4 resources on 23 servers in 4 rows, weights, task limits, placement constraints)
    """
    folder = package_files.files("fairopt.instances") / "demo"
    with package_files.as_file(folder / "users.csv") as users, package_files.as_file(folder / "servers.csv") as servers:
        return _instance_of(read_tables(users, servers))


def kubernetes(
    nodes: Document,
    pods: Document,
    users: str = "namespace",
    tasks: str = "mean",
    merge: bool = True,
    resources: Sequence[str] | None = None,
    *,
    time_limit: float | None = None,
) -> Instance:
    """A Kubernetes cluster as an instance: namespaces share its servers by the requests of their pods.

    Parameters
    ----------
    nodes : path-like or dict
        Output of ``kubectl get nodes -o json``: a file, or its content as ``json.load`` reads it.
    pods : path-like or dict
        Output of ``kubectl get pods -A -o json``.
    users : str, default "namespace"
        The owners of pods: ``"namespace"``, or the values of a label, as ``"label:team"``. Pods without the label
        belong to the owner ``(no team)``.
    tasks : {"mean", "shapes"}, default "mean"
        ``"mean"``: an owner's pods that need the same set of resources and may run on the same servers make one user,
        whose demand is their mean request. ``"shapes"``: only pods with equal requests do.
    merge : bool, default True
        Identical servers as one row with a count, named after the first of them.
    resources : sequence of str, optional
        The resources that are shared. Default: those that some pod requests. ``"pods"``, the number of pods that a
        server may have, is a resource only if it is named here.
    time_limit : float, optional
        As in `read`.

    Returns
    -------
    Instance
        cpu in cores, memory, ephemeral storage and huge pages in GiB, extended resources as ``nvidia.com/gpu`` in
        pieces. An owner with one kind of pods is one user of its name; others are users ``ml #1``, ``ml #2``, ... from
        the largest total request down, which split the owner's weight of 1 in proportion to their total requests. A
        user's task limit is its number of pods. ``server_types`` are the labels ``node.kubernetes.io/instance-type``,
        where all servers have one. ``notes`` say what was left out or assumed.

    Raises
    ------
    InvalidInstance
        If a file is wrong (the message names the place, the value and the fix), or no pods or servers are left.
    OutOfTime
        If the time limit ended before all was read.

    Notes
    -----
    *A pod's request* is what Kubernetes keeps free for it, by resource: the larger of the sum of its containers and
    sidecars and of any init container with the sidecars before it; or ``spec.resources`` of the whole pod; plus the
    overhead. Where a request is missing, the limit counts.

    *Pods* that are finished or request nothing are left out. Pods of DaemonSets and static pods are subtracted from the
    capacity of their server, down to 0. All others count alike, running or pending, without a claim to their server.

    *Servers* have the capacities of ``status.allocatable`` (else ``status.capacity``, as Kubernetes does). Servers
    without both, cordoned ones, and ones where none of the pods may run are left out. Where pods may run follows from
    taints (``NoSchedule``, ``NoExecute``) and tolerations, node selectors and required node affinity.

    *Not modelled:* preferred affinity and ``PreferNoSchedule``, affinity between pods, topology spread, priorities and
    preemption, the zones of volumes, limits above requests, resizing in place, quotas, scheduling gates, the topology
    of devices, and resource claims (DRA). A note counts the pods with required rules of these kinds. Tasks are
    divisible, so a pod larger than any server counts too.

    Source: the Kubernetes documentation, "Effective Pod requests and limits", "Taints and Tolerations" and "Assigning
    Pods to Nodes".

    Examples
    --------
    >>> import fairopt as fo
    >>> nodes = {"kind": "List", "items": [
    ...     {"metadata": {"name": f"n{k}"}, "status": {"allocatable": {"cpu": k, "memory": "64Gi"}}} for k in (8, 16)
    ... ]}
    >>> pods = {"kind": "List", "items": [
    ...     {"metadata": {"namespace": name, "name": f"p{k}"}, "spec": {"containers": [
    ...         {"resources": {"requests": {"cpu": "500m", "memory": memory}}}
    ...     ]}} for name, memory in (("web", "1Gi"), ("batch", "4Gi")) for k in range(30)
    ... ]}
    >>> cluster = fo.datasets.kubernetes(nodes, pods)
    >>> cluster
    Instance(2 users x 2 resources on 2 servers, task limits)
    >>> cluster.users, cluster.resource_titles, cluster.demands.tolist()
    (('batch', 'web'), ('cpu (core)', 'memory (GiB)'), [[0.5, 4.0], [0.5, 1.0]])
    """
    from fairopt.io.kubernetes import read_kubernetes

    with _in_time(time_limit, nodes, pods):
        return _instance_of(read_kubernetes(nodes, pods, users, tasks, merge, resources))


def slurm(
    nodes: str | os.PathLike[str] | Mapping[str, Any],
    jobs: str | os.PathLike[str] | Mapping[str, Any],
    users: str = "account",
    tasks: str = "mean",
    merge: bool = True,
    *,
    time_limit: float | None = None,
) -> Instance:
    """A Slurm cluster as an instance: accounts share its servers by the requests of their jobs.

    Parameters
    ----------
    nodes, jobs : path-like or Mapping
        Output of ``scontrol show node --json`` and ``squeue --json``: files, or their content as ``json.load`` reads
        it. Read are the forms of Slurm 20.11 to 25.05 (data parser v0.0.36 to v0.0.43).
    users : {"account", "user", "partition", "qos"}, default "account"
        The owners of jobs. Of several partitions the first counts.
    tasks : {"mean", "shapes"}, default "mean"
        ``"mean"``: an owner's jobs that need the same resources on the same servers make one user, who demands their
        mean request. ``"shapes"``: only jobs of equal requests do.
    merge : bool, default True
        Identical servers as one row with a count.
    time_limit : float, optional
        As in `read`.

    Returns
    -------
    Instance
        Resources ``cpu`` (a core or a thread, as Slurm counts), ``memory`` (GiB) and the generic ones, as far as some
        job requests them. Owners have equal weights, split among their users. ``notes`` say what was left out or
        assumed.

    Raises
    ------
    InvalidInstance
        If a file is wrong; the message names the file, the place, the value and the fix.
    OutOfTime
        If the time limit ended before all was read.

    Notes
    -----
    *Servers* have ``effective_cpus`` or else ``cpus`` less the specialised cores, ``real_memory`` less the specialised
    memory, and ``gres`` less what is drained of it. Servers that are down, drained, failing, under maintenance,
    unknown, in the future or not responding are left out, with states written in full or as by sinfo (``drng``,
    ``idle*``). Those that save power count, since Slurm wakes them, and reserved ones too. Other states count as
    usable, with a note. The type of a server is that of its GPUs.

    *Jobs* of k servers (``node_count``, else ``node=`` in ``tres_req_str`` or ``tres_alloc_str``) are k tasks of a k-th
    of the request each, and an array is as many tasks as wait. A task that no single server can hold counts, with a
    note. Requests count, not allocations, alike for jobs that wait, run or are suspended: cores and memory of
    ``tres_req_str``, else of ``cpus``, ``minimum_cpus_per_node``, ``memory_per_node`` and ``memory_per_cpu``; generic
    resources of ``tres_req_str``, else of ``tres_per_node``, ``tres_per_job``, ``tres_per_task`` and
    ``tres_per_socket``. Jobs on hold, finished ones and those that another cluster of a federation runs are left out;
    those that wait for a time, a licence or another job count. Jobs that request all the memory of a server count
    without memory. As in Slurm, ``gpu:4090`` requests 4090 GPUs of any type, and ``gpu:4090:1`` one of the type
    ``4090``.

    *GPUs* are the resource ``gpu`` (all types); any GPU fits a request without a type. A type that jobs request, and
    that is not the only one, is also a resource of its own, as ``gpu:a100``, of which such jobs need as many. So too
    for other generic resources.

    *Placement* follows from partitions, constraints (``&``, ``|`` and parentheses, from left to right), excluded
    servers, and required ones if they are at least as many as the job takes. Not modelled are counts in constraints,
    reservations, licences, limits of accounts, priorities, topology, whole servers for one job, memory by GPU, and
    that ``shard`` and ``mps`` are pieces of GPUs.

    Source: Slurm's REST API, slurm.schedmd.com/rest_api.html, and the manuals of scontrol, squeue and sbatch.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.datasets.slurm(
    ...     {"nodes": [{"name": "n1", "cpus": 64, "real_memory": 262144, "gres": "gpu:a100:4(S:0-1)"}]},
    ...     {"jobs": [
    ...         {"account": "bio", "job_state": ["PENDING"], "tres_req_str": "cpu=8,mem=32G,node=1,gres/gpu=1"},
    ...         {"account": "cfd", "job_state": ["RUNNING"], "tres_req_str": "cpu=32,mem=64G,node=1"},
    ...     ]},
    ... )
    >>> cluster.users, cluster.resource_titles
    (('bio', 'cfd'), ('cpu (core)', 'memory (GiB)', 'gpu'))
    >>> cluster.demands
    array([[ 8., 32.,  1.],
           [32., 64.,  0.]])
    """
    from fairopt.io.slurm import read_slurm

    with _in_time(time_limit, nodes, jobs):
        return _instance_of(read_slurm(nodes, jobs, users, tasks, merge))


def clusterdata2019(
    instances: _Path,
    machines: _Path,
    collections: _Path | None = None,
    at: int | None = None,
    users: str = "collection",
    tasks: str = "mean",
    merge: bool = True,
    *,
    time_limit: float | None = None,
) -> Instance:
    """An extract of Google's ClusterData 2019 as an instance: the requests and servers at a time.

    Parameters
    ----------
    instances, machines : path-like
        Rows of ``InstanceEvent`` and of ``MachineEvent``: CSV (gzipped or not) or Parquet files, or folders of such
        parts, in any order of rows. A struct may be nested or flat: ``resource_request`` with ``cpus`` and ``memory``,
        or ``resource_request.cpus``, ``resource_request_cpus`` or ``cpus``. Types are numbers or names, as ``SUBMIT``.
    collections : path-like, optional
        Rows of ``CollectionEvent``, for ``users="user"``.
    at : int, optional
        Time in microseconds of the trace's clock, which shows 600 s when the trace starts; later events do not count.
        Default: the last time in ``instances``.
    users : {"collection", "user", "priority", "tier"}, default "collection"
        The owners of the trace's instances: jobs and alloc sets, the users who run them, priorities, or tiers of
        priorities (free up to 99, best-effort batch up to 115, mid up to 119, production up to 359, monitoring).
    tasks : {"mean", "shapes"}, default "mean"
        ``"mean"``: an owner's instances that need the same resources make one user, who demands their mean request.
        ``"shapes"``: only instances of equal requests do.
    merge : bool, default True
        Identical servers as one row with a count.
    time_limit : float, optional
        As in `read`.

    Returns
    -------
    Instance
        Resources ``cpu`` and ``memory``, normalised to the trace's largest server and so without units. The type of a
        server is its platform. Owners have equal weights, split among their users. ``notes`` say what was left out or
        assumed.

    Raises
    ------
    InvalidInstance
        If a file is wrong; the message names the file, the line or row, the column, the value and the fix.
    MissingExtra
        For Parquet without pyarrow.
    OutOfTime
        If the time limit ended before all was read.

    Notes
    -----
    An instance of the trace counts if it was submitted and has not ended (evicted and failed ones count again when they
    are submitted again), waiting or running, with its last request. A server counts if it was added and not removed,
    with its last capacity. Where only one of cores and memory was ever given, the other is 0, with a note. Of events at
    the same time, ends come last.

    An alloc set reserves the requests of its alloc instances, which count; tasks inside an alloc set that counts do
    not. Instances on dedicated servers, which are not in the trace, are left out. Constraints are not modelled. Rows
    without a time, a type or an identity are left out.

    Memory grows with the number of different instances, by less than 1 kB each, not with the number of events.

    Source: github.com/google/cluster-data, ClusterData2019, with its protocol buffer definition; for the tiers
    Tirmazi et al. (2020).

    Examples
    --------
    >>> import fairopt as fo
    >>> cell = fo.datasets.clusterdata2019(
    ...     "instance_events.parquet", "machine_events.parquet", users="tier"
    ... )  # doctest: +SKIP
    """
    with _in_time(time_limit, instances, machines):
        return _instance_of(read_clusterdata(instances, machines, collections, at, users, tasks, merge))


def openb(
    folder: str | os.PathLike[str],
    pods: str = "default",
    capacity_scale: float = 1.0,
    backlog: bool = False,
    *,
    time_limit: float | None = None,
) -> Instance:
    """The openb trace as an instance: users are the distinct requests of its tasks.

    Parameters
    ----------
    folder : path-like
        The folder of ``openb_node_list_all_node.csv`` and ``openb_pod_list_<pods>.csv``.
    pods : str, default "default"
        The list of tasks. Tasks with equal demands that may run on the same types of GPU (in any order) make one user:
        151 users in ``default``, which requires no types, and 447 in ``gpuspec33``.
    capacity_scale : float, default 1.0
        Factor on all capacities. At 1 all tasks of ``default`` fit; at 0.5 they request twice the GPUs of the cluster.
    backlog : bool, default False
        Give users no task limits. Otherwise a user's limit is its number of tasks.
    time_limit : float, optional
        As in `read`.

    Returns
    -------
    Instance
        Resources ``cpu_milli`` and ``gpu_milli`` (thousandths of a core and of a GPU) and ``memory_mib`` (MiB), as in
        the files. A user is named after its request, as ``12cpu/16GiB/1gpu@P100|T4``; users are sorted by request.
        Each of the 1,523 servers has a row; `Instance.merged` has 27. The type is the model of the GPUs, or ``no GPU``:
        8 types.

    Raises
    ------
    InvalidInstance
        If a file is missing or wrong, no server has a GPU of a required type, or ``capacity_scale`` is not positive.
    OutOfTime
        If the time limit ended before all was read.

    Notes
    -----
    A task demands ``num_gpu * gpu_milli`` thousandths of a GPU; a server has ``gpu * 1000``. In ``gpuspec33`` the tasks
    that require a T4 request 1028 of 842, so the cluster cannot run all tasks. One task, of 120 cores on a G2, is
    larger than any server of that type: tasks are divisible here.

    Source: github.com/alibaba/clusterdata, folder ``cluster-trace-gpu-v2023``, not shipped here; Weng et al. (2023).

    Examples
    --------
    >>> import fairopt as fo
    >>> contended = fo.datasets.openb("data/openb", pods="gpuspec33", capacity_scale=0.5)  # doctest: +SKIP
    >>> contended.merged()  # doctest: +SKIP
    Instance(447 users x 3 resources on 1523 servers in 27 rows, task limits, placement constraints)
    """
    with _in_time(time_limit, folder):
        return _instance_of(read_openb(folder, pods, capacity_scale, backlog))


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of instance files, the same that ships as ``instance.schema.json``.

    Returns
    -------
    dict
        A new one each time.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.datasets.schema()["required"]
    ['demands', 'capacities']
    """
    from fairopt.io import json_file

    return json_file.schema()


def instance_of_frames(users: Any, servers: Any, demands: Any = None) -> Instance:
    """See `Instance.from_frames`."""
    return _instance_of(read_frames(users, servers, demands))


def _instance_of(found: Arguments) -> Instance:
    with about(*found.places, hint=found.hint):
        made = Instance(**found.values)
    return made.merged() if found.merge else made
