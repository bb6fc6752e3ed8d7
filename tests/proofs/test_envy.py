"""How far a point of one pool is from leximin without envy, by bottlenecks."""

from __future__ import annotations

import numpy as np
import pytest

import fairopt as fo
from fairopt.formulation.program import Program
from fairopt.proofs.envy import EnvyProgram, envy_gap


def test_a_user_below_another_on_a_full_resource_may_rise_to_its_level() -> None:
    """The second resource is full; neither envies the other, who could have 1 1/12 each."""
    instance = fo.Instance([[1, 2], [2, 1]], [3.25, 3.25])
    envy = EnvyProgram(Program(instance, fo.Leximin(fo.Tasks()), (fo.EnvyFree(),)))
    assert envy_gap(envy, np.array([1.25, 0.75])) == pytest.approx(1.25 / 0.75 - 1, rel=1e-12)
    assert envy_gap(envy, np.full(2, 13 / 12)) <= 1e-12
    assert envy_gap(envy, np.ones(2)) == np.inf  # nothing is full
