"""benchmarks/schedulers.py: cases that deployed schedulers state, and how they are compared."""

from __future__ import annotations

import json
import os
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
