"""Leximin where a user at its task limit has almost the same share of a task on two servers, against fractions."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import exact_lp
from oracle.exact_cluster import Cluster

import fairopt as fo
from fairopt.proof.conic import further_conditions
from fairopt.proof.dual import Dual
from fairopt.proof.level_bounds import judge_levels
from fairopt.proof.number_level_bounds import judge_number_levels
from fairopt.solve.form.program import ConeModel, Program

SHARE = fo.KDominantShare(2, short="positive")
TASKS = np.array([1 / 7, 2 / 35, 2 / 7, 64 / 35])  # leximin if the first user's shares tie
PRICES = np.array([2 / 15, 1 / 5, 0, 14 / 15, 0, 0])  # of capacities: of the second user's level


def near(parts: Any, **given: Any) -> dict[str, Any]:
    """Two users on two servers; the demands of the first on the first server are larger by some parts."""
    first = (np.array([3.0, 5.0]) * (1 + np.array(parts))).tolist()
    demands = [[first, [3.0, 5.0]], [[2.0, 1.0], [1.0, 2.0]]]
    return {"demands": demands, "capacities": [[1, 1], [2, 6]], "task_limits": [0.2, None], **given}


def beside_a_third(parts: Any) -> dict[str, Any]:
    """The same, and a user of a resource of its own, which is at its limit at the level of the first."""
    demands = np.concatenate([near(parts)["demands"], np.zeros((1, 2, 2))])
    needs = np.concatenate([demands, np.array([0, 0, 1.0])[:, None, None] * np.ones((3, 2, 1))], axis=2)
    return {
        "demands": needs.tolist(),
        "capacities": [[1, 1, 10], [2, 6, 10]],
        "task_limits": [0.2, None, 20 / 7],
        "teams": {"team": ["a", "b", "c"]},
    }


def right_levels(given: dict[str, Any], k: int = 2) -> list[float]:
    cluster = Cluster(**{key: v for key, v in given.items() if key != "teams"})
    return [float(v) for v in exact_lp.leximin(cluster.forms(cluster.dominant(k)), cluster.rows)]


@pytest.mark.parametrize("part", [2.0**-36, 1e-9, 1e-7])
@np.errstate(all="ignore")  # as in a solve: prices of zero are expected
def test_a_limit_that_a_user_could_reach_on_a_better_server_proves_no_level(part: float) -> None:
    """The first user can rise by a part of 1e-11 to 1e-7 only, but that takes a twentieth from the second."""
    given = beside_a_third([part, part])
    np.testing.assert_allclose(right_levels(given), [1 / 7, 4 / 21, 1 / 7], rtol=1e-6)
    tasks = np.append(TASKS, [20 / 7, 0])
    for instance, ties in ((fo.Instance(**beside_a_third([0, 0])), True), (fo.Instance(**given), False)):
        program = Program(instance, fo.Leximin(SHARE), ())
        further = further_conditions(ConeModel(program, "HIGHS"))
        assert further is not None
        none = np.zeros(len(further.right)), np.zeros(further.on_others.shape[1])
        of_third = np.append(none[0][:-1], 1.0), none[1]  # the multiplier of the last limit
        duals = [
            Dual(0 * PRICES, fixed=np.array([2, 0]), in_cone=of_third[0], sizes=of_third[1]),
            Dual(PRICES, fixed=np.array([1]), in_cone=none[0], sizes=none[1]),
        ]
        assert (judge_levels(program, duals, further, tasks)[0] <= 1e-6) == ties

        program = Program(instance, fo.Leximin(fo.OfTeam(SHARE)), ())
        per_share = np.append([1.4, 7 / 15], 0) / SHARE.coefficients(instance)[:, 1]
        for prices in ([0, 0, 1], [1, 0, 1]):  # of numbers: without and with one of the first user
            first = Dual(0 * PRICES, mixtures=[np.array(prices, dtype=float)], fixed=np.array([2, 0]))
            second = Dual(PRICES, mixtures=[per_share], fixed=np.array([1]))
            assert (judge_number_levels(program, [first, second], tasks)[0] <= 1e-6) == ties


def test_ties_that_rounding_does_not_decide_are_named_in_what_a_certificate_assumes() -> None:
    """Shares that differ by 5e-23 of themselves: floats cannot tell which server gives the first user more."""
    parts = 2.0**-36 * np.array([[1.0, 1.0], [1.5, 0.5]])
    demands = [(np.array([3.0, 5.0]) * (1 + parts)).tolist(), [[2, 1], [1, 2]]]
    given = {"demands": demands, "capacities": [[1, 1], [2, 6]], "task_limits": [0.2, None]}
    np.testing.assert_allclose(right_levels(given), [1 / 7, 4 / 21], rtol=1e-6)
    policy = fo.Policy(fo.Leximin(SHARE))
    answer = policy.allocate(fo.Instance(**given))
    levels = (answer.tasks_by_server * SHARE.coefficients(answer.instance)).sum(axis=1)
    np.testing.assert_allclose(levels[0], 1 / 7, rtol=1e-6)
    assert "given the lower ones as returned" in answer.certificate.assumed
    alike = policy.allocate(fo.Instance(**near([0, 0])))
    assert not alike.certificate.assumed
    np.testing.assert_allclose(alike.tasks_by_server.ravel(), TASKS, rtol=1e-9)


@pytest.mark.parametrize("objective", [fo.Leximin(fo.OfTeam()), fo.Leximin(fo.Surplus())])
def test_a_later_level_that_a_trace_of_an_earlier_one_decides_is_named_in_what_a_certificate_assumes(
    objective: fo.Objective,
) -> None:
    """By giving up 3e-12, the first user or team makes room for an eighth more of the other."""
    given: dict[str, Any] = {"demands": [[[1, 1], [1, 1]], [[1, 1], [1e-11, 1]]], "capacities": [[2, 1], [1, 7]]}
    np.testing.assert_allclose(right_levels(given, k=1), [2 / 3, 2 / 3], rtol=1e-10)
    answer = fo.Policy(objective).allocate(fo.Instance(**given, teams={"team": ["a", "b"]}))
    assert max(answer.shares) <= 2 / 3 * (1 + 1e-6) or "given the lower ones" in answer.certificate.assumed
    given["demands"][1][1][0] = 1e-9
    answer = fo.Policy(objective).allocate(fo.Instance(**given, teams={"team": ["a", "b"]}))
    np.testing.assert_allclose(answer.shares, right_levels(given, k=1), rtol=1e-6)
    assert not answer.certificate.assumed


@pytest.mark.parametrize("part", [2.0**-40, -(2.0**-40), 2.0**-36])
def test_numbers_held_on_a_worse_server_at_a_limit_are_a_gap_of_a_file(part: float, tmp_path: Path) -> None:
    path, policy = tmp_path / "answer.json", fo.Policy(fo.Leximin(fo.OfTeam(SHARE)))
    teams = {"team": ["a", "b"]}
    policy.allocate(fo.Instance(**near([0, 0], teams=teams))).save(path)
    assert fo.verify(path).ok
    data = json.loads(path.read_text())
    data["instance"]["demands"] = near([part] * 2)["demands"]
    path.write_text(json.dumps(data))
    assert not fo.verify(path).ok


def test_a_later_level_that_only_its_own_prices_keep_from_an_earlier_one_is_named_with_its_part() -> None:
    """The first user gains 1e-13 of its share on a server that the second needs for all that it has above it."""
    demands = [[[0, 1], [3, 4], [3e-12, 4]], [[4, 3], [3, 0], [0, 6]]]
    capacities, eligible = [[2, 4], [9, 7], [5, 7]], [[1, 1, 1], [1, 0, 1]]
    instance = fo.Instance(demands, capacities, counts=[1, 3, 2], eligible=eligible)
    answer = fo.Policy(fo.Leximin(fo.KDominantShare(2, short="positive"))).allocate(instance)
    right, shares = 0.14398422090731436, np.sort(answer.shares)
    np.testing.assert_allclose(shares[0], right, rtol=1e-12)
    stated = re.search("tolerances may move them by (.*) of their size", answer.certificate.assumed)
    assert shares[1] / right - 1 <= 1e-6 or (stated and shares[1] / right - 1 <= float(stated[1]))


def test_levels_of_users_who_need_almost_the_same_on_two_servers_are_stated_given_the_lower_ones(tmp_path: Path):
    """Costs do not say that the second user is to run on the second server alone, where 0.94 tasks are 30% of a level.

    The last level is 0.2570 in fractions, and was certified at 0.3176.
    """
    e = 2.0**-42
    demands = [
        [[3 * (1 + e), 3 * (1 + e), 1 + 1.5 * e], [3, 3 * (1 + e / 2), 1 + 1.5 * e]],
        [[6 * (1 + e), 0, 3 * (1 + 1.5 * e)], [6, 0, 3 * (1 + 1.5 * e)]],
        [[1 + e, 1 + e, 6 * (1 + 1.5 * e)], [1, 1 + e / 2, 6 * (1 + 1.5 * e)]],
        [[2 * (1 + e), 4 * (1 + e), 2 * (1 + 1.5 * e)], [2, 4 * (1 + e / 2), 2 * (1 + 1.5 * e)]],
    ]
    limits = [2.5, np.inf, 1.75, 1.25]
    instance = fo.Instance(demands, [[7, 2, 7], [4, 1, 1]], weights=[3, 2, 2, 3], task_limits=limits)
    answer = fo.DRF().allocate(instance)
    assert "given the lower ones as returned" in answer.certificate.assumed
    answer.save(tmp_path / "answer.json")
    assert "each level given those before it" in str(fo.verify(tmp_path / "answer.json"))
