"""Envy-freeness up to one task, of the other or of the user's own: against the definition in fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairopt as fo
from fairopt.proof import gate
from fairopt.properties.answers import outcomes_of
from fairopt.properties.audit.measure import violations
from fairopt.properties.margins import margins_of
from fairopt.solve.form.many_instances import Batch


@st.composite
def answers(draw):
    """Whole tasks of a few users on a few servers, of no particular mechanism."""
    n, s, m = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))

    def table(rows, columns, low, high):
        row = st.lists(st.integers(low, high), min_size=columns, max_size=columns)
        return np.array(draw(st.lists(row, min_size=rows, max_size=rows)))

    demands, tasks = table(n, m, 0, 3), table(n, s, 0, 4)
    demands[~demands.any(axis=1), 0] = 1
    eligible = table(n, s, 0, 4) > 0
    eligible[:, 0] |= ~eligible.any(axis=1)
    tasks *= eligible
    limits = np.where(table(n, 1, 0, 2)[:, 0] > 0, np.inf, np.maximum(tasks.sum(axis=1), 1) + 0.5)
    instance = fo.Instance(
        demands,
        np.maximum(tasks.T @ demands, 1),
        eligible=eligible,
        weights=table(n, 1, 1, 3)[:, 0],
        task_limits=limits,
    )
    return gate.of_nothing(instance, tasks.astype(float))


def could_run(instance, j, units):
    """Whole tasks of user j in units by server, at its weight over another's."""
    total = 0
    for s, row in enumerate(units):
        if instance.eligible[j, s]:
            needs = [(u, int(d)) for u, d in zip(row, instance.demands[j], strict=True) if d]
            total += floor(min(u / d for u, d in needs))
    limit = instance.task_limits[j]
    return total if np.isinf(limit) else min(total, floor(limit))


def envies(a, j, k, theirs):
    """Whether user j envies user k up to one task, tried on every server from which one can be taken away."""
    instance, factor = a.instance, Fraction(int(a.instance.weights[j]), int(a.instance.weights[k]))
    tasks = [int(x) for x in a.tasks_by_server[k]]
    taken = [s for s, x in enumerate(tasks) if x] if theirs else []
    found = []
    for s in taken or [None]:
        left = [x - (theirs and place == s) for place, x in enumerate(tasks)]
        found.append(could_run(instance, j, [[factor * x * int(d) for d in instance.demands[k]] for x in left]))
    return min(found) - (not theirs) > a.tasks[j]


@given(answers())
@settings(max_examples=30)
def test_verdicts_are_those_of_the_definition(a):
    for name, theirs in (("ef1", True), ("ef1-own", False)):
        users = range(a.instance.n_users)
        pairs = {(j, k) for j in users for k in users if j != k and envies(a, j, k, theirs)}
        verdict = fo.check(a, name)[name]
        assert verdict.holds == (not pairs)
        assert {(int(j), int(k)) for j, k in np.argwhere(verdict.details.matrix > 1e-6)} == pairs
        if pairs:
            index = a.instance.user_index
            assert (index(verdict.details.envier), index(verdict.details.envied)) in pairs


def test_sentences_name_both_users_and_the_numbers():
    pool = fo.Instance([[1], [1]], [9], users=["a", "b"])
    report = fo.check(gate.of_nothing(pool, np.array([[5.0], [2.0]])), ["EF1", "ef1-own"])
    assert str(report["envy-free-up-to-one-task"]) == (
        "user 'b' could run 4 whole tasks on what 'a' holds less one task, but runs 2"
    )
    assert str(report["ef1-own"]) == "user 'b' could run 5 whole tasks on what 'a' holds, but runs 2"
    assert report["ef1"].margin == pytest.approx(2 / 4.5)  # relative to its slice
    calm = fo.check(gate.of_nothing(pool, np.array([[3.0], [2.0]])), ["ef1", "ef1-own"])
    assert calm.holds and "no user could run more whole tasks" in str(calm["ef1"])


def test_one_task_is_taken_from_the_server_where_it_helps_most():
    # on server 1 the other's tasks are of no use to b, who may not run there
    instance = fo.Instance([[1], [1]], [[2], [2]], users=["a", "b"], eligible=[[True, True], [False, True]])
    assert fo.check(gate.of_nothing(instance, np.array([[2.0, 1.0], [0.0, 0.0]])), "ef1").holds
    assert not fo.check(gate.of_nothing(instance, np.array([[2.0, 2.0], [0.0, 0.0]])), "ef1").holds


def test_it_is_asked_for_by_name_only_and_holds_for_one_user_and_for_none():
    cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    assert list(fo.check(fo.DRF().allocate(cluster))) == ["pareto", "sharing-incentive", "envy-free", "bottleneck"]
    for n in (0, 1):
        some = fo.DRF().allocate(fo.Instance(np.ones((n, 1)), [3]))
        assert fo.check(some, ["ef1", "ef1-own"]).holds
    assert fo.check(fo.KDF(2).allocate(cluster), "ef1").holds  # tasks need not be whole: envy is of whole tasks


def test_users_and_bundles_of_a_policy_that_decides_them_are_compared_too():
    a = fo.MLFDRS().allocate(fo.Instance([[1, 1], [2, 2]], [40, 40]))
    held, tasks = a.bundles[1, 0], a.tasks
    more = floor(min((held - [2, 2]) / [1, 1]))
    assert fo.check(a, "ef1").holds == (more <= tasks[0])


def test_many_pools_at_once_have_the_margins_of_each():
    rng = np.random.default_rng(3)
    pools = Batch.of(rng.integers(1, 5, (40, 3, 2)), rng.integers(4, 12, (40, 2)), weights=rng.integers(1, 4, (40, 3)))
    found = outcomes_of(fo.SequentialMinMax(), pools)
    for name in ("ef1", "ef1-own"):
        margin, _ = violations(margins_of(name), pools, found)
        each = [fo.check(fo.SequentialMinMax().allocate(pools.instance(b)), name)[name] for b in range(40)]
        assert (margin > 1e-6).tolist() == [not v.holds for v in each]
        np.testing.assert_allclose(margin[margin > 0], [v.margin for v in each if not v.holds])


def test_the_audit_finds_the_smallest_pools_where_one_fails():
    report = fo.audit(fo.SequentialMinMax(), ["ef1", "ef1-own"], max_examples=400)
    assert report["ef1"].refuted and "measured in fractions" in str(report["ef1"].witness)
    assert not report["ef1-own"].refuted
    heavy = fo.audit(fo.SequentialMinMax(), ["ef1-own"], max_examples=400, weights=True)["ef1-own"]
    assert heavy.refuted and np.ptp(heavy.witness.instance.weights) > 0
