"""Kueue, YuniKorn and Volcano: small cases by hand, and dense steps in place of closed forms."""

import random

import numpy as np
import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers import Kueue, Slurm, Volcano, YuniKorn
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.cohorts import nodes_of
from fairopt_clusters.schedulers.replay import admissions
from fairopt_clusters.schedulers.yunikorn import fair_share
from hdrf_oracle import started

import fairopt as fo


@pytest.mark.parametrize(("weight", "share"), [(1.0, 200), (0.5, 400), (0.0, np.inf)])
def test_the_dominant_share_of_kueue(weight: float, share: float) -> None:
    mine = Queue("mine", "all", weight, guarantee={"cpu": 2, "gpu": 5}, used={"cpu": 3, "gpu": 7})
    lender = Queue("lender", "all", guarantee={"cpu": 8, "gpu": 5})
    table = Kueue().shares(QueueTree("Kueue", (Queue("all"), mine, lender)))
    assert table.loc["mine", "share"] == share and table.loc["mine", "resource"] == "gpu"


def test_lending_and_borrowing_limits() -> None:
    a = Queue("a", "all", guarantee={"cpu": 10}, lending={"cpu": 4}, request={"cpu": 0})
    b = Queue("b", "all", guarantee={"cpu": 5}, borrowing={"cpu": 3})
    c = Queue("c", "all", guarantee={"cpu": 0})
    table = Kueue().divide(QueueTree("Kueue", (Queue("all"), a, b, c)))["cpu"]
    assert table.to_dict() == {"all": 9, "a": 0, "b": 7, "c": 2}  # 4 are lent: 2 each
    assert Kueue().divide(QueueTree("Kueue", (Queue("all"), a, b)))["cpu"]["b"] == 8  # not 9


def test_the_division_of_kueue_is_where_small_workloads_end() -> None:
    """Admission of workloads of 0.05 one after the other, the least share first."""
    tree = QueueTree(
        "Kueue",
        (
            Queue("root", guarantee={"cpu": 8}),
            Queue("left", "root", 2.0),
            Queue("a", "left", 1.0, guarantee={"cpu": 2}, lending={"cpu": 1}),
            Queue("b", "left", 3.0, guarantee={"cpu": 1}),
            Queue("c", "root", 1.0, guarantee={"cpu": 3}, borrowing={"cpu": 1.5}),
            Queue("d", "root", 0.5, guarantee={"cpu": 0}),
        ),
    )
    nodes = nodes_of(tree)
    left, step = {"a", "b", "c", "d"}, {"cpu": 0.05}
    while left:
        name = next(admissions(nodes, {name: Workload(name, step) for name in left}))
        if nodes[name].available("cpu") >= 0.05 - 1e-9:
            nodes[name].add(step)
        else:
            left.discard(name)
    table = Kueue().divide(tree)["cpu"]
    assert [nodes[name].used["cpu"] for name in "abcd"] == pytest.approx([table[name] for name in "abcd"], abs=0.21)
    assert table["root"] == pytest.approx(14)


def test_use_bubbles_up_beyond_what_is_kept() -> None:
    queues = Queue("root"), Queue("a", "root", guarantee={"cpu": 5}, lending={"cpu": 2})
    nodes = nodes_of(QueueTree("Kueue", queues))
    nodes["a"].add({"cpu": 4})
    assert (nodes["root"].quota["cpu"], nodes["root"].used["cpu"], nodes["a"].available("cpu")) == (2, 1, 1)
    nodes["a"].add({"cpu": 2}, -1)
    assert (nodes["root"].used["cpu"], nodes["a"].available("cpu")) == (0, 3)


def test_rules_of_preemption() -> None:
    """4 of 8 are owed to each; b runs 7, and a wants 5, one more than it is owed."""
    tree = QueueTree("Kueue", (Queue("all"), *(Queue(name, "all", guarantee={"gpu": 4}) for name in "ab")))
    running = [("b", {"gpu": 7.0})]
    # a borrows 1 of 8 then, b none: the final rule forbids it, the initial one does not
    assert Kueue(["LessThanOrEqualToFinalShare"]).victims(tree, "a", {"gpu": 5}, running) == []
    assert Kueue(["LessThanInitialShare"]).victims(tree, "a", {"gpu": 5}, running) == [0]
    assert Kueue().victims(tree, "a", {"gpu": 5}, running) == [0]
    assert Kueue().victims(tree, "a", {"gpu": 1}, running) == []  # it fits


