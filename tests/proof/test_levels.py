"""Bounds of the levels of leximin by prices alone, against levels known by hand."""

from __future__ import annotations

import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.level_bounds import LevelDual, judge_levels, largest_rise
from fairopt.solve.form.program import Program

CLUSTER = fo.Instance([[[1.0], [2.0]], [[2.0], [1.0]]], [[1.0], [1.0]])  # each user runs a task where it needs 1
BOTH = LevelDual(np.array([0, 1]), np.full(2, 0.5))


@pytest.mark.parametrize("part", [0.0, 0.25, 1.0])
def test_users_who_hold_a_part_of_each_server_may_rise_by_what_they_lose_on_the_worse(part: float) -> None:
    program = Program(CLUSTER, fo.Leximin(fo.Tasks()), ())
    tasks = np.array([1 - part, part / 2, part / 2, 1 - part])
    assert largest_rise(program, None, tasks, BOTH) == pytest.approx(1 / (1 - part / 2) - 1, abs=1e-15)


def test_tasks_on_a_server_worse_by_less_than_a_tie_are_a_gap_of_no_less() -> None:
    worse = 5e-8
    demands = np.array([[[1.0], [1 + worse]], [[1 + worse], [1.0]]])
    program = Program(fo.Instance(demands, [[1.0], [1.0]]), fo.Leximin(fo.Tasks()), ())
    tasks = np.array([0, 1, 1, 0]) / (1 + worse)
    with np.errstate(all="ignore"):  # as in a solve: prices of zero are expected
        gap = judge_levels(program, [BOTH], None, tasks)[0]
    assert worse <= gap <= 2.001 * worse  # if one of them rises alone
