"""Exact answers of hierarchical DRF and of bundles: against slow versions in fractions, by hand, and from files."""

from __future__ import annotations

import dataclasses
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.bundles import hffmra, mlf_drs
from oracle.hierarchy import Problem, drawn, filled

import fairopt as fo
from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, OutOfDomain

TREE = fo.Instance(
    [[4, 2], [4, 2], [1, 0]],
    [1000, 100],
    users=["train", "label", "parse"],
    teams={"team": ["nlp", "vision", "vision"]},
)
SERVERS = fo.Instance([[1, 0.4], [0.3, 1], [0.1, 0.1]], [[9, 18], [3, 4], [1, 0]], teams={"team": ["a", "b", "b"]})


def in_decimals(values: Any) -> Any:
    """Nested lists of fractions of floats, read as the shortest decimals of these."""
    if isinstance(values, (list, tuple)):
        return type(values)(map(in_decimals, values))
    return values if values is None or isinstance(values, (int, str, bool)) else Fraction(repr(float(values)))


def of_decimals(problem: Problem) -> Problem:
    """The problem of the decimals that print a problem's floats."""
    names = ("demands", "capacities", "weights", "limits", "starts", "tree")
    return dataclasses.replace(problem, **{name: in_decimals(getattr(problem, name)) for name in names})


def totals(allocation: fo.Allocation) -> list[Fraction]:
    """The tasks of each user in fractions."""
    assert allocation.exact_tasks is not None
    return [sum(row, Fraction(0)) for row in allocation.exact_tasks.tolist()]


# -- hierarchical DRF -----------------------------------------------------------------------------------------------


def test_a_team_whose_tasks_need_no_gpus_in_fractions() -> None:
    answer = fo.HDRF().allocate(TREE, exact=True)
    assert totals(answer) == [Fraction(300, 11), Fraction(250, 11), 800]
    assert answer.certificate.ok and answer.certificate.gap == 0.0 and answer.certificate.method == "exact"
    np.testing.assert_array_equal(answer.tasks_by_server, answer.exact_tasks.astype(float))


@pytest.mark.parametrize(
    ("servers", "seeds", "copies"), [(1, range(30), 1), (3, range(5), 1), (1, range(6), 3), (3, (1,), 3)]
)
def test_random_trees_are_those_of_recursion_in_fractions(servers: int, seeds: Any, copies: int) -> None:
    for seed in seeds:
        instance, problem, policy = drawn(seed, servers, copies=copies)
        assert totals(policy.allocate(instance, exact=True)) == filled(of_decimals(problem)), f"seed {seed}"


def test_levels_that_nearly_tie_are_told_apart() -> None:
    # in floats limits within 1e-9 are reached together, and the second user stays at the first one's level
    pool = fo.Instance([[1, 0], [1, 1]], [10, 20], task_limits=[1, 1.0000000001], teams={"team": [None, "t"]})
    assert totals(fo.HDRF().allocate(pool, exact=True)) == [1, Fraction("1.0000000001")]


def test_identical_servers_are_one_pool() -> None:
    three = fo.Instance(TREE.demands, [[500, 50], [250, 25], [250, 25]], teams=TREE.teams, task_limits=[None, None, 20])
    copies = fo.Instance(TREE.demands, [[100, 10]], counts=[10], teams=TREE.teams, task_limits=[None, None, 20])
    assert totals(fo.HDRF().allocate(copies, exact=True)) == [25, 25, 20]
    assert totals(fo.HDRF().allocate(three, exact=True)) == [25, 25, 20]  # as the tasks fit on servers as well


def test_nobody_has_exact_tasks_of_zero() -> None:
    nobody = TREE.with_task_limits(0)
    assert totals(fo.HDRF().allocate(nobody, exact=True)) == [0, 0, 0]


def test_guarantees_of_users_are_kept_and_those_of_teams_refused() -> None:
    kept = fo.HDRF().allocate(TREE.replace(guarantees={"train": 40}), exact=True)
    assert totals(kept)[0] == 40
    with pytest.raises(OutOfDomain, match="guarantees of teams"):
        fo.HDRF().allocate(TREE.replace(guarantees={"nlp": {0: 100}}), exact=True)


def test_guarantees_that_fit_only_up_to_rounding_are_infeasible_in_fractions() -> None:
    given = {"teams": {"team": ["x", "x", "y", "y"]}, "eligible": [[1, 0], [1, 0], [1, 0], [0, 1]]}
    third = 0.3333333333333334
    instance = fo.Instance([[1]] * 4, [[1], [5]], guarantees=[third] * 3 + [0], **given)
    assert fo.HDRF().allocate(instance).certificate.ok
    with pytest.raises(Infeasible, match="guarantees do not fit in rational numbers"):
        fo.HDRF().allocate(instance, exact=True)


def test_who_waits_for_its_guarantee_when_a_capacity_is_full_had_room_until_then(tmp_path: Path) -> None:
    """Both teams hold half of the memory, and the users of the first a quarter each."""
    guarantees, teams = {"user1": 1.5, "user3": 1}, {"team": ["x", "x", "y"]}
    instance = fo.Instance([[0, 1], [1, 2], [0, 1]], [[4, 3], [6, 3]], teams=teams, guarantees=guarantees)
    answer = fo.HDRF().allocate(instance, exact=True)
    assert totals(answer) == [Fraction(3, 2), Fraction(3, 4), 3]
    path = answer.save(tmp_path / "a.json")
    assert fo.verify(path).ok and json.loads(path.read_text())["exact"]["proof"][0]["placements"]


