"""The gaps of user-defined objectives on many instances: never below what a point loses, whatever the evidence is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.policy import Policy
from fairopt.proof.many_cone_gaps import Duals, judge_cones
from fairopt.solve.batch.cones import Written
from fairopt.solve.form.many_instances import Batch
from fairopt.solve.form.repeated import OwnChunk, Repeated, chunk_of

DOMINANT = fo.DominantShare()
NOTIONS: dict[str, Any] = {
    "soft minimum": lambda m: -cp.log_sum_exp(-10 * m.share(DOMINANT)),
    "logarithms": lambda m: cp.sum(cp.log(m.share(DOMINANT))) - cp.max(m.tasks),
    "lines": lambda m: cp.sum_smallest(m.share(DOMINANT), 2) + 0.1 * cp.sum(m.share(DOMINANT)),
    "squares": lambda m: cp.sum(m.share(DOMINANT)) - cp.sum_squares(m.share(DOMINANT)),
}
SIZE, N, M = 6, 4, 3
BY_NOTION = pytest.mark.parametrize("name", NOTIONS)


def solved(name: str) -> tuple[Batch, Repeated, OwnChunk, np.ndarray, Duals]:
    """A notion on a few instances, some users of which have limits, with tasks and multipliers."""
    rng = np.random.default_rng(3)
    limits = np.where(rng.random((SIZE, N)) < 0.2, 0.3, np.inf)
    batch = Batch.of(rng.uniform(0.2, 4, (SIZE, N, M)), rng.uniform(5, 9, (SIZE, M)), None, limits)
    objective = Policy(NOTIONS[name]).objective
    repeated = Repeated.of(objective, batch, np.arange(N), batch.weights[0])
    assert repeated is not None
    chunk, defined = chunk_of(batch, np.arange(SIZE), np.arange(N), repeated.shares)
    assert defined.all()
    programs = Written(repeated, chunk)
    tasks, _, duals = programs.answer(list(programs.solved()), chunk)
    return batch, repeated, chunk, tasks, duals


def gaps(batch: Batch, repeated: Repeated, chunk: OwnChunk, tasks: np.ndarray, duals: Duals) -> np.ndarray:
    return judge_cones(repeated, chunk, tasks, duals, batch.instance(0))[0]


def losses(batch: Batch, repeated: Repeated, best: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """What tasks lose of the best, in the unit of gaps of one instance, by the block's own method."""
    out = []
    for b in range(SIZE):
        instance, objective = batch.instance(b), repeated.objective
        value = objective.value(Point(instance, tasks[:, b, None]))
        most = objective.value(Point(instance, best[:, b, None]))
        out.append(max(most - value, 0.0) / objective.unit(Point(instance, tasks[:, b, None])))
    return np.array(out)


@BY_NOTION
def test_answers_are_proved_and_their_gaps_are_those_of_one_instance(name: str) -> None:
    batch, repeated, chunk, tasks, duals = solved(name)
    found = gaps(batch, repeated, chunk, tasks, duals)
    assert (found <= 1e-6).all()
    for b in range(SIZE):
        alone = Policy(NOTIONS[name]).allocate(batch.instance(b))
        best = np.array([alone.tasks] * SIZE).T
        assert losses(batch, repeated, best, tasks)[b] <= found[b] + 1e-7  # its own gap


@BY_NOTION
@pytest.mark.parametrize("part", [0.999, 0.9, 0.5])
def test_a_worse_point_has_at_least_the_gap_that_it_loses(name: str, part: float) -> None:
    batch, repeated, chunk, tasks, duals = solved(name)
    worse = tasks * np.where(np.arange(N) < 2, part, 1.0)[:, None]
    lost = losses(batch, repeated, tasks, worse)
    assert (lost > 1e-5).any()
    assert (gaps(batch, repeated, chunk, worse, duals) >= lost * (1 - 1e-6)).all()


@BY_NOTION
def test_no_evidence_proves_the_answer_of_another_instance(name: str) -> None:
    """Tasks, multipliers and both of the instance before, which floats fit into the capacities."""
    batch, repeated, chunk, tasks, duals = solved(name)
    moved = chunk.fitted(np.minimum(np.roll(tasks, 1, axis=1), chunk.limits))
    others = Duals(*(np.roll(part, 1, axis=1) for part in duals))
    lost = losses(batch, repeated, tasks, moved)
    assert (lost > 1e-5).any()
    for evidence in (duals, others):
        assert (gaps(batch, repeated, chunk, moved, evidence) >= lost * (1 - 1e-6)).all()


@BY_NOTION
@pytest.mark.parametrize("seed", range(5))
def test_wrong_multipliers_only_weaken_the_bound(name: str, seed: int) -> None:
    batch, repeated, chunk, tasks, duals = solved(name)
    rng = np.random.default_rng(seed)
    spoilt = Duals(
        duals.rows * rng.choice([0.5, 1.0, 1.0, 1.1, -1.0], duals.rows.shape) + rng.normal(0, 1e-3, duals.rows.shape),
        duals.prices * rng.choice([0.0, 1.0, 1.2], duals.prices.shape),
        duals.limits,
    )
    spoilt.prices[0, 0] = np.nan
    worse = tasks * 0.99
    assert (gaps(batch, repeated, chunk, worse, spoilt) >= losses(batch, repeated, tasks, worse) * (1 - 1e-6)).all()


def test_rows_that_are_not_those_of_the_expression_prove_nothing() -> None:
    batch, repeated, chunk, tasks, duals = solved("soft minimum")
    repeated.compiled.data["A"].data[-1] *= 1 + 1e-6
    assert np.isinf(gaps(batch, repeated, chunk, tasks, duals)).all()


def test_an_objective_whose_own_value_differs_proves_nothing() -> None:
    batch, repeated, chunk, tasks, duals = solved("soft minimum")
    other = replace(repeated, objective=Policy(NOTIONS["logarithms"]).objective)
    assert np.isinf(gaps(batch, other, chunk, tasks, duals)).all()


def test_a_point_beyond_the_capacities_has_a_violation() -> None:
    batch, repeated, chunk, tasks, duals = solved("lines")
    _, violation = judge_cones(repeated, chunk, tasks * 1.01, duals, batch.instance(0))
    assert (violation > 1e-3).all()
