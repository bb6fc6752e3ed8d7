"""Objectives: values by hand and against their CVXPY expressions, concavity, algebra, and what is refused."""

import dataclasses
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import fairopt as fo
from fairopt.blocks.model import Pairs, Point

POOL = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
WEIGHTED = fo.Instance([[40, 8, 8], [8, 5, 1], [10, 10, 0]], [200, 200, 200], weights=[1, 2, 0.5])
OBJECTIVES = [
    fo.Total(),
    fo.Total(fo.Tasks()),
    fo.AlphaFair(0),
    fo.AlphaFair(0.3),
    fo.AlphaFair(0.999, fo.Tasks()),
    fo.AlphaFair(1),
    fo.AlphaFair(1.001),
    fo.AlphaFair(2, fo.PNormShare(1)),
    fo.AlphaFair(5, fo.Tasks()),
    fo.MaxMin(),
    fo.MaxMin(fo.Tasks()),
    fo.Leximin(),
    fo.OrderedWeighted((1,)),
    fo.OrderedWeighted((3, 1, 0.5)),
    fo.OrderedWeighted((1,) * 9, fo.Tasks()),
    fo.OrderedWeighted((2, 2, 0, 0)),
    fo.FairnessEfficiency(2, -0.5),
    fo.FairnessEfficiency(2, -2, fo.Tasks()),
    fo.FairnessEfficiency(1.5, -1),
    fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks()),
    0.5 * fo.MaxMin() + 3 * fo.OrderedWeighted((2, 1)),
    fo.MaxMin().then(fo.Total()),
    (fo.Total() + fo.MaxMin()).then(fo.AlphaFair(1)),
    0 * fo.Total(),
]
TRANSFORMED = [fo.FairnessEfficiency(0.5, 1), fo.FairnessEfficiency(0.5, 3, fo.Tasks()), fo.FairnessEfficiency(1, 2)]


@st.composite
def placed(draw):
    """An instance of 1 to 5 users on 1 to 3 servers, weighted, and tasks within its capacities."""
    n, m, servers = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    number = st.floats(0.05, 20.0)
    shape = (n, servers, m) if draw(st.booleans()) else (n, m)
    size = int(np.prod(shape))
    demands = np.reshape(draw(st.lists(number, min_size=size, max_size=size)), shape)
    capacities = np.reshape(draw(st.lists(st.floats(5, 100), min_size=servers * m, max_size=servers * m)), (servers, m))
    weights = draw(st.lists(st.floats(0.2, 5), min_size=n, max_size=n))
    counts = draw(st.lists(st.integers(1, 3), min_size=servers, max_size=servers))
    eligible = np.reshape(draw(st.lists(st.booleans(), min_size=n * servers, max_size=n * servers)), (n, servers))
    eligible[:, 0] = True
    instance = fo.Instance(demands, capacities, weights=weights, counts=counts, eligible=eligible)
    fractions = np.reshape(draw(st.lists(st.floats(0.01, 1), min_size=n * servers, max_size=n * servers)), (n, servers))
    return instance, instance.tasks_alone * fractions / n


def number_at(objective, instance, tasks, units=1.0):
    """Value of the objective's CVXPY expression at tasks by server."""
    pairs = Pairs(instance)
    unknowns = cp.Variable(len(pairs))
    scale = np.full(len(pairs), float(units))
    model = fo.Model(instance, unknowns, scale)
    unknowns.value = tasks[pairs.user, pairs.server] / scale
    expression = objective.expression(model)
    return float(np.sum(expression.value if isinstance(expression, cp.Expression) else expression))


# -- natural values by hand ------------------------------------------------------------------------------------------

AT = Point(POOL, np.array([[2.5], [10.0]]))  # dominant shares 0.5 and 0.4
THREE = Point(WEIGHTED, np.array([[2.0], [10.0], [4.0]]))  # dominant shares 0.4, 0.4, 0.2; per weight 0.4, 0.2, 0.4


