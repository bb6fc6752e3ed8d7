"""Cases of deployed schedulers, restated: their numbers, and the answers that they state where ours are the same.

A queue, pool, framework or account that has one kind of task is a user, and one with several is a team.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from entries import Entry, code

import fairopt as fo

VOLCANO = ("volcano-sh/volcano", "5a81a27989035a324eed6ece5bf9e1eb92a55262", "pkg/scheduler/plugins/drf/hdrf_test.go")
KEP = ("kubernetes-sigs/kueue", "0e11c870333f6537ebb371941040b254ac14fb92", "keps/1714-fair-sharing/README.md")
KUEUE = (
    "kubernetes-sigs/kueue",
    "02c5bf469a7ccb42f009d4bea7e5866a16b98f9b",
    "pkg/cache/scheduler/fair_sharing_test.go",
)
KAI = (
    "kai-scheduler/KAI-Scheduler",
    "27a76bdc00d9be1786cdda315f2261c193fca5c4",
    "pkg/scheduler/plugins/proportion/resource_division/resource_division_test.go",
)
YARN = (
    "apache/hadoop",
    "0f809af6692f538a82506a41f746b9af68072c53",
    "hadoop-yarn-project/hadoop-yarn/hadoop-yarn-server/hadoop-yarn-server-resourcemanager/src/test/java/org/apache/"
    "hadoop/yarn/server/resourcemanager/scheduler/fair/TestComputeFairShares.java",
)
MESOS = ("apache/mesos", "02c00e2cb08362a86fb378e7ef7aeb1229a80ac1", "src/tests/sorter_tests.cpp")
GAVEL = ("stanford-futuredata/gavel", "0194a78facb7c9a82e1b9d368a21c1a3382f1230", "scheduler/tests/policies_tests.py")
SLURM = ("SchedMD/slurm", "0a0e371e0a6146aa310a3a23d1a710586e5fb806", "doc/html/classic_fair_share.shtml")
SPARK = (
    "apache/spark",
    "001b2340859c02be845598869bacc7e96ac34d2f",
    "core/src/test/scala/org/apache/spark/scheduler/PoolSuite.scala",
)


def entries() -> Iterator[Entry]:
    """The cases, by scheduler."""
    yield from volcano()
    yield from kueue()
    yield from kai()
    yield from yarn()
    yield from mesos()
    yield from gavel()
    yield from others()


def volcano() -> Iterator[Entry]:
    """Volcano's hierarchical DRF."""
    yield Entry(
        "volcano-hdrf-rescaling",
        "Two queues below eng, for CPU alone and memory alone, beside a queue for both",
        code(*VOLCANO, "TestHDRF, rescaling test"),
        ("deployed", "volcano"),
        fo.Instance(
            [[1, 1], [1, 0], [0, 1]],
            [10, 10],
            users=["pg1", "pg21", "pg22"],
            resources=["cpu", "memory"],
            task_limits=10,
            teams={"queue": [None, "eng", "eng"]},
        ),
        expected={"hdrf": (5, 5, 5)},
    )
    yield Entry(
        "volcano-hdrf-blocking",
        "Four queues of CPU or memory, one with a child of each kind",
        code(*VOLCANO, "TestHDRF, blocking nodes test"),
        ("deployed", "volcano"),
        fo.Instance(
            [[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]],
            [30, 30],
            users=["pg1", "pg2", "pg31", "pg32", "pg4"],
            resources=["cpu", "memory"],
            task_limits=30,
            teams={"queue": [None, None, "pg3", "pg3", None]},
        ),
        expected={"hdrf": (10, 10, 10, 15, 15)},
    )


