"""Trees that no scheduler has: clear errors."""

import math
from typing import Any

import fairopt_clusters as fc
import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import KAI, Kueue, Slurm, Volcano, YuniKorn
from fairopt_clusters.schedulers.base import Deployed

from fairopt.errors import InvalidBlock, InvalidInstance

ALL = (KAI(), Kueue(), YuniKorn(), Volcano(), Volcano("capacity"), Volcano("hdrf"), Slurm())


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_of_another_scheduler(one: Deployed) -> None:
    with pytest.raises(InvalidInstance, match=f"are of YARN; give queues of {one.scheduler}"):
        one.divide(QueueTree("YARN", (Queue("a"),), {"cpu": 1}))
    with pytest.raises(InvalidInstance, match="tree is a dict; give a QueueTree"):
        one.divide({})  # type: ignore[arg-type]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "wrong", [{"weight": -1.0}, {"weight": math.nan}, {"weights": {"cpu": -1}}, {"used": {"cpu": -2}}]
)
def test_negative_numbers(one: Deployed, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInstance, match=r"'a' is .*; give a number >= 0"):
        one.divide(QueueTree(one.scheduler, (Queue("a", guarantee={"cpu": 1}, **wrong),), {"cpu": 1}))


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_no_capacity(one: Deployed) -> None:
    with pytest.raises(InvalidInstance, match="no capacity"):
        one.divide(QueueTree(one.scheduler, (Queue("a"),)))


def test_a_circle_of_parents_and_two_cohorts() -> None:
    with pytest.raises(InvalidInstance, match="circle of parents, a -> b -> a"):
        QueueTree("Kueue", (Queue("a", "b"), Queue("b", "a")))
    with pytest.raises(InvalidInstance, match="'q' is there twice"):
        QueueTree("Kueue", (Queue("a"), Queue("b"), Queue("q", "a"), Queue("q", "b")))


def test_parameters() -> None:
    for wrong in (lambda: KAI(-1), lambda: Kueue(["no such rule"]), lambda: Volcano("no"), lambda: Volcano("hdrf", 0)):
        with pytest.raises(InvalidBlock, match="give"):
            wrong()


def test_queues_that_are_not_there() -> None:
    tree = QueueTree("Kueue", (Queue("all"), Queue("a", "all", guarantee={"cpu": 1})))
    with pytest.raises(InvalidInstance, match="no queue 'b'"):
        fc.schedulers.Kueue().victims(tree, "b", {"cpu": 1}, [])
    with pytest.raises(InvalidInstance, match="'all' is a cohort"):
        fc.schedulers.Kueue().victims(tree, "a", {"cpu": 1}, [("all", {"cpu": 1})])


def test_a_threshold_that_is_no_number() -> None:
    notes = {"borrowWithinCohort": "LowerPriority", "maxPriorityThreshold": "high"}
    queues = [Queue(name, "all", guarantee={"cpu": 1}, notes=notes) for name in "ab"]
    tree, words = QueueTree("Kueue", (Queue("all"), *queues)), "maxPriorityThreshold of 'a' is 'high'; give a whole"
    with pytest.raises(InvalidInstance, match=words):
        fc.schedulers.Kueue(below_threshold=True).victims(tree, "a", {"cpu": 1}, [("b", {"cpu": 2})])
    with pytest.raises(InvalidInstance, match=words):
        fc.schedulers.manifest(tree)
