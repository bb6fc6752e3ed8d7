"""Gaps of many instances at once: what no user could still gain, whatever the sizes of users."""

import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.many_pool_gaps import judge_batch
from fairopt.solve.form.many_instances import Batch

LIMIT = 1e-7 * (1 - 1e-6)  # of a user whose task takes 1e7 units: it leaves a millionth of the capacity


def gap(tasks: list[float]) -> float:
    batch = Batch.of(np.array([[[1e7], [1.0]]]), [1.0], None, np.array([[LIMIT, np.inf]]))
    chunk = batch.chunk(slice(0, 1), fo.Tasks(), levelled=True)
    return float(judge_batch(chunk, fo.Leximin(fo.Tasks()), np.array(tasks)[:, None], None)[0][0])


def test_what_is_left_is_compared_with_what_a_small_user_holds() -> None:
    assert gap([LIMIT, 1e-7]) == pytest.approx(9.0)  # it could have ten times as much: a millionth of the capacity


def test_the_whole_of_the_rest_is_the_optimum() -> None:
    assert gap([LIMIT, 1.0 - 1e7 * LIMIT]) <= 1e-9
