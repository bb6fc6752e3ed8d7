"""Profitable lies: what is found pays, and what does not pay is not found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairopt as fo
from fairopt.properties.misreports import best
from fairopt.properties.misreports import families as lie_families
from fairopt.properties.misreports.best import (
    FAMILIES,
    MisreportSearch,
    best_lies,
    best_misreport,
    true_tasks,
    verified_misreport,
)
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import progress
from fairopt.solve.form.many_instances import Batch
from tests.oracle import fractions_waterfill as oracle
from tests.oracle.instances import cluster, pools

SHORT_2DF = fo.Policy(fo.Leximin(fo.KDominantShare(2, short="positive")), name="2-DF, short")


def small(seed, size=60, n=3, m=3, least=1):
    rng = np.random.default_rng(seed)
    demands = rng.integers(least, 6, size=(size, n, m)).astype(float)
    demands[..., 0] += ~demands.any(axis=2)
    return demands, rng.integers(2, 13, size=(size, m)).astype(float)


class Scaled:
    """DRF, but all tasks are cut to what ``factor`` says of the instance."""

    def __init__(self, factor):
        self.factor = factor

    def allocate(self, instance):
        answer = fo.DRF().allocate(instance)
        return dataclasses.replace(answer, tasks_by_server=answer.tasks_by_server * self.factor(instance))


# -- what a lie brings ------------------------------------------------------------------------------------------


def test_true_tasks_are_the_least_that_the_bundle_has_room_for():
    np.testing.assert_array_equal(true_tasks([[6, 4], [6, 4], [1, 9]], [[2, 1], [0, 8], [1, 1]]), [3, 0.5, 1])
    assert true_tasks([6, 4], [2, 1], limit=2) == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_gains_of_2df_are_those_of_exact_fractions(family):
    demands, capacities = small(1, size=12)
    found = best_lies(SHORT_2DF, Batch.of(demands, capacities), families=(family,), tries=60)
    for b, j in np.argwhere(found.gain > 0):
        stated = demands[b].copy()
        stated[j] = found.demands[b, j]

        def tasks(rows, room=capacities[b]):
            exact = oracle.leximin(rows.tolist(), room.tolist(), short_2df(rows, room))
            return [float(x) for x in exact]

        truthful = tasks(demands[b])[j]
        received = tasks(stated)[j] * stated[j]
        assert found.truthful[b, j] == pytest.approx(truthful, rel=1e-9)
        assert found.gain[b, j] == pytest.approx(true_tasks(received, demands[b, j]) / truthful - 1, rel=1e-6)


def short_2df(rows, room):
    """The product of the two largest ratios, or the one that there is."""
    worth = []
    for row in rows:
        ratios = sorted((oracle.Fraction(v) / oracle.Fraction(c) for v, c in zip(row, room, strict=True)), reverse=True)
        worth.append(ratios[0] * ratios[1] if ratios[1] > 0 else ratios[0])
    return worth


def test_the_lie_against_nash_welfare_in_whole_numbers():
    """C = (2, 4): the second user reports (2, 3) instead of (3, 1) and runs 4/9 instead of 1/3."""
    cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["a", "b"])
    lie = verified_misreport(fo.FDS(1), cluster, "b", [2, 3], "grid")
    assert lie is not None
    assert (lie.user, lie.demands, lie.family) == ("b", (2.0, 3.0), "grid")
    assert lie.truthful == pytest.approx(1 / 3, rel=1e-6)
    assert lie.lying == pytest.approx(4 / 9, rel=1e-6)
    assert lie.gain == pytest.approx(1 / 3, rel=1e-5)
    assert str(lie) == "user 'b' reports (2, 3) and runs 0.444444 tasks instead of 0.333333 (+33.333%)"
    best = best_misreport(fo.FDS(1), cluster, "b")
    assert best is not None and best.gain >= lie.gain


def test_where_the_truth_brings_nothing_the_gain_is_infinite():
    cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    lie = best_misreport(fo.MostTasks(), cluster, "batch")
    assert lie is not None
    assert np.isinf(lie.gain) and lie.truthful == 0 and lie.lying > 0
    assert "from none" in str(lie)


def test_a_lie_about_more_than_ones_limit_brings_nothing():
    cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], task_limits=[None, 1 / 4])
    assert best_misreport(fo.FDS(1), cluster, 1, budget=500) is None
    assert best_misreport(fo.FDS(1), cluster.with_task_limits([None, 0]), 1, budget=50) is None


# -- who finds what ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "policy", "least"),
    [
        ("scale", fo.GFJ(2), 1),
        ("scale", fo.KDF(2), 1),
        ("grid", fo.FDS(5), 1),
        ("co-dominant", fo.FDS(2), 1),
        ("single", fo.FDS(2), 1),
        ("zero", fo.FDS(1), 0),
        ("zero", SHORT_2DF, 0),
        ("random", fo.FDS(2), 1),
        ("random", fo.HFFMRA(), 1),
    ],
    ids=str,
)
def test_every_family_finds_lies_that_pay_and_that_hold_when_solved_again(family, policy, least):
    demands, capacities = small(7, least=least)
    found = best_lies(policy, Batch.of(demands, capacities), families=(family,), tries=80)
    tally = found.tallies[family]
    assert 0 < tally.hits <= found.gain.size and tally.seconds is not None and tally.tried > 0
    b, j = np.argwhere(found.gain > 0)[0]
    lie = verified_misreport(policy, fo.Instance(demands[b], capacities[b]), int(j), found.demands[b, j])
    assert lie is not None and lie.gain == pytest.approx(found.gain[b, j], rel=1e-3)


@pytest.mark.parametrize("alpha", [1, 2, 5])
def test_rare_lies_against_fds_are_found_by_every_seed(alpha):
    for seed in range(2):
        demands, capacities = small(seed, size=30, n=2)
        assert (best_lies(fo.FDS(alpha), Batch.of(demands, capacities), tries=200, seed=seed).gain > 1e-3).any()


def test_the_climb_improves_on_the_families():
    demands, capacities = small(3, size=20)
    found = best_lies(fo.FDS(0.5), Batch.of(demands, capacities), families=("scale",), tries=200)
    assert found.tallies["scale"].hits == 0  # dominant shares do not change when all is scaled
    assert found.tallies["climb"].hits == (found.family == "climb").sum() > 0


def test_zeros_stay_out_of_positive_reports_and_truths_out_of_boosts():
    demands, capacities = small(4, least=0)
    boosted = best_lies(fo.FDS(1), Batch.of(demands, capacities), boosting=True, tries=100)
    assert (boosted.gain > 0).any()
    assert (boosted.demands >= demands).all()
    for policy in (fo.MLFDRS(), fo.MostTasks()):
        positive = best_lies(policy, Batch.of(demands, capacities), positive=True, tries=100)
        assert (positive.gain > 0).any()
        assert (positive.demands[demands > 0] > 0).all()


def test_boosting_does_not_pay_under_2df_on_positive_demands():
    """Theorem 4 of Jiang and Wu 2021, as far as it goes; any other lie pays at once."""
    demands, capacities = small(5)
    assert best_lies(fo.KDF(2), Batch.of(demands, capacities), boosting=True, tries=150).gain.max() == 0
    assert best_lies(fo.KDF(2), Batch.of(demands, capacities), tries=50).gain.max() > 0.1


# -- who is not accused -----------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(pools(max_users=4, max_resources=3), st.integers(0, 2**31))
def test_no_lie_pays_under_drf(instance, seed):
    """DRF is strategy-proof: with zeros, weights and limits."""
    if instance.n_users:
        assert best_misreport(fo.DRF(), instance, 0, seed=seed, budget=200) is None


def test_no_lie_pays_under_drf_on_thousands_of_users():
    rng = np.random.default_rng(0)
    demands, capacities = small(9, size=400, least=0)
    weights = rng.integers(1, 5, size=demands.shape[:2])
    found = best_lies(fo.DRF(), Batch.of(demands, capacities, weights), tries=100)
    assert found.gain.max() == 0 and found.faults == ()
    assert (found.family == "").all() and (found.demands == demands).all()


@pytest.mark.parametrize("extra", [5e-6, 5e-5])
def test_a_gain_below_the_noise_is_no_lie(extra):
    """A mechanism that rewards any lie by a given gain."""
    truth = np.array([[1.0, 2.0], [2.0, 1.0]])
    rewarding = Scaled(lambda i: 1.0 if (i.demands != truth).any() else 1.0 / (1.0 + extra))
    lie = best_misreport(rewarding, fo.Instance(truth, [6, 6]), 0, budget=60)
    assert (lie is not None) == (extra > 1e-5)
    if lie is not None:
        assert lie.gain == pytest.approx(extra, rel=1e-3)


def test_a_gain_within_what_the_gap_leaves_open_is_no_lie():
    truth = np.array([[1.0, 2.0], [2.0, 1.0]])

    class Loose(Scaled):
        gap = 0.0

        def allocate(self, instance):
            answer = super().allocate(instance)
            return dataclasses.replace(answer, certificate=dataclasses.replace(answer.certificate, gap=self.gap))

    loose = Loose(lambda i: 1.0 if (i.demands != truth).any() else 0.999)
    told = [2, 4]
    assert verified_misreport(loose, fo.Instance(truth, [6, 6]), 0, told) is not None
    loose.gap = 9e-7
    assert verified_misreport(loose, fo.Instance(truth, [6, 6]), 0, told) is None


# -- several servers --------------------------------------------------------------------------------------------


def test_lies_on_several_servers():
    several = fo.Instance([[1, 3], [3, 1]], [[2, 4], [2, 4]], users=["a", "b"])
    lie = best_misreport(fo.FDS(1), several, "b", budget=120)
    assert lie is not None and lie.gain > 0.3
    again = verified_misreport(fo.FDS(1), several, "b", lie.demands)
    assert again is not None and again.gain == lie.gain


def test_demands_by_server_are_lied_about_by_server():
    example = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]], users=["a", "b"])
    lie = best_misreport(fo.HFFMRA(), example, "a", budget=150)
    assert lie is not None and np.shape(lie.demands) == (2, 2)
    lied = example.with_demands([lie.demands, example.demands[1]])
    held = fo.HFFMRA().allocate(lied).bundles[0]
    expected = (held / example.demands[0]).min(axis=1).sum()
    assert lie.lying == pytest.approx(expected) and lie.lying > lie.truthful


class OwnSlice:
    """Each user runs what fits into its part of each server: nothing that is said can make it larger."""

    def allocate(self, instance):
        tasks = instance.tasks_alone / instance.n_users
        tasks = tasks * np.minimum(1.0, instance.task_limits / tasks.sum(axis=1))[:, None]
        return fo.Allocation(instance, self, tasks, fo.Certificate(0.0, 0.0, "own"), 0.0)


@pytest.mark.parametrize("by_server", [False, True])
def test_no_lie_pays_for_who_holds_its_own_slice_of_every_server(by_server):
    rng = np.random.default_rng(6)
    for _ in range(8):
        several = cluster(rng, 3, 2, 3, by_server=by_server)
        assert best_misreport(OwnSlice(), several, 0, budget=200) is None


def test_a_lie_that_leaves_nowhere_to_run_is_passed_over():
    """The resource that the only eligible server lacks cannot be asked for."""
    several = fo.Instance([[1, 0], [1, 1]], [[4, 0], [4, 4]], eligible=[[True, False], [True, True]])
    lie = best_misreport(fo.DRF(), several, 0, budget=60)
    assert lie is None or lie.gain > 1e-5


# -- faults and bad input ---------------------------------------------------------------------------------------


def test_faults_under_a_lie_are_reported_with_the_demands_stated():
    class Fragile:
        def allocate(self, instance):
            if instance.demands[0, 0] > 5:
                raise ZeroDivisionError("too much")
            return fo.DRF().allocate(instance)

    truth = np.array([[[2.0, 1.0], [1.0, 1.0]], [[6.0, 1.0], [1.0, 1.0]]])
    found = best_lies(Fragile(), Batch.of(truth, [8, 8]), tries=60)
    assert np.isnan(found.gain[1]).all() and (found.gain[0] == 0).all()
    assert {b for b, _, _ in found.faults} == {0, 1}
    for b, stated, error in found.faults:
        assert stated[0, 0] > 5 and isinstance(error, ZeroDivisionError)
        assert b == 1 or (stated[1] == truth[0, 1]).all()
    assert best_misreport(Fragile(), fo.Instance(truth[0], [8, 8]), 0, budget=60) is None
    with pytest.raises(ZeroDivisionError):
        best_misreport(Fragile(), fo.Instance(truth[1], [8, 8]), 0)


def test_undefined_truths_are_outside_and_undefined_lies_passed_over():
    found = best_lies(fo.KDF(2), Batch.of([[[1, 0], [1, 1]], [[1, 2], [2, 1]]], [6, 6]), tries=100)
    assert found.outside.tolist() == [True, False]
    assert np.isnan(found.gain[0]).all() and (found.gain[1] > 0).all() and found.faults == ()
    with pytest.raises(fo.errors.OutOfDomain):
        best_misreport(fo.KDF(2), fo.Instance([[1, 0], [1, 1]], [6, 6]), 1)


def test_users_who_take_no_part_and_no_users_at_all():
    found = best_lies(fo.FDS(1), Batch.of([[[1, 3], [3, 1]]], [2, 4], task_limits=[np.inf, 0]), tries=60)
    assert found.gain.tolist() == [[0, 0]]
    assert best_lies(fo.DRF(), Batch.of(np.ones((0, 2, 2)), [1, 1])).gain.shape == (0, 2)
    assert best_lies(fo.DRF(), Batch.of(np.ones((2, 0, 2)), [1, 1])).gain.shape == (2, 0)
    alone = fo.Instance([[3]], [7])
    assert best_misreport(fo.FDS(1), alone, 0, budget=100) is None


def test_the_same_seed_gives_the_same_lies():
    demands, capacities = small(8, size=10)
    first, again, other = (best_lies(fo.FDS(2), Batch.of(demands, capacities), tries=80, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.demands, again.demands)
    assert (first.demands != other.demands).any()


def test_progress_tells_families_from_the_climb():
    said = []
    with progress(lambda what, done, of: said.append(what)):
        best_lies(fo.DRF(), Batch.of([[[1, 1]]], [1, 1]), tries=20)
    assert list(dict.fromkeys(said)) == ["instances", "lies: families, users", "lies: climb, users"]


@pytest.mark.parametrize("user", ["nobody", 2, -1, True, None])
def test_an_unknown_user_is_refused_by_name(user):
    with pytest.raises(fo.errors.InvalidInstance, match="no user"):
        best_misreport(fo.DRF(), fo.Instance([[1], [1]], [1]), user)


@pytest.mark.parametrize("tries", [0, -3, 1.5, True])
def test_impossible_numbers_of_tries_are_refused(tries):
    with pytest.raises(fo.errors.InvalidBlock, match="whole number"):
        best_misreport(fo.DRF(), fo.Instance([[1], [1]], [1]), 0, budget=tries)


# -- the families themselves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("servers", [1, 2])
def test_families_keep_to_their_shape_and_number(family, servers):
    truth = np.array([[1.0, 0, 2, 3], [2, 2, 1, 1], [4, 0, 1, 0]])
    room = np.array([[4.0, 4, 4, 4], [1, 2, 3, 4], [9, 9, 0.5, 9]])
    made = lie_families.reports(family, truth, room, np.random.default_rng(0), 30, servers)
    assert made.shape[::2] == (3, 4) and 1 <= made.shape[1] <= 30
    told, lies = lie_families.legal(made, truth, room, boosting=False, positive=False, servers=servers)
    assert lies.any()
    assert (told[lies].reshape(-1, servers, 4 // servers).sum(axis=2) > 0).all()


def test_near_co_dominance_is_reached_from_both_sides():
    truth, room = np.array([[4.0, 1.0]]), np.array([[8.0, 4.0]])  # ratios 1/2 and 1/4
    made = lie_families.reports("co-dominant", truth, room, np.random.default_rng(0), 100)[0]
    assert [4.0, 2.0] in made.tolist() and [2.0, 1.0] in made.tolist()
    ratios = (made / room)[:, 1] / (made / room)[:, 0]
    assert ((ratios > 0.99) & (ratios < 1)).any() and ((ratios > 1) & (ratios < 1.01)).any()


def test_only_the_family_of_zeros_and_whole_numbers_touch_zeros_for_sure():
    truth, room = np.array([[2.0, 0.0]]), np.array([[8.0, 4.0]])
    for family in ("scale", "co-dominant", "single"):
        assert (lie_families.reports(family, truth, room, np.random.default_rng(0), 99)[..., 1] == 0).all()
    made = lie_families.reports("zero", truth, room, np.random.default_rng(0), 99)
    assert (made[..., 1] > 0).any() and made[..., 1].max() > 1  # beyond the dominant ratio of 1/4


def test_what_is_not_there_is_not_asked_for():
    truth, room = np.array([[2.0, 0.0]]), np.array([[8.0, 0.0]])
    for family in FAMILIES:
        made = lie_families.reports(family, truth, room, np.random.default_rng(0), 99)
        told, _ = lie_families.legal(made, truth, room, boosting=False, positive=False)
        assert (told[..., 1] == 0).all()


def test_reports_of_some_of_the_cases_are_tried_on_these():
    truth = np.full((6, 1), 2.0)
    search = MisreportSearch(lambda reported, case: (case.astype(float), []), truth, truth, np.ones(6), np.ones(6))
    search.judge(slice(3, 6), {"scale": (np.ones((3, 1, 1)), np.ones((3, 1), dtype=bool))})
    assert search.gain.tolist() == [0, 0, 0, 2, 3, 4] and search.best.ravel().tolist() == [2, 2, 2, 1, 1, 1]


def test_reports_after_one_that_no_instance_may_have_are_tried():
    instance = fo.Instance([[1, 1], [1, 1]], [[4, 4], [2, 2]])
    tasks, faults = best.search_on_servers(fo.DRF(), instance, 0, 3.0).attempt(
        np.array([[0.0, 0.0], [1.0, 1.0]]), np.zeros(2, dtype=int)
    )
    assert np.isnan(tasks[0]) and tasks[1] == pytest.approx(3) and not faults


def test_the_whole_grid_is_tried_where_it_is_small():
    truth, room = np.array([[1.0, 2.0]]), np.array([[8.0, 8.0]])
    made = lie_families.reports("grid", truth, room, np.random.default_rng(0), 100)[0]
    assert len({tuple(row) for row in made.tolist()}) == len(made) == 15  # 0 to 3 each, not both 0


# -- when the time is short -----------------------------------------------------------------------------------

TRUTH = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["a", "b"])


@pytest.mark.parametrize(("capacities", "budget"), [([[2, 4]], 200), ([[2, 4], [3, 1]], 20)])
def test_with_enough_time_the_same_lie_is_found_as_without_a_limit(capacities, budget):
    instance = fo.Instance(TRUTH.demands, capacities, users=["a", "b"])
    without, within = (
        fo.properties.best_misreport(fo.KDF(2), instance, "b", budget=budget, time_limit=limit) for limit in (None, 600)
    )
    assert without == within and without is not None


def test_a_lie_that_was_found_before_the_time_was_over_is_verified_and_returned(monkeypatch):
    judge = MisreportSearch.judge

    def slow(search, where, made):
        found = judge(search, where, made)
        search.late = True
        return found

    monkeypatch.setattr(MisreportSearch, "judge", slow)
    lie = fo.properties.best_misreport(fo.FDS(1), TRUTH, "b", time_limit=600)
    assert lie.gain > 0.1 and lie.family != "climb"


def test_a_search_that_ended_early_without_a_lie_says_how_much_was_tried(monkeypatch):
    class LateAfterTwo(Clock):
        name, answers = "DRF", 0
        late = property(lambda self: self.answers >= 2)

        def allocate(self, instance, time_limit):
            assert 0 < time_limit <= 60
            self.answers += 1
            return fo.DRF().allocate(instance)

    clock = LateAfterTwo(60)
    monkeypatch.setattr(best, "Clock", lambda limit: clock)
    with pytest.warns(RuntimeWarning, match=r"no lie of 'b' was found .* 1 report tried when .* of 60 s .* 3,000 to"):
        assert fo.properties.best_misreport(clock, TRUTH, "b", time_limit=60) is None
    monkeypatch.undo()
    with pytest.raises(fo.errors.NotCertified, match="no answer was certified within the time limit of 1e-09 s"):
        fo.properties.best_misreport(fo.DRF(), TRUTH, "b", time_limit=1e-9)


def test_the_last_verification_keeps_to_the_limit(monkeypatch):
    class LateWhenVerifying(Clock):
        name, answers = "FDS", 0

        def allocate(self, instance, time_limit):
            self.answers += 1
            if self.answers == 2:
                self.end -= 60
            return fo.FDS(1).allocate(instance)

    clock = LateWhenVerifying(60)
    monkeypatch.setattr(best, "Clock", lambda limit: clock)
    monkeypatch.setattr(MisreportSearch, "run", lambda search, *_: search.kept.append((0.3, np.array([2.0, 3.0]), "x")))
    with pytest.warns(RuntimeWarning, match="no lie of 'b' was found"):
        assert fo.properties.best_misreport(clock, TRUTH, "b", time_limit=60) is None
    assert clock.answers == 2


def test_reports_of_a_member_keep_its_team():
    pool = fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 10], users=["a", "b", "c"], teams={"team": ["x", "x", "y"]})
    lie = best_misreport(fo.Policy(fo.AlphaFair(2, fo.OfTeam())), pool, "a", budget=60)
    assert lie is not None and lie.gain > 0.3
