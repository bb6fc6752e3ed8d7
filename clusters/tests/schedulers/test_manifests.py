"""Trees of queues as files of their schedulers, read back by fairopt's own readers."""

import re
from dataclasses import replace
from pathlib import Path

import fairopt_clusters as fc
import numpy as np
import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import KAI, Kueue, Slurm, Volcano, YuniKorn, manifest
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.draws import drawn

import fairopt as fo

ALL = (KAI(), Kueue(), YuniKorn(), Volcano(), Volcano("capacity"), Volcano("hdrf"), Slurm())


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_file_divides_as_its_tree(one: Deployed, tmp_path: Path) -> None:
    rng, file = np.random.default_rng(4), tmp_path / "queues.yaml"
    for _ in range(60):
        tree = drawn(rng, one, ("priority",) if one.scheduler == "YuniKorn" else ()).tree
        file.write_text(manifest(tree, annotations=one == Volcano("hdrf")))
        read = fc.read_queues(file)
        names = {re.split("[./]", queue.name)[-1]: queue for queue in read.queues}
        assert names.keys() == tree.by_name.keys()
        asks = {queue.name: queue.request for queue in tree.queues}
        of_tree = [names[queue.name] for queue in tree.queues]  # files of levels are in the order of the levels
        queues = tuple(replace(queue, request=asks[name]) for queue, name in zip(of_tree, asks, strict=True))
        again = one.divide(replace(read, queues=queues, capacity=tree.capacity))
        expected = one.divide(tree)
        assert again[expected.columns].to_numpy() == pytest.approx(expected.to_numpy(), abs=1e-6), tree


def test_of_another_scheduler() -> None:
    with pytest.raises(fo.errors.InvalidInstance, match="no file for queues of YARN; known: KAI"):
        manifest(QueueTree("YARN", (Queue("a"),)))


def test_what_a_file_cannot_say_is_in_comments() -> None:
    text = manifest(QueueTree("YuniKorn", (Queue("a", request={"cpu": 2}),), {"cpu": 3}))
    assert text.splitlines()[:2] == ["# 3 cpu to divide", "# a asks for 2 cpu"]
