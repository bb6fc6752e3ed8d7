"""What later tiers are given of earlier ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import fairopt as fo

POOL = fo.Instance([[1, 1], [5, 2], [3, 2], [1, 4], [0, 3], [0, 5]], [9, 16], weights=[2, 3, 1, 2, 3, 3])
SERVERS = fo.Instance([[5, 0, 6], [3, 5, 2], [2, 3, 6]], [[13, 2, 8]] * 3, counts=[1, 1, 2])


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
