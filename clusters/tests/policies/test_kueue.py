"""The rule of Kueue on drawn clusters, beside linear programs written from what was drawn."""

import json

import pytest
from fairopt_clusters.policies import Kueue
from kueue_cluster import Answer, drawn, objects

import fairopt as fo


# clusters on which tolerances between levels in floats left no certificate, no proof, or moved a queue by 4.5e-6
@pytest.mark.parametrize("seed", [7, 131, 160, 259, 286])
def test_answers_are_exact_proved_and_those_of_the_programs(seed, tmp_path):
    drawing = drawn(seed)
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"kind": "List", "items": objects(drawing)}))
    instance = fo.read(path, tasks="shapes")
    answer = Kueue().allocate(instance)
    assert answer.exact_tasks is not None
    shares = answer.tasks * fo.DominantShare().per_task(answer.instance)
    members, right = answer.instance.teams.names, Answer(drawing).of_queues()
    held = {queue: float(shares[members[queue]].sum()) if queue in members else 0.0 for queue in right}
    assert held == pytest.approx(right, abs=1e-8 * max(right.values()))  # the programs are solved to about 1e-9
    assert fo.verify(answer.save(tmp_path / "answer.json")).ok


def test_amounts_that_are_fractions_only_up_to_rounding_are_solved_in_floats():
    """What x is owed, 1/3 in decimals, leaves it 1e-17 more in fractions, which is no rise."""
    pool = fo.Instance(
        [[3, 0], [1, 0], [0, 1]],
        [1.5, 4],
        teams={"team": ["x", "y", "z"], "org": ["m", "m", "n"]},
        guarantees=[0.3333333333333333, 0.5, 0.5],
    )
    answer = Kueue().allocate(pool)
    assert answer.certificate.ok and answer.exact_tasks is None
    assert answer.tasks == pytest.approx([1 / 3, 0.5, 4])


def test_options_of_policies_are_those_of_floats():
    pool = fo.Instance([[1], [1], [1]], [8], teams={"team": ["x", "y", "z"], "org": ["m", "m", "n"]})
    assert Kueue().allocate(pool).exact_tasks.ravel().tolist() == [2, 2, 4]
    assert Kueue().allocate(pool, method="auto").exact_tasks is None
    assert Kueue().allocate(pool, integral=True).tasks.tolist() == [2, 2, 4]