@pytest.mark.parametrize(
    ("objective", "value"),
    [
        (fo.Total(), 0.9),
        (fo.Total(fo.Tasks()), 12.5),
        (fo.AlphaFair(0), 0.9),
        (fo.AlphaFair(0.5), 2 * (math.sqrt(0.5) + math.sqrt(0.4))),
        (fo.AlphaFair(1), math.log(0.5) + math.log(0.4)),
        (fo.AlphaFair(2), -(1 / 0.5 + 1 / 0.4)),
        (fo.AlphaFair(3), -(1 / 0.25 + 1 / 0.16) / 2),
        (fo.AlphaFair(2, fo.Tasks()), -(1 / 2.5 + 1 / 10)),
        (fo.MaxMin(), 0.4),
        (fo.MaxMin(fo.Tasks()), 2.5),
        (fo.Leximin(), 0.4),
        (fo.OrderedWeighted((1,)), 0.4),
        (fo.OrderedWeighted((1, 0.5)), 0.4 + 0.25),
        (fo.OrderedWeighted((1, 1, 1)), 0.9),
        (fo.FairnessEfficiency(2, -0.5), -math.sqrt(0.9 / 0.5 + 0.9 / 0.4) / math.sqrt(0.9)),
        (fo.FairnessEfficiency(0.5, 1), (math.sqrt(0.5 / 0.9) + math.sqrt(0.4 / 0.9)) ** 2 * 0.9),
        (fo.FairnessEfficiency(1, 2), 2 * 0.81),
        (fo.Total() + 2 * fo.MaxMin(), 0.9 + 0.8),
        (fo.MaxMin().then(fo.Total()), 0.4),
    ],
    ids=repr,
)
def test_values_by_hand(objective, value):
    assert objective.value(AT) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("objective", "value"),
    [
        (fo.Total(), 1.0),
        (fo.AlphaFair(0), 1.0),
        (fo.AlphaFair(1), math.log(0.4) + 2 * math.log(0.2) + 0.5 * math.log(0.4)),
        (fo.AlphaFair(2), -(1 / 0.4 + 2 / 0.2 + 0.5 / 0.4)),
        (fo.AlphaFair(0.5), 2 * (math.sqrt(0.4) + 2 * math.sqrt(0.2) + 0.5 * math.sqrt(0.4))),
        (fo.MaxMin(), 0.2),
        (fo.Leximin(fo.Tasks()), 2.0),
        (fo.OrderedWeighted((3, 2, 1)), 0.6 + 0.8 + 0.4),
        (fo.OrderedWeighted((1, 1)), 0.2 + 0.4),
        (fo.FairnessEfficiency(2, -0.5), -math.sqrt(1 / 0.4 + 2 / 0.2 + 0.5 / 0.4)),
        (fo.FairnessEfficiency(0.5, 1), (math.sqrt(0.4) + 2 * math.sqrt(0.2) + 0.5 * math.sqrt(0.4)) ** 2),
    ],
    ids=repr,
)
def test_weighted_values_by_hand(objective, value):
    assert objective.value(THREE) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("share", [fo.DominantShare(), fo.Tasks()])
def test_a_share_of_nothing_is_worth_minus_infinity_from_alpha_1_on(share):
    at = Point(POOL, np.array([[0.0], [10.0]]))
    assert fo.AlphaFair(1, share).value(at) == -math.inf
    assert fo.AlphaFair(2, share).value(at) == -math.inf
    assert np.isfinite(fo.AlphaFair(0.9, share).value(at))


@pytest.mark.parametrize("alpha", [0, 0.5, 2, 100, 1000, 10_000])
def test_values_of_powers_do_not_depend_on_the_range_of_the_max_min_level(alpha):
    """The level is 2, whose powers underflow, and those of shares relative to it overflow."""
    pool = fo.Instance([[1], [1]], [4])
    value = fo.AlphaFair(alpha, fo.Tasks()).value(Point(pool, np.array([[1.0], [2.0]])))
    expected = (1 + 2.0 ** (1 - alpha)) / (1 - alpha)
    assert value == pytest.approx(expected, rel=1e-13, abs=0)


@pytest.mark.parametrize("measure", [fo.FairnessEfficiency(2, -0.5), fo.FairnessEfficiency(2, -2)])
def test_a_share_of_nothing_is_worth_minus_infinity_above_beta_1(measure):
    assert measure.value(Point(POOL, np.array([[0.0], [10.0]]))) == -math.inf


