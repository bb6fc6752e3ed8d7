"""What each shipped notion is said to satisfy: the docstring of a test is the claim, and the formulas are its own.

Reasons where they are short: at the prices of Nash welfare a user below its limit spends its weight w_j, and all that
there is costs at most sum w, so its own slice and, scaled to its weight, the bundle of any user cost at most w_j too.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracle.fractions_waterfill import dominant, leximin
from scipy.optimize import linprog

import fairopt as fo
from fairopt.properties.checks import check
from fairopt.testing import allocation_of, allocations, instances, misreports, shares, tasks_received

SLACK = 1e-5  # answers are certified to a relative gap of 1e-6, which users' tasks may share unevenly

POOLS = instances(weights=True, limits=True)
POSITIVE = instances(zeros=False, weights=True, limits=True)
EQUAL = instances(limits=True)
CLUSTERS = instances(n_resources=(1, 2), n_servers=(1, 2), weights=True, limits=True, placement=True, counts=True)
OPEN = instances(n_resources=(1, 2), n_servers=(1, 2), weights=True)  # any user anywhere, without limits


# -- formulas -------------------------------------------------------------------------------


def runs_on(instance: fo.Instance, j: int, bundle: Any) -> float:
    """How many tasks user j can run on (n_servers, n_resources) units."""
    total = 0.0
    for s in range(instance.n_servers):
        if instance.eligible[j, s]:
            needs = instance.per_server_demands[j, s]
            total += min(bundle[s][i] / needs[i] for i in range(len(needs)) if needs[i] > 0)
    return total


def below_own_slice(a: fo.Allocation) -> float:
    """How far a user is below its own slice of everything, relatively; at most 0 where no user is."""
    i = a.instance
    parts = i.weights / i.weights.sum()
    slices = [runs_on(i, j, parts[j] * i.capacities * i.counts[:, None]) for j in range(i.n_users)]
    return max(
        (min(y, t) / x - 1 if x > 0 else min(y, t)) for x, y, t in zip(a.tasks, slices, i.task_limits, strict=True)
    )


def envies(a: fo.Allocation) -> float:
    """How much more a user would run on another's bundle, at its own weight, relatively."""
    i, w, worst = a.instance, a.instance.weights, -1.0
    for j in range(i.n_users):
        for k in range(i.n_users):
            would = min(runs_on(i, j, a.bundles[k] * w[j] / w[k]), i.task_limits[j])
            worst = max(worst, would / a.tasks[j] - 1 if a.tasks[j] > 0 else would)
    return worst


def could_be_better(a: fo.Allocation) -> float:
    """By how much all users together can gain while no user loses, in what each could run alone: a linear program."""
    i, n, servers = a.instance, a.instance.n_users, a.instance.n_servers
    room = i.capacities * i.counts[:, None]
    alone = np.array([max(runs_on(i, j, room), 1e-12) for j in range(n)])
    rows, most = [], []
    for s in range(servers):
        for r in range(i.n_resources):
            row = np.zeros((n, servers))
            row[:, s] = i.per_server_demands[:, s, r]
            rows.append(row.ravel())
            most.append(room[s, r])
    for j in range(n):
        row = np.zeros((n, servers))
        row[j] = 1.0
        rows.append(-row.ravel())
        most.append(-a.tasks[j] * (1 - 1e-9))
        if np.isfinite(i.task_limits[j]):
            rows.append(row.ravel())
            most.append(i.task_limits[j])
    worth = np.repeat(1.0 / alone, servers)
    bounds = [(0, None if may else 0) for may in i.eligible.ravel()]
    best = linprog(-worth, A_ub=np.array(rows), b_ub=np.array(most), bounds=bounds, method="highs")
    assert best.status == 0, best.message
    return float(-best.fun - (a.tasks / alone).sum())


def complains(a: fo.Allocation) -> float:
    """The part of its entitlement that a user lacks of every full resource, unless it has all it asked for."""
    i, worst = a.instance, 0.0
    held = a.bundles[:, 0] / i.capacities[0]
    full = held.sum(axis=0) > 1 - 1e-6
    for j, entitled in enumerate(i.weights / i.weights.sum()):
        if a.tasks[j] < i.task_limits[j] * (1 - 1e-6):
            worst = max(worst, 1 - max(held[j][full], default=0.0) / entitled)
    return worst


def play(a: fo.Allocation) -> float:
    """How far tasks may be off where the gap says so little: optima of alpha-fairness are flat.

    A relative error e of user j's tasks costs ``(w_j / sum w) e^2 / 2`` of the logarithm of the mean; twice, since two
    users are compared.
    """
    w = a.instance.weights
    return 2 * float(np.sqrt(2 * a.certificate.gap * w.sum() / w.min())) + 1e-9


