"""Sums of curves after other tiers, which leave some users about 1e-7 of a share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fairopt as fo


def test_what_a_total_leaves_is_divided_exactly() -> None:
    """The total loses 5e-8 of 28 tasks: 6 per task of the third user, 3 per task of the fourth.

    Slopes of alpha = 20 per task lost are equal: with ``z = x / 3.75`` and ``x / 6.5``, ``(z4 / z3)^20 = 22.5 / 19.5``.
    """
    instance = fo.Instance([[0, 1], [1, 0], [4, 3], [2, 2]], [15, 13])
    answer = fo.Policy(fo.Total(fo.Tasks()).then(fo.AlphaFair(20, fo.StandAloneShare()))).allocate(instance)
    third, fourth = answer.tasks[2:]
    assert 6 * third + 3 * fourth == pytest.approx(28 * 5e-8, rel=1e-6)
    assert (fourth / 6.5) / (third / 3.75) == pytest.approx((22.5 / 19.5) ** (1 / 20), rel=1e-6)


@pytest.mark.parametrize(
    ("instance", "objective"),
    [
        (
            fo.Instance([[2, 3], [6, 4], [2, 0], [5, 5]], [10, 8]),
            fo.OrderedWeighted((5, 3, 3, 2), fo.Tasks()).then(fo.AlphaFair(2)),
        ),
        (
            fo.Instance([[4], [1]], [[10], [10], [10], [12]]),
            fo.Total(fo.Tasks()).then(fo.AlphaFair(2, fo.ResourceShare(0)) + 0.25 * fo.Total(fo.Tasks())),
        ),
        (
            fo.Instance([[6, 5, 5, 3], [1, 4, 1, 2], [6, 0, 5, 0]], [15, 3, 10, 13], weights=[1, 3, 2]),
            fo.OrderedWeighted((5, 4, 3), fo.Tasks()).then(fo.AlphaFair(20, fo.StandAloneShare())),
        ),
        (
            fo.Instance([[3, 4], [0, 1]], [[16, 7], [2, 1]]),
            fo.OrderedWeighted((4, 2), fo.Tasks()).then(fo.AlphaFair(20)).then(fo.Leximin(fo.PNormShare(1))),
        ),
    ],
    ids=["sorted on a pool", "sum on servers", "steep", "three tiers"],
)
def test_curves_after_sorted_shares_and_totals_are_certified(
    instance: fo.Instance, objective: fo.Objective, tmp_path: Path
) -> None:
    answer = fo.Policy(objective).allocate(instance)
    assert answer.certificate.ok and (answer.tasks > 0).all()
    assert np.isfinite(answer.certificate.gaps).all()
    path = answer.save(tmp_path / "tiers.json")
    assert fo.Allocation.load(path).certificate.ok


def test_lower_bounds_that_do_not_fit_are_infeasible_and_leave_nobody_out() -> None:
    instance = fo.Instance([[4, 3], [6, 2], [5, 3]], [10, 1])
    with pytest.raises(fo.errors.Infeasible, match="MinTasks"):
        fo.Policy(fo.AlphaFair(2), [fo.MinTasks({"user3": 0.875})]).allocate(instance)