def test_an_ordered_weighting_cuts_its_weights_to_the_number_of_users():
    assert fo.OrderedWeighted((5, 4, 3, 2, 1)).value(AT) == pytest.approx(5 * 0.4 + 4 * 0.5, rel=1e-14)


# -- one value, however it is computed -------------------------------------------------------------------------------


@given(objective=st.sampled_from(OBJECTIVES), at=placed(), units=st.floats(0.01, 100))
def test_the_value_is_that_of_the_expression(objective, at, units):
    instance, tasks = at
    value = objective.value(Point(instance, tasks))
    assert number_at(objective, instance, tasks, units) == pytest.approx(value, rel=1e-9, abs=1e-11)


@given(objective=st.sampled_from(TRANSFORMED), at=placed())
def test_below_beta_1_the_expression_is_the_logarithm_of_the_measure_to_a_factor(objective, at):
    instance, tasks = at
    values = [(objective.value(Point(instance, t)), number_at(objective, instance, t)) for t in (tasks, tasks * 0.5)]
    (one, log_one), (half, log_half) = values
    assert math.log(one / half) == pytest.approx(log_one - log_half, rel=1e-7, abs=1e-9)


SHARES = [fo.DominantShare(), fo.Tasks(), fo.PNormShare(2)]
SHARED = st.sampled_from(SHARES)


@given(placed(), st.floats(0.05, 8), SHARED)
def test_alpha_fairness_follows_its_definition(at, alpha, share):
    assume(abs(alpha - 1) > 1e-3)
    instance, tasks = at
    s, w = Point(instance, tasks).share(share), instance.weights
    expected = sum(wj * (sj / wj) ** (1 - alpha) / (1 - alpha) for sj, wj in zip(s, w, strict=True))
    assert fo.AlphaFair(alpha, share).value(Point(instance, tasks)) == pytest.approx(expected, rel=1e-9)


@given(placed(), st.floats(-3, 6), st.floats(0, 4), SHARED)
def test_the_measure_of_fairness_and_efficiency_follows_its_definition(at, beta, emphasis, share):
    assume(min(abs(beta), abs(beta - 1)) > 0.05)
    instance, tasks = at
    lam = emphasis if beta < 1 else -emphasis
    s, w = Point(instance, tasks).share(share), instance.weights
    total, sign = s.sum(), 1 if beta < 1 else -1
    expected = sign * sum(w * (s / (w * total)) ** (1 - beta)) ** (1 / beta) * total**lam
    assert fo.FairnessEfficiency(beta, lam, share).value(Point(instance, tasks)) == pytest.approx(expected, rel=1e-9)


@given(placed(), st.floats(1.05, 5))
def test_on_the_edge_the_measure_orders_as_alpha_fairness(at, alpha):
    instance, tasks = at
    edge, alpha_fair = fo.FairnessEfficiency(alpha, (1 - alpha) / alpha), fo.AlphaFair(alpha)
    assert edge.term.alpha == alpha and edge.term.share == alpha_fair.share
    value = edge.value(Point(instance, tasks))
    plain = alpha_fair.value(Point(instance, tasks)) * (1 - alpha)
    assert value == pytest.approx(-(plain ** (1 / alpha)), rel=1e-9)


# -- concavity -------------------------------------------------------------------------------------------------------


@given(objective=st.sampled_from(OBJECTIVES), at=placed(), data=st.data())
def test_objectives_are_concave_in_the_tasks(objective, at, data):
    instance, tasks = at
    factors = np.reshape(data.draw(st.lists(st.floats(0.05, 5), min_size=tasks.size, max_size=tasks.size)), tasks.shape)
    other = tasks * factors
    left, middle, right = (objective.value(Point(instance, t)) for t in (tasks, (tasks + other) / 2, other))
    assert middle >= (left + right) / 2 - 1e-9 * (abs(left) + abs(right))


@given(placed(), st.floats(0.05, 0.95), st.floats(1, 3), st.data())
def test_the_logarithm_of_the_measure_is_concave_inside_the_region_below_beta_1(at, beta, times, data):
    instance, tasks = at
    objective = fo.FairnessEfficiency(beta, times * (1 - beta) / beta)
    factors = np.reshape(data.draw(st.lists(st.floats(0.05, 5), min_size=tasks.size, max_size=tasks.size)), tasks.shape)
    other = tasks * factors
    left, middle, right = (math.log(objective.value(Point(instance, t))) for t in (tasks, (tasks + other) / 2, other))
    assert middle >= (left + right) / 2 - 1e-9 * (1 + abs(left) + abs(right))


