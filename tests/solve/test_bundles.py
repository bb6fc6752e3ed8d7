"""Policies over bundles: closed form and cone programs, the evidence, and what is refused."""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracle.instances import cluster
from oracle.lies import lying

import fairopt as fo
from fairopt.instance.parts import taking_part
from fairopt.solve.form.bundle_program import BundleProgram
from fairopt.solve.form.division import division

EXAMPLE = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]])
SHORT = fo.Instance([[6, 1], [7, 5], [0.5, 0.2]], [8, 6])
POLICIES = [fo.MLFDRS(), fo.MLFDRS("equal"), fo.FFMRA(), fo.HFFMRA(), fo.HFFMRA("raw")]
SOLVERS = [s for s in ("CLARABEL", "ECOS", "SCS") if s in cp.installed_solvers()]


@dataclass(frozen=True, repr=False)
class Alike(fo.BundleBase):
    """1 for every user and resource, also for resources that tasks do not need."""

    def weights(self, instance):
        return np.ones((instance.n_users, instance.n_servers, instance.n_resources))


@dataclass(frozen=True, repr=False)
class Given(fo.BundleBase):
    """Bases as given."""

    kind: str

    def weights(self, instance):
        ones = np.ones((instance.n_users, instance.n_servers, instance.n_resources))
        kinds = {"flat": ones[0], "nan": ones * np.nan, "negative": -ones, "none": 0 * ones, "text": ones.astype(str)}
        return kinds.get(self.kind, ones * 1j)


@pytest.mark.fast_methods
@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_cone_programs_find_the_closed_form(seed, n, servers, by_server):
    instance = cluster(np.random.default_rng(seed), n, servers, 2, by_server).replace(weights=None)
    for policy in POLICIES:
        exact, found = policy.allocate(instance), policy.allocate(instance, method="cone")
        assert exact.certificate.method == "closed" and found.certificate.method == "cone"
        size = instance.capacities * instance.counts[:, None]
        assert_allclose(found.bundles / size, exact.bundles / size, atol=1e-4)
        assert found.objective <= exact.objective + 1e-9 * abs(exact.objective)
        assert_allclose(found.prices, exact.prices, rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("instance", [EXAMPLE, SHORT], ids=["example", "shortage"])
def test_every_solver_is_certified(policy, instance, solver):
    exact, found = policy.allocate(instance), policy.allocate(instance, solver=solver)
    assert_allclose(found.bundles, exact.bundles, rtol=1e-4)
    assert found.certificate.gap <= 1e-6 and found.certificate.violation <= 1e-9


def test_twelve_decades_of_capacities_by_closed_form():
    rng = np.random.default_rng(3)
    capacities = 10.0 ** rng.uniform(-6, 6, (5, 3))
    a = fo.HFFMRA().allocate(fo.Instance(rng.uniform(0.1, 1, (4, 5, 3)) * capacities * 0.1, capacities))
    assert_allclose(a.usage, capacities, rtol=1e-9)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("instance", [EXAMPLE, SHORT], ids=["example", "shortage"])
def test_perturbed_bundles_are_not_certified(policy, instance):
    question = BundleProgram(instance, policy.objective, policy.constraints).division
    best = question.answer().bundles
    rng = np.random.default_rng(0)
    for size in (0.3, 0.01):
        away = best * (1 + size * rng.uniform(-1, 1, best.shape))
        judged = question.answer(away)
        assert judged.violation <= 1e-12  # brought within the parts
        assert judged.gap > (1e-6 if size == 0.01 else 1e-4)
    assert question.answer(best.copy()).gap <= 1e-12
    assert question.answer(best * 0.5).gap > 0.1


def test_a_little_moved_among_many_is_seen():
    rng = np.random.default_rng(0)
    instance = fo.Instance(rng.uniform(1, 2, (40, 50, 2)), rng.uniform(200, 300, (50, 2)))
    policy = fo.HFFMRA()
    question = BundleProgram(instance, policy.objective, policy.constraints).division
    best = question.answer().bundles
    away = best.copy()
    moved = 0.1 * away[0, 7, 1]
    away[0, 7, 1] -= moved
    other = 1 + int(np.flatnonzero(instance.dominance.dominant[1:, 7, 1] == instance.dominance.dominant[0, 7, 1])[0])
    away[other, 7, 1] += moved
    assert question.answer(away).gap > 1e-5


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("policy", POLICIES[:4], ids=str)
def test_a_resource_in_bytes_beside_one_in_cores(policy, solver):
    bytes_ = np.array([1.0, 1e9])
    instance = fo.Instance(np.array([[3, 1], [5, 3], [1, 5], [2, 7]]) * bytes_, np.array([18, 36]) * bytes_)
    assert_allclose(policy.allocate(instance, solver=solver).bundles, policy.allocate(instance).bundles, rtol=1e-4)
    question = BundleProgram(instance, policy.objective, policy.constraints).division
    wrong = question.answer().bundles
    wrong[:, 0, 0] = [0.1, 0.1, 0.1, 17.7]
    assert question.answer(wrong).gap > 1e-3


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 2), st.integers(1, 3))
def test_gap_bounds_the_true_distance(seed, n, servers, m):
    rng = np.random.default_rng(seed)
    instance = cluster(rng, n, servers, m).replace(weights=None)
    policy = POLICIES[seed % len(POLICIES)]
    question = BundleProgram(instance, policy.objective, policy.constraints).division
    if question is None or question.instance.n_users == 0:
        return
    best = question.answer()
    other = question.answer(best.bundles * rng.uniform(0.2, 1.0, best.bundles.shape))
    assert best.value - other.value <= other.excess * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("solver", SOLVERS)
