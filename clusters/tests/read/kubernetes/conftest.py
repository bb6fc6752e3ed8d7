"""The cluster of the tests, made up by `kube_cluster`, read back from files as `kubectl` would write them."""

import json
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:  # so that `kube_cluster` and `kube_oracle` can be imported
    sys.path.insert(0, HERE)

import kube_cluster  # noqa: E402


@pytest.fixture(scope="session")
def documents():
    """Nodes and pods as parsed JSON; not to be changed."""
    return kube_cluster.cluster()


@pytest.fixture(scope="session")
def files(documents, tmp_path_factory):
    """The same as two files."""
    folder = tmp_path_factory.mktemp("cluster")
    for name, document in zip(("nodes", "pods"), documents, strict=True):
        (folder / f"{name}.json").write_text(json.dumps(document, indent=4), encoding="utf-8")
    return folder / "nodes.json", folder / "pods.json"