@pytest.mark.parametrize("objective", OBJECTIVES + TRANSFORMED, ids=repr)
@pytest.mark.parametrize("solver", [None, "ECOS"])
def test_expressions_and_solver_forms_are_concave_by_cvxpy_rules(objective, solver):
    instance = fo.Instance(WEIGHTED.demands, [[100, 150, 200], [100, 50, 30]], weights=WEIGHTED.weights)
    model = fo.Model(instance, cp.Variable(6, nonneg=True), solver=solver)
    for form in (objective.expression(model), objective.solver_form(model)):
        if form is not None:
            assert form.is_concave()
            assert form.shape == ()


# -- solver forms are increasing transforms --------------------------------------------------------------------------


def best(instance, form, unknowns, loads):
    problem = cp.Problem(cp.Maximize(form), [loads <= 1])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return np.array(unknowns.value)


@pytest.mark.parametrize(
    "objective",
    [
        fo.AlphaFair(0.5),
        fo.AlphaFair(1),
        fo.AlphaFair(1.5),
        fo.AlphaFair(3, fo.Tasks()),
        fo.OrderedWeighted((3, 2, 1)),
        fo.FairnessEfficiency(2, -0.5),
        fo.FairnessEfficiency(2, -1),
        fo.FairnessEfficiency(0.5, 1.5),
    ],
    ids=repr,
)
def test_the_solver_form_has_the_optimum_of_the_expression(objective):
    answers = []
    for kind in ("expression", "solver_form"):
        unknowns = cp.Variable(3, nonneg=True)
        model = fo.Model(WEIGHTED, unknowns)
        answers.append(best(WEIGHTED, getattr(objective, kind)(model), unknowns, model.loads))
    one, other = (objective.value(Point(WEIGHTED, np.maximum(a, 0)[:, None])) for a in answers)
    assert one == pytest.approx(other, rel=1e-8)
    if not isinstance(objective, fo.OrderedWeighted):  # whose optimum is not unique
        assert_allclose(*answers, rtol=2e-4)


NUMBERS = [o for o in OBJECTIVES + TRANSFORMED if not isinstance(o, fo.Leximin)]


@given(objective=st.sampled_from(NUMBERS), at=placed(), data=st.data())
def test_the_solver_form_orders_points_as_the_value_does(objective, at, data):
    instance, tasks = at
    factors = np.reshape(data.draw(st.lists(st.floats(0.1, 4), min_size=tasks.size, max_size=tasks.size)), tasks.shape)
    pairs, values, forms = Pairs(instance), [], []
    unknowns = cp.Variable(len(pairs))
    form = objective.solver_form(fo.Model(instance, unknowns))
    if form is None:
        return
    for t in (tasks, tasks * factors):
        unknowns.value = t[pairs.user, pairs.server]
        values.append(objective.value(Point(instance, t)))
        forms.append(float(form.value))
    rise, form_rise = values[1] - values[0], forms[1] - forms[0]
    if abs(rise) > 1e-7 * max(abs(v) for v in values):
        assert form_rise * rise > 0


# -- algebra ---------------------------------------------------------------------------------------------------------


def test_objectives_add_and_multiply_by_numbers_from_either_side():
    mine = fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks())
    assert mine == fo.AlphaFair(1) + fo.Total(fo.Tasks()) * 0.1
    assert repr(mine) == "AlphaFair(1) + 0.1 * Total(Tasks())"
    assert 2 * (fo.Total() + 3 * fo.MaxMin()) == 2 * fo.Total() + 6 * fo.MaxMin()


def test_the_builtin_sum_adds_objectives():
    assert sum([fo.Total(), fo.MaxMin(), fo.AlphaFair(1)]) == fo.Total() + fo.MaxMin() + fo.AlphaFair(1)
    assert sum([fo.Total()]) == fo.Total()


@pytest.mark.parametrize("number", [np.float64(0.5), np.float32(0.5), np.int64(2), np.array(0.5)], ids=repr)
def test_a_numpy_scalar_on_the_left_does_not_swallow_the_operator(number):
    product = number * fo.Total()
    assert isinstance(product, fo.Objective)
    assert product == float(number) * fo.Total()
    assert product == fo.Total() * number


