"""Public signatures, and what every command of the command line prints and exits with; for answers.py."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fairopt as fo
from fairopt.cli import main

MODULES = (
    "fairopt",
    *(f"fairopt.{name}" for name in ("datasets", "metrics", "testing", "errors", "properties", "tradeoff", "online")),
    *(f"fairopt.{name}" for name in ("policies", "scale", "derivatives", "report", "proofs", "blocks")),
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,G2\nn2,64000,262144,2,P100\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np0,12000,16384,1,1000,P100|G2,LS\n"
    "p1,4000,5600,1,460,,LS\np2,12000,16384,1,1000,,BE\np3,8000,1024,0,0,,BE\np4,16000,1024,2,500,,BE\n"
)
EVENTS = (
    "time,type,collection_id,instance_index,resource_request.cpus,resource_request.memory,priority\n"
    "0,SUBMIT,1,0,0.25,0.125,100\n0,SCHEDULE,1,0,0.25,0.125,100\n1,SUBMIT,2,0,0.125,0.25,200\n2,SUBMIT,3,0,0.5,0.125,0\n"
)
MACHINES = "time,machine_id,type,capacity.cpus,capacity.memory,platform_id\n0,1,ADD,0.5,0.25,A\n0,2,ADD,1,0.5,B\n"
POLICIES = (
    "drf",
    "2df",
    "kdf:k=3,short=positive",
    "fds:alpha=2",
    "fds:beta=2,lam=-0.7",
    "nash",
    "most-tasks",
    "tsf",
    "ps-dsf",
    "per-server",
    "h-ffmra",
    "bottleneck",
    "notions.py:MINE",
    "AlphaFair(1, KDominantShare(2)) + 0.1 * Total(Tasks())",
    "Policy(MaxMin(), constraints=[MinTasks(1e9)])",
    "Policy(Leximin(), constraints=[SharingIncentive()])",
    "drff",
    "kdf:k=9",
)
INPUTS = ("cluster", "cluster.json", "cluster.yaml", "servers", "kube", "slurm", "borg", "openb", "missing", "bad.json")
PAGES = ("solve", "compare", "policies", "solvers", "demo", "audit", "replay", "claims", "convert", "plot")
COMMANDS = (
    *(f"solve {where} --json -p drf" for where in INPUTS),
    *(("solve", where, "--json", "-p", name) for where in ("cluster", "servers") for name in POLICIES),
    *(f"convert {where} made-{where}.json" for where in INPUTS),
    *(f"{name} --help" for name in ("", *PAGES)),
    *"""solve cluster
solve servers -p nash --solver CLARABEL
solve servers -p drf --method cone --json
solve cluster -p drf --solver SCSS --json
solve servers -p drf --pooled --equal-weights --json
solve cluster --out answer.json
solve cluster --out answer.csv
solve cluster --out answer.txt
compare cluster -p drf -p 2df -p most-tasks --json
compare servers -p drf -p nash -p h-ffmra --json --out t.md
compare openb -p drf -p most-tasks
compare openb -p tsf --json
compare cluster -p drf -p kdf:k=9
policies
policies --json
solvers
solvers --json
claims
claims --json
claims --paper DRF --json
claims --paper X
audit drf --property si --max-examples 40 --json
audit drf --property nonsense --json
replay found.json
replay found.json --json
replay found.json -p most-tasks --json
replay cluster.json
convert servers tables
convert servers tables --force
convert kube kube.yaml --users namespace --tasks shapes
convert slurm s.json --users user
convert borg b.json --at 1
convert cluster --to xml out
plot cluster -p drf --out p.svg
plot servers -p drf -p nash --kind prices --out q.png
plot servers --kind region --axis user1 --axis user2 --out r.png
plot cluster --kind regions
demo
--version
nothing""".splitlines(),
    "",
)


def signatures() -> dict[str, str]:
    """What can be called and how: functions, classes with their public members, by public name."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        found[f"{module.__name__}: names"] = ", ".join(sorted(names))
        for name in sorted(names):
            for path, value in _members(f"{module.__name__}.{name}", getattr(module, name)):
                found[path] = _called(value)
    found["fairopt.policies.known_policies()"] = repr(
        {k: v.parameters for k, v in sorted(fo.policies.known_policies().items())}
    )
    return found


