"""The bound on the smallest level on several servers at prices: exact at optimal prices, from any level near or far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.gate import judge
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program


@dataclass(frozen=True)
class Rate(fo.Share):
    """Work in a unit of time, by server."""

    def per_task(self, instance: fo.Instance) -> np.ndarray:
        return np.array([[1.0, 2.0], [1.0, 2.0]])


def test_optimal_prices_prove_the_smallest_level() -> None:
    """Tasks of 1 and 3 on servers of 2 and 3: 5/4 of each, at prices in proportion to capacities."""
    program, tasks = (
        Program(fo.Instance([[1], [3]], [[2], [3]]), fo.MaxMin(fo.Tasks()), ()),
        np.array([1.25, 0, 0.25, 1]),
    )
    for prices in (np.array([2.0, 3.0]), np.array([14.0, 21.0])):
        evidence = Prices(program, Dual(prices))
        gaps = [judge(program, Proposal("prices", part * tasks, evidence)).gap for part in (1.0, 0.5)]
        assert gaps == pytest.approx([0.0, 0.5], abs=1e-12)


@pytest.mark.parametrize("value", [0.01, 0.75, 1.5])
def test_the_bound_under_limits_is_the_same_from_any_level(value: float) -> None:
    """Two jobs of a unit of time each, on a slow and a fast server of a unit: half of each gives both 1.5."""
    instance = fo.Instance([[1], [1]], [[1], [1]], task_limits=[1, 1])
    program = Program(instance, fo.MaxMin(Rate()), ())
    proposal = Proposal("prices", np.full(4, value / 3), Prices(program, Dual(np.array([0.25, 0.75]))))
    assert judge(program, proposal).gap == pytest.approx(1.0 - value / 1.5, abs=1e-12)
