"""Instances from the files that people have, and generators of instances.

`read` and `write`, `demo` (ships with the package), `kubernetes` and `slurm` (what a cluster says of itself),
`clusterdata2019` and `openb` (traces of production clusters), `log_uniform` (random),
the instances of Jiang and Wu (2021): `jiang_wu`, `heavy_light`, `google_cluster`, and random rounds in the manner of
Hamzeh et al. (2020): `RequestRounds`.

What is read is in `fairopt.io`, which gives the arguments of an `Instance`; here it is made of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources as package_files
from typing import Any

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
from fairopt.io.csv_folder import read_tables
from fairopt.io.files import read_path, write
from fairopt.io.frames import read_frames
from fairopt.io.json_file import schema
from fairopt.io.json_text import Document
from fairopt.io.kubernetes import read_kubernetes
from fairopt.io.openb import read_openb
from fairopt.io.slurm import read_slurm
from fairopt.io.text_files import about

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
_Source = Document


def read(
    path: str | os.PathLike[str], *, users: str | None = None, tasks: str | None = None, at: int | None = None,
    pods: str | None = None, capacity_scale: float | None = None, backlog: bool | None = None,
) -> Instance:  # fmt: skip
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
        For Kubernetes, Slurm and ClusterData 2019 only: passed on to their readers.
    at : int, optional
        For ClusterData 2019 only.
    pods, capacity_scale, backlog : optional
        For a folder of the openb trace only.

    Returns
    -------
    Instance
        Its `notes` say what was left out or assumed.

    Raises
    ------
    InvalidInstance
        If there is nothing to read, files of several kinds, or something wrong in them; the message names the file,
        the line and column or the key, the value and the fix.
    MissingExtra
        If Parquet or YAML is to be read and what reads it is not installed.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import fairopt as fo
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cluster.json"
    >>> _ = file.write_text(json.dumps({"demands": [[40, 8, 8], [8, 5, 1]], "capacities": [200, 200, 200]}))
    >>> fo.read(file)
    Instance(2 users x 3 resources on 1 server)
    """
    return _instance_of(read_path(
        path, users=users, tasks=tasks, at=at, pods=pods, capacity_scale=capacity_scale, backlog=backlog
    ))  # fmt: skip


def demo() -> Instance:
    """A small cluster of our own, made up: ten users who want more than four classes of servers have.

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
    nodes: _Source, pods: _Source, users: str = "namespace", tasks: str = "mean", merge: bool = True,
    resources: Sequence[str] | None = None,
) -> Instance:  # fmt: skip
    """A Kubernetes cluster as an instance: who should have how much of it, going by what all its pods ask for.

    Parameters
    ----------
    nodes : path-like or dict
        What ``kubectl get nodes -o json`` gives: a file, or its content as `json.load` reads it.
    pods : path-like or dict
        What ``kubectl get pods -A -o json`` gives.
    users : str, default "namespace"
        Who shares: the namespaces, or the values of a label of the pods, as ``"label:team"``. Pods without the label
        belong to the owner ``(no team)``.
    tasks : {"mean", "shapes"}, default "mean"
        ``"mean"``: an owner's pods that need the same set of resources and may run on the same servers make one user,
        whose demand is their mean request. ``"shapes"``: only pods with equal requests do.
    merge : bool, default True
        Identical servers share a row, called after the first of them.
    resources : sequence of str, optional
        Which resources are shared. Default: those that some pod requests. ``"pods"``, the number of pods that a server
        may have, is one only if it is named here.

    Returns
    -------
    Instance
        cpu in cores, memory, ephemeral storage and huge pages in GiB, extended resources as ``nvidia.com/gpu`` in
        pieces. An owner with one kind of pods gives the user its name, others make users ``ml #1``, ``ml #2``, ... from
        the largest wish down, which split the owner's entitlement of 1 in proportion to what they wish for. A user's
        task limit is its number of pods. ``server_types`` are the labels ``node.kubernetes.io/instance-type``, where
        all servers have one. What was left out or assumed stands in ``notes``.

    Raises
    ------
    InvalidInstance
        Names the file, the place in it, the value and the fix; or says why nothing is left to share.

    Notes
    -----
    *A pod's request* is what Kubernetes keeps free for it, by resource: the larger of what its containers and sidecars
    take together and what any init container takes with the sidecars before it; or what ``spec.resources`` says of the
    whole pod; and the overhead on top. Where a request is missing, the limit counts.

    *Pods.* Finished ones, and ones that request nothing, are left out. Pods of DaemonSets and static pods are taken off
    the capacity of their server, down to 0. All others count alike, running or pending: the question is who should have
    what, so that no pod has a claim to the server it is on.

    *Servers* have what ``status.allocatable`` says (else ``status.capacity``, as Kubernetes does). Those that say
    nothing, cordoned ones, and ones where none of the pods may run, are left out. Where pods may run follows from
    taints (``NoSchedule``, ``NoExecute``) and tolerations, node selectors and required node affinity.

    *Not modelled:* preferred affinity and ``PreferNoSchedule``, affinity between pods, topology spread, priorities and
    preemption, the zones of volumes, limits above requests, resizing in place, quotas, scheduling gates, the topology
    of devices, and resource claims (DRA). A note counts the pods with required rules of this sort. Tasks are divisible,
    so that a pod larger than any server still counts.

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
    return _instance_of(read_kubernetes(nodes, pods, users, tasks, merge, resources))


