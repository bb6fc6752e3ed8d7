"""Cases in the form of the file of published ones, which `test_schedulers_benchmark` reads where it is there."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import schedulers

DEFAULT_CPU = {"default": {"cpu": {"nominal": 4}}}
ROW = {"deserved": 0, "limit": None, "fair_share_before": 0, "priority": 0, "created": 0, "usage": 0, "allocated": 0}
KAI = {
    "function": "setResourceShare", "resource": "gpu", "total": 1, "k": 0,
    "queues": {name: {**ROW, "over_quota_weight": 1, "request": 0.6} for name in "ab"},
}  # fmt: skip
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("kai-division", KAI, {"fair_share": {"a": 1, "b": 0}, "remaining": 0}),
    ("kueue-weighted-share", {"weight": 0, "unweighted_ratio": 5}, {"share": "+Inf"}),
    ("kueue-weighted-share", {"weight": 0.3, "unweighted_ratio": 100}, {"share": "333.33333333333337"}),
    ("kueue-weighted-share", {"weight": 0, "unweighted_ratio": 0}, {"share": "0"}),
    (
        "kueue-drs",
        {
            "cluster_queues": {
                "a": {"cohort": "all", "weight": 0.5, "quota": {"spot": {"cpu": {"nominal": 2}}, **DEFAULT_CPU}},
                "b": {"cohort": "all", "weight": None, "quota": {"spot": {"cpu": {"nominal": 4}}}},
            },
            "cohorts": None, "usage": {"a": {"spot": {"cpu": 3}, "default": {"cpu": 5}}}, "assumed_extra": None,
        },
        {"a": {"value": 400, "resource": "cpu"}, "b": {"value": 0, "resource": ""}},
    ),
    (
        "kueue-preemption-order",
        {
            "cpu_nominal_by_queue": {"preemptor": [4, "all"], "target": [5, "all"]}, "cohorts": None,
            "admitted": [["target", 2]], "candidates": ["target"], "actions": None,
        },
        {"order": []},
    ),
    (
        "kueue-preemption-order",
        {
            "cpu_nominal_by_queue": {"preemptor": [4, None]}, "cohorts": None,
            "admitted": [["preemptor", 1], ["preemptor", 1]], "candidates": ["preemptor"], "actions": ["drop"],
        },
        {"order": ["preemptor"]},
    ),
    ("yunikorn-dominant", {"used": {"A": 1, "B": 3}, "capacity": {"A": 4, "B": 10}}, {"dominant": "B"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "expected"), CASES)
def test_a_case(kind: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    found = schedulers.recomputed({"source": "", "kind": kind, "input": given, "expected": expected})
    assert found["agrees"] is True, found


def test_a_case_that_cannot_be_read_is_one_that_does_not_agree() -> None:
    found = schedulers.recomputed({"source": "", "kind": "kai-division", "input": {}, "expected": {"remaining": 0}})
    assert found["agrees"] is False and found["got"].startswith("KeyError")
