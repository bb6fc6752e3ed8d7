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


# the team of the first user, of weight 2^-46, is guaranteed 2 of 10; the second has the rest
GUARANTEED = fo.Instance(
    [[1], [1]], [10], teams={"team": ["t", "u"]}, weights=[2.0**-46, 1], guarantees={"t": {"resource1": 2}}
)
OF_TEAMS = [(0, 0, "2"), (1, 0, "8")], [[(0, 0, "1")], [(0, 0, "1")]]


def gap_by_rows(charges: object, tasks: list[float], point: object = OF_TEAMS[0]) -> float:
    program = Program(GUARANTEED, fo.Leximin(fo.Tasks()), ())
    return gate.judge(program, Proposal("levels", np.array(tasks), ExactLevels(point, OF_TEAMS[1], None, charges))).gap


def test_multipliers_of_further_rows_prove_levels_under_guarantees_of_teams() -> None:
    assert gap_by_rows([[(0, "1")], []], [2.0, 8.0]) == 0
    assert gap_by_rows([[(0, "1")], []], [3.0, 7.0]) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("charges", "point"),
    [
        ((), OF_TEAMS[0]),  # nothing fixes the second user before the first
        ([[(0, "1/2")], []], OF_TEAMS[0]),
        ([[(0, "2")], []], OF_TEAMS[0]),  # less than no cost, without a limit
        ([[(0, "-1")], []], OF_TEAMS[0]),
        ([[(1, "1")], []], OF_TEAMS[0]),  # of no row
        ([[(0, "1")], []], [(0, 0, "1"), (1, 0, "9")]),  # the guarantee is not kept
        ([[(0, "1")], []], [(0, 0, "3"), (1, 0, "7")]),  # more than the guarantee
    ],
)
def test_other_multipliers_of_rows_prove_nothing(charges: object, point: object) -> None:
    assert gap_by_rows(charges, [2.0, 8.0], point) == np.inf


def test_drf_under_guarantees_of_teams_is_decided_in_fractions_and_saved(tmp_path: Path) -> None:
    instance = fo.Instance(
        [[1]] * 4,
        [10],
        teams={"team": ["t", "u", "v", "w"]},
        weights=[1e14, 1, 1, 1],
        guarantees={"t": {"resource1": 2}},
    )
    answer = fo.DRF().allocate(instance)
    assert "exact" in answer.certificate.tried[-1].status
    np.testing.assert_allclose(answer.tasks, [10, 1e-13, 1e-13, 1e-13], rtol=1e-12)
    loaded = fo.Allocation.load(answer.save(tmp_path / "a.json"))
    assert loaded.certificate.ok and loaded.certificate.gap == answer.certificate.gap


def test_answers_by_exact_programs_are_saved_and_loaded(tmp_path: Path) -> None:
    answer = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance(**chain(2)))
    assert "exact" in answer.certificate.tried[-1].status
    with pytest.MonkeyPatch.context() as unsolved:
        unsolved.setattr("fairopt.methods.saved.solve_tiers", None)  # what the file holds is enough
        loaded = fo.Allocation.load(answer.save(tmp_path / "a.json"))
    assert loaded.certificate.ok and loaded.certificate.gap == answer.certificate.gap