def test_solver_that_lies_is_found_out(solver):
    with lying(point=lambda u: u * np.linspace(0.5, 1.0, len(u))), pytest.raises(fo.errors.NotCertified):
        fo.HFFMRA().allocate(EXAMPLE, solver=solver)
    with lying(point=lambda u: u * 100):  # repaired: shares of the parts are the same
        a = fo.HFFMRA().allocate(EXAMPLE, solver=solver)
    assert (a.bundles.sum(axis=0) <= EXAMPLE.capacities * (1 + 1e-12)).all()
    with lying(point=lambda u: u * np.nan), pytest.raises(fo.errors.NotCertified):
        fo.HFFMRA().allocate(EXAMPLE, solver=solver)


def test_prices_are_derivatives_by_capacity():
    for policy in (fo.MLFDRS("equal"), fo.HFFMRA(), fo.HFFMRA("raw")):
        for instance in (EXAMPLE, SHORT):
            a = policy.allocate(instance)
            question = BundleProgram(instance, policy.objective, policy.constraints).division
            for s, i in np.ndindex(instance.capacities.shape):  # at fixed bases, and a fixed part of each group
                step = 1e-6 * instance.capacities[s, i]
                more = [np.array(getattr(question.parts, k)) for k in ("dominant", "others")] if question.parts else []
                if question.parts is not None:
                    more[0][s, i] += step * question.parts.dominant_slope[s, i]
                    more[1][s, i] += step * question.parts.others_slope[s, i]
                    parts = type(question.parts)(*more, question.parts.dominant_slope, question.parts.others_slope)
                    moved = type(question)(instance, FixedBase(policy, instance).objective, parts, question.capped)
                    gain = moved.answer().value - a.objective
                    assert_allclose(gain / step, a.prices[s, i], rtol=1e-3, atol=1e-9)


@dataclass(frozen=True, repr=False)
class Held(fo.BundleBase):
    """Bases that do not change with the capacities."""

    values: tuple

    def weights(self, instance):
        return np.array(self.values)


class FixedBase:
    def __init__(self, policy, instance):
        bases = policy.objective.bases(instance)
        self.objective = fo.WeightedLog(Held(tuple(tuple(map(tuple, rows)) for rows in bases.tolist())))


# -- blocks together ------------------------------------------------------------------------------------------


def test_base_of_ones_own_shares_out_what_tasks_do_not_need():
    instance = fo.Instance([[1, 0], [1, 1]], [4, 6])
    for method in ("closed", "cone"):
        a = fo.Policy(fo.WeightedLog(Alike())).allocate(instance, method=method)
        assert_allclose(a.bundles[:, 0], [[2, 3], [2, 3]], rtol=1e-6)
        assert_allclose(a.tasks, [2, 2], rtol=1e-6)


