"""Bounds by tangents, against closed forms and another method."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from . import concave, cuts, exact_lp

ROOM = [([Fraction(1), Fraction(1)], Fraction(6))]
TOP = np.array([6.0, 6.0])
LOGARITHMS = cuts.Concave(
    lambda x: float(np.log(np.maximum(x, 1e-300)).sum()),
    lambda x: (np.diag(1 / np.maximum(x, 1e-3)), np.log(np.maximum(x, 1e-3)) - 1.0),
)
FIRST = cuts.Concave(lambda x: float(x[0]), lambda x: (np.array([[1.0, 0.0]]), np.zeros(1)))
LENGTH = cuts.Concave(lambda x: -float(np.sqrt(x @ x)), lambda x: ((-x / np.sqrt(x @ x))[None], np.zeros(1)))


def test_bound_and_point_meet_at_the_optimum_from_any_start() -> None:
    for start in ([1.0, 1.0], [5.9, 0.1]):
        found = cuts.maximise(LOGARITHMS, ROOM, [], [], TOP, np.array(start), 1e-9, tries=60)
        assert found.low == pytest.approx(2 * np.log(3), abs=1e-9) and found.high >= 2 * np.log(3) - 1e-15


def test_equations_leave_no_interior_and_are_taken() -> None:
    twice = [([Fraction(1), Fraction(-2)], Fraction(0))]
    found = cuts.maximise(LOGARITHMS, ROOM, twice, [], TOP, np.array([2.0, 1.0]), 1e-9)
    assert found.low == pytest.approx(np.log(4) + np.log(2), abs=1e-9)


def test_curved_conditions_hold_at_the_point_and_bind() -> None:
    held = cuts.Held(LENGTH, -5.0, 5.0)
    found = cuts.maximise(FIRST, ROOM, [], [held], TOP, np.array([1.0, 1.0]), 1e-9, tries=60)
    assert found.low == pytest.approx(5.0, abs=1e-8) and found.high >= 5.0 - 1e-15


def test_leximin_under_a_curved_condition_is_that_of_the_set() -> None:
    forms = [[Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]]
    held = cuts.Held(LENGTH, -1.0, 1.0)
    levels, inside = cuts.leximin(forms, ROOM, [], [held], TOP, np.array([0.5, 0.5]), lambda _: False)
    assert inside and np.allclose(np.array(levels, dtype=float), np.sqrt(0.5))


def test_conditions_that_conflict_have_no_point() -> None:
    held = [cuts.Held(LENGTH, -1.0, 1.0), cuts.Held(FIRST, 2.0, 2.0)]
    with pytest.raises(exact_lp.NoPoint):
        cuts.maximise(FIRST, ROOM, [], held, TOP, np.array([1.0, 1.0]), 1e-9)


def test_both_references_of_concave_objectives_agree() -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        rows, values, weights = rng.integers(1, 6, (3, 3)), rng.integers(5, 30, 3), rng.integers(1, 4, 3)
        exact = [([*map(Fraction, row)], Fraction(v)) for row, v in zip(rows.tolist(), values.tolist(), strict=True)]
        top = (values[:, None] / rows).min(axis=0)
        function = cuts.Concave(
            lambda x, w=weights: float(w @ np.log(np.maximum(x, 1e-300))),
            lambda x, w=weights: (np.diag(w / x), w * np.log(x) - w),
        )
        mean = concave.power_mean(weights.astype(float), 1.0)
        other = concave.maximise(mean, np.eye(3), rows.astype(float), values.astype(float), top)
        found = cuts.maximise(function, exact, [], [], top, other.point, 1e-8)
        assert found.high == pytest.approx(other.high * weights.sum(), abs=1e-7)
