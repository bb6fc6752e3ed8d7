"""benchmarks/schedulers.py: cases that deployed schedulers state, and how they are compared."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import schedulers

CASES = os.environ.get("FAIROPT_SCHEDULER_CASES", "")


@pytest.mark.skipif(not CASES, reason="the published cases are not here; set FAIROPT_SCHEDULER_CASES to cases.json")
def test_all_published_cases_of_kinds_that_are_built_are_reproduced() -> None:
    results = [schedulers.recomputed(case) for case in json.loads(Path(CASES).read_text())]
    assert any(one["agrees"] for one in results)
    assert [one["source"] for one in results if one["agrees"] is False] == []


def test_a_case_agrees_within_its_tolerance_and_unknown_kinds_are_listed() -> None:
    given = {"half_life_s": 10, "sample_s": 10, "samples": 1, "usage": {"cpu": 2}, "start": {}}
    case = {"source": "made up", "kind": "kueue-afs-decay", "input": given, "expected": {"consumed": {"cpu": 1.0}}}
    assert schedulers.recomputed(case)["agrees"] is True
    assert schedulers.recomputed(case | {"expected": {"consumed": {"cpu": 1.001}}})["agrees"] is False
    near = {"consumed": {"cpu": 1.001}, "tolerance": 0.01}
    assert schedulers.recomputed(case | {"expected": near})["agrees"] is True
    assert schedulers.recomputed(case | {"kind": "another"}) == {
        "source": "made up",
        "kind": "another",
        "agrees": None,
        "got": None,
        "expected": {"consumed": {"cpu": 1.0}},
    }


def test_a_queue_without_weight_is_last_as_text() -> None:
    given = {"consumed": {"cpu": 4}, "penalty": {}, "queue_weight": 0, "resource_weights": {}}
    case = {"source": "made up", "kind": "kueue-afs-usage", "input": given, "expected": {"usage": "+Inf"}}
    assert (found := schedulers.recomputed(case))["agrees"] is True and found["got"] == {"usage": "+Inf"}


def test_classic_factors_of_accounts_without_shares_are_zero() -> None:
    tree = {
        "a": {"parent": "root", "shares": 0, "usage": None},
        "u": {"parent": "a", "shares": 0, "usage": 30},
        "b": {"parent": "root", "shares": 1, "usage": 70},
    }
    found = {name: schedulers.slurm_classic({"tree": tree, "node": name}) for name in ("u", "b")}
    u = {"norm_shares": 0, "norm_usage": 0.3, "effective_usage": 0.3, "fairshare": 0, "level_fs": 0}
    assert found["u"] == u
    assert found["b"]["norm_shares"] == 1 and found["b"]["fairshare"] == pytest.approx(2**-0.7)


def test_karma_gives_no_slice_twice_and_only_lends_what_nobody_wants() -> None:
    draw = random.Random(3)
    credits = dict.fromkeys("ABCD", 100)
    for _ in range(300):
        demands = {user: draw.randint(0, 12) for user in "ABCD"}
        before, (slices, credits) = credits, schedulers.karma(demands, credits, 20, 0.4)
        assert sum(slices.values()) == min(20, sum(demands.values()))
        assert all(min(demands[user], 3) <= slices[user] <= demands[user] for user in "ABCD")
        borrowed = {user: max(0, slices[user] - 3) for user in "ABCD"}
        earned = {user: credits[user] - before[user] - 2 + borrowed[user] for user in "ABCD"}
        assert all(0 <= earned[user] <= max(0, 3 - demands[user]) for user in "ABCD")
        # who borrowed less than it wanted has no more credits left than who borrowed, give or take one slice
        short = [before[user] + 2 - borrowed[user] for user in "ABCD" if slices[user] < demands[user]]
        lenders = [before[user] + 2 - borrowed[user] for user in "ABCD" if borrowed[user]]
        assert not short or not lenders or max(short) <= min(lenders) + 1
