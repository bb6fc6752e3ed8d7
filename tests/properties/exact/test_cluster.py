"""Margins on servers in fractions: those of the checks, and of linear programs in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.work import Work

import fairopt as fo
from fairopt.properties.exact.cluster import ExactJudge
from fairopt.properties.work import work_by
from fairopt.testing import allocation_of, allocations, instances

OPTIONS = dict.fromkeys(("weights", "limits", "placement", "by_server", "counts", "rates"), True)
SHARES = [None, fo.Tasks(), fo.DominantShare(), fo.ThroughputShare(), fo.PNormShare(2)]


@given(st.data(), st.sampled_from(SHARES))
def test_margins_in_fractions_are_those_of_the_checks(data: st.DataObject, share: fo.Share | None) -> None:
    answer = data.draw(allocations(data.draw(instances((1, 4), (1, 2), (2, 3), **OPTIONS))))
    judge = ExactJudge(answer, share)
    for name, verdict in fo.check(answer, ["pe", "si", "ef"], share=share).items():
        found = judge.margin(name, getattr(verdict.details, "tasks_by_server", None))
        if name == "envy-free" and (len(judge.users) < answer.instance.n_users or answer.instance.n_users == 1):
            continue  # a user with a limit of 0 counts as envy of 0 there
        assert float(found) == pytest.approx(verdict.margin, rel=1e-6, abs=1e-8)


@settings(max_examples=20)
@given(st.data())
def test_throughput_in_fractions_is_what_linear_programs_say(data: st.DataObject) -> None:
    answer = data.draw(allocations(data.draw(instances((2, 4), (1, 2), (2, 3), **OPTIONS))))
    judge, oracle = ExactJudge(answer, fo.ThroughputShare()), Work(answer)
    for j in judge.users:
        assert judge.has[j] == oracle.work[j] and judge.slices[j] == oracle.slices[j]
        assert max(judge.relative(j, judge.on_bundle(j, k)) for k in range(oracle.n) if k != j) == oracle.envy(j)


def test_an_allocation_that_takes_from_a_user_does_not_dominate() -> None:
    pair = fo.Instance([[1], [1]], [[1], [1]])
    judge = ExactJudge(allocation_of(pair, [[0.5, 0], [0, 0.5]]), None)
    assert judge.gain(np.array([[1.0, 0.0], [0.0, 0.5]])) == 1
    assert judge.gain(np.array([[1.0, 0.25], [0.0, 0.25]])) == -1
    assert judge.gain(np.array([[2.0, 0.0], [0.0, 1.0]])) == 1  # scaled to fit


@pytest.mark.parametrize("policy", [fo.Policy(fo.Leximin(fo.Tasks())), fo.NaivePerServer(fo.DRF())], ids=str)
def test_witnesses_on_clusters_are_measured_in_fractions(policy: Any) -> None:
    report = fo.audit(policy, ["pe"], share=fo.ThroughputShare(), servers=2, limits=True, max_examples=60)
    witness = report["pe"].witness
    assert witness.verified.endswith("measured in fractions") and work_by(report.share, policy, witness.instance)
    again = policy.allocate(witness.instance)
    better = fo.check(again, "pe", share=fo.ThroughputShare())["pe"].witness.tasks_by_server
    assert witness.margin <= float(ExactJudge(again, fo.ThroughputShare()).gain(better)) + 1e-9
    assert Fraction(witness.margin) > 0