def slurm(
    nodes: str | os.PathLike[str] | Mapping[str, Any], jobs: str | os.PathLike[str] | Mapping[str, Any],
    users: str = "account", tasks: str = "mean", merge: bool = True,
) -> Instance:  # fmt: skip
    """A Slurm cluster as an instance: accounts share its servers by what their jobs ask for.

    Parameters
    ----------
    nodes, jobs : path-like or Mapping
        What ``scontrol show node --json`` and ``squeue --json`` printed: files, or what `json.load` made of them. The
        forms of Slurm 20.11 to 25.05 (data parser v0.0.36 to v0.0.43) are understood.
    users : {"account", "user", "partition", "qos"}, default "account"
        Whose tasks the jobs are. Of several partitions the first counts.
    tasks : {"mean", "shapes"}, default "mean"
        ``"mean"``: an owner's jobs that need the same resources on the same servers make one user, who demands their
        mean request. ``"shapes"``: only jobs of equal requests do.
    merge : bool, default True
        Identical servers as one row with a count.

    Returns
    -------
    Instance
        Resources ``cpu`` (what Slurm counts as one: a core or a thread), ``memory`` (GiB), and the generic ones, all as
        far as some job asks for them. Owners are entitled to equal parts, as `Instance.weights` say. `Instance.notes`
        say what was left out or assumed.

    Raises
    ------
    InvalidInstance
        If a file is not what it should be; the message names file, place, value and fix.

    Notes
    -----
    **Servers** have ``effective_cpus`` or else ``cpus`` less the specialised cores, ``real_memory`` less the
    specialised memory, and ``gres`` less what is drained of it. Usable is what may start jobs: servers that are down,
    drained, failing, under maintenance, unknown, in the future or not responding are left out, whether a state is
    written in full or as sinfo shortens it (``drng``, ``idle*``); those that sleep to save power count, since Slurm
    wakes them, and reserved ones too. States that are not known here count as usable, which a note says. The type of a
    server is that of its GPUs.

    **Jobs** of k servers are k tasks of a k-th of it each, and an array is as many tasks as wait. Requests count, not
    what was allocated, alike for jobs that wait, run or are suspended: cores and memory of ``tres_req_str``, else of
    ``cpus``, ``minimum_cpus_per_node``, ``memory_per_node`` and ``memory_per_cpu``; generic resources of
    ``tres_req_str``, else of ``tres_per_node``, ``tres_per_job``, ``tres_per_task`` and ``tres_per_socket``. Jobs on
    hold, finished ones and those that another cluster of a federation runs are left out; those that wait for a time, a
    licence or another job count. Jobs that ask for all the memory of a server count without memory. As in Slurm,
    ``gpu:4090`` asks for 4090 GPUs of any type; one of the type ``4090`` is ``gpu:4090:1``.

    **GPUs** are the resource ``gpu`` (all types); any fits a request without a type. Where jobs ask for a type
    that is not the only one, it is a resource of its own besides, as ``gpu:a100``, of which such jobs need as many:
    what fits by these numbers fits in truth. So too for other generic resources.

    **Placement** follows from partitions, constraints (``&``, ``|`` and parentheses, from left to right), excluded
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
    return _instance_of(read_slurm(nodes, jobs, users, tasks, merge))


def clusterdata2019(
    instances: _Path, machines: _Path, collections: _Path | None = None, at: int | None = None,
    users: str = "collection", tasks: str = "mean", merge: bool = True,
) -> Instance:  # fmt: skip
    """An extract of Google's ClusterData 2019 as an instance: who asks for what at a time, and the servers then.

    Parameters
    ----------
    instances, machines : path-like
        Rows of ``InstanceEvent`` and of ``MachineEvent``: CSV (gzipped or not) or Parquet files, or folders of such
        parts, in any order of rows. A struct may be nested or flat: ``resource_request`` with ``cpus`` and ``memory``,
        or ``resource_request.cpus``, ``resource_request_cpus`` or ``cpus``. Types are numbers or names, as ``SUBMIT``.
    collections : path-like, optional
        Rows of ``CollectionEvent``, for ``users="user"``.
    at : int, optional
        Microseconds since the start of the trace's clock, which shows 600 s when the trace starts; events up to then
        count. Default the last time in ``instances``.
    users : {"collection", "user", "priority", "tier"}, default "collection"
        Whose tasks instances are: of a job or alloc set, of who runs it, of a priority, or of the tier of a priority
        (free up to 99, best-effort batch up to 115, mid up to 119, production up to 359, monitoring).
    tasks : {"mean", "shapes"}, default "mean"
        ``"mean"``: an owner's instances that need the same resources make one user, who demands their mean request.
        ``"shapes"``: only instances of equal requests do.
    merge : bool, default True
        Identical servers as one row with a count.

    Returns
    -------
    Instance
        Resources ``cpu`` and ``memory``, as the trace has them: normalised to its largest server, so without
        units. The type of a server is its platform. Owners are entitled to equal parts. `Instance.notes` say what
        was left out or assumed.

    Raises
    ------
    InvalidInstance
        Names file, line or row, column, value and fix.
    MissingExtra
        If Parquet is to be read without pyarrow.

    Notes
    -----
    An instance counts if it was submitted and has not ended (evicted and failed ones count again when they are
    submitted again), whether it waits or runs, with what it last asked for. A server counts if it was added and not
    removed, with its last capacity. Cores and memory are looked up each by itself; where only one was ever given, the
    other is 0, which a note says. Where events bear the same time, ends come last.

    An alloc set reserves what its alloc instances ask for; they count, and tasks that run inside an alloc set that
    counts do not, since they would count twice. Instances on dedicated servers are left out, as such servers are not in
    the trace. Constraints are not modelled. Rows without a time, a type or an identity are left out.

    Memory grows with the number of different instances, by less than 1 kB each, not with the number of events.

    Source: github.com/google/cluster-data, ClusterData2019 and its protocol buffer definition; Tirmazi et al., "Borg:
    the Next Generation", EuroSys 2020, for the tiers.

    Examples
    --------
    >>> import fairopt as fo
    >>> cell = fo.datasets.clusterdata2019(
    ...     "instance_events.parquet", "machine_events.parquet", users="tier"
    ... )  # doctest: +SKIP
    """
    return _instance_of(read_clusterdata(instances, machines, collections, at, users, tasks, merge))


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
        the files. A user is called after its request, as ``12cpu/16GiB/1gpu@P100|T4``; users are sorted by request.
        Each of the 1,523 servers has its row; `Instance.merged` makes 27 of them. Its type is the model of its GPUs, or
        ``no GPU``: 8 types.

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
    return _instance_of(read_openb(folder, pods, capacity_scale, backlog))


def instance_of_frames(users: Any, servers: Any, demands: Any = None) -> Instance:
    """See `Instance.from_frames`."""
    return _instance_of(read_frames(users, servers, demands))


def _instance_of(found: Arguments) -> Instance:
    with about(*found.places, hint=found.hint):
        made = Instance(**found.values)
    return made.merged() if found.merge else made
