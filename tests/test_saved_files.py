"""Files that were saved before, in tests/data, are loaded and judged today as they were then.

Those that begin with ``first`` are of the first format (fairopt.allocation/1), written by the version that had it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import pytest
from numpy.testing import assert_array_equal

import fairopt as fo
from fairopt.checker import answer as checker
from fairopt.checker.tiers import KINDS
from fairopt.policies import loading as reading

DATA = Path(__file__).parent / "data"
TASKS = {  # by hand for DRF, H-FFMRA and PS-DSF; to the digits that the certified gap allows for the others
    "pool-drf": [5 / 3, 50 / 3, 0],
    "pool-total": [0, 25, 0],
    "pool-bottleneck": [5 / 3, 50 / 3, 0],
    "pool-bundles": [2.5, 12.5, 0],
    "by-server-fds": [68 / 11, 34 / 11],
    "by-server-bundles": [4.2, 3.85],
    "servers-leximin": [77 / 19, 3, 55 / 19],
    "servers-fds": [3.75, 3, 3.5],
    "servers-tiers": [3.75, 3, 3.5],
    "servers-constraints": [3.75, 3, 2],
    "servers-psdsf": [4.4, 3, 2.2],
    "servers-alone": [4, 3, 2],
} | (
    PROVED := {  # with what proves them in the form of `verify`, and each kind of evidence that those above have not
        "pool-ordered": [5 / 3, 25 / 3, 10 / 3],
        "pool-envy": [2.5, 6.25, 2.5],
        "pool-sum": [1.5894359, 8.8969271, 3.2623573],
        "servers-plane": [1.75, 3, 1.25],
        "servers-rows": [1.6, 88 / 15, 44 / 45, 0.8],
        "servers-curved": [77 / 19, 3, 55 / 19],
        "servers-whole": [3, 3, 3],
        "servers-orders": [15 / 7, 36 / 7, 6 / 7, 15 / 14],
        "servers-teams": [786 / 185, 0, 588 / 185, 4 / 37],
    }
)
METHODS_SINCE = {"servers-constraints": "prices"}  # of those that another method solves now
ALLOCATIONS = [path.name for path in sorted(DATA.iterdir()) if path.stem.removeprefix("first-") in TASKS]
AUDITS = {
    "audit-fds.json": ["sharing-incentive", "strategy-proof", "population-monotone", "resource-monotone"],
    "audit-drfh-servers.json": ["sharing-incentive"],
    "audit-psdsf-servers.json": ["pareto"],
}


@dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    """The mean of the parts of all resources."""

    def per_task(self, instance: fo.Instance) -> Any:
        return instance.ratios.mean(axis=-1)


@dataclass(frozen=True, repr=False)
class Saturating(fo.Objective):
    """Of one's own, so that files hold its policy as text only."""

    rate: float

    def expression(self, model: Any) -> Any:
        return -cp.sum(cp.exp(-self.rate * model.tasks))


CURRENT = sorted((DATA / "format-4").glob("*.json"))  # of the format that is saved now, one of each kind of evidence


def raw(name: str) -> dict[str, Any]:
    """What a file says, read without fairopt."""
    if name.endswith(".json"):
        return dict(json.loads((DATA / name).read_text(encoding="utf-8")))
    table = pytest.importorskip("pyarrow.parquet").read_table(DATA / name).to_pydict()
    return {part: json.loads(text) for part, text in zip(table["part"], table["json"], strict=True)}


def test_there_are_allocations_of_all_formats_and_of_every_kind() -> None:
    assert {Path(name).stem.removeprefix("first-") for name in ALLOCATIONS} == set(TASKS)
    of_format = {k: [n for n in ALLOCATIONS if raw(n)["format"] == f"fairopt.allocation/{k}"] for k in (1, 2, 3)}
    assert of_format[1] == [name for name in ALLOCATIONS if name.startswith("first-")] and len(of_format[1]) == 6
    assert all("evidence" not in raw(name) for name in of_format[1])
    assert len(of_format[2]) == 14 and sorted(of_format[3]) == sorted(f"{name}.json" for name in PROVED)
    assert all(raw(name)["evidence"] is not None for name in of_format[2] + of_format[3])


