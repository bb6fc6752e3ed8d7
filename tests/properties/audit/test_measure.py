"""Families of pools and vectorised measures: against the checks of one allocation, one pool at a time."""

from dataclasses import replace

import numpy as np
import pytest

import fairopt as fo
from fairopt.properties.answers import outcomes_of
from fairopt.properties.audit.measure import measure, violations
from fairopt.properties.audit.random_instances import FAMILIES, random_pools
from fairopt.properties.audit.shrink import Shrinker, counterexample_of, size_of
from fairopt.properties.checks import check
from fairopt.properties.exact.confirm import verified
from fairopt.properties.margins import margins_of
from fairopt.solve.form.many_instances import Batch

POLICIES = [fo.DRF(), fo.KDF(2, short="positive"), fo.FDS(0.5), fo.MostTasks(), fo.MLFDRS(), fo.HFFMRA()]
NAMES = ("pareto", "sharing-incentive", "envy-free", "bottleneck")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("positive", [True, False])
def test_families_are_instances_and_follow_the_seed(family: str, positive: bool) -> None:
    def draw() -> Batch:
        rng = np.random.default_rng(3)
        return random_pools(rng, family, (3, 3), 200, positive=positive, weights=True, limits=True)

    pools = draw()
    assert (pools.demands == draw().demands).all() and (pools.capacities == draw().capacities).all()
    assert (pools.demands > 0).any(axis=2).all() and (pools.capacities > 0).all()
    assert (pools.demands > 0).all() == positive
    assert len(np.unique(pools.weights)) == 4 and 0 < np.isinf(pools.limits).mean() < 1
    for b in range(0, 200, 40):
        assert pools.instance(b).n_users == 3


def test_binding_integers_have_pools_with_one_two_and_all_resources_full() -> None:
    pools = random_pools(np.random.default_rng(0), "binding integers", (3, 3), 500, positive=True)
    tasks = fo.allocate_many(fo.FDS(1), pools.demands, pools.capacities).tasks
    full = (np.einsum("bjm,bj->bm", pools.demands, tasks) / pools.capacities > 1 - 1e-6).sum(axis=1)
    assert set(full) == {1, 2, 3}


@pytest.mark.fast_methods
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
@pytest.mark.parametrize("name", NAMES)
def test_measures_agree_with_the_checks(policy: fo.Policy, name: str) -> None:
    bundles = policy.name in ("MLF-DRS", "H-FFMRA")
    for family in FAMILIES:
        pools = random_pools(np.random.default_rng(7), family, (3, 2), 6, weights=not bundles, limits=True)
        found = outcomes_of(policy, pools)
        margin, user = violations(margins_of(name), pools, found)
        for b in np.flatnonzero(found.ok):
            verdict = check(policy.allocate(pools.instance(b)), [name])[name]
            assert (margin[b] > 1e-5) == (verdict.margin > 1e-5), (family, b, margin[b], str(verdict))
            if name in ("sharing-incentive", "envy-free") and not verdict.holds:
                assert margin[b] == pytest.approx(verdict.margin, rel=1e-5)
                assert repr(f"user{user[b] + 1}") in verdict.sentence


@pytest.mark.parametrize("name", ["strategy-proof", "population-monotone", "resource-monotone"])
def test_what_is_measured_about_a_mechanism_is_verified_one_by_one(name: str) -> None:
    pools = random_pools(np.random.default_rng(1), "binding integers", (3, 3), 60)
    found = measure(fo.FDS(1), name, pools, np.random.default_rng(0), False)
    failing = np.flatnonzero(found.margin > 1e-3)
    assert len(failing) > 3
    for b in failing[:6]:
        proof = verified(fo.FDS(1), counterexample_of(name, found, int(b)))
        assert proof.margin == pytest.approx(found.margin[b], rel=1e-3)


def test_no_user_can_leave_a_pool_of_one() -> None:
    pools = random_pools(np.random.default_rng(1), "integers", (1, 2), 5)
    assert not measure(fo.DRF(), "population-monotone", pools, np.random.default_rng(0), False).margin.any()


def everything(pools: Batch) -> np.ndarray:
    return np.ones(len(pools), dtype=bool)


@pytest.mark.parametrize(
    ("policy", "name", "users"),
    [
        (fo.KDF(2), "strategy-proof", 2),
        (fo.MostTasks(), "envy-free", 2),
        (fo.HFFMRA(), "pareto", 2),
        (fo.FDS(1), "population-monotone", 3),
    ],
    ids=str,
)
def test_witnesses_shrink_to_few_users_and_small_integers(policy: fo.Policy, name: str, users: int) -> None:
    pools = random_pools(np.random.default_rng(5), "log space", (4, 3), 100, positive=True)
    found = measure(policy, name, pools, np.random.default_rng(0), True)
    b = int(found.margin.argmax())
    case, proof = Shrinker(policy, name, True, everything, 0, 20.0, 1e-6).smallest(found, b)
    small = case.instance
    assert proof.confirmed and verified(policy, case).margin == proof.margin
    assert small.n_users <= users and small.n_resources <= 2
    assert max(small.demands.max(), small.capacities.max()) <= 8 and not size_of(Batch.of_instance(small))[0]
    assert case.lie is None or max(case.lie) <= 8


def test_small_integers_are_drawn_on_which_a_property_fails_and_refused_pools_are_no_witness() -> None:
    pools = random_pools(np.random.default_rng(5), "log space", (4, 3), 20, positive=True)
    found = measure(fo.KDF(2), "envy-free", pools, np.random.default_rng(0), True)
    b = int(found.margin.argmax())
    shrinker = Shrinker(fo.KDF(2), "envy-free", True, everything, 0, 60.0, 1e-6)
    shrinker.least = 1e-3
    drawn = shrinker._drawn(found.pools[b : b + 1])
    assert drawn is not None and drawn.demands.max() <= 8 and not size_of(drawn)[0]
    larger = replace(drawn, demands=3 * drawn.demands, capacities=3 * drawn.capacities)
    assert (reduced := shrinker._reduced(larger)) is not None and size_of(reduced) < size_of(larger)
    shrinker.accepts = lambda pools: ~everything(pools)
    assert shrinker._drawn(found.pools[b : b + 1]) is None and shrinker._reduced(larger) is None


def test_what_cannot_be_shrunk_in_time_stays_as_it_is() -> None:
    pools = random_pools(np.random.default_rng(5), "log space", (4, 3), 20, positive=True)
    found = measure(fo.KDF(2), "envy-free", pools, np.random.default_rng(0), True)
    b = int(found.margin.argmax())
    case, proof = Shrinker(fo.KDF(2), "envy-free", True, lambda p: ~everything(p), 0, 1e-9, 1e-6).smallest(found, b)
    assert proof.confirmed and case.instance == pools.instance(b)
