"""The comparison with problems by hand in benchmarks/: what it answers by hand, and what it makes of planted faults."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fairopt as fo

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import versus
from versus_draws import Numbers, leximin, question
from versus_hand import Plain, Question, hand_answer
from versus_table import joined, read_gml, simple_paths

ALONE = "alpha 2 | - | users | pool"


@pytest.mark.parametrize("k", range(8))
def test_draws_are_answered_alike_by_fairopt_and_by_hand(k: int) -> None:
    row = versus.compared(question(58, k, 10, 16), 0.0, np.inf)
    assert row["word"] == ""
    assert row["by"]


def test_half_a_task_in_ten_thousand_less_is_below_and_more_is_broken() -> None:
    asked = next(q for q in (question(58, k, 10, 16) for k in range(300)) if q.kind == ALONE)
    x = versus.tasks_of(versus.by_fairopt(asked, 0.0), asked)
    assert asked.below(x * (1 - 5e-5), x) > 1e-5
    assert abs(asked.below(x, x)) <= 1e-12
    assert asked.violation(x) <= 1e-9
    assert asked.violation(x * (1 + 5e-5)) > 1e-5


def test_leximin_by_hand_freezes_whom_full_resources_stop() -> None:
    demands, limits = np.array([[1.0, 4], [3, 1], [1, 1]]), np.array([1.5, np.inf, 1])
    ones = np.ones((3, 1), dtype=bool)
    plain = Plain(demands, np.array([[9.0, 18]]), np.ones(3), limits, ones, np.zeros(3))
    of = Numbers(fo.DominantShare(), plain.sums(plain.user, 3, np.array([4 / 18, 1 / 3, 1 / 9])), np.ones(3), 1.0)
    found = hand_answer(Question("", {}, plain, leximin(of)), "levels", 10.0)
    assert found.x is not None
    np.testing.assert_allclose(found.x, [1.5, 13 / 6, 1], rtol=1e-8)


def test_paths_come_in_order_of_their_links(tmp_path: Path) -> None:
    ring = joined(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
    assert list(simple_paths(ring, 0, 2, 4)) == [[0, 1, 2], [0, 4, 3, 2]]
    file = tmp_path / "ring.gml"
    nodes = "".join(f'  node [\n    id {k}\n    label "n{k}"\n  ]\n' for k in range(5))
    edges = "".join(f"  edge [\n    source {a}\n    target {b}\n  ]\n" for a, b in [(1, 0), (1, 2), (2, 1), (2, 3)])
    file.write_text(f"graph [\n{nodes}{edges}]\n")
    assert read_gml(file) == [{1: 0}, {0: 0, 2: 1}, {1: 1, 3: 2}, {2: 2}, {}]
