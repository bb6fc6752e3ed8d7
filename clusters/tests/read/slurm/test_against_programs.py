"""The default answer for Slurm clusters with types, slices and partitions, beside linear programs of the drawn ones."""

import sys
from pathlib import Path

import pytest
from slurm_cluster import drawn, share_of_task

sys.path.append(str(Path(__file__).parents[4] / "benchmarks"))

from slurm import apart, over_limits, read, shared


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(1000, 1004))
def test_accounts_get_what_a_linear_program_of_servers_and_types_gives(seed, several):
    cluster = drawn(seed, 3 if several else 1)
    answer = shared(read(cluster), several)
    assert apart(answer, cluster) < 1e-6
    assert over_limits(answer, cluster) == []


def test_the_drawn_clusters_have_all_that_is_hard():
    """Slices, several whole types in a server, and requests that slices and whole GPUs both meet."""
    hard = {name for seed in range(1000, 1006) for several in (1, 3) for name in read(drawn(seed, several)).resources}
    assert {"gpu", "gpu:any", "gpu:1g.10gb"} <= hard and hard & {"gpu:a100", "gpu:h100", "gpu:t4"}


def test_the_program_counts_a_request_without_a_type_among_all_that_it_may_be_given():
    cluster = drawn(1000)
    cluster.servers = cluster.servers[:1]
    cluster.servers[0].gpus = {"a100": 2, "1g.10gb": 14}
    kind = cluster.kinds[0]
    kind.gpus, kind.type, kind.partition, kind.cpus, kind.memory = 1, "", "p0", 0, 0
    assert share_of_task(kind, cluster) == 1 / 16
    kind.type = "1g.10gb"
    assert share_of_task(kind, cluster) == 1 / 14
