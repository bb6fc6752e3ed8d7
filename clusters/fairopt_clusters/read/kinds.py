"""The files that clusters have, as readers of `fairopt.read`: what they are called, and what options they take.

Nothing here imports what reads: fairopt looks at this table whenever a command starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairopt.io import Option, Reader

SNAPSHOT = ".zip"  # the ending of snapshots of KAI
ENDINGS = (".json", ".yaml", ".yml")
OBJECTS = "rawObjects"  # the key of a snapshot's lists
SERVERS_OF_OPENB, PODS_OF_OPENB = "openb_node_list_all_node.csv", "openb_pod_list_"
_OF_KUBERNETES = re.compile(rb"""["']?(apiVersion|kind)["']?\s*:""")
_START = 1 << 16  # bytes of a file in which a first object has its kind


def _document(name: str) -> tuple[str, ...]:
    return tuple(f"{name}{ending}" for ending in ENDINGS)


def _events(name: str) -> tuple[str, ...]:
    return (f"{name}.parquet", f"{name}.csv", f"{name}.csv.gz", name)  # the last is a folder of parts


# -- options ----------------------------------------------------------------------------------------------------

_TASKS = Option(
    "tasks",
    metavar="HOW",
    help="One user per owner and distinct request ('shapes'), or per kind of task with its 'mean' request. Default: "
    "shapes if there are at most 6,000; of ClusterData means.",
)
_CAPACITY = Option(
    "capacity",
    dict,
    "NAME=AMOUNT",
    "Without nodes: what there is of a resource, such as cpu=64 or memory=512Gi. Repeatable; default: the quotas of "
    "queues.",
)
_FULL = Option("full_demand", bool, help="Queues and accounts without tasks ask for those of all others together.")
_PODS = Option("pods", metavar="NAME", help="The list of tasks, such as 'gpuspec33'.")
_SCALE = Option("capacity_scale", float, "X", "Multiply all capacities by this number.")
_OF_KUBERNETES_OPTIONS = (
    Option("users", metavar="WHO", help="What counts as a user: 'namespace', 'queue' (of Kueue) or 'label:team'."),
    _TASKS,
    Option(
        "resources",
        list,
        "NAMES",
        "What is shared, such as 'cpu,memory,pods', of which pods is their number. Default: all that pods request.",
    ),
    _CAPACITY,
    _FULL,
    Option("scale_quotas", bool),
)
_OF_SLURM_OPTIONS = (
    Option("users", metavar="WHO", help="What counts as a user: 'account', 'user', 'partition' or 'qos'."),
    _TASKS,
    _CAPACITY,
    _FULL,
)

# -- how inputs are recognised --------------------------------------------------------------------------------------


def is_of_manifests(folder: Path, kinds: Sequence[str] | None = None) -> bool:
    """Whether a folder is read as the objects of Kubernetes in its files, whatever their names.

    Not if it has tables or a trace, nor with ``nodes.json`` and ``pods.json`` or ``jobs.json``, unless there are files
    of YAML with such objects beside them. ``kinds`` are those whose files it has; None looks for ours.
    """
    if not folder.is_dir():
        return False
    entries = {entry.name for entry in folder.iterdir()}
    if kinds is None:
        kinds = [kind.name for kind in KINDS if kind.files and not kind.missing(entries)]
    if not {"Kubernetes", "Slurm"}.issuperset(kinds):
        return False
    ends = {name: ending for name in entries if (ending := Path(name).suffix.lower()) in ENDINGS}
    of_yaml = {name for name, ending in ends.items() if ending != ".json"}
    # with lists that are complete, of files of JSON only jobs.json is of Slurm for certain
    others = of_yaml | (ends.keys() & {"jobs.json"}) if kinds else ends.keys() - LISTS.known(entries)
    of_kubernetes = any(_starts_as_kubernetes(folder / name) for name in others)
    return of_kubernetes or (not kinds and bool(of_yaml))


def _starts_as_kubernetes(file: Path) -> bool:
    """Whether a file seems to hold objects of Kubernetes."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return _OF_KUBERNETES.search(opened.read(_START)) is not None


def is_snapshot(path: Path, kinds: Sequence[str]) -> bool:
    """Whether a file is named as a snapshot of KAI."""
    return path.suffix.lower() == SNAPSHOT and path.is_file()


def is_of_kubernetes(documents: Sequence[tuple[Any, str]], options: Mapping[str, Any]) -> bool:
    """Whether one of some documents is an object of Kubernetes, or a list of objects, or a snapshot of KAI."""
    mappings = [data for data, _ in documents if isinstance(data, dict)]
    return any(("kind" in data and "demands" not in data) or OBJECTS in data for data in mappings)


def is_of_slurm(documents: Sequence[tuple[Any, str]], options: Mapping[str, Any]) -> bool:
    """Whether a document has jobs, and nodes or a capacity instead."""
    data = documents[0][0]
    alone = len(documents) == 1 and isinstance(data, dict)
    return alone and "jobs" in data and ("nodes" in data or "capacity" in options)


# -- the table --------------------------------------------------------------------------------------------------

_READ = "fairopt_clusters.read"
_QUEUES = ("clusterqueues.json", "queues.json")
LISTS = Reader(
    "Kubernetes",
    f"{_READ}.kubernetes.reader:arguments_of_kubernetes",
    _OF_KUBERNETES_OPTIONS,
    files=(("nodes.json",), ("pods.json",)),
    further=tuple(
        (f"{kind}.json",)
        for kind in (
            *("workloads", "clusterqueues", "localqueues", "cohorts", "resourceflavors", "resourcequotas"),
            *("queues", "podgroups", "configmaps", "namespaces"),
        )
    ),
    instead=(*_QUEUES, "capacity"),
    examples="""  mkdir now
  kubectl get nodes -o json > now/nodes.json
  kubectl get pods -A -o json > now/pods.json
  fairopt convert now/ cluster/ --users namespace
  kubectl get nodes,pods,ns,resourcequotas,workloads,clusterqueues,localqueues,cohorts,resourceflavors -A -o json |
    fairopt convert - cluster/""",
)
_MANIFESTS = Reader(
    "Kubernetes",
    f"{_READ}.kubernetes.reader:read_folder",
    _OF_KUBERNETES_OPTIONS,
    further=(("*.yaml", "*.yml", "*.json"),),
    path=f"{_READ}.kinds:is_of_manifests",
    shown=".yaml, .yml, .json of any names",
)
_DOCUMENTS = Reader(
    "Kubernetes",
    f"{_READ}.kubernetes.reader:read_documents",
    _OF_KUBERNETES_OPTIONS,
    documents=f"{_READ}.kinds:is_of_kubernetes",
    shown="objects of Kubernetes, as kubectl get nodes,pods prints them",
)
_SNAPSHOTS = Reader(
    "a snapshot of the KAI scheduler",
    f"{_READ}.kubernetes.reader:read_snapshot",
    _OF_KUBERNETES_OPTIONS,
    path=f"{_READ}.kinds:is_snapshot",
    shown="a .zip file",
)
NODES_OF_SLURM = (*_document("nodes"), "nodes.txt", "slurm.conf")
TEXTS_OF_JOBS = ("jobs.txt", "squeue.txt")
ACCOUNTS = (
    *_document("associations"),
    *("associations.txt", "associations.cfg", "accounts.cfg", "cluster.cfg", "sacctmgr.txt"),
    *("sshare.txt", "sshare.json"),
)
CONTRACTS = "contracts.csv"
_SLURM = Reader(
    "Slurm",
    f"{_READ}.slurm.reader:arguments_of_slurm",
    _OF_SLURM_OPTIONS,
    files=(NODES_OF_SLURM, (*_document("jobs"), *TEXTS_OF_JOBS)),
    further=(ACCOUNTS, ("slurm.conf",), ("qos.txt",), (CONTRACTS,), ("gres.conf",)),
    rules=f"{_READ}.slurm.rules:rules_of_slurm",
    instead=("capacity",),
    examples="""  mkdir slurm
  scontrol show node --json > slurm/nodes.json
  squeue --json > slurm/jobs.json
  fairopt convert slurm/ cluster.yaml --users account""",
)
_SLURM_DOCUMENT = Reader(
    "Slurm",
    f"{_READ}.slurm.reader:read_documents",
    _OF_SLURM_OPTIONS,
    documents=f"{_READ}.kinds:is_of_slurm",
    shown="nodes and jobs of Slurm",
)
_CLUSTERDATA = Reader(
    "ClusterData 2019",
    f"{_READ}.clusterdata:arguments_of_clusterdata",
    (
        Option("users", metavar="WHO", help="What counts as a user: 'collection', 'user', 'priority' or 'tier'."),
        _TASKS,
        Option("at", int, "TIME", "Time of the snapshot, in microseconds."),
    ),
    files=(_events("instance_events"), _events("machine_events")),
    further=(_events("collection_events"),),
    examples="  fairopt convert borg/ cluster.json --users tier --at 86400000000",
)
_OPENB = Reader(
    "the openb trace",
    f"{_READ}.openb:arguments_of_openb",
    (_PODS, _SCALE, Option("backlog", bool, help="No task limits.")),
    files=((SERVERS_OF_OPENB,),),
    further=((f"{PODS_OF_OPENB}*.csv",),),
    whole=True,
    examples="  fairopt convert openb/ contended/ --pods gpuspec33 --capacity-scale 0.5",
)
_SWF = Reader(
    "the Standard Workload Format",
    f"{_READ}.swf:read_swf_servers",
    path=f"{_READ}.swf:is_swf",
    shown="a .swf or .swf.gz file",
)
_OF_QUEUES = ("fair-scheduler.xml", "capacity-scheduler.xml", "queues.yaml", "queues.yml")
_TABLES = Reader(
    "CSV tables with queues",
    f"{_READ}.queues.beside_tables:read_tables",
    (Option("labels", list),),
    files=(("users.csv",), ("servers.csv",), _OF_QUEUES),
    further=(("demands.csv",), ("teams.csv",)),
)
_QUEUES_ALONE = Reader(  # which is an error that says what to add
    "queues",
    f"{_READ}.queues.reader:refuse_file",
    _OF_KUBERNETES_OPTIONS,
    path=f"{_READ}.queues.reader:is_file_alone",
)
_QUEUES_IN_DOCUMENT = Reader(
    "queues",
    f"{_READ}.queues.reader:refuse_documents",
    _OF_KUBERNETES_OPTIONS,
    documents=f"{_READ}.queues.reader:are_documents_alone",
)
KINDS = (
    *(_TABLES, LISTS, _SLURM, _CLUSTERDATA, _OPENB, _SWF, _MANIFESTS, _SNAPSHOTS),
    *(_QUEUES_ALONE, _QUEUES_IN_DOCUMENT, _DOCUMENTS, _SLURM_DOCUMENT),
)

# -- jobs -------------------------------------------------------------------------------------------------------


def is_openb(path: Path, kinds: Sequence[str]) -> bool:
    """Whether a path is a folder of the openb trace."""
    return (path / SERVERS_OF_OPENB).is_file()


JOBS = (
    Reader(
        "the openb trace",
        f"{_READ}.openb_jobs:read_openb_jobs",
        (
            Option("users", metavar="WHO", help="A user is a 'shape' of request (default) or a 'qos'."),
            _PODS,
        ),
        path=f"{_READ}.kinds:is_openb",
        shown="a folder of the openb trace",
        examples="  openb/     the folder of the openb trace: creation, scheduled, deletion times\n"
        "             fairopt simulate openb/ --compress 20000 --capacity-scale 0.5 -p drf -p fcfs",
    ),
    Reader(
        "the Standard Workload Format",
        f"{_READ}.swf:read_swf_jobs",
        (Option("users", metavar="WHO", help="A user is a 'user' of a group (default) or a 'group'."),),
        path=f"{_READ}.swf:is_swf",
        shown="a .swf or .swf.gz file",
        examples="  trace.swf  of the Parallel Workloads Archive, with one server of all processors\n"
        "             fairopt simulate trace.swf.gz -p fcfs -p easy -p drf",
    ),
    Reader(
        "output of sacct",
        f"{_READ}.slurm.accounting:read_accounting",
        (
            Option("users", metavar="WHO", help="A user is a 'user' of an account (default) or an 'account'."),
            Option("limit_default", float, "SECONDS", "The limit of jobs without one; default: no planned end."),
            Option("partitions", dict),
        ),
        path=f"{_READ}.slurm.accounting:is_accounting",
        shown="output of sacct",
        examples="  sacct.txt  of Slurm: sacct -P -a -X -o ALL, or fewer columns\n"
        "  sacct.json of Slurm: sacct --json\n"
        "             fairopt simulate sacct.txt --servers slurm/ -p easy -p hdrf",
    ),
)
