"""Gavel's policies (Narayanan et al. 2020) on the cases of its tests, beside its own programs written by hand in CVXPY.

The numbers are those of ``scheduler/tests/policies_tests.py``, ``water_filling_tests.py`` and
``water_filling_tests_hierarchical.py`` of stanford-futuredata/gavel. Of these `test_isolated` asserts a number, and
`test_allox` that running jobs stay where they are: AlloX gives whole GPUs by a matching, and `test_gandiva` pairs jobs
at random, so neither is a program of shares. The others assert nothing.
"""

import random
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from oracle.gavel import two_levels

import fairopt as fo

TYPES = ["v100", "p100", "k80"]
RATES = np.array([[2, 1, 0.5], [3, 2, 1]])
PAIR = np.array([[2, 1, 0.5], [3, 2, 1]])  # of the two jobs on one GPU: as fast as alone
PRICES = np.array([3.1, 2, 0.8])
ODD, EVEN = [1, 2, 3], [1, 1, 1]  # GPUs of each type


def cluster(gpus: Any, rates: Any = RATES, factors: Any = None, **others: Any) -> fo.Instance:
    """Jobs that each can use an hour per hour, on GPUs of three types."""
    factors = np.ones(len(rates)) if factors is None else factors
    return fo.Instance(
        np.array(factors, float)[:, None],
        np.array(gpus, float)[:, None],
        task_limits=1,
        rates=rates,
        resources=["gpu"],
        servers=TYPES,
        **others,
    )


def base(hours: Any, gpus: Any, factors: Any = 1.0) -> list[Any]:
    """Gavel's constraints: the GPUs of each type, and an hour per hour."""
    used = cp.sum(cp.multiply(np.broadcast_to(np.reshape(factors, (-1, 1)), hours.shape), hours), axis=0)
    return [used <= np.array(gpus, float), cp.sum(hours, axis=1) <= 1]


def best(objective: Any, constraints: list[Any]) -> float:
    problem = cp.Problem(objective, constraints)
    problem.solve(solver="CLARABEL")
    assert problem.status == "optimal"
    return float(problem.value)


def on_slices(rates: Any, gpus: Any) -> Any:
    """Throughput of each job where it has an equal part of every type, an hour per hour in all."""
    return rates @ (np.array(gpus) / np.sum(gpus))


@dataclass(frozen=True, repr=False)
class Throughput(fo.Share):
    """Throughput over a number of each job."""

    over: tuple[float, ...]

    def per_task(self, instance: fo.Instance) -> Any:
        assert instance.rates is not None
        return instance.rates / np.array(self.over)[:, None]


@dataclass(frozen=True, repr=False)
class PerPrice(fo.Share):
    """Throughput over the price of the GPU on which it is."""

    prices: tuple[float, ...]

    def per_task(self, instance: fo.Instance) -> Any:
        return instance.rates / np.array(self.prices)


@dataclass(frozen=True, repr=False)
class FinishTimes(fo.Objective):
    """Minus the largest of the jobs' durations over those on their slices."""

    steps: tuple[float, ...]
    alone: tuple[float, ...]

    def expression(self, model: Any) -> Any:
        return -cp.max(cp.multiply(cp.inv_pos(model.share(Throughput(self.steps))), 1 / np.array(self.alone)))


@pytest.mark.parametrize("gpus", [[4, 4, 4], [4, 8, 6]])
@pytest.mark.parametrize("factors", [(1, 1), (2, 1), (2, 2), (4, 1)])
def test_isolated_jobs_have_the_smallest_share_of_max_min(factors: tuple[int, int], gpus: list[int]) -> None:
    """The assertion of `test_isolated`: both are the smallest scale factor."""
    jobs = cluster(gpus, np.ones((2, 3)), factors)
    slices = np.array(gpus) / 2 / np.array(factors)[:, None]
    isolated = (slices / slices.sum(axis=1).max()).sum(axis=1) * factors
    max_min = fo.Policy(fo.MaxMin(fo.ResourceShare("gpu"))).allocate(jobs)
    assert max_min.objective * sum(gpus) == pytest.approx(isolated.min()) == pytest.approx(min(factors))


