"""Levels in fractions: what proves them, and what does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.chains import chain

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof.evidence.exact_levels import ExactLevels
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program

# the first user is stopped by the first server, where it leaves a third of the second resource; the second by that
INSTANCE = fo.Instance([[3, 2], [0, 1]], [[1, 1], [1, 1]], eligible=[[1, 0], [1, 1]], task_limits=[None, 10])
POINT = [(0, 0, "1/3"), (1, 0, "1/3"), (1, 1, "1")]
LEVELS = [
    [(0, 0, "1/3")],
    [
        (0, 1, "1"),
        (1, 1, "1"),
    ],
]


def gap(point: Any, prices: Any, tasks: list[float], instance: fo.Instance = INSTANCE) -> float:
    program = Program(instance, fo.Leximin(fo.Tasks()), ())
    levels = [{"prices": of_level} for of_level in prices]
    return gate.judge(program, Proposal("levels", np.array(tasks), ExactLevels(point, levels))).gap


def test_the_gap_is_the_distance_from_levels_that_are_proved() -> None:
    right = [1 / 3, 1 / 3, 1.0]
    assert gap(POINT, LEVELS, right) < 1e-15
    assert gap(POINT, LEVELS, [1 / 3, 1 / 3, 0.9]) == pytest.approx(0.075, rel=1e-12)
    assert gap(POINT, LEVELS, [0.3, 1 / 3, 1.0]) == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize(
    ("point", "levels"),
    [
        (POINT, LEVELS[:1]),  # nothing fixes the second user
        (POINT, [*LEVELS[:1], [(0, 1, "-1"), (1, 1, "1")]]),
        (POINT, [*LEVELS[:1], [(0, 1, "1"), (1, 1, "2")]]),  # the second user leaves what is dearer
        (POINT, [*LEVELS[:1], [(0, 1, "1"), (2, 1, "1")]]),  # of no server
        ([(0, 0, "1/3"), (1, 0, "1/3"), (1, 1, "2")], LEVELS),  # exceeds a capacity
        ([(0, 0, "1/3"), (1, 0, "1/4"), (1, 1, "1")], LEVELS),  # leaves some
        ([(0, 0, "1/3"), (0, 1, "1/9"), (1, 0, "1/3"), (1, 1, "1")], LEVELS),  # where it may not run
        ([(0, 0, "1/3"), (1, 0, "-1/3"), (1, 1, "1")], LEVELS),
    ],
)
def test_other_numbers_prove_nothing(point: object, levels: object) -> None:
    assert gap(point, levels, [1 / 3, 1 / 3, 1.0]) == np.inf


def test_a_user_at_its_limit_needs_no_prices() -> None:
    limited = INSTANCE.with_task_limits([np.inf, 0.5])
    point = [(0, 0, "1/3"), (1, 1, "1/2")]
    assert gap(point, LEVELS[:1], [1 / 3, 0, 0.5], limited) < 1e-15
    assert gap([(0, 0, "1/3"), (1, 1, "2/5")], LEVELS[:1], [1 / 3, 0, 0.4], limited) == np.inf


# the team of the first user, of weight 2^-46, is guaranteed 2 of 10; the second has the rest
GUARANTEED = fo.Instance(
    [[1], [1]], [10], teams={"team": ["t", "u"]}, weights=[2.0**-46, 1], guarantees={"t": {"resource1": 2}}
)
OF_TEAMS = [(0, 0, "2"), (1, 0, "8")], [[(0, 0, "1")], [(0, 0, "1")]]


def gap_by_rows(charges: Any, tasks: list[float], point: object = OF_TEAMS[0]) -> float:
    program = Program(GUARANTEED, fo.Leximin(fo.Tasks()), ())
    levels = [{"prices": prices, "rows": rows} for prices, rows in zip(OF_TEAMS[1], charges, strict=True)]
    return gate.judge(program, Proposal("levels", np.array(tasks), ExactLevels(point, levels))).gap


def test_multipliers_of_further_rows_prove_levels_under_guarantees_of_teams() -> None:
    assert gap_by_rows([[(0, "1")], []], [2.0, 8.0]) == 0
    assert gap_by_rows([[(0, "1")], []], [3.0, 7.0]) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("charges", "point"),
    [
        ([[], []], OF_TEAMS[0]),  # nothing fixes the second user before the first
        ([[(0, "1/2")], []], OF_TEAMS[0]),
        ([[(0, "2")], []], OF_TEAMS[0]),  # less than no cost, without a limit
        ([[(0, "-1")], []], OF_TEAMS[0]),
        ([[(1, "1")], []], OF_TEAMS[0]),  # of no row
        ([[(0, "1")], []], [(0, 0, "1"), (1, 0, "9")]),  # the guarantee is not kept
        ([[(0, "1")], []], [(0, 0, "3"), (1, 0, "7")]),  # more than the guarantee
    ],
)
def test_other_multipliers_of_rows_prove_nothing(charges: object, point: object) -> None:
    assert gap_by_rows(charges, [2.0, 8.0], point) == np.inf


def test_drf_under_guarantees_of_teams_is_decided_in_fractions_and_saved(tmp_path: Path) -> None:
    instance = fo.Instance(
        [[1]] * 4,
        [10],
        teams={"team": ["t", "u", "v", "w"]},
        weights=[1e14, 1, 1, 1],
        guarantees={"t": {"resource1": 2}},
    )
    answer = fo.DRF().allocate(instance)
    assert "exact" in answer.certificate.tried[-1].status
    np.testing.assert_allclose(answer.tasks, [10, 1e-13, 1e-13, 1e-13], rtol=1e-12)
    assert answer.certificate.assumed == "the numbers of the guarantees of teams are right as rounded"
    file = answer.save(tmp_path / "a.json")
    assert "the numbers of the guarantees of teams are rounded" in fo.verify(file).statement
    assert fo.Allocation.load(file).certificate.ok  # solved again


def test_answers_by_exact_programs_are_saved_and_loaded(tmp_path: Path) -> None:
    answer = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance(**chain(2)))
    assert "exact" in answer.certificate.tried[-1].status
    with pytest.MonkeyPatch.context() as unsolved:
        unsolved.setattr("fairopt.solve.judged_again.solve_tiers", None)  # what the file holds is enough
        loaded = fo.Allocation.load(answer.save(tmp_path / "a.json"))
    assert loaded.certificate.ok and loaded.certificate.gap == answer.certificate.gap


def saved(tmp_path: Path, given: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The file of an answer that exact programs decide, and what it holds."""
    answer = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance(**given))
    file = answer.save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    assert data["evidence"][0]["kind"] == "exact levels"
    return file, data


