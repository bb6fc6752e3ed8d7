"""Levels in fractions: what proves them, and what does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracle.chains import chain

import fairopt as fo
from fairopt.evidence.exact_levels import ExactLevels
from fairopt.formulation.program import Program
from fairopt.proofs import gate
from fairopt.proofs.proposal import Proposal

# the first user is stopped by the first server, where it leaves a third of the second resource; the second by that
INSTANCE = fo.Instance([[3, 2], [0, 1]], [[1, 1], [1, 1]], eligible=[[1, 0], [1, 1]], task_limits=[None, 10])
POINT = [(0, 0, "1/3"), (1, 0, "1/3"), (1, 1, "1")]
LEVELS = [
    [(0, 0, "1/3")],
    [
        (0, 1, "1"),
        (1, 1, "1"),
    ],
]


def gap(point: object, levels: object, tasks: list[float], instance: fo.Instance = INSTANCE) -> float:
    program = Program(instance, fo.Leximin(fo.Tasks()), ())
    return gate.judge(program, Proposal("levels", np.array(tasks), ExactLevels(point, levels))).gap


def test_the_gap_is_the_distance_from_levels_that_are_proved() -> None:
    right = [1 / 3, 1 / 3, 1.0]
    assert gap(POINT, LEVELS, right) < 1e-15
    assert gap(POINT, LEVELS, [1 / 3, 1 / 3, 0.9]) == pytest.approx(0.075, rel=1e-12)
    assert gap(POINT, LEVELS, [0.3, 1 / 3, 1.0]) == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize(
    ("point", "levels"),
    [
        (POINT, LEVELS[:1]),  # nothing fixes the second user
        (POINT, [*LEVELS[:1], [(0, 1, "-1"), (1, 1, "1")]]),
        (POINT, [*LEVELS[:1], [(0, 1, "1"), (1, 1, "2")]]),  # the second user leaves what is dearer
        (POINT, [*LEVELS[:1], [(0, 1, "1"), (2, 1, "1")]]),  # of no server
        ([(0, 0, "1/3"), (1, 0, "1/3"), (1, 1, "2")], LEVELS),  # exceeds a capacity
        ([(0, 0, "1/3"), (1, 0, "1/4"), (1, 1, "1")], LEVELS),  # leaves some
        ([(0, 0, "1/3"), (0, 1, "1/9"), (1, 0, "1/3"), (1, 1, "1")], LEVELS),  # where it may not run
        ([(0, 0, "1/3"), (1, 0, "-1/3"), (1, 1, "1")], LEVELS),
    ],
)
def test_other_numbers_prove_nothing(point: object, levels: object) -> None:
    assert gap(point, levels, [1 / 3, 1 / 3, 1.0]) == np.inf


def test_a_user_at_its_limit_needs_no_prices() -> None:
    limited = INSTANCE.with_task_limits([np.inf, 0.5])
    point = [(0, 0, "1/3"), (1, 1, "1/2")]
    assert gap(point, LEVELS[:1], [1 / 3, 0, 0.5], limited) < 1e-15
    assert gap([(0, 0, "1/3"), (1, 1, "2/5")], LEVELS[:1], [1 / 3, 0, 0.4], limited) == np.inf


def test_answers_by_exact_programs_are_saved_and_loaded(tmp_path: Path) -> None:
    answer = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance(**chain(2)))
    assert "exact" in answer.certificate.tried[-1].status
    with pytest.MonkeyPatch.context() as unsolved:
        unsolved.setattr("fairopt.methods.saved.solve_tiers", None)  # what the file holds is enough
        loaded = fo.Allocation.load(answer.save(tmp_path / "a.json"))
    assert loaded.certificate.ok and loaded.certificate.gap == answer.certificate.gap
