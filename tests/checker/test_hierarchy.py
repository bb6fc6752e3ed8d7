"""Hierarchical DRF from the levels at events, in the gate and the checker: altered events, objectives, random trees."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.hierarchy import drawn, filled

import fairopt as fo
from fairopt.errors import Infeasible, NotCertified
from fairopt.proof import gate
from fairopt.solve.cluster.filling import Filling

POOL = fo.Instance(
    [[4, 2], [4, 2], [1, 0]],
    [1000, 100],
    teams={"team": ["nlp", "vision", "vision"]},
    weights={"vision": 2},
)
DEEP = fo.Instance(
    [[3, 1], [1, 2], [1, 0], [0, 1], [2, 2]],
    [30, 20],
    task_limits=[1, None, None, None, 2],
    guarantees=[0, 2, 0, 0, 0],
    teams={
        "org": ["o", "o", "o", "o", None],
        "group": ["g", "g", "g", None, None],
        "team": ["y", "z", "z", None, None],
    },
)
WAITING = fo.Instance(
    [[1]] * 3,
    [[10], [10]],
    teams={"team": ["a", "b", "c"]},
    eligible=[[True, False], [True, False], [False, True]],
    guarantees=[0, 6, 0],
)
CASES = {
    "pool": (fo.HDRF(), POOL),
    "deep": (fo.HDRF(("org", "group", "team")), DEEP),
    "servers": (fo.HDRF(), WAITING),
}


def proved(data: dict[str, Any], folder: Path) -> tuple[bool, bool]:
    """Whether the gate and the checker accept an answer as it is saved."""
    file = folder / "changed.json"
    file.write_text(json.dumps(data))
    return fo.Allocation.load(file).certificate.ok, fo.verify(file).ok


def saved(case: str, folder: Path) -> dict[str, Any]:
    """A saved answer of a case, which is proved."""
    policy, instance = CASES[case]
    data: dict[str, Any] = json.loads(policy.allocate(instance).save(folder / "answer.json").read_text())
    assert proved(data, folder) == (True, True)
    return data


def with_states(data: dict[str, Any], states: list[Any]) -> dict[str, Any]:
    """The answer with other events, for the gate and for the checker."""
    data = copy.deepcopy(data)
    data["evidence"][0]["states"] = states
    return data


@pytest.mark.parametrize("case", CASES)
def test_altered_events_are_refused(case: str, tmp_path: Path) -> None:
    data = saved(case, tmp_path)
    states = data["evidence"][0]["states"]
    assert len(states) > 1
    altered: dict[str, list[Any]] = {"none": [], "missing": states[:-1], "later": [*states, states[-1]]}
    full = [k for k, state in enumerate(states) if state["full"]]
    for k in full:
        altered[f"missing {k}"] = states[:k] + states[k + 1 :]
        altered[f"extra {k}"] = [*states[: k + 1], states[k], *states[k + 1 :]]
        altered[f"no cause {k}"] = [*states[:k], states[k] | {"full": []}, *states[k + 1 :]]
        other = [r for r in range(len(data["instance"]["resources"])) if r not in states[k]["full"]]
        altered[f"other cause {k}"] = [*states[:k], states[k] | {"full": other or [9]}, *states[k + 1 :]]
    altered["order"] = states[::-1]
    for k, state in enumerate(states):
        for by in (0.999, 1.001):
            if state["levels"].get(""):
                levels = {**state["levels"], "": state["levels"][""] * by}
                altered[f"level {k} {by}"] = [*states[:k], state | {"levels": levels}, *states[k + 1 :]]
    for what, given_states in altered.items():
        assert proved(with_states(data, given_states), tmp_path) == (False, False), what


def test_an_event_before_a_jump_inside_a_team_may_not_be_left_out(tmp_path: Path) -> None:
    instance, _, policy = drawn(99)
    data = json.loads(policy.allocate(instance).save(tmp_path / "answer.json").read_text())
    first, second, *others = data["evidence"][0]["states"]
    assert not first["full"] and proved(data, tmp_path) == (True, True)
    merged = second | {"levels": first["levels"] | second["levels"]}
    assert proved(with_states(data, [merged, *others]), tmp_path) == (False, False)


@pytest.mark.parametrize("objective", [0, -1, 1e9, True, "0.5"])
@pytest.mark.parametrize("exact", [False, True])
def test_other_objectives_are_refused(objective: Any, exact: bool, tmp_path: Path) -> None:
    file = fo.HDRF().allocate(POOL, exact=exact).save(tmp_path / "answer.json")
    assert fo.verify(file).ok
    file.write_text(json.dumps(json.loads(file.read_text()) | {"objective": objective}))
    found = fo.verify(file)
    assert not found.ok and "objective" in str(found)


def test_the_objective_where_nobody_takes_part_is_0(tmp_path: Path) -> None:
    file = fo.HDRF().allocate(POOL.with_task_limits(0)).save(tmp_path / "answer.json")
    assert fo.verify(file).ok
    file.write_text(json.dumps(json.loads(file.read_text()) | {"objective": 1}))
    assert not fo.verify(file).ok


def test_files_without_events_are_to_be_upgraded(tmp_path: Path) -> None:
    data = saved("pool", tmp_path)
    del data["evidence"][0]["states"]
    file = tmp_path / "old.json"
    file.write_text(json.dumps(data))
    assert "written by 0.2; upgrade it with fairopt verify --upgrade" in fo.verify(file).statement


def test_an_answer_without_events_is_loaded_with_those_of_a_new_filling(tmp_path: Path) -> None:
    data = saved("servers", tmp_path)
    del data["evidence"][0]["states"]
    file = tmp_path / "old.json"
    file.write_text(json.dumps(data))
    again = fo.Allocation.load(file)
    assert again.certificate.ok and fo.verify(again.save(tmp_path / "upgraded.json")).ok
    data["tasks_by_server"][0][0] -= 0.01
    file.write_text(json.dumps(data))
    assert not fo.Allocation.load(file).certificate.ok


def test_a_team_in_two_teams_is_refused(tmp_path: Path) -> None:
    data = saved("deep", tmp_path)
    data["instance"]["teams"]["team"] = ["y", "y", "y", "y", "y"]  # so that groups are within teams
    with pytest.raises(fo.errors.InvalidInstance, match="lie within those of another label"):
        proved(data, tmp_path)
    assert not fo.verify(tmp_path / "changed.json").ok


def test_exact_levels_that_differ_by_little_are_refused(tmp_path: Path) -> None:
    file = fo.HDRF().allocate(POOL, exact=True).save(tmp_path / "answer.json")
    data = json.loads(file.read_text())
    levels = data["exact"]["proof"][0]["states"][0]["levels"]
    levels[""] = str(Fraction(levels[""]) + Fraction(1, 10**40))
    file.write_text(json.dumps(data))
    assert not fo.verify(file).ok


def test_a_wrong_filling_is_accepted_by_nobody(tmp_path: Path, monkeypatch: Any) -> None:
    """Teams that rise together rise at rates without their weights."""
    right = Filling.attach

    def wrong(self: Filling, child: Any, branch: Any) -> None:
        weight, child.weight = child.weight, 1.0
        right(self, child, branch)
        child.weight = weight

    monkeypatch.setattr(Filling, "attach", wrong)
    wrong_answers = 0
    for seed in range(30):
        instance, problem, policy = drawn(seed)
        exact = [float(x) for x in filled(problem)]
        try:
            answer = policy.allocate(instance)
        except NotCertified as error:
            assert error.best is not None
            answer = error.best
        if not np.allclose(answer.tasks, exact, rtol=1e-6, atol=1e-9):
            wrong_answers += 1
            assert not answer.certificate.ok and not fo.verify(answer.save(tmp_path / "answer.json")).ok
    assert wrong_answers > 5


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), servers=st.sampled_from([1, 1, 1, 3]), floors=st.booleans())
def test_random_trees_are_proved_and_those_of_the_oracle(
    seed: int, servers: int, floors: bool, tmp_path_factory: Any
) -> None:
    instance, problem, policy = drawn(seed, servers, floors)
    if not problem.fits():
        with pytest.raises(Infeasible):
            policy.allocate(instance)
        return
    answer = policy.allocate(instance)
    np.testing.assert_allclose(answer.tasks, [float(x) for x in filled(problem)], rtol=1e-7, atol=1e-9)
    assert fo.verify(answer.save(tmp_path_factory.mktemp("tree") / "answer.json"), instance).ok


def test_the_gate_makes_no_tasks() -> None:
    assert gate.of_filling(fo.HDRF(), POOL, np.zeros((3, 1)), {"kind": "filling"}, 0.0).certificate.ok is False


def test_tasks_that_miss_a_floor_by_more_than_constraints_may_are_refused(tmp_path: Path) -> None:
    floors = fo.Instance(
        [[1], [1]], [8], teams={"team": ["a", "b"]}, guarantees={"a": {"resource1": 6}}, task_limits=[6, None]
    )
    data = json.loads(fo.HDRF().allocate(floors).save(tmp_path / "a.json").read_text())
    assert data["tasks_by_server"] == [[6], [2]] and proved(data, tmp_path) == (True, True)
    data |= {"tasks_by_server": [[6 * (1 - 4e-7)], [2]]}  # levels are within 1e-6
    assert proved(data, tmp_path) == (False, False)
