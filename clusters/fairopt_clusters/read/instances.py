"""Files of clusters as instances, one function for each kind, with what is read and what is left out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairopt.datasets import instance_of
from fairopt.runtime import pandas

if TYPE_CHECKING:
    import pandas as pd

    from fairopt import Instance
    from fairopt_clusters.read.documents import Document
    from fairopt_clusters.read.queues.tree import QueueTree

_Path = str | os.PathLike[str]


def read_kubernetes(
    nodes: Document,
    pods: Document,
    users: str | None = None,
    tasks: str = "auto",
    merge: bool = True,
    resources: Sequence[str] | None = None,
    *,
    kueue: Document | Sequence[Document] = (),
    scale_quotas: bool = True,
    time_limit: float | None = None,
) -> Instance:
    """A Kubernetes cluster as an instance: namespaces, or queues of Kueue, share its servers by their pods' requests.

    Parameters
    ----------
    nodes, pods : path-like or dict
        Output of ``kubectl get nodes -o json`` and of ``kubectl get pods -A -o json``: a file, or its content as
        ``json.load`` returns it.
    users : str, optional
        The owners of pods: ``"namespace"``; ``"queue"``, their ClusterQueues, or the queues that labels or annotations
        of other schedulers name, else their namespace; or the values of a label, as ``"label:team"``. Pods without the
        label belong to the owner ``(no team)``. Default: queues if there are ClusterQueues or such labels, else
        namespaces.
    tasks : {"auto", "mean", "shapes"}, default "auto"
        ``"shapes"``: an owner's pods with equal requests that may run on the same servers make one user. ``"mean"``:
        those that need the same set of resources do, with their mean request; it is faster, but means do not pack as
        pods do, and what is held counts by them. ``"auto"``: shapes, if there are at most 6,000, else means of pods
        with the same GPUs and other pieces.
    merge : bool, default True
        Identical servers become one row with a count, named after all of them, as ``n[1-4]``.
    resources : sequence of str, optional
        The resources that are shared. Default: those that some pod requests. ``"pods"``, the number of pods that a
        server may run, counts only if it is named here.
    kueue : path-like or dict, or a list of them, optional
        Output of ``kubectl get workloads,clusterqueues,localqueues,cohorts,resourceflavors,namespaces,resourcequotas -A
        -o json``, or of each alone. Versions ``v1beta1`` and ``v1beta2`` are read.
    scale_quotas : bool, default True
        Scale nominal quotas that promise more than there is. Otherwise they are guarantees that need not fit together;
        `fairopt.Instance.fit_guarantees` reduces them in an order.
    time_limit : float, optional
        As in `fairopt.read`.

    Returns
    -------
    Instance
        cpu in cores; memory, ephemeral storage and huge pages in GiB; extended resources such as ``nvidia.com/gpu`` in
        pieces. Owners are teams (the label ``team`` of their users) of equal weight. Each kind of pods of an owner is a
        user, named for what it is: ``ml/8 gpu`` for what it needs beside cpu and memory, else ``web/4 cpu``; without
        the number where requests differ; and as ``ml/8 gpu@accelerator=large`` where a node selector or affinity bars
        servers that have what it needs. A user's task limit is its number of pods. ``server_types`` are the labels
        ``node.kubernetes.io/instance-type``, if all servers have one.

    Raises
    ------
    InvalidInstance
        If a file is wrong (the message names the place, the value and the fix), or no pods or servers are left.
    OutOfTime
        If the time limit was reached.

    Notes
    -----
    *The request of a pod* is what Kubernetes reserves for it, by resource: the larger of the sum over its containers
    and sidecars and of any init container with the sidecars before it; or ``spec.resources`` of the pod; plus the
    overhead. A missing request is the limit.

    *Pods* that are finished or request nothing are left out. Pods of DaemonSets and static pods are subtracted from the
    capacity of their server, down to 0. All others count alike, running or pending, wherever they run now. Those with a
    ``nodeName`` are held there (`fairopt.Instance.held`).

    *Parts of GPUs*, which the KAI Scheduler reads from the annotations ``gpu-fraction``, ``gpu-memory`` (MiB, of the
    label ``nvidia.com/gpu.memory``) and ``gpu-fraction-num-devices``, are parts of ``nvidia.com/gpu``. The GPUs of a
    server are one amount, so that a part may lie on two. Pods of ``kai-resource-reservation`` are left out.

    *ResourceQuotas.* Kubernetes refuses pods beyond them, so that no list has these pods. Where a quota has no room for
    one more pod of a kind, any number of such pods counts as waiting, and a note names the namespace;
    `fairopt.Instance.replace` with ``task_limits`` gives their number. In ClusterQueues of Kueue there is only the
    note.

    *Slices of GPUs.* On servers with the labels of MIG's single strategy (``nvidia.com/mig.strategy``) or of shared
    GPUs (``nvidia.com/gpu.replicas``), ``nvidia.com/gpu`` counts slices: a resource of their own, as
    ``nvidia.com/gpu:1g.10gb`` or ``nvidia.com/gpu:shared-8``. Pods that may run on slices and on whole GPUs count as
    ``nvidia.com/gpu:any``, of all devices. In ClusterQueues, whose quotas do not tell them apart, slices count as GPUs.
    GPUs of different models count alike; notes say both.

    *Servers* have the capacities of ``status.allocatable`` (else ``status.capacity``, as in Kubernetes). Servers with
    neither, and servers where none of the pods may run, are left out. A server that is cordoned or not ready has what
    runs there, for the pods that run there. Where pods may run follows from taints (``NoSchedule``, ``NoExecute``) and
    tolerations, node selectors and required node affinity.

    *Kueue.* A Workload that is neither finished nor inactive counts with its listed pods and with those of its pod sets
    that are not listed, less those that it reclaims. All pods of an admitted one are held. Pods belong to a Workload by
    its name in their annotation ``kueue.x-k8s.io/workload`` or label ``kueue.x-k8s.io/pod-group-name``, by the uid of
    an owner (also of an owner's owner, if all are in one list), or by the name of their job in a label. A ClusterQueue
    is a team of weight ``fairSharing.weight``. Pods in none count for nobody: those that run are subtracted from the
    capacities of their servers, and those that wait are left out. So is what waits in queues that are stopped or
    inactive, and also what runs in those that are drained. Cohorts are outer labels, ``cohort`` for the lowest level,
    then ``cohort2``; a cohort needs no object. Nominal quotas, over all flavors, are guarantees of a ClusterQueue: what
    its pods take together if their dominant shares rise evenly until its quotas, or the pods, are used up. Those of a
    cohort come on top of all below it. A flavor counts where a pod of the queue may run on its servers; quotas of a
    flavor that exceed what its servers have are scaled to it. Pods of a ClusterQueue run on servers with the
    ``nodeLabels`` of one of its flavors, of each group of resources that they request, and have the tolerations of
    these flavors.

    *Not modelled:* preferred affinity and ``PreferNoSchedule``, affinity between pods, topology spread, priorities and
    preemption, zones of volumes, limits above requests, in-place resizing, device topology and resource claims (DRA),
    but for those by templates of claims in `fairopt.read`; of Kueue admission checks, topology requests, and defaults
    of a LimitRange or overhead of a RuntimeClass in pod sets. Notes count what is there of required rules between pods
    and of Kueue's checks; and objects of other kinds in a list, and pods with the labels and annotations of gangs.
    Queues of Volcano, KAI and YuniKorn are read where there are no ClusterQueues (`read_queues`). Pods with scheduling
    gates count as waiting. Tasks are divisible, so a pod larger than any server counts too.

    Source: the Kubernetes documentation, "Effective Pod requests and limits", "Taints and Tolerations" and "Assigning
    Pods to Nodes"; the API reference of Kueue.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> nodes = {"kind": "List", "items": [
    ...     {"metadata": {"name": f"n{k}"}, "status": {"allocatable": {"cpu": k, "memory": "64Gi"}}} for k in (8, 16)
    ... ]}
    >>> pods = {"kind": "List", "items": [
    ...     {"metadata": {"namespace": name, "name": f"p{k}"}, "spec": {"containers": [
    ...         {"resources": {"requests": {"cpu": "500m", "memory": memory}}}
    ...     ]}} for name, memory in (("web", "1Gi"), ("batch", "4Gi")) for k in range(30)
    ... ]}
    >>> cluster = fc.read_kubernetes(nodes, pods)
    >>> cluster
    Instance(2 users x 2 resources on 2 servers, task limits, tasks held, 2 teams)
    >>> cluster.users, cluster.resource_titles, cluster.demands.tolist()
    (('batch/0.5 cpu', 'web/0.5 cpu'), ('cpu (core)', 'memory (GiB)'), [[0.5, 4.0], [0.5, 1.0]])
    """
    from fairopt_clusters.read.kubernetes.reader import arguments_of_kubernetes

    further: list[Any] = list(kueue) if isinstance(kueue, (list, tuple)) else [kueue]
    return instance_of(
        arguments_of_kubernetes,
        nodes,
        pods,
        *further,
        time_limit=time_limit,
        users=users,
        tasks=tasks,
        merge=merge,
        resources=resources,
        scale_quotas=scale_quotas,
    )


def read_slurm(
    nodes: Document,
    jobs: Document,
    users: str = "account",
    tasks: str = "auto",
    merge: bool = True,
    *,
    associations: Document | None = None,
    time_limit: float | None = None,
) -> Instance:
    """A Slurm cluster as an instance: accounts share its servers by the requests of their jobs.

    Parameters
    ----------
    nodes, jobs : path-like or dict
        Output of ``scontrol show node --json`` and of ``squeue --json``: a file, or its content as ``json.load``
        returns it. Slurm 20.11 to 25.05 (data parser v0.0.36 to v0.0.43) is supported.
    users : {"account", "user", "partition", "qos"}, default "account"
        The owners of jobs. Of several partitions the first counts.
    tasks : {"auto", "mean", "shapes"}, default "auto"
        As in `read_kubernetes`, of jobs instead of pods.
    merge : bool, default True
        Identical servers become one row with a count.
    associations : path-like or dict, optional
        Output of ``sacctmgr show associations --json``: the tree of accounts, for ``users="account"``; of users too,
        for ``users="user"``. Limits (``GrpTRES``) of accounts count.
    time_limit : float, optional
        As in `fairopt.read`.

    Returns
    -------
    Instance
        Resources ``cpu`` (a core or a thread, as Slurm counts them), ``memory`` (GiB) and generic resources, if some
        job requests them. Owners are teams, as in `read_kubernetes`. With ``associations`` the accounts above are the
        labels ``account``, ``account2``, ..., and fairshares are the weights of accounts. An account has the same label
        everywhere: those right below the root have the last one, and accounts of shorter branches have no ``account``.

    Raises
    ------
    InvalidInstance
        If a file is wrong; the message names the file, the place, the value and the fix.
    OutOfTime
        If the time limit was reached.

    Notes
    -----
    *Servers* have ``effective_cpus``, or else ``cpus`` less the specialised cores; ``real_memory`` less the specialised
    memory; and ``gres`` less what is drained. Servers that are down, drained, failing, under maintenance, unknown, in
    the future or not responding are left out, or, where jobs run, have what runs there for these jobs; states are read
    in full or as sinfo shortens them (``drng``, ``idle*``). Servers that are powered down count, since Slurm wakes
    them, and so do reserved ones. Other states count as usable, with a note. The type of a server is that of its GPUs.

    *Jobs* on k servers (``node_count``, else ``node=`` in ``tres_req_str`` or ``tres_alloc_str``) are k tasks with a
    k-th of the request each, of which Slurm starts all or none; one that needs more servers than it may use is left
    out. An array is as many jobs as wait, and with a limit on jobs at once (``1-400%50``) as many as may start beside
    those of the array that run. A task that no single server can hold counts, with a note. Tasks that run take what is
    allocated on their server: cores and memory of ``job_resources``, else of ``tres_alloc_str``; generic resources of
    ``gres_detail``, else of ``tres_alloc_str``. Others take what they request: cores and memory of ``tres_req_str``,
    else of ``cpus``, ``minimum_cpus_per_node``, ``memory_per_node`` and ``memory_per_cpu``; generic resources of
    ``tres_req_str``, else of ``tres_per_node``, ``tres_per_job``, ``tres_per_task`` and ``tres_per_socket``. Jobs that
    take whole servers (``--exclusive``) and wait count with all cores and generic resources of the smallest server for
    them. Jobs on hold, jobs that Slurm never starts as they are requested (by their reason, as ``PartitionTimeLimit``),
    finished jobs and those that another cluster of a federation runs are left out; those that wait for a time, a
    licence or another job count. The tasks of running jobs are held on their ``nodes`` (`fairopt.Instance.held`);
    suspended jobs hold nothing. Jobs that request all the memory of a server count without memory. As in Slurm,
    ``gpu:4090`` requests 4090 GPUs of any type, and ``gpu:4090:1`` one of type ``4090``.

    *GPUs* are the resource ``gpu``, of all types. A type is a matter of placement: a request for one may run on servers
    that have it, a request without a type on those of its partition. Slices of GPUs (MIG, types such as ``1g.10gb``)
    are a resource of their own each, as ``gpu:1g.10gb``. A request without a type that slices alone can meet takes
    them; if slices and other devices can, it takes ``gpu:any``, of which a server has as many as devices, and all
    requests need that too. Where a server has several types of whole GPUs, a request for one of them also needs
    ``gpu:a100``, which limits only what fits there: elsewhere there is so much that no share depends on it. The same
    holds for other generic resources.

    *Accounts* with a fairshare of 0, or below one, are left out. Jobs of an account that has accounts below it are
    members of it beside these accounts, and in no ``team``.

    *Placement* follows from partitions, constraints (``&``, ``|`` and parentheses, from left to right), excluded
    servers, and required servers if they are at least as many as the job takes. Not modelled are counts in constraints,
    reservations, licences, other limits of accounts, priorities, topology, memory by GPU, and that
    ``shard`` and ``mps`` are pieces of GPUs. Notes count the jobs that these concern, but for limits, priorities and
    topology.

    *The rule.* Slurm's Fair Tree compares usage over time, which these files do not have;
    `fairopt_clusters.policies.FairTree` is what it steers to.

    Source: Slurm's REST API, slurm.schedmd.com/rest_api.html, and the manuals of scontrol, squeue, sacctmgr and sbatch.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> cluster = fc.read_slurm(
    ...     {"nodes": [{"name": "n1", "cpus": 64, "real_memory": 262144, "gres": "gpu:a100:4(S:0-1)"}]},
    ...     {"jobs": [
    ...         {"account": "bio", "job_state": ["PENDING"], "tres_req_str": "cpu=8,mem=32G,node=1,gres/gpu=1"},
    ...         {"account": "cfd", "job_state": ["RUNNING"], "tres_req_str": "cpu=32,mem=64G,node=1"},
    ...     ]},
    ... )
    >>> cluster.users, cluster.resource_titles
    (('bio/1 gpu', 'cfd/32 cpu'), ('cpu (core)', 'memory (GiB)', 'gpu'))
    >>> cluster.demands
    array([[ 8., 32.,  1.],
           [32., 64.,  0.]])
    """
    from fairopt_clusters.read.slurm.reader import arguments_of_slurm

    how = {"users": users, "tasks": tasks, "merge": merge}
    return instance_of(arguments_of_slurm, nodes, jobs, associations, time_limit=time_limit, **how)


def read_clusterdata2019(
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
        Rows of ``InstanceEvent`` and of ``MachineEvent`` in any order: CSV (gzipped or not) or Parquet files, or
        folders of such parts. A struct may be nested or flat: ``resource_request`` with ``cpus`` and ``memory``, or
        ``resource_request.cpus``, ``resource_request_cpus`` or ``cpus``. Types are numbers or names, as ``SUBMIT``.
    collections : path-like, optional
        Rows of ``CollectionEvent``, for ``users="user"``.
    at : int, optional
        Microseconds on the trace's clock, which shows 600 s when the trace starts; later events do not count. Default:
        the last time in ``instances``.
    users : {"collection", "user", "priority", "tier"}, default "collection"
        The owners of the trace's instances: jobs and alloc sets, the users who run them, priorities, or tiers of
        priorities (free up to 99, best-effort batch up to 115, mid up to 119, production up to 359, monitoring).
    tasks : {"auto", "mean", "shapes"}, default "mean"
        As in `read_kubernetes`, of the trace's instances instead of pods.
    merge : bool, default True
        Identical servers become one row with a count.
    time_limit : float, optional
        As in `fairopt.read`.

    Returns
    -------
    Instance
        Resources ``cpu`` and ``memory``, as fractions of the trace's largest server, without units. The type of a
        server is its platform. Owners are teams, as in `read_kubernetes`.

    Raises
    ------
    InvalidInstance
        If a file is wrong; the message names the file, the line or row, the column, the value and the fix.
    MissingExtra
        If pandas or pyarrow is not installed.
    OutOfTime
        If the time limit was reached.

    Notes
    -----
    An instance of the trace counts, waiting or running, if it was submitted and has not ended; an evicted or failed one
    counts again once it is submitted again. Its last request counts. A server counts if it was added and not removed,
    with its last capacity. If only one of cores and memory was ever given, the other is 0, with a note. Of events at
    the same time, ends come last.

    An alloc set counts with the requests of its alloc instances; tasks inside an alloc set that counts do not.
    Instances on dedicated servers, which are not in the trace, are left out, and so are rows without a time, a type or
    an identity. Constraints are not modelled.

    Memory grows with the number of different instances, by less than 1 kB each, not with the number of events.

    Source: github.com/google/cluster-data, ClusterData2019, with its protocol buffer definition; for the tiers
    Tirmazi et al. (2020).

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> cell = fc.read_clusterdata2019(
    ...     "instance_events.parquet", "machine_events.parquet", users="tier"
    ... )  # doctest: +SKIP
    """
    from fairopt_clusters.read.clusterdata import arguments_of_clusterdata

    how = {"at": at, "users": users, "tasks": tasks, "merge": merge}
    return instance_of(arguments_of_clusterdata, instances, machines, collections, time_limit=time_limit, **how)