def kueue() -> Iterator[Entry]:
    """Kueue's fair sharing."""
    yield Entry(
        "kueue-kep-1714-story-3",
        "300 GPUs lent to two cohorts, in one of which a queue counts three times",
        code(*KEP, "Story 3"),
        ("deployed", "kueue"),
        fo.Instance(
            [[1]] * 4,
            [300],
            users=["1A", "1B", "1C", "2A"],
            resources=["gpu"],
            weights=[1, 1, 3, 1],
            teams={"cohort": ["C1", "C1", "C1", "C2"]},
        ),
        expected={"hdrf": (30, 30, 90, 150)},
    )
    for name, title, demand in (
        ("above-nominal", "A queue that borrows GPUs from a cohort's other queue", [3, 7]),
        ("one-resource", "A queue that borrows CPUs only", [3, 3]),
    ):
        yield Entry(
            f"kueue-{name}",
            title + "; nominal quotas are guarantees",
            code(*KUEUE, f"TestDominantResourceShare, {'usage' if demand[1] == 7 else 'one resource'} above nominal"),
            ("deployed", "kueue"),
            fo.Instance(
                [demand, [1, 1]],
                [10, 10],
                users=["cq/job", "lending-cq/job"],
                resources=["cpu", "gpu"],
                teams={"queue": ["cq", "lending-cq"]},
                guarantees={"cq": {"cpu": 2, "gpu": 5}, "lending-cq": {"cpu": 8, "gpu": 5}},
            ),
        )
    yield Entry(
        "kueue-flavors",
        "A queue on two flavors of nodes, and one that lends a third",
        code(*KUEUE, "TestDominantResourceShare, multiple flavors"),
        ("deployed", "kueue"),
        fo.Instance(
            [[1], [1]],
            [[20], [80], [100]],
            users=["cq", "lending-cq"],
            servers=["on-demand", "spot", "default"],
            resources=["cpu"],
            eligible=[[True, True, False], [False, False, True]],
        ),
    )


def kai() -> Iterator[Entry]:
    """KAI divides what is above deserved quotas by weight."""

    def two(total: float, weights: Any = 2, requests: Any = 6) -> fo.Instance:
        return fo.Instance(
            [[1], [1]],
            [total],
            users=["queue-1", "queue-2"],
            resources=["gpu"],
            weights=weights,
            task_limits=requests,
            guarantees=2,
        )

    cases: list[tuple[str, str, str, fo.Instance, tuple[Any, ...] | None]] = [
        ("plenty", "more GPUs than are requested", "allocates many available gpus", two(15), (6, 6)),
        ("exact", "as many GPUs as are requested", "allocates exact requested amount gpus", two(12), (6, 6)),
        ("proportional", "weights 1 and 3 above quota", "allocates GPUs proportionally", two(8, [1, 3]), (3, 5)),
        ("maximum", "a maximum of 5", "doesn't allocate more than allowed", two(12, 2, [5, 6]), (5, 6)),
        (
            "remainder",
            "a remainder that KAI rounds to whole GPUs, 3 and 8",
            "distributes remainder between queues based on largest remaining",
            two(11, [1, 4], 10),
            ("17/5", "38/5"),
        ),
        (
            "tie",
            "an odd GPU that KAI gives to the older queue",
            "distributes remainder between queues based on creation time",
            two(11),
            ("11/2", "11/2"),
        ),
    ]
    for name, title, where, instance, tasks in cases:
        yield Entry(
            f"kai-{name}",
            f"Two queues that deserve 2 GPUs each: {title}",
            code(*KAI, f"two queues, {where}"),
            ("deployed", "kai"),
            instance,
            expected={"surplus": tasks} if tasks else {},
        )

    def three(total: float, requests: Any) -> fo.Instance:
        return fo.Instance(
            [[1]] * 3,
            [total],
            users=["queue-1", "queue-2", "queue-3"],
            resources=["millicpu"],
            weights=5000,
            task_limits=requests,
            guarantees=5000,
        )

    yield Entry(
        "kai-cpu-reclaimed",
        "Three queues that deserve 5000 each of 10000; one takes what the others do not request",
        code(*KAI, "three queues, reclaims unneeded resources from an allocated queue"),
        ("deployed", "kai"),
        three(10_000, [7000, 2000, 2000]),
        expected={"surplus": (6000, 2000, 2000)},
    )
    yield Entry(
        "kai-cpu-oversubscribed",
        "Deserved quotas that do not fit: KAI grants 15000 of 10000, which is infeasible as guarantees",
        code(*KAI, "three queues, all queues get their deserved fairShare - over subscription"),
        ("deployed", "kai", "infeasible"),
        three(10_000, 5000),
    )
    yield Entry(
        "kai-cpu-over-quota",
        "Three queues that each get 1000 above what they deserve",
        code(*KAI, "three queues, all queues get their deserved fairShare - over quota"),
        ("deployed", "kai"),
        three(18_000, 6000),
        expected={"surplus": (6000, 6000, 6000)},
    )


