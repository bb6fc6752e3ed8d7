"""Affine aggregates as variables: the same optimum in fewer entries, and rows that the gate finds to be as asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.written_rows import is_as_asked
from fairopt.solve.form import compiled as forms
from fairopt.solve.form.compiled import CompiledHere

N = 60


def _mean(s: cp.Expression) -> cp.Expression:
    return cp.sum(s) / N


NOTIONS: dict[str, Callable[[cp.Expression], cp.Expression]] = {
    "relative entropy": lambda s: cp.sum(s) - cp.sum(cp.rel_entr(s, _mean(s))),
    "distances": lambda s: cp.sum(s) - 2 * cp.sum(cp.abs(s - _mean(s))),
    "squares": lambda s: cp.sum(s) - cp.sum_squares(s - _mean(s)),
    "a loop": lambda s,: cp.sum(s) - sum(cp.abs(s[j] - m) for m in [_mean(s)] for j in range(N)),
    "of a mean of means": lambda s: cp.sum(cp.sqrt(s + _mean(s[: N // 2] + _mean(s)))),
    "by group": lambda s: (
        cp.sum(cp.sqrt(s))
        - cp.sum(
            cp.abs(
                cp.reshape(s, (2, N // 2), order="C")
                - cp.sum(cp.reshape(s, (2, N // 2), order="C"), axis=1, keepdims=True) / 30
            )
        )
    ),
}


def _problem(notion: Callable[[cp.Expression], cp.Expression]) -> cp.Problem:
    rng = np.random.default_rng(3)
    x = cp.Variable(N, nonneg=True)
    s = cp.multiply(rng.uniform(0.5, 1.5, N), x)
    return cp.Problem(cp.Maximize(notion(s)), [rng.uniform(0, 1, (3, N)) @ x <= N / 4, s >= 0.1 * _mean(s)])


def _optimum(compiled: CompiledHere) -> float:
    compiled.unpack(compiled.solve(compiled.data, False, {}))
    return float(compiled.problem.objective.value)


@pytest.mark.parametrize("name", NOTIONS)
def test_aggregates_leave_the_optimum_and_few_entries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = _problem(NOTIONS[name])
    made = CompiledHere.made(problem, "CLARABEL", {"use_quad_obj": False})
    assert made is not None and is_as_asked(made)
    with monkeypatch.context() as without:
        without.setattr(forms, "with_aggregates", lambda one, *_: (one, {}))
        plain = CompiledHere.made(problem, "CLARABEL", {"use_quad_obj": False})
    assert plain is not None and plain.entries > 4 * made.entries
    assert _optimum(made) == pytest.approx(_optimum(plain), rel=1e-6)


def test_rows_of_constraints_keep_their_places() -> None:
    problem = _problem(NOTIONS["relative entropy"])
    made = CompiledHere.made(problem, "CLARABEL", {"use_quad_obj": False})
    assert made is not None
    made.unpack(made.solve(made.data, False, {}))
    capacities, above = problem.constraints
    assert capacities.dual_value.shape == (3,) and above.dual_value.shape == (N,)
    assert capacities.dual_value @ (capacities.args[1].value - capacities.args[0].value) == pytest.approx(0, abs=1e-5)
    assert capacities.dual_value.max() > 0.1


def test_small_problems_have_no_further_variables() -> None:
    x = cp.Variable(10, nonneg=True)
    problem = cp.Problem(cp.Maximize(-cp.sum(cp.rel_entr(x, cp.sum(x) / 10))), [cp.sum(x) <= 1])
    made = CompiledHere.made(problem, "CLARABEL", {"use_quad_obj": False})
    assert made is not None and made.data["A"].shape[1] == 20  # of each user its tasks and one cone


@dataclass(frozen=True, repr=False)
class Entropy(fo.Objective):
    """The total of dominant shares less the entropy of each relative to their mean."""

    def expression(self, model: fo.blocks.Model) -> cp.Expression:
        s = model.share(fo.DominantShare())
        return cp.sum(s) - cp.sum(cp.rel_entr(s, cp.sum(s) / s.shape[0]))


def test_a_notion_with_a_mean_of_1000_users_is_certified_at_once() -> None:
    demands = np.random.default_rng(0).uniform(0.1, 1, (1000, 3))
    answer = fo.Policy(Entropy()).allocate(fo.Instance(demands, [250] * 3), time_limit=10)
    assert answer.certificate.ok and len(answer.certificate.tried) == 1