def test_aggregate_parts_on_top_of_another_objective():
    policy = fo.Policy(fo.AlphaFair(1, fo.DominantShare()), [fo.GlobalAggregateResource()])
    a = policy.allocate(EXAMPLE)
    groups, parts = EXAMPLE.dominance, fo.GlobalAggregateResource().parts(EXAMPLE)
    mine = np.where(groups.dominant, a.bundles, 0).sum(axis=0)
    assert (mine <= parts.dominant * (1 + 1e-9)).all()
    assert (a.usage - mine <= parts.others * (1 + 1e-9)).all()
    tasks = cp.Variable((2, 2), nonneg=True)  # the same by hand
    d, c = EXAMPLE.demands, EXAMPLE.capacities
    conditions = [cp.sum(cp.multiply(d[:, s, i], tasks[:, s])) <= c[s, i] for s in range(2) for i in range(2)]
    for s, i in np.ndindex(2, 2):
        for group, part in ((groups.dominant[:, s, i], parts.dominant), (~groups.dominant[:, s, i], parts.others)):
            conditions.append(cp.sum(cp.multiply(d[:, s, i] * group, tasks[:, s])) <= part[s, i])
    worth = np.array(EXAMPLE.dominant_shares)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.log(cp.sum(cp.multiply(worth, tasks), axis=1)))), conditions)
    assert_allclose(a.objective, problem.solve(solver="CLARABEL"), rtol=1e-6)
    free = fo.Policy(fo.AlphaFair(1, fo.DominantShare())).allocate(EXAMPLE)
    assert free.objective > a.objective + 1e-3


@settings(max_examples=7)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_aggregate_parts_hold_under_leximin_and_on_bundles(seed, n, servers, by_server):
    instance = cluster(np.random.default_rng(seed), n, servers, 2, by_server).replace(weights=None)
    part = taking_part(instance, np.flatnonzero(instance.task_limits > 0))
    parts = fo.GlobalAggregateResource().parts(part)
    for policy in (fo.Policy(fo.MaxMin(fo.Tasks()), [fo.GlobalAggregateResource()]), fo.HFFMRA()):
        a = policy.allocate(instance)
        mine = np.where(part.dominance.dominant, a.bundles, 0).sum(axis=0) / instance.counts[:, None]
        others = np.where(part.dominance.dominant, 0, a.bundles).sum(axis=0) / instance.counts[:, None]
        assert (mine <= parts.dominant + 1e-7 * instance.capacities).all()
        assert (others <= parts.others + 1e-7 * instance.capacities).all()


def test_requests_are_a_limit_on_tasks_too():
    a = fo.Policy(fo.Total(fo.Tasks()), [fo.AtMostRequested()]).allocate(SHORT)
    assert (a.tasks <= 1 + 1e-9).all()
    assert fo.MostTasks().allocate(SHORT).tasks.max() > 2


def test_bundles_and_tasks_in_one_objective():
    policy = fo.Policy(fo.WeightedLog() + fo.AlphaFair(1, fo.Tasks()), [fo.GlobalAggregateResource()])
    a = policy.allocate(EXAMPLE)
    held, x = cp.Variable((2, 4), nonneg=True), cp.Variable((2, 2), nonneg=True)
    base = fo.FairShareBase().weights(EXAMPLE).reshape(2, 4)
    mine = EXAMPLE.dominance.dominant.reshape(2, 4)
    parts = fo.GlobalAggregateResource().parts(EXAMPLE)
    d = EXAMPLE.demands.reshape(2, 4)
    conditions = [
        cp.sum(cp.multiply(mine, held), axis=0) <= parts.dominant.ravel(),
        cp.sum(cp.multiply(~mine, held), axis=0) <= parts.others.ravel(),
        cp.multiply(d, x[:, [0, 0, 1, 1]]) <= held,
    ]
    worth = cp.sum(cp.multiply(base, cp.log(held))) + cp.sum(cp.log(cp.sum(x, axis=1)))
    assert_allclose(a.objective, cp.Problem(cp.Maximize(worth), conditions).solve(solver="CLARABEL"), rtol=1e-6)


def test_tiers_maximise_tasks_among_the_best_bundles():
    a = fo.Policy(fo.WeightedLog().then(fo.Total(fo.Tasks()))).allocate(EXAMPLE)
    assert a.certificate.ok and len(a.certificate.gaps) == 2
    best, base = fo.MLFDRS().allocate(EXAMPLE), fo.FairShareBase().weights(EXAMPLE)
    given_up = 2e-7 * base.sum() * np.log(2)  # 1e-7 of what halving all bundles costs, and as much for the gap
    assert best.objective - given_up <= a.objective <= best.objective * (1 + 1e-12)
    # a concave objective: sum base (log a - log a*) = -gap lets a bundle move by about sqrt(2 gap / base)
    assert (abs(np.log(a.bundles / best.bundles)) <= 1.01 * np.sqrt(2 * given_up / base)).all()
    assert a.tasks.sum() > best.tasks.sum() + 1e-4


