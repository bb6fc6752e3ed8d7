"""Synthetic clusters shaped like real ones, generated from a seed where they are large."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entries import Entry, script

import fairopt as fo

KUBERNETES = Path(__file__).parents[2] / "clusters" / "tests" / "read" / "kubernetes"  # has the made-up cluster


def entries() -> Iterator[Entry]:
    """The demo, and members of the families."""
    yield Entry(
        "cluster-demo",
        "The cluster of `fairopt demo`: ten users on 23 servers of four kinds",
        script("fo.datasets.demo()"),
        ("cluster",),
        fo.datasets.demo(),
    )
    yield Entry(
        "cluster-namespaces",
        "Seven namespaces of Kubernetes on 40 servers, as fairopt-clusters reads them",
        script("clusters/tests/read/kubernetes/kube_cluster.py, read with users='namespace', tasks='mean'"),
        ("cluster",),
        namespaces(),
    )
    sizes: list[tuple[str, str, dict[str, Any]]] = [
        ("pool-20", "shared-pool", {"n_users": 20, "seed": 1}),
        ("pool-1000", "shared-pool", {"n_users": 1000, "seed": 1, "weights": True}),
        ("pool-5000", "shared-pool", {"n_users": 5_000, "seed": 1}),
        ("servers-10", "servers", {"n_users": 10, "n_servers": 4, "seed": 1}),
        ("servers-100", "servers", {"n_users": 100, "n_servers": 12, "seed": 1}),
        ("cpu-50", "cpu-cluster", {"n_users": 50, "seed": 1}),
        ("cpu-150", "cpu-cluster", {"n_users": 150, "seed": 1}),
        ("gpu-8", "gpu-cluster", {"n_users": 8, "nodes_per_model": 1, "seed": 1}),
        ("gpu-40", "gpu-cluster", {"n_users": 40, "nodes_per_model": 4, "seed": 1}),
        ("gpu-150", "gpu-cluster", {"n_users": 150, "nodes_per_model": 16, "seed": 1}),
        ("teams-12", "teams", {"n_users": 12, "n_teams": 4, "seed": 1}),
        ("teams-300", "teams", {"n_users": 300, "seed": 1}),
        ("rates-6", "rates", {"n_users": 6, "seed": 1}),
        ("rates-60", "rates", {"n_users": 60, "seed": 1}),
        ("ties-1000", "ties", {"n_users": 1000, "seed": 1}),
        ("near-ties-100", "near-ties", {"n_users": 100, "seed": 1}),
        ("spread-50", "spread", {"n_users": 50, "seed": 1}),
        ("chain-30", "chain", {"n_users": 30, "seed": 1}),
    ]
    for name, family, parameters in sizes:
        words = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
        yield Entry(
            f"cluster-{name}",
            f"{parameters['n_users']:,} users of the family {family}",
            script(f"fo.datasets.library().family({family!r}, {words})"),
            ("cluster", "generated", family),
            {"name": family, **parameters},
        )


def namespaces() -> fo.Instance:
    """The cluster that the tests of the reader of Kubernetes make up, without what runs: its pods name no server."""
    sys.path.append(str(KUBERNETES))
    import kube_cluster

    with tempfile.TemporaryDirectory() as folder:
        for name, document in zip(("nodes", "pods"), kube_cluster.cluster(), strict=True):
            Path(folder, f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        return fo.read(folder, users="namespace", tasks="mean").replace(held=None)
