"""User-defined objectives of many instances: the same answers as one by one, whatever the block reads or holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings

import fairopt as fo
from fairopt.scale import own_notions
from fairopt.scale.many import Allocations, allocate_many

from .test_allocate_many import batches, one

DOMINANT = fo.DominantShare()


@dataclass(frozen=True, repr=False)
class Half(fo.Share):
    """The mean of the parts of capacities; none is defined for a user whose first demand is 4."""

    def per_task(self, instance: fo.Instance) -> Any:
        if (instance.demands[:, 0] == 4).any():
            raise fo.errors.OutOfDomain("a user demands 4")
        return instance.ratios.mean(axis=1)


def roots(model: Any) -> Any:
    return cp.sum(cp.sqrt(model.share(DOMINANT)))


def weighted(model: Any) -> Any:
    return model.weights @ cp.sqrt(model.share(DOMINANT))


TOGETHER: dict[str, Any] = {
    "roots": roots,
    "weighted": weighted,
    "a soft minimum": lambda m: -cp.log_sum_exp(-10 * m.share(DOMINANT)),
    "two shares": lambda m: cp.sum(cp.log(m.share(DOMINANT))) + cp.sum(cp.sqrt(m.tasks)) - 0.1 * cp.max(m.tasks),
    "with a total": fo.blocks.InlineObjective(roots) + 0.5 * fo.Total(fo.Tasks()),
    "a constant": lambda m: cp.sum(cp.sqrt(m.share(DOMINANT))) + 1e6,
}
POLICY = fo.Policy(roots)


def draws(seed: int = 0, size: int = 12, n: int = 5) -> dict[str, Any]:
    """Instances of one shape with limits, and weights in three rows."""
    rng = np.random.default_rng(seed)
    return {
        "demands": rng.uniform(0.2, 4, (size, n, 3)),
        "capacities": rng.uniform(5, 9, (size, 3)),
        "weights": rng.integers(1, 4, (3, n)).astype(float).repeat(-(-size // 3), axis=0)[:size],
        "task_limits": np.where(rng.random((size, n)) < 0.2, 0.5, np.inf),
    }


def chosen(given_: dict[str, Any], which: Any) -> dict[str, Any]:
    return {name: values[which] for name, values in given_.items()}


def assert_as_alone(policy: fo.Policy, found: Allocations, given_: dict[str, Any]) -> None:
    """Each answer is certified and has the value of the instance's own."""
    assert found.ok.all()
    assert found.violation.max(initial=0.0) <= 1e-9
    for b in range(len(found)):
        alone = policy.allocate(one(given_, b))
        answer = found[b]
        assert answer.certificate.ok
        assert answer.objective == pytest.approx(alone.objective, rel=1e-6, abs=1e-8)
        np.testing.assert_array_equal(answer.tasks, found.tasks[b][given_["task_limits"][b] > 0])
        np.testing.assert_allclose(found.tasks[b], alone.tasks, rtol=3e-3, atol=1e-3)  # a gap of 1e-9 squared


@pytest.mark.parametrize("name", TOGETHER)
def test_they_agree_with_one_by_one(name: str) -> None:
    policy, given_ = fo.Policy(TOGETHER[name]), draws()
    found = allocate_many(policy, **given_)
    assert (found.method, found.one_by_one.any()) == ("cone", False)
    assert_as_alone(policy, found, given_)


@settings(max_examples=10, deadline=None)
@given(batches())
def test_small_integers_with_zeros_and_users_who_take_no_part(given_: dict[str, Any]) -> None:
    found = allocate_many(POLICY, **given_)
    assert found.ok.all()
    for b in range(len(found)):
        if np.any(given_["task_limits"][b] > 0):
            assert found[b].objective == pytest.approx(POLICY.allocate(one(given_, b)).objective, rel=1e-6)


def test_neither_the_order_nor_the_pieces_nor_others_between_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    given_ = draws(size=16)
    found = allocate_many(POLICY, **given_)
    order = np.random.default_rng(1).permutation(16)
    np.testing.assert_allclose(allocate_many(POLICY, **chosen(given_, order)).tasks, found.tasks[order], rtol=1e-4)
    monkeypatch.setattr(own_notions, "PIECE", 5)
    np.testing.assert_allclose(allocate_many(POLICY, **given_).tasks, found.tasks, rtol=1e-4)
    # each second instance has a user less, whose numbers may be anything
    padded = {name: np.repeat(values, 2, axis=0) for name, values in given_.items()}
    padded["task_limits"][1::2, 2], padded["demands"][1::2, 2], padded["weights"][1::2, 2] = 0.0, np.nan, np.nan
    both = allocate_many(POLICY, **padded)
    assert both.ok.all()
    np.testing.assert_allclose(both.tasks[::2], found.tasks, rtol=1e-4)
    assert (both.tasks[1::2, 2] == 0).all()
    without = allocate_many(POLICY, **{k: v if v.shape[1] == 3 else np.delete(v, 2, axis=1) for k, v in given_.items()})
    np.testing.assert_allclose(np.delete(both.tasks[1::2], 2, axis=1), without.tasks, rtol=1e-4)


