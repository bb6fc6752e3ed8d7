"""The (beta, lambda) plane on two users, where f can be searched in all directions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import sqrt

import numpy as np
import pytest
from oracle.plane import best_of_plane, has_optimum, log_measure

import fairopt as fo

SECTION_V = fo.Instance([[1, 4], [3, 1]], [9, 18])  # Joe-Wong et al. 2013
BY_ITSELF = fo.Instance([[1, 0], [0, 1]], [1, 4])
BETAS, LAMS = (-3.0, -0.5, 0.4, 2.0, 4.0), (-1.0, -0.3, 0.0, 0.3, 1.0)


@pytest.mark.parametrize(
    ("instance", "beta", "lam", "tasks", "value"),
    [
        (SECTION_V, 2, -0.25, [(9 * sqrt(13) - 27) / 2, (15 - 3 * sqrt(13)) / 2], -1.3618537),
        (SECTION_V, -1, 1, [18 / 5, 9 / 5], 243 / 25),
        (BY_ITSELF, 2, -0.25, [1, 2], -sqrt(4.5) / 3**0.25),  # dominated: (1, 4) is feasible
        (BY_ITSELF, 2, -0.5, [1, 4], -sqrt(1.25)),
    ],
)
def test_points_worked_out_by_hand(
    instance: fo.Instance, beta: float, lam: float, tasks: list[float], value: float
) -> None:
    answer = fo.GFJ(beta=beta, lam=lam).allocate(instance)
    np.testing.assert_allclose(answer.tasks, tasks, rtol=1e-5)
    assert answer.objective == pytest.approx(value, rel=1e-7)
    searched = best_of_plane(instance.ratios.T, beta, lam)
    np.testing.assert_allclose(searched.shares, tasks, rtol=1e-5)
    assert log_measure(np.array(tasks), beta, lam) == pytest.approx(searched.value, abs=1e-9)
    assert searched.unique


@pytest.mark.parametrize("family", [fo.FDS, fo.GFJ])
def test_a_grid_agrees_with_a_search_in_all_directions(family: Callable[..., fo.Policy]) -> None:
    worth = SECTION_V.ratios.max(axis=1) if family is fo.FDS else np.ones(2)
    loads = (SECTION_V.ratios / worth[:, None]).T
    for beta, lam in product(BETAS if family is fo.FDS else BETAS[1::2], LAMS):
        if not has_optimum(beta, lam):
            with pytest.raises(fo.errors.InvalidBlock, match="no optimum"):
                family(beta=beta, lam=lam)
            continue
        answer = family(beta=beta, lam=lam).allocate(SECTION_V)
        best = best_of_plane(loads, beta, lam)
        assert answer.certificate.ok
        assert log_measure(answer.tasks * worth, beta, lam) == pytest.approx(best.value, abs=1e-6), (beta, lam)
        assert best.unique or lam == 0
        np.testing.assert_allclose(answer.tasks * worth, best.shares, rtol=1e-4, err_msg=f"{beta}, {lam}")