def test_max_min_fairness() -> None:
    hours = cp.Variable((2, 3), nonneg=True)
    normal = RATES / on_slices(RATES, ODD)[:, None]
    value = best(cp.Maximize(cp.min(cp.sum(cp.multiply(normal, hours), axis=1))), base(hours, ODD))
    answer = fo.Policy(fo.Leximin(fo.ThroughputShare())).allocate(cluster(ODD))
    assert answer.certificate.ok
    assert answer.share(fo.ThroughputShare()).min() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("steps", [(300.0, 500.0), (200.0, 300.0)])
def test_finish_time_fairness(steps: tuple[float, float]) -> None:
    hours = cp.Variable((2, 3), nonneg=True)
    alone = np.array(steps) / on_slices(RATES, ODD)
    duration = cp.multiply(np.array(steps), cp.inv_pos(cp.sum(cp.multiply(RATES, hours), axis=1)))
    value = best(cp.Minimize(cp.max(cp.multiply(duration, 1 / alone))), base(hours, ODD))
    answer = fo.Policy(FinishTimes(steps, tuple(alone))).allocate(cluster(ODD))
    assert -answer.objective == pytest.approx(value, rel=1e-5)
    # jobs that arrived together: max-min throughput
    together = fo.Policy(fo.Leximin(fo.ThroughputShare())).allocate(cluster(ODD))
    assert 1 / together.share(fo.ThroughputShare()).min() == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(
    ("prices", "slo"), [((1.0, 1.0, 1.0), None), (tuple(PRICES), None), (tuple(PRICES), 100 / 1000)]
)
def test_sum_of_throughput_per_price_with_service_levels(prices: tuple[float, ...], slo: float | None) -> None:
    hours = cp.Variable((2, 3), nonneg=True)
    constraints = base(hours, EVEN)
    if slo:
        constraints.append(cp.sum(cp.multiply(RATES[0], hours[0])) >= slo)
    value = best(cp.Maximize(cp.sum(cp.multiply(RATES / np.array(prices), hours))), constraints)
    levels = [fo.MinShare((slo, 0.0), Throughput((1.0, 1.0)))] if slo else []
    answer = fo.Policy(fo.Total(PerPrice(prices)), levels).allocate(cluster(EVEN))
    assert answer.certificate.ok
    assert answer.objective == pytest.approx(value, rel=1e-6)


# Packing: a user for each job and for each pair of jobs that may run on one GPU at once; a pair is part of the budgets
# of both jobs, and does some work for each.


def packed(gpus: Any = EVEN) -> fo.Instance:
    """Two jobs and their pair."""
    budgets = [{"name": f"hours of {j}", "resource": "gpu", "amount": 1, "of": [j, "0+1"]} for j in "01"]
    return fo.Instance(
        np.ones((3, 1)), np.array(gpus, float)[:, None], users=["0", "1", "0+1"], resources=["gpu"], limits=budgets
    )


def works(alone: Any, pair: Any) -> tuple[Any, Any]:
    """What an hour of each user on each type does for either job."""
    idle = np.zeros(3)
    return frozen([alone[0], idle, pair[0]]), frozen([idle, alone[1], pair[1]])


def frozen(work: Any, over: float = 1.0) -> Any:
    return tuple(map(tuple, (np.array(work) / over).tolist()))


@dataclass(frozen=True, repr=False)
class Smallest(fo.Objective):
    """The smallest of the jobs' works."""

    of: tuple[Any, ...]

    def expression(self, model: Any) -> Any:
        return cp.min(cp.hstack([cp.sum(cp.multiply(np.array(work), model.tasks_by_server)) for work in self.of]))


@dataclass(frozen=True, repr=False)
class Latest(fo.Objective):
    """Minus the longest of the jobs' durations, as works are relative to what is left."""

    of: tuple[Any, ...]

    def expression(self, model: Any) -> Any:
        works = cp.hstack([cp.sum(cp.multiply(np.array(work), model.tasks_by_server)) for work in self.of])
        return -cp.max(cp.inv_pos(works))