def test_the_formulas_find_what_is_wrong() -> None:
    """Most tasks leaves the first user with nothing; half of DRF's tasks could all be doubled."""
    instance = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    most, half = fo.MostTasks().allocate(instance), allocation_of(instance, fo.DRF().allocate(instance).tasks / 2)
    assert below_own_slice(most) == pytest.approx(2.5)  # tasks that it would run on its slice, of none
    assert envies(most) == pytest.approx(25 / 8)  # of the last resource the other holds 25
    assert complains(most) == pytest.approx(1.0)
    assert could_be_better(half) == pytest.approx(0.5)  # a quarter of what each could run alone


# -- leximin of shares ------------------------------------------------------------------------------------------


def exactly(instance: fo.Instance, k: int = 1) -> list[Fraction]:
    """k-DF in exact fractions."""
    demands, capacities = instance.demands.tolist(), instance.capacities[0].tolist()
    per_task = dominant(demands, capacities, k)
    tasks = leximin(demands, capacities, per_task, instance.weights.tolist(), instance.task_limits.tolist())
    assert tasks is not None
    return tasks


def exact_gain(data: st.DataObject, pools: Any, k: int = 1, boosting: bool = False) -> Fraction:
    """How many more tasks a user truly runs under k-DF by a lie that is drawn, in exact fractions."""
    truth = data.draw(pools)
    j = data.draw(st.integers(0, truth.n_users - 1))
    lie = data.draw(misreports(truth, j, boosting=boosting))
    per_unit = min(Fraction(r) / Fraction(d) for r, d in zip(lie.demands[j], truth.demands[j], strict=True) if d > 0)
    received, limit = exactly(lie, k)[j] * per_unit, truth.task_limits[j]
    return (received if np.isinf(limit) else min(received, Fraction(limit))) - exactly(truth, k)[j]


@given(POOLS)
def test_drf_wastes_nothing_and_leaves_no_user_below_its_slice_or_envious(instance: fo.Instance) -> None:
    """DRF is Pareto-efficient, envy-free, and gives a sharing incentive, with zeros, weights and task limits."""
    a = fo.DRF().allocate(instance)
    assert could_be_better(a) <= SLACK
    assert below_own_slice(a) <= 1e-9
    assert envies(a) <= 1e-9


@settings(max_examples=20)
@given(st.data())
def test_no_user_gains_under_drf_by_any_lie(data: st.DataObject) -> None:
    """DRF is strategy-proof, with zeros, weights and task limits."""
    assert exact_gain(data, POOLS) <= 0


@given(st.data())
def test_no_user_gains_under_2df_by_asking_for_more(data: st.DataObject) -> None:
    """2-DF is strategy-proof against boosting where every user needs every resource (Jiang and Wu 2021, Theorem 2)."""
    assert exact_gain(data, instances(n_resources=(2, 3), zeros=False, weights=True), k=2, boosting=True) <= 0


def test_under_2df_it_pays_to_ask_for_less() -> None:
    """2-DF is not strategy-proof: of two users alike, one gets a third more by reporting half its demands."""
    truth, lie = fo.Instance([[1, 1], [1, 1]], [1, 1]), fo.Instance([[0.5, 0.5], [1, 1]], [1, 1])
    assert exactly(truth, 2)[0] == Fraction(1, 2) and exactly(lie, 2)[0] / 2 == Fraction(2, 3)
    assert tasks_received(fo.KDF(2).allocate(lie), truth, 0) == pytest.approx(2 / 3)


@settings(max_examples=10)
@given(st.data())
def test_no_user_gains_under_drfh_by_any_lie(data: st.DataObject) -> None:
    """DRFH is strategy-proof where every user may run on every server."""
    truth = data.draw(OPEN)
    lie = data.draw(misreports(truth, 0))
    honest = fo.DRF().allocate(truth).tasks[0]
    assert tasks_received(fo.DRF().allocate(lie), truth, 0) <= honest * (1 + SLACK)


@given(POSITIVE, st.data())
def test_when_a_user_leaves_drf_gives_no_user_less(instance: fo.Instance, data: st.DataObject) -> None:
    """DRF is population-monotone where every user needs every resource."""
    leaver = data.draw(st.integers(0, instance.n_users - 1))
    stay = np.arange(instance.n_users) != leaver
    before, after = fo.DRF().allocate(instance).tasks[stay], fo.DRF().allocate(instance.select_users(stay)).tasks
    assert (after >= before * (1 - 1e-9)).all()


def test_with_zeros_drf_may_give_less_when_a_user_leaves() -> None:
    """The third user holds back the second, who would otherwise take from the first."""
    three = fo.Instance([[1, 0], [1, 1], [0, 1]], [2, 1])
    assert exactly(three)[0] == Fraction(3, 2) and exactly(three.select_users([0, 1]))[0] == Fraction(4, 3)