def _members(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield path, value
    if inspect.isclass(value):
        for name in dir(value):
            if not name.startswith("_") and name not in {*dir(Exception), *dir(tuple)}:
                yield f"{path}.{name}", inspect.getattr_static(value, name)


def _called(value: Any) -> str:
    if isinstance(value, (property, functools.cached_property)):
        return "property"
    if isinstance(value, (classmethod, staticmethod)):
        return f"{type(value).__name__} {inspect.signature(value.__func__)}"
    if inspect.isclass(value):
        bases = ", ".join(
            base.__name__
            for base in value.__mro__[1:]
            if base.__module__.startswith("fairopt.") and not base.__name__.startswith("_")
        )
        own = inspect.isfunction(value.__init__)  # a bare exception's has no signature
        return f"class{inspect.signature(value) if own else '(...)'} of {bases}"
    if callable(value):
        return str(inspect.signature(value))
    return type(value).__name__ if inspect.ismodule(value) else repr(value)


def argvs() -> list[list[str]]:
    """The words of each command."""
    return [one.split() if isinstance(one, str) else list(one) for one in COMMANDS]


def inputs() -> None:
    """Write what commands read into this folder."""
    demo, pool = fo.datasets.demo(), fo.Instance([[1, 3], [3, 1]], [4, 4])
    servers = fo.Instance(
        [[1, 2, 0], [2, 1, 1], [0, 1, 2]],
        [[6, 6, 3], [4, 2, 4]],
        counts=[2, 1],
        weights=[1, 2, 1],
        task_limits=[None, 3, None],
        eligible=[[1, 1], [1, 0], [1, 1]],
        server_types=["a", "b"],
    )
    for name in ("cluster", "cluster.json", "cluster.yaml"):
        fo.datasets.write(demo, name)
    fo.datasets.write(servers, "servers")
    texts = {
        "openb/openb_node_list_all_node.csv": NODES,
        "openb/openb_pod_list_default.csv": PODS,
        "borg/instance_events.csv": EVENTS,
        "borg/machine_events.csv": MACHINES,
        "bad.json": '{"demands": [[1]]}',
        "notions.py": "import fairopt as fo\nMINE = fo.Policy(fo.AlphaFair(2) + 0.1 * fo.Total(fo.Tasks()))\n",
        "kube/nodes.json": json.dumps({"kind": "List", "items": [_node(k) for k in range(3)]}),
        "kube/pods.json": json.dumps({"kind": "List", "items": [_pod(k) for k in range(5)]}),
        "slurm/nodes.json": json.dumps({"nodes": [_slurm_node(k) for k in range(3)]}),
        "slurm/jobs.json": json.dumps({"jobs": [_job(k) for k in range(4)]}),
    }
    for path, text in texts.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    np.save("demands.npy", np.random.default_rng(0).uniform(1, 9, (50, 2)))
    fo.audit(fo.FDS(0.5), ["si", "sp"], [pool]).save("found.json")


def _node(k: int) -> dict[str, Any]:
    has = {"cpu": "8" if k else "3920m", "memory": "32Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": f"node{k}"}, "spec": {}, "status": {"allocatable": has}}


def _pod(k: int) -> dict[str, Any]:
    asks = {"requests": {"cpu": f"{k + 1}00m", "memory": f"{2 + k % 2}Gi"}}
    meta, spec = {"name": f"pod{k}", "namespace": f"team{k % 2}"}, {"containers": [{"name": "c", "resources": asks}]}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def _slurm_node(k: int) -> dict[str, Any]:
    has = {"cpus": 64, "real_memory": 262144, "gres": "gpu:a100:4" if k else ""}
    return {"name": f"n{k}", "state": ["IDLE"], "partitions": ["all"], **has}


def _job(k: int) -> dict[str, Any]:
    asks = f"cpu={4 + k},mem={16 * (k + 1)}G,node=1" + (",gres/gpu=1" if k % 2 else "")
    who = {"account": f"lab{k % 2}", "user_name": f"user{k}"}
    return {"job_id": k, "job_state": ["PENDING"], "tres_req_str": asks, **who}


def command(argv: list[str]) -> dict[str, Any]:
    """Exit code, output (read again where it is JSON) and errors of one command, run in this folder."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    os.environ |= {"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}
    sys.argv = ["fairopt", *argv]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code: Any = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    text = out.getvalue()
    return {"exit": code, "out": json.loads(text) if "--json" in argv and text else text, "errors": err.getvalue()}
