"""Properties of answers of policies with constraints: which are judged within them, and by how much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import fairopt as fo
from fairopt.blocks.rows import Rows
from fairopt.properties.exact.cluster import ExactJudge

POOL = fo.Instance([[1], [1]], [10], users=["a", "b"])
CAPPED = fo.DRF().with_constraints(fo.MaxShare({"a": 0.2, "b": 0.2}))
FIRST = "within the policy's constraints, "


@dataclass(frozen=True, repr=False)
class AtMost(fo.Constraint):
    """The first user runs at most so many times the tasks of the last."""

    times: float

    def rows(self, pairs: Any) -> dict[str, Rows]:
        return {"at most": Rows(pairs.totals[[0]] - self.times * pairs.totals[[-1]])}


@dataclass(frozen=True, repr=False)
class Substitutes(fo.Constraint):
    """A task needs a unit of one of two things, of which there are 4 and 3; of the second the last user needs two."""

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        n = model.instance.n_users
        one, two = (model.variable((n,), lower=0, upper=10) for _ in range(2))
        return {"split": one + two == model.tasks, "one": cp.sum(one) <= 4, "two": cp.sum(two) + two[n - 1] <= 3}


@dataclass(frozen=True, repr=False)
class Near(fo.Objective):
    """Tasks near a number, though more are possible; no more than a variable that is at most ``most``."""

    tasks: float
    most: float

    def expression(self, model: fo.Model) -> cp.Expression:
        most = model.variable(lower=0, upper=self.most)
        model.require("at most", model.tasks <= most)
        return -cp.sum_squares(model.tasks - self.tasks)


def test_gains_that_the_policy_may_not_choose_do_not_count() -> None:
    report = fo.check(CAPPED.allocate(POOL))
    assert report["pareto"].holds and report["pareto"].sentence.startswith(FIRST)
    for name, other in {
        "si": "the slice, which is judged alone",
        "ef": "what a user would run",
        "bf": "what a user is",
    }.items():
        assert f" (the policy's constraints bind the allocation, not {other}" in report[name].sentence
    assert not fo.check(fo.DRF().with_constraints(fo.MaxShare({"a": 0.2})).allocate(POOL))["si"].holds
    plain = fo.check(fo.DRF().allocate(POOL))
    assert not any("constraints" in verdict.sentence for verdict in plain.values())


def test_gains_within_variables_of_a_constraint_count() -> None:
    pool = fo.Instance([[1, 1], [1, 2]], [1000, 1000], users=["a", "b"])
    best = fo.Policy(fo.AlphaFair(1), [Substitutes()])
    assert fo.check(best.allocate(pool), "pareto").ok
    half = replace(best.allocate(pool), tasks_by_server=np.array([[2.0], [2.0]]))
    verdict = fo.check(half, "pareto")["pareto"]
    # a alone can take three units of the second thing and two that b leaves of the first
    assert not verdict.holds and verdict.margin == pytest.approx(1.5, rel=1e-6)
    assert verdict.sentence == FIRST + "with no user running fewer, user 'a' could run 5 tasks instead of 2"


def test_what_an_objective_requires_counts() -> None:
    answer = fo.Policy(Near(2, 3)).allocate(POOL)
    verdict = fo.check(answer, "pareto")["pareto"]
    assert verdict.margin == pytest.approx(0.5, rel=1e-6) and verdict.sentence.startswith(FIRST)
    assert fo.check(fo.Policy(Near(4, 2)).allocate(POOL), "pareto").ok


def test_curved_constraints_count() -> None:
    inside = fo.Policy(fo.AlphaFair(1), lambda model: cp.norm(model.tasks) <= 5)
    assert fo.check(inside.allocate(POOL), "pareto", tol=1e-5).ok
    short = replace(inside.allocate(POOL), tasks_by_server=np.array([[3.0], [3.0]]))
    assert fo.check(short, "pareto")["pareto"].margin == pytest.approx(1 / 3, rel=1e-5)


def most_alone(instance: fo.Instance, tasks: np.ndarray, times: float, most: float, j: int) -> float:
    """The largest gain of one user, by a dense program in its own words."""
    d, (n, servers) = instance.per_server_demands, tasks.shape
    use = np.zeros((servers, instance.n_resources, n, servers))
    for s in range(servers):
        use[s, :, :, s] = d[:, s].T
    total = np.kron(np.eye(n), np.ones(servers))
    alone = (instance.capacities.sum(axis=0) / d[:, 0]).min(axis=1)  # demands are alike on all servers
    rows = np.vstack([use.reshape(-1, n * servers), total, total[:1] - times * total[-1:], -total])
    runs = tasks.sum(axis=1)
    right = np.concatenate([instance.capacities.ravel(), most * alone, [0.0], -np.where(np.arange(n) == j, 0, runs)])
    found = linprog(-total[j], A_ub=rows, b_ub=right, method="highs-ds")
    return float(-found.fun - runs[j]) if found.status == 0 else 0.0


@pytest.mark.parametrize("servers", [1, 2])
def test_margins_are_the_largest_gains_within_constraints(servers: int) -> None:
    rng, refuted = np.random.default_rng(7), 0
    for _ in range(12):
        n = int(rng.integers(2, 5))
        instance = fo.Instance(rng.integers(1, 9, (n, 2)), rng.integers(5, 30, (servers, 2)))
        times, most = float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.1, 0.6))
        policy = fo.DRF().with_constraints(AtMost(times), fo.MaxShare(most))
        best = policy.allocate(instance)
        answer = replace(best, tasks_by_server=best.tasks_by_server * rng.choice([1.0, 0.9, 0.5]))
        gains = [most_alone(instance, answer.tasks_by_server, times, most, j) for j in range(n)]
        largest = float((np.array(gains) / answer.tasks).max())
        verdict = fo.check(answer, "pareto")["pareto"]
        assert verdict.margin == pytest.approx(largest, rel=1e-6, abs=1e-6) and verdict.holds == (largest <= 1e-6)
        if not verdict.holds:
            refuted += 1
            exact = ExactJudge(answer, None).margin("pareto", verdict.details.tasks_by_server)
            assert float(exact) == pytest.approx(largest, rel=1e-6)
            beyond = verdict.details.tasks_by_server.copy()
            beyond[0] *= 1 + 1e-6 + float((times * beyond[-1].sum() - beyond[0].sum()) / beyond[0].sum())
            assert ExactJudge(answer, None).margin("pareto", beyond) == -1  # it breaks `AtMost`
    assert refuted > 3


def test_audits_and_proofs_judge_within_constraints(tmp_path: Path) -> None:
    found = fo.audit(fo.DRF().with_constraints(fo.MaxShare(0.2)), ["pe", "ef", "sp"], max_examples=12)
    assert found["pe"].verdict.startswith("not refuted") and FIRST[:-2] in str(found["pe"])
    assert "; the policy's constraints bind the allocation, not what a user would run on the bundle" in str(found["ef"])
    assert "the policy's constraints bind the answers to both reports; a user counts the true tasks" in str(found["sp"])
    near = fo.Policy(Near(0.25, 10), [fo.MaxTasks(0.75)])
    report = fo.audit(near, ["pe"], max_examples=12)
    assert report["pe"].refuted and "could run 0.75 tasks instead of 0.25" in report["pe"].witness.sentence
    assert fo.properties.replay(report.save(tmp_path / "near.json"), policy=near)[0].refutes
    proof = fo.prove(near, "pe", resources=1, time_limit=20)["pe"]
    assert proof.verdict == "refuted" and "user more, within the policy's constraints: on every pool" in proof.statement


def test_a_user_at_its_cap_refutes_the_plain_sharing_incentive_alone() -> None:
    report = fo.check(fo.DRF().with_constraints(fo.MaxShare({"a": 0.2})).allocate(POOL), ["si", "si-within"])
    assert not report["si"].holds and "judged alone; sharing-incentive-within binds both" in report["si"].sentence
    assert report["si-within"].holds and report["si-within"].sentence.startswith(FIRST + "no user would run more")
    plain = fo.check(fo.MostTasks().allocate(fo.Instance([[2], [1]], [6])), ["si", "si-within"])
    assert plain["si"].margin == plain["si-within"].margin == 1.0
    assert plain["si"].sentence == plain["si-within"].sentence


def test_no_slice_offers_anything_where_constraints_exclude_the_slices() -> None:
    report = fo.check(fo.DRF().with_constraints(fo.MinShare({"a": 0.9})).allocate(POOL), ["si", "si-within"])
    assert not report["si"].holds and report["si-within"].holds
    assert "users cannot all run on their own slices" in report["si-within"].sentence


def test_curved_constraints_bind_slices_and_open_slices_are_said_to_be_open() -> None:
    curved = fo.Policy(fo.MostTasks().objective, lambda model: cp.norm(model.tasks) <= 5)
    pool = fo.Instance([[1], [2]], [20], users=["a", "b"])
    verdict = fo.check(curved.allocate(pool), "si-within")["si-within"]
    # each has sqrt(12.5) under the norm; alone on its slice b would run 5, the norm of all
    assert not verdict.holds and verdict.details.slices[1] == pytest.approx(5, rel=1e-5)
    assert verdict.margin == pytest.approx(1 - 12.5**0.5 / 5, rel=1e-4)
    rng = np.random.default_rng(1)
    many = fo.Instance(rng.integers(1, 9, (60, 2)), [[300, 300], [200, 400]])
    late = fo.check(fo.DRF().with_constraints(fo.MaxShare(0.001)).allocate(many), "si-within", time_limit=1e-6)
    assert late["si-within"].holds is None and "as far as is known" in late["si-within"].sentence


def most_on_own_slice(instance: fo.Instance, times: float, most: float, j: int) -> float:
    """The most tasks of one user on its slice while all are on theirs, by a dense program in its own words."""
    d, (n, servers) = instance.per_server_demands, instance.eligible.shape
    part = (instance.weights / instance.weights.sum())[:, None]
    own = part * (instance.capacities[None] / d).min(axis=2)
    total = np.kron(np.eye(n), np.ones(servers))
    alone = (instance.capacities.sum(axis=0) / d[:, 0]).min(axis=1)
    rows = np.vstack([total, total[:1] - times * total[-1:]])
    bounds = [(0, float(v)) for v in own.ravel()]
    found = linprog(-total[j], A_ub=rows, b_ub=[*(most * alone), 0.0], bounds=bounds, method="highs-ds")
    return float(-found.fun)


@pytest.mark.parametrize("servers", [1, 2])
def test_slices_within_constraints_agree_with_a_dense_program_and_in_fractions(servers: int) -> None:
    rng, refuted, excused = np.random.default_rng(5), 0, 0
    for _ in range(10):
        n = int(rng.integers(2, 5))
        weights = rng.integers(1, 4, n)
        instance = fo.Instance(rng.integers(1, 9, (n, 2)), rng.integers(5, 30, (servers, 2)), weights=weights)
        times, most = float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.1, 0.6))
        answer = fo.MostTasks().with_constraints(AtMost(times), fo.MaxShare(most)).allocate(instance)
        own = np.array([most_on_own_slice(instance, times, most, j) for j in range(n)])
        short = ((own - answer.tasks) / np.maximum(own, answer.tasks)).max()
        report = fo.check(answer, ["si", "si-within"])
        verdict, plain = report["si-within"], report["si"]
        assert verdict.holds == (short <= 1e-6) and verdict.margin <= plain.margin
        excused += bool(verdict.holds and not plain.holds)
        if not verdict.holds:
            refuted += 1
            assert verdict.margin == pytest.approx(short, rel=1e-6)
            split = verdict.details.tasks_by_server
            exact = ExactJudge(answer, None).margin("sharing-incentive-within", split)
            assert 0 < exact <= short * (1 + 1e-6)
            split = np.zeros_like(split)
            split[0] = verdict.details.slices.max()  # the last runs nothing, which breaks `AtMost`
            assert ExactJudge(answer, None).margin("sharing-incentive-within", split) == -1
    assert refuted > 3 and excused > 0


def test_audits_search_slices_within_constraints(tmp_path: Path) -> None:
    capped = fo.MostTasks().with_constraints(fo.MaxShare(0.4))
    report = fo.audit(capped, ["si-within"], max_examples=20)
    witness = report["si-within"].witness
    assert witness.sentence.startswith(FIRST) and witness.verified.endswith("measured in fractions")
    assert fo.properties.replay(report.save(tmp_path / "capped.json"))[0].refutes
    both = fo.audit(fo.DRF().with_constraints(fo.MaxShare(0.2)), ["si", "si-within"], [POOL])
    assert both["si"].refuted and both["si-within"].verdict == "not refuted on 1 instance"
    assert fo.audit(fo.MostTasks(), ["si-within"], max_examples=20)["si-within"].witness.verified == "exact fractions"
