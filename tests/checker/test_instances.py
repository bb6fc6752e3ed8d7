"""What `Instance` refuses, no file may hold; and numbers that files state are computed again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fairopt as fo

TEAMS = {"team": ["s", "s", "t"], "org": ["x", "y", "y"]}
CLUSTER = fo.Instance(
    [[1, 2], [2, 1], [1, 1]],
    [[10, 12], [14, 8]],
    users=["a", "b", "c"],
    teams=TEAMS,
    weights={"a": 2, "t": 3},
    guarantees={"a": 1, "t": {"resource1": 1}},
    rates=[[1, 1], [1, 2], [1, 1]],
    held=[[1, 0], [0, 0], [0, 1]],
)

Change = Callable[[dict[str, Any]], Any]
CHANGES: dict[str, Change] = {
    "a negative weight": lambda given: given["weights"].update(a=-1),
    "a weight of 0": lambda given: given["weights"].update(b=0),
    "a negative weight of a team": lambda given: given["weights"].update(t=-1),
    "a weight of a team is true": lambda given: given["weights"].update(t=True),
    "a weight of a team by resource": lambda given: given["weights"].update(t={"resource1": 1}),
    "a negative guarantee": lambda given: given["guarantees"].update(a=-1),
    "a negative guarantee of a team": lambda given: given["guarantees"].update(t={"resource1": -1}),
    "a guarantee of a team in tasks": lambda given: given["guarantees"].update(t=1),
    "an unknown team": lambda given: given["guarantees"].update(u={"resource1": 1}),
    "a team named like one of two members": lambda given: given["teams"].update(team=["a", "a", "t"]),
    "a team with two labels": lambda given: given["teams"].update(org=["s", "y", "y"]),
    "no label for a user": lambda given: given["teams"].update(team=["s", "s"]),
    "held is empty": lambda given: given.update(held=[]),
    "held is a number": lambda given: given.update(held=-1),
    "held is negative": lambda given: given["held"][0].__setitem__(0, -1),
    "held is true": lambda given: given["held"][0].__setitem__(0, True),
    "a negative rate": lambda given: given["rates"][0].__setitem__(0, -1),
    "no rate of a user": lambda given: given["rates"].__setitem__(0, [0, 0]),
    "a negative demand": lambda given: given["demands"][0].__setitem__(0, -1),
    "a demand is true": lambda given: given["demands"][0].__setitem__(0, True),
    "no demand": lambda given: given["demands"].__setitem__(0, [0, 0]),
    "a negative capacity": lambda given: given["capacities"][0].__setitem__(0, -1),
    "half a server": lambda given: given["counts"].__setitem__(0, 1.5),
    "a negative limit": lambda given: given["task_limits"].__setitem__(0, -1),
    "two users of one name": lambda given: given["users"].__setitem__(1, "a"),
    "a label is half of a surrogate pair": lambda given: given["users"].__setitem__(1, "\ud800"),
    "labels of servers are one text": lambda given: given.update(servers="ab"),
    "a team is a number": lambda given: given["teams"]["team"].__setitem__(1, 1),
    "a team has no name": lambda given: given["teams"]["team"].__setitem__(1, ""),
    "labels of teams are one text": lambda given: given["teams"].update(org="xyy"),
    "guarantees are a text": lambda given: given.update(guarantees=""),
    "guarantees are empty": lambda given: given.update(guarantees=[]),
    "a type of one of two servers": lambda given: given.update(server_types=["T4"]),
    "a type of servers is a number": lambda given: given.update(server_types=["T4", 4]),
    "types of servers are one text": lambda given: given.update(server_types="T4"),
    "a type of servers is empty": lambda given: given.update(server_types=["T4", ""]),
    "a unit of one of two resources": lambda given: given.update(units=["GB"]),
    "a unit is a number": lambda given: given.update(units=["GB", 1]),
    "a unit in brackets": lambda given: given.update(units=["[GB]", ""]),
    "a unit of two lines": lambda given: given.update(units=["G\nB", ""]),
    "nowhere to run": lambda given: given.update(eligible=[[False, False], [True, True], [True, True]]),
}


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("answers") / "answer.json"
    assert fo.verify(fo.Policy(fo.AlphaFair(2)).allocate(CLUSTER).save(path), CLUSTER).ok
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize("name", CHANGES)
def test_what_an_instance_refuses_is_not_proved(name: str, answer: dict[str, Any], tmp_path: Path) -> None:
    changed = json.loads(json.dumps(answer))
    CHANGES[name](changed["instance"])
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(changed))
    found = fo.verify(path)
    assert not found.ok and found.faults, found
    if name.endswith("is true"):  # which NumPy reads as 1
        return
    with pytest.raises((fo.errors.InvalidInstance, KeyError, TypeError)):
        fo.Instance(**changed["instance"])


def test_a_user_does_not_run_where_its_rate_is_0(tmp_path: Path) -> None:
    given = fo.Instance([[1], [2]], [[4], [6], [5]], rates=[[1, 1, 1], [0, 2, 1]])
    path = fo.Policy(fo.Total(fo.ThroughputShare())).allocate(given).save(tmp_path / "answer.json")
    assert fo.verify(path).ok
    changed = json.loads(path.read_text())
    where = next(s for s in range(3) if changed["tasks_by_server"][1][s])
    changed["instance"]["rates"][1] = [1 if s != where else 0 for s in range(3)]
    changed["instance"]["eligible"] = None
    path.write_text(json.dumps(changed))
    assert not fo.verify(path).ok


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("stated", [0, -1, 1e9, True, "1", float("nan")])
def test_the_objective_of_a_hierarchy_is_the_smallest_share_of_the_top_level(
    stated: Any, exact: bool, tmp_path: Path
) -> None:
    given = fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 12], teams={"team": ["s", "s", "t"]}, weights={"t": 3})
    path = fo.HDRF().allocate(given, exact=exact).save(tmp_path / "answer.json")
    assert fo.verify(path).ok
    path.write_text(json.dumps(json.loads(path.read_text()) | {"objective": stated}))
    found = fo.verify(path)
    assert not found.ok and "objective" in str(found)


@pytest.mark.parametrize("base", [None, [2, 0, 1]])
def test_ideals_of_kalai_and_smorodinsky_follow_from_the_instance(base: Any, tmp_path: Path) -> None:
    given = fo.Instance([[1, 2], [2, 1], [1, 1]], [20, 24], task_limits=[6, None, None])
    path = fo.KalaiSmorodinsky(base).allocate(given).save(tmp_path / "answer.json")
    found = fo.verify(path)
    assert found.ok and "as given" not in found.statement
    changed = json.loads(path.read_text())
    changed["instance"]["task_limits"][0] = 5.5
    path.write_text(json.dumps(changed))
    assert not fo.verify(path).ok


CHANGED_IDEALS: dict[str, Change] = {
    "a capacity": lambda data: data["instance"]["capacities"][1].__setitem__(1, 30),
    "a server": lambda data: data["instance"]["eligible"][2].__setitem__(1, True),
    "a limit": lambda data: data["instance"]["task_limits"].__setitem__(0, 5.9),
    "prices of another user": lambda data: data["ideals"]["IdealGain()"].reverse(),
    "a lower price": lambda data: data["ideals"]["IdealGain()"][1].update(prices=[[0, 0], [0, 0]]),
    "fewer tasks": lambda data: data["ideals"]["IdealGain()"][1].update(tasks=[]),
    "more tasks": lambda data: data["ideals"]["IdealGain()"][1]["tasks"][0].__setitem__(2, 100),
    "one proof less": lambda data: data["ideals"]["IdealGain()"].pop(),
    "no proofs": lambda data: data.pop("ideals"),
    "coefficients as given": lambda data: data.update(given={"IdealGain()": [0.1, 0.1, 0.1]}),
}


@pytest.mark.parametrize("name", CHANGED_IDEALS)
def test_ideals_on_servers_are_proved_by_prices_and_a_placement(name: str, tmp_path: Path) -> None:
    given = fo.Instance(
        [[1, 2], [2, 1], [1, 1]],
        [[20, 24], [10, 6]],
        task_limits=[6, None, None],
        guarantees=[2, 0, 1],
        eligible=[[True, True], [True, True], [True, False]],
    )
    path = fo.KalaiSmorodinsky().allocate(given).save(tmp_path / "answer.json")
    found = fo.verify(path, given)
    assert found.ok and "as given" not in found.statement
    changed = json.loads(path.read_text())
    CHANGED_IDEALS[name](changed)
    path.write_text(json.dumps(changed))
    assert not fo.verify(path).ok