@pytest.mark.parametrize("level", [np.float64(3), np.int64(3), 3])
def test_a_level_may_stand_on_either_side(level):
    assert (fo.Total() >= level) == (level <= fo.Total())
    assert isinstance(level <= fo.Total(), fo.Constraint)


@pytest.mark.parametrize("factor", [-1, -1e-300, math.nan, math.inf, "x", None, [1, 2], np.array([1.0, 2.0]), 1j])
def test_a_factor_is_a_finite_number_from_0(factor):
    with pytest.raises(fo.errors.InvalidBlock, match=r"factor of Total\(\) is"):
        factor * fo.Total()


def test_a_sum_with_factor_zero_leaves_that_part_out():
    a = fo.Policy(fo.Total(fo.Tasks()) + 0 * fo.AlphaFair(2)).allocate(POOL)
    assert_allclose(a.tasks, [0, 25], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: fo.Total() - fo.MaxMin(),
        lambda: fo.Leximin() - fo.Total(),
        lambda: fo.Total() - 1,
        lambda: 1 - fo.Total(),
        lambda: -fo.Total(),
    ],
    ids=["a - b", "order - a", "a - 1", "1 - a", "-a"],
)
def test_nothing_is_subtracted(wrong):
    with pytest.raises(fo.errors.InvalidBlock, match=r"objectives are maximised, .* Fix: bound what should be small"):
        wrong()


def test_the_fix_for_a_difference_is_a_concave_function_that_solves():
    with pytest.raises(fo.errors.InvalidBlock, match=r"a difference of Total\(\) and MaxMin\(\) is no objective"):
        fo.Total() - fo.MaxMin()
    with pytest.raises(fo.errors.InvalidBlock, match=r"a negative multiple of Total\(\) is no objective"):
        -fo.Total()
    fixed = fo.Policy(lambda model: cp.sum(model.tasks) - cp.sum_squares(model.tasks))
    assert_allclose(fixed.allocate(POOL).tasks, 0.5, rtol=1e-5)  # x - x^2 is largest at 1/2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda o: o + fo.Total(),
        lambda o: fo.Total() + o,
        lambda o: 2 * o,
        lambda o: o * 2,
        lambda o: o >= 1,
        lambda o: o >= 1,
        lambda o: sum([fo.Total(), o]),
        lambda o: fo.Total() + (fo.Total() + o),
        lambda o: o + o,
    ],
)
@pytest.mark.parametrize("order", [fo.Leximin(), fo.MaxMin().then(fo.Total())], ids=["leximin", "tiers"])
def test_orders_are_no_numbers_and_say_so(order, wrong):
    with pytest.raises(fo.errors.InvalidBlock, match="order, not a number"):
        wrong(order)


@pytest.mark.parametrize("level", [math.nan, "x", None, fo.Total(), [1, 2], 1j])
def test_a_level_is_a_number(level):
    with pytest.raises(fo.errors.InvalidBlock, match=r"level of Total\(\)"):
        _ = fo.Total() >= level


@pytest.mark.parametrize("level", [math.inf, -math.inf])
def test_an_infinite_level_is_refused(level):
    with pytest.raises(fo.errors.InvalidBlock, match="level"):
        _ = fo.Total() >= level


def test_then_chains_into_one_list_of_tiers():
    a, b, c = fo.MaxMin(), fo.Total(), fo.AlphaFair(1)
    assert a.then(b).then(c) == a.then(b.then(c))


@pytest.mark.parametrize("other", [3, None, "Total()", fo.Tasks(), fo.MinShare(0.1), fo.Total])
def test_then_takes_an_objective(other):
    with pytest.raises(fo.errors.InvalidBlock, match=r"then\(.*give an objective"):
        fo.MaxMin().then(other)


# -- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [-1, -1e-12, math.inf, -math.inf, math.nan, "x", None, [1], 1j, np.array([1.0, 2.0])])
def test_alpha_is_a_finite_number_from_0(alpha):
    with pytest.raises(fo.errors.InvalidBlock, match=r"^alpha is"):
        fo.AlphaFair(alpha)