def test_drf_is_not_resource_monotone() -> None:
    """More of a resource may cost a user tasks under DRF: so no test here says otherwise."""
    less, more = fo.Instance([[0, 1], [2, 1]], [1, 1]), fo.Instance([[0, 1], [2, 1]], [2, 1])
    assert fo.DRF().allocate(less).tasks[0] == pytest.approx(2 / 3)
    assert fo.DRF().allocate(more).tasks[0] == pytest.approx(1 / 2)


@given(POOLS, st.sampled_from([2, 3]), st.sampled_from(["refuse", "positive"]))
def test_kdf_wastes_nothing(instance: fo.Instance, k: int, short: str) -> None:
    """k-DF is Pareto-efficient wherever it is defined."""
    try:
        a = fo.KDF(k, short=short).allocate(instance)
    except fo.errors.OutOfDomain:
        return
    assert could_be_better(a) <= SLACK


@given(POOLS)
def test_on_one_pool_several_notions_are_drf(instance: fo.Instance) -> None:
    """1-DF, DRFH, TSF, PS-DSF and DRF on each server alone are DRF on one pool (the last without task limits)."""
    drf = fo.DRF().allocate(instance).tasks
    for same in (fo.KDF(1), fo.DRF(), fo.TSF(), fo.PSDSF()):
        assert_allclose(same.allocate(instance).tasks, drf, rtol=1e-6, atol=1e-9)
    unlimited = instance.with_task_limits(None)
    assert_allclose(
        fo.NaivePerServer(fo.DRF()).allocate(unlimited).tasks, fo.DRF().allocate(unlimited).tasks, rtol=1e-9
    )


@settings(max_examples=10)
@given(CLUSTERS, st.sampled_from([fo.DRF(), fo.TSF(), fo.KDF(2, short="positive")]))
def test_levelling_shares_wastes_nothing_on_several_servers(instance: fo.Instance, policy: fo.Policy) -> None:
    """DRFH, TSF and k-DF are Pareto-efficient on several servers, with placement, counts, weights and limits."""
    try:
        a = policy.allocate(instance)
    except fo.errors.OutOfDomain:
        return
    assert could_be_better(a) <= SLACK


@settings(max_examples=10)
@given(OPEN)
def test_drfh_leaves_no_user_envious(instance: fo.Instance) -> None:
    """DRFH is envy-free where every user may run on every server."""
    assert envies(fo.DRF().allocate(instance)) <= SLACK


@settings(max_examples=10)
@given(OPEN)
def test_tsf_gives_a_sharing_incentive(instance: fo.Instance) -> None:
    """Under TSF no user is below its own slice of every server: those slices are feasible, and level."""
    assert below_own_slice(fo.TSF().allocate(instance)) <= SLACK


@settings(max_examples=20)
@given(OPEN)
def test_drf_on_each_server_alone_keeps_its_promises_without_limits(instance: fo.Instance) -> None:
    """DRF on each server alone gives a sharing incentive and no envy, since it does so on every server."""
    a = fo.NaivePerServer(fo.DRF()).allocate(instance)
    assert below_own_slice(a) <= SLACK and envies(a) <= SLACK


# -- between fairness and efficiency ----------------------------------------------------------------------------

FAMILIES = [
    fo.FDS(0),
    fo.FDS(0.5),
    fo.FDS(1),
    fo.FDS(2),
    fo.FDS(5),
    fo.FDS(beta=0.5, lam=2),
    fo.FDS(beta=2, lam=-1),
    fo.GFJ(0.5),
    fo.GFJ(2),
    fo.GFJ(beta=2, lam=-0.5),
    fo.PNormFairness(1, 0.5),
    fo.PNormFairness(2, 2),
    fo.NashWelfare(),
    fo.MostTasks(),
]


@settings(max_examples=12)
@given(POOLS, st.sampled_from(FAMILIES))
def test_families_waste_nothing(instance: fo.Instance, policy: fo.Policy) -> None:
    """FDS, GFJ and p-norm fairness (lam on the concave side), Nash welfare and most tasks are Pareto-efficient."""
    assert could_be_better(policy.allocate(instance)) <= 1e-4  # of values that hardly grow: FDS(5) at a gap of 1e-6


@given(POOLS)
def test_nash_welfare_keeps_all_promises_but_truth(instance: fo.Instance) -> None:
    """Weighted Nash welfare gives a sharing incentive, no envy and no justified complaint, task limits or not."""
    a = fo.NashWelfare().allocate(instance)
    assert max(below_own_slice(a), envies(a), complains(a)) <= play(a)


@settings(max_examples=10)
@given(CLUSTERS)
def test_nash_welfare_keeps_its_promises_on_several_servers(instance: fo.Instance) -> None:
    """So it does, save for complaints, on several servers with placement and counts."""
    a = fo.NashWelfare().allocate(instance)
    assert max(below_own_slice(a), envies(a)) <= play(a)