def test_what_can_stay_is_filled_back() -> None:
    tree = QueueTree("Kueue", (Queue("all"), *(Queue(name, "all", guarantee={"gpu": 6}) for name in "ab")))
    running = [("b", {"gpu": 5.0}), ("b", {"gpu": 2.0}), ("b", {"gpu": 5.0})]
    assert Kueue().victims(tree, "a", {"gpu": 5}, running) == [2]
    running = [("b", {"gpu": 5.0}), ("b", {"gpu": 5.0}), ("b", {"gpu": 2.0})]
    # the newest, 2, frees too little; with the next one it is not needed
    assert Kueue().victims(tree, "a", {"gpu": 5}, running) == [1]


def test_yunikorn_in_steps() -> None:
    """Units of 0.01 one after the other for the least fair share."""
    queues = (
        Queue("a", guarantee={"cpu": 6.0}, request={"cpu": 3.5}),
        Queue("b", guarantee={"cpu": 2.0}),
        Queue("c", limit={"cpu": 5.0}),
        Queue("d", guarantee={"cpu": 0.0, "memory": 1.0}, request={"cpu": 1.0}),
    )
    tree = QueueTree("YuniKorn", queues, {"cpu": 12.0, "memory": 1.0})
    used, most = dict.fromkeys("abcd", 0.0), {"a": 3.5, "b": 12.0, "c": 5.0, "d": 1.0}
    for _ in range(1200):
        open_ = [one for one in queues if used[one.name] < most[one.name] - 1e-9]
        share = {q.name: fair_share({"cpu": used[q.name] + 1e-9}, q.guarantee, {"cpu": 12.0, **q.limit}) for q in open_}
        used[min(share, key=lambda name: share[name])] += 0.01
    assert YuniKorn().divide(tree)["cpu"].tolist() == pytest.approx([used[name] for name in "abcd"], abs=0.02)


def in_steps(queues: list[Queue], cpus: int, by_priority: bool, step: float = 0.01) -> list[float]:
    """``sortQueuesByPriorityAndFairness`` or ``sortQueuesByFairnessAndPriority``, once for each unit.

    Each of the queues that are guaranteed nothing gets its first unit at the share 0.
    """
    used = {queue.name: 0.0 for queue in queues}

    def key(queue: Queue) -> tuple[float, float, float]:
        share = fair_share({"cpu": used[queue.name]}, queue.guarantee, {"cpu": cpus, **queue.limit})
        priority, waits = -(queue.priority or 0), used[queue.name] - (queue.request or {"cpu": 1e3})["cpu"]
        return (priority, round(share, 9), waits) if by_priority else (round(share, 9), priority, waits)

    def can(queue: Queue) -> bool:
        most = min((queue.request or {"cpu": 1e3})["cpu"], queue.limit.get("cpu", 1e3))
        return used[queue.name] < most - step / 2

    for _ in range(round(cpus / step)):
        if waiting := [queue for queue in queues if can(queue)]:
            used[min(waiting, key=key).name] += step
    return [*used.values()]


