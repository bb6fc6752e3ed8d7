"""The bound of `FairnessEfficiency` by tangents, where points or evidence are made up."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.proof import gate
from fairopt.proof.evidence import solved
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.evidence.tangents import Lines
from fairopt.proof.plane_bound import EVEN, Ceiling, Line
from fairopt.proof.proposal import Proposal
from fairopt.solve import as_saved
from fairopt.solve.form.program import Program


def judged(a: fo.Allocation, tasks: list[float]) -> gate.JudgedPoint:
    """Other tasks on one pool, judged by the evidence of an answer."""
    program = Program(a.instance, a.policy.objective, a.policy.constraints)
    (kept,) = a.evidence
    return gate.judge(program, Proposal("made up", np.array(tasks), restored(program, kept, None)))


def test_no_mean_is_too_small_to_count() -> None:
    instance = fo.Instance([[1], [1]], [1], task_limits=[1e-14, np.inf])
    try:
        a = fo.GFJ(beta=2, lam=-1e-3).allocate(instance, solver="CLARABEL")
    except fo.errors.NotCertified as refused:  # rounding is all that is left of lines there
        assert refused.best is not None
        a = refused.best
    even, other = judged(a, [1e-14, 1e-14]), judged(a, [1e-14, 1e-13])
    assert np.log(other.value / even.value) > 0.5
    assert not other.ok


def test_smaller_prices_of_the_largest_sum_prove_no_smaller_sum() -> None:
    a = fo.GFJ(beta=-1, lam=1).allocate(fo.Instance([[1], [1]], [1]))
    program = Program(a.instance, a.policy.objective, ())
    evidence = restored(program, a.evidence[0], None)
    assert isinstance(evidence, Lines) and evidence.largest is not None
    assert gate.judge(program, Proposal("again", a.tasks, evidence)).ok
    for factor in np.linspace(0, 1, 41):
        wrong = replace(evidence, largest=replace(evidence.largest, dual=evidence.largest.dual.times(factor)))
        assert not gate.judge(program, Proposal("made up", 0.96 * a.tasks, wrong)).ok


@pytest.mark.parametrize("beta", [-1e-17, 1e-17])
def test_nothing_is_proved_where_one_minus_beta_rounds_to_one(beta: float) -> None:
    with pytest.raises(fo.errors.NotCertified):  # equal shares and the largest sum look equally good
        fo.GFJ(beta=beta, lam=2).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]), solver="CLARABEL")


@pytest.mark.parametrize("lam", [-1e-2, -1e-9])
def test_conditions_are_no_weaker_where_all_tasks_are_tiny(lam: float) -> None:
    policy = fo.Policy(fo.FairnessEfficiency(2, lam, fo.Tasks()), [fo.EqualShares()])
    a = policy.allocate(fo.Instance([[10], [1]], [10]))
    np.testing.assert_allclose(a.tasks, [0.5, 5], rtol=1e-6)
    found = judged(a, [1e-11, 1e-11])
    assert found.value > a.objective and found.block_violation > 0.5 and not found.ok


@pytest.mark.parametrize("beta", [0.5, -1])
@pytest.mark.parametrize("constraint", [fo.MaxShare(0.3), fo.Total() >= 0.4])
def test_fairness_alone_under_further_conditions(beta: float, constraint: fo.Constraint) -> None:
    instance = fo.Instance([[[1, 2], [2, 1]], [[3, 1], [1, 1]]], [[4, 6], [6, 4]])
    a = fo.Policy(fo.FairnessEfficiency(beta, 0), [constraint, fo.EnvyFree()]).allocate(instance)
    assert a.certificate.ok
    shares = Point(instance, a.tasks_by_server).share(fo.DominantShare())
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-3)


@pytest.mark.parametrize("lam", [1, 0.5])
def test_made_up_lines_prove_nothing_untrue(lam: float) -> None:
    a = fo.GFJ(beta=-1, lam=lam).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]))
    program, rng = Program(a.instance, a.policy.objective, ()), np.random.default_rng(1)
    evidence = restored(program, a.evidence[0], None)
    assert isinstance(evidence, Lines) and gate.judge(program, Proposal("again", a.tasks, evidence)).ok
    for _ in range(100):
        lines = [
            (
                levels * rng.uniform(0.1, 10, 2),
                slope * rng.uniform(-2, 2),
                replace(p, dual=replace(p.dual, prices=p.dual.prices * rng.random(2))),
            )
            for levels, slope, p in evidence.lines
        ]
        assert not gate.judge(program, Proposal("made up", 0.99 * a.tasks, replace(evidence, lines=lines))).ok


def test_what_the_largest_sum_assumes_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = solved.judge_solved
    monkeypatch.setattr(solved, "judge_solved", lambda *a: replace(honest(*a), assumed="what it assumes"))
    monkeypatch.setattr(as_saved, "judged_as_saved", lambda policy, tiers, answer, begun: answer)  # it assumes nothing
    instance = fo.Instance([[1, 4], [3, 1]], [[9, 18], [6, 9]])
    assert fo.GFJ(beta=-1, lam=1).allocate(instance, solver="CLARABEL").certificate.assumed == "what it assumes"


def test_users_who_could_run_more_are_named_where_shares_differ_by_server() -> None:
    instance = fo.Instance([[[4], [3]], [[3], [2]]], [[4], [2]], users=["a", "b"])
    a = fo.FDS(beta=-1, lam=1).allocate(instance)
    found = re.search(r"user '(.)' could run (\S+) tasks", a.certificate.note)
    assert found is not None
    user = "ab".index(found[1])
    tasks = -np.repeat(np.eye(2), 2, axis=1)  # of each user, by user and server
    loads = np.array([[4, 0, 3, 0], [0, 3, 0, 2]])
    most = linprog(tasks[user], np.vstack([loads, tasks]), np.array([4, 2, *-a.tasks * (1 - 1e-9)]))
    assert float(found[2]) == pytest.approx(-most.fun, rel=1e-4)


def test_variables_of_a_users_own_condition_are_proved_along() -> None:
    @dataclass(frozen=True, repr=False)
    class Between(fo.Constraint):
        def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
            middle = cp.Variable()
            return {"below": model.tasks[0] <= middle, "above": middle <= 3 + 2 * model.tasks[1]}

    objective, pool = fo.FairnessEfficiency(-1, 1, fo.Tasks()), fo.Instance([[1], [2]], [6])
    a = fo.Policy(objective, [Between()]).allocate(pool, solver="CLARABEL")
    second = np.linspace(0.01, 3, 300)
    first = np.minimum(6 - 2 * second, 3 + 2 * second)
    values = [objective.value(Point(pool, np.array([[x], [y]]))) for x, y in zip(first, second, strict=True)]
    assert a.certificate.ok and max(values) * (1 - 1e-3) <= a.objective
    assert max(values) <= a.objective * (1 + 1e-6)


@pytest.mark.parametrize(("beta", "lam"), [(-0.1, 1.5), (-2, 0)])
def test_a_least_total_leaves_close_lines(beta: float, lam: float) -> None:
    instance = fo.Instance([[4.8, 0.9], [0, 0.16], [13, 0], [0.3, 0.6]], [9.6, 2.6], weights=[0.3, 1.7, 0.2, 1.8])
    policy = fo.Policy(fo.FairnessEfficiency(beta, lam), [fo.Total(fo.Tasks()) >= 13.9])
    assert policy.allocate(instance).certificate.gap <= 1e-8


@pytest.mark.parametrize(("beta", "lam"), [(0.5, 0.5), (0.5, 2.0), (2.0, -0.5)])
def test_the_highest_point_of_a_ceiling_is_found_where_lines_cross(beta: float, lam: float) -> None:
    objective = fo.FairnessEfficiency(beta, lam)
    ceiling = Ceiling(objective, [Line(2.0, -1.5), Line(0.5, 0.25), Line(0.9, -0.1)], 0.05, 1.2)
    first, second = objective.exponents
    mean = np.linspace(0.05, 1.2, 100_001)
    lines = [at + rise * mean for at, rise in (EVEN, *ceiling.lines)]
    best = np.min(lines, axis=0) if first > 0 else np.max(lines, axis=0)
    with np.errstate(all="ignore"):
        heights = np.where(best > 0, first * np.log(best), -np.inf) + second * np.log(mean)
    top, at = ceiling.highest()
    assert heights.max() <= top + 1e-12 <= heights.max() + 1e-4
    assert at == pytest.approx(mean[heights.argmax()], abs=1e-4)