def test_constraints_on_tasks_hold_with_as_many_tasks_as_fit():
    a = fo.Policy(fo.WeightedLog(), [fo.MaxTasks([2, 50])]).allocate(EXAMPLE)
    assert_allclose(a.tasks[0], 2, rtol=1e-6)
    b = fo.Policy(fo.WeightedLog(), [fo.SharingIncentive()]).allocate(EXAMPLE)
    assert (b.tasks >= EXAMPLE.tasks_alone.sum(axis=1) / 2 * (1 - 1e-7)).all()
    assert (fo.MLFDRS().allocate(EXAMPLE).tasks < EXAMPLE.tasks_alone.sum(axis=1) / 2).any()


def test_the_objective_twice_is_the_same_objective():
    a = fo.Policy(fo.WeightedLog() + 2 * fo.WeightedLog()).allocate(EXAMPLE)
    assert a.certificate.method == "closed"
    assert_allclose(a.objective, 3 * fo.MLFDRS().allocate(EXAMPLE).objective)


def test_nothing_times_the_objective_is_an_answer():
    assert fo.Policy(0 * fo.WeightedLog()).allocate(EXAMPLE).certificate.ok


@pytest.mark.parametrize("solver", [None, *SOLVERS])
def test_who_has_no_base_holds_nothing(solver):
    instance = fo.Instance([[1, 2], [2, 1]], [10, 10])
    base = Held((((0.0, 0.0),), ((1.0, 1.0),)))
    for constraints in ([], [fo.GlobalAggregateResource()], [fo.AtMostRequested()]):
        a = fo.Policy(fo.WeightedLog(base), constraints).allocate(instance, solver=solver)
        assert (a.bundles[0] == 0).all() and a.tasks[0] == 0
        assert (a.bundles[1] > 1).all()
    b = fo.Policy(fo.WeightedLog(Given("none"))).allocate(instance, solver=solver)
    assert not b.bundles.any()


def test_multiples_of_the_objective_move_prices_and_value_only():
    one, three = (fo.Policy(k * fo.WeightedLog()).allocate(EXAMPLE) for k in (1, 3))
    assert_allclose(three.bundles, one.bundles)
    assert_allclose([three.objective, *three.prices.ravel()], 3 * np.array([one.objective, *one.prices.ravel()]))


# -- what is refused ------------------------------------------------------------------------------------------


def test_other_methods_are_refused_for_bundles_and_closed_for_tasks():
    with pytest.raises(fo.errors.OutOfDomain, match="decides bundles"):
        fo.MLFDRS().allocate(EXAMPLE, method="water-filling")
    with pytest.raises(fo.errors.OutOfDomain, match="closed is exact for WeightedLog"):
        fo.DRF().allocate(EXAMPLE, method="closed")
    with pytest.raises(fo.errors.OutOfDomain, match="closed is exact for WeightedLog"):
        fo.Policy(fo.WeightedLog(), [fo.MinTasks(1)]).allocate(EXAMPLE, method="closed")


def test_conflicting_constraints_are_named():
    with pytest.raises(fo.errors.Infeasible, match=r"`MinTasks\(30\)`") as caught:
        fo.Policy(fo.WeightedLog(), [fo.MinTasks(30), fo.MaxTasks(40)]).allocate(EXAMPLE)
    assert "MaxTasks" not in str(caught.value)
    with pytest.raises(fo.errors.Infeasible, match=r"`MinTasks\(3\)` and `MaxTasks\(2\)`"):
        fo.Policy(fo.WeightedLog(), [fo.MinTasks(3), fo.MaxTasks(2)]).allocate(EXAMPLE)


def test_envy_freeness_over_bundles_is_refused():
    with pytest.raises(fo.errors.InvalidBlock, match="not convex where bundles are decided"):
        fo.Policy(fo.WeightedLog(), [fo.EnvyFree()]).allocate(EXAMPLE)


def test_leximin_after_bundles_is_refused():
    for order in (fo.WeightedLog().then(fo.Leximin()), fo.Leximin().then(fo.WeightedLog())):
        with pytest.raises(fo.errors.InvalidBlock, match="beside an objective over bundles; give MaxMin"):
            fo.Policy(order).allocate(EXAMPLE)


@pytest.mark.parametrize("bad", [fo.FairShareBase, [1.0], 3, np.ones((2, 1, 2)), fo.Tasks()], ids=repr)
def test_base_must_be_a_block(bad):
    with pytest.raises(fo.errors.InvalidBlock, match="give a block such as FairShareBase"):
        fo.WeightedLog(bad)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("flat", "shape"),
        ("nan", "'user1' nan"),
        ("negative", "-1.0"),
        ("text", "no array of numbers"),
        ("complex", "no array of numbers"),
    ],
)
def test_bases_must_be_numbers_of_the_right_shape(kind, words):
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        fo.Policy(fo.WeightedLog(Given(kind))).allocate(EXAMPLE)


