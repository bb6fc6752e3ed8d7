"""What solvers leave of levels is taken out by the methods: the gate takes prices as they are."""

from __future__ import annotations

import numpy as np
import pytest

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.levels import LevelDuals
from fairopt.proof.proposal import Proposal
from fairopt.solve.clean_levels import without_noise
from fairopt.solve.form.program import Program


@pytest.mark.parametrize("noise", [1e-12, 1e-10, 1e-8])
def test_noise_between_equal_costs_is_refused_by_the_gate_and_taken_out_by_the_method(noise: float) -> None:
    """The first user fills one resource on both servers, and the second one the other resource of the first server."""
    eligible = [[True, True], [True, False]]
    instance = fo.Instance([[1, 0], [0, 1]], [[1, 4], [1, 4]], eligible=eligible)
    program, tasks = Program(instance, fo.Leximin(fo.Tasks()), ()), np.array([1.0, 1.0, 4.0])
    noisy = [Dual(np.array([1, noise, 1 + noise, 0]), fixed=np.array([0])), Dual(np.eye(4)[1], fixed=np.array([1]))]
    assert gate.judge(program, Proposal("levels", tasks, LevelDuals(noisy))).gap >= 0.1
    clean = without_noise(program, None, noisy, tasks)
    assert gate.judge(program, Proposal("levels", tasks, LevelDuals(clean))).gap <= 1e-12
    for one, was in zip(clean, noisy, strict=True):
        np.testing.assert_allclose(one.prices, was.prices, atol=2 * noise)
