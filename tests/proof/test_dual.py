"""The record of multipliers: as it was written, so it is read."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.dual import Dual
from fairopt.proof.entries import Named, bounds_as_rows
from fairopt.proof.lagrangian import Lagrangian
from fairopt.solve.form.program import Program

CONSTRAINTS = (fo.EqualShares(), fo.MaxTasks(3), fo.AlphaFair(1) >= -3.0)


def record() -> tuple[Program, Named, Dual]:
    """A program with rows, limits and a kept level, and multipliers of each."""
    instance = fo.Instance([[1, 2], [3, 1]], [[4, 4], [3, 6]])
    program = Program(instance, fo.Total(), CONSTRAINTS)
    rows = [*(program.rows_of(CONSTRAINTS[0]) or ()), bounds_as_rows(program, "limits")]
    kept = [block for block in program.rest if isinstance(block, type(CONSTRAINTS[2]))]
    duals = [(one, np.arange(1.0, len(one.rows) + 1)) for one in rows]
    return program, Named(CONSTRAINTS), Dual(np.arange(4.0), duals, [(block, 0.5) for block in kept])


def test_an_entry_is_read_as_it_was_written() -> None:
    program, names, dual = record()
    read = Dual.restored(program, json.loads(json.dumps(dual.entry(program, names))), names)
    np.testing.assert_allclose(read.prices, dual.prices)
    assert [(one.name, y.tolist()) for one, y in read.rows] == [(one.name, y.tolist()) for one, y in dual.rows]
    assert [(block, times) for block, times in read.kept] == list(dual.kept)


def test_a_multiple_of_a_record_charges_as_much_more() -> None:
    program, _, dual = record()
    point = program.point(np.ones(len(program.pairs)))
    once, twice = dual.charges(point, 2.0), dual.times(2.0).charges(point)
    np.testing.assert_allclose(once.prices, twice.prices)
    np.testing.assert_allclose(once.pair_cost, twice.pair_cost)
    assert once.constant == pytest.approx(twice.constant) and once.extra[0][1] == twice.extra[0][1] == 1.0


def test_multipliers_have_the_names_of_their_blocks() -> None:
    program, _, dual = record()
    named = dual.named(program, 10.0)
    assert [key for key in named if "at least" in key] and 5.0 in [float(np.ravel(y)[0]) for y in named.values()]


def test_any_record_bounds_the_objective_from_above() -> None:
    program, _, dual = record()
    point = program.point(np.full(len(program.pairs), 0.1))
    majorant = program.objective.majorant(point)
    assert majorant is not None
    for factor in (0.0, 0.1, 1.0, 10.0):
        charged = dual.charges(point, factor / majorant.unit)
        assert Lagrangian(program, majorant, charged, point)(1.0) >= majorant.value(point)
