"""KAI's division of queues, by hand and against the cases of its own tests."""

import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import KAI

import fairopt as fo


def gpus(total: float, **queues: tuple[float, float]) -> list[float]:
    """What queues of a weight and a request get of some GPUs."""
    made = [Queue(name, weight=weight, request={"gpu": request}) for name, (weight, request) in queues.items()]
    found: list[float] = KAI().divide(QueueTree("KAI", tuple(made), {"gpu": total}))["gpu"].tolist()
    return found


def test_one_gpu_for_two_queues_that_ask_for_less_goes_to_one() -> None:
    assert gpus(1, a=(1, 0.6), b=(1, 0.6)) == [1, 0]


@pytest.mark.parametrize(("total", "given"), [(4, [2, 1, 1]), (5, [3, 2, 0])])
def test_a_queue_gets_less_of_more(total: int, given: list[float]) -> None:
    assert gpus(total, a=(5, 9), b=(3, 9), c=(1, 9)) == given


def test_asking_for_less_gives_more() -> None:
    assert gpus(1, a=(2, 1), b=(1, 0.5)) == [1, 0]
    assert gpus(1, a=(2, 1), b=(1, 0.25))[1] == 0.25


def test_a_queue_that_is_split_gets_two_of_three() -> None:
    assert gpus(3, a=(1, 3), b=(1, 3)) == [2, 1]
    assert gpus(3, a=(1, 3), b1=(0.5, 3), b2=(0.5, 3)) == [1, 1, 1]


def test_what_is_deserved_may_be_more_than_there_is() -> None:
    queues = tuple(Queue(name, guarantee={"gpu": 2}) for name in "ab")
    assert KAI().divide(QueueTree("KAI", queues, {"gpu": 3}))["gpu"].tolist() == [2, 2]


def test_a_weight_of_zero_gets_nothing_over_quota() -> None:
    assert gpus(4, a=(0, 4), b=(1, 1)) == [0, 1]


def test_past_use_lowers_the_weight() -> None:
    queues = Queue("a", past={"gpu": 0.75}), Queue("b", past={"gpu": 0.25})
    tree = QueueTree("KAI", queues, {"gpu": 8})
    assert KAI().divide(tree)["gpu"].tolist() == [4, 4]
    assert KAI(k=1).divide(tree)["gpu"].tolist() == [2, 6]  # .5 + (.5 - .75), and .5 + (.5 - .25)


def test_cores_are_divided_in_thousandths() -> None:
    tree = QueueTree("KAI", tuple(map(Queue, "abc")), {"cpu": 1})
    assert KAI().divide(tree)["cpu"].round(9).tolist() == [0.334, 0.333, 0.333]


def test_an_unlimited_quota_is_all_there_is() -> None:
    queues = Queue("a", notes={"an unlimited quota of gpu": "-1"}, request={"gpu": 3}), Queue("b", request={"gpu": 3})
    assert KAI().divide(QueueTree("KAI", queues, {"gpu": 4}))["gpu"].tolist() == [3, 1]


def test_teams_are_queues_and_tasks_are_paid_for_in_order() -> None:
    pool = fo.Instance(
        [[1], [1], [1]], [4], resources=["gpu"], teams={"team": ["x", "x", "y"]}, task_limits=[1, None, None],
        weights={"x": 3, "y": 1},
    )  # fmt: skip
    answer = KAI().allocate(pool)
    assert answer.tasks.tolist() == [1, 2, 1]
    assert answer.certificate.violation == 0 and not answer.certificate.ok and "d5bc503a" in answer.certificate.note


def test_tasks_fit_where_more_is_deserved_than_there_is() -> None:
    pool = fo.Instance([[1], [1]], [3], resources=["gpu"], guarantees=[2, 1], task_limits=[2, 2])
    answer = KAI().allocate(pool)
    assert answer.tasks.tolist() == [2, 1] and answer.certificate.violation == 0


def test_several_servers_are_refused() -> None:
    with pytest.raises(fo.errors.OutOfDomain, match="pooled"):
        KAI().allocate(fo.Instance([[1]], [[1], [1]]))