def test_what_has_no_answer_is_named_by_place_and_the_others_stand() -> None:
    given_ = draws(size=9)
    given_["demands"][4, 1, 0] = 4
    policy = fo.Policy(lambda m: cp.sum(cp.sqrt(m.share(Half()))))
    found = allocate_many(policy, **given_)
    assert list(found.failures) == [4]
    assert "a user demands 4" in str(found.failures[4])
    assert found.ok.tolist() == [b != 4 for b in range(9)]
    assert np.flatnonzero(found.one_by_one).tolist() == [4]
    rest = np.flatnonzero(np.arange(9) != 4)
    np.testing.assert_allclose(found.tasks[rest], allocate_many(policy, **chosen(given_, rest)).tasks, rtol=1e-4)
    assert (found.tasks[4] == 0).all()


def demanding(model: Any) -> Any:
    return cp.sum(cp.multiply(model.instance.demands[:, 0], cp.sqrt(model.tasks)))


def by_chance(model: Any) -> Any:
    try:
        factor = model.instance.demands[0, 0]
    except AttributeError:  # what was read counts, even if the error is caught
        factor = 1.0
    return factor * cp.sum(cp.sqrt(model.tasks)) + cp.min(model.tasks)


def with_a_variable(model: Any) -> Any:
    least = model.variable(lower=0, upper=100)
    model.require("least", least <= model.tasks)
    return least + cp.sum(cp.sqrt(model.tasks))


def counting() -> Callable[[Any], Any]:
    """A function that is another at each call."""
    calls = itertools.count(1)
    return lambda model: next(calls) * cp.sum(cp.sqrt(model.share(DOMINANT)))


@dataclass(frozen=True, repr=False)
class ByItsValue(fo.Objective):
    """An objective that states more than its expression."""

    def expression(self, model: Any) -> Any:
        return roots(model)

    def unit(self, point: Any) -> float:
        return 1.0


ALONE: dict[str, Any] = {
    "demands": demanding,
    "demands if there are any": by_chance,
    "a variable": with_a_variable,
    "loads": lambda m: cp.sum(cp.sqrt(m.share(DOMINANT))) - cp.max(m.loads),
    "a unit of its own": ByItsValue(),
    "alpha-fairness": fo.blocks.InlineObjective(roots) + fo.AlphaFair(1),
}


@pytest.mark.parametrize("name", ALONE)
def test_what_reads_more_than_shares_is_solved_one_by_one(name: str) -> None:
    given_ = draws(size=5)
    policy = fo.Policy(ALONE[name])
    found = allocate_many(policy, **given_)
    assert (found.method, found.one_by_one.all()) == ("one by one", True)
    assert_as_alone(policy, found, given_)


def test_a_function_that_is_another_at_each_call_is_not_written_once() -> None:
    assert allocate_many(fo.Policy(counting()), **draws(size=5)).one_by_one.all()


def test_constraints_are_solved_one_by_one() -> None:
    found = allocate_many(fo.Policy(roots, [fo.MinTasks(0.1)]), **draws(size=5))
    assert found.one_by_one.all()
    assert found.ok.all()


def test_what_is_not_concave_is_refused_by_place() -> None:
    found = allocate_many(fo.Policy(lambda m: cp.sum(cp.square(m.share(DOMINANT)))), **draws(size=5))
    assert {type(error) for error in found.failures.values()} == {fo.errors.NotConcave}
    assert len(found.failures) == 5


def test_at_the_time_limit_what_was_done_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    given_ = draws(size=30)
    every = allocate_many(POLICY, **given_)
    late = itertools.chain([False] * 8, itertools.repeat(True))
    monkeypatch.setattr("fairopt.runtime.clock.Clock.late", property(lambda _: next(late)))
    found = allocate_many(POLICY, **given_, time_limit=100)
    assert 0 < found.asked.sum() < 30
    np.testing.assert_allclose(found.tasks[found.asked], every.tasks[found.asked], rtol=1e-4)
    assert found.ok.tolist() == found.asked.tolist()
    assert (found.tasks[~found.asked] == 0).all()


@pytest.mark.parametrize("name", TOGETHER)
def test_an_answer_is_saved_with_a_proof_that_is_verified(name: str, tmp_path: Path) -> None:
    found = allocate_many(fo.Policy(TOGETHER[name]), **draws(size=5))
    for b in range(5):
        found[b].save(tmp_path / "answer.json")
        proved = fo.verify(tmp_path / "answer.json")
        assert proved.ok, proved
        loaded = fo.Allocation.load(tmp_path / "answer.json", policy=fo.Policy(TOGETHER[name]))
        assert loaded.certificate.ok
        np.testing.assert_array_equal(loaded.tasks, found[b].tasks)


def test_one_of_a_million_user_weights_is_not_written_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """An objective that reads weights is written for weights that several instances have."""
    given_ = draws(size=12)
    given_["weights"][:8] = np.random.default_rng(0).uniform(0.5, 2, (8, 5))
    given_["weights"][8:] = 1.0
    found = allocate_many(fo.Policy(weighted), **given_)
    assert found.one_by_one.tolist() == [True] * 8 + [False] * 4
    assert_as_alone(fo.Policy(weighted), found, given_)