@dataclass(frozen=True, repr=False)
class PairedWork(fo.Share):
    """Works of all jobs together over the prices."""

    of: tuple[Any, ...]
    prices: tuple[float, ...]

    def per_task(self, instance: fo.Instance) -> Any:
        return np.sum(self.of, axis=0) / np.array(self.prices)


@dataclass(frozen=True, repr=False)
class ServiceLevel(fo.Constraint):
    """A least work of one job."""

    work: Any
    least: float

    def constraints(self, model: Any) -> dict[str, Any]:
        return {"service level": cp.sum(cp.multiply(np.array(self.work), model.tasks_by_server)) >= self.least}


def pair_program() -> tuple[Any, Any, list[Any]]:
    """Hours of the jobs alone and of their pair, with Gavel's constraints on one GPU of each type."""
    alone, both = cp.Variable((2, 3), nonneg=True), cp.Variable(3, nonneg=True)
    return alone, both, [cp.sum(alone, axis=0) + both <= 1, cp.sum(alone, axis=1) + cp.sum(both) <= 1]


def done(alone: Any, both: Any, job: int, rates: Any = RATES, pair: Any = PAIR) -> Any:
    return cp.sum(cp.multiply(rates[job], alone[job])) + cp.sum(cp.multiply(pair[job], both))


def test_max_min_fairness_with_packing() -> None:
    alone, both, constraints = pair_program()
    normal = RATES.sum(axis=1)
    value = best(cp.Maximize(cp.minimum(*(done(alone, both, j) / normal[j] for j in (0, 1)))), constraints)
    of = tuple(map(frozen, works(RATES, PAIR), normal))
    answer = fo.Policy(Smallest(of)).allocate(packed())
    assert answer.certificate.ok
    assert answer.objective == pytest.approx(value, rel=1e-6)


def test_water_filling_with_packing() -> None:
    """The smaller level is that of max-min; the other then rises, as Gavel's second program says."""
    alone, both, constraints = pair_program()
    normal = RATES.sum(axis=1)
    of = tuple(map(frozen, works(RATES, PAIR), normal))
    least = fo.Policy(Smallest(of)).allocate(packed()).objective
    assert least == pytest.approx(3 / 6)  # an hour on the V100, the most that job 1 can have
    rises = best(
        cp.Maximize(done(alone, both, 0) / normal[0]), [*constraints, done(alone, both, 1) / normal[1] >= least]
    )
    levels = ServiceLevel(of[1], least * (1 - 1e-9))
    answer = fo.Policy(fo.Total(PairedWork((of[0],), (1.0, 1.0, 1.0))), [levels]).allocate(packed())
    assert answer.certificate.ok
    assert answer.objective == pytest.approx(rises, rel=1e-6) == pytest.approx(2 / 3.5, rel=1e-6)


def test_max_min_fairness_with_packing_of_types_of_jobs() -> None:
    """Gavel has hours of a job beside each type of job, those of A beside B equal to those of B beside A."""
    rates, pair = np.array([[2, 1, 0.5], [10, 5, 2.5]]), np.array([[1, 0.5, 0.25], [5, 2.5, 1.25]])
    alone, beside = cp.Variable((2, 3), nonneg=True), cp.Variable((2, 3), nonneg=True)
    throughput = cp.sum(cp.multiply(rates, alone) + cp.multiply(pair, beside), axis=1)
    constraints = [
        beside[0] == beside[1],
        cp.sum(alone + beside, axis=1) <= 1,
        cp.sum(alone + beside / 2, axis=0) <= 1,
    ]
    normal = rates.sum(axis=1)
    value = best(cp.Maximize(cp.min(cp.multiply(throughput, 1 / normal))), constraints)
    of = tuple(map(frozen, works(rates, pair), normal))
    assert fo.Policy(Smallest(of)).allocate(packed()).objective == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("steps", [(300.0, 500.0), (200.0, 300.0)])
