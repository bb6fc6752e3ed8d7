"""Variables of blocks: whose they are, which bounds hold, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.model import Point

POOL = fo.Instance([[1], [2]], [12], users=["a", "b"])


@dataclass(frozen=True, repr=False)
class Mine(fo.Objective):
    write: Callable[[Any], Any]

    def expression(self, model: fo.Model) -> Any:
        return self.write(model)


@dataclass(frozen=True, repr=False)
class Also(fo.Constraint):
    write: Callable[[Any], Any]

    def constraints(self, model: fo.Model) -> Any:
        return self.write(model)


def solved(write: Callable[[Any], Any], *also: Callable[[Any], Any], pool: fo.Instance = POOL) -> fo.Allocation:
    return fo.Policy(Mine(write), [Also(other) for other in also]).allocate(pool)


def capped(model: fo.Model) -> dict[str, cp.Constraint]:
    return {"capped": model.tasks <= model.variable(name="cap", upper=4)}


def test_blocks_share_a_variable_by_its_name() -> None:
    a = solved(lambda m: cp.sum(m.tasks) - 3 * m.variable(name="cap", lower=1), capped)
    assert a.tasks.tolist() == [1, 1] and a.variables == {"cap": 1.0}


def test_a_variable_without_a_name_is_the_blocks_alone() -> None:
    a = solved(lambda m: cp.sum(m.tasks) + m.variable(upper=1), lambda m: {"low": m.tasks <= m.variable(upper=2)})
    assert a.objective == pytest.approx(5) and len(a.variables) == 2
    assert all(name.startswith("variable 1 of `") for name in a.variables)


def test_the_bounds_of_all_blocks_hold() -> None:
    a = solved(lambda m: cp.sum(m.tasks), capped, lambda m: {"same": m.variable(name="cap", lower=0, upper=3) >= 0})
    assert a.tasks.tolist() == pytest.approx([3, 3]) and a.multipliers["upper of cap"] == pytest.approx(2)
    two = np.array([np.inf, 1.0])
    a = solved(
        lambda m: m.tasks[0] + 9 * m.tasks[1],
        lambda m: {"each": m.tasks <= m.variable(2, name="each", lower=0)},
        lambda m: {"same": m.variable(2, name="each", upper=two) >= 0},
    )
    assert a.tasks.tolist() == pytest.approx([10, 1])
    with pytest.raises(fo.errors.Infeasible, match="'upper of cap'"):
        solved(
            lambda m: cp.sum(m.tasks),
            lambda m: {"x": m.variable(name="cap", lower=2) >= 0},
            lambda m: {"y": m.variable(name="cap", upper=1) <= 9},
        )


def test_a_condition_of_one_name_counts_once_unless_it_differs() -> None:
    def cap(most: float) -> Callable[[Any], Any]:
        def write(model: fo.Model) -> dict[str, cp.Constraint]:
            x = model.variable(name="x", lower=0, upper=9)
            model.require("cap", x <= most)
            return {f"below {most}": model.tasks <= x}

        return write

    a = solved(lambda m: cp.sum(m.tasks), cap(3), lambda m: {**cap(3)(m), "more": m.tasks >= 0})
    assert "cap" in a.multipliers and sum(name.startswith("cap") for name in a.multipliers) == 1
    a = solved(lambda m: cp.sum(m.tasks), cap(3), cap(2))
    assert a.tasks.tolist() == pytest.approx([2, 2]) and sum(name.startswith("cap of") for name in a.multipliers) == 2


def test_plain_variables_of_cvxpy_count_as_ones_without_a_name() -> None:
    a = solved(lambda m: cp.sum(m.tasks) + cp.Variable(bounds=[0, 2]))
    (value,) = a.variables.values()
    assert value == pytest.approx(2) and a.certificate.assumed == ""


def test_a_variable_made_outside_a_block_is_solved_again_each_time_and_shared_by_blocks() -> None:
    x = cp.Variable()

    def least(model: fo.Model) -> cp.Expression:
        model.require("least", x <= model.tasks)
        return x

    for capacity in (12, 6, 12):
        pool = POOL.replace(capacities=[capacity])
        assert solved(least, pool=pool).objective == pytest.approx(capacity / 3)
        a = solved(lambda m: x + cp.sum(m.tasks) / 10, lambda m: {"most": x <= 1, "least": x <= m.tasks}, pool=pool)
        assert a.objective == pytest.approx(1 + (capacity - 1) / 10) and a.multipliers["most"] == pytest.approx(0.9)


def test_at_a_point_a_variable_is_its_value_or_left_open() -> None:
    objective = Mine(lambda m: cp.sum(m.tasks) - cp.square(m.variable(name="x") - 2))
    tasks = np.array([[1.0], [2.0]])
    assert objective.value(Point(POOL, tasks, lambda: {"x": np.array(5.0)})) == -6
    assert objective.value(Point(POOL, tasks)) == pytest.approx(3)
    assert objective.value(Point(POOL, tasks, lambda: {"x": np.array(4.0)}).scaled(0.5)) == 1.5


def test_two_blocks_that_print_alike_must_name_their_variables() -> None:
    def class_of(most: float) -> type[fo.Constraint]:
        @dataclass(frozen=True, repr=False)
        class Cap(fo.Constraint):
            def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
                return {"cap": model.tasks <= model.variable(upper=most)}

        return Cap

    with pytest.raises(fo.errors.InvalidBlock, match=r"two different blocks .* are written Cap\(\)"):
        fo.Policy(fo.Total(), [class_of(1)(), class_of(2)()]).allocate(POOL)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lower": 3, "upper": 1}, "the lower bound 3 and the upper bound 1; give a range"),
        ({"shape": 2, "upper": [1, -np.inf]}, r"the upper bound -inf at \(1,\)"),
        ({"lower": "1"}, "lower='1'; give a number or an array"),
        ({"shape": 2, "upper": [1, 2, 3]}, r"give a number or an array of shape \(2,\)"),
        ({"upper": np.nan}, "NaN in upper"),
        ({"shape": -1}, "the shape -1; give a whole number"),
        ({"name": ""}, "'' needs a name"),
        ({"name": "tasks"}, "'tasks' needs a name other than 'tasks'"),
    ],
)
def test_variables_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=rf"^Mine\(.*{said}"):
        solved(lambda m: cp.sum(m.tasks) - cp.sum(m.variable(**given)))


def test_one_name_has_one_shape() -> None:
    idle = POOL.with_task_limits({"b": 0})
    each = lambda m: {"each": m.variable(m.instance.n_users, name="x", lower=0) <= m.tasks}  # noqa: E731
    with pytest.raises(
        fo.errors.InvalidBlock, match=r"'x' has shape \(1,\) here and \(2,\).*objectives see only users"
    ):
        solved(lambda m: cp.sum(m.variable(m.instance.n_users, name="x")), each, pool=idle)


def required(*given: Any) -> Callable[[Any], Any]:
    def write(model: fo.Model) -> cp.Expression:
        x = model.variable(name="x", lower=0, upper=1)
        model.require(given[0], given[1](x))
        return cp.sum(model.tasks) + x

    return write


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (("bad", lambda x: cp.square(x) >= 1), fo.errors.NotConcave, "'bad' is not convex"),
        (("bad", lambda x: x <= np.nan), fo.errors.InvalidBlock, "'bad' holds nan"),
        (("bad", lambda x: x <= cp.Variable(integer=True)), fo.errors.NotConcave, "integer variable"),
        (("bad", lambda x: 3), fo.errors.InvalidBlock, r"^Mine.*: require\('bad', 3\): give a cvxpy constraint"),
        (("", lambda x: x <= 1), fo.errors.InvalidBlock, "give a name"),
    ],
)
def test_conditions_that_cannot_be_required_are_refused(given: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        solved(required(*given))
