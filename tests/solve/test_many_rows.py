"""Which rows of a constraint with very many are added first, by the number of rows in each program that is asked."""

from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.constraints import MadeRows
from fairopt.solve import many_rows
from fairopt.solve.form.program import Program

N = 200


def rows_asked(policy: fo.Policy, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of envy-freeness in each program."""
    counts: list[int] = []
    ask = many_rows.ask

    def counted(program: Program, *options: Any) -> Any:
        counts.append(sum(len(c.made) for c in program.constraints if isinstance(c, MadeRows)))
        return ask(program, *options)

    monkeypatch.setattr(many_rows, "ask", counted)
    policy.allocate(fo.datasets.log_uniform(N, n_resources=4, seed=3))
    return counts


def test_a_sum_takes_the_rows_that_imply_the_others_and_a_curve_those_that_are_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = fo.datasets.log_uniform(N, n_resources=4, seed=3)
    rows = fo.EnvyFree().implying(instance, 10**6)
    assert rows is not None
    everything = len(np.unique(rows))
    of_sum = rows_asked(fo.Policy(fo.Total(), constraints=[fo.EnvyFree()]), monkeypatch)
    assert of_sum == [0, everything]
    of_curve = rows_asked(fo.Policy(fo.AlphaFair(0.5), constraints=[fo.EnvyFree()]), monkeypatch)
    assert of_curve[0] == 0 and 0 < of_curve[1] < everything / 2
