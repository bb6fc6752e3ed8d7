"""Prices whose ties are exact to rounding: users on several servers at one cost, one price far below the others."""

from pathlib import Path

import numpy as np
import pytest

import fairopt as fo


def drawn(seed: int) -> fo.Instance:
    """Two teams of jobs on three types of servers; for these seeds rounded prices once failed the proof."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    rates, gpus = np.sort(rng.random((n, 3)), axis=1), 2.0 ** rng.integers(0, 3, n)
    weights, of_team = rng.integers(1, 6, n).astype(float), rng.integers(1, 6, 2).astype(float)
    teams = np.r_[0, 1, rng.integers(0, 2, n - 2)].astype(str)
    jobs = fo.Instance(gpus[:, None], np.full((3, 1), 4.0), task_limits=1, rates=rates, teams={"team": teams})
    return jobs.replace(weights=dict(zip(jobs.users, weights, strict=True))).replace(
        weights={"0": of_team[0], "1": of_team[1]}
    )


@pytest.mark.parametrize("seed", [3, 35, 115])
def test_small_prices_are_exact_enough_for_proofs(seed: int, tmp_path: Path) -> None:
    answer = fo.Policy(fo.Leximin(fo.OfTeam(fo.ThroughputShare(), inside="any"))).allocate(drawn(seed))
    assert answer.certificate.ok
    answer.save(tmp_path / "answer.json")
    assert fo.verify(tmp_path / "answer.json").ok
