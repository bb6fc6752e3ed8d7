"""What later tiers are given of earlier ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo

POOL = fo.Instance([[1, 1], [5, 2], [3, 2], [1, 4], [0, 3], [0, 5]], [9, 16], weights=[2, 3, 1, 2, 3, 3])
SERVERS = fo.Instance([[5, 0, 6], [3, 5, 2], [2, 3, 6]], [[13, 2, 8]] * 3, counts=[1, 1, 2])
SOME = fo.Instance(  # the first user needs more on the server where it may not run
    [[[1, 2], [1, 2], [1, 20]], [[2, 1]] * 3, [[1, 1]] * 3],
    [[10, 10], [4, 9], [6, 6]],
    eligible=[[True, True, False], [True, True, True], [True, False, True]],
)


@pytest.mark.parametrize(
    ("instance", "objective"),
    [
        (POOL, fo.Total(fo.KDominantShare(1, (1,))).then(fo.FairnessEfficiency(0.8, 0.25, fo.ResourceShare(1)))),
        (
            SERVERS,
            fo.Total()
            .then(fo.Total(fo.KDominantShare(2)))
            .then(fo.AlphaFair(2, fo.KDominantShare(1)) + 0.25 * fo.Total(fo.Tasks())),
        ),
    ],
    ids=["pool", "servers"],
)
def test_later_tiers_are_certified_where_a_total_leaves_users_a_millionth(
    instance: fo.Instance, objective: fo.Objective, tmp_path: Path
) -> None:
    answer = fo.Policy(objective).allocate(instance)
    assert answer.certificate.ok and answer.tasks.min() < 1e-4
    assert fo.verify(answer.save(tmp_path / "tiers.json")).ok


@pytest.mark.parametrize(
    ("instance", "first"),
    [
        (POOL, fo.AlphaFair(1, fo.PNormShare(1)) + 0.25 * fo.Total(fo.Tasks())),
        (SERVERS, 2.0 * fo.OrderedWeighted((2, 1), fo.Tasks()) + fo.AlphaFair(2)),
        (SOME, fo.AlphaFair(1) + fo.Total(fo.Tasks())),
        (POOL, fo.FairnessEfficiency(0.5, 3)),
        (SERVERS, fo.FairnessEfficiency(3, -1, fo.Tasks())),
    ],
    ids=["sum on a pool", "sum on servers", "sum on some servers", "measure up to 1", "measure above 1"],
)
def test_where_shares_are_unique_later_tiers_keep_every_one(
    instance: fo.Instance, first: fo.Objective, tmp_path: Path
) -> None:
    """As exchanges of a strictly concave value that may fall by 1e-7 would move shares by 3e-4."""
    before = fo.Policy(first).allocate(instance)
    after = fo.Policy(first.then(fo.AlphaFair(20)).then(fo.Leximin(fo.Tasks()))).allocate(instance)
    assert (after.tasks >= before.tasks * (1 - 2e-6)).all()
    assert fo.verify(after.save(tmp_path / "tiers.json")).ok


def test_a_sum_keeps_its_value_where_shares_leave_terms_open() -> None:
    """Tasks differ by server in one of the shares: the same tasks may go with more or less of it."""
    instance = fo.Instance([[1], [1]], [[2], [2]], rates=[[1, 3], [1, 1]])
    first = fo.AlphaFair(1, fo.Tasks()) + fo.Total(fo.ThroughputShare())
    answer = fo.Policy(first.then(fo.Total(fo.Tasks()))).allocate(instance)
    np.testing.assert_allclose(answer.tasks_by_server, [[0, 2], [2, 0]], atol=1e-5)


def moved(answer: fo.Allocation) -> float:
    """By what part the certificate says that earlier tiers may move the second one."""
    found = re.search("tier 2 is the best given .* may move it by (.*) of its bound", answer.certificate.assumed)
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize("second", [fo.MaxMin(fo.Tasks()), fo.Leximin(fo.Tasks()), fo.AlphaFair(2, fo.Tasks())])
def test_of_a_tier_that_is_made_of_what_the_first_may_give_up_the_certificate_says_so(second: fo.Objective) -> None:
    """Most tasks leave the second user none: it runs as many as the first tier gives up, and twice that for twice."""
    instance = fo.Instance([[1], [2]], [4])
    answer = fo.Policy(fo.Total(fo.Tasks()).then(second)).allocate(instance)
    assert answer.tasks[1] < 1e-6 and 0.3 < moved(answer) <= 1.2
    other_way = fo.Policy(fo.MaxMin(fo.Tasks()).then(fo.Total(fo.Tasks()))).allocate(instance)
    assert not other_way.certificate.assumed


def test_what_the_answer_breaks_of_an_earlier_tier_counts_in_how_far_that_moves_the_later_one() -> None:
    """The kept total was missed by a 15th of what it may lose, and the second tier was 7e-4 below its best, unsaid."""
    first, second = fo.FairnessEfficiency(1, 0.5, fo.Tasks()), fo.FairnessEfficiency(2, -1, fo.Tasks())
    answer = fo.Policy(first.then(second)).allocate(fo.Instance([[2, 5], [3, 2], [5, 4]], [18, 7], weights=[3, 2, 1]))
    x = answer.tasks
    lost = 3.5 - x.sum()  # 1.5 a task of the first user, 1 of the third: the best split of it among these is known
    first_user = lost / (1.5 + 1.5**0.5 / 3)
    split = np.array([first_user, 3.5 - lost - first_user - (lost - 1.5 * first_user), lost - 1.5 * first_user])
    short = np.log((np.array([9, 4, 1]) / x).sum() / (np.array([9, 4, 1]) / split).sum()) / 2
    assert short <= 1e-6 or short <= moved(answer)


def test_what_a_tier_above_a_base_may_lose_is_a_part_of_its_own_value() -> None:
    """Halved tasks are below the base: of 1e-7 of that fall the first tier had a gap of 1.7e-6, and was refused."""
    given = {"teams": {"team": ["b", "a"]}, "guarantees": {"user1": 17.5, "user2": 3.68}, "weights": [1, 2]}
    first = fo.MaxMin(fo.Surplus(fo.OfTeam(fo.Tasks(), weights={"a": 3.0})))
    answer = fo.Policy(first.then(fo.Total(fo.Tasks()))).allocate(fo.Instance([[1], [4]], [39], **given))
    smallest = ((answer.tasks - [17.5, 3.68]) / [1, 3]).min()
    np.testing.assert_allclose(smallest, (39 - 17.5 - 4 * 3.68) / 13, rtol=2e-7)


@dataclass(frozen=True, repr=False)
class SumOfRoots(fo.Objective):
    def expression(self, model: Any) -> Any:
        return cp.sum(cp.sqrt(model.tasks))


def test_where_it_is_not_known_how_far_a_tier_may_move_the_certificate_says_so() -> None:
    """The root of what the first tier gives up is 4e-4 of the value."""
    instance = fo.Instance([[1], [2]], [4])
    answer = fo.Policy(fo.Total(fo.Tasks()).then(SumOfRoots())).allocate(instance)
    assert "tier 2 is the best given" in answer.certificate.assumed