def test_finish_time_fairness_with_packing(steps: tuple[float, float]) -> None:
    slices = on_slices(RATES, EVEN)
    alone, both, constraints = pair_program()
    ratios = [steps[j] * cp.inv_pos(done(alone, both, j)) / (steps[j] / slices[j]) for j in (0, 1)]
    value = best(cp.Minimize(cp.maximum(*ratios)), constraints)
    of = tuple(map(frozen, works(RATES, PAIR), slices))
    assert -fo.Policy(Latest(of)).allocate(packed()).objective == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("prices", [tuple(PRICES), (1.0, 1.0, 1.0)])
def test_sum_of_throughput_per_price_with_packing_and_service_levels(prices: tuple[float, ...]) -> None:
    alone, both, constraints = pair_program()
    per = RATES / np.array(prices)
    value = best(
        cp.Maximize(cp.sum(cp.multiply(per, alone)) + cp.sum(cp.multiply((PAIR / np.array(prices)).sum(axis=0), both))),
        [*constraints, done(alone, both, 0) >= 0.1],
    )
    of = works(RATES, PAIR)
    answer = fo.Policy(fo.Total(PairedWork(of, prices)), [ServiceLevel(of[0], 0.1)]).allocate(packed())
    assert answer.certificate.ok
    assert answer.objective == pytest.approx(value, rel=1e-6)


# Water-filling.


def drawn(rng: random.Random, entities: int = 0) -> tuple[fo.Instance, Any, Any, Any]:
    """The 300 jobs on 64 GPUs of each type that Gavel's tests draw: also normal throughputs, weights and entities.

    Jobs of entities have the rates at which Gavel's first program raises them as weights.
    """
    of_entity = [[rng.randint(0, 1), rng.randint(1, 5)] for _ in range(entities)]  # the policy inside it, its weight
    rates, factors, weights, entity = [], [], [], []
    for _ in range(300):
        rates.append(sorted(rng.random() for _ in range(3)))
        factors.append(2 ** rng.randint(0, 2))
        if entities:
            entity.append(rng.randint(0, entities - 1))
        weights.append(float(rng.randint(1, 5)))
    jobs = cluster([64] * 3, np.array(rates), factors, weights=weights)
    if entities:
        jobs = jobs.replace(
            teams={"team": [f"entity{e}" for e in entity]},
            weights={f"entity{e}": w for e, (_, w) in enumerate(of_entity)},
        )
        for e, (fair, of) in enumerate(of_entity):
            inside = [j for j in range(300) if entity[j] == e]
            total = sum(weights[j] for j in inside)
            for j in inside:  # else first in, first out: only the first job rises
                weights[j] = of * weights[j] / total if fair else of * (j == inside[0])
    slices = on_slices(np.array(rates), [64] * 3)
    return jobs, tuple((slices / np.array(factors)).tolist()), np.array(weights), np.array(entity)


def test_water_filling_of_300_jobs() -> None:
    rng = random.Random(0)
    for _ in range(2):
        jobs, normal, weights, _ = drawn(rng)
        hours = cp.Variable((300, 3), nonneg=True)
        levels = cp.sum(cp.multiply(jobs.rates / (np.array(normal) * weights)[:, None], hours), axis=1)
        value = best(cp.Maximize(cp.min(levels)), base(hours, [64] * 3, jobs.demands[:, 0]))
        answer = fo.Policy(fo.Leximin(Throughput(normal))).allocate(jobs)
        assert answer.certificate.ok
        assert (answer.share(Throughput(normal)) / weights).min() == pytest.approx(value, rel=1e-6)


def test_two_levels_of_300_jobs_in_10_entities_are_certified() -> None:
    jobs, normal, _, entity = drawn(random.Random(0), 10)
    share = fo.OfTeam(Throughput(normal))
    answer = fo.Policy(fo.Leximin(share)).allocate(jobs)
    assert answer.certificate.ok
    weights = np.array([jobs.team_weights[name] for name in share.labelling(jobs).names])
    hours = cp.Variable((300, 3), nonneg=True)
    levels = cp.sum(cp.multiply(jobs.rates / np.array(normal)[:, None], hours), axis=1)
    of_entity = np.array([share.labelling(jobs).of_user == t for t in range(10)], float) / weights[:, None]
    value = best(cp.Maximize(cp.min(of_entity @ levels)), base(hours, [64] * 3, jobs.demands[:, 0]))
    assert (answer.share(share) / weights).min() == pytest.approx(value, rel=1e-6)
    assert len({*entity.tolist()}) == 10


