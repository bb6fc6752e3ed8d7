"""Saved answers of users' objectives by their terms: proved as the built-in blocks that they equal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import pytest

import fairopt as fo
from fairopt.blocks.built_in import in_built_in
from fairopt.blocks.normal_form import Kind, Linear, Order, Power, Ranked, Term

INSTANCES = {
    "pool": fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], weights=[1, 3]),
    "servers": fo.datasets.demo(),
}


@dataclass(frozen=True, repr=False)
class Mine(fo.Objective):
    parts: tuple[Any, ...]  # factor, kind, share

    def terms(self) -> tuple[Term, ...]:
        return tuple(Term(*part) for part in self.parts)


@dataclass(frozen=True, repr=False)
class Mean(fo.Share):
    def per_task(self, instance: fo.Instance) -> Any:
        return instance.ratios.mean(axis=-1)


D, T = fo.DominantShare(), fo.Tasks()
TWO = Mine(((1.0, Ranked((1.0, 1.0)), D), (1e-4, Linear(), T)))
SAME = {
    "sum": (TWO, fo.OrderedWeighted((1, 1)) + 1e-4 * fo.Total(T)),
    "linear": (Mine(((2.0, Linear(), D),)), 2 * fo.Total()),
    "power": (Mine(((0.5, Power(2.0), D),)), 0.5 * fo.AlphaFair(2)),
    "power 0": (Mine(((1.0, Power(0.0), D),)), fo.Total()),
    "powers": (Mine(((1.0, Power(2.0), D), (0.5, Power(1.0), T))), fo.AlphaFair(2) + 0.5 * fo.AlphaFair(1, T)),
    "least": (Mine(((2.0, Ranked((3.0, 0.0)), T),)), 6 * fo.MaxMin(T)),
    "order": (Mine(((1.0, Order(), D),)), fo.Leximin()),
    "multiple": (0.1 * TWO + fo.Total(), 0.1 * fo.OrderedWeighted((1, 1)) + 0.1 * 1e-4 * fo.Total(T) + fo.Total()),
    "tiers": (
        Mine(((1.0, Ranked((1.0,)), D),)).then(TWO),
        fo.MaxMin().then(fo.OrderedWeighted((1, 1)) + 1e-4 * fo.Total(T)),
    ),
    "own share": (Mine(((1.0, Order(), Mean()),)), fo.Leximin(Mean())),
}
CASES = [pytest.param(*pair, INSTANCES[on], id=f"{name}, {on}") for name, pair in SAME.items() for on in INSTANCES]


@pytest.mark.parametrize(("mine", "built_in", "instance"), CASES)
def test_an_objective_by_terms_is_saved_and_proved_as_built_in_blocks(
    mine: fo.Objective, built_in: fo.Objective, instance: fo.Instance, tmp_path: Path
) -> None:
    policy = fo.Policy(mine, [fo.SharingIncentive()])
    answer = policy.allocate(instance)
    file = answer.save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    assert data["policy"] == repr(fo.Policy(built_in, [fo.SharingIncentive()]))
    assert data["user_policy"] == repr(policy)
    proof = fo.verify(file, instance)
    assert proof.ok and "code is not in the file" in proof.not_proved["user_policy"]
    loaded = fo.Allocation.load(file, policy=policy)
    assert loaded.policy is policy and loaded.certificate.ok
    assert fo.verify(loaded.save(tmp_path / "b.json")).ok


def test_a_lower_bound_on_ones_own_objective_is_proved(tmp_path: Path) -> None:
    policy = fo.Policy(fo.Total(), [Mine(((2.0, Power(1.0), D),)) >= -20])
    file = policy.allocate(INSTANCES["pool"]).save(tmp_path / "a.json")
    assert fo.verify(file).ok
    assert fo.Allocation.load(file).policy == fo.Policy(fo.Total(), [2 * fo.AlphaFair(1) >= -20])


@pytest.mark.parametrize("change", ["tasks", "objective", "factor", "price"])
def test_a_changed_file_is_not_proved(change: str, tmp_path: Path) -> None:
    file = fo.Policy(TWO).allocate(INSTANCES["pool"]).save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    if change == "tasks":
        data["tasks_by_server"][0][0] *= 0.99
    elif change == "objective":
        data["objective"] *= 1.01
    elif change == "factor":
        data["policy"] = data["policy"].replace("0.0001", "0.5")
    else:
        data["evidence"][0]["prices"][0][0] *= 0.5
    file.write_text(json.dumps(data))
    assert not fo.verify(file).ok


RATIONAL = [name for name in SAME if name not in ("power", "powers", "own share")]


@pytest.mark.parametrize("name", RATIONAL)
def test_exact_answers_equal_those_of_built_in_blocks(name: str, tmp_path: Path) -> None:
    mine, built_in = (fo.Policy(one) for one in SAME[name])
    for instance in INSTANCES.values():
        answer, known = mine.allocate(instance, exact=True), built_in.allocate(instance, exact=True)
        assert answer.exact_tasks is not None and (answer.exact_tasks == known.exact_tasks).all()
        assert answer.policy is mine and answer.exact_bounds() == known.exact_bounds()
        file = answer.save(tmp_path / "a.json")
        assert fo.verify(file).gap == 0 and fo.Allocation.load(file, policy=mine).certificate.ok


@pytest.mark.parametrize("name", ["power", "powers"])
def test_irrational_optima_are_enclosed_as_those_of_built_in_blocks(name: str) -> None:
    mine, built_in = (fo.Policy(one).allocate(INSTANCES["pool"]).exact_bounds() for one in SAME[name])
    assert mine.lower <= built_in.upper and built_in.lower <= mine.upper


@dataclass(frozen=True)
class OwnKind(Kind):
    def expression(self, share: Any, model: fo.Model) -> Any:
        return cp.sum(cp.sqrt(model.share(share)))

    def value(self, share: Any, point: Any) -> float:
        return float((point.share(share) ** 0.5).sum())


class Contradicts(Mine):
    def expression(self, model: fo.Model) -> Any:
        return cp.sum(cp.sqrt(model.tasks))


OTHERS: Mapping[str, Any] = {
    "own kind": Mine(((1.0, OwnKind(), D),)),
    "multiple of an order": Mine(((2.0, Order(), D),)),
    "expression beside terms": Contradicts(((1.0, Linear(), D),)),
    "function": lambda model: cp.sum(cp.sqrt(model.tasks)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_objectives_stay_as_they_are(name: str) -> None:
    policy = fo.Policy(OTHERS[name])
    assert in_built_in(policy) is policy
    with pytest.raises(fo.errors.OutOfDomain, match="computed by code"):
        policy.allocate(INSTANCES["pool"], exact=True)


def test_a_file_of_other_blocks_is_proved_as_it_is_written(tmp_path: Path) -> None:
    file = fo.Policy(OTHERS["function"]).allocate(INSTANCES["pool"]).save(tmp_path / "a.json")
    assert "user_policy" not in json.loads(file.read_text())
    assert "as written in the file" in fo.verify(file).statement