def test_the_checker_proves_levels_that_rounding_decides_by_the_numbers_that_the_gate_judged(tmp_path: Path) -> None:
    file, data = saved(tmp_path, chain(2))
    found = fo.verify(file)
    assert found.ok and found.gap < 1e-15
    assert fo.Allocation.load(file).evidence == tuple(data["evidence"])


def test_identical_servers_share_what_is_proved_for_the_one_that_stands_for_them(tmp_path: Path) -> None:
    given = chain(5)
    given["capacities"] = np.vstack([given["capacities"], given["capacities"][:1]])
    given["eligible"] = np.hstack([given["eligible"], given["eligible"][:, :1]])
    file, _ = saved(tmp_path, given)
    assert fo.verify(file).ok and fo.Allocation.load(file).certificate.gap < 1e-15


@pytest.mark.parametrize("seed", [2, 4])
def test_users_who_are_alike_have_the_levels_of_one_with_their_weights(seed: int, tmp_path: Path) -> None:
    given = {name: np.asarray(values) for name, values in chain(seed).items()}
    given["weights"] = given["weights"].astype(np.float32).astype(float)  # so that sums of 32 are exact
    n, alike = len(given["demands"]), 32
    users = [*range(n), *[seed % n] * (alike - 1)]
    many = given | {name: given[name][users] for name in ("demands", "eligible")}
    many["weights"] = given["weights"][users] / np.where(np.array(users) == seed % n, alike, 1)
    policy = fo.Policy(fo.Leximin(fo.Tasks()))
    one, answer = (policy.allocate(fo.Instance(**of)) for of in (given, many))
    np.testing.assert_allclose(answer.tasks / many["weights"], (one.tasks / given["weights"])[users], rtol=1e-9)
    file, _ = saved(tmp_path, many)
    assert fo.verify(file).ok and fo.Allocation.load(file).certificate.ok


def doubled(text: str) -> str:
    return f"2{text}" if "/" in text else "2"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["evidence"][0]["point"].pop(),
        lambda data: data["evidence"][0]["point"][0].__setitem__(2, "-1/3"),
        lambda data: data["evidence"][0]["point"][-1].__setitem__(2, doubled(data["evidence"][0]["point"][-1][2])),
        lambda data: data["evidence"][0]["levels"].pop(),
        lambda data: data["evidence"][0]["levels"][-1].pop("prices"),
        lambda data: data["evidence"][0]["levels"][-1].update(of_numbers={}),
        lambda data: data["evidence"][0]["levels"].reverse(),
        lambda data: data["tasks_by_server"][-1].__setitem__(-1, data["tasks_by_server"][-1][-1] * (1 - 1e-5)),
    ],
)
def test_the_checker_refuses_other_points_prices_and_tasks(tmp_path: Path, change: Callable[[Any], None]) -> None:
    file, data = saved(tmp_path, chain(2))
    change(data)
    file.write_text(json.dumps(data))
    found = fo.verify(file)
    assert not found.ok and found.statement.startswith("not")
