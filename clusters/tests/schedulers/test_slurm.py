"""Slurm's factors, by the tree of its own test, and what shares give."""

import pytest
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers import Slurm


def account(name: str, parent: str = "", shares: float = 1, used: float = 0) -> Queue:
    return Queue(name, parent, shares, used={"billing": used})


def test_the_factors_of_test_24_1() -> None:
    queues = (
        account("A", shares=40), account("B", "A", 30), account("1", "B", used=20), account("C", "A", 10),
        account("2", "C", used=25), account("3", "C"), account("D", shares=60), account("E", "D", 25),
        account("4", "E", used=25), account("F", "D", 35), account("5", "F"), account("G", shares=0),
        account("6", "G", 0, 30),
    )  # fmt: skip
    table = Slurm().factors(QueueTree("Slurm", queues, {"billing": 1}))
    assert table["effective_usage"][["A", "C", "3", "E"]].tolist() == pytest.approx([0.45, 0.3, 0.15, 0.25])
    assert table["fairshare"][["A", "C", "3", "E", "G"]].tolist() == pytest.approx(
        [0.458502, 0.125, 0.125, 0.5, 0], abs=5e-7
    )


def test_classic_factor_and_level_fs() -> None:
    queues = account("a", shares=1, used=0.184524), account("b", shares=4, used=1 - 0.184524)
    table = Slurm().factors(QueueTree("Slurm", queues, {"billing": 1}))
    assert table.loc["a", "fairshare"] == pytest.approx(0.527550, abs=5e-7)
    assert table.loc["a", "level_fs"] == pytest.approx(0.2 / 0.184524)


def test_shares_level_by_level() -> None:
    queues = account("x", shares=3), account("y", "x", 1), account("z", "x", 2), Queue("w", request={"cpu": 10})
    table = Slurm().divide(QueueTree("Slurm", queues, {"cpu": 100}))["cpu"]
    assert table.tolist() == pytest.approx([90, 30, 60, 10])
