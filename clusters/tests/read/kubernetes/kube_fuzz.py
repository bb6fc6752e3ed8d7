"""Valid documents of Kubernetes with something wrong in them, for fuzzing the reader.

``python clusters/tests/read/kubernetes/kube_fuzz.py 100000`` tries so many and says how it went.
"""

import copy
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fairopt_clusters import read_kubernetes
from kube_cluster import GPU_TOLERATION, container, daemon, node, pod, required

from fairopt.errors import FairoptError

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**70,
    0.5,
    -0.0,
    float("nan"),
    float("inf"),
    1e308,
    "",
    " ",
    "a",
    "In",
    "Exists",
    "Gt",
    "NoExecute",
    "Always",
    "1",
    "-1",
    "500m",
    "2Gi",
    "2GiB",
    "1e99",
    "1E",
    "9" * 70,
    "n1",
    "\x00",
    "\ud800",
    "ü€😀",
    [],
    {},
    [None],
    [{}],
    [[]],
    {"": ""},
    {"cpu": None},
    {"cpu": "1"},
    {"a": {"b": []}},
    ["x"],
    "Succeeded",
    "DaemonSet",
    "Pod",
    "Node",
    "List",
    "metadata.name",
    "namespace",
    "0",
    "1n",
    "8191Pi",
    {"cpu": "0"},
    10**400,
]
KEYS = [
    "kind",
    "items",
    "metadata",
    "name",
    "namespace",
    "labels",
    "spec",
    "status",
    "allocatable",
    "capacity",
    "phase",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "overhead",
    "tolerations",
    "taints",
    "key",
    "operator",
    "values",
    "value",
    "effect",
    "affinity",
    "nodeAffinity",
    "nodeSelector",
    "nodeName",
    "restartPolicy",
    "ownerReferences",
    "annotations",
    "unschedulable",
    "cpu",
    "memory",
    "pods",
    "x",
    "",
    "\ud800",
    "hugepages-2Mi",
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"users": "label:team"},
    {"tasks": "shapes"},
    {"merge": False},
    {"resources": ["cpu", "pods"]},
    {"users": "label:x"},
    {"resources": ["memory"]},
]


def small() -> tuple[Any, Any]:
    """A cluster with one of everything."""
    term = {
        "matchExpressions": [
            {"key": "pool", "operator": "In", "values": ["general"]},
            {"key": "generation", "operator": "Gt", "values": ["4"]},
        ]
    }
    sidecar = container({"cpu": "100m"}, restartPolicy="Always")
    pods = [
        pod(
            "web",
            "site-1",
            {
                "containers": [container({"cpu": "1", "memory": "1Gi"})],
                "initContainers": [sidecar],
                "affinity": required(term),
                "overhead": {"cpu": "10m"},
            },
            "front",
        ),
        pod(
            "ml",
            "train-1",
            {
                "containers": [container(None, {"cpu": "1", "nvidia.com/gpu": "2"})],
                "tolerations": [GPU_TOLERATION],
                "nodeSelector": {"pool": "gpu"},
            },
            "research",
        ),
        pod("ml", "old-1", {"containers": [container({"cpu": "1"})]}, phase="Succeeded"),
        daemon("sys", "agent", "n1", {"cpu": "110m"}, False),
    ]
    nodes = [node("n1", "general.16", "a"), node("n2", "gpu-small.48", "b")]
    return {"kind": "List", "items": nodes}, {"kind": "List", "items": pods}


def places(value: Any) -> list[tuple[Any, Any]]:
    """All containers in plain data, with each of their keys."""
    found = []
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        found.append((value, key))
        found += places(value[key])
    return found


def mutated(documents: tuple[Any, Any], draw: random.Random) -> tuple[Any, Any]:
    """A copy with one to four changes: values replaced, taken away, added, repeated, or put elsewhere."""
    made: list[Any] = copy.deepcopy(list(documents))
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        found = places(made)
        where, key = draw.choice(found)
        other, other_key = draw.choice(found)
        how = draw.randrange(6)
        if how == 0:
            where[key] = copy.deepcopy(draw.choice(VALUES))
        elif how == 1 and where is not made:
            del where[key]
        elif how == 2 and isinstance(where, dict):
            where[draw.choice(KEYS)] = copy.deepcopy(draw.choice(VALUES))
        elif how == 3 and isinstance(where, list) and where is not made:
            where.append(copy.deepcopy(where[key]))
        elif how == 4:
            where[key] = copy.deepcopy(other[other_key])
        elif isinstance(where, dict):
            where[draw.choice(KEYS)] = copy.deepcopy(other[other_key])
    return made[0], made[1]


def damaged(text: bytes, draw: random.Random) -> bytes:
    """Bytes cut, replaced, repeated, or something put between them."""
    data = bytearray(text)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at, to = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
        to = min(to, at + draw.choice([1, 2, 10, 1000]))
        data[at:to] = draw.choice(
            [
                b"",
                b"\0",
                b'"',
                b"\\",
                b"{",
                b"}",
                b"[",
                b",",
                b"\xff",
                b"\xef\xbb\xbf",
                b"9" * 5000,
                b"\n",
                bytes(data[at:to]) * 2,
            ]
        )
    return bytes(data)


def run(number: int, seed: int = 0) -> Counter[str]:
    """Try many inputs: what came of them."""
    draw = random.Random(seed)
    documents = small()
    texts = [json.dumps(document).encode() for document in documents]
    outcomes: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "file.json"
        for k in range(number):
            options = draw.choice(OPTIONS)
            sources: list[Any] = list(mutated(documents, draw))
            if k % 2:
                which = draw.randrange(2)
                sources = list(documents)
                file.write_bytes(damaged(texts[which], draw))
                sources[which] = file
            try:
                read_kubernetes(*sources, **options)
                outcomes["an instance"] += 1
            except FairoptError as error:
                if len(str(error)) > 2000:
                    raise AssertionError(f"a message of {len(str(error))} characters") from error
                outcomes["refused"] += 1
            except BaseException:
                print(f"input {k} of seed {seed}: {options} {sources if not k % 2 else file.read_bytes()!r}")
                raise
    return outcomes


if __name__ == "__main__":
    start = time.perf_counter()
    print(
        dict(run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)),
        f"{time.perf_counter() - start:.0f} s",
    )