@pytest.mark.parametrize("by_priority", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_queues_guaranteed_nothing_are_served_by_what_they_wait_for_in_yunikorn(seed: int, by_priority: bool) -> None:
    rng = random.Random(seed)
    queues = [
        Queue(
            name,
            guarantee={"cpu": rng.choice([0, 0, 0, 1, 2]), "memory": 1},
            limit={"cpu": rng.randint(1, 4)} if rng.random() < 0.3 else {},
            request={"cpu": rng.randint(0, 7)} if rng.random() < 0.7 else None,
            priority=rng.choice([None, None, 1]),
        )
        for name in "abcd"
    ]
    cpus = rng.randint(1, 9)
    tree = QueueTree("YuniKorn", tuple(queues), {"cpu": cpus, "memory": 4})
    gets = YuniKorn(by_priority).divide(tree)["cpu"].tolist()
    assert gets == pytest.approx(in_steps(queues, cpus, by_priority), abs=0.041)  # a unit of each


def test_who_asks_for_more_gets_more_where_yunikorn_guarantees_nothing_of_a_resource() -> None:
    def gets(cpus: float) -> list[float]:
        owed = {"cpu": 0.0, "memory": 1.0}
        queues = Queue("a", guarantee=owed, request={"cpu": 1.0}), Queue("b", guarantee=owed, request={"cpu": cpus})
        return YuniKorn().divide(QueueTree("YuniKorn", queues, {"cpu": 1, "memory": 2}))["cpu"].tolist()

    assert gets(1) == [0.5, 0.5] and gets(2) == [0, 1]


def test_guarantees_and_maxima_of_0_are_none_in_yunikorn() -> None:
    """``setResources``: they are set only if one of them is above 0."""
    queues = Queue("a", guarantee={"cpu": 0}), Queue("b", limit={"cpu": 0}), Queue("c")
    assert YuniKorn().divide(QueueTree("YuniKorn", queues, {"cpu": 3}))["cpu"].tolist() == pytest.approx([1, 1, 1])


def test_queues_that_none_is_before_keep_their_order_in_yunikorn() -> None:
    """Of 30 pairs one queue waits for more CPU, the other one for more memory; all share nothing yet."""
    queues = [
        Queue(f"{name}{k}", request={"cpu": c, "memory": 3 - c}) for k in range(30) for name, c in (("a", 1), ("b", 2))
    ]
    tree = QueueTree("YuniKorn", tuple(queues), {"cpu": 9, "memory": 9})
    assert YuniKorn().order(tree) == [queue.name for queue in queues]


def test_priority_comes_first_in_yunikorn() -> None:
    tree = QueueTree("YuniKorn", (Queue("a"), Queue("b", priority=1, request={"cpu": 3})), {"cpu": 4})
    assert YuniKorn().divide(tree)["cpu"].tolist() == [1, 3]
    assert YuniKorn(by_priority=False).divide(tree)["cpu"].tolist() == [2, 2]


@pytest.mark.parametrize("one", [YuniKorn(), Volcano("capacity"), Slurm()], ids=lambda one: one.name)
def test_what_queues_below_may_not_use_goes_to_others(one: Deployed) -> None:
    """b may use 1 of the 4 that its queue could have."""
    owed = {"cpu": 4} if one == Volcano("capacity") else {}
    queues = Queue("a", guarantee=owed), Queue("b", "a", guarantee={}, limit={"cpu": 1}), Queue("c", guarantee=owed)
    assert one.divide(QueueTree(one.scheduler, queues, {"cpu": 8}))["cpu"].tolist() == [1, 1, 7]


def test_volcano_keeps_what_is_reserved() -> None:
    queues = Queue("a", reserved={"cpu": 4}, request={"cpu": 1}), Queue("b", weight=3, request={"cpu": 9})
    assert Volcano().divide(QueueTree("Volcano", queues, {"cpu": 10}))["cpu"].tolist() == [4, 6]


def test_volcano_capacity_serves_by_use_over_what_is_deserved() -> None:
    queues = Queue("a", guarantee={"cpu": 6}), Queue("b", guarantee={"cpu": 2}), Queue("c", request={"cpu": 1})
    tree = QueueTree("Volcano", queues, {"cpu": 17})
    assert Volcano("capacity").divide(tree)["cpu"].tolist() == [12, 4, 1]


def test_blocking_nodes_of_volcano() -> None:
    """The second case of its test of hierarchical DRF, with the queues that its list of queues names."""
    cpu, memory = {"cpu": 30.0, "memory": 0.0}, {"cpu": 0.0, "memory": 30.0}
    queues = (
        Queue("1", weight=25, request=cpu), Queue("2", weight=25, request=cpu), Queue("3", weight=25),
        Queue("31", "3", 50, request=cpu), Queue("32", "3", 50, request=memory), Queue("4", weight=25, request=memory),
    )  # fmt: skip
    table = Volcano("hdrf", 30).divide(QueueTree("Volcano", queues, {"cpu": 30, "memory": 30}))
    assert table["cpu"].tolist() == [10, 10, 10, 10, 0, 0]
    assert table["memory"].tolist() == [0, 0, 15, 0, 15, 15]


@pytest.mark.parametrize("seed", range(60))
def test_hdrf_starts_the_tasks_that_it_starts_in_fractions(seed: int) -> None:
    """Random trees, with ties: weights of 0, jobs that ask for nothing, resources that run out."""
    rng = random.Random(seed)
    names, parents = ["cpu", "memory", "gpu"][: rng.randint(1, 3)], [""]
    parents += ["" if rng.random() < 0.3 else f"q{rng.randrange(j)}" for j in range(1, rng.randint(2, 14))]
    number = rng.randint if seed % 2 else rng.uniform
    queues = [
        Queue(f"q{j}", parent, number(0, 5), request={name: number(0, 9) * (rng.random() < 0.8) for name in names})
        for j, parent in enumerate(parents)
    ]
    rng.shuffle(queues)
    tree = QueueTree("Volcano", tuple(queues), {name: number(1, 40) for name in names})
    tasks = rng.choice([1, 3, 7, 30])
    table = Volcano("hdrf", tasks).divide(tree)
    for name, number_of in started(tree, tasks).items():
        parts = [(tree.by_name[name].request or {})[one] * number_of / tasks for one in names]
        assert table.loc[name].tolist() == pytest.approx(parts)


def test_volcano_capacity_serves_queues_that_deserve_nothing_in_turn() -> None:
    tree = QueueTree("Volcano", (Queue("a", request={"cpu": 3}), Queue("b"), Queue("c")), {"cpu": 4})
    assert Volcano("capacity").divide(tree)["cpu"].tolist() == [3, 1, 0]


@pytest.mark.parametrize("one", [YuniKorn(), Kueue(), Volcano()], ids=lambda one: one.name)
def test_equal_users_get_equal_tasks(one: Deployed) -> None:
    answer = one.allocate(fo.Instance([[1, 2], [1, 2]], [4, 10], resources=["cpu", "memory"]))
    assert answer.tasks.tolist() == [2, 2]


@pytest.mark.parametrize("one", [YuniKorn(), Kueue(), Volcano(), Volcano("capacity")], ids=lambda one: one.name)
def test_random_teams_fit(one: Deployed) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        n = int(rng.integers(2, 8))
        pool = fo.Instance(
            rng.integers(0, 4, (n, 2)) + np.array([1, 0]), rng.integers(5, 20, 2), task_limits=rng.integers(1, 9, n),
            teams={"team": [f"team {t}" for t in rng.integers(0, 3, n)]},
        )  # fmt: skip
        answer = one.allocate(pool)
        assert answer.certificate.violation <= 1e-12 and (answer.tasks >= 0).all()


def test_kueue_exceeds_nothing_and_leaves_nothing_that_somebody_could_have() -> None:
    """Random trees of cohorts, by the arithmetic of what a queue could still use."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        cohorts = [Queue("all", guarantee={"g": float(rng.integers(1, 6))})]
        cohorts += [Queue("in", "all", float(rng.integers(0, 3)), {"g": float(rng.integers(0, 4))}, request={})]
        queues = [
            Queue(
                f"q{j}", str(rng.choice(["all", "in"])), float(rng.choice([0, 1, 3])), {"g": float(rng.integers(0, 6))},
                request={"g": float(rng.integers(0, 13))},
                lending={"g": float(rng.integers(0, 4))} if rng.random() < 0.4 else {},
                borrowing={"g": float(rng.integers(0, 4))} if rng.random() < 0.4 else {},
            )
            for j in range(int(rng.integers(1, 7)))
        ]  # fmt: skip
        tree = QueueTree("Kueue", (*cohorts, *queues))
        given, nodes = Kueue().divide(tree)["g"], nodes_of(tree)
        for one in queues:
            nodes[one.name].add({"g": given[one.name]})
        assert all(node.available("g") >= -1e-9 for node in nodes.values())
        for one in queues:
            assert one.request is not None
            assert min(one.request["g"] - given[one.name], nodes[one.name].available("g")) <= 1e-9, (tree, one.name)