def test_alpha_infinity_is_sent_to_leximin():
    with pytest.raises(fo.errors.InvalidBlock, match="Leximin"):
        fo.AlphaFair(math.inf)


@pytest.mark.parametrize("name", ["FDS", "GFJ"])
@pytest.mark.parametrize("alpha", [-1, math.nan, math.inf])
def test_families_refuse_what_their_blocks_refuse(name, alpha):
    with pytest.raises(fo.errors.InvalidBlock, match="alpha is"):
        getattr(fo, name)(alpha)


@pytest.mark.parametrize(
    "arguments", [{}, {"beta": 2}, {"lam": 1}, {"alpha": 1, "beta": 2, "lam": -1}, {"alpha": 1, "lam": 1}]
)
@pytest.mark.parametrize("family", [fo.FDS, fo.GFJ, lambda **k: fo.PNormFairness(1, **k)], ids=["FDS", "GFJ", "p-norm"])
def test_families_take_alpha_or_beta_and_lam(family, arguments):
    with pytest.raises(fo.errors.InvalidBlock, match="either alpha, or beta and lam together"):
        family(**arguments)


@pytest.mark.parametrize(
    ("beta", "lam"), [(math.nan, 1), (2, math.nan), (math.inf, -1), (2, -math.inf), ("x", -1), (2, None)]
)
def test_beta_and_lam_are_finite_numbers(beta, lam):
    with pytest.raises(fo.errors.InvalidBlock, match=r"^(beta|lam) is"):
        fo.FairnessEfficiency(beta, lam)


def test_beta_0_is_undefined():
    with pytest.raises(fo.errors.InvalidBlock, match=r"beta is 0.*undefined"):
        fo.FairnessEfficiency(0, 1)


@pytest.mark.parametrize("lam", [0, -1])
def test_beta_1_has_no_optimum_without_emphasis_on_efficiency(lam):
    with pytest.raises(fo.errors.InvalidBlock, match=r"beta = 1.*lam > 0.*AlphaFair\(1\)"):
        fo.FairnessEfficiency(1, lam)


@pytest.mark.parametrize(
    ("beta", "lam", "fix"), [(2, 0.1, "lam <= 0"), (0.5, -0.1, "lam >= 0"), (-1, -0.1, "lam >= 0")]
)
def test_negative_emphasis_has_no_optimum(beta, lam, fix):
    with pytest.raises(fo.errors.InvalidBlock, match=f"no optimum.*{fix}"):
        fo.FairnessEfficiency(beta, lam)


def test_beta_1_maximises_the_sum_of_shares():
    one, other = (fo.Policy(o).allocate(POOL) for o in (fo.FairnessEfficiency(1, 2, fo.Tasks()), fo.Total(fo.Tasks())))
    assert_allclose(one.tasks, other.tasks, rtol=1e-6, atol=1e-6)
    assert one.objective == pytest.approx(2 * 25**2, rel=1e-6)


@pytest.mark.parametrize(
    ("beta", "lam", "region"),
    [
        (2, -0.25, r"lam <= -0\.5 at beta = 2"),
        (2, 0, r"lam <= -0\.5"),
        (0.5, 0.5, r"lam >= 1 at beta = 0\.5"),
        (0.5, 0, "lam >= 1"),
        (-1, 1, "beta > 0"),
        (-1, 0, "beta > 0"),
    ],
)
def test_outside_its_concave_region_the_measure_cannot_be_written_as_a_problem(beta, lam, region):
    with pytest.raises(fo.errors.NotConcave, match=region):
        fo.GFJ(beta=beta, lam=lam).problem(POOL)
    with pytest.raises(fo.errors.NotConcave, match=region):
        fo.Policy(fo.FairnessEfficiency(beta, lam) + fo.Total()).allocate(POOL)


@pytest.mark.parametrize(
    "use",
    [
        lambda f: fo.Policy(f + fo.Total()),
        lambda f: fo.Policy(2 * f + 0 * fo.Total() + fo.MaxMin()),
        lambda f: fo.Policy(fo.Total(), [f >= 0.1]),
        lambda f: fo.Policy(fo.Total(), [2 * f >= 0.1]),
    ],
)
@pytest.mark.parametrize(("beta", "lam"), [(0.5, 2), (1, 0.5)])
def test_up_to_beta_1_the_measure_stands_alone_only(use, beta, lam):
    with pytest.raises(fo.errors.NotConcave, match="stand alone"):
        use(fo.FairnessEfficiency(beta, lam)).allocate(POOL)


