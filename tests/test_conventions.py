"""One convention each, over every public call and result."""

import inspect
import json
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rooms import ROOMS, kit_of

import fairopt as fo
from fairopt.policies.bottleneck import BottleneckVerdict
from fairopt.tradeoff.frontier import _digest

PLACES = (fo, fo.datasets, fo.metrics, fo.tradeoff.preferences, *(getattr(fo, room) for room in ROOMS))
POOL = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])


def named() -> Iterator[tuple[str, Any]]:
    """Public classes and functions for users by name."""
    for place in PLACES:
        room = place.__name__.removeprefix("fairopt.")
        for name in place.__all__:
            if room in ROOMS and name in kit_of(room):
                continue
            found = getattr(place, name)
            if callable(found) and not (inspect.isclass(found) and issubclass(found, Exception)):
                yield f"{place.__name__}.{name}", found


CLASSES = {name: kind for name, kind in named() if inspect.isclass(kind)}


def calls() -> Iterator[tuple[str, list[inspect.Parameter]]]:
    """Every public function and method with its parameters, without ``self``."""
    for name, found in named():
        if not inspect.isclass(found):
            yield name, [*inspect.signature(found).parameters.values()]
            continue
        for key, value in vars(found).items():
            function = getattr(value, "__func__", value)
            if not key.startswith("_") and inspect.isfunction(function):
                yield (
                    f"{name}.{key}",
                    [*inspect.signature(function).parameters.values()][not isinstance(value, staticmethod) :],
                )


CALLS = dict(calls())


def test_a_policy_is_the_first_argument_and_called_policy_and_the_instance_the_second() -> None:
    for name, parameters in CALLS.items():
        names = [p.name for p in parameters]
        assert not {"mechanism", "notion"} & {*names}, name
        required = [p.name for p in parameters if p.default is p.empty]
        if "policy" in required:
            assert names[0] == "policy", name
            assert names[1] == "instance" or "instance" not in names, name


def test_limits_of_time_are_called_time_limit_and_come_by_name() -> None:
    for name, parameters in CALLS.items():
        assert not {"timeout", "seconds", "max_seconds"} & {p.name for p in parameters}, name
        assert all(p.kind is p.KEYWORD_ONLY for p in parameters if p.name == "time_limit"), name


def test_tolerances_are_called_tol_and_have_one_default_for_allocations_and_one_for_mechanisms() -> None:
    defaults: dict[bool, set[float]] = {True: set(), False: set()}
    for name, parameters in CALLS.items():
        names = {p.name for p in parameters}
        assert not {"tolerance", "eps", "rtol"} & names and ("tol" in names or "atol" not in names), name
        for p in parameters:
            if p.name == "tol":
                defaults[parameters[0].name == "policy"].add(p.default)
    assert defaults == {True: {1e-5}, False: {1e-6}}


def test_results_that_pass_or_fail_have_ok() -> None:
    kinds = [
        "Certificate",
        "Verdict",
        "PropertyReport",
        "AuditReport",
        "Finding",
        "Proof",
        "ProofReport",
        "Verification",
    ]
    found = {name.rpartition(".")[2]: kind for name, kind in CLASSES.items()}
    for kind in (*(found[name] for name in kinds), fo.checker.Verification, BottleneckVerdict):
        assert hasattr(kind, "ok") or "ok" in kind.__dataclass_fields__, kind


def test_tables_have_a_true_type() -> None:
    pandas = pytest.importorskip("pandas")
    kinds = {kind for kind in CLASSES.values() if hasattr(kind, "rows") or hasattr(kind, "to_frame")}
    results = {kind for kind in kinds if not issubclass(kind, (fo.Constraint, fo.Objective))}
    names = {fo.Allocation, fo.report.Comparison, fo.online.Timeline, fo.tradeoff.Frontier, fo.derivatives.Sensitivity}
    assert results >= names | {fo.properties.PropertyReport, fo.properties.AuditReport, fo.properties.ProofReport}
    for kind in results:
        function: Callable[..., Any] = kind.to_frame
        assert function.__annotations__["return"] == "pd.DataFrame", kind
    table = fo.check(fo.DRF().allocate(POOL), ["pe", "si"]).to_frame()
    assert isinstance(table, pandas.DataFrame) and list(table.index) == ["pareto", "sharing-incentive"]


def test_what_is_saved_can_be_loaded() -> None:
    read_by_verify = fo.certificate.ProblemCertificate
    kinds = [kind for kind in CLASSES.values() if hasattr(kind, "save") and kind is not read_by_verify]
    assert len(set(kinds)) == 4 and all(hasattr(kind, "load") for kind in kinds)


def test_a_saved_audit_loads_as_it_was(tmp_path: Path) -> None:
    report = fo.audit(fo.MostTasks(), ["si", "pe"], max_examples=40)
    again = fo.properties.AuditReport.load(report.save(tmp_path / "audit.json"))
    assert again.to_dict() == report.to_dict() and again.policy == fo.MostTasks()
    assert not again.ok and not again["si"].ok and again["pe"].ok


def test_a_saved_frontier_loads_as_it_was(tmp_path: Path) -> None:
    curve = fo.frontier("pnorm:alpha=2", POOL, {"p": [1, float("inf")]})
    again = fo.tradeoff.Frontier.load(curve.save(tmp_path / "curve.json"))
    assert again.to_dict() == curve.to_dict() and again.grid == curve.grid and again.instance == POOL
    assert again.to_frame().equals(curve.to_frame()) and {*again.drf} == {*curve.drf}
    early = {"format": "fairopt.frontier/1", "of": {}}
    (tmp_path / "early.json").write_text(json.dumps(early | {"digest": _digest(early)}))
    with pytest.raises(fo.errors.InvalidInstance, match="earlier version"):
        fo.tradeoff.Frontier.load(tmp_path / "early.json")


@pytest.mark.parametrize(
    "read", [fo.read, fo.Allocation.load, fo.online.Timeline.load, fo.tradeoff.Frontier.load, fo.properties.replay]
)
def test_a_file_that_is_missing_raises(read: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(fo.errors.InvalidInstance, match=r"missing\.json"):
        read(tmp_path / "missing.json")


def test_verify_raises_where_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file .*Allocation\.save"):
        fo.verify(tmp_path / "missing.json")


def test_a_verdict_that_holds_has_no_witness_and_keeps_its_details() -> None:
    for verdict in fo.check(fo.DRF().allocate(POOL)).values():
        assert verdict.ok is (verdict.holds is True)
        assert verdict.witness is (None if verdict.holds else verdict.details)
    assert fo.check(fo.MostTasks().allocate(POOL), "si")["si"].witness.worst == "batch"


def test_prove_returns_one_type() -> None:
    assert typing.get_type_hints(fo.prove)["return"] is fo.properties.ProofReport
