"""What users' methods return by mistake, and operators that are not defined: `InvalidBlock` with the fix."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo

POOL = fo.Instance([[1], [1]], [2])


@dataclass(frozen=True, repr=False)
class Own(fo.Objective):
    write: Callable[[fo.Model], Any]

    def expression(self, model: fo.Model) -> Any:
        return self.write(model)


@dataclass(frozen=True, repr=False)
class Cond(fo.Constraint):
    write: Callable[[fo.Model], Any]

    def constraints(self, model: fo.Model) -> Any:
        return self.write(model)


@dataclass(frozen=True, repr=False)
class Part(fo.Share):
    write: Callable[[fo.Instance], Any]

    def per_task(self, instance: fo.Instance) -> Any:
        return self.write(instance)


WANTED = "give a CVXPY expression of one real number"
OF_CVXPY = "write it by functions of CVXPY, as cp.log"
OBJECTIVES: list[tuple[Callable[[fo.Model], Any], str]] = [
    (lambda m: 3.0, f"expression gave 3.0; {WANTED}"),
    (lambda m: np.float64(3), f"gave .*3.0.*; {WANTED}"),
    (lambda m: True, f"gave True; {WANTED}"),
    (lambda m: "x", f"gave 'x'; {WANTED}"),
    (lambda m: np.ones(1), f"gave shape .1,.; {WANTED}"),
    (lambda m: cp.log(m.tasks), f"gave shape .2,.; {WANTED}"),
    (lambda m: [m.tasks[0]], f"gave shape .1,.; {WANTED}"),
    (lambda m: cp.Constant(3), f"gave Constant.*; {WANTED}"),
    (lambda m: m.tasks[0] >= 1, f"gave Inequality.*; {WANTED}"),
    (lambda m: fo.Total(), f"gave Total.*; {WANTED}"),
    (lambda m: 1j * cp.sum(m.tasks), f"gave Expression.*; {WANTED}"),
    (lambda m: None, "returned None; is a `return`"),
    (lambda m: cp.sum(m.tasks) > 1, "compares by `<` or `>`"),
    (lambda m: max(*m.tasks), "as `max` and `min` do"),
    (lambda m: np.log(m.tasks).sum(), OF_CVXPY),
    (lambda m: np.sum(m.tasks), OF_CVXPY),
    (lambda m: math.log(m.tasks[0]), OF_CVXPY),
    (lambda m: cp.sum(m.tasks + np.ones(3)), "cannot be written"),
    (lambda m: cp.sum(m.tasks) * cp.Parameter(name="p"), "has the parameter p, which has no value; use a number"),
    (lambda m: cp.sum(m.tasks) + np.inf, "its expression holds inf"),
    (lambda m: m.share("cpu"), "the share of model.share.share. is 'cpu'; give one such as DominantShare"),
]


@pytest.mark.parametrize("write, says", OBJECTIVES, ids=[says for _, says in OBJECTIVES])
def test_what_is_no_expression_of_one_number_is_refused_with_what_is_wanted(
    write: Callable[[fo.Model], Any], says: str
) -> None:
    own = Own(write)
    for policy in (fo.Policy(own), fo.Policy(own + fo.Total()), fo.Policy(fo.Total(), [own >= 0.1])):
        with pytest.raises(fo.errors.InvalidBlock, match=says):
            policy.allocate(POOL)
    with pytest.raises(fo.errors.InvalidBlock, match=says):
        fo.Policy(own).problem(POOL)


CONDITIONS: list[tuple[Callable[[fo.Model], Any], str]] = [
    (lambda m: [m.tasks[0] <= 1], "gave list; give a dict of conditions by name"),
    (lambda m: m.tasks[0] <= 1, "gave Inequality; give a dict"),
    (lambda m: None, "returned None"),
    (lambda m: {"a": True}, "gave True under 'a'; give a cvxpy constraint"),
    (lambda m: {"a": np.ones(2) > 0}, "gave array.* under 'a'"),
    (lambda m: {"a": m.tasks[0]}, "under 'a'"),
    (lambda m: {"a": m.tasks > 1}, "constraints compares by `<` or `>`, as `max`"),
    (lambda m: {"a": 0 <= m.tasks[0] <= 1}, "chains such as `0 <= x <= 1`.*give each condition by itself"),
    (lambda m: {"a": m.tasks == "x"}, "cannot be written .*'x'"),
    (lambda m: {"a": m.tasks <= np.ones(3)}, r"cannot be written .*\(3,\)"),
    (lambda m: {"a": np.max(m.tasks) <= 1}, OF_CVXPY),
    (lambda m: {"a": m.tasks <= np.array([1, np.inf])}, "'a' holds inf; give finite .* no row without a bound"),
    (lambda m: {"a": cp.sum(m.tasks) * np.nan <= 1}, "condition 'a' holds nan"),
    (lambda m: {"a": m.tasks[0] <= cp.Parameter(name="p")}, "condition 'a' has the parameter p, which has no value"),
]


@pytest.mark.parametrize("write, says", CONDITIONS, ids=[says for _, says in CONDITIONS])
def test_what_is_no_dict_of_conditions_is_refused_with_what_is_wanted(
    write: Callable[[fo.Model], Any], says: str
) -> None:
    for objective in (fo.Total(), fo.Leximin()):
        with pytest.raises(fo.errors.InvalidBlock, match=says):
            fo.Policy(objective, [Cond(write)]).allocate(POOL)


def test_conditions_that_no_tasks_change_hold_or_cannot_hold() -> None:
    for objective in (fo.Total(), fo.Leximin(), fo.AlphaFair(1)):
        held = fo.Policy(objective, [Cond(lambda m: {"a": cp.Constant(0) <= 0, "b": m.tasks[0] <= 0.5})])
        tasks = held.allocate(POOL).tasks
        assert tasks[0] <= 0.5 + 1e-9 and tasks.sum() == pytest.approx(2)
        with pytest.raises(fo.errors.Infeasible, match=r"'a' of `Cond.*` cannot hold, whatever the tasks"):
            fo.Policy(objective, [Cond(lambda m: {"a": cp.Constant(1) <= 0})]).allocate(POOL)


def test_an_equation_of_convex_things_is_not_convex() -> None:
    with pytest.raises(fo.errors.NotConcave, match="its condition 'round' is not convex"):
        fo.Policy(fo.Total(), [Cond(lambda m: {"round": cp.sum_squares(m.tasks) == 1})]).allocate(POOL)


@pytest.mark.parametrize("value", [[1.0], np.ones(2), {"a": 1}, ([1.0],)], ids=repr)
def test_a_field_that_does_not_hash_is_refused_by_the_policy_with_what_to_give(value: Any) -> None:
    @dataclass(frozen=True, repr=False)
    class Priced(fo.Share):
        prices: Any

        def per_task(self, instance: fo.Instance) -> np.ndarray:
            return instance.dominant_shares

    for objective in (fo.Leximin(Priced(value)), fo.MaxMin() + fo.Total(Priced(value))):
        with pytest.raises(fo.errors.InvalidBlock, match=r"Priced holds .* in its field 'prices', .*give a tuple"):
            fo.Policy(objective)


def test_complex_coefficients_are_refused() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="give an array of numbers"):
        fo.Policy(fo.Total(Part(lambda i: np.array([1j, 2])))).allocate(POOL)


@pytest.mark.parametrize("error", [AttributeError, ZeroDivisionError, KeyError])
def test_other_errors_in_a_users_method_are_the_users_with_a_note_of_the_block(error: type[Exception]) -> None:
    def write(_: fo.Model) -> Any:
        raise error("taks")

    with pytest.raises(error, match="taks") as caught:
        fo.Policy(Own(write)).allocate(POOL)
    assert any(note.startswith("in Own.expression of Own(") for note in caught.value.__notes__)


SHARE, BOUND, OBJECTIVE = fo.DominantShare(), fo.MinShare(0.1), fo.MaxMin()


@pytest.mark.parametrize(
    "one, sign, other, says",
    [
        (OBJECTIVE, operator.le, 0.2, r"MaxMin\(\) <= 0.2 is not defined: objectives are added, .*MaxShare\(level"),
        (0.2, operator.ge, OBJECTIVE, r"MaxMin\(\) <= 0.2 is not defined"),
        (OBJECTIVE, operator.gt, np.float64(0.2), r"MaxMin\(\) > .*0.2.* is not defined"),
        (OBJECTIVE, operator.lt, OBJECTIVE, "is not defined"),
        (OBJECTIVE, operator.add, SHARE, r"MaxMin\(\) \+ DominantShare\(\) is not defined"),
        (3, operator.add, OBJECTIVE, "is not defined"),
        (OBJECTIVE, operator.truediv, 2, r"MaxMin\(\) / 2 is not defined"),
        (OBJECTIVE, operator.mul, OBJECTIVE, "is not defined"),
        (SHARE, operator.ge, 0.1, r"DominantShare\(\) >= 0.1 is not defined: a share is not a number; .*MinShare"),
        (2, operator.mul, SHARE, r"2 \* DominantShare\(\) is not defined"),
        (SHARE, operator.add, SHARE, "a share is not a number"),
        (BOUND, operator.add, BOUND, r"constraints are given in a list, as Policy\(objective, \["),
        (fo.FairShareBase(), operator.mul, 2, "write WeightedLog"),
    ],
    ids=str,
)
def test_an_operator_that_is_not_defined_says_what_to_write(
    one: Any, sign: Callable[[Any, Any], Any], other: Any, says: str
) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=says):
        sign(one, other)


def test_a_chain_of_comparisons_of_an_objective_is_refused_and_a_lower_bound_is_not() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=r"<= 0.4 is not defined"):
        assert 0.2 <= fo.MaxMin() <= 0.4
    assert repr(operator.le(0.2, OBJECTIVE)) == "MaxMin() >= 0.2"