@pytest.mark.parametrize(
    "weights",
    [(1, 2), (0,), (0, 0), (), (1, -1), (math.nan,), (math.inf, 1), "ab", None, [[1, 1], [1, 1]], (1, 1, 1.0000001)],
)
def test_ordered_weights_fall_are_not_negative_and_not_all_zero(weights):
    with pytest.raises(fo.errors.InvalidBlock, match="OrderedWeighted"):
        fo.OrderedWeighted(weights)


# -- an objective of one's own ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    factor: float = 1.0

    def expression(self, model):
        return self.factor * cp.sum(cp.sqrt(model.tasks))


def test_an_objective_of_ones_own_needs_one_method():
    a = fo.Policy(Roots()).allocate(fo.Instance([[1], [1]], [4]))
    assert_allclose(a.tasks, [2, 2], rtol=1e-4)
    assert a.objective == pytest.approx(2 * math.sqrt(2), rel=1e-6)
    assert a.certificate.ok


def test_an_objective_of_ones_own_joins_sums_levels_and_tiers():
    instance = fo.Instance([[1], [1]], [4])
    assert_allclose(fo.Policy(Roots() + fo.AlphaFair(1)).allocate(instance).tasks, [2, 2], rtol=1e-3)
    level = fo.Policy(fo.Total(fo.PNormShare(1)), [Roots() >= 2.8]).allocate(instance)
    assert np.sqrt(level.tasks).sum() >= 2.8 * (1 - 1e-6)
    tiers = fo.Policy(Roots().then(fo.Total())).allocate(instance)
    assert np.sqrt(tiers.tasks).sum() >= 2 * math.sqrt(2) * (1 - 1e-6)


def test_an_objective_without_expression_says_what_to_write():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Nothing(fo.Objective):
        pass

    with pytest.raises(fo.errors.InvalidBlock, match="Nothing has no expression"):
        fo.Policy(Nothing()).allocate(POOL)


@dataclasses.dataclass(frozen=True, repr=False)
class Squares(fo.Objective):
    def expression(self, model):
        return cp.sum_squares(model.tasks)


@pytest.mark.parametrize("objective", [Squares(), fo.Total() + Squares()], ids=repr)
def test_an_objective_that_is_not_concave_is_refused_by_name(objective):
    with pytest.raises(fo.errors.NotConcave, match=r"Squares\(\).*not concave"):
        fo.Policy(objective).allocate(POOL)


@dataclasses.dataclass(frozen=True, repr=False)
class Endless(fo.Objective):
    def expression(self, model):
        return cp.sum(model.tasks) + cp.Variable(name="free")


def test_an_objective_that_grows_without_end_is_unbounded():
    with pytest.raises(fo.errors.Unbounded, match="Endless"):
        fo.Policy(Endless()).allocate(POOL)


def test_powers_that_overflow_do_not_make_the_measure_infinite() -> None:
    cluster = fo.Instance([[1], [1]], [11], task_limits=[10, 1e-3])
    found = fo.GFJ(beta=500, lam=-1).allocate(cluster)
    by_hand = -((10.001 / 1e-3) ** (499 / 500)) / 10.001  # the power of the smaller share alone counts
    assert found.objective == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize("peak", [1.0, 3.0])
def test_the_unit_of_gaps_does_not_vanish_where_an_objective_peaks(peak: float) -> None:
    near = fo.blocks.InlineObjective(lambda model: -cp.sum_squares(model.tasks - peak))
    point = Point(fo.Instance([[1.0]], [10.0]), np.array([[peak]]))
    assert near.drop(point) == pytest.approx(peak**2 / 4)  # from the peak to half of it


def test_the_unit_of_gaps_of_increasing_objectives_is_at_most_their_slope() -> None:
    steep = fo.blocks.InlineObjective(lambda model: -cp.sum(cp.power(model.tasks, -20)))
    point = Point(fo.Instance([[1.0]], [10.0]), np.array([[1.0]]))
    assert steep.drop(point) == pytest.approx(20, rel=0.01)
