"""The table of methods: one of a user's own is asked first, judged by the gate, and followed by others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Proposals, Settings
from fairopt.solve.table import TABLE, Method, names, register

WORDS = "exact for Roots on one pool of one resource"
POOL = fo.Instance([[1.0], [2.0], [4.0]], [105.0])
RIGHT = [63.0, 15.0, 3.0]  # the slopes 0.5 (1 + x)**-0.5 are in proportion to the demands, and 63 + 2 15 + 4 3 = 105


@dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    """An objective of a user's own: the sum of roots of one more than the tasks."""

    def expression(self, model: fo.Model) -> cp.Expression:
        return cp.sum(cp.sqrt(1 + model.tasks))

    def by_user(self, instance: fo.Instance) -> fo.blocks.Marginal:
        return fo.blocks.Marginal(lambda x: 0.5 * (1 + x) ** -0.5, lambda x: -0.25 * (1 + x) ** -1.5)


def applies(program: Program, settings: Settings) -> bool:
    return isinstance(program.objective, Roots) and program.single and not program.rest


@contextmanager
def registered(tasks_times: float = 1.0, price_times: float = 1.0) -> Iterator[None]:
    """With the method by hand, whose tasks and price are ``times`` what is right, where nobody is left without."""

    def solve(program: Program, settings: Settings) -> Proposals:
        loads = program.pairs.loads[0]
        price = 0.5 * np.sqrt((1 / loads).sum() / (1 + loads.sum()))
        tasks = (0.5 / (price * loads)) ** 2 - 1
        yield Proposal("by hand", tasks_times * tasks, Prices(program, Dual(np.array([price_times * price]))))

    method = Method("by hand", WORDS, applies, solve)
    register(method)
    try:
        yield
    finally:
        TABLE.remove(method)


def test_a_method_of_ones_own_is_asked_first_and_certified() -> None:
    with registered():
        for method in ("auto", "by hand"):
            answer = fo.Policy(Roots()).allocate(POOL, method=method)
            assert answer.certificate.ok and answer.certificate.method == "by hand"
            np.testing.assert_allclose(answer.tasks, RIGHT, rtol=1e-12)
        assert fo.Policy(Roots()).allocate(POOL, method="cone").certificate.method == "cone"
    assert fo.Policy(Roots()).allocate(POOL).certificate.method != "by hand"


def test_its_answer_is_saved_and_read_again(tmp_path: Path) -> None:
    with registered():
        fo.Policy(Roots()).allocate(POOL).save(tmp_path / "roots.json")
    again = fo.Allocation.load(tmp_path / "roots.json", policy=fo.Policy(Roots()))
    assert again.certificate.ok and again.certificate.method == "by hand"


@pytest.mark.parametrize("wrong", [{"tasks_times": 0.9}, {"price_times": 1.1}])
def test_what_it_gets_wrong_is_not_certified(wrong: dict[str, float]) -> None:
    with registered(**wrong):
        answer = fo.Policy(Roots()).allocate(POOL)
        assert answer.certificate.ok and answer.certificate.method != "by hand"
        np.testing.assert_allclose(answer.tasks, RIGHT, rtol=1e-2)
        with pytest.raises(fo.errors.NotCertified, match="gap"):
            fo.Policy(Roots()).allocate(POOL, method="by hand")


def test_what_it_is_not_for_is_told_in_its_words() -> None:
    assert "by hand" not in names()
    with registered(), pytest.raises(fo.errors.OutOfDomain, match=f"by hand is {WORDS}"):
        fo.DRF().allocate(POOL, method="by hand")
    with pytest.raises(fo.errors.InvalidBlock, match="no method 'by hand'"):
        fo.Policy(Roots()).allocate(POOL, method="by hand")


def test_without_what_adds_speed_all_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairopt.solve.dispatch.TABLE", [method for method in TABLE if not method.only_speed])
    servers = fo.Instance([[2, 3], [2, 1]], [[6, 4], [3, 5]])
    policies = [fo.DRF(), fo.FDS(2), fo.FDS(beta=2, lam=-2), fo.MostTasks(), fo.Policy(Roots())]
    policies += [fo.Policy(fo.OrderedWeighted((2, 1))), fo.Policy(fo.Leximin(), [fo.EnvyFree()])]
    for policy in policies:
        for instance in (servers, servers.pooled()):
            fast = policy.allocate(instance)
            assert fast.certificate.method in ("cone", "parametric")
