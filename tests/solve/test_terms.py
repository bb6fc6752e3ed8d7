"""Methods are chosen by what an objective says: multiples, and objectives of one's own in the same terms, are solved
as the plain ones are, with values and prices in their own units."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.blocks.normal_form import Kind, Linear, Power, Ranked, Term
from fairopt.solve.form.program import Program

SHARE = fo.KDominantShare(2)


@dataclass(frozen=True, repr=False)
class Threefold(fo.Objective):
    """Three times a kind of one share."""

    kind: Kind
    of: fo.Share = SHARE

    def terms(self) -> tuple[Term, ...]:
        return (Term(3.0, self.kind, self.of),)


MAXMIN, FAIR, TOTAL = fo.MaxMin(SHARE), fo.AlphaFair(2, SHARE), fo.Total(SHARE)
SAME = {  # an objective, and a shipped one with the same optimum
    "max-min": (2 * MAXMIN, MAXMIN),
    "one ordered weight": (fo.OrderedWeighted((2,), SHARE), MAXMIN),
    "own max-min": (Threefold(Ranked((1.0,))), MAXMIN),
    "ordered weights": (2 * fo.OrderedWeighted((2, 1), SHARE), fo.OrderedWeighted((2, 1), SHARE)),
    "alpha-fairness": (3 * FAIR, FAIR),
    "logarithms": (3 * fo.AlphaFair(1, SHARE), fo.AlphaFair(1, SHARE)),
    "own alpha-fairness": (Threefold(Power(2.0)), FAIR),
    "an edge": (2 * fo.FairnessEfficiency(2, -0.5, SHARE), FAIR),
    "an edge below 1": (2 * fo.FairnessEfficiency(0.5, 1, SHARE), fo.AlphaFair(0.5, SHARE)),
    "total": (2 * TOTAL, TOTAL),
    "own total": (Threefold(Linear()), TOTAL),
    "beta = 1": (fo.FairnessEfficiency(1, 0.5, SHARE), TOTAL),
    "a multiple of beta = 1": (4 * fo.FairnessEfficiency(1, 2, SHARE), TOTAL),
    "the plane": (2 * fo.FairnessEfficiency(0.5, 2, SHARE), fo.FairnessEfficiency(0.5, 2, SHARE)),
}
DRAWN = np.random.default_rng(3)
DEMANDS, WEIGHTS = DRAWN.uniform(1, 5, (6, 3)), DRAWN.uniform(1, 3, 6)
CLUSTERS = {
    "pool": fo.Instance(DEMANDS, [50, 60, 70], weights=WEIGHTS, task_limits=[None, 2, None, None, 4, None]),
    "servers": fo.Instance(
        DEMANDS, DRAWN.uniform(20, 60, (3, 3)), weights=WEIGHTS, task_limits=[None, 2, None, None, 4, None]
    ),
}


def value(objective: fo.Objective, answer: fo.Allocation) -> float:
    return objective.value(Point(answer.instance, answer.tasks_by_server))


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("name", SAME)
def test_a_multiple_is_solved_as_what_it_is_a_multiple_of_with_its_own_value_and_prices(
    name: str, cluster: str
) -> None:
    objective, plain = SAME[name]
    answer, same = (fo.Policy(one).allocate(CLUSTERS[cluster]) for one in (objective, plain))
    by_cone = fo.Policy(objective).allocate(CLUSTERS[cluster], method="cone")
    assert answer.certificate.method == same.certificate.method
    np.testing.assert_allclose(answer.tasks, same.tasks, rtol=1e-12)
    assert answer.objective == pytest.approx(value(objective, answer), rel=1e-12)
    assert answer.objective == pytest.approx(by_cone.objective, rel=1e-6)
    if answer.evidence_prices is not None:
        scale = np.abs(by_cone.evidence_prices).max()
        np.testing.assert_allclose(answer.evidence_prices, by_cone.evidence_prices, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("name", [name for name in SAME if not name.startswith("own")])
def test_files_of_multiples_are_proved(name: str, tmp_path: Path) -> None:
    for cluster in CLUSTERS.values():
        answer = fo.Policy(SAME[name][0]).allocate(cluster)
        assert fo.verify(answer.save(tmp_path / "answer.json")).ok
        assert fo.Allocation.load(tmp_path / "answer.json").certificate.ok


@pytest.mark.parametrize("name", ["max-min", "one ordered weight", "alpha-fairness", "an edge", "total", "beta = 1"])
def test_files_of_many_users_and_of_earlier_tiers_are_proved_too(name: str, tmp_path: Path) -> None:
    demands = np.random.default_rng(5).uniform(1, 5, (400, 3))
    many = fo.Policy(SAME[name][0]).allocate(fo.Instance(demands, [5000, 6000, 7000]))
    assert fo.verify(many.save(tmp_path / "many.json")).ok
    tiers = fo.Policy(SAME[name][0].then(fo.Total(fo.Tasks()))).allocate(CLUSTERS["pool"])
    assert fo.verify(tiers.save(tmp_path / "tiers.json")).ok


@pytest.mark.parametrize("name", [name for name in SAME if name not in ("ordered weights", "the plane")])
def test_batches_take_multiples(name: str) -> None:
    drawn = np.random.default_rng(7)
    given: dict[str, Any] = {"demands": drawn.uniform(1, 5, (8, 4, 3)), "capacities": drawn.uniform(9, 20, (8, 3))}
    objective, plain = SAME[name]
    many, same = (fo.allocate_many(fo.Policy(one), **given) for one in (objective, plain))
    assert many.ok.all() and not many.one_by_one.any() and many.method == same.method
    np.testing.assert_array_equal(many.tasks, same.tasks)
    assert many[3].objective == pytest.approx(value(objective, many[3]), rel=1e-12)


@pytest.mark.fast_methods
@pytest.mark.parametrize("name", ["max-min", "one ordered weight", "alpha-fairness", "an edge", "own alpha-fairness"])
def test_shards_take_multiples(name: str) -> None:
    policy, demands = fo.Policy(SAME[name][0]), np.random.default_rng(9).uniform(1, 5, (40, 3))
    shards = fo.allocate_sharded(policy, [demands[:15], demands[15:]], capacities=[50, 60, 70])
    in_memory = policy.allocate(fo.Instance(demands, [50, 60, 70]))
    assert shards.objective == pytest.approx(in_memory.objective, rel=1e-9)
    np.testing.assert_allclose(shards.prices, in_memory.evidence_prices[0], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", ["max-min", "one ordered weight", "own max-min", "total", "own total"])
def test_whole_tasks_of_a_multiple_are_those_of_what_it_is_a_multiple_of(name: str) -> None:
    objective, plain = SAME[name]
    answer, same = (fo.Policy(one).allocate(CLUSTERS["servers"], integral=True) for one in (objective, plain))
    np.testing.assert_array_equal(answer.tasks, same.tasks)
    assert answer.certificate.gap == pytest.approx(same.certificate.gap, abs=1e-9)
    assert answer.objective == pytest.approx(value(objective, answer), rel=1e-12)


def test_multiples_of_max_min_without_envy_have_their_own_prices() -> None:
    cluster = fo.Instance(DEMANDS, [50, 60, 70], weights=WEIGHTS)
    once, twice = (fo.Policy(one, [fo.EnvyFree()]).allocate(cluster) for one in (MAXMIN, 2 * MAXMIN))
    assert once.certificate.method == twice.certificate.method == "water-filling"
    np.testing.assert_allclose(twice.evidence_prices, 2 * once.evidence_prices, rtol=1e-12)
    assert twice.objective == 2 * once.objective


def test_a_first_guess_of_prices_is_in_the_units_of_the_objective() -> None:
    prepared = fo.Policy(1000 * FAIR).prepare(CLUSTERS["pool"])
    first, again = prepared.allocate(), prepared.allocate(capacities=[50, 60, 70.001])
    assert first.certificate.ok and again.certificate.ok
    assert len(again.certificate.tried) <= 2
    np.testing.assert_allclose(again.tasks, first.tasks, rtol=1e-4)


def test_servers_are_merged_for_own_objectives_of_known_terms_unless_a_share_tells_them_apart() -> None:
    @dataclass(frozen=True, repr=False)
    class Uneven(fo.Share):
        def per_task(self, instance: fo.Instance) -> np.ndarray:
            return np.ones((instance.n_users, instance.n_servers)) + np.arange(instance.n_servers)

    alike = fo.Instance(DEMANDS, [[50, 60, 70]] * 3)
    assert Program(alike, Threefold(Power(2.0)), ()).single
    assert not Program(alike, Threefold(Power(2.0), Uneven()), ()).single


def test_a_problem_of_a_multiple_is_read_in_the_units_of_the_objective() -> None:
    for objective in (2 * fo.FairnessEfficiency(0.5, 1), fo.FairnessEfficiency(1, 0.5), 3 * fo.AlphaFair(2)):
        policy = fo.Policy(objective)
        problem = policy.problem(CLUSTERS["pool"])
        problem.solve(solver="CLARABEL")
        read = policy.certify(problem, CLUSTERS["pool"])
        assert read.objective == pytest.approx(policy.allocate(CLUSTERS["pool"]).objective, rel=1e-6)


def test_kinds_of_ones_own_are_not_known() -> None:
    @dataclass(frozen=True)
    class Mine(Kind):
        pass

    assert Power(2.0).is_known and not Mine().is_known


@pytest.mark.parametrize(
    ("objective", "method"),
    [(2 * fo.MaxMin(), "water-filling"), (0.5 * fo.Total(), "linear"), (0.5 * fo.AlphaFair(2), "prices")],
)
def test_what_a_method_says_it_is_exact_for_names_multiples_where_it_takes_them(
    objective: fo.Objective, method: str
) -> None:
    pool = fo.Instance([[1, 2], [2, 1]], [5, 5])
    assert fo.Policy(objective).allocate(pool, method=method).certificate.method == method
    with pytest.raises(fo.errors.OutOfDomain, match="multiples"):
        fo.Policy(fo.FairnessEfficiency(2, -2)).allocate(pool, method=method)