@dataclass(frozen=True, repr=False)
class Rise(fo.Objective):
    """How far levels rise together from zero, each at its rate."""

    share: fo.Share
    rates: tuple[float, ...]

    def expression(self, model: Any) -> Any:
        return cp.min(cp.hstack([model.share(self.share)[j] / rate for j, rate in enumerate(self.rates) if rate]))


def test_the_first_program_of_two_levels_of_300_jobs() -> None:
    """Entities are fair or first in, first out inside, as Gavel draws them."""
    jobs, normal, rates, _ = drawn(random.Random(0), 10)
    rising = np.flatnonzero(rates)
    assert 10 < len(rising) < 300
    hours = cp.Variable((300, 3), nonneg=True)
    levels = cp.sum(cp.multiply(jobs.rates / np.array(normal)[:, None], hours), axis=1)
    value = best(cp.Maximize(cp.min(levels[rising] / rates[rising])), base(hours, [64] * 3, jobs.demands[:, 0]))
    answer = fo.Policy(Rise(Throughput(normal), tuple(rates.tolist()))).allocate(jobs)
    assert answer.certificate.ok
    assert answer.objective == pytest.approx(value, rel=1e-6)


def entities(seed: int, types: int) -> tuple[fo.Instance, Throughput, Any]:
    """A few jobs of two entities, with levels by Gavel's rule."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    rates, factors = np.sort(rng.random((n, types)), axis=1), 2.0 ** rng.integers(0, 3, n)
    gpus = np.full(types, 4)
    weights, of_entity = rng.integers(1, 6, n).astype(float), rng.integers(1, 6, 2).astype(float)
    entity = np.r_[0, 1, rng.integers(0, 2, n - 2)]
    jobs = fo.Instance(
        factors[:, None], gpus[:, None].astype(float), task_limits=1, rates=rates, teams={"team": entity.astype(str)}
    )
    jobs = jobs.replace(weights=dict(zip(jobs.users, weights, strict=True)))
    jobs = jobs.replace(weights={"0": of_entity[0], "1": of_entity[1]})
    share = Throughput(tuple((on_slices(rates, gpus) / factors).tolist()))
    return jobs, share, two_levels(rates, factors, gpus, weights, entity, of_entity)


@pytest.mark.parametrize("seed", range(8))
def test_with_one_type_of_gpu_two_levels_are_those_of_gavel(seed: int) -> None:
    jobs, share, expected = entities(seed, 1)
    answer = fo.Policy(fo.Leximin(fo.OfTeam(share))).allocate(jobs)
    assert answer.share(share) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_with_several_types_the_smallest_entity_has_at_least_what_gavel_gives_it(seed: int) -> None:
    jobs, share, gavel = entities(seed, 3)
    of = fo.OfTeam(share)
    answer = fo.Policy(fo.Leximin(of)).allocate(jobs)
    weights = [jobs.team_weights["0"], jobs.team_weights["1"]]
    least = (np.bincount(of.labelling(jobs).of_user, gavel) / weights).min()
    assert (answer.share(of) / weights).min() >= least * (1 - 1e-7)


def test_the_example_of_the_documentation() -> None:
    """The loop of programs of `docs/speeds.md` is Gavel's rule; the smaller entity has 1.5 by max-min of entities."""
    rates, ones = np.array([[3, 1, 1], [3, 2, 1], [3, 2, 1]]), np.ones(3)
    levels = two_levels(rates, ones, ones, ones, np.array([0, 0, 1]), np.ones(2))
    assert levels == pytest.approx([0.724138, 0.948276, 1.448276], abs=1e-6)
    jobs = cluster(EVEN, rates, teams={"team": ["x", "x", "y"]})
    of = fo.OfTeam(fo.ThroughputShare())
    assert fo.Policy(fo.Leximin(of)).allocate(jobs).share(of) == pytest.approx([1.6, 1.5], rel=1e-6)