@pytest.mark.parametrize("name", PROVED)
def test_a_file_is_proved_and_saved_anew_without_a_solver(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fo.verify(DATA / f"{name}.json").ok
    loaded = fo.Allocation.load(DATA / f"{name}.json")
    monkeypatch.setattr(cp.Problem, "solve", None)
    again = loaded.save(tmp_path / "again.json")
    assert fo.verify(again).ok
    kept = fo.Allocation.load(again)  # by the evidence of the file alone
    assert kept.evidence == loaded.evidence


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_a_saved_allocation_is_loaded_and_certified(name: str) -> None:
    data = raw(name)
    loaded = fo.Allocation.load(DATA / name)
    assert loaded.certificate.ok and loaded.certificate.note == data["certificate"]["note"]
    assert (loaded.certificate.method, loaded.certificate.solver) == (
        data["certificate"]["method"],
        data["certificate"]["solver"],
    )
    assert_array_equal(loaded.tasks_by_server, data["tasks_by_server"])
    assert_array_equal(loaded.bundles if data["bundles"] is not None else [], data["bundles"] or [])
    assert loaded.tasks == pytest.approx(TASKS[Path(name).stem.removeprefix("first-")], rel=1e-6, abs=1e-12)
    assert repr(loaded.policy) == data["policy"]
    assert loaded.objective == pytest.approx(data["objective"], rel=1e-14)  # summed in other ways since it was saved


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_the_policy_of_a_file_gives_the_same_tasks_again(name: str) -> None:
    loaded = fo.Allocation.load(DATA / name)
    again = loaded.policy.allocate(loaded.instance, **({} if loaded.placement is None else {"integral": True}))
    assert again.tasks == pytest.approx(loaded.tasks, rel=1e-6, abs=1e-9)
    now = METHODS_SINCE.get(Path(name).stem.removeprefix("first-"), loaded.certificate.method)
    assert again.certificate.method == now


def test_a_policy_of_ones_own_stays_text_and_is_not_certified() -> None:
    loaded = fo.Allocation.load(DATA / "pool-own.json")
    assert loaded.policy == "Policy(Saturating(0.5))"
    assert not loaded.certificate.ok and loaded.certificate.note == "the file holds only the text of its policy"
    assert loaded.certificate.violation <= 1e-9
    assert fo.Policy(Saturating(0.5)).allocate(loaded.instance).tasks == pytest.approx(loaded.tasks, rel=1e-3)


def test_tasks_that_are_not_the_best_are_loaded_without_a_certificate() -> None:
    """The second user runs half of what DRF gives, which the file calls certified."""
    assert raw("wrong-drf.json")["certificate"]["gap"] == 0
    loaded = fo.Allocation.load(DATA / "wrong-drf.json")
    assert loaded.tasks == pytest.approx([5 / 3, 25 / 3, 0])
    assert not loaded.certificate.ok and loaded.certificate.gap == pytest.approx(1)  # the least could be twice as much


def test_tasks_beyond_the_capacities_are_refused() -> None:
    with pytest.raises(fo.errors.InvalidInstance, match=r"edited-fds\.json: its tasks exceed a capacity.*was changed"):
        fo.Allocation.load(DATA / "edited-fds.json")


@pytest.mark.parametrize("name", AUDITS)
def test_the_witnesses_of_a_saved_audit_refute_again(name: str) -> None:
    replayed = fo.properties.replay(DATA / name)
    assert [one.property for one in replayed] == AUDITS[name]
    assert all(one.refutes for one in replayed)
    assert [one.margin for one in replayed] == pytest.approx([one.saved for one in replayed], rel=1e-6)
    on_servers = {one.instance.n_servers > 1 for one in replayed}
    assert on_servers == {name.endswith("servers.json")}


def test_the_witness_against_a_mechanism_of_ones_own_needs_the_mechanism() -> None:
    with pytest.raises(fo.errors.InvalidInstance, match=r"Saturating.*replay\(path, policy="):
        fo.properties.replay(DATA / "audit-own.json")
    (again,) = fo.properties.replay(DATA / "audit-own.json", fo.Policy(Saturating(0.5)))
    assert again.refutes and again.property == "sharing-incentive"


@pytest.mark.parametrize("name", PROVED)
def test_a_file_of_an_earlier_version_is_upgraded_with_its_tasks(name: str, tmp_path: Path) -> None:
    old, new = DATA / f"{name}.json", tmp_path / "new.json"
    assert "fairopt verify --upgrade" in str(checker.verify(old))
    before, after = raw(f"{name}.json"), json.loads(reading.upgrade(old, new).read_text(encoding="utf-8"))
    for key in ("policy", "tasks_by_server", "bundles", "placement"):
        assert after.get(key) == before.get(key)
    assert checker.verify(new).ok


@pytest.mark.fast_methods
@pytest.mark.parametrize("path", CURRENT, ids=lambda path: path.stem)
def test_a_file_of_the_current_format_is_proved_and_loaded_as_it_was_saved(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["format"] == "fairopt.allocation/4"
    found = checker.verify(path)
    assert found.ok and found.gap <= 1e-6
    loaded = fo.Allocation.load(path)
    assert loaded.certificate.ok and loaded.tasks_by_server.tolist() == data["tasks_by_server"]
    assert loaded.objective == pytest.approx(data["objective"], rel=1e-14)
    assert as_read(list(loaded.evidence)) == as_read(data["evidence"])


def as_read(value: Any) -> Any:
    """Evidence with its numbers to nine digits: those of solvers go through other units."""
    if isinstance(value, dict):
        return {key: as_read(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_read(part) for part in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_files_of_the_current_format_hold_every_kind_of_evidence_that_the_checker_reads() -> None:
    entries = [json.loads(path.read_text(encoding="utf-8"))["evidence"] for path in CURRENT]
    assert {entry["kind"] for of_file in entries for entry in of_file} == {*KINDS, "bundles", "filling"}
    assert sum(path.stat().st_size for path in CURRENT) < 30_000


def test_an_upgrade_that_would_change_the_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, load = DATA / "pool-sum.json", tmp_path / "new.json", reading.load

    def other(path: Path) -> fo.Allocation:
        loaded = load(path)
        return replace(loaded, tasks_by_server=loaded.tasks_by_server * 0.5)

    monkeypatch.setattr(reading, "load", other)
    with pytest.raises(fo.errors.InvalidInstance, match="tasks_by_server would change"):
        reading.upgrade(old, new)
    assert not new.exists() and not fo.verify(old).ok


def test_a_policy_of_which_only_the_text_is_known_is_saved_again_with_its_proof(tmp_path: Path) -> None:
    cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    file = fo.Policy(fo.AlphaFair(2, MeanShare())).allocate(cluster).save(tmp_path / "a.json")
    again = fo.Allocation.load(file).save(tmp_path / "b.json")
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (file, again))
    assert {name for name in before if before[name] != after.get(name)} == {"certificate"}
    assert fo.verify(again).ok and "taken as given" in str(fo.verify(again))


def test_a_file_whose_policy_is_not_at_hand_keeps_its_text_when_it_is_upgraded_in_place(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_bytes((DATA / "pool-own.json").read_bytes())
    text = raw("pool-own.json")["policy"]
    assert reading.upgrade(file, file) == file
    after = json.loads(file.read_text(encoding="utf-8"))
    assert after["policy"] == text and after["format"] == reading.FORMAT
    said = str(fo.verify(file))
    assert "only the text of its policy; load it with the policy" in said and "capacities, limits" in said


def test_an_upgrade_that_fails_leaves_the_file_that_it_would_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, load = DATA / "pool-sum.json", tmp_path / "new.json", reading.load
    new.write_text("before", encoding="utf-8")
    monkeypatch.setattr(reading, "load", lambda path: replace(load(path), policy=fo.DRF()))
    with pytest.raises(fo.errors.InvalidInstance, match="policy would change"):
        reading.upgrade(old, new)
    assert new.read_text(encoding="utf-8") == "before"


@pytest.mark.parametrize("part", [{"prices": [[True] * 3]}, {"objective": "0.33333333333333337"}])
def test_a_truth_value_or_a_text_is_no_number_in_files_of_earlier_versions_either(
    part: dict[str, Any], tmp_path: Path
) -> None:
    file, data = tmp_path / "a.json", raw("pool-drf.json")
    assert float(data["objective"]) == pytest.approx(1 / 3)
    file.write_text(json.dumps(data | part), encoding="utf-8")
    found = fo.verify(file)
    assert not found.ok and "a text or a truth value stands for a number" in str(found)


def test_numbers_out_of_range_in_files_of_earlier_versions_are_not_proved(tmp_path: Path) -> None:
    file, data = tmp_path / "a.json", raw("servers-constraints.json")
    data["instance"]["capacities"][0][0] = 1e300
    file.write_text(json.dumps(data), encoding="utf-8")
    found = fo.verify(file)
    assert not found.ok and "lie between 1e-60 and 1e60" in str(found)