def yarn() -> Iterator[Entry]:
    """The fair shares of YARN's Fair Scheduler."""

    def pools(total: float, resource: str = "memory", **given: Any) -> fo.Instance:
        return fo.Instance(
            [[1]] * 4, [total], users=["pool 1", "pool 2", "pool 3", "pool 4"], resources=[resource], **given
        )

    million = 1_000_000
    cases = [
        ("equal", "testEqualSharing", pools(40), (10, 10, 10, 10)),
        ("maxima", "testLowMaxShares", pools(40, task_limits=[100, 50, 11, 3]), (13, 13, 11, 3)),
        ("minima", "testMinShares", pools(40, guarantees=[20, 18, 0, 2]), (20, 18, 0, 2)),
        ("weights", "testWeightedSharing", pools(45, weights=[2, 1, 1, 0.5]), (20, 10, 10, 5)),
        (
            "weights-maxima",
            "testWeightedSharingWithMaxShares",
            pools(45, weights=[2, 1, 1, 0.5], task_limits=[10, 11, 30, 20]),
            (10, 11, 16, 8),
        ),
        (
            "weights-minima",
            "testWeightedSharingWithMinShares",
            pools(45, weights=[2, 1, 1, 0.5], guarantees=[20, 0, 5, 15]),
            (20, 5, 5, 15),
        ),
        ("large", "testLargeShares", pools(40 * million), (10 * million,) * 4),
        ("cpu", "testCPU", pools(45, "vcores", weights=[2, 1, 1, 0.5], guarantees=[20, 0, 5, 15]), (20, 5, 5, 15)),
    ]
    for name, where, instance, tasks in cases:
        yield Entry(
            f"yarn-{name}",
            f"Four pools of the Fair Scheduler ({name.replace('-', ' and ')})",
            code(*YARN, where),
            ("deployed", "yarn"),
            instance,
            expected={"drf": tasks},
            # minima that fill everything leave nothing to pool 3, and a surplus to nobody
            without=("nash", "alpha-2", "surplus") if name == "minima" else (),
        )