@given(POOLS)
def test_bottleneck_fairness_leaves_no_justified_complaint(instance: fo.Instance) -> None:
    """Under bottleneck fairness every user has all it asked for, or its entitlement of a full resource."""
    a = fo.BottleneckFairness().allocate(instance)
    assert complains(a) <= play(a)


@settings(max_examples=10)
@given(OPEN, st.data(), st.sampled_from([0, 0.5, 1, 2]))
def test_blocks_of_constraints_do_what_they_say(instance: fo.Instance, data: st.DataObject, alpha: float) -> None:
    """SharingIncentive() and EnvyFree() make any objective keep these promises."""
    objective = fo.AlphaFair(alpha, data.draw(shares(instance)))
    a = fo.Policy(objective, [fo.SharingIncentive(), fo.EnvyFree()]).allocate(instance)
    assert below_own_slice(a) <= SLACK and envies(a) <= SLACK


# -- bundles ----------------------------------------------------------------------------------------------------

DECIDED = [fo.MLFDRS(), fo.MLFDRS("equal"), fo.FFMRA(), fo.HFFMRA(), fo.HFFMRA("raw")]


@given(instances(n_servers=(1, 2), by_server=True, limits=True), st.sampled_from(DECIDED))
def test_bundles_fill_every_resource_that_a_user_needs(instance: fo.Instance, policy: fo.Policy) -> None:
    """MLF-DRS, FFMRA and H-FFMRA hand out all of every resource that a user with tasks to run needs there."""
    a = policy.allocate(instance)
    takes_part = instance.task_limits > 0
    needed = instance.per_server_demands[takes_part].sum(axis=0) > 0
    requested = instance.per_server_demands[takes_part].sum(axis=0)
    handed_out = a.usage / instance.capacities
    assert (handed_out <= 1 + 1e-9).all()
    assert_allclose(handed_out[needed], 1, rtol=1e-6)
    if policy in (fo.FFMRA(), fo.HFFMRA(), fo.HFFMRA("raw")):  # Definition 5
        short = requested > instance.capacities * (1 + 1e-9)
        over = a.bundles - instance.per_server_demands
        assert (over[:, short] <= 1e-6).all()


# -- symmetry ---------------------------------------------------------------------------------------------------

SYMMETRIC = [fo.DRF(), fo.KDF(2, short="positive"), fo.FDS(0.5), fo.FDS(2), fo.GFJ(1), fo.PNormFairness(2, 2), *DECIDED]


@given(EQUAL, st.sampled_from(SYMMETRIC))
def test_equals_are_treated_equally(instance: fo.Instance, policy: fo.Policy) -> None:
    """Two users who are alike run equally many tasks."""
    twice = fo.Instance(
        [*instance.demands, instance.demands[0]],
        instance.capacities,
        task_limits=[*instance.task_limits, instance.task_limits[0]],
    )
    try:
        tasks = policy.allocate(twice).tasks
    except fo.errors.OutOfDomain:
        return
    assert tasks[0] == pytest.approx(tasks[-1], rel=1e-3, abs=1e-9)


@given(POOLS, st.sampled_from(SYMMETRIC[:6]), st.sampled_from([2.0**-10, 3.0, 1000.0]))
def test_units_do_not_matter(instance: fo.Instance, policy: fo.Policy, factor: float) -> None:
    """Memory in MB instead of GB changes no user's tasks."""
    other = instance.replace(
        demands=instance.demands * [factor, *[1] * (instance.n_resources - 1)],
        capacities=instance.capacities * [factor, *[1] * (instance.n_resources - 1)],
    )
    try:
        tasks = policy.allocate(instance).tasks
    except fo.errors.OutOfDomain:
        return
    assert_allclose(policy.allocate(other).tasks, tasks, rtol=1e-3, atol=1e-9)


# -- the checks of the package say the same ---------------------------------------------------------------------

FORMULAS = {
    "pareto": could_be_better,
    "sharing-incentive": below_own_slice,
    "envy-free": envies,
    "bottleneck": complains,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_checks_agree_with_these_formulas(name: str) -> None:
    """What `fairopt.check` says of allocations good and bad is what the formulas here say."""
    asked = POOLS if name == "bottleneck" else CLUSTERS
    said = set()

    @settings(max_examples=25)
    @given(st.data())
    def test(data: st.DataObject) -> None:
        instance = data.draw(asked)
        a = data.draw(allocations(instance) | st.just(fo.DRF()).map(lambda policy: policy.allocate(instance)))
        margin = FORMULAS[name](a)
        verdict = check(a, [name])[name].holds
        if margin > 1e-4 or margin < 1e-8:  # not in between, where tolerances decide
            assert verdict == (margin < 1e-8)
            said.add(verdict)

    test()
    assert said == {True, False}