def test_exact_tasks_on_servers_fit_in_fractions() -> None:
    answer = fo.HDRF().allocate(SERVERS, exact=True)
    tasks = answer.exact_tasks
    assert tasks is not None and totals(answer)[0] == Fraction(1300, 211)
    demands, capacities = in_decimals(SERVERS.demands.tolist()), in_decimals(SERVERS.capacities.tolist())
    for s in range(3):
        for i in range(2):
            assert sum(demands[j][i] * tasks[j, s] for j in range(3)) <= capacities[s][i]


# -- bundles --------------------------------------------------------------------------------------------------------


def test_the_example_of_hffmra_in_fractions() -> None:
    example = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]])
    answer = fo.HFFMRA(units="raw").allocate(example, exact=True)
    assert answer.exact_bundles is not None
    assert (answer.exact_bundles * 23).tolist() == [[[63, 288], [70, 320]], [[144, 126], [160, 140]]]
    assert totals(answer) == [Fraction(98, 23), Fraction(88, 23)]
    np.testing.assert_array_equal(answer.bundles, answer.exact_bundles.astype(float))


@pytest.mark.parametrize("seed", range(12))
def test_random_bundles_are_those_of_slow_versions(seed: int) -> None:
    r = random.Random(seed)
    n, m = r.randint(1, 5), r.randint(1, 3)
    demands = [[r.choice([0, 0.1, 0.7, 1.3, 2]) for _ in range(m)] for _ in range(n)]
    demands = [row if any(row) else [0.3] * m for row in demands]
    capacities = [r.choice([2.5, 9, 18.1]) for _ in range(m)]
    exact, room = in_decimals(demands), in_decimals([[c] for c in capacities])
    pool = fo.Instance(demands, capacities)
    for growth in ("proportional", "equal"):
        bundles = fo.MLFDRS(growth).allocate(pool, exact=True).exact_bundles
        assert bundles is not None and bundles[:, 0].tolist() == mlf_drs(exact, [c for (c,) in room], growth)
    for units in ("share", "raw"):
        bundles = fo.HFFMRA(units).allocate(pool, exact=True).exact_bundles
        slow = hffmra([[row] for row in exact], [[c for (c,) in room]], units)
        assert bundles is not None and bundles.tolist() == slow


def test_tasks_above_a_limit_are_left_out_alike_on_all_servers() -> None:
    cluster = fo.Instance([[1, 4], [3, 1]], [[9, 18], [9, 18]], task_limits=[2, None])
    answer = fo.MLFDRS().allocate(cluster, exact=True)
    assert answer.exact_tasks is not None and answer.exact_tasks[0].tolist() == [1, 1]


def test_other_policies_over_bundles_have_no_exact_answer() -> None:
    mixed = fo.Policy(fo.WeightedLog() + fo.Total())
    with pytest.raises(OutOfDomain, match="cone program over bundles"):
        mixed.allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]), exact=True)


# -- files and refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "instance"),
    [(fo.HDRF(), TREE), (fo.HDRF(), SERVERS), (fo.MLFDRS(), TREE), (fo.HFFMRA(), SERVERS)],
    ids=["pool", "servers", "MLF-DRS", "H-FFMRA"],
)
def test_saved_answers_are_proved_in_fractions_and_changed_ones_are_not(
    mechanism: Any, instance: fo.Instance, tmp_path: Path
) -> None:
    answer = mechanism.allocate(instance, exact=True)
    file = answer.save(tmp_path / "exact.json")
    assert fo.verify(file, instance).ok and "gap 0" in fo.verify(file).statement
    again = fo.Allocation.load(file)
    assert again.certificate.gap == 0.0 and again.exact_tasks.tolist() == answer.exact_tasks.tolist()
    np.testing.assert_array_equal(again.exact_bundles, answer.exact_bundles)
    data = json.loads(file.read_text())
    tasks = data["exact"]["tasks"]
    tiny = Fraction(1, 10**30)  # the floats stay the same
    for j, s, by in ((0, 0, -tiny), (1, 0, tiny)):
        tasks[j][s] = str(Fraction(tasks[j][s]) + by)
        file.write_text(json.dumps(data))
        assert not fo.verify(file).ok
        with pytest.raises(InvalidInstance, match="not proved"):
            fo.Allocation.load(file)
        tasks[j][s] = str(Fraction(tasks[j][s]) - by)
    file.write_text(json.dumps(data))
    assert fo.verify(file).ok


def test_wrong_rows_and_missing_placements_prove_nothing(tmp_path: Path) -> None:
    file = fo.HDRF().allocate(SERVERS, exact=True).save(tmp_path / "servers.json")
    data = json.loads(file.read_text())
    (proof,) = data["exact"]["proof"]
    assert proof["rows"]
    for wrong in ({"rows": []}, {"rows": [[[0, 0, "-1"]]]}, {"rows": [[[0, 0, "1/3"]]]}, {"lines": []}):
        file.write_text(json.dumps({**data, "exact": {**data["exact"], "proof": [{**proof, **wrong}]}}))
        assert not fo.verify(file).ok


@pytest.mark.parametrize("mechanism", [fo.PSDSF(), fo.SequentialMinMax(), fo.NaivePerServer(fo.DRF()), fo.DynamicDRF()])
def test_other_mechanisms_do_not_take_exact(mechanism: Any) -> None:
    with pytest.raises((InvalidBlock, TypeError), match="exact"):
        mechanism.allocate(TREE, exact=True)