def mesos() -> Iterator[Entry]:
    """Frameworks of Mesos' DRF sorter, each of which wants more of what it holds."""
    two, three = ["cpu", "memory"], ["cpu", "memory", "disk"]
    cases: list[tuple[str, str, str, dict[str, list[float]], Any, Any, list[str]]] = [
        (
            "four",
            "Four frameworks",
            "DRFSorter, shares .05, .06, .01, .03",
            {"a": [5, 5], "b": [6, 6], "c": [1, 1], "d": [3, 1]},
            [100, 100],
            1,
            two,
        ),
        (
            "fewer-cpus",
            "Four frameworks after half of the CPUs have gone",
            "DRFSorter, shares .04, .02, .06, .05",
            {"b": [2, 2], "c": [1, 1], "d": [3, 1], "e": [1, 5]},
            [50, 100],
            1,
            two,
        ),
        (
            "more-memory",
            "Five frameworks after memory has come",
            "DRFSorter, shares .04, .08, .06, .025, .1",
            {"b": [2, 2], "c": [1, 16], "d": [3, 1], "e": [1, 5], "f": [5, 1]},
            [50, 200],
            1,
            two,
        ),
        (
            "weights",
            "Four frameworks of weights 1, 2, 1 and 10",
            "WDRFSorter, shares .05, .03, .04, .02",
            {"a": [5, 5], "b": [6, 6], "c": [4, 4], "d": [10, 20]},
            [100, 100],
            [1, 2, 1, 10],
            two,
        ),
        (
            "small-weight",
            "Three frameworks, one with a weight of a tenth",
            "WDRFSorter, shares .04, .045, .1",
            {"c": [4, 4], "d": [20, 45], "e": [1, 1]},
            [100, 100],
            [1, 10, 0.1],
            two,
        ),
        (
            "disk",
            "Two frameworks that differ in disk only",
            "SplitResourceShares",
            {"a": [9, 9, 9], "b": [9, 9, 10]},
            [100, 100, 105],
            1,
            three,
        ),
        ("before", "Two frameworks on 10 CPUs", "UpdateTotal", {"a": [2, 1], "b": [1, 2]}, [10, 100], 1, two),
        ("after", "The same on 100 CPUs", "UpdateTotal", {"a": [2, 1], "b": [1, 2]}, [100, 10], 1, two),
        (
            "two-agents",
            "Two frameworks on two agents",
            "MultipleSlavesUpdateTotal",
            {"a": [2, 1], "b": [1, 3]},
            [[95, 50], [5, 50]],
            1,
            two,
        ),
    ]
    for name, title, where, users, capacities, weights, resources in cases:
        yield Entry(
            f"mesos-{name}",
            title,
            code(*MESOS, f"SorterTest, {where}"),
            ("deployed", "mesos"),
            fo.Instance(list(users.values()), capacities, users=list(users), resources=resources, weights=weights),
        )


def gavel() -> Iterator[Entry]:
    """Jobs of Gavel, whose speed differs by GPU; a task is all of a job's time."""
    for name, counts in (("many", [1, 2, 3]), ("few", [1, 1, 1])):
        yield Entry(
            f"gavel-{name}",
            f"Two jobs on {', '.join(map(str, counts))} GPUs of three kinds",
            code(*GAVEL, "test_max_min_fairness" if name == "many" else "test_throughput_sum"),
            ("deployed", "gavel"),
            fo.Instance(
                [[1], [1]],
                [[1], [1], [1]],
                counts=counts,
                servers=["v100", "p100", "k80"],
                resources=["gpu"],
                rates=[[2, 1, 0.5], [3, 2, 1]],
                task_limits=1,
            ),
        )


def others() -> Iterator[Entry]:
    """Slurm's accounts, and Spark's pools."""
    yield Entry(
        "slurm-shares",
        "Accounts A and D with 40 and 60 shares, their accounts B, C, E and F, and five users",
        code(*SLURM, "Example"),
        ("deployed", "slurm"),
        fo.Instance(
            [[1]] * 5,
            [100],
            resources=["cpu"],
            teams={"parent": ["A", "A", "A", "D", "D"], "account": ["B", "C", "C", "E", "F"]},
            weights={"A": 40, "D": 60, "B": 30, "C": 10, "E": 25, "F": 35},
        ),
        expected={"hdrf": (30, 5, 5, 25, 35)},
    )
    yield Entry(
        "spark-pools",
        "Two pools with minimum shares of 2 and 3, six of whose tasks run",
        code(*SPARK, "Fair Scheduler Test"),
        ("deployed", "spark"),
        fo.Instance([[1], [1]], [6], users=["pool 1", "pool 2"], resources=["core"], guarantees=[2, 3], task_limits=4),
        expected={"drf": (3, 3)},
    )
    yield Entry(
        "spark-nested-pools",
        "Pools within pools, with weights of 2 and 1, on 12 cores of ours and without minimum shares",
        code(*SPARK, "Nested Pool Test"),
        ("deployed", "spark"),
        fo.Instance(
            [[1]] * 8,
            [12],
            resources=["core"],
            task_limits=5,
            teams={
                "pool": ["0", "0", "0", "0", "1", "1", "1", "1"],
                "child": ["00", "00", "01", "01", "10", "10", "11", "11"],
            },
            weights={"00": 2, "10": 2},
        ),
    )