def test_no_bases_at_all_leave_everything_unused():
    a = fo.Policy(fo.WeightedLog(Given("none"))).allocate(EXAMPLE)
    assert a.certificate.ok and not a.bundles.any() and not a.tasks.any()


def test_base_without_request_in_shortage_is_refused():
    short = fo.Instance([[6, 0], [7, 5]], [8, 4])
    with pytest.raises(fo.errors.OutOfDomain, match=r"'user1' has a base for 'resource2'.*leave none of it"):
        fo.Policy(fo.WeightedLog(Alike()), [fo.AtMostRequested()]).allocate(short)


def test_division_needs_blocks_it_knows():
    known = [fo.GlobalAggregateResource(), fo.AtMostRequested()]
    assert division(EXAMPLE, fo.WeightedLog(), known) is not None
    assert division(EXAMPLE, fo.WeightedLog(), [*known, fo.Reserve(0, 0.1)]) is None
    assert division(EXAMPLE, fo.WeightedLog(), [*known, fo.GlobalAggregateResource("raw")]) is None
    assert division(EXAMPLE, fo.WeightedLog() + fo.Total(), known) is None


def test_two_kinds_of_aggregates_together_go_by_cones():
    both = [fo.GlobalAggregateResource(), fo.GlobalAggregateResource("raw")]
    a = fo.Policy(fo.WeightedLog(), both).allocate(EXAMPLE)
    assert a.certificate.ok and a.certificate.method == "cone"
    for block in both:
        mine = np.where(EXAMPLE.dominance.dominant, a.bundles, 0).sum(axis=0)
        assert (mine <= block.parts(EXAMPLE).dominant * (1 + 1e-7)).all()


# -- problem and read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [*POLICIES, fo.Policy(fo.WeightedLog() + fo.Total(fo.Tasks())), fo.Policy(fo.WeightedLog(), [fo.MinTasks(1)])],
    ids=str,
)
@pytest.mark.parametrize(
    "instance",
    [
        EXAMPLE,
        fo.Instance(
            [[1, 2], [2, 1], [1, 1]],
            [[4, 4], [5, 5]],
            eligible=[[1, 0], [1, 1], [1, 1]],
            task_limits=[None, 2, 0],
            counts=[2, 1],
        ),
    ],
    ids=["example", "placement"],
)
def test_problem_solved_by_hand_reads_as_the_policy_answers(policy, instance):
    if any(isinstance(c, fo.MinTasks) for c in policy.constraints) and instance is not EXAMPLE:
        policy = fo.Policy(fo.WeightedLog(), [fo.MinTasks({"user1": 1})])
    problem = policy.problem(instance)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    a = policy.certify(problem, instance)
    expected = policy.allocate(instance)
    assert_allclose(a.bundles, expected.bundles, atol=1e-3)
    assert_allclose(a.objective, expected.objective, rtol=1e-6, atol=1e-6)


def test_changed_problem_is_read_for_what_it_is():
    problem = fo.HFFMRA("raw").problem(EXAMPLE)
    bundles = problem.var_dict["bundles"]
    changed = cp.Problem(problem.objective, [*problem.constraints, bundles[0, 0] <= 2.5])
    changed.solve(solver="CLARABEL")
    assert_allclose(fo.HFFMRA("raw").certify(changed, EXAMPLE).bundles[0, 0, 0], 2.5, rtol=1e-6)


def test_unsolved_and_foreign_problems_are_refused():
    with pytest.raises(fo.errors.NotCertified, match="no answer"):
        fo.HFFMRA().certify(fo.HFFMRA().problem(EXAMPLE), EXAMPLE)
    with pytest.raises(fo.errors.InvalidBlock, match="no variable named 'bundles'"):
        fo.HFFMRA().certify(fo.DRF().problem(EXAMPLE), EXAMPLE)
    problem = fo.HFFMRA().problem(EXAMPLE)
    problem.solve(solver="CLARABEL")
    bundles = problem.var_dict["bundles"]
    bundles.save_value(bundles.value * np.array([[0.5], [1.0]]))
    with pytest.raises(fo.errors.NotCertified):
        fo.HFFMRA().certify(problem, EXAMPLE)