def read_openb(
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
        The list of tasks. Tasks with equal demands that may run on the same types of GPU make one user: 151 users in
        ``default``, which requires no types, and 447 in ``gpuspec33``.
    capacity_scale : float, default 1.0
        Factor on all capacities. At 1 all tasks of ``default`` fit; at 0.5 they request twice the GPUs of the cluster.
    backlog : bool, default False
        If True, users have no task limits. Otherwise a user's limit is its number of tasks.
    time_limit : float, optional
        As in `fairopt.read`.

    Returns
    -------
    Instance
        Resources ``cpu_milli`` and ``gpu_milli`` (thousandths of a core and of a GPU) and ``memory_mib`` (MiB), as in
        the files. Users are named after their requests, as ``12cpu/16GiB/1gpu@P100|T4``, and sorted by them. Each of
        the 1,523 servers has a row; `fairopt.Instance.merged` has 27. The type of a server is its model of GPU, or
        ``no GPU``.

    Raises
    ------
    InvalidInstance
        If a file is missing or wrong, no server has a GPU of a required type, or ``capacity_scale`` is not positive.
    OutOfTime
        If the time limit was reached.

    Notes
    -----
    A task demands ``num_gpu * gpu_milli`` thousandths of a GPU; a server has ``gpu * 1000``. In ``gpuspec33`` the tasks
    that require a T4 request 1028 of 842, so the cluster cannot run all tasks. One task, of 120 cores on a G2, is
    larger than any server of that type: tasks are divisible here.

    Source: github.com/alibaba/clusterdata, folder ``cluster-trace-gpu-v2023``, not shipped here; Weng et al. (2023).

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> contended = fc.read_openb("data/openb", pods="gpuspec33", capacity_scale=0.5)  # doctest: +SKIP
    >>> contended.merged()  # doctest: +SKIP
    Instance(447 users x 3 resources on 1523 servers in 27 rows, task limits, placement constraints)
    """
    from fairopt_clusters.read.openb import arguments_of_openb

    how = {"pods": pods, "capacity_scale": capacity_scale, "backlog": backlog}
    return instance_of(arguments_of_openb, folder, time_limit=time_limit, **how)


def read_gavel_throughputs(path: str | os.PathLike[str], gpus: int = 1) -> pd.DataFrame:
    """Throughputs by type of job and type of device, in steps per second, for ``Instance(rates=...)``.

    Parameters
    ----------
    path : path-like
        ``scheduler/simulation_throughputs.json`` of Gavel, or ``oracle_throughputs.json`` of its earlier versions.
    gpus : int, default 1
        The number of GPUs on which a job runs at once.

    Returns
    -------
    pandas.DataFrame
        A row for each type of job that was measured on so many GPUs, a column for each device; 0 where a job does not
        fit. Throughputs of pairs of jobs on one device are left out.

    Raises
    ------
    InvalidInstance
        If the file is none of these, or has no jobs on so many GPUs.
    MissingExtra
        If pandas is not installed.

    Notes
    -----
    Source: github.com/stanford-futuredata/gavel, not shipped here; Narayanan et al. (2020).

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import fairopt_clusters as fc
    >>> file = pathlib.Path(tempfile.mkdtemp(), "throughputs.json")
    >>> measured = {"k80": {"('A3C', 1)": {"null": 2.5}}, "v100": {"('A3C', 1)": {"null": 4.0}}}
    >>> _ = file.write_text(json.dumps(measured))
    >>> fc.read_gavel_throughputs(file)
         k80  v100
    job
    A3C  2.5   4.0
    """
    from fairopt_clusters.read.gavel import read_gavel

    return pandas().DataFrame(read_gavel(path, gpus)).fillna(0.0).rename_axis("job")


def read_queues(path: str | os.PathLike[str]) -> QueueTree:
    """The queues of another scheduler, or the accounts of Slurm, as one tree, whatever file they are in.

    Parameters
    ----------
    path : path-like
        A file with Queue objects of KAI or Volcano, or ClusterQueues and Cohorts of Kueue, in YAML or JSON;
        YuniKorn's ``queues.yaml``, alone or in its ConfigMap; a folder of such files; a snapshot of KAI, ``.zip``;
        ``fair-scheduler.xml`` or ``capacity-scheduler.xml`` of YARN; or output of ``sacctmgr dump``, ``sshare -l -P``
        or ``sshare --json``.

    Returns
    -------
    QueueTree
        Its queues with parents, weights, guarantees, limits and priorities, and notes on what else the file says. With
        nodes beside queues of KAI, Volcano or YuniKorn it has their capacity, less what pods in no queue hold; with
        pods, or objects that make some, queues have requests and what they use.

    Raises
    ------
    InvalidInstance
        If there are no queues, or something is wrong with them; the message names the file, the document, the queue,
        the value and the fix.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt_clusters as fc
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "fair-scheduler.xml"
    >>> _ = file.write_text('<allocations><queue name="ml"><weight>2</weight><queue name="nlp"/></queue></allocations>')
    >>> [(queue.name, queue.parent, queue.weight) for queue in fc.read_queues(file).queues]
    [('root.ml', '', 2.0), ('root.ml.nlp', 'root.ml', 1.0)]
    """
    from fairopt_clusters.read.queues.reader import tree_of_file

    return tree_of_file(path)
