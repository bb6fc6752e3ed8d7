"""Cases that schedulers' own tests state, recomputed; where the file of cases is not there, they are skipped."""

import json
import os
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CASES = Path(os.environ.get("FAIROPT_CASES", ROOT.parent / "shared" / "data" / "schedulers" / "cases.json"))
spec = spec_from_file_location("schedulers_queues", ROOT / "benchmarks" / "schedulers_queues.py")
assert spec is not None and spec.loader is not None
benchmark: Any = module_from_spec(spec)
spec.loader.exec_module(benchmark)


@pytest.mark.skipif(
    not CASES.exists(), reason="the cases of schedulers' tests are not here; set FAIROPT_CASES to the file"
)
@pytest.mark.parametrize("kind", sorted(benchmark.KINDS))
def test_all_cases_of_a_kind(kind: str) -> None:
    cases = [case for case in json.loads(CASES.read_text(encoding="utf-8")) if case["kind"] == kind]
    wrong = [
        case["source"] for case in cases if not benchmark.same(case["expected"], benchmark.KINDS[kind](case["input"]))
    ]
    assert wrong == []


def test_a_wrong_answer_does_not_agree() -> None:
    assert not benchmark.same({"a": [1, 2]}, {"a": [1, 2.1]}) and not benchmark.same({"a": 1}, {})
    assert benchmark.same({"a": None, "b": {"c": 1}}, {"b": {"c": 1.0}, "a": 3})
