"""How far a point of one pool is from leximin without envy, by bottlenecks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.envy_levels import EnvyProgram, envy_gap
from fairopt.solve.form.program import Program


def test_a_user_below_another_on_a_full_resource_may_rise_to_its_level() -> None:
    """The second resource is full; neither envies the other, who could have 1 1/12 each."""
    instance = fo.Instance([[1, 2], [2, 1]], [3.25, 3.25])
    envy = EnvyProgram(Program(instance, fo.Leximin(fo.Tasks()), (fo.EnvyFree(),)))
    assert envy_gap(envy, np.array([1.25, 0.75])) == pytest.approx(1.25 / 0.75 - 1, rel=1e-12)
    assert envy_gap(envy, np.full(2, 13 / 12)) <= 1e-12
    assert envy_gap(envy, np.ones(2)) == np.inf  # nothing is full


def test_a_user_whom_envy_does_not_bind_is_no_reason_for_another_not_to_rise(tmp_path: Path) -> None:
    """The second is at its limit of 1/4; the first may have 1/2 before the second envies it."""
    instance = fo.Instance([[1, 2], [2, 1]], [6, 6], task_limits=[None, 0.25])
    a = fo.Policy(fo.Leximin(fo.Tasks()), [fo.EnvyFree()]).allocate(instance)
    path = a.save(tmp_path / "a.json")
    assert a.tasks == pytest.approx([0.5, 0.25]) and fo.verify(path).ok
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tasks_by_server": [[0.3], [0.25]]}))
    found = fo.verify(path)
    assert not found.ok and found.gap >= 0.5 / 0.3 - 1
