"""Constraints that no tasks but 0 satisfy: the answer is proved, whatever the objective, and refusals are early."""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.lagrangian import LinearRows, Multipliers
from fairopt.runtime.lazy import sp

POOL = fo.Instance([[1, 1], [1, 20]], [100, 100])  # without envy the first user runs at least as many tasks
SERVERS = fo.Instance([[1, 1], [1, 20]], [[60, 50], [40, 50]])


@dataclass(frozen=True, repr=False)
class AtLeast(fo.Constraint):
    """The second user runs at least ``factor`` times the tasks of the first, by a variable between both."""

    factor: float

    def constraints(self, model: Any) -> dict[str, Any]:
        between = model.variable()
        return {"above": model.tasks[1] >= between, "below": between >= self.factor * model.tasks[0]}


OBJECTIVES: list[Any] = [
    fo.AlphaFair(0.5, fo.PNormShare(2)),
    fo.Total(),
    fo.MaxMin(),
    fo.OrderedWeighted((2, 1)),
    fo.MaxMin().then(fo.Total()),
    lambda m: cp.sum(cp.sqrt(m.tasks)),
    lambda m: cp.sum(cp.log(m.tasks + 1)) + 3,
]
NAMES = [*map(str, OBJECTIVES[:-2]), "square roots", "logarithms"]


@pytest.mark.parametrize("instance", [POOL, SERVERS], ids=["pool", "servers"])
@pytest.mark.parametrize("block", [AtLeast(2), lambda m: m.tasks[1] >= 2 * m.tasks[0]], ids=["variable", "rows"])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=NAMES)
def test_only_zero_is_left(objective: Any, block: Any, instance: fo.Instance) -> None:
    a = fo.Policy(objective, [block, fo.EnvyFree()]).allocate(instance)
    assert a.certificate.ok and a.certificate.gap <= 1e-12 and not a.tasks.any()
    assert len(a.certificate.tried) <= 4


@pytest.mark.parametrize("objective", OBJECTIVES, ids=NAMES)
def test_what_leaves_tasks_is_not_refuted(objective: Any) -> None:
    a = fo.Policy(objective, [AtLeast(0.9), fo.EnvyFree()]).allocate(SERVERS)
    assert a.certificate.ok and a.tasks.min() > 0.1


@pytest.mark.parametrize("alpha", [1, 2])
def test_objectives_that_are_minus_infinity_there_are_refused(alpha: float) -> None:
    with pytest.raises(fo.errors.OutOfDomain, match="no tasks at all"):
        fo.Policy(fo.AlphaFair(alpha), [AtLeast(2), fo.EnvyFree()]).allocate(SERVERS)


def forced(side: float, held: float, cost: float) -> Any:
    """What ``2 x - v <= side`` and ``cost v - x <= 0``, each once, prove of x up to 4 with v at ``held``."""
    v, none, once = cp.Variable(nonneg=True), np.zeros(1), np.ones(1)
    v.value = held
    rows = [
        (LinearRows(sp.csr_array([[2.0]]), np.array([-side]), True, {v: sp.csr_array([[-1.0]])}), once),
        (LinearRows(sp.csr_array([[-1.0]]), np.zeros(1), True, {v: sp.csr_array([[cost]])}), once),
    ]
    out = Multipliers(np.zeros(1), np.zeros(1))
    out.charge_jointly(rows, none, 1.0, np.full(1, 4.0))
    return np.min(out.forced)


def test_only_right_hand_sides_of_zero_prove_that_nothing_is_possible() -> None:
    assert forced(0.0, 0.0, 1.0) == pytest.approx(1.0)
    assert forced(1.0, 0.0, 1.0) == 0.0
    assert forced(0.0, 1.0, 1.0) == 0.0  # the right-hand sides are not those values then


def test_what_is_left_of_other_variables_is_charged_per_task() -> None:
    assert 0 < forced(0.0, 0.0, 0.9) < 1  # v may be 10 / 9 x
    assert forced(0.0, 0.0, 0.1) < 0  # and here 10 x, of which each costs 0.9 less than it brings: nothing is proved


@pytest.mark.parametrize("atom", [lambda x: -cp.sum(cp.power(x, 1.5)), lambda x: -cp.sum(cp.cummax(x))])
def test_an_objective_that_is_largest_without_tasks_is_answered_by_none(atom: Any) -> None:
    """Its slope vanishes there, so that relative gaps of tasks next to none are as large as 1e3."""
    answer = fo.Policy(lambda model: atom(0.5 * model.tasks)).allocate(fo.Instance([[3], [4], [5]], [5]))
    assert not answer.tasks.any() and answer.certificate.gap <= 1e-9
    assert len(answer.certificate.tried) <= 2
